"""Table 1 of Zhao et al. 2025 by simulation: how fast errors fall with rows and with epsilon, for known functions.

It needs no data. rates.md has the protocol and what the results show.
"""

import argparse
import functools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from _study import Cell, Experiment, Given, Row, Spot, Study, main, table
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from scipy import stats

from labeldp import (
    BitResponse,
    Classes,
    Curator,
    Interval,
    LaplaceResponse,
    NoisyArgmax,
    NoisyMean,
    OneBitResponse,
    OptimalResponse,
    Randomizer,
    SubsetResponse,
)
from labeldp.bounds import free_epsilon, rate, rate_table
from labeldp.bounds.theorems import Bound, LabelTails, Regularity, regression_upper
from labeldp.learning.cells import GridCells, grid_cells
from labeldp.learning.sklearn import CellRegressor, NeighborsRegressor
from labeldp.privacy.channels import pair_share

ROWS = tuple(round(10 ** (power / 2)) for power in range(6, 13))
LOCAL, CENTRAL, ARGMAX, FULL = 1.0, 0.03, 0.01, 4.0  # the epsilon while rows are varied
LOCAL_EPSILONS = (0.1, 0.18, 0.32, 0.56, 1.0, 2.0, 4.0)  # and those that are varied
CENTRAL_EPSILONS = (0.01, 0.018, 0.032, 0.056, 0.1, 0.32, 1.0, 3.2)
ARGMAX_EPSILONS = (0.0032, 0.0056, 0.01, 0.018, 0.032, 0.1, 0.32, 1.0)
VARIED = 5  # so many of them, a decade, have a line fitted
ROWS_MEANWHILE = {"local": 316_228, "central": 100_000}
DRAWN = 5_000_000  # rows of all draws of a point together
FEWEST, MORE = 12, 40  # the fewest draws, and where two cells decide all
LEAST_BINS = 3  # on each side, of points that a line is fitted to
NEAR_LOOKS, NEAR_DRAWS = (128, 20), 25  # new rows and draws of neighbours
LOOKS = (1 << 14, 1 << 7)  # new rows on each side, at which an estimate is compared with the truth

CLASSES = Classes(list(range(4)))
REST = 0.05  # the chance of each class but the first two
MOMENTS, TAIL_SHARE = 3.0, 0.25  # labels have all moments below the third; so many are in the tail
CLIP_BIAS = (MOMENTS - 1) ** (MOMENTS - 1) / MOMENTS**MOMENTS  # of labels whose p-th moments are at most 1, at T = 1
NEIGHBOURS = "Laplace, neighbours"
LABELS = {"regression": LabelTails(variance=1 / 48), "heavy-tailed": LabelTails(moments=MOMENTS, variance=1.0)}
KEY = ("sweep", "problem", "dimension", "method", "rows", "epsilon")
GROUP = ["sweep", "problem", "dimension", "setting", "method"]
COLOURS = {
    "non-private": "black",
    "local": "tab:blue",
    "central": "tab:red",
    "local-full": "tab:green",
    "central-full": "tab:orange",
}


@dataclass(frozen=True)
class Sample:
    """Labels of rows with known truth.

    Attributes:
        features: Even on the unit cube, shape (n, d).
        labels: What a curator holds.
        truth: What is estimated, at any features: a mean, or the chance of each class.
    """

    features: np.ndarray
    labels: np.ndarray
    truth: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Found:
    """Estimates at the features that are looked at, and epsilon."""

    estimates: np.ndarray
    epsilon: float = math.nan


@dataclass(frozen=True)
class Size:
    """Best settings by the formula: cells on each side, the clipping level, and the excess risk with them."""

    bins: int
    clip: float
    excess: float


