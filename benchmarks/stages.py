"""Cost of a later stage of labels: a model's pass over its rows for a prior, and the response to it.

OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/stages.py
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from labeldp import Classes, Curator, PriorResponse, PriorSubsetResponse, RandomizedResponse, Release
from labeldp.learning.sklearn import SoftmaxRegression
from labeldp.learning.stages import ModelPrior

ROWS, FEATURES, CLASSES = 1_000_000, 20, (2, 10, 100)


def seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """The median time of a few rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def curator(codes: np.ndarray, space: Classes) -> Curator:
    """A new curator of the labels."""
    return Curator(codes, space, budget=1.0)


def costs(classes: int) -> list[str]:
    """Seconds for the prior of all rows and for each response, and their ratios to the prior."""
    rng, space = np.random.default_rng(0), Classes(range(classes))
    features = rng.normal(size=(ROWS, FEATURES))
    codes = rng.integers(0, classes, ROWS)
    model = SoftmaxRegression(l2=1.0).fit(features[:2000], Release.public(codes[:2000], space))
    warm_up = curator(codes[:1], space)
    warm_up.randomize(PriorResponse(space, 0.5, np.full((1, classes), 1 / classes)))  # compiles before the timing
    prior = ModelPrior(model).ask(curator(codes, space), features).probabilities
    prior_seconds = seconds(lambda: ModelPrior(model).ask(curator(codes, space), features))
    plain_seconds = seconds(lambda: curator(codes, space).randomize(RandomizedResponse(space, 1.0)))
    response_seconds = seconds(lambda: curator(codes, space).randomize(PriorResponse(space, 1.0, prior)))
    subset_seconds = seconds(lambda: curator(codes, space).randomize(PriorSubsetResponse(space, 1.0, prior)))
    each = [prior_seconds, plain_seconds, response_seconds, subset_seconds]
    return [
        str(classes),
        *(f"{cost:.3g}" for cost in each),
        f"{response_seconds / prior_seconds:.2f}",
        f"{subset_seconds / prior_seconds:.2f}",
    ]


def main() -> None:
    """Print the table."""
    table = Table(title=f"seconds for {ROWS:,} rows of {FEATURES} features")
    for name in (
        "classes",
        "prior",
        "no prior",
        "RRWithPrior",
        "prior subset",
        "RRWithPrior / prior",
        "subset / prior",
    ):
        table.add_column(name, justify="right")
    for classes in CLASSES:
        table.add_row(*costs(classes))
    Console().print(table)


if __name__ == "__main__":
    main()
