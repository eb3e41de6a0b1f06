"""A training loop of one's own: the loss takes the place of nn.CrossEntropyLoss, and targets that of labels."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)

torch.manual_seed(0)
network = torch.nn.Linear(64, 10)
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
loss = ChannelLoss(release)
rows = TensorDataset(images[:1500], torch.from_numpy(release.targets()))
for _ in range(20):
    for features, targets in DataLoader(rows, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss(network(features), targets).backward()
        optimizer.step()

correct = network(images[1500:]).argmax(dim=1).numpy() == digits[1500:]
print(f"accuracy {correct.mean():.3f}")
