"""Prediction sets: the classes, or the range of numbers, that hold the true label of most rows, by released labels.

The sets of a model are nested: the smaller the least probability of a class in its set, or the wider an interval, the
larger is the share of rows whose set holds the true label. For each of a fixed sequence of sets, from the one of all
labels on, released labels of rows that the model was not fitted on test whether that share is at least the coverage
that is wanted. The last sets before the first that are not shown to have it are taken. Of the sets that do not have it,
the first in the sequence must pass its own test for the choice to be wrong, so the confidence is that of one test.

A row scores the unbiased indicator of "the set holds the true label" less the coverage. Where numbers were released
and do not identify that indicator, it scores a function that is below it in the mean (``lower_scores``).

References:
    Bates et al. 2021, Distribution-free, risk-controlling prediction sets, Theorem A.1, for nested sets; Sadinle, Lei
    and Wasserman 2019, for sets by the probability of each class, the smallest on average; Natarajan et al. 2013, Lemma
    1, for the indicator.

The rule that turns predictions into sets is thresholds, which released labels calibrate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower
from labeldp._notebook import Shown
from labeldp._shapes import Bool, Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.inference._lower_scores import LowerScores
from labeldp.learning.losses import blocks_of, ends_of, require_release, unbiased_rows
from labeldp.learning.metrics import Bounds, Estimate, Units, accuracy, mean_of_rows
from labeldp.privacy import ClassProbabilities, Interval
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release, check_same_rows

#: Key of the limit that holds for all rows and classes.
ALL = ""
BY_CLASS, BY_GROUP = "class", "group"
#: Longest reason in a file.
_MOST_CHARACTERS = 1000


@dataclass(frozen=True, eq=False)
class PredictionSets(Shown):
    """Rule that turns a model's predictions into sets that hold the true label of at least a share of rows.

    Attributes:
        alpha: Largest share of rows whose set may miss the true label.
        confidence: Probability, over the rows and the noise of their labels, that the sets of fresh rows miss no more.
        classes: The classes in declared order; None of numeric labels.
        ends: The declared range of numeric labels; None of classes.
        by: ``""`` if the coverage is that of all rows, ``"class"`` if it holds in each class, ``"group"`` in each
            public group. The confidence is then that all of them hold together.
        limits: The least probability of a class in a set, or the largest distance of a number from the prediction: one,
            or one for each class or group. 0, or infinity, where only the set of all labels is shown to suffice. The
            most likely class is always in its set.
        rows: Number of rows that it was calibrated on.
        size: Mean number of classes in the sets of these rows, or mean width of their intervals.
        reasons: Why sets are of all labels: one for each class or group where they are, or one for all.
    """

    alpha: float
    confidence: float
    classes: tuple[object, ...] | None
    ends: tuple[float, float] | None
    by: str
    limits: Mapping[object, float]
    rows: int
    size: float = math.nan
    reasons: Mapping[object, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("limits", "reasons"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def of(self, model: Any, features: Any, groups: object = None) -> Any:
        """The sets of rows.

        Args:
            model: The model that it was calibrated for.
            features: Features of n rows.
            groups: The public group of each row, if the coverage is by group.

        Returns:
            Of classes a mask of shape (n, k), in the order of ``classes``; of numbers the lower and the upper end of
            each interval, shape (n, 2).

        Raises:
            InputError: There is no group for each row, or a group without rows to calibrate on.
        """
        if self.classes is None:
            return self.intervals(model.predict(features), groups)
        return self.members(ClassProbabilities.of(model, features).in_order(self.classes), groups)

    def members(self, probabilities: Float[np.ndarray, "n k"], groups: object = None) -> Bool[np.ndarray, "n k"]:
        """The classes in the set of each row, from probabilities in declared order."""
        if self.by == BY_CLASS:
            return held_classes(probabilities, np.array([self.limits[each] for each in self.classes or ()]))
        return held_classes(probabilities, self._of_rows(len(probabilities), groups)[:, None])

    def intervals(self, predicted: Float[np.ndarray, "n"], groups: object = None) -> Float[np.ndarray, "n 2"]:
        """The interval of each row, from predicted numbers."""
        reach = self._of_rows(len(predicted), groups)
        ends = np.stack([predicted - reach, predicted + reach], axis=1)
        return np.asarray(np.clip(ends, *(self.ends or (-np.inf, np.inf))))

    def plain(self) -> dict[str, Any]:
        """The rule as values of JSON: of one limit, or of one for each class in declared order."""
        if self.by == BY_GROUP:
            raise InputError("expected one limit for all rows or for each class in a file, found one for each group")
        limits = [_finite(self.limits[key]) for key in self._keys]
        reasons = [self.reasons.get(key, "") for key in self._keys]
        return {"alpha": self.alpha, "confidence": self.confidence, "limit": limits if self.by else limits[0]} | {
            "rows": self.rows,
            "size": _finite(self.size),
            "reason": reasons if self.by else reasons[0],
        }

    @classmethod
    def from_plain(cls, plain: Any, classes: tuple[object, ...] | None, ends: tuple[float, float] | None) -> Self:
        """The rule of ``plain``."""
        alpha, confidence, rows = float(plain["alpha"]), float(plain["confidence"]), int(plain["rows"])
        size = math.nan if plain["size"] is None else float(plain["size"])
        by_class = isinstance(plain["limit"], list)
        found = (plain[name] if by_class else [plain[name]] for name in ("limit", "reason"))
        limits, reasons = [math.inf if each is None else float(each) for each in next(found)], [*map(str, next(found))]
        rule = cls(alpha, confidence, classes, ends, BY_CLASS if by_class else "", {}, rows, size)
        if not (
            0.0 < alpha < 1.0
            and 0.5 < confidence < 1.0
            and rows > 0
            and len(limits) == len(reasons) == len(rule._keys)
            and min(limits) >= 0.0
            and max(map(len, reasons)) < _MOST_CHARACTERS
        ):
            raise ValueError("no rule of prediction sets")
        told = {key: reason for key, reason in zip(rule._keys, reasons, strict=True) if reason}
        return replace(rule, limits=dict(zip(rule._keys, limits, strict=True)), reasons=told)

    @property
    def _keys(self) -> tuple[object, ...]:
        """The keys of the limits of a rule in a file."""
        return (self.classes or ()) if self.by == BY_CLASS else (ALL,)

    def _of_rows(self, rows: int, groups: object) -> Float[np.ndarray, "n"]:
        """The limit of each row."""
        if (groups is not None) != (self.by == BY_GROUP):
            found = "some" if groups is not None else "none"
            raise InputError(f"expected groups of rows for sets that were calibrated by group alone, found {found}")
        if groups is None:
            return np.full(rows, self.limits[ALL])
        names = np.asarray(groups).tolist()
        unknown = next((each for each in names if each not in self.limits), None)
        if len(names) != rows or unknown is not None:
            found = f"the group {unknown!r}" if unknown is not None else f"{len(names)}"
            raise InputError(f"expected one of the groups that sets were calibrated on for each row, found {found}")
        return np.array([self.limits[each] for each in names])


def held_classes(probabilities: Float[np.ndarray, "n k"], limit: Any) -> Bool[np.ndarray, "n k"]:
    """The classes with at least a probability, and the most likely one."""
    held = np.asarray(probabilities >= limit)
    held[np.arange(len(held)), np.argmax(probabilities, axis=1)] = True
    return held


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


By = Literal["class"] | Sequence[object] | np.ndarray
#: Expected shares of rows whose sets miss the true label, if the model is right, at which sets are tried.
_MISSED = np.geomspace(1e-4, 0.95, 96)
_LEVEL = 0.95
_CANDIDATES = "released labels of rows with candidates, or of groups of classes, do not tell how often sets hold them"
_TOO_FEW = (
    "{} released {} are too few: even if every set held the true label, it would take {} to show a coverage of {:g} "
    "with a confidence of {:g}"
)
_NOT_SHOWN = "no smaller sets are shown to hold the true label in so many rows, by labels as noisy and rows as few"


def prediction_sets(
    model: Any,
    features: Any,
    release: Release,
    alpha: float = 0.1,
    *,
    confidence: float = 0.95,
    by: By | None = None,
    units: object = None,
) -> PredictionSets:
    """Calibrate sets of classes, or intervals of numbers, that hold the true label of at least 1 - alpha of rows.

    Args:
        model: A fitted model with ``predict_proba`` and ``classes_``, or with ``predict`` for numeric labels.
        features: Features of n rows that it was not fitted on.
        release: Their released labels.
        alpha: Largest share of rows whose set may miss the true label.
        confidence: Probability that the sets of fresh rows miss no more, at least.
        by: ``"class"`` for that coverage among the rows of each true class, or the public group of each row, shape
            (n,), for that coverage in each; the confidence is that all hold together (Bonferroni).
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost. The coverage is that of the
        mean row of the population that the rows were drawn from, not of each row. Its tests are those of Student's
        distribution, corrected for skewness, with no less variance than that of the coverage itself, and exact for
        public labels of rows that are their own unit.

    Raises:
        InputError: A number is out of range, there are no rows, or not one unit or group for each.

    Example:
        >>> from sklearn.linear_model import LogisticRegression
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> import numpy as np
        >>> x = np.linspace(-3, 3, 20_000)[:, None]
        >>> truth = np.where(x[:, 0] > 0, "ill", "well")
        >>> space = Classes(["ill", "well"])
        >>> release = Curator(truth, space, budget=4.0).randomize(RandomizedResponse(space, 4.0))
        >>> model = LogisticRegression().fit(x[::2], truth[::2])
        >>> sets = prediction_sets(model, x[1::2], release[np.arange(1, 20_000, 2)])
        >>> sets.of(model, [[-3.0], [3.0]]).tolist()
        [[False, True], [True, False]]
    """
    check_same_rows(features, require_release(release))
    if _predicts_numbers(model, release):
        return calibrated_sets(release, model.predict(features), alpha, confidence, by, units)
    chances = ClassProbabilities.of(model, features)
    return calibrated_sets(release, chances, alpha, confidence, by, units)


def _predicts_numbers(model: Any, release: Release) -> bool:
    of_classes = hasattr(model, "predict_proba") and not getattr(model, "of_numbers", False)
    return isinstance(release.space, Interval) and not of_classes


def calibrated_sets(
    release: Release,
    predicted: object,
    alpha: float,
    confidence: float = 0.95,
    by: By | None = None,
    units: object = None,
) -> PredictionSets:
    """The sets of ``prediction_sets``, of predictions: ``ClassProbabilities``, or numbers."""
    alpha = _checks.share(alpha, "alpha", "()", "; use for instance 0.1")
    confidence = _checks.share(confidence, "a confidence", "()", "; use for instance 0.95")
    if confidence <= 0.5:
        raise InputError(f"expected a confidence above 0.5, found {confidence:g}; use for instance 0.95")
    sample, space = Units.of(units, release), release.space
    family: _Family
    if isinstance(predicted, ClassProbabilities):
        family = _Classes(release, _one_a_row(release, predicted.in_order(space.points)))
    else:
        family = _Numbers(release, _one_a_row(release, floats(predicted, "predictions")))
    parts = list(family.parts(by))
    limits: dict[object, float] = {}
    reasons: dict[object, str] = {}
    for key, rows, code in parts:
        test = _Test(1.0 - alpha, 1.0 - (1.0 - confidence) / len(parts), release.is_public)
        limits[key], reason = family.limit(test, rows, code, sample.take(rows))
        if reason:
            reasons[key] = reason
    named = BY_CLASS if isinstance(by, str) else BY_GROUP if by is not None else ""
    found = PredictionSets(
        alpha, confidence, family.classes, family.ends, named, limits, len(release), math.nan, reasons
    )
    return replace(found, size=float(family.sizes(found, by if named == BY_GROUP else None).mean()))


def share_in_intervals(
    release: Release, predicted: Float[np.ndarray, "n"], sets: PredictionSets, units: object = None
) -> Estimate | Bounds | None:
    """Share of rows whose interval holds the true number; None where intervals are the whole range, or are not told.

    Released numbers do not identify it: they give a lower bound, by the scores that calibrate intervals.

    Args:
        release: Released numbers of n rows that sets were not calibrated on, or public ones.
        predicted: The predictions of these rows.
        sets: Intervals of one reach.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
    """
    reach, lower, sample = sets.limits.get(ALL, math.inf), LowerScores(release, predicted), Units.of(units, release)
    if lower.problem or not math.isfinite(reach):
        return None
    scores = lower(reach, np.arange(len(release)))
    if release.is_public:  # an interval that does not hold the label counts as another one that was predicted
        points, codes = np.asarray(release.space.points), release.codes
        return accuracy(release, points[np.where(scores > 0.0, codes, (codes + 1) % len(points))], units=sample)
    found = mean_of_rows(scores, units=sample, level=_LEVEL)
    return Bounds(min(max(found.value, 0.0), 1.0), 1.0, min(max(found.low, 0.0), 1.0), 1.0)


def _one_a_row(release: Release, values: np.ndarray) -> np.ndarray:
    """Values of the rows of a release, which must have some, one for each."""
    if len(values) != len(release) or not len(release):
        raise InputError(
            f"expected a prediction and a group for each released row, found {len(values)} for {len(release)}"
        )
    return values


@dataclass(frozen=True)
class _Test:
    """A test that a mean of rows is at least a coverage.

    Attributes:
        coverage: The coverage.
        confidence: Its confidence.
        public: True for true labels, of which a row scores that its set holds the label.
    """

    coverage: float
    confidence: float
    public: bool

    @property
    def least(self) -> int:
        """Fewest units that could pass it."""
        return math.ceil(math.log(1.0 - self.confidence) / math.log(self.coverage))

    def passes(self, scores: Float[np.ndarray, "n"], rows: float, units: Units) -> bool:
        """True if the mean of scores is at least 0, with confidence.

        Args:
            scores: What rows score: the indicator of coverage, or what is below it in the mean, less the coverage.
            rows: How many rows the coverage is of: all, or the estimated number of a class.
            units: Their units.
        """
        if self.public and units.numbers is None and rows == len(scores):
            held = float(np.sum(scores)) + rows * self.coverage
            return bool(clopper_pearson_lower(held, rows, 1.0 - self.confidence) >= self.coverage)
        variance = rows * self.coverage * (1.0 - self.coverage)
        found = mean_of_rows(scores, 2.0 * self.confidence - 1.0, units=units, expected=(variance, variance))
        return found.low >= 0.0


class _Family:
    """Nested sets of the rows of a release.

    Attributes:
        starts: Where sequences of tests begin, as a share of all sets, and the share of the doubt that each may take.
    """

    release: Release
    rows: int
    everything: float
    classes: tuple[object, ...] | None = None
    ends: tuple[float, float] | None = None
    starts: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def parts(self, by: By | None) -> Sequence[tuple[object, Int[np.ndarray, "m"], int | None]]:
        """The key of each limit, its rows, and the code of its class."""
        every = np.arange(self.rows)
        if by is None:
            return [(ALL, every, None)]
        if isinstance(by, str):
            return self.classes_in(by, every)
        check_same_rows(by, self.release, "groups")
        names = _one_a_row(self.release, np.asarray(by))
        return [(name, np.flatnonzero(names == name), None) for name in np.unique(names).tolist()]

    def classes_in(self, by: str, every: Int[np.ndarray, "n"]) -> Sequence[tuple[object, np.ndarray, int | None]]:
        """The key of each class."""
        del every
        raise InputError(f"expected 'class' with classes, or the group of each row, found {by!r}")

    def limit(self, test: _Test, rows: Int[np.ndarray, "m"], code: int | None, units: Units) -> tuple[float, str]:
        """The limit of the smallest sets that are shown to suffice, and why it is that of all labels if it is."""
        if units.count < test.least:
            of = "rows" if units.numbers is None else "privacy units"
            reason = _TOO_FEW.format(f"{units.count:,}", of, test.least, test.coverage, test.confidence)
            return self.everything, reason
        problem = self.unknown()
        if problem:
            return self.everything, problem
        sequence = self.tried(rows, code)
        passed = -1
        for start, doubt in reversed(self.starts):  # a sequence from further up ends where this one could not begin
            one = replace(test, confidence=1.0 - (1.0 - test.confidence) * doubt)
            for place in range(int(start * len(sequence)), len(sequence)):
                scores, held = self.scores(sequence[place], rows, code, test.coverage)
                if not one.passes(scores, held, units):
                    break
                passed = place
            if passed >= 0:
                break
        return (self.everything, _NOT_SHOWN) if passed < 0 else (sequence[passed], "")

    def sizes(self, found: PredictionSets, groups: object) -> np.ndarray:
        """The size of the set of each row."""
        raise NotImplementedError

    def unknown(self) -> str:
        """The reason why labels tell the coverage of no set but that of all labels; empty if they do."""
        raise NotImplementedError

    def tried(self, rows: Int[np.ndarray, "m"], code: int | None) -> Sequence[float]:
        """The limits of the sequence, from larger to smaller sets."""
        raise NotImplementedError

    def scores(
        self, limit: float, rows: Int[np.ndarray, "m"], code: int | None, coverage: float
    ) -> tuple[Float[np.ndarray, "m"], float]:
        """Scores of rows, and the number of rows that the coverage is of."""
        raise NotImplementedError


class _Classes(_Family):
    """Sets of the classes with at least a probability, and of the most likely one."""

    everything = 0.0

    def __init__(self, release: Release, probabilities: Float[np.ndarray, "n k"]) -> None:
        self.release, self.probabilities, self.rows = release, probabilities, len(release)
        self.classes = tuple(release.space.points)

    def classes_in(self, by: str, every: Int[np.ndarray, "n"]) -> Sequence[tuple[object, np.ndarray, int | None]]:
        if by != BY_CLASS:
            return super().classes_in(by, every)
        return [(name, every, code) for code, name in enumerate(self.release.space.points)]

    def sizes(self, found: PredictionSets, groups: object) -> np.ndarray:
        return np.asarray(found.members(self.probabilities, groups).sum(axis=1))

    def unknown(self) -> str:
        channel = self.release.channel
        return "" if isinstance(channel, ClassChannel) and channel.identifies else _CANDIDATES

    def tried(self, rows: Int[np.ndarray, "m"], code: int | None) -> Sequence[float]:
        some = self.probabilities[rows] if code is None else self.probabilities[rows, code]
        chances = np.sort(some, axis=None)
        missed = np.cumsum(chances) / max(float(chances.sum()), np.finfo(float).tiny)
        places = np.minimum(np.searchsorted(missed, _MISSED), len(chances) - 1)
        return [float(limit) for limit in np.unique(chances[places]) if limit > 0.0]

    def scores(
        self, limit: float, rows: Int[np.ndarray, "m"], code: int | None, coverage: float
    ) -> tuple[Float[np.ndarray, "m"], float]:
        found, weight = np.empty(len(rows)), 0.0
        part = self.release[rows]
        for block in blocks_of(part):
            vectors = unbiased_rows(part, block)
            vectors = vectors + (1.0 - vectors.sum(axis=1, keepdims=True)) / vectors.shape[1]
            held = held_classes(self.probabilities[rows[block]], limit) - coverage
            scored = vectors * held if code is None else (vectors * held)[:, [code]]
            found[block] = scored.sum(axis=1)
            weight += len(vectors) if code is None else float(vectors[:, code].sum())
        return found, max(weight, 1.0)


class _Numbers(_Family):
    """Intervals around predicted numbers."""

    everything = math.inf
    starts = ((0.0, 0.9), (0.2, 0.1))

    def __init__(self, release: Release, predicted: Float[np.ndarray, "n"]) -> None:
        self.release, self.predicted, self.rows = release, predicted, len(release)
        self.ends = ends_of(release)
        self.lower = LowerScores(release, predicted)

    def sizes(self, found: PredictionSets, groups: object) -> np.ndarray:
        return np.asarray(np.diff(found.intervals(self.predicted, groups), axis=1))

    def unknown(self) -> str:
        return self.lower.problem

    def tried(self, rows: Int[np.ndarray, "m"], code: int | None) -> Sequence[float]:
        del rows, code
        return self.lower.reaches

    def scores(
        self, limit: float, rows: Int[np.ndarray, "m"], code: int | None, coverage: float
    ) -> tuple[Float[np.ndarray, "m"], float]:
        del code
        return self.lower(limit, rows) - coverage, float(len(rows))
