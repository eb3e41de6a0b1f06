"""Cells of features, and answers about them, beside scikit-learn: processor seconds by rows, columns and cells.

    OMP_NUM_THREADS=1 python benchmarks/cells.py                 a hundred thousand and a million rows
    OMP_NUM_THREADS=1 python benchmarks/cells.py --rows 10000000

A tree of cells stands beside ``DecisionTreeRegressor`` with as many leaves, which looks at labels as a tree of cells
never does, and a grid beside ``KBinsDiscretizer`` with uniform bins. The two sides take turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.tree import DecisionTreeRegressor

from labeldp import Curator, Interval, NoisyMean, NoisyQuantile
from labeldp.learning.cells import grid_cells, tree_cells

SPACE = Interval(-8, 8, 0.01)
SHAPES = ((2, 100), (2, 10_000), (20, 100), (20, 10_000))


def seconds(rounds: int, *jobs: Callable[[], object]) -> list[float]:
    """Median processor seconds of each job; the jobs take turns."""
    durations: list[list[float]] = [[] for _ in jobs]
    for _ in range(rounds):
        for times, job in zip(durations, jobs, strict=True):
            start = time.process_time()
            job()
            times.append(time.process_time() - start)
    return [statistics.median(times) for times in durations]


def table_row(rows: int, columns: int, cells: int, rounds: int) -> list[str]:
    """A row of the table: medians of a few rounds."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, columns))
    labels = np.clip(features[:, 0] + rng.normal(size=rows), -8, 8)
    leaves = DecisionTreeRegressor(max_leaf_nodes=cells, min_samples_leaf=max(1, rows // (2 * cells)), random_state=0)
    tree = tree_cells(features, cells)
    leaves.fit(features, labels)
    side = round(cells ** (1 / 2))
    bins = KBinsDiscretizer(side, encode="ordinal", strategy="uniform", subsample=None)
    curator = Curator(labels, SPACE, budget=700.0)
    medians = seconds(
        rounds,
        lambda: tree_cells(features, cells),
        lambda: leaves.fit(features, labels),
        lambda: tree.predict(features),
        lambda: leaves.apply(features),
        lambda: grid_cells(features, [side, side] + [1] * (columns - 2)),
        lambda: bins.fit_transform(features[:, :2]),
        lambda: curator.answer(NoisyMean(SPACE, 1.0, tree)),
        lambda: curator.answer(NoisyQuantile(SPACE, 1.0, 0.5, tree)),
    )
    names = (f"{rows:,}", str(columns), f"{cells:,}")
    ratios = (f"{medians[i]:.3g} ({medians[i] / medians[i + 1]:.2f})" for i in (0, 2, 4))
    return [*names, *ratios, *(f"{each:.3g}" for each in medians[6:])]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="by default a hundred thousand and a million")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    NoisyMean(SPACE, 1.0)
    Curator([0.0], SPACE).answer(NoisyMean(SPACE, 1.0))  # loads what is loaded lazily
    table = Table(title=f"processor seconds (ratio to scikit-learn), medians of {arguments.rounds}")
    for name in ("rows", "columns", "cells", "tree", "find in tree", "grid", "noisy means", "noisy medians"):
        table.add_column(name, justify="right")
    for rows in [arguments.rows] if arguments.rows else [10**5, 10**6]:
        for columns, cells in SHAPES:
            table.add_row(*table_row(rows, columns, cells, arguments.rounds))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
