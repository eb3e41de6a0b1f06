"""Cost of a loss under a channel for a network, beside PyTorch's cross entropy on true labels.

    OMP_NUM_THREADS=1 python benchmarks/torch_losses.py
    OMP_NUM_THREADS=1 python benchmarks/torch_losses.py --rows 600 --rounds 3      a quick look

All contestants train the same network for an epoch on the same images, in turns; a ratio is the median over rounds of
the time of an epoch over that of cross entropy in the same round. Cross entropy runs in a plain loop without labeldp.
Times are processor times on one thread, so that other load disturbs them little. Images and labels are random, since
times do not depend on them.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse, Release, SubsetResponse
from labeldp.learning.torch import (
    NETWORK_METHODS,
    SCHEDULES,
    ChannelLoss,
    NetworkMethod,
    ReleasedRows,
    Run,
    SingleDevice,
    TrainingSettings,
    convolutional,
)

EPSILON = 1.0
BATCH = 256
RATE = 0.01


def cross_entropy_epoch(module: nn.Module, images: np.ndarray, labels: np.ndarray) -> Callable[[], object]:
    """An epoch on true labels in a plain PyTorch loop."""
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE, momentum=0.9, weight_decay=1e-4)
    rng, targets = np.random.default_rng(0), torch.from_numpy(labels)

    def epoch() -> None:
        module.train()
        for rows in np.array_split(rng.permutation(len(labels)), -(-len(labels) // BATCH)):
            batch = torch.from_numpy(images[rows]).float() / 255
            loss = nn.functional.cross_entropy(module(batch), targets[torch.from_numpy(rows)])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return epoch


def released_epoch(
    module: nn.Module, images: np.ndarray, release: Release, method: NetworkMethod
) -> Callable[[], object]:
    """An epoch of ``TorchClassifier`` on a release."""
    course = TrainingSettings(
        epochs=1 << 20,
        batch_size=BATCH,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=RATE, momentum=0.9, weight_decay=1e-4),
        schedule=SCHEDULES["constant"],
        mixup=0.0,
        augment=None,
        averaging=0.0,
        patience=None,
        seed=0,
        channels_last=False,
    )
    loss = ChannelLoss(release, method, reduction="none")
    rows = ReleasedRows(images, release, loss)
    return Run.start(module, rows, loss, np.arange(len(rows)), None, course, SingleDevice(torch.device("cpu"))).epoch


def releases(labels: np.ndarray, classes: int) -> dict[str, Release]:
    """The labels through a channel of each kind: one class, a set, and candidates."""
    space = Classes(range(classes))
    prior = np.random.default_rng(0).dirichlet(np.full(classes, 0.3), len(labels))
    randomizers = {
        "randomized response": RandomizedResponse(space, EPSILON),
        "subset": SubsetResponse(space, EPSILON),
        "candidates": PriorResponse(space, EPSILON, prior),
    }
    curator = Curator(labels, space, budget=len(randomizers) * EPSILON + 1e-6)
    return {name: curator.randomize(randomizer) for name, randomizer in randomizers.items()}


def comparison(rows: int, classes: int, rounds: int) -> Table:
    """Every channel and method beside cross entropy, in turns."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (rows, 1, 28, 28)).astype(np.uint8)
    labels = rng.integers(0, classes, rows)
    epochs = {("true labels", "cross entropy"): cross_entropy_epoch(convolutional(classes), images, labels)}
    for name, release in releases(labels, classes).items():
        for method in NETWORK_METHODS:
            epochs[name, method] = released_epoch(convolutional(classes), images, release, method)
    seconds: dict[tuple[str, str], list[float]] = {case: [] for case in epochs}
    for turn in range(-1, rounds):
        for case, epoch in epochs.items():
            start = time.process_time()
            epoch()
            if turn >= 0:
                seconds[case].append(time.process_time() - start)
    base = seconds["true labels", "cross entropy"]
    table = Table("labels", "loss", "seconds", "x cross entropy", "range", title=f"{rows:,} images, {classes} classes")
    for case, durations in seconds.items():
        ratios = [one / other for one, other in zip(durations, base, strict=True)]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        table.add_row(*case, f"{statistics.median(durations):.3g}", f"{statistics.median(ratios):.3g}", spread)
    return table


def main() -> None:
    """Measure and print a table for each number of classes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--classes", type=int, nargs="*", default=[10, 1000])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for classes in arguments.classes:
        Console(width=120).print(comparison(arguments.rows, classes, arguments.rounds))


if __name__ == "__main__":
    main()
