"""Peer exchange: seconds of its privacy accounting by cluster size, and of a draw, in one run.

python benchmarks/peers.py
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from labeldp import PeerExchange
from labeldp._random_words import SecureWords
from labeldp.mechanisms.queries import exchange


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """The median time of a few rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def accounts() -> Table:
    """One guarantee at delta 1/n**2, with the epsilon of collusion, for each size and each way of sampling."""
    table = Table(title="seconds for a guarantee (epsilon)")
    table.add_column("rows of the cluster", justify="right")
    ways = {
        "all rows": (0.05, 1.0, "fixed"),
        "half, fixed": (0.05, 0.5, "fixed"),
        "half, random": (0.05, 0.5, "random"),
    }
    ways["all rows, flip 0.45"] = (0.45, 1.0, "fixed")
    for name in ways:
        table.add_column(name, justify="right")
    for size in (1_000, 10_000, 100_000):
        cells = []
        for flip, subsample, sampling in ways.values():
            peers = PeerExchange(flip, subsample, sampling)
            start = time.perf_counter()
            epsilon = peers.guarantee([size], 1 / size**2).epsilon
            cells.append(f"{time.perf_counter() - start:.3g} ({epsilon:.4g})")
        table.add_row(f"{size:,}", *cells)
    return table


def draws() -> Table:
    """A whole exchange, beside the bare random words that it uses."""
    table = Table(title="seconds for a draw, half of the rows released, clusters of about a thousand")
    for name in ("users", "random", "fixed", "words alone"):
        table.add_column(name, justify="right")
    rng = np.random.default_rng(0)
    for users in (10_000, 100_000, 1_000_000):
        codes, clusters = rng.integers(0, 2, users), rng.integers(0, users // 1000, users)
        cells = [
            seconds(lambda s=s, y=codes, c=clusters: exchange(y, c, PeerExchange(0.05, 0.5, s), SecureWords()))
            for s in ("random", "fixed")
        ]
        cells.append(seconds(lambda n=users: SecureWords().block(0, 3 * n)))
        table.add_row(f"{users:,}", *(f"{cell:.3g}" for cell in cells))
    return table


if __name__ == "__main__":
    Console(width=140).print(accounts(), draws())
