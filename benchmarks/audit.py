"""Cost of an audit beside a plain count of the same draws, and its power by the number of draws.

    python benchmarks/audit.py                     a hundred million draws
    python benchmarks/audit.py --draws 1000000

The mechanism is randomized response in NumPy. Its own time is measured too, and subtracted: the comparison is between
the audit alone and ``numpy.bincount`` of every batch, in one run, in processor seconds. Peak memory is that of the
whole process.
"""

import argparse
import math
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from labeldp.audit import audit_mechanism

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


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=100_000_000)
    options.add_argument("--most", type=int, default=20_000_000, help="draws of each label for an excess")
    arguments = options.parse_args()
    console = Console(width=120)
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
