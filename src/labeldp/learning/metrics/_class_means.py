"""Means over classes, of recall and of the area under the ROC, which weigh rare and common classes alike.

The interval of a mean is recovered from those of the classes, which are not symmetric: each end lies as far from the
mean as the ends of the classes lie from their estimates together, with the correlations of the estimates (Zou 2008).
Where the end of a class is that of the range, and so says little of its error, the normal one counts if it is further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from labeldp._shapes import Float
from labeldp.learning.losses import require_identified
from labeldp.learning.metrics._area import area_of, rows_of_groups
from labeldp.learning.metrics._classes import recall
from labeldp.learning.metrics._estimates import TOLERANCE, Estimate, finite_array, positive_row_count, quantile
from labeldp.learning.metrics._sums import class_weights, weights_with_noise
from labeldp.learning.metrics._units import Units
from labeldp.privacy import declared_columns
from labeldp.release import Release

#: Standard errors below this are those of rounding.
_ROUNDING = 1e-9
_UNKNOWN = Estimate(math.nan, math.inf, 0.0, 1.0)
#: A number for each row.
Rows = Float[np.ndarray, "n"]


def balanced_accuracy(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Estimated balanced accuracy: the mean recall of all classes.

    It is NaN if the labels do not show that every class occurs: the recall of a class without rows may be anything.

    Args:
        release: Released labels of n rows.
        predicted: Predicted classes, in any form that the label space reads.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, recovered from those of the classes.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Brodersen et al. 2010, for the metric; Zou 2008, for the interval.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "yes", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(balanced_accuracy(release, ["no", "no", "yes", "yes"]).value, 3)
        0.833

    Raises:
        InputError: The predictions are not one for each row, or rows have candidates.
        LabelError: A prediction is not in the label space.
    """
    require_identified(release)
    positive_row_count(release)
    sample = Units.of(units, release)
    codes = release.space.encode(predicted)
    found = recall(release, predicted, units=sample, level=level)

    def of_class(code: int) -> tuple[Estimate, Rows, Rows]:
        weight = class_weights(release, np.full(len(release), code))
        total, value = float(weight.sum()) or math.nan, float(found.value[code])
        return found[code], weight * ((codes == code) - value) / total, weight / total

    return _mean(release, of_class, sample, level)


def mean_auc(
    release: Release, probabilities: object, *, groups: object = None, units: object = None, level: float = 0.95
) -> Estimate:
    """Estimated mean over all classes of the area under the ROC of one against the rest; ``auc`` of two classes.

    It is NaN if the labels do not show that every class occurs.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | features): ``ClassProbabilities.of(model, X)``; or an array of shape
            (n, k), if the classes were declared in sorted order. Only the order of rows matters, for each class.
        groups: The group of each row, shape (n,): only rows of one group are compared, as in ``auc``.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, recovered from those of the classes.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Provost and Domingos 2003, for the metric, here with even weights; Zou 2008, for the interval.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["a", "b", "c", "c"], Classes(["a", "b", "c"]))
        >>> chances = [[0.6, 0.2, 0.2], [0.3, 0.4, 0.3], [0.1, 0.5, 0.4], [0.1, 0.1, 0.8]]
        >>> round(mean_auc(release, chances).value, 3)
        0.889

    Raises:
        InputError: The probabilities are not k finite numbers for each row, groups not one for each row, or rows have
            candidates; or the probabilities are an array alone and the declared order is not sorted.
    """
    require_identified(release)
    shape = (positive_row_count(release), release.space.size)
    sample = Units.of(units, release)
    columns = finite_array(declared_columns(probabilities, release.space), "probabilities", shape)
    places = rows_of_groups(groups, len(release))

    def of_class(code: int) -> tuple[Estimate, Rows, Rows]:
        return area_of(release, columns[:, code], code, places, sample, level)

    return _mean(release, of_class, sample, level)


def _mean(
    release: Release, of_class: Callable[[int], tuple[Estimate, Rows, Rows]], sample: Units, level: float
) -> Estimate:
    """The mean over classes of a quotient between 0 and 1, of which each is freed of its bias.

    A quotient of unbiased sums T and D has the bias ``-Cov(T - t D, D) / D**2``, up to terms of a higher order (Cochran
    1977, section 6.8). It is small beside the error of one class, but the error of a mean falls with the number of
    classes, and the bias does not. On public labels it is zero.

    Args:
        release: Released labels of n rows.
        of_class: The estimate of a class, what each row adds to it less its expectation, and its share of the divisor.
        sample: The units of rows.
        level: Coverage of the confidence interval.
    """
    bar, values = float(quantile(level, sample.free)), list[float]()
    rows, apart = np.zeros((len(release), 3)), np.zeros(3)  # below, above, and the estimates themselves
    for code in range(release.space.size):
        if not _is_shown(release, code, bar):
            return _UNKNOWN
        found, influence, divisor = of_class(code)
        if math.isnan(found.value):  # a single unit
            return _UNKNOWN
        (variance, bias), _ = sample.covariance(np.stack([influence, divisor], axis=1))
        values.append(found.value + bias)
        error, reach = math.sqrt(variance), _reach(found, bar)
        if error > _ROUNDING:
            rows += influence[:, None] * np.array([*(each / error for each in reach), 1.0])
        else:  # nothing shows how the estimate depends on others
            apart += np.square([*reach, 0.0])
    below, above, error = np.sqrt(np.diag(sample.covariance(rows)) + apart) / len(values)
    value = float(np.mean(values))
    nearest = min(max(value, 0.0), 1.0)
    low, high = max(value - float(below), 0.0), min(value + float(above), 1.0)
    return Estimate(value, float(error), min(low, nearest), max(high, nearest))


def _is_shown(release: Release, code: int, bar: float) -> bool:
    """True if a class has more rows than the noise of labels alone would show."""
    weight, noise = weights_with_noise(release, np.full(len(release), code))
    return float(weight.sum()) > max(TOLERANCE, bar * math.sqrt(max(float(noise.sum()), 0.0)))


def _reach(estimate: Estimate, bar: float) -> Sequence[float]:
    """The distances of the ends of an interval from an estimate; the normal one where an end is that of the range."""
    normal = bar * estimate.error
    ends = (
        (estimate.value - estimate.low, estimate.low <= 0.0),
        (estimate.high - estimate.value, estimate.high >= 1.0),
    )
    return [max(distance, normal if cut else 0.0) for distance, cut in ends]
