"""Cost of ``ChannelLoss`` in a loop of one's own, beside PyTorch's cross entropy on true labels.

    OMP_NUM_THREADS=1 python benchmarks/channel_loss.py
    OMP_NUM_THREADS=1 python benchmarks/channel_loss.py --rounds 20 --rows 100000      a quick look

All contestants make one step each of the same network on batches of 256 rows, in turns: forward, backward and Adam. A
ratio is the median over rounds of the time of a step over that of cross entropy in the same round, in processor time on
one thread; the batches of "with a loader" come from a DataLoader over tensors. Memory is that of the targets of all
rows, and the peak of NumPy while they are made, as bytes for each row; an epoch adds a batch to it.
"""

import argparse
import itertools
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from labeldp import Classes, Curator, PriorResponse, RandomizedResponse, Release, SubsetResponse
from labeldp.learning.torch import ChannelLoss, convolutional, mlp

EPSILON, BATCH, COLUMNS = 1.0, 256, 100
NETWORKS = {
    "perceptron": (lambda classes: mlp(COLUMNS, classes), (COLUMNS,)),
    "convolutional": (convolutional, (1, 28, 28)),
}


def releases(rows: int, classes: int) -> tuple[np.ndarray, dict[str, Release]]:
    """Labels of each row, and the same ones through a channel of each kind: one class, a set, and candidates."""
    rng, space = np.random.default_rng(0), Classes(range(classes))
    labels = rng.integers(0, classes, rows)
    randomizers = {
        "randomized response": RandomizedResponse(space, EPSILON),
        "subset": SubsetResponse(space, EPSILON),
        "candidates": PriorResponse(space, EPSILON, rng.dirichlet(np.full(classes, 0.3), rows)),
    }
    curator = Curator(labels, space, budget=len(randomizers) * EPSILON + 1e-6)
    return labels, {name: curator.randomize(randomizer) for name, randomizer in randomizers.items()}


def step(network: nn.Module, loss: Callable[..., Tensor], batches: Iterator[Any]) -> Callable[[], None]:
    """A function that makes the next step."""
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)

    def next_step() -> None:
        features, targets = next(batches)
        optimizer.zero_grad()
        loss(network(features), targets).backward()
        optimizer.step()

    return next_step


def ratios(contestants: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """Processor time of each contestant's steps, in turns, over that of the first; the first's in milliseconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(-3, rounds):
        for name, make_step in contestants.items():
            start = time.process_time()
            make_step()
            if turn >= 0:
                seconds[name].append(time.process_time() - start)
    base = next(iter(seconds.values()))
    found = {name: [one / of for one, of in zip(each, base, strict=True)] for name, each in seconds.items()}
    return found | {next(iter(seconds)): [1000 * each for each in base]}


def steps(classes: int, rounds: int) -> Table:
    """Every network and channel beside cross entropy."""
    labels, released = releases(8 * BATCH, classes)
    targets = {"cross entropy": labels} | {name: release.targets() for name, release in released.items()}
    losses = {"cross entropy": nn.CrossEntropyLoss()} | {name: ChannelLoss(each) for name, each in released.items()}
    table = Table("network", "batches", "cross entropy, ms", *released, title=f"{classes} classes, x cross entropy")
    for name, (make, shape) in NETWORKS.items():
        features = torch.randn(len(labels), *shape)
        for source in ("in memory", "with a loader"):
            contestants = {}
            for loss in losses:
                rows = TensorDataset(features, torch.from_numpy(targets[loss]))
                loader = DataLoader(rows, batch_size=BATCH, shuffle=True)
                epochs = itertools.repeat(loader) if source == "with a loader" else [list(loader)] * rounds
                batches = itertools.chain.from_iterable(epochs)
                contestants[loss] = step(make(classes), losses[loss], batches)
            medians = [f"{statistics.median(each):.3g}" for each in ratios(contestants, rounds).values()]
            table.add_row(name, source, *medians)
    return table


def memory(rows: int, classes: int) -> Table:
    """Bytes of targets for each row."""
    table = Table("labels", "codes, bytes a row", "targets, bytes a row", "peak", title=f"{rows:,} rows")
    for name, release in releases(rows, classes)[1].items():
        tracemalloc.start()
        targets = release.targets()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        table.add_row(name, *(f"{each / rows:.3g}" for each in (release.codes.nbytes, targets.nbytes, peak)))
    return table


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, nargs="*", default=[2, 10, 100])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for classes in arguments.classes:
        Console(width=120).print(steps(classes, arguments.rounds))
    Console(width=120).print(memory(arguments.rows, 10))


if __name__ == "__main__":
    main()
