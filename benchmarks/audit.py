"""Auditing beside a plain count of the same draws, and the excess that is detected, by draws.

    python benchmarks/audit.py                     a hundred million draws
    python benchmarks/audit.py --draws 1000000

The mechanism is randomized response in NumPy. Its own time is measured too, and taken off: what is compared is the
audit's part with ``numpy.bincount`` of every batch, in one run, in processor seconds. Peak memory is that of the
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


class Clocked:
    """Randomized response that is drawn anew for each batch, and how long that took in all."""

    def __init__(self, epsilon: float, classes: int) -> None:
        self.keep, self.classes = math.exp(epsilon) / (math.exp(epsilon) + classes - 1), classes
        self.rng, self.seconds, self.drawn = np.random.default_rng(), 0.0, 0

    def __call__(self, label: int, n: int) -> np.ndarray:
        """Released labels."""
        start = time.process_time()
        kept = self.rng.random(n, dtype=np.float32) < self.keep
        released = np.where(kept, label, (label + self.rng.integers(1, self.classes, n)) % self.classes)
        self.seconds, self.drawn = self.seconds + time.process_time() - start, self.drawn + n
        return released


def counted(mechanism: Clocked, draws: int) -> float:
    """Seconds of a plain count of so many draws of each of two labels, without those of drawing."""
    start, counts = time.process_time(), np.zeros((2, mechanism.classes), dtype=np.int64)
    for label in (0, 1):
        for low in range(0, draws, 1 << 18):
            batch = mechanism(label, min(1 << 18, draws - low))
            counts[label] += np.bincount(batch, minlength=mechanism.classes)
    return time.process_time() - start - mechanism.seconds


def compared(draws: int, classes: int) -> list[str]:
    """A row of the table: an audit that does not stop early, and a count."""
    audited, plain = Clocked(CLAIM, classes), Clocked(CLAIM, classes)
    start = time.process_time()
    found = audit_mechanism(audited, [0, 1], CLAIM * 1.001, draws=draws // 2, confidence=0.999999)
    seconds = time.process_time() - start - audited.seconds
    alone = counted(plain, draws // 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shown = f"{found.lower:.4f} to {found.upper:.4f}" if found.upper is not None else f"{found.lower:.4f}"
    times = [f"{part:.3g}" for part in (alone, seconds, audited.seconds)]
    return [f"{audited.drawn:,}", str(classes), *times, f"{seconds / alone:.2f}", f"{peak:.0f}", shown]


def detected(excess: float, classes: int, most: int) -> list[str]:
    """A row of the table: how many draws of each label show an excess over a claim of 1."""
    draws = 1_000
    while draws <= most:
        found = audit_mechanism(Clocked(excess, classes), range(classes), CLAIM, draws=draws)
        if not found.holds:
            return [f"{excess:g}", str(classes), f"{draws:,}", f"{found.lower:.4f}"]
        draws *= 2
    return [f"{excess:g}", str(classes), f"more than {most:,}", "-"]


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=100_000_000)
    options.add_argument("--most", type=int, default=20_000_000, help="draws of each label for an excess")
    chosen = options.parse_args()
    console = Console(width=120)
    speed = Table(title="processor seconds, without those of drawing")
    for column in ("draws", "classes", "bincount", "audit", "drawing", "audit / bincount", "peak MiB", "shown"):
        speed.add_column(column, justify="right")
    for classes in (2, 10, 1000):
        speed.add_row(*compared(chosen.draws, classes))
    console.print(speed)
    power = Table(title=f"draws of each label that show an epsilon above the claim of {CLAIM:g}, at confidence 0.99")
    for column in ("true epsilon", "classes", "draws", "shown"):
        power.add_column(column, justify="right")
    for classes in (2, 10):
        for excess in EXCESSES:
            power.add_row(*detected(excess, classes, chosen.most))
    console.print(power)


if __name__ == "__main__":
    main()
