"""All metrics of a classifier's predictions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.losses import require_release
from labeldp.learning.metrics._estimates import Bounds, Estimate, Estimates
from labeldp.learning.metrics._sums import class_weights, folds_to_choose_on, sums_of_others
from labeldp.learning.metrics._units import Units
from labeldp.privacy import ClassProbabilities, declared_columns
from labeldp.release import Release

#: Classes whose areas are averaged: each takes a sort of all rows.
_MOST_AREAS = 100


@dataclass(frozen=True, eq=False)
class Scores:
    """Metrics of predictions, those that the channel identifies.

    Attributes:
        rows: Number of rows.
        log_likelihood: Mean log likelihood of the labels, in nats over the uniform model.
        accuracy: Share of rows predicted correctly; bounds if rows have candidates.
        majority: Accuracy of always predicting the most common class. For the estimate the class is chosen for each
            fold of rows on the others, unless labels are public: on the rows that judge it, the best of several classes
            would look better than it is. The interval is of the largest share of a class, from those of all shares at
            once. None if rows have candidates, as all below.
        log_loss: Mean cross entropy on true labels.
        auc: Area under the receiver operating characteristic of the second declared class of two; of more classes the
            mean of all areas, each class against the rest; None for more than 100.
        balanced_accuracy: Mean recall of all classes.
        recall: Recall of each class, in declared order.
        unpredicted: Codes of classes that no row is predicted to have.
    """

    rows: int
    log_likelihood: Estimate
    accuracy: Estimate | Bounds
    majority: Estimate | None = None
    log_loss: Estimate | None = None
    auc: Estimate | None = None
    balanced_accuracy: Estimate | None = None
    recall: Estimates | None = None
    unpredicted: tuple[int, ...] = ()


def scores(
    release: Release,
    probabilities: object,
    folds: Int[np.ndarray, "n"] | None = None,
    units: object = None,
    common: Int[np.ndarray, "n"] | None = None,
) -> Scores:
    """All metrics that the channel identifies.

    Args:
        release: Released labels of n rows, or public ones.
        probabilities: A model's P(true class | features): ``ClassProbabilities``; or an array of shape (n, k), if the
            classes were declared in sorted order.
        folds: The fold of each row, if its probabilities are from a model that was fitted on the other folds.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        common: Code of the class that is taken for the most common one where a row is judged, found on other rows; by
            default it is found here.

    Raises:
        InputError: There is no unit for each row.
    """
    sample = Units.of(units, require_release(release))
    points = np.asarray(release.space.points)
    columns = np.asarray(declared_columns(probabilities, release.space))
    codes = np.argmax(columns, axis=1)
    predicted = points[codes]
    unpredicted = tuple(np.setdiff1d(np.arange(len(points)), codes).tolist())
    likelihood = metrics.log_likelihood(release, probabilities, units=sample)
    try:
        accuracy = metrics.accuracy(release, predicted, units=sample)
    except InputError:  # rows have candidates
        bounds = metrics.accuracy_bounds(release, predicted, units=sample)
        return Scores(len(release), likelihood, bounds, unpredicted=unpredicted)
    return Scores(
        len(release),
        likelihood,
        accuracy,
        _most_common_accuracy(release, _most_common(release, folds, sample) if common is None else common, sample),
        metrics.log_loss(release, probabilities, units=sample),
        _area(release, columns, folds, sample),
        metrics.balanced_accuracy(release, predicted, units=sample),
        metrics.recall(release, predicted, units=sample),
        unpredicted,
    )


def _area(
    release: Release, columns: Float[np.ndarray, "n k"], folds: Int[np.ndarray, "n"] | None, units: Units
) -> Estimate | None:
    """The area of the second class of two, or the mean area of more."""
    points = release.space.points
    if len(points) == 2:
        return metrics.auc(release, ClassProbabilities(columns, points), points[1], groups=folds, units=units)
    if len(points) > _MOST_AREAS:
        return None
    return metrics.mean_auc(release, ClassProbabilities(columns, points), groups=folds, units=units)


def _most_common(release: Release, folds: Int[np.ndarray, "n"] | None, units: Units) -> Int[np.ndarray, "n"]:
    """Code of the most common class of the rows of other folds."""
    place = folds_to_choose_on(release, folds, units)
    weights = (class_weights(release, np.full(len(release), code)) for code in range(release.space.size))
    return np.asarray(np.argmax([sums_of_others(weight, place) for weight in weights], axis=0)[place])


def _most_common_accuracy(
    release: Release, chosen: Int[np.ndarray, "n"], units: Units, level: float = 0.95
) -> Estimate:
    """Accuracy of always predicting the most common class; intervals of all shares hold at once (Bonferroni)."""
    points = np.asarray(release.space.points)
    found = metrics.accuracy(release, points[chosen], units=units, level=level)
    each = 1.0 - (1.0 - level) / len(points)
    shares = [metrics.accuracy(release, np.repeat(point, len(release)), units=units, level=each) for point in points]
    nearest = min(max(found.value, 0.0), 1.0)
    low, high = max(share.low for share in shares), max(share.high for share in shares)
    return Estimate(found.value, found.error, min(low, nearest), max(high, nearest))
