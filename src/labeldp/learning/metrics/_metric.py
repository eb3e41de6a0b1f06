"""Metrics that are means over rows: what each row scores, estimated from its released label.

Each public metric of this kind is a record of what it reads, what rows score, and between what it lies; and
``estimate`` makes a number with its interval of any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.losses import blocks_of, require_identified, unbiased_rows
from labeldp.learning.metrics._estimates import Estimate, mean_of_rows
from labeldp.learning.metrics._units import Units
from labeldp.privacy.channels import ClassSetChannel, row_arrays
from labeldp.release import Release

#: Most classes, or grid points, of a channel; of sets, whose outcomes are as many as there are sets.
_MOST_CLASSES, _MOST_OF_SETS = 256, 8
#: Most rows times outcomes.
_MOST = 20_000_000


def model_variance(
    release: Release,
    added: Callable[[np.ndarray], Float[np.ndarray, "n m"]],
    predicted: Float[np.ndarray, "n k"] | Int[np.ndarray, "n"],
) -> tuple[float, float]:
    """Variance of a sum over rows, if labels have predicted distributions and are released, and the part of labels.

    Few rows may by chance show no rare class, or no rare error of a released label. Then the variance between them is
    too small, and so is an interval from it. The predictions of a model, and the output distribution of the channel,
    say how often rare labels are to be expected; the variance that follows is a lower limit.

    The other part is that of the noise. Both are 0 if they are too much work.

    Args:
        release: Released labels of n rows.
        added: What each row adds to the sum, for each of m released labels.
        predicted: Predicted distributions of labels, or codes of predicted labels.
    """
    channel = release.channel
    if row_arrays(channel) or channel.classes > (
        _MOST_OF_SETS if isinstance(channel, ClassSetChannel) else _MOST_CLASSES
    ):
        return 0.0, 0.0
    try:
        table = channel.table()
    except InputError:  # a fine grid
        return 0.0, 0.0
    if table.matrix.shape[1] * len(release) > _MOST:
        return 0.0, 0.0
    values = added(table.outcomes)
    if predicted.ndim == 1:
        return _variance(table.matrix[predicted], values), 0.0
    return _variance(predicted @ table.matrix, values), _variance(predicted, values @ table.matrix.T)


def _variance(chances: Float[np.ndarray, "n m"], values: Float[np.ndarray, "n m"]) -> float:
    """Sum of the variances of rows."""
    mean = (chances * values).sum(axis=1, keepdims=True)
    return float((chances * (values - mean) ** 2).sum())


#: A function of a release and of predictions that were read.
OfRows = Callable[[Release, np.ndarray], np.ndarray]
#: What each of n rows scores, for each of m released labels.
OfOutcomes = Callable[[np.ndarray], Float[np.ndarray, "n m"]]


@dataclass(frozen=True)
class Metric:
    """A mean over rows.

    Attributes:
        name: What it is called.
        read: Predictions for a release, checked, as an array.
        rows: What each row scores: its mean over the noise of its label is what it scores by its true label.
        outcomes: What rows score for each released label; None if the noise of labels is not foreseen.
        likely: The labels that predictions make likely: distributions, or codes.
        least: The least possible mean.
        most: The largest possible mean.
        fewest: Fewer units of several rows say little of the largest errors: the interval has no upper end, unless the
            noise of released labels covers that.
    """

    name: str
    read: Callable[[Release, object], np.ndarray]
    rows: OfRows
    outcomes: Callable[[Release, np.ndarray], OfOutcomes] | None = None
    likely: OfRows = lambda _, predicted: predicted
    least: float = -math.inf
    most: float = math.inf
    fewest: int = 0


def estimate(metric: Metric, release: Release, predicted: object, units: object, level: float) -> Estimate:
    """A metric of predictions, with its confidence interval.

    Args:
        metric: What is estimated.
        release: Released labels of n rows.
        predicted: Predictions that the metric reads.
        units: The privacy unit of each row, as for every metric.
        level: Coverage of the interval.
    """
    read = metric.read(release, predicted)
    return estimate_of(metric, release, read, metric.rows(release, read), Units.of(units, release), level)


def estimate_of(
    metric: Metric, release: Release, read: np.ndarray, rows: Float[np.ndarray, "n"], units: Units, level: float
) -> Estimate:
    """A metric with its confidence interval, from what rows score."""
    expected = (0.0, 0.0)
    if metric.outcomes is not None:
        expected = model_variance(release, metric.outcomes(release, read), metric.likely(release, read))
    found = mean_of_rows(rows, level, metric.least, metric.most, units, expected)
    return replace(found, high=metric.most) if has_few(release, units, metric.fewest, expected) else found


def has_few(release: Release, units: Units, fewest: int, expected: tuple[float, float] = (0.0, 0.0)) -> bool:
    """True for few units of several rows, where labels are public or vary more than their noise.

    Ten units often hold no large error at all. ``expected`` is what ``model_variance`` says.
    """
    covered = not release.is_public and expected[0] >= 2.0 * expected[1]
    return not covered and units.count < min(fewest, len(release))


def of_true_class(
    name: str,
    read: Callable[[Release, object], np.ndarray],
    scored: Callable[[Release, np.ndarray], Float[np.ndarray, "m k"]],
    **facts: object,
) -> Metric:
    """A metric that is the mean of a function of each row's prediction and true class.

    References:
        Natarajan et al. 2013, Lemma 1, with the entries of the unbiased vector shifted so that they sum to one.
    """

    def rows(release: Release, predicted: np.ndarray) -> Float[np.ndarray, "n"]:
        require_identified(release)
        found = np.empty(len(release))
        for block in blocks_of(release):
            targets = _summing_to_one(unbiased_rows(release, block))
            found[block] = (targets * scored(release, predicted[block])).sum(axis=1)
        return found

    def outcomes(release: Release, predicted: np.ndarray) -> OfOutcomes:
        by_class = scored(release, predicted)
        return lambda released: np.asarray(by_class @ _summing_to_one(release.class_channel.unbiased(released)).T)

    return Metric(name, read, rows, outcomes, **facts)  # type: ignore[arg-type]


def _summing_to_one(vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """Unbiased vectors, shifted."""
    return np.asarray(vectors + (1.0 - vectors.sum(axis=1, keepdims=True)) / vectors.shape[1])
