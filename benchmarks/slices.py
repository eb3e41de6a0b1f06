"""Slices of a release a second, as loops over batches and folds of cross-validation take them.

    OMP_NUM_THREADS=1 python benchmarks/slices.py
    OMP_NUM_THREADS=1 python benchmarks/slices.py --rows 100000 --slices 20      a quick look

Random rows of a release of labels by randomized response, in processor time on one thread; beside it NumPy takes the
same rows of a bare array of labels. The first slice is apart from the others, since it computes what all of them share.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from labeldp import Classes, Curator, RandomizedResponse

BATCH = 256


def milliseconds(take: Callable[[np.ndarray], object], chosen: list[np.ndarray]) -> list[float]:
    """Processor time of each slice."""
    durations = []
    for rows in chosen:
        start = time.process_time()
        take(rows)
        durations.append(1000 * (time.process_time() - start))
    return durations


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--slices", type=int, default=200)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    space = Classes(range(10))
    labels = rng.integers(0, 10, arguments.rows)
    release = Curator(labels, space).randomize(RandomizedResponse(space, 1.0))
    chosen = [rng.integers(0, arguments.rows, BATCH) for _ in range(arguments.slices)]
    takes = {"release": lambda rows: release[rows], "NumPy array": partial(labels.take, axis=0)}
    table = Table("slices of", "first, ms", "later, ms each", "later, a second", title=f"{arguments.rows:,} rows")
    for name, take in takes.items():
        durations = milliseconds(take, chosen)
        later = sum(durations[1:]) / len(durations[1:])
        table.add_row(name, f"{durations[0]:.3g}", f"{later:.3g}", f"{1000 / max(later, 1e-6):,.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
