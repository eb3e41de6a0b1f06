"""Excess risk of convex learning on the hardest loss there is, and the noise of released labels, by simulation."""

import functools
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from labeldp import (
    BitResponse,
    Classes,
    Curator,
    RandomizedResponse,
    Release,
    SubsetResponse,
    gradient_noise,
    gradient_response,
)
from labeldp.bounds.theorems import (
    Bound,
    ConvexProblem,
    convex_channel_upper,
    convex_local_upper,
    convex_sequential_lower,
    convex_vector_upper,
)
from labeldp.learning.convex import Ball, ConvexClassifier, FewRowsWarning, fit_interactively
from labeldp.mechanisms.queries import gradient_error
from labeldp.mechanisms.randomizers import ClassRandomizer

DELTA = 1e-6
FREE = "no privacy"
OWN = 0.5  # what gradients of the linear loss have of their own, at right angles
DRAWN, FEWEST, MOST = 2_000_000, 5, 40  # rows of all draws of a point together, and how many draws
TOLD, LONG = 40, 50  # interactive gradients take so many times as long; so many classes take twice as long
ROWS = tuple(round(10 ** (power / 2)) for power in range(6, 13))
ROWS_TOLD = ROWS[:4]
CLASSES = (2, 4, 10, 30, 100, 300, 1000)
CLASSES_TOLD = (4, 10, 30, 100)
REGIMES = {"high": (1.0, 300_000), "medium": (3.0, 100_000), "low": (8.0, 100_000)}  # epsilon and rows
EPSILONS, EPSILONS_TOLD = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0), (0.25, 1.0, 3.0, 6.0)
MEANWHILE, MEANWHILE_TOLD = 100_000, 5_000
FACTORS, SHORTER_OR_LONGER = (0.25, 0.5, 1.0, 2.0, 4.0), ("response", "bits, Algorithm 1", "subset")
BETWEEN = ("bits", "subset, Appendix A")  # of methods that differ little, two are left out over rows
KEY = ("sweep", "law", "method", "classes", "rows", "epsilon", "factor")
COLUMNS = (*KEY, "draws", "length", "capped", "excess", "spread", "upper", "lower", "certified_epsilon", "seconds")


@dataclass(frozen=True)
class Law:
    """Output distributions of labels around the uniform one, at a requested length as far as there is one.

    Attributes:
        most: The largest length, by the number of classes.
        direction: A direction of length 1, by chance.
    """

    most: Callable[[int], float]
    direction: Callable[[np.random.Generator, int], np.ndarray]