@dataclass(frozen=True)
class Problem:
    """A function to learn.

    Attributes:
        name: As in Table 1.
        draw: Labels of so many rows in so many dimensions.
        steepness: How steeply what is averaged changes: regression functions by 1, differences of two chances by 2.
        variance: Of one true label around its mean.
        heavy: Whether labels have to be clipped at a level that is chosen.
    """

    name: str
    draw: Callable[[np.random.Generator, int, int], Sample]
    steepness: float
    variance: float
    heavy: bool = False

    def size(self, rows: int, dimension: int, each: float, total: float) -> Size:
        """The number of cells for which the sum of all errors is least, for noise on labels and on sums with T = 1.

        ``s^2 h^2 / 12 + V / n + noise``; with heavy tails noise is that of the best T, and clipping adds its bias.
        """
        bins = np.arange(1, int(rows ** (1 / dimension)) + 1)
        held = rows / bins.astype(float) ** dimension
        noise, clip = each / held + total / held**2, np.ones(len(bins))
        if self.heavy and each + total > 0:
            clip = ((MOMENTS - 1) * CLIP_BIAS**2 / noise) ** (1 / (2 * MOMENTS))
            noise = noise * clip**2 + (CLIP_BIAS * clip ** (1 - MOMENTS)) ** 2
        errors = (self.steepness / bins) ** 2 / 12 + self.variance / held + noise
        best = int(np.argmin(errors))
        return Size(int(bins[best]), float(clip[best]), float(errors[best]) * self.scale)

    @property
    def scale(self) -> float:
        """Excess risk per squared error of what is averaged.

        A difference of chances that is g and estimated as g + e names the wrong class where g and g + e have other
        signs, which costs |g|. As g is spread evenly around 0 with density 1, this is e^2 / 2 on average.
        """
        return 0.5 if self.name == "classification" else 1.0

    def excess(self, truth: np.ndarray, estimates: np.ndarray) -> float:
        """The excess risk, from the truth alone."""
        if self.name == "classification":
            return float(np.mean(truth.max(axis=1) - truth[np.arange(len(truth)), estimates.astype(int)]))
        return float(np.mean((estimates - truth) ** 2))


def along(features: np.ndarray) -> np.ndarray:
    """A coordinate along the diagonal, from its middle: a function of slope 1 in any dimension."""
    return (features - 0.5).sum(axis=1) / math.sqrt(features.shape[1])


def classes(chance: np.random.Generator, rows: int, dimension: int) -> Sample:
    """Four classes, of which two take turns: a zigzag of slope 1 with its zeros at random places, so gamma is 1."""
    phase = chance.random()

    def truth(features: np.ndarray) -> np.ndarray:
        first = np.abs((along(features) + phase) % 1 - 0.5) - 0.25
        rest = np.full(len(features), REST)
        return np.stack([0.5 - REST + first, 0.5 - REST - first, rest, rest], axis=1)

    features = chance.random((rows, dimension))
    below = np.cumsum(truth(features), axis=1)[:, :-1]
    return Sample(features, (chance.random((rows, 1)) > below).sum(axis=1), truth)


def numbers(chance: np.random.Generator, rows: int, dimension: int) -> Sample:
    """A plane of slope 1 with a little even noise, in [-1, 1]; its width is whole steps of the grid of labels."""
    features = chance.random((rows, dimension))
    return Sample(features, along(features) + chance.uniform(-0.25, 0.25, rows), along)


def tails(chance: np.random.Generator, rows: int, dimension: int) -> Sample:
    """A plane of slope 1 with Pareto noise of index 3 at one side, so that clipping at T has a bias of order 1 / T^2.

    Its constant is that of labels with third moments of at most 1 at the worst, for every T at once.
    """
    features = chance.random((rows, dimension))
    least = (CLIP_BIAS * (MOMENTS - 1) / TAIL_SHARE) ** (1 / MOMENTS)
    mean = least * MOMENTS / (MOMENTS - 1)
    tail = chance.random(rows) < TAIL_SHARE
    noise = np.where(tail, least * (1 + chance.pareto(MOMENTS, rows)), -mean * TAIL_SHARE / (1 - TAIL_SHARE))
    return Sample(features, along(features) + noise, along)


def bounded(_: float) -> Interval:
    """Labels in [-1, 1]."""
    return Interval(-1.0, 1.0, 1 / 32)


def clipped(clip: float) -> Interval:
    """Labels that are clipped at both sides, on a grid of a thousand steps."""
    level = round(clip, 2)
    return Interval(-level, level, round(level / 500, 7))


SPACES = {"classification": lambda _: CLASSES, "regression": bounded, "heavy-tailed": clipped}
PROBLEMS = (
    Problem("classification", classes, 2.0, 1.0 - 2 * REST),
    Problem("regression", numbers, 1.0, 1 / 48),
    Problem("heavy-tailed", tails, 1.0, 1.0, heavy=True),
)


@dataclass(frozen=True)
class Task:
    """One draw, as a method sees it."""

    sample: Sample
    cells: GridCells
    looks: np.ndarray
    space: Interval | Classes
    epsilon: float
    chance: np.random.Generator

    @property
    def curator(self) -> Curator:
        """One who spends epsilon, no more."""
        return Curator(self.sample.labels, self.space, budget=self.epsilon)

    @property
    def held(self) -> np.ndarray:
        """The rows of each cell."""
        return np.bincount(self.cells.numbers, minlength=self.cells.count)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of a number, or of each column, in each cell."""
        columns = values[:, None] if values.ndim == 1 else values
        each = [np.bincount(self.cells.numbers, column, self.cells.count) for column in columns.T]
        return np.stack(each, axis=1)[:, 0] if values.ndim == 1 else np.stack(each, axis=1)

    def table(self, of_cells: np.ndarray, epsilon: float = math.nan) -> Found:
        """Estimate each row by its cell; by 0 in a cell without an estimate."""
        return Found(np.nan_to_num(of_cells)[self.cells.predict(self.looks)], epsilon)


def ratio(sums: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Means of cells; NaN where none is held."""
    return np.divide(sums, held, out=np.full(len(sums), np.nan), where=held > 0)


