"""Softmax regression beside scikit-learn's on the same labels, the cost of a channel, and growth with classes.

    python benchmarks/learning.py                  MNIST, 60 000 rows of 784 features
    python benchmarks/learning.py --rows 6000      a quick look
    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python benchmarks/learning.py      where other work runs beside

MNIST is read from the folder in LABELDP_DATA; without it a synthetic matrix of the same size is used. Every figure is
the median of a few rounds in which all contestants take turns. scikit-learn gets the same penalty, tolerance and limit
of iterations; the objective, computed here from the coefficients of each, shows if both converge to the same optimum.
"""

import argparse
import gzip
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from labeldp import BitResponse, Classes, Curator, PriorResponse, RandomizedResponse, Release, SubsetResponse
from labeldp.learning.heads import SoftmaxProblem
from labeldp.learning.losses import Method, row_loss
from labeldp.learning.sklearn import SoftmaxRegression

EPSILON = 1.0
L2 = 0.01
TOLERANCE = 1e-4
ITERATIONS = 500
METHODS: tuple[Method, ...] = ("likelihood", "unbiased")


def mnist(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Features between 0 and 1, and labels."""
    if "LABELDP_DATA" not in os.environ:
        print("LABELDP_DATA is not set: synthetic features, with labels by a linear rule and noise")
        return synthetic(rows, 784, 10)
    folder = Path(os.environ["LABELDP_DATA"]) / "mnist"
    pixels, digits = (
        np.frombuffer(gzip.decompress((folder / f"train-{name}-ubyte.gz").read_bytes()), np.uint8, offset=offset)
        for name, offset in (("images-idx3", 16), ("labels-idx1", 8))
    )
    return pixels.reshape(-1, 784)[:rows] / 255.0, digits[:rows].astype(np.int64)


def synthetic(rows: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Uniform features, and labels by a linear rule and noise."""
    rng = np.random.default_rng(0)
    features = rng.random((rows, columns))
    noise = rng.gumbel(size=(rows, classes))
    return features, (features @ rng.normal(size=(columns, classes)) + noise).argmax(axis=1)


def turns(contestants: dict[Any, Callable[[], object]], rounds: int, warming: int = 1) -> dict[Any, float]:
    """Median seconds of each contestant over rounds of turns, after warm-up turns."""
    times: dict[Any, list[float]] = {name: [] for name in contestants}
    for turn in range(-warming, rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if turn >= 0:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def objective_and_iterations(
    features: np.ndarray, labels: np.ndarray, model: SoftmaxRegression | LogisticRegression
) -> tuple[float, int]:
    """Objective of a fitted model, in float64, and its number of iterations."""
    logits = features.astype(np.float64) @ model.coef_.T.astype(np.float64) + model.intercept_
    losses = logsumexp(logits, axis=1) - logits[np.arange(len(labels)), labels]
    penalty = 0.5 * L2 * np.square(model.coef_.astype(np.float64)).sum()
    return float(losses.mean() + penalty), int(np.max(model.n_iter_))


def beside_sklearn(features: np.ndarray, labels: np.ndarray, rounds: int) -> Table:
    """Both on public labels, with features in double and in single precision."""
    table = Table("features", "what", title=f"public labels, {features.shape[0]:,} x {features.shape[1]}, l2 {L2:g}")
    for heading in ("seconds", "x scikit-learn", "objective", "iterations"):
        table.add_column(heading, justify="right")
    public = Release.public(labels, Classes(range(10)))
    mine = SoftmaxRegression(l2=L2, tol=TOLERANCE, max_iter=ITERATIONS)
    theirs = LogisticRegression(C=1 / (L2 * len(labels)), tol=TOLERANCE, max_iter=ITERATIONS)
    for precision in (np.float64, np.float32):
        typed_features = features.astype(precision)
        fits = {
            "scikit-learn": lambda x=typed_features: theirs.fit(x, labels),
            "labeldp": lambda x=typed_features: mine.fit(x, public),
        }
        seconds = turns(fits, rounds, warming=0)
        for name, model in (("scikit-learn", theirs), ("labeldp", mine)):
            value, iterations = objective_and_iterations(typed_features, labels, model)
            ratio = f"{seconds[name] / seconds['scikit-learn']:.3g}"
            table.add_row(
                np.dtype(precision).name, name, f"{seconds[name]:.3g}", ratio, f"{value:.7f}", str(iterations)
            )
    return table


def releases(labels: np.ndarray, classes: int) -> dict[str, Release]:
    """The same labels, public and through every channel."""
    space = Classes(range(classes))
    prior = np.random.default_rng(0).dirichlet(np.full(classes, 0.3), len(labels))
    randomizers = {
        "randomized response": RandomizedResponse(space, EPSILON),
        "subset": SubsetResponse(space, EPSILON),
        "independent bits": BitResponse(space, EPSILON),
        "symmetric bits": BitResponse(space, EPSILON, form="symmetric"),
        "candidates": PriorResponse(space, EPSILON, prior),
    }
    curator = Curator(labels, space, budget=len(randomizers) * EPSILON + 1e-6)
    private = {name: curator.randomize(randomizer) for name, randomizer in randomizers.items()}
    return {"public labels": Release.public(labels, space), **private}


def evaluation(features: np.ndarray, release: Release, method: Method) -> Callable[[], object]:
    """One value of the objective with its gradient."""
    classes, columns = release.channel.classes, features.shape[1]
    objective = SoftmaxProblem(features, row_loss(release, method), np.ones(len(features)), classes, L2).objective()
    place = np.random.default_rng(1).normal(scale=0.01, size=(columns + 1) * classes)
    return lambda: objective(place)


def cost_of_channels(features: np.ndarray, labels: np.ndarray, rounds: int) -> Table:
    """One evaluation and a whole fit under every channel, beside public labels."""
    table = Table("channel", "method", title=f"every channel, epsilon {EPSILON:g}, l2 {L2:g}")
    for heading in ("ms an evaluation", "x public", "seconds a fit", "x public", "iterations"):
        table.add_column(heading, justify="right")
    cases = {
        (name, method): release
        for name, release in releases(labels, 10).items()
        for method in (METHODS if not release.is_public else METHODS[:1])
    }
    models = {case: SoftmaxRegression(method=case[1], l2=L2, tol=TOLERANCE, max_iter=ITERATIONS) for case in cases}
    each = turns({case: evaluation(features, release, case[1]) for case, release in cases.items()}, 3 * rounds)
    whole = turns({case: lambda c=case: models[c].fit(features, cases[c]) for case in cases}, 1, warming=0)
    base = ("public labels", METHODS[0])
    for case, model in models.items():
        ratios = f"{each[case] / each[base]:.3g}", f"{whole[case] / whole[base]:.3g}"
        iterations = str(model.n_iter_)
        table.add_row(*case, f"{1e3 * each[case]:.3g}", ratios[0], f"{whole[case]:.3g}", ratios[1], iterations)
    return table


def growth(rows: int, rounds: int) -> Table:
    """Milliseconds of one evaluation by the number of classes."""
    table = Table("channel", "method", title=f"milliseconds an evaluation, {rows:,} x 50, by classes")
    sizes = (2, 10, 100, 1000)
    cells_of_cases: dict[tuple[str, Method], list[str]] = {}
    for classes in sizes:
        table.add_column(str(classes), justify="right")
        features, labels = synthetic(rows, 50, classes)
        cases = {
            (name, method): evaluation(features, release, method)
            for name, release in releases(labels, classes).items()
            for method in (METHODS if not release.is_public else METHODS[:1])
        }
        for case, seconds in turns(cases, rounds).items():
            cells_of_cases.setdefault(case, []).append(f"{1e3 * seconds:.3g}")
    for case, cells in cells_of_cases.items():
        table.add_row(*case, *cells)
    return table


def main() -> None:
    """Measure and print three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    console = Console(width=140)
    features, labels = mnist(arguments.rows)
    console.print(beside_sklearn(features, labels, arguments.rounds))
    console.print(cost_of_channels(features, labels, arguments.rounds))
    console.print(growth(min(arguments.rows, 20_000), arguments.rounds))


if __name__ == "__main__":
    main()
