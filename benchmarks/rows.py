"""Double randomized response beside randomized response and beside a plain NumPy version, by rows, in one run.

    python benchmarks/rows.py                    a million and ten million rows
    python benchmarks/rows.py --rows 1000000

All sides use the same cheap generator, so that the cost of labeldp is measured: the form of rows, random words,
integers, the ledger. The NumPy version compares floats from a seeded generator, and has no form.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

COLUMNS = 4
EPSILON = 1.0


def features_of(codes: np.ndarray) -> pd.DataFrame:
    """Four columns that depend weakly on the class."""
    random = np.random.default_rng()
    return pd.DataFrame({f"x{i}": (random.random(len(codes)) + codes * i / 10).round(3) for i in range(COLUMNS)})


def plain(labels: np.ndarray, features: pd.DataFrame) -> None:
    """Both responses with floats, and no form."""
    random, flip = np.random.default_rng(0), 2 / (np.exp(EPSILON) + 1)
    np.where(random.random(len(labels)) < flip, random.integers(0, 2, len(labels)), labels)
    resampled = random.random(len(labels)) < flip
    released = features.copy()
    released[resampled] = features_of(random.integers(0, 2, int(resampled.sum()))).to_numpy()


def job(what: str, rows: int) -> None:
    """Do one job, and print its seconds and its peak memory beyond the table."""
    labels = np.random.default_rng(0).integers(0, 2, rows)
    features = features_of(labels)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if what == "numpy":
        start = time.perf_counter()
        plain(labels, features)
    else:
        from labeldp import Classes, Curator, DoubleResponse, Form, Generator, RandomizedResponse, Source  # noqa: PLC0415 (not loaded on the other side)

        space = Classes([0, 1])
        Curator([0], space).randomize(RandomizedResponse(space, EPSILON))  # loads what is loaded lazily
        curator = Curator(labels, space)
        form = Form.of(features[:10_000])
        double = DoubleResponse(space, EPSILON, Generator(space, form, Source("public", "made up"), features_of))
        start = time.perf_counter()
        if what == "double":
            curator.randomize_rows(double, features)
        else:
            curator.randomize(RandomizedResponse(space, EPSILON))
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - size)


def table_row(rows: int, rounds: int) -> list[str]:
    """A row of the table: medians of a few rounds in which the sides take turns."""
    results: dict[str, list[list[float]]] = {"response": [], "numpy": [], "double": []}
    for _ in range(rounds):
        for what, runs in results.items():
            command = [sys.executable, __file__, "--job", what, "--rows", str(rows)]
            runs.append([float(part) for part in subprocess.check_output(command, text=True).split()])
    medians = {
        what: [statistics.median(column) for column in zip(*runs, strict=True)] for what, runs in results.items()
    }
    times = [f"{seconds:.3g}" for seconds, _ in medians.values()]
    ratio = medians["double"][0] / medians["numpy"][0]
    return [f"{rows:,}", *times, f"{ratio:.2f}", f"{medians['numpy'][1]:.0f}", f"{medians['double'][1]:.0f}"]


def main() -> None:
    """Measure, and show a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        job(arguments.job, arguments.rows[0])
        return
    table = Table("rows", "labels alone s", "NumPy s", "double s", "double / NumPy", "NumPy MiB", "double MiB")
    for rows in arguments.rows:
        table.add_row(*table_row(rows, arguments.rounds))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
