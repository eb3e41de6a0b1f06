"""Nothing is found in features that say nothing: every score, attack, forecast and metric, on labels that are noise.

Each line of a table names a public function and what it finds on one draw of a world: labels of two or ten classes as
likely as each other, features that do not depend on them, and a release at a small or a large epsilon. Over the draws
no figure is impossible, no gain is found, and intervals hold the truth as often as they say. A new score or audit must
join a table.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import binom

from labeldp import Classes, Curator, Interval, RandomizedResponse
from labeldp.learning import metrics

WORLDS = tuple(itertools.product((2, 10), (0.5, 4.0)))
IDS = [f"{classes} classes, epsilon {epsilon:g}" for classes, epsilon in WORLDS]
DRAWS, ROWS = 20, 400
#: Probability of a false alarm of one line of a table in one world, over all draws.
FALSE_ALARM = 1e-3


@dataclass(frozen=True)
class Found:
    """A figure with its interval, the truth if it is known, the possible range, and how often the interval may miss.

    A gain is found where its interval is above zero; of other figures the interval must hold the truth.
    """

    value: float
    low: float
    high: float
    truth: float | None
    least: float = 0.0
    most: float = 1.0
    level: float = 0.95
    gain: bool = False

    @property
    def is_possible(self):
        """The interval is in the range, and holds the estimate once that is clipped to the range."""
        held = math.isnan(self.value) or self.low <= min(max(self.value, self.least), self.most) <= self.high
        return held and self.least <= self.low <= self.high <= self.most

    @property
    def missed(self):
        """A gain where there is none, or an interval without the truth."""
        return self.low > 0.0 if self.gain else not self.low - 1e-9 <= self.truth <= self.high + 1e-9


@dataclass(frozen=True, eq=False)
class World:
    """One draw: labels, features and predictions that know nothing of each other, and releases of the labels."""

    classes: int
    epsilon: float
    random: np.random.Generator

    def __post_init__(self):
        names = [chr(ord("a") + code) for code in range(self.classes)]
        codes, space = self.random.integers(0, self.classes, ROWS), Classes(names)
        numbers = Interval(0.0, self.classes - 1.0, 1.0)
        labels = np.array(names)[codes]
        facts = {
            "labels": labels,
            "features": self.random.normal(size=(ROWS, 3)),
            "release": Curator(labels, space).randomize(RandomizedResponse(space, self.epsilon)),
            "numbers": Curator(codes.astype(float), numbers).randomize(RandomizedResponse(numbers, self.epsilon)),
            "beliefs": self.random.dirichlet(np.full(self.classes, 2.0), ROWS),
            "predicted": np.array(names)[self.random.integers(0, self.classes, ROWS)],
            "guesses": self.random.integers(0, self.classes, ROWS).astype(float),
            "variance": (self.classes**2 - 1) / 12,
        }
        for name, fact in facts.items():
            object.__setattr__(self, name, fact)

    @property
    def share(self):
        """The share of each class."""
        return 1 / self.classes


def draws_of(classes, epsilon, draws=DRAWS):
    """Draws of a world."""
    return [World(classes, epsilon, np.random.default_rng([classes, int(epsilon), draw])) for draw in range(draws)]


def of(estimate, truth, least=0.0, most=1.0, value=None, **more):
    """What an estimate says."""
    return Found(estimate.value if value is None else value, estimate.low, estimate.high, truth, least, most, **more)


class Guesser:
    """A model that predicts what a world says, whatever the rows are."""

    def __init__(self, world):
        self.world, self.classes_ = world, np.array(world.release.space.points)

    def predict_proba(self, X):  # noqa: N803 (scikit-learn's name)
        """P(class | features)."""
        return self.world.beliefs[: len(X)]

    def predict(self, X):  # noqa: N803
        """The predicted class."""
        return self.world.predicted[: len(X)]


class NumberGuesser(Guesser):
    """The same with numbers."""

    def predict(self, X):  # noqa: N803
        """The predicted number."""
        return self.world.guesses[: len(X)]


def calibration_of(world):
    """Frequencies of one class in bins of predictions."""
    frequency = metrics.calibration(world.release, world.beliefs, "a", bins=3).frequency
    return [of(frequency[place], world.share) for place in range(len(frequency))]


def confusion_of(world):
    """Rows of each true and predicted class."""
    found, rows = (
        metrics.confusion_matrix(world.release, world.predicted),
        [sum(world.predicted == name) for name in "ab"],
    )
    return [of(found[y, f], rows[f] * world.share, 0.0, rows[f]) for y, f in ((0, 0), (0, 1), (1, 1))]


def recall_of(world):
    """The share of the rows of a class that are predicted as such."""
    found = metrics.recall(world.release, world.predicted)
    return [of(found[place], world.share) for place in range(2)]


INFINITE = math.inf
#: Metrics by name, and what they find.
METRICS = {
    "accuracy": lambda w: [of(metrics.accuracy(w.release, w.predicted), w.share)],
    "accuracy_scorer": lambda w: [
        of(
            metrics.accuracy(w.release, w.predicted),
            w.share,
            value=metrics.accuracy_scorer(Guesser(w), w.features, w.release),
        )
    ],
    "auc": lambda w: [
        of(metrics.auc(w.release, w.beliefs[:, 0], "a"), 0.5),
        of(metrics.auc(w.release, w.beliefs[:, 0], "a", groups=np.arange(ROWS) % 5), 0.5),
    ],
    "calibration": calibration_of,
    "confusion_matrix": confusion_of,
    "log_likelihood": lambda w: [
        of(metrics.log_likelihood(w.release, w.beliefs), None, -INFINITE, math.log(w.classes), gain=True)
    ],
    "log_likelihood_scorer": lambda w: [
        of(
            metrics.log_likelihood(w.release, w.beliefs),
            None,
            -INFINITE,
            math.log(w.classes),
            value=metrics.log_likelihood_scorer(Guesser(w), w.features, w.release),
            gain=True,
        )
    ],
    "log_loss": lambda w: [
        of(metrics.log_loss(w.release, w.beliefs), digamma(2.0 * w.classes) - digamma(2.0), 0.0, INFINITE)
    ],
    "mean_absolute_error": lambda w: [
        of(metrics.mean_absolute_error(w.numbers, w.guesses), (w.classes**2 - 1) / (3 * w.classes), 0.0, INFINITE)
    ],
    "mean_label": lambda w: [of(metrics.mean_label(w.numbers), (w.classes - 1) / 2, 0.0, w.classes - 1)],
    "mean_squared_error": lambda w: [
        of(metrics.mean_squared_error(w.numbers, w.guesses), 2 * w.variance, 0.0, INFINITE)
    ],
    "r2": lambda w: [of(metrics.r2(w.numbers, w.guesses), -1.0, -INFINITE)],
    "recall": recall_of,
    "squared_gain": lambda w: [
        of(metrics.squared_gain(w.numbers, w.guesses), -w.variance, -INFINITE, INFINITE),
        of(metrics.squared_gain(w.numbers, w.guesses), None, -INFINITE, INFINITE, gain=True),
    ],
    "squared_scorer": lambda w: [
        of(
            metrics.squared_gain(w.numbers, w.guesses),
            -w.variance,
            -INFINITE,
            INFINITE,
            value=metrics.squared_scorer(NumberGuesser(w), w.features, w.numbers),
        )
    ],
}


def misses_of(lines, worlds):
    """How often each figure of each line missed; an impossible figure ends the test."""
    misses = defaultdict(int)
    for world, (name, find) in itertools.product(worlds, lines.items()):
        for place, found in enumerate(find(world)):
            assert found.is_possible, (name, found)
            misses[name, place] += found.missed
    return misses


def most_misses(draws, level=0.95):
    """The largest count of misses that is no false alarm."""
    return binom.isf(FALSE_ALARM, draws, 1 - level)


@pytest.mark.parametrize(("classes", "epsilon"), WORLDS, ids=IDS)
def test_metrics_find_nothing(classes, epsilon):
    """Estimates are possible, and their intervals hold the truth, over fifty draws (false alarm: 1e-3 each)."""
    misses = misses_of(METRICS, draws_of(classes, epsilon, 50))
    assert {line: count for line, count in misses.items() if count > most_misses(50)} == {}


def test_every_metric_is_in_the_table():
    """A new metric must join it."""
    assert set(METRICS) == set(metrics.__all__)
