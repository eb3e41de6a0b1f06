"""Nearest neighbours on released numbers beside scikit-learn's on public labels, by n, d and k.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/neighbours.py
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/neighbours.py --rows 1000000

Uniform features, labels of one of them, released by one bit at epsilon 1. Both learners predict the same points with
the same number of neighbours and search all distances; scikit-learn's gets public labels. Medians of rounds in turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits

from labeldp import Curator, Interval, OneBitResponse
from labeldp.learning.sklearn import NeighborsRegressor

SPACE = Interval(0.0, 1.0, 0.01)


def seconds(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def prediction_seconds(rows: int, columns: int, k: int, points: int, rounds: int) -> tuple[float, float]:
    """Median seconds to predict new points: by released numbers, and by scikit-learn on public labels."""
    random = np.random.default_rng(0)
    features, fresh = random.random((rows, columns)), random.random((points, columns))
    release = Curator(features[:, 0], SPACE).randomize(OneBitResponse(SPACE, 1.0))
    ours = NeighborsRegressor(k=k).fit(features, release)
    theirs = KNeighborsRegressor(k, algorithm="brute").fit(features, features[:, 0])
    times: tuple[list[float], list[float]] = ([], [])
    with threadpool_limits(1):
        for _ in range(rounds):
            for model, durations in zip((ours, theirs), times, strict=True):
                durations.append(seconds(lambda model=model: model.predict(fresh)))
    return statistics.median(times[0]), statistics.median(times[1])


def choice_of_k(rows: int, columns: int) -> tuple[float, int]:
    """Seconds of a fit that chooses the number of neighbours, and that number."""
    features = np.random.default_rng(1).random((rows, columns))
    release = Curator(features[:, 0], SPACE).randomize(OneBitResponse(SPACE, 1.0))
    model = NeighborsRegressor()
    duration = seconds(lambda: model.fit(features, release))
    return duration, model.k_


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = Table("rows", "columns", "k", title=f"seconds to predict {arguments.points:,} points")
    for heading in ("labeldp", "scikit-learn", "ratio"):
        table.add_column(heading, justify="right")
    usual = (arguments.rows, 20, 1000)
    cases = [
        usual,
        (arguments.rows // 4, 20, 1000),
        (arguments.rows, 5, 1000),
        (arguments.rows, 20, 100),
        (arguments.rows, 20, 4000),
    ]
    for rows, columns, k in cases:
        ours, theirs = prediction_seconds(rows, columns, k, arguments.points, arguments.rounds)
        table.add_row(f"{rows:,}", str(columns), f"{k:,}", f"{ours:.3g}", f"{theirs:.3g}", f"{ours / theirs:.2f}")
    console = Console(width=120)
    console.print(table)
    duration, k = choice_of_k(arguments.rows // 10, 20)
    console.print(f"choosing k with {arguments.rows // 10:,} rows, 20 columns: {duration:.3g} s, k = {k:,}")


if __name__ == "__main__":
    main()
