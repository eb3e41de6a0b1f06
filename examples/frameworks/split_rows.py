"""Rows held out by random_split: the loss on their released labels says when to stop, and costs nothing."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset, random_split

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

images, digits = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32)
release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)

torch.manual_seed(0)
network, loss, best = torch.nn.Linear(64, 10), ChannelLoss(release), (float("inf"), {})
optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
fit, held = random_split(TensorDataset(images[:1500], torch.from_numpy(release.targets())), [0.8, 0.2])
held_features, held_targets = held[:]
for _ in range(30):
    for features, targets in DataLoader(fit, batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss(network(features), targets).backward()
        optimizer.step()
    if (found := loss(network(held_features), held_targets).item()) < best[0]:
        best = found, {name: weight.clone() for name, weight in network.state_dict().items()}

network.load_state_dict(best[1])
print(f"accuracy {(network(images[1500:]).argmax(dim=1).numpy() == digits[1500:]).mean():.3f}")
