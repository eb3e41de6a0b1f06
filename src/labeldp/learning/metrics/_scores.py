"""All metrics of a classifier's predictions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.losses import require_release
from labeldp.learning.metrics._estimates import Bounds, Estimate, Estimates
from labeldp.learning.metrics._sums import class_weights, folds_to_choose_on, sums_of_others
from labeldp.privacy import declared_columns
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class Scores:
    """Metrics of predictions, those that the channel identifies.

    Attributes:
        rows: Number of rows.
        log_likelihood: Mean log likelihood of the labels, in nats over the uniform model.
        accuracy: Share of rows predicted correctly; bounds if rows have candidates.
        majority: Accuracy of always predicting the most common class, which is chosen for each fold of rows on the
            others unless labels are public: on the rows that judge it, the best of several classes would look better
            than it is. None if rows have candidates, as all below.
        log_loss: Mean cross entropy on true labels.
        auc: Area under the receiver operating characteristic of the second declared class of two; None for more.
        recall: Recall of each class, in declared order.
    """

    rows: int
    log_likelihood: Estimate
    accuracy: Estimate | Bounds
    majority: Estimate | None = None
    log_loss: Estimate | None = None
    auc: Estimate | None = None
    recall: Estimates | None = None


def scores(release: Release, probabilities: object, folds: Int[np.ndarray, "n"] | None = None) -> Scores:
    """All metrics that the channel identifies.

    Args:
        release: Released labels of n rows, or public ones.
        probabilities: A model's P(true class | features): ``ClassProbabilities``; or an array of shape (n, k), if the
            classes were declared in sorted order.
        folds: The fold of each row, if its probabilities are from a model that was fitted on the other folds.
    """
    points = np.asarray(require_release(release).space.points)
    columns = np.asarray(declared_columns(probabilities, release.space))
    predicted = points[np.argmax(columns, axis=1)]
    likelihood = metrics.log_likelihood(release, probabilities)
    try:
        accuracy = metrics.accuracy(release, predicted)
    except InputError:  # rows have candidates
        return Scores(len(release), likelihood, metrics.accuracy_bounds(release, predicted))
    return Scores(
        len(release),
        likelihood,
        accuracy,
        metrics.accuracy(release, points[_most_common(release, folds)]),
        metrics.log_loss(release, probabilities),
        metrics.auc(release, columns[:, 1], points[1], groups=folds) if len(points) == 2 else None,
        metrics.recall(release, predicted),
    )


def _most_common(release: Release, folds: Int[np.ndarray, "n"] | None) -> Int[np.ndarray, "n"]:
    """For each row the most common class, judged by the other folds, or by all rows if labels are public."""
    place = folds_to_choose_on(release, folds)
    weights = (class_weights(release, np.full(len(release), code)) for code in range(release.space.size))
    return np.asarray(np.argmax([sums_of_others(weight, place) for weight in weights], axis=0)[place])