@functools.lru_cache(maxsize=64)
def randomizer_of(kind: type[Randomizer], space: Interval | Classes, epsilon: float) -> Randomizer:
    """A randomizer; linear programmes are solved once."""
    more = {"form": "symmetric"} if kind is BitResponse else {}
    return kind(space, epsilon, **more)


def plain_means(task: Task) -> Found:
    """Means of true labels."""
    return task.table(ratio(task.sums(task.sample.labels), task.held), math.inf)


def plain_classes(task: Task) -> Found:
    """The most common true class."""
    return task.table(task.sums(np.eye(CLASSES.size)[task.sample.labels]).argmax(axis=1), math.inf)


def local_means(kind: type[Randomizer], task: Task) -> Found:
    """Means of released numbers, cut to the declared range."""
    release = task.curator.randomize(randomizer_of(kind, task.space, task.epsilon))
    means = ratio(task.sums(release.numbers()), task.held)
    return task.table(np.clip(means, task.space.low, task.space.high), release.guarantee.epsilon)


def local_classes(kind: type[Randomizer], task: Task) -> Found:
    """The largest sum of unbiased vectors."""
    release = task.curator.randomize(randomizer_of(kind, task.space, task.epsilon))
    return task.table(task.sums(release.unbiased()).argmax(axis=1), release.guarantee.epsilon)


def neighbours(problem: str, task: Task) -> Found:
    """The paper's local regression: Laplace noise, and the mean of the k nearest rows, with k as in its theorem."""
    k = int(nearest(problem, *task.sample.features.shape, task.epsilon).size("neighbours"))
    release = task.curator.randomize(randomizer_of(LaplaceResponse, task.space, task.epsilon))
    model = NeighborsRegressor(k).fit(task.sample.features, release)
    return Found(model.predict(task.looks), release.guarantee.epsilon)


def nearest(problem: str, rows: int, dimension: int, epsilon: float) -> Bound:
    """Theorems 6 and 10 for Laplace noise: how many neighbours are best, where to clip, and the error with them."""
    noise = number_noise(LaplaceResponse, rows, epsilon)[0]
    return regression_upper("local", rows, epsilon, Regularity(dimension), LABELS[problem], noise)


def central_means(task: Task) -> Found:
    """A curator's means by cell."""
    answer = task.curator.answer(NoisyMean(task.space, task.epsilon, task.cells.numbers, task.cells.count))
    return task.table(answer.value, answer.guarantee.epsilon)


def central_classes(method: str, task: Task) -> Found:
    """A curator's most common classes by cell."""
    query = NoisyArgmax(task.space, task.epsilon, task.cells.numbers, task.cells.count, method=method)
    answer = task.curator.answer(query)
    return task.table(answer.value, answer.guarantee.epsilon)


def drawn_in(task: Task) -> Found:
    """A curator's means by cell, shrunk towards the mean of all rows as far as noise hides them."""
    answer = task.curator.answer(NoisyMean(task.space, task.epsilon, task.cells.numbers, task.cells.count))
    model = CellRegressor(task.cells).fit(task.sample.features, answer)
    return Found(model.predict(task.looks), answer.guarantee.epsilon)


def full_means(draws_of: Callable[[int], int], task: Task) -> Found:
    """Sums and counts of cells with noise on both, since features are protected too: simulated, not a mechanism here.

    A replaced row moves two counts by 1 and two sums by T at most, so half of epsilon each gives scales of 4 / epsilon
    and 4 T / epsilon. The sum of m draws of Laplace noise is the difference of two gamma variables of shape m.
    """
    many, cells = draws_of(len(task.sample.labels)), task.cells.count
    noise = task.chance.standard_gamma(many, (2, cells)) - task.chance.standard_gamma(many, (2, cells))
    labels = np.clip(task.sample.labels, task.space.low, task.space.high)
    scale = 4 / task.epsilon
    counts = task.held + scale * noise[0]
    sums = task.sums(labels) + scale * task.space.high * noise[1]
    return task.table(np.clip(ratio(sums, np.maximum(counts, 1.0)), task.space.low, task.space.high))


