"""Processes that load batches, as for images that are read from a disk: a data set returns features and targets."""

import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, StackDataset

from labeldp import Classes, Curator
from labeldp.learning.torch import ChannelLoss

if __name__ == "__main__":  # loading processes may import this file
    images, digits = load_digits(return_X_y=True)
    images = torch.tensor(images / 16, dtype=torch.float32)
    release = Curator(digits[:1500], Classes(range(10))).randomize(epsilon=4.0)

    torch.manual_seed(0)
    network, loss = torch.nn.Linear(64, 10), ChannelLoss(release)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    rows = StackDataset(features=images[:1500], targets=release.targets())
    loader = DataLoader(rows, batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(20):
        for batch in loader:
            optimizer.zero_grad()
            loss(network(batch["features"]), batch["targets"]).backward()
            optimizer.step()

    correct = network(images[1500:]).argmax(dim=1).numpy() == digits[1500:]
    print(f"accuracy {correct.mean():.3f}")
