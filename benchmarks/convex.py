"""Descent on released labels beside scikit-learn's ``SGDClassifier``: speed, growth, memory, private gradients.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/convex.py
    python benchmarks/convex.py --share 0.1        a quick look

Both make one pass with averaging over the same rows, scikit-learn on public labels with ``loss="log_loss"``. With two
classes it fits one vector of coefficients and labeldp two, as for any other number; with k classes it makes k passes,
one class against the others, and labeldp one. Times are medians of the processor's time over rounds of turns, in one
thread; compiling is not counted, and neither is drawing a release.
"""

import argparse
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array
from sklearn.linear_model import SGDClassifier

from labeldp import Classes, Curator, Release, gradient_response
from labeldp.learning.convex import Ball, ConvexClassifier, FewRowsWarning, fit_interactively

EPSILON = 2.0


@dataclass(frozen=True)
class Problem:
    """Features with a share of nonzero entries, and random labels: the speed of descent does not depend on them."""

    rows: int
    columns: int
    classes: int
    density: float = 1.0

    @property
    def name(self) -> str:
        """Name of the problem in tables."""
        return f"{self.rows:,} x {self.columns:,}" + (f", {self.density:.2%} filled" if self.density < 1 else "")

    def sample(self) -> tuple[Any, Release]:
        """Features and a release of labels."""
        rng = np.random.default_rng(0)
        labels, space = rng.integers(0, self.classes, self.rows), Classes(range(self.classes))
        release = Curator(labels, space).randomize(gradient_response(space, EPSILON))
        if self.density == 1:
            return rng.normal(size=(self.rows, self.columns)), release
        each = max(1, round(self.density * self.columns))
        places = np.sort(rng.integers(0, self.columns, (self.rows, each)), axis=1).astype(np.int32)
        starts = each * np.arange(self.rows + 1, dtype=np.int32)
        features = csr_array((rng.random(places.size), places.ravel(), starts), shape=(self.rows, self.columns))
        features.sum_duplicates()
        return features, release

    def times(self, rounds: int) -> tuple[float, float]:
        """Seconds of labeldp and of scikit-learn."""
        features, release = self.sample()
        labels = np.random.default_rng(1).integers(0, self.classes, self.rows)
        mine = ConvexClassifier(region=Ball(1.0))
        theirs = SGDClassifier(loss="log_loss", max_iter=1, tol=None, average=True)
        return turns([lambda: mine.fit(features, release), lambda: theirs.fit(features, labels)], rounds)


def turns(contestants: list[Callable[[], object]], rounds: int) -> tuple[float, ...]:
    """Median processor seconds of each contestant over rounds of turns, after a warm-up turn."""
    times: list[list[float]] = [[] for _ in contestants]
    for turn in range(-1, rounds):
        for run, durations in zip(contestants, times, strict=True):
            start = time.process_time()
            run()
            if turn >= 0:
                durations.append(time.process_time() - start)
    return tuple(map(statistics.median, times))


def beside_sklearn(share: float, rounds: int) -> Table:
    """One pass of both, over dense and sparse rows."""
    table = Table("rows x columns", title=f"one pass with averaging, gradient_response at epsilon {EPSILON:g}")
    for heading in ("classes", "thousand steps a second", "x scikit-learn"):
        table.add_column(heading, justify="right")
    for problem in (
        Problem(int(200_000 * share), 50, 2),
        Problem(int(50_000 * share), 784, 2),
        Problem(int(50_000 * share), 784, 10),
        Problem(int(100_000 * share), 20, 100),
        Problem(int(20_000 * share), 20, 1000),
        Problem(int(100_000 * share), 10_000, 2, 0.005),
        Problem(int(100_000 * share), 10_000, 5, 0.005),
        Problem(int(20_000 * share), 10_000, 100, 0.005),
    ):
        mine, theirs = problem.times(rounds)
        speed = f"{problem.rows / mine / 1e3:.3g}"
        table.add_row(problem.name, str(problem.classes), speed, f"{theirs / mine:.3g}")
    return table


def growth(share: float, rounds: int) -> Table:
    """Microseconds of a step, by the number of classes and of columns."""
    sizes = (2, 10, 100, 1000)
    table = Table("columns", *(f"{k} classes" for k in sizes), title="microseconds a step, dense rows")
    for columns in (10, 100, 1000):
        cells = []
        for classes in sizes:
            rows = max(200, int(share * min(100_000, 2e9 / (columns * classes * 20))))
            features, release = Problem(rows, columns, classes).sample()
            model = ConvexClassifier(region=Ball(1.0))
            (seconds,) = turns([lambda x=features, y=release, m=model: m.fit(x, y)], rounds)
            cells.append(f"{1e6 * seconds / rows:.3g}")
        table.add_row(str(columns), *cells)
    return table


def memory(share: float) -> Table:
    """Peak memory of Python and NumPy during a fit, beside the sizes of the features and the parameters."""
    table = Table("rows x columns", "MiB of features", "if dense", "of parameters", "peak of a fit", title="memory")
    for problem in (Problem(int(100_000 * share), 10_000, 5, 0.005), Problem(int(100_000 * share), 100_000, 5, 5e-4)):
        features, release = problem.sample()
        model = ConvexClassifier(region=Ball(1.0))
        model.fit(features[:100], release[np.arange(100)])
        tracemalloc.start()
        model.fit(features, release)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        held = features.data.nbytes + features.indices.nbytes + features.indptr.nbytes
        sizes = held, 8 * problem.rows * problem.columns, model.coef_.nbytes, peak
        table.add_row(problem.name, *(f"{size / 2**20:,.4g}" for size in sizes))
    return table


def interactive(share: float) -> Table:
    """Microseconds for a row whose gradient a curator releases."""
    sizes = (2, 10, 100)
    table = Table(
        "loss", "delta", *(f"{k} classes" for k in sizes), title="microseconds a private gradient, 20 columns"
    )
    for loss in ("softmax", "linear"):
        for delta in (0.0, 1e-6):
            cells = []
            for classes in sizes:
                rows = max(300, int(share * min(5_000, 100_000 / classes)))
                rng, space = np.random.default_rng(0), Classes(range(classes))
                features, labels = rng.normal(size=(rows, 20)), rng.integers(0, classes, rows)
                seconds = []
                for _ in range(2):  # the first imports and compiles
                    model, curator = ConvexClassifier(loss, region=Ball(1.0)), Curator(labels, space, budget=(8, 1e-5))
                    start = time.process_time()
                    fit_interactively(model, features, curator, epsilon=8.0, delta=delta)
                    seconds.append(time.process_time() - start)
                cells.append(f"{1e6 * seconds[-1] / rows:.3g}")
            table.add_row(loss, f"{delta:g}", *cells)
    return table


def main() -> None:
    """Measure and print four tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    console = Console(width=140)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        console.print(beside_sklearn(arguments.share, arguments.rounds))
        console.print(growth(arguments.share, arguments.rounds))
        console.print(memory(arguments.share))
        console.print(interactive(arguments.share))


if __name__ == "__main__":
    main()
