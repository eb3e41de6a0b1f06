"""Accelerate prepares network, optimizer and loader; with several processes, let each Release.load what was saved."""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)

torch.manual_seed(0)
accelerator, loss = Accelerator(mixed_precision="bf16"), ChannelLoss(release)
network = torch.nn.Linear(64, 10)
rows = TensorDataset(images[:1500], torch.from_numpy(release.targets()))
network, optimizer, loader = accelerator.prepare(
    network, torch.optim.Adam(network.parameters(), lr=0.01), DataLoader(rows, batch_size=64, shuffle=True)
)
for _ in range(20):
    for features, targets in loader:
        optimizer.zero_grad()
        accelerator.backward(loss(network(features), targets))
        optimizer.step()

correct = network(images[1500:].to(accelerator.device)).argmax(dim=1).cpu().numpy() == digits[1500:]
print(f"accuracy {correct.mean():.3f}")
