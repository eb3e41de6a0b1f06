"""Cost of decisions, estimated from released labels: what a threshold of probabilities is chosen by."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.metrics._classes import encoded
from labeldp.learning.metrics._estimates import Estimate
from labeldp.learning.metrics._metric import estimate, of_true_class
from labeldp.release import Release


def expected_cost(
    release: Release, predicted: object, costs: object, *, units: object = None, level: float = 0.95
) -> Estimate:
    """Unbiased estimate of the mean cost of predicted classes.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        costs: The cost of predicting each class where each one is true: a row for each true class, and a column for
            each predicted one, in declared order.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Elkan 2001, The foundations of cost-sensitive learning; Natarajan et al. 2013, Lemma 1, for the estimate.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "no", "yes", "yes"], Classes(["no", "yes"]))
        >>> miss, alarm = 4.0, 1.0
        >>> expected_cost(release, ["no", "yes", "yes", "no"], [[0.0, alarm], [miss, 0.0]]).value
        1.25

    Raises:
        InputError: The costs are not a finite number for each pair of classes, the predictions are not one for each
            row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    table = _costs(costs, release.space.size)
    metric = of_true_class(
        "expected cost",
        encoded,
        lambda _, codes: table.T[codes],
        least=float(table.min()),
        most=float(table.max()),
    )
    return estimate(metric, release, predicted, units, level)


def _costs(costs: object, classes: int) -> Float[np.ndarray, "k k"]:
    """The cost of each pair of a true and a predicted class."""
    found = np.asarray(costs, dtype=np.float64)
    if found.shape != (classes, classes) or not np.isfinite(found).all():
        raise InputError(
            f"expected a finite cost for each of {classes} true and {classes} predicted classes, found shape "
            f"{found.shape}"
        )
    return found
