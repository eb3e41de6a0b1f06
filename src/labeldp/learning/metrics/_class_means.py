"""The area under the ROC, and means of recall and of that area over classes, which weigh rare and common ones alike.

The interval of a mean is recovered from those of the classes, which are not symmetric: each end lies as far from the
mean as the ends of the classes lie from their estimates together, with the correlations of the estimates (Zou 2008).
Where the end of a class is that of the range, and so says little of its error, the normal one counts if it is further.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.losses import require_identified
from labeldp.learning.metrics._classes import recall
from labeldp.learning.metrics._estimates import (
    TOLERANCE,
    Estimate,
    finite_array,
    is_column,
    positive_row_count,
    quantile,
    quotient_estimates,
)
from labeldp.learning.metrics._sums import class_weights, code_of, ranked_below, weights_with_noise
from labeldp.learning.metrics._units import Units
from labeldp.privacy import declared_columns
from labeldp.release import Release

#: Rows of the rarer class that the variance which is usual for an area counts for, beside those at hand.
_USUAL = 20.0
_REVERSED = (
    "expected scores that are larger for the positive class, found that its rows have smaller ones; pass the column of "
    "that class in model.classes_, or all of them by ClassProbabilities.of(model, X)"
)
#: Values of the area at which its interval is searched.
_PLACES = 513


def auc(
    release: Release,
    scores: object,
    positive: object,
    *,
    groups: object = None,
    units: object = None,
    level: float = 0.95,
) -> Estimate:
    """Estimated area under the receiver operating characteristic of one class against the rest.

    With unbiased weights ``a`` of the class and ``b = 1 - a`` of the rest it is ``sum a_i b_l h(i, l)`` over
    ``sum a_i b_l``, both over pairs of different rows, where h is 1 if i has the larger score and 1/2 if equal:
    numerator and denominator are unbiased. It is NaN if the released labels do not show that both classes occur. The
    interval is not symmetric, and more reliable than the standard error if a class is rare or the area is near 1.

    Args:
        release: Released labels of n rows.
        scores: A model's P(true class | features): ``ClassProbabilities.of(model, X)``, or an array of shape (n, k) if
            the classes were declared in sorted order; or a score of each row, shape (n,), larger for the positive
            class. A column that shows the reverse is warned of.
        positive: The positive class.
        groups: The group of each row, shape (n,), such as the fold of a row that was held out: only rows of one group
            are compared, since scores of models that were fitted on different rows differ by the share of the class
            there, against which the share in the fold is smaller. None for one group.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, that of a score test.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Menon et al. 2015, section 5, for two classes; Hoeffding 1948, for the projection; Newcombe 2006, method 5, for
        the variance of an area given its value.

    Example:
        >>> from labeldp import Classes, Release
        >>> release = Release.public(["no", "no", "yes", "yes"], Classes(["no", "yes"]))
        >>> round(auc(release, [0.1, 0.4, 0.3, 0.9], "yes").value, 3)
        0.75

    Raises:
        InputError: The scores are not one finite number for each row, groups not one for each row, or rows have
            candidates.
        LabelError: The positive class is not in the label space.
    """
    require_identified(release)
    code, shape = code_of(release, positive), (positive_row_count(release), release.space.size)
    bare = is_column(scores)
    checked = finite_array(scores if bare else declared_columns(scores, release.space), "scores", shape[: 2 - bare])
    places, sample = rows_of_groups(groups, len(release)), Units.of(units, release)
    found = area_of(release, checked if bare else checked[:, code], code, places, sample, level)[0]
    if bare and found.high < 0.5:
        warnings.warn(_REVERSED, stacklevel=2)
    return found


def area_of(
    release: Release,
    scores: Float[np.ndarray, "n"],
    code: int,
    places: list[Int[np.ndarray, "_"]],
    sample: Units,
    level: float,
) -> tuple[Estimate, Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """The area of a class, what each row adds to it less its expectation, and its share of the divisor."""
    weight, noise = weights_with_noise(release, np.full(len(release), code))
    partners = np.zeros((len(release), 2, 2))
    for rows in places:
        partners[rows] = _partners(scores[rows], weight[rows])
    # Sums over the pairs of each row, those in order and all: Hajek's projection of a sum over pairs. The variance of
    # such sums counts the degenerate part, which the projection leaves out, twice instead of once, since each pair is
    # in two of them (Efron and Stein 1981); with few effective rows the error is too large rather than too small.
    pairs = weight[:, None] * partners[:, 0] + (1.0 - weight)[:, None] * partners[:, 1]
    sums = pairs.sum(axis=0) / 2.0
    covariance, known = sample.covariance(pairs), np.array([sums[1] > TOLERANCE and sample.count > 1])
    value = sums[0] / sums[1] if known[0] else 0.0
    influence = pairs[:, 0] - value * pairs[:, 1]
    free = sample.freedom(sample.totals(influence))
    found = quotient_estimates(sums[:1], sums[1:], covariance[None], known, level, free)[0]
    if not known[0]:
        return found, np.zeros(len(release)), np.zeros(len(release))
    by_label = partners[:, 0] - partners[:, 1]  # what a row adds if it is of the class, over what it adds if it is not
    low, high = _interval(
        sums, covariance, by_label.T @ (noise[:, None] * by_label), float(weight.sum()), sample, level, free
    )
    return Estimate(found.value, found.error, low, high), influence / sums[1], pairs[:, 1] / sums[1]


def _interval(
    sums: Float[np.ndarray, "2"],
    covariance: Float[np.ndarray, "2 2"],
    noise: Float[np.ndarray, "2 2"],
    positives: float,
    units: Units,
    level: float,
    free: float,
) -> tuple[float, float]:
    """Hull of all areas t for which ordered pairs less t times all pairs are within their error of zero.

    The error is what it is if t is true: that of the noise of labels, and that of the rows, which has the form of
    Newcombe's variance. How large it is shows in the rows of the rarer class: if there are few, they may by chance all
    be in order, and the variance is nearer the usual one (as for 20 more rows). In simulations with 2 to 200 of the
    rarer class and normal scores at distances 0 to 3, such intervals held the area in 93 to 98 of 100.

    Args:
        sums: Ordered pairs, and all pairs.
        covariance: Their covariance.
        noise: Their covariance from the noise of labels.
        positives: Number of rows of the class.
        units: The units of rows.
        level: Coverage.
        free: Degrees of freedom of their covariance.
    """
    rarer = max(min(positives, units.rows - positives) / units.size, 1.0)
    share = float(np.clip(sums[0] / sums[1], 0.25 / rarer, 1.0 - 0.25 / rarer))
    at = np.array([1.0, -share])
    usual = sums[1] ** 2 * _usual_variance(share, positives, units.rows)
    ratio = max(float(at @ (covariance - noise) @ at), 0.0) / usual
    scale = sums[1] ** 2 * (rarer * ratio + _USUAL * units.size**0.5) / (rarer + _USUAL)
    bar = quantile(level, free) ** 2

    def excess(area: Any) -> Any:
        """The squared distance from zero, less the largest that is usual."""
        of_noise = noise[0, 0] - 2.0 * area * noise[0, 1] + area**2 * noise[1, 1]
        return (sums[0] - area * sums[1]) ** 2 - bar * (of_noise + scale * _usual_variance(area, positives, units.rows))

    nearest = float(np.clip(sums[0] / sums[1], 0.0, 1.0))
    places = np.unique([*np.linspace(0.0, 1.0, _PLACES), nearest])
    inside = np.flatnonzero(excess(places) <= 0.0)
    if len(inside) == 0:
        return nearest, nearest
    first, last = inside[0], inside[-1]
    low = brentq(excess, places[first - 1], places[first]) if first > 0 else 0.0
    high = brentq(excess, places[last], places[last + 1]) if last < len(places) - 1 else 1.0
    return min(low, nearest), max(high, nearest)


def _usual_variance(area: Any, positives: float, rows: int) -> Any:
    """Variance of an area that is estimated from rows of two classes, given its true value.

    References:
        Hanley and McNeil 1982, equation 2; Newcombe 2006, method 5, for the same number of rows in both of its terms.
    """
    rarer = max(min(positives, rows - positives), 0.5)
    both = area * (1.0 - area) / (rarer * max(rows - rarer, 0.5))
    return both * (1.0 + max(rows / 2.0 - 1.0, 0.0) * ((1.0 - area) / (2.0 - area) + area / (1.0 + area)))


def rows_of_groups(groups: object, rows: int) -> list[Int[np.ndarray, "_"]]:
    """Row numbers of each group."""
    if groups is None:
        return [np.arange(rows)]
    place = np.asarray(groups)
    if place.shape != (rows,):
        raise InputError(f"expected a group for each of {rows} rows, found shape {place.shape}")
    return [np.flatnonzero(place == group) for group in np.unique(place)]


def _partners(scores: Float[np.ndarray, "n"], weight: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n 2 2"]:
    """The weight of the other rows of the rest, and of the class, with which a row is in order, and of all of them.

    A row of the class is in order with rows of the rest below it; a row of the rest with rows of the class above it.
    """
    rest = 1.0 - weight
    others, all_others = weight.sum() - weight, rest.sum() - rest
    of_rest = np.stack([ranked_below(scores, rest), all_others], axis=1)
    of_class = np.stack([others - ranked_below(scores, weight), others], axis=1)
    return np.stack([of_rest, of_class], axis=1)


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
