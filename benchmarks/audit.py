"""Cost of an audit beside a plain count of the same draws, its power by the number of draws, and audits of a table.

    python benchmarks/audit.py                     a hundred million draws
    python benchmarks/audit.py --draws 1000000
    python benchmarks/audit.py --only table        audits of a million rows: one run, exposure, an attack

The mechanism is randomized response in NumPy. Its own time is measured too, and subtracted: the comparison is between
the audit alone and ``numpy.bincount`` of every batch, in one run, in processor seconds. Peak memory is that of the
whole process.
"""

import argparse
import math
import resource
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from labeldp import Classes, Curator, LabelMoments, RandomizedResponse, Release
from labeldp.audit import (
    Knowledge,
    ObservedPairs,
    PlantedPairs,
    attack_release,
    audit_mechanism,
    audit_pipeline,
    bound_exposure,
)
from labeldp.learning.cells import held_out_cells

CLAIM = 1.0
EXCESSES = (2.0, 1.5, 1.2, 1.1, 1.05, 1.02, 1.01)


class TimedResponse:
    """Randomized response that records its own processor time."""

    def __init__(self, epsilon: float, classes: int) -> None:
        self.keep, self.classes = math.exp(epsilon) / (math.exp(epsilon) + classes - 1), classes
        self.rng, self.seconds, self.drawn = np.random.default_rng(), 0.0, 0

    def __call__(self, label: int, n: int) -> np.ndarray:
        """Released labels."""
        start = time.process_time()
        truthful = self.rng.random(n, dtype=np.float32) < self.keep
        released = np.where(truthful, label, (label + self.rng.integers(1, self.classes, n)) % self.classes)
        self.seconds, self.drawn = self.seconds + time.process_time() - start, self.drawn + n
        return released


def count_seconds(mechanism: TimedResponse, draws: int) -> float:
    """Seconds of a plain count of so many draws of each of two labels, drawing excluded."""
    start, counts = time.process_time(), np.zeros((2, mechanism.classes), dtype=np.int64)
    for label in (0, 1):
        for low in range(0, draws, 1 << 18):
            batch = mechanism(label, min(1 << 18, draws - low))
            counts[label] += np.bincount(batch, minlength=mechanism.classes)
    return time.process_time() - start - mechanism.seconds


def speed_row(draws: int, classes: int) -> list[str]:
    """A row of the table: an audit without early stopping, and a count."""
    audited, plain = TimedResponse(CLAIM, classes), TimedResponse(CLAIM, classes)
    start = time.process_time()
    result = audit_mechanism(audited, [0, 1], CLAIM * 1.001, draws=draws // 2, confidence=0.999999)
    seconds = time.process_time() - start - audited.seconds
    alone = count_seconds(plain, draws // 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    bounds = f"{result.lower:.4f} to {result.upper:.4f}" if result.upper is not None else f"{result.lower:.4f}"
    times = [f"{part:.3g}" for part in (alone, seconds, audited.seconds)]
    return [f"{audited.drawn:,}", str(classes), *times, f"{seconds / alone:.2f}", f"{peak:.0f}", bounds]


def power_row(excess: float, classes: int, most: int) -> list[str]:
    """A row of the table: draws of each label that reveal an excess over a claim of 1."""
    draws = 1_000
    while draws <= most:
        result = audit_mechanism(TimedResponse(excess, classes), range(classes), CLAIM, draws=draws)
        if not result.holds:
            return [f"{excess:g}", str(classes), f"{draws:,}", f"{result.lower:.4f}"]
        draws *= 2
    return [f"{excess:g}", str(classes), f"more than {most:,}", "-"]


def table_audits(rows: int) -> dict[str, Callable[[], object]]:
    """Audits of a table of two classes and three columns, at epsilon 2."""
    rng, space = np.random.default_rng(0), Classes(["no", "yes"])
    columns = rng.random((rows, 3))
    law = np.column_stack([0.98 - 0.96 * columns[:, 0] ** 2, 0.02 + 0.96 * columns[:, 0] ** 2])
    labels = np.where(rng.random(rows) < law[:, 1], "yes", "no")
    planted, features = PlantedPairs(["no"] * rows, space, range(rows)), sp.eye_array(rows, format="csr")
    release = Curator(labels, space).randomize(RandomizedResponse(space, 2.0))

    def randomized(given: list[str]) -> np.ndarray:
        return Curator(given, space).randomize(RandomizedResponse(space, 2.0)).codes

    def moments(given: list[str]) -> np.ndarray:
        return np.asarray(Curator(given, space).answer(LabelMoments(space, 2.0, 1e-7, features)).value)

    def one_run(noise: str) -> float:
        return audit_pipeline(moments, planted, lambda s: s[:, 0] - s[:, 1], 2.0, delta=1e-7, noise=noise).lower

    def observed() -> float:
        pairs = ObservedPairs(labels, space, range(rows), law)
        first = np.array([pair[0] == "yes" for pair in pairs.pairs])
        return audit_pipeline(
            randomized, pairs, lambda codes: np.where(codes[pairs.canaries] == first, 1.0, -1.0), 2.0
        ).lower

    def exposure() -> float:
        cells = held_out_cells(columns, release)
        return bound_exposure(cells.numbers, release, count=cells.count).average

    return {
        "one run, released labels": lambda: audit_pipeline(randomized, planted, lambda c: 1.0 - 2.0 * c, 2.0).lower,
        "one run, observed labels": observed,
        **{f"one run, moments, noise {n}": lambda n=n: one_run(n) for n in ("any", "gaussian", "separate gaussian")},
        "exposure": exposure,
        "attack with true labels": lambda: len(
            attack_release(release, Knowledge(law), truth=Release.public(labels, space)).rows
        ),
    }


def table_row(name: str, audit: Callable[[], object]) -> list[str]:
    """A row of the table: seconds of the wall clock, with drawing and fitting."""
    start = time.perf_counter()
    found = audit()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [name, f"{found:.4g}", f"{time.perf_counter() - start:.1f}", f"{peak:.0f}"]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--draws", type=int, default=100_000_000)
    options.add_argument("--most", type=int, default=20_000_000, help="draws of each label for an excess")
    options.add_argument("--rows", type=int, default=1_000_000, help="of the table")
    options.add_argument("--only", choices=["table"], help="measure this alone")
    arguments = options.parse_args()
    console = Console(width=120)
    of_table = Table(title=f"audits of a table of {arguments.rows:,} rows at epsilon 2")
    for column in ("audit", "shown", "seconds", "peak MiB"):
        of_table.add_column(column, justify="right")
    for name, audit in table_audits(arguments.rows).items():
        of_table.add_row(*table_row(name, audit))
    console.print(of_table)
    if arguments.only:
        return
    speed = Table(title="processor seconds, drawing excluded")
    for column in ("draws", "classes", "bincount", "audit", "drawing", "audit / bincount", "peak MiB", "bounds"):
        speed.add_column(column, justify="right")
    for classes in (2, 10, 1000):
        speed.add_row(*speed_row(arguments.draws, classes))
    console.print(speed)
    power = Table(title=f"draws of each label that refute the claim of {CLAIM:g}, at confidence 0.99")
    for column in ("true epsilon", "classes", "draws", "bounds"):
        power.add_column(column, justify="right")
    for classes in (2, 10):
        for excess in EXCESSES:
            power.add_row(*power_row(excess, classes, arguments.most))
    console.print(power)


if __name__ == "__main__":
    main()
