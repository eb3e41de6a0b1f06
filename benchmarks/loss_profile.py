"""The privacy-loss profile of many rows, beside scikit-learn's neighbours and a plain NumPy loop in the same run.

    python benchmarks/loss_profile.py
    python benchmarks/loss_profile.py --rows 100000 --evaluated 5000

Normal features; labels drawn by a logistic model of two of them and declared public. All three contestants sum the
labels of the k nearest of the same rows; the loop handles fewer of them, and times per row are compared. Then a whole
profile is timed: neighbours, intervals and curves of three flip probabilities.
"""

import argparse
import os
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from labeldp import Classes, Release
from labeldp.audit import Neighbourhood, loss_profile
from labeldp.audit.attacks import neighbour_sums


def seconds(run: Callable[[], object]) -> tuple[float, object]:
    """Seconds that a call takes, and its result."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


def by_sklearn(features: np.ndarray, rows: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Sums of labels by a query of scikit-learn's exact index, in single precision, all threads."""
    index = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(features.astype(np.float32))
    with threadpool_limits(os.cpu_count()):
        near = index.kneighbors(features[rows].astype(np.float32), return_distance=False)
    return labels[near[:, 1:]].sum(axis=1)


def by_numpy(features: np.ndarray, rows: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Sums of labels by one row after the other, on one thread."""
    sums = []
    for row in rows:
        distances = ((features - features[row]) ** 2).sum(axis=1)
        distances[row] = np.inf
        sums.append(labels[np.argpartition(distances, k - 1)[:k]].sum())
    return np.array(sums)


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=18)
    parser.add_argument("--evaluated", type=int, default=20_000)
    parser.add_argument("--compared", type=int, default=2000, help="evaluated rows in the comparison")
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    features = random.normal(size=(arguments.rows, arguments.columns))
    labels = random.random(arguments.rows) < 1 / (1 + np.exp(-2 * features[:, 0] - features[:, 1]))
    release = Release.public(labels, Classes([False, True]))
    rows = random.permutation(arguments.rows)[: arguments.compared]
    compared = Table("k", title=f"milliseconds for each evaluated row, {arguments.rows:,} x {arguments.columns} rows")
    for heading in ("labeldp", "scikit-learn", "ratio", "NumPy loop", "ratio", "sums differ"):
        compared.add_column(heading, justify="right")
    whole = Table("k", "evaluated", "seconds", "beyond epsilon at 0.01", title="whole profile")
    console, values = Console(width=110), labels.astype(float)[:, None]
    few = rows[: max(1, len(rows) // 10)]
    for k in (1000, 10_000):
        if k >= arguments.rows:
            continue
        with threadpool_limits(1, user_api="blas"):
            ours, sums = seconds(lambda k=k: neighbour_sums(features, rows, values, k))
        theirs, others = seconds(lambda k=k: by_sklearn(features, rows, labels, k))
        loop, plain = seconds(lambda k=k: by_numpy(features, few, labels, k))
        differ = f"{(sums[:, 0] != others).sum()}, {(sums[: len(few), 0] != plain).sum()}"
        each = [1000 * ours / len(rows), 1000 * theirs / len(rows), 1000 * loop / len(few)]
        cells = [f"{each[0]:.2f}", f"{each[1]:.2f}", f"{each[1] / each[0]:.1f}"]
        compared.add_row(f"{k:,}", *cells, f"{each[2]:.1f}", f"{each[2] / each[0]:.1f}", differ)
    console.print(compared)
    for k in (1000, 10_000):
        if k >= arguments.rows:
            continue
        with threadpool_limits(1, user_api="blas"):
            duration, profile = seconds(
                lambda k=k: loss_profile(features, release, rows=arguments.evaluated, neighbourhood=Neighbourhood(k))
            )
        share = profile.of(0.01).beyond
        whole.add_row(f"{k:,}", f"{profile.evaluated:,}", f"{duration:.1f}", f"{share.lower:.3f} to {share.upper:.3f}")
    console.print(whole)


if __name__ == "__main__":
    main()