def signs(chance: np.random.Generator, k: int) -> np.ndarray:
    """Half of the classes up, and half of them down."""
    return chance.permutation(np.repeat([1.0, -1.0], k // 2)) / math.sqrt(k)


def spike(chance: np.random.Generator, k: int) -> np.ndarray:
    """One class up, and all others down."""
    away = np.eye(k)[chance.integers(k)] - 1 / k
    return np.asarray(away / math.sqrt(1 - 1 / k))


#: Theorem 2 has ``1/K +- gamma``, gamma at most ``1/(2K)``; one class can be as far from even chances as there is.
LAWS = {"signs": Law(lambda k: 1 / (2 * math.sqrt(k)), signs), "spike": Law(lambda k: math.sqrt(1 - 1 / k), spike)}


@dataclass(frozen=True)
class Method:
    """A way to learn.

    Attributes:
        noise: The variance that it adds to the vector of a label, from k and epsilon.
        fit: Fits a model to labels that keep epsilon, and says the epsilon that is certified.
        upper: The bound at its own steps, from n, k and epsilon.
        model: What is fitted.
        told: Whether labels are asked for one by one, which takes longer.
    """

    noise: Callable[[int, float], float]
    fit: Callable[[ConvexClassifier, np.ndarray, Classes, float], float]
    upper: Callable[[int, int, float], Bound | None]
    model: Callable[[], ConvexClassifier]
    told: bool = False


def learner(**settings: object) -> Callable[[], ConvexClassifier]:
    """A learner of the linear loss over the unit ball, with a feature that is always 1."""
    return lambda: ConvexClassifier("linear", region=Ball(1.0), fit_intercept=False, **settings)


Maker = Callable[[Classes, float], ClassRandomizer]


def paper_subset(space: Classes, epsilon: float) -> ClassRandomizer:
    """Appendix A: subsets of ``ceil(K / (2e))``."""
    return SubsetResponse(space, epsilon, min(max(1, math.ceil(space.size * math.exp(-epsilon) / 2)), space.size - 1))


def public(model: ConvexClassifier, labels: np.ndarray, space: Classes, _: float) -> float:
    """From true labels."""
    model.fit(np.ones((len(labels), 1)), Release.public(labels, space))
    return math.inf


def released(make: Maker, model: ConvexClassifier, labels: np.ndarray, space: Classes, epsilon: float) -> float:
    """From released labels."""
    release = Curator(labels, space, budget=epsilon).randomize(make(space, epsilon))
    model.fit(np.ones((len(labels), 1)), release)
    return release.guarantee.epsilon


def told(delta: float, model: ConvexClassifier, labels: np.ndarray, space: Classes, epsilon: float) -> float:
    """Fit by gradients that a curator answers with."""
    curator = Curator(labels, space, budget=(epsilon, delta))
    fit_interactively(model, np.ones((len(labels), 1)), curator, epsilon=epsilon, delta=delta)
    return model.answer_.guarantee.epsilon


def channel_noise(make: Maker, projected: bool, k: int, epsilon: float) -> float:
    """Of released labels."""
    return gradient_noise(make(Classes(range(k)), epsilon).channel(), projected=projected).right_angled


def told_noise(delta: float, k: int, epsilon: float) -> float:
    """Error of interactive gradients."""
    radius = math.sqrt(1 - 1 / k)
    return gradient_error(epsilon, delta, classes=k, dimension=k - 1, spread=math.sqrt(2.0), radius=radius)


def lipschitz(k: int) -> float:
    """Of the loss."""
    return OWN * math.sqrt(1 - 1 / k)


def unbounded(*_: float) -> None:
    """Nothing is said here."""


def channel_upper(make: Maker, n: int, k: int, epsilon: float) -> Bound:
    """From any released labels; the first point is the centre of the ball, 1 from all others at most."""
    channel = make(Classes(range(k)), epsilon).channel()
    return convex_channel_upper(n, channel, 1.0, lipschitz(k), right_angled=OWN)


def local_method(make: Maker, *, upper: object = None, projected: bool = True, **settings: object) -> Method:
    """From labels that a randomizer released."""
    noise, fit = functools.partial(channel_noise, make, projected), functools.partial(released, make)
    bound = functools.partial(channel_upper, make) if upper is None else upper
    return Method(noise, fit, bound, learner(project=projected, **settings))


def told_method(delta: float, upper: Callable[[int, int, float], Bound | None]) -> Method:
    """A method from interactive gradients."""
    return Method(functools.partial(told_noise, delta), functools.partial(told, delta), upper, learner(), told=True)


METHODS = {
    FREE: Method(lambda *_: 0.0, public, unbounded, learner()),
    "response": local_method(RandomizedResponse),
    "response, Theorem 9": local_method(RandomizedResponse, upper=unbounded, steps="ghazi", average=False),
    "bits, Algorithm 1": local_method(
        BitResponse,
        upper=lambda n, k, e: convex_local_upper(ConvexProblem(n, e, 2.0, lipschitz(k)), k),
        projected=False,
        steps="chua",
    ),
    "bits": local_method(BitResponse),
    "subset, Appendix A": local_method(paper_subset),
    "subset": local_method(gradient_response),
    "normal": told_method(DELTA, unbounded),
    "vector": told_method(
        0.0, lambda n, k, e: convex_vector_upper(ConvexProblem(n, e, 1.0, lipschitz(k)), k, right_angled=OWN)
    ),
}


@dataclass(frozen=True)
class Point:
    """One place of one line.

    Attributes:
        factor: What the length of the law is multiplied with, around the hardest one.
    """

    sweep: str
    law: str
    method: str
    classes: int
    rows: int
    epsilon: float
    factor: float = 1.0

    @property
    def key(self) -> tuple[object, ...]:
        """Its place in the results file."""
        return tuple(getattr(self, name) for name in KEY)

    @functools.cached_property
    def length(self) -> float:
        """Distance of the probabilities from uniform: the root mean square error of the mean of all vectors.

        For bits that is Theorem 2's gamma, with a constant of about 2. Shorter ones cost little if they are missed, and
        longer ones are not missed.
        """
        k = self.classes
        total = METHODS[self.method].noise(k, self.epsilon) + 1 - 1 / k
        return min(LAWS[self.law].most(k), self.factor * math.sqrt(total / self.rows))

    def drawn(self, draw: int) -> tuple[float, float]:
        """The exact excess risk of one fresh draw of everything, and the epsilon that was certified."""
        chance = np.random.default_rng([zlib.crc32(repr(self.key).encode()), draw])
        best = LAWS[self.law].direction(chance, self.classes)
        chances = np.maximum(1 / self.classes + self.length * best, 0.0)
        labels = chance.choice(self.classes, self.rows, p=chances / chances.sum())
        method = METHODS[self.method]
        model = method.model()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewRowsWarning)
            spent = method.fit(model, labels, Classes(range(self.classes)), self.epsilon)
        return OWN * self.length * (1 - float(model.coef_[:, 0] @ best)), spent

    def measured(self, draws: int, first: int) -> dict[str, object]:
        """Its row of results, about several draws from the first on."""
        cost = self.rows * (1 + self.classes / LONG) * (TOLD if METHODS[self.method].told else 1)
        draws = min(draws, max(FEWEST, min(MOST, round(DRAWN / cost))))
        excess, spent = np.array([self.drawn(first + draw) for draw in range(draws)]).T
        k, upper = self.classes, METHODS[self.method].upper(self.rows, self.classes, self.epsilon)
        lower = convex_sequential_lower(ConvexProblem(self.rows, self.epsilon, 2.0, lipschitz(k)), k)
        return {
            "draws": draws,
            "length": f"{self.length:.6g}",
            "capped": int(self.length >= LAWS[self.law].most(k)),
            "excess": f"{excess.mean():.6g}",
            "spread": f"{excess.std(ddof=1):.4g}" if draws > 1 else "",
            "upper": "" if upper is None else f"{upper.value:.6g}",
            "lower": f"{lower.value:.6g}",
            "certified_epsilon": spent.max(),
        }


def points(*, quick: bool = False) -> Iterator[Point]:
    """Points to measure: over rows, classes and epsilon, and over lengths around the hardest one."""
    for name, method in METHODS.items():
        if quick:
            yield Point("rows", "signs", name, 4, 1000, 1.0)
            yield Point("classes", "spike", name, 30, 1000, 1.0)
            continue
        lines = (("signs", 10), ("spike", 10), ("spike", 100))
        for law, k in () if name in BETWEEN else lines[:2] if method.told else lines:
            for n in ROWS_TOLD if method.told else ROWS[:-1] if k > LONG else ROWS:
                yield Point("rows", law, name, k, n, 1.0)
        for epsilon, rows in list(REGIMES.values())[: 1 if name == FREE else None]:
            for k in CLASSES_TOLD if method.told else CLASSES:
                yield Point("classes", "spike", name, k, MEANWHILE_TOLD if method.told else rows, epsilon)
        meanwhile = MEANWHILE_TOLD if method.told else MEANWHILE
        for epsilon in () if name == FREE else EPSILONS_TOLD if method.told else EPSILONS:
            yield Point("epsilon", "spike", name, 100, meanwhile, epsilon)
        for factor in FACTORS if name in SHORTER_OR_LONGER else ():
            yield Point("factor", "spike", name, 100, meanwhile, 1.0, factor)


VARIANCE_CLASSES, VARIANCE_EPSILONS = (10, 100, 1000), (0.5, 1.0, 2.0, 4.0)
VARIANCE_ROWS, BLOCK = 20_000, 2_000
VARIANCE_COLUMNS = ("classes", "epsilon", "method", "draw", "rows", "size", "formula", "any", "measured", "error")
RANDOMIZERS: dict[str, Maker] = {
    "response": RandomizedResponse,
    "bits": BitResponse,
    "subset, Appendix A": paper_subset,
    "subset": gradient_response,
}


def variance_pairs(*, quick: bool = False) -> Iterator[tuple[int, float]]:
    """Numbers of classes and epsilons."""
    for k in VARIANCE_CLASSES[-1:] if quick else VARIANCE_CLASSES:
        yield from ((k, epsilon) for epsilon in (VARIANCE_EPSILONS[1:2] if quick else VARIANCE_EPSILONS))


def variances(k: int, epsilon: float, draw: int, *, quick: bool = False) -> Iterator[dict[str, object]]:
    """Mean squared distances of vectors of released labels from the true ones, beside what is computed."""
    space = Classes(range(k))
    labels = np.random.default_rng([k, draw]).integers(k, size=VARIANCE_ROWS // (10 if quick else 1))
    for name, make in RANDOMIZERS.items():
        randomizer = make(space, epsilon)
        noise = gradient_noise(randomizer.channel())
        squares = squared_distances(Curator(labels, space, budget=epsilon).randomize(randomizer), labels)
        yield {
            "method": name,
            "rows": len(labels),
            "size": getattr(randomizer.channel(), "size", ""),
            "formula": f"{noise.right_angled:.6g}",
            "any": f"{noise.any:.6g}",
            "measured": f"{squares.mean():.6g}",
            "error": f"{squares.std(ddof=1) / math.sqrt(len(squares)):.3g}",
        }


def squared_distances(release: Release, labels: np.ndarray) -> np.ndarray:
    """From the unbiased vector of each released label, entries made to sum to one, to that of the true label."""
    found = np.empty(len(labels))
    for low in range(0, len(labels), BLOCK):
        part = slice(low, low + BLOCK)
        vectors = release[part].unbiased()
        vectors = vectors + (1 - vectors.sum(axis=1, keepdims=True)) / vectors.shape[1]
        found[part] = ((vectors - np.eye(vectors.shape[1])[labels[part]]) ** 2).sum(axis=1)
    return found
