"""A noisy histogram beside a plain one: seconds and peak memory by rows and cells, in one run.

    python benchmarks/histogram.py                    a million to a hundred million rows
    python benchmarks/histogram.py --rows 10000000

Each run has a process of its own, to measure its own peak memory; the two sides take turns.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

CLASSES = 10
CELLS = (1, 100, 10_000, 1_000_000)


def job(what: str, rows: int, cells: int) -> None:
    """Do one job, and print the seconds of its parts and its peak memory."""
    rng = np.random.default_rng(0)
    labels, numbers = rng.integers(0, CLASSES, rows), rng.integers(0, cells, rows)
    times = [time.perf_counter()]
    if what == "numpy":
        np.bincount(numbers * CLASSES + labels, minlength=cells * CLASSES)
        times += [time.perf_counter()] * 3
    else:
        from labeldp import Classes, Curator, NoisyHistogram  # noqa: PLC0415 (the other side is measured without)

        space = Classes(range(CLASSES))
        Curator([0], space).answer(NoisyHistogram(space, 1.0))  # loads what is loaded lazily
        times = [time.perf_counter()]
        curator = Curator(labels, space)
        times.append(time.perf_counter())
        query = NoisyHistogram(space, 1.0, numbers, cells)
        times.append(time.perf_counter())
        curator.answer(query)
        times.append(time.perf_counter())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(*np.diff(times), peak - labels.nbytes / 2**20 - numbers.nbytes / 2**20)


def table_row(rows: int, cells: int, rounds: int) -> list[str]:
    """A row of the table: medians of a few rounds."""
    results: dict[str, list[list[float]]] = {"numpy": [], "labeldp": []}
    for _ in range(rounds):
        for what, runs in results.items():
            command = [sys.executable, __file__, "--job", what, "--rows", str(rows), "--cells", str(cells)]
            runs.append([float(part) for part in subprocess.check_output(command, text=True).split()])
    plain, *_, memory = (statistics.median(column) for column in zip(*results["numpy"], strict=True))
    encode_seconds, query_seconds, answer_seconds, peak = (
        statistics.median(column) for column in zip(*results["labeldp"], strict=True)
    )
    times = [f"{seconds:.3g}" for seconds in (plain, answer_seconds, encode_seconds, query_seconds)]
    return [f"{rows:,}", f"{cells:,}", *times, f"{answer_seconds / plain:.2f}", f"{memory:.0f}", f"{peak:.0f}"]


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, help="by default a million, ten million and a hundred million")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--job")
    parser.add_argument("--cells", type=int)
    arguments = parser.parse_args()
    if arguments.job:
        job(arguments.job, arguments.rows, arguments.cells)
        return
    table = Table(
        title=f"seconds; MiB at the peak beyond labels and cells; {CLASSES} classes, medians of {arguments.rounds}"
    )
    columns = ("rows", "cells", "bincount", "answer", "encode", "query", "answer / bincount", "MiB bincount", "MiB")
    for name in columns:
        table.add_column(name, justify="right")
    for rows in [arguments.rows] if arguments.rows else [10**6, 10**7, 10**8]:
        for cells in CELLS:
            table.add_row(*table_row(rows, cells, arguments.rounds))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