def full_classes(task: Task) -> Found:
    """Bits for pairs of cell and class, each with half of epsilon, counted: simulated, not a mechanism here."""
    true, other = (1 / (1 + math.exp(sign * task.epsilon / 2)) for sign in (-1, 1))
    counts = task.sums(np.eye(CLASSES.size)[task.sample.labels]).astype(np.int64)
    bits = task.chance.binomial(counts, true) + task.chance.binomial(len(task.sample.labels) - counts, other)
    return task.table(bits.argmax(axis=1))


def no_noise(*_: float) -> tuple[float, float]:
    """Of true labels."""
    return 0.0, 0.0


def number_noise(kind: type[Randomizer], _: int, epsilon: float) -> tuple[float, float]:
    """The variance of a released number, mean over labels in [-1, 1]."""
    space = bounded(1.0)
    return float(np.mean(randomizer_of(kind, space, epsilon).channel().variances)) * space.step**2, 0.0


def class_noise(kind: type[Randomizer], _: int, epsilon: float) -> tuple[float, float]:
    """Variance that a released class adds to the difference of two."""
    share = float(pair_share(randomizer_of(kind, CLASSES, epsilon).channel().membership))
    return 1 / share - 1, 0.0


def mean_noise(_: int, epsilon: float) -> tuple[float, float]:
    """The variance of Lap(2 / epsilon)."""
    return 0.0, 8 / epsilon**2


def argmax_noise(method: str, _: int, epsilon: float) -> tuple[float, float]:
    """Of the difference of two counts with noise of scale 2 / epsilon: of Gumbel, or of exponential variables."""
    return 0.0, (4 * math.pi**2 / 3 if method == "exponential" else 8) / epsilon**2


def full_noise(draws_of: Callable[[int], int], rows: int, epsilon: float) -> tuple[float, float]:
    """Of a sum less what its count asks for, at an even plane of slope 1, whose square is 1/12 on average."""
    return 0.0, draws_of(rows) * 32 * (1 + 1 / 12) / epsilon**2


def bit_noise(rows: int, epsilon: float) -> tuple[float, float]:
    """Of the difference of two counts of bits."""
    return 0.0, 2 * rows * math.exp(epsilon / 2) / math.expm1(epsilon / 2) ** 2


def itself(rows: int) -> int:
    """Each row draws noise."""
    return rows


def once(_: int) -> int:
    """A curator draws noise."""
    return 1


@dataclass(frozen=True)
class Method:
    """A way to estimate.

    Attributes:
        setting: Its row of Table 1.
        name: Its own.
        noise: Variances of the noise on each label and on each sum, from the rows and epsilon.
        estimate: What it says.
        epsilon: That for which rows are varied.
        epsilons: Those that are varied.
    """

    setting: str
    name: str
    noise: Callable[[int, float], tuple[float, float]]
    estimate: Callable[[Task], Found]
    epsilon: float = math.inf
    epsilons: tuple[float, ...] = ()


def local_method(name: str, kind: type[Randomizer]) -> Method:
    """Means of numbers that were each randomized alone."""
    parts = (functools.partial(part, kind) for part in (number_noise, local_means))
    return Method("local", name, *parts, LOCAL, LOCAL_EPSILONS)


def local_class_method(name: str, kind: type[Randomizer]) -> Method:
    """Sums of vectors of classes that were each randomized alone."""
    parts = (functools.partial(part, kind) for part in (class_noise, local_classes))
    return Method("local", name, *parts, LOCAL, LOCAL_EPSILONS)


def neighbours_method(problem: str) -> Method:
    """The paper's estimator from numbers that were each randomized alone."""
    noise = functools.partial(number_noise, LaplaceResponse)
    return Method("local", NEIGHBOURS, noise, functools.partial(neighbours, problem), LOCAL)


def argmax_method(method: str) -> Method:
    """A curator's most common classes."""
    parts = (functools.partial(part, method) for part in (argmax_noise, central_classes))
    return Method("central", method, *parts, ARGMAX, ARGMAX_EPSILONS)


def full_method(setting: str, draws_of: Callable[[int], int], epsilon: float, epsilons: tuple[float, ...]) -> Method:
    """Means where features are protected too."""
    parts = (functools.partial(part, draws_of) for part in (full_noise, full_means))
    return Method(setting, f"{setting} sums and counts", *parts, epsilon, epsilons)


CENTRAL_METHODS = (
    Method("central", "means", mean_noise, central_means, CENTRAL, CENTRAL_EPSILONS),
    Method("central", "means, drawn in", mean_noise, drawn_in, CENTRAL, CENTRAL_EPSILONS),
    full_method("local-full", itself, FULL, ()),
    full_method("central-full", once, CENTRAL, CENTRAL_EPSILONS),
)
METHODS = {
    "classification": (
        Method("non-private", "none", no_noise, plain_classes),
        local_class_method("subsets", SubsetResponse),
        local_class_method("bits", BitResponse),
        argmax_method("permute-and-flip"),
        argmax_method("exponential"),
        Method("local-full", "local-full bits", bit_noise, full_classes, FULL),
    ),
    "regression": (
        Method("non-private", "none", no_noise, plain_means),
        local_method("optimal", OptimalResponse),
        local_method("Laplace", LaplaceResponse),
        neighbours_method("regression"),
        *CENTRAL_METHODS,
    ),
    "heavy-tailed": (
        Method("non-private", "none", no_noise, plain_means),
        local_method("one bit", OneBitResponse),
        local_method("Laplace", LaplaceResponse),
        neighbours_method("heavy-tailed"),
        *CENTRAL_METHODS,
    ),
}


@dataclass(frozen=True)
class Point:
    """One place of one line."""

    sweep: str
    problem: Problem
    dimension: int
    method: Method
    rows: int
    epsilon: float

    @property
    def key(self) -> tuple[str, str, int, str, int, float]:
        """Its place in the results file."""
        return self.sweep, self.problem.name, self.dimension, self.method.name, self.rows, self.epsilon

    @classmethod
    def of(cls, cell: Cell) -> "Point":
        """The point of a cell."""
        problem = next(each for each in PROBLEMS if each.name == cell["problem"])
        method = next(each for each in METHODS[problem.name] if each.name == cell["method"])
        return cls(cell["sweep"], problem, cell["dimension"], method, cell["rows"], cell["epsilon"])

    @functools.cached_property
    def size(self) -> Size:
        """Best settings by the formula."""
        if self.method.name == NEIGHBOURS:
            bound = nearest(self.problem.name, self.rows, self.dimension, self.epsilon)
            side = (self.rows / bound.size("neighbours")) ** (1 / self.dimension)
            return Size(max(1, int(side)), bound.size("clip") if self.problem.heavy else 1.0, bound.value)
        return self.problem.size(self.rows, self.dimension, *self.method.noise(self.rows, self.epsilon))

    def drawn(self, draw: int) -> tuple[float, float]:
        """The excess risk of one fresh draw of everything, and the epsilon that was certified."""
        chance = np.random.default_rng([zlib.crc32(repr(self.key).encode()), draw])
        sample = self.problem.draw(chance, self.rows, self.dimension)
        cells = grid_cells(sample.features, self.size.bins, low=0.0, high=1.0)
        looks = fresh(chance, self.dimension, NEAR_LOOKS if self.method.name == NEIGHBOURS else LOOKS)
        space = SPACES[self.problem.name](self.size.clip)
        found = self.method.estimate(Task(sample, cells, looks, space, self.epsilon, chance))
        return self.problem.excess(sample.truth(looks), found.estimates), found.epsilon

    def measured(self, draws: int, first: int) -> Row:
        """Its row of results: the mean and the standard deviation of fresh draws of features, labels and noise."""
        size = self.size
        few = self.problem.name == "classification" and self.dimension == 1  # cells where classes cross: two
        most = NEAR_DRAWS if self.method.name == NEIGHBOURS else draws
        draws = min(draws, most, max(MORE if few else FEWEST, DRAWN // self.rows))
        excess, epsilons = np.array([self.drawn(first + draw) for draw in range(draws)]).T
        return {
            "setting": self.method.setting,
            "draws": draws,
            "bins": size.bins,
            "clip": round(size.clip, 2) if self.problem.heavy and self.method.name != "none" else "",
            "certified_epsilon": epsilons.max(),
            "formula": f"{size.excess:.6g}",
            "excess": f"{excess.mean():.6g}",
            "spread": f"{excess.std(ddof=1):.4g}" if draws > 1 else "",
        }


def fresh(chance: np.random.Generator, dimension: int, sides: tuple[int, int]) -> np.ndarray:
    """New rows: one at random in each of the small cubes that fill the unit cube."""
    side = sides[dimension - 1]
    corners = np.meshgrid(*[np.arange(side)] * dimension, indexing="ij")
    return (np.stack([axis.ravel() for axis in corners], axis=1) + chance.random((side**dimension, dimension))) / side


def points(rows: tuple[int, ...], dimensions: tuple[int, ...], epsilons: slice) -> Iterator[Point]:
    """Points to measure: for each method over rows, then over epsilon."""
    for problem in PROBLEMS:
        for dimension in dimensions:
            for method in METHODS[problem.name]:
                for number in rows:
                    yield Point("rows", problem, dimension, method, number, method.epsilon)
                for epsilon in method.epsilons[epsilons]:
                    meanwhile = min(ROWS_MEANWHILE[method.setting.removesuffix("-full")], rows[-1])
                    yield Point("epsilon", problem, dimension, method, meanwhile, epsilon)


@dataclass(frozen=True)
class Slope:
    """A line through logarithms, with an interval for its slope at 95 %."""

    value: float
    half: float

    def __str__(self) -> str:
        return f"{self.value:.2f} +- {self.half:.2f}"

    def holds(self, other: float) -> bool:
        """Tell whether another slope is in the interval."""
        return abs(self.value - other) <= self.half


def slope(part: pd.DataFrame, column: str = "excess") -> Slope:
    """Weighted least squares of log excess risk in the log of what is varied.

    Weights are one over the squared relative standard errors of the means. Where points lie further from the line than
    these say, the interval is widened by as much; its quantile is that of t.
    """
    x, y = np.log(part[part["sweep"].iloc[0]]), np.log(part[column])
    errors = (part["spread"] / part["excess"] / np.sqrt(part["draws"])).fillna(1.0).to_numpy()
    weights, free = errors**-2, len(part) - 2
    if free < 1:
        return Slope(math.nan, math.nan)
    x, y = (values - np.average(values, weights=weights) for values in (x, y))
    spread = float(np.sum(weights * x**2))
    found = float(np.sum(weights * x * y)) / spread
    beyond = float(np.sum(weights * (y - found * x) ** 2)) / free
    return Slope(found, float(stats.t.ppf(0.975, free)) * math.sqrt(max(1.0, beyond) / spread))


def fitted(part: pd.DataFrame) -> pd.DataFrame:
    """The points of a line that a slope is fitted to: of enough cells, and of the first decade of epsilon."""
    part = part[(part["bins"] >= LEAST_BINS) | (part["method"] == NEIGHBOURS)]
    if part["sweep"].eq("epsilon").any():
        method = next(each for each in METHODS[part["problem"].iloc[0]] if each.name == part["method"].iloc[0])
        part = part[part["epsilon"] <= method.epsilons[VARIED - 1]]
    return part


def exponent(sweep: str, problem: str, dimension: int, setting: str) -> float:
    """The slope of Table 1: of its term of epsilon, or of its only term."""
    moments = MOMENTS if problem == "heavy-tailed" else math.inf
    term = rate(setting, problem, dimension=dimension, moments=moments).terms[-1]
    return -(term.rows if sweep == "rows" else term.epsilon)


def distance(sweep: str, problem: str, dimension: int, setting: str) -> float:
    """How far the nearest other slope of Table 1 is, for the same problem and dimension."""
    own, settings = exponent(sweep, problem, dimension, setting), {setting for setting, _ in rate_table()}
    others = [exponent(sweep, problem, dimension, each) for each in settings]
    return min(abs(other - own) for other in others if not math.isclose(other, own))


def cells(given: Given) -> Iterator[Cell]:
    """All points; few of them for a first look."""
    chosen = (ROWS[:3], (1,), slice(2, VARIED)) if given.quick else (ROWS, (1, 2), slice(None))
    yield from (cell_of(*point.key) for point in points(*chosen))


def cell_of(*values: object) -> Cell:
    """A point by its key."""
    return Cell(dict(zip(KEY, values, strict=True)))


def run(given: Given, cell: Cell, first: int) -> Iterator[Row]:
    """The row of a point, about several draws."""
    yield Point.of(cell).measured(given.draws, first)


def page(frames: dict[str, pd.DataFrame], folder: Path) -> list[str]:
    """Slopes, costs of privacy, and mechanisms side by side."""
    results = frames["rates"]
    order = [(problem.name, method.name) for problem in PROBLEMS for method in METHODS[problem.name]]
    places = [order.index(pair) for pair in zip(results["problem"], results["method"], strict=True)]
    results = results.assign(place=places).sort_values(["place", "dimension", "rows", "epsilon"])
    text = [
        "",
        "Slopes are those of log excess risk, with 95 % intervals. *Formula* is the slope, at the same points and",
        "with the same weights, of the sum of errors by which cells were chosen; *over formula* is the mean of what",
        "was measured over what it says. *Agrees* says whether the slope of Table 1 is in the interval; if not,",
        "whether that of the formula is. *Decides*: half of the interval is less than the distance to the nearest",
        "other slope of Table 1 for that problem and dimension; a wider one would agree with both.",
    ]
    fits = slopes(results)
    text += ["", *tally(fits)]
    for sweep, title in (("rows", "with rows"), ("epsilon", "with epsilon")):
        text += ["", f"## Slopes {title}", "", *table(HEAD, [line for by, *line in fits if by == sweep])]
    text += ["", "## What privacy costs", "", *costs(results)]
    text += ["", "## Side by side", "", *ratios(results[results["sweep"] == "rows"])]
    figure(results, folder / "rates.png")
    return text


HEAD = (
    *("problem", "d", "setting", "method", "from", "to", "points", "measured", "Table 1", "formula"),
    *("over formula", "agrees", "decides"),
)


def slopes(results: pd.DataFrame) -> list[list[object]]:
    """What is varied, and then a line of the table, for each method and dimension."""
    lines = []
    for (sweep, problem, dimension, setting, method), every in results.groupby(GROUP, sort=False):
        part = fitted(every)
        if len(part) < 3:
            continue
        fit, printed = slope(part), exponent(sweep, problem, dimension, setting)
        formula = slope(part, "formula").value
        agrees = "yes" if fit.holds(printed) else "as the formula" if fit.holds(formula) else "no"
        decides = "yes" if fit.half < distance(sweep, problem, dimension, setting) else "no"
        varied, over = part[sweep], (part["excess"] / part["formula"]).mean()
        ends = (f"{end:,.15g}" for end in (varied.min(), varied.max()))
        figures = (f"{printed:.2f}", f"{formula:.2f}", f"{over:.2f}", agrees, decides)
        lines.append([sweep, problem, dimension, setting, method, *ends, len(part), fit, *figures])
    return lines


def tally(fits: list[list[object]]) -> list[str]:
    """How many intervals decide between slopes of Table 1, and how many of these agree with their own."""
    deciding = [line for line in fits if line[-1] == "yes"]
    agreeing = [line for line in deciding if line[-2] == "yes"]
    rest = [line for line in fits if line[-1] == "no"]
    return [
        f"Of {len(fits)} intervals {len(deciding)} decide, and {len(agreeing)} of these hold the slope of Table 1. "
        f"{len(rest)} are too wide to decide."
    ]


def plain(results: pd.DataFrame, problem: str, dimension: int, rows: int) -> float:
    """The excess risk without privacy; NaN where it was not measured."""
    keys = {"sweep": "rows", "setting": "non-private", "problem": problem, "dimension": dimension, "rows": rows}
    found = results.loc[np.logical_and.reduce([results[name] == value for name, value in keys.items()]), "excess"]
    return float(found.iloc[0]) if len(found) else math.nan


def costs(results: pd.DataFrame) -> list[str]:
    """Excess risks over those without privacy, for each epsilon at the same number of rows."""
    text = ["Excess risk over that without privacy, and in parentheses the epsilon it was measured at."]
    text += ["*Free from* is where the two terms of Table 1 meet (`free_epsilon`), up to a constant.", ""]
    head = ["problem", "d", "method", "rows", "free from", "from the least epsilon to the largest"]
    lines, varied = [], results[results["sweep"] == "epsilon"]
    for (_, problem, dimension, setting, method), part in varied.groupby(GROUP, sort=False):
        rows = int(part["rows"].iloc[0])
        over = part["excess"] / plain(results, problem, dimension, rows)
        shown = ", ".join(f"{ratio:.3g} ({epsilon:g})" for ratio, epsilon in zip(over, part["epsilon"], strict=True))
        known = setting.startswith("central") and problem != "heavy-tailed"
        free = f"{free_epsilon(rows, dimension):.3f}" if known else ""
        lines.append([problem, dimension, method, f"{rows:,}", free, shown])
    return [*text, *table(head, lines)]


def ratios(results: pd.DataFrame) -> list[str]:
    """The paper's mechanism against the better one: their excess risks at each number of rows."""
    pairs = (
        ("classification", "bits", "subsets"),
        ("classification", "exponential", "permute-and-flip"),
        ("regression", "Laplace", "optimal"),
        ("regression", NEIGHBOURS, "Laplace"),
        ("regression", "means", "means, drawn in"),
        ("heavy-tailed", "Laplace", "one bit"),
        ("heavy-tailed", NEIGHBOURS, "Laplace"),
        ("heavy-tailed", "means", "means, drawn in"),
    )
    cells = results.set_index(["problem", "dimension", "method", "rows"])
    found = sorted(results["rows"].unique())
    head = ["excess risk of", "over that of", "problem", "d", *(f"{rows:,} rows" for rows in found)]
    lines = []
    for problem, one, other in pairs:
        for dimension in sorted(results["dimension"].unique()):
            shown = []
            for rows in found:
                keys = [(problem, dimension, method, rows) for method in (one, other)]
                if any(key not in cells.index for key in keys):
                    shown.append("")
                    continue
                mean, spread, draws = (cells.loc[keys, name].to_numpy() for name in ("excess", "spread", "draws"))
                error = mean[0] / mean[1] * math.sqrt(np.sum((spread / mean) ** 2 / draws))
                shown.append(f"{mean[0] / mean[1]:.2f} ({error:.2f})")
            if any(shown):
                lines.append([one, other, problem, dimension, *shown])
    return ["Standard errors in parentheses.", "", *table(head, lines)]


def figure(results: pd.DataFrame, path: Path) -> None:
    """Excess risk over rows and epsilon, the slopes of Table 1 through points of fits, and dots: without privacy."""
    dimensions = sorted(results["dimension"].unique())
    panels = [(sweep, dimension) for sweep in ("rows", "epsilon") for dimension in dimensions]
    drawing = Figure(figsize=(3.6 * len(panels) + 3.0, 10.5), layout="constrained")
    axes = drawing.subplots(len(PROBLEMS), len(panels), squeeze=False)
    for row, problem in zip(axes, PROBLEMS, strict=True):
        for axis, (sweep, dimension) in zip(row, panels, strict=True):
            chosen = results["problem"].eq(problem.name) & results["dimension"].eq(dimension)
            for keys, part in results[chosen & results["sweep"].eq(sweep)].groupby(GROUP, sort=False):
                line(axis, *keys, part)
                if sweep == "epsilon":
                    level = plain(results, problem.name, dimension, int(part["rows"].iloc[0]))
                    axis.axhline(level, color=COLOURS[keys[3]], linewidth=0.8, linestyle=":")
            axis.set(xscale="log", yscale="log", xlabel=sweep, title=f"{problem.name}, d = {dimension}")
        row[0].set_ylabel("excess risk")
        row[-1].legend(handles=legend(problem.name), fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    drawing.savefig(path, dpi=75)
    with Image.open(path) as image:
        image.convert("RGB").quantize(64).save(path, optimize=True)


def line(axis: object, sweep: str, problem: str, dimension: int, setting: str, method: str, part: pd.DataFrame) -> None:
    """Means with standard errors, and Table 1."""
    colour, marker = COLOURS[setting], marker_of(problem, method)
    errors = (part["spread"] / np.sqrt(part["draws"])).fillna(0.0)
    axis.errorbar(part[sweep], part["excess"], errors, fmt=marker, color=colour, markersize=4, fillstyle="none")
    fit = fitted(part)
    if len(fit) >= 3:
        x, power = fit[sweep].to_numpy(float), exponent(sweep, problem, dimension, setting)
        level = np.mean(np.log(fit["excess"]) - power * np.log(x))
        axis.plot(x[[0, -1]], np.exp(level) * x[[0, -1]] ** power, color=colour, linewidth=0.8)


def marker_of(problem: str, method: str) -> str:
    """One for each method of a setting."""
    setting = next(each.setting for each in METHODS[problem] if each.name == method)
    beside = [each.name for each in METHODS[problem] if each.setting == setting]
    return "osD"[beside.index(method)]


def legend(problem: str) -> list[Line2D]:
    """Legend of colours and markers."""
    found = []
    for each in METHODS[problem]:
        name = each.name if each.name.startswith(each.setting) else f"{each.setting}, {each.name}"
        name += f", epsilon {each.epsilon:g}" if each.epsilon < math.inf else ""
        look = {"marker": marker_of(problem, each.name), "markersize": 4, "fillstyle": "none"}
        found.append(Line2D([], [], color=COLOURS[each.setting], linewidth=0.8, label=name, **look))
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """A first look."""
    parser.add_argument("--quick", action="store_true", help="few rows, one dimension, in seconds")


STUDY = Study(
    name="rates",
    recipe="1",
    key=KEY,
    columns=(
        *("sweep", "problem", "dimension", "setting", "method", "rows", "epsilon", "draws", "bins", "clip"),
        *("certified_epsilon", "formula", "excess", "spread", "seconds"),
    ),
    cells=cells,
    run=run,
    spots=tuple(
        Spot(cell_of("rows", problem, 1, method, 3162, epsilon), "excess", draws=1, spread="spread")
        for problem, method, epsilon in (
            ("classification", "subsets", LOCAL),
            ("classification", "permute-and-flip", ARGMAX),
            ("regression", "optimal", LOCAL),
            ("regression", "Laplace", LOCAL),
            ("regression", NEIGHBOURS, LOCAL),
            ("regression", "means, drawn in", CENTRAL),
            ("heavy-tailed", "one bit", LOCAL),
            ("heavy-tailed", "means", CENTRAL),
        )
    ),
)
EXPERIMENT = Experiment(
    name="rates",
    question="How fast do errors fall with rows and with epsilon, for known functions?",
    studies=(STUDY,),
    page=page,
    draws=100,
    options=options,
)

if __name__ == "__main__":
    main(EXPERIMENT)
