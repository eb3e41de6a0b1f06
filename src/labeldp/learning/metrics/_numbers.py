"""Metrics of predicted numbers from released labels alone, estimated as they would be on true labels.

With Z the released number of a row, whose mean is its label y, and f the prediction, ``f**2 - 2 f Z`` has the mean
``f**2 - 2 f y``: the squared error up to ``y**2``, which is the same for all models. So models can be compared under
every channel with unbiased numbers. The error itself also needs numbers whose mean is ``y**2``; for channels without
them it is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.losses import (
    decoded_numbers,
    ends_of,
    require_numeric_labels,
    unbiased_numbers,
)
from labeldp.learning.metrics._estimates import (
    Bounds,
    Estimate,
    Estimates,
    NumberCalibration,
    finite_array,
    mean_of_rows,
    positive_row_count,
    quotient_estimates,
)
from labeldp.learning.metrics._metric import Metric, OfOutcomes, estimate, has_few, of_true_class
from labeldp.learning.metrics._units import ROWS, Units
from labeldp.privacy import Interval
from labeldp.privacy.channels import Bins, ClassChannel
from labeldp.release import Release, check_same_rows

#: Fewest units of several rows for both ends of an interval of errors on public labels, and of their share.
_LEAST_UNITS, _LEAST_UNITS_OF_SHARES = 50, 150


def mean_label(release: Release, *, units: object = None, level: float = 0.95) -> Estimate | Bounds:
    """Estimated mean of true labels; bounds if only bins of labels were released.

    Args:
        release: Released numeric labels of n rows.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, by Student's distribution and a correction for skewness.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 0.5, 1.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_label(release).value
        0.625

    Raises:
        InputError: Rows have candidates, or there are no rows.
    """
    low, high = ends_of(require_numeric_labels(release))
    positive_row_count(release)
    bins, sample = release.channel.bins, Units.of(units, release)
    if bins is not None:
        extremes = _bin_extremes(release, bins, lambda start, end: (start, end))
        return _mean_bounds(*extremes, level, low, high, sample)
    return mean_of_numbers(release, np.arange(len(release)), sample, level)


def mean_of_numbers(release: Release, rows: Int[np.ndarray, "m"], units: Units, level: float) -> Estimate:
    """The mean true label of some rows, of which as many as can be missed may have released any number.

    Args:
        release: Released numbers that are unbiased.
        rows: The rows.
        units: The units of all rows.
        level: Coverage of the interval.
    """
    values, (low, high) = unbiased_numbers(release), ends_of(release)
    extremes = min(low, float(values.min())), max(high, float(values.max()))
    return mean_of_rows(values[rows], level, low, high, units.take(rows), extremes=extremes)


def number_calibration(
    release: Release, predicted: object, limits: Sequence[float], *, units: object = None, level: float = 0.95
) -> NumberCalibration | None:
    """Mean prediction and estimated mean label of the rows in each bin of predictions; None of released bins of labels.

    Args:
        release: Released numeric labels of n rows.
        predicted: A predicted label for each row.
        limits: The limits between bins, in order, which must not be chosen by released labels.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of each bin's confidence interval, as for ``mean_label``.

    Raises:
        InputError: The predictions are not one finite number for each row, or rows have candidates.
    """
    checked, sample = _predictions(release, predicted), Units.of(units, release)
    if release.channel.bins is not None:
        return None
    _, place, rows = np.unique(np.searchsorted(limits, checked), return_inverse=True, return_counts=True)
    means = [mean_of_numbers(release, np.flatnonzero(place == b), sample, level) for b in range(len(rows))]
    found = (np.array([getattr(mean, end) for mean in means]) for end in ("value", "error", "low", "high"))
    return NumberCalibration(np.bincount(place, weights=checked) / rows, Estimates(*found), rows)


def squared_gain(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Reduction of the mean squared error on true labels against always predicting the middle of the range.

    More is better, and 0 is the trivial model. With the middle c, a row contributes
    ``(c - y)**2 - (f - y)**2 = (f - c) (2 y - c - f)``, which is linear in y: so it has an unbiased estimate under
    every channel with unbiased numbers, and models of numbers are selected by it. For released bins, the estimated
    mean label of the label's bin stands for the label.

    Args:
        release: Released numeric labels of n rows.
        predicted: A predicted label for each row.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, by Student's distribution and a correction for skewness.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> squared_gain(release, [0.0, 1.0]).value, squared_gain(release, [0.5, 0.5]).value
        (0.25, 0.0)

    Raises:
        InputError: The predictions are not one finite number for each row, or rows have candidates.
    """
    return estimate(SQUARED_GAIN, release, predicted, units, level)


def mean_squared_error(
    release: Release, predicted: object, *, units: object = None, level: float = 0.95
) -> Estimate | Bounds:
    """Estimated mean squared error on true labels; bounds if the channel does not identify the squares of labels.

    One released bit, for example, identifies the mean of labels and nothing else. Then the error is at least the square
    of the mean difference of labels and predictions, and, since ``y**2 <= (low + high) y - low high`` in the range, at
    most the mean of ``f**2 - 2 f y + (low + high) y - low high``. For released bins, each label may be anywhere in its
    bin. On public labels of fewer than 50 units of several rows the interval has no upper end: such units often hold
    no large error.

    Args:
        release: Released numeric labels of n rows.
        predicted: A predicted label for each row.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, or of ``low`` and ``high`` of the bounds.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_squared_error(release, [0.0, 0.5]).value
        0.125

    Raises:
        InputError: The predictions are not one finite number for each row, or rows have candidates.
    """
    checked, sample = _predictions(release, predicted), Units.of(units, release)
    bins = release.channel.bins
    if bins is not None:
        extremes = _bin_extremes(release, bins, lambda start, end: _squared_distances(checked, start, end))
        return _mean_bounds(*extremes, level, 0.0, units=sample)
    if _has_squares(release):
        return estimate(SQUARED_ERROR, release, checked, sample, level)
    values = unbiased_numbers(release)
    low, high = ends_of(release)
    bias = mean_of_rows(checked - values, level, units=sample)
    most = checked**2 - 2.0 * checked * values + (low + high) * values - low * high
    above = mean_of_rows(most, level, 0.0, units=sample)
    least = 0.0 if bias.low <= 0.0 <= bias.high else min(abs(bias.low), abs(bias.high)) ** 2
    return Bounds(max(bias.value**2 - bias.error**2, 0.0), above.value, least, above.high)


def r2(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Estimated share of the variance of true labels that predictions explain, at most 1.

    It is a quotient of unbiased estimates, so its bias is of the order of its squared error. The interval is that of
    the quotient, and holds whether or not released labels show that labels vary; if they do not, the estimate is NaN
    and the interval has no lower end; nor has it one on public labels of fewer than 150 units of several rows.

    Args:
        release: Released numeric labels of n rows.
        predicted: A predicted label for each row.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, by a normal approximation of numerator and denominator.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0, 0.0, 1.0], Interval(0, 1, 0.5))
        >>> r2(release, [0.0, 1.0, 0.0, 0.5]).value
        0.75

    Raises:
        InputError: The predictions are not one finite number for each row, or the channel does not identify the squares
            of labels and so not their variance; use ``squared_gain``.
    """
    checked = _predictions(release, predicted)
    values, squares = unbiased_numbers(release), release.numbers(power=2)
    mean, sample = float(values.mean()), Units.of(units, release)
    errors, deviations = checked**2 - 2.0 * checked * values + squares, squares - 2.0 * mean * values + mean**2
    # With E the mean squared error and V the variance, s = V / (V + E) is a share, and R2 = 1 - E / V = 2 - 1 / s.
    parts = np.stack([deviations, deviations + errors], axis=1)
    matrix, sums = sample.covariance(parts), parts.sum(axis=0)
    known = (sample.count > 1) & (sums[1:] > 0.0)
    shares = quotient_estimates(sums[:1], sums[1:], matrix[None], known, level, sample.free)[0]
    low, high = (2.0 - 1.0 / share if share > 0.0 else float("-inf") for share in (shares.low, shares.high))
    if not np.isfinite(low):
        return Estimate(float("nan"), float("inf"), low, high)
    value = float(np.clip(2.0 - 1.0 / shares.value, low, high))
    low = -math.inf if has_few(release, sample, _LEAST_UNITS_OF_SHARES) else low
    return Estimate(value, shares.error / shares.value**2, low, high)


def mean_absolute_error(release: Release, predicted: object, *, units: object = None, level: float = 0.95) -> Estimate:
    """Estimated mean absolute error on true labels, for channels that identify every function of a label.

    Args:
        release: Numeric labels of n rows, public or released as points of their grid or sets of these.
        predicted: A predicted label for each row.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.
        level: Coverage of the confidence interval, by Student's distribution and a correction for skewness; without an
            upper end on public labels of fewer than 50 units of several rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_absolute_error(release, [0.0, 0.5]).value
        0.25

    Raises:
        InputError: The predictions are not one finite number for each row, rows have candidates, or numbers were
            released.
    """
    checked = _predictions(release, predicted)
    if not isinstance(release.channel, ClassChannel):
        raise InputError(
            "expected labels that are public or released as grid points, found released numbers, which do not identify "
            "absolute errors; use mean_squared_error or squared_gain"
        )
    return estimate(ABSOLUTE_ERROR, release, checked, units, level)


def squared_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``squared_gain`` of a fitted regressor, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A regressor.
        X: Features of n rows.
        release: Released numeric labels of n rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> from sklearn.model_selection import cross_val_score
        >>> from labeldp import Interval, Release
        >>> from labeldp.learning.sklearn import ReleasedLabelRegressor
        >>> release = Release.public([0.0, 1.0] * 6, Interval(0, 1, 0.5))
        >>> model = ReleasedLabelRegressor(Ridge(1e-6))
        >>> cross_val_score(model, [[0.0], [1.0]] * 6, release, scoring=squared_scorer, cv=3).round(3).tolist()
        [0.25, 0.25, 0.25]
    """
    check_same_rows(X, require_numeric_labels(release))
    return squared_gain(release, estimator.predict(X), units=ROWS).value


def gains_of(release: Release, predicted: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Contribution of each row to ``squared_gain``."""
    middle = sum(ends_of(release)) / 2.0
    values = unbiased_numbers(release) if release.channel.bins is None else decoded_numbers(release)
    return np.asarray((predicted - middle) * (2.0 * values - middle - predicted))


def _squared_errors(release: Release, predicted: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The squared error of each row, from numbers whose means are the label and its square."""
    return np.asarray(predicted**2 - 2.0 * predicted * unbiased_numbers(release) + release.numbers(power=2))


def _squares_by_outcome(release: Release, predicted: Float[np.ndarray, "n"]) -> OfOutcomes:
    """A function of possible outcomes: the estimated squared error of each row if it released each of them."""
    space, channel = release.space, release.channel
    assert isinstance(space, Interval)  # noqa: S101 (numbers were released)
    at = (predicted[:, None] - space.low) / space.step
    return lambda outcomes: np.asarray(
        space.step**2 * (at**2 - 2.0 * at * channel.numbers(outcomes) + channel.squares(outcomes))
    )


def _distances(release: Release, predicted: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m k"]:
    """The absolute error of each row for each true label."""
    return np.asarray(np.abs(predicted[:, None] - np.asarray(release.space.points)))


def _absolute_errors(release: Release, predicted: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The absolute error of each row; of public labels without those for all other labels, which may be a million."""
    if release.is_public:
        return np.asarray(np.abs(predicted - np.asarray(release.space.points)[release.codes]))
    return _BY_LABEL.rows(release, predicted)


def _nearest_points(release: Release, predicted: Float[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Codes of the grid points nearest to predictions."""
    low, _ = ends_of(release)
    assert isinstance(release.space, Interval)  # noqa: S101 (labels are numbers)
    steps = np.round((predicted - low) / release.space.step)
    return np.clip(steps, 0, release.space.size - 1).astype(np.int64)


def _has_squares(release: Release) -> bool:
    """True if the channel has numbers whose mean is the square of the label."""
    try:
        release.numbers(power=2)
    except InputError:
        return False
    return True


def _bin_extremes(release: Release, bins: Bins, extremes: Any) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Unbiased estimates of the least and the largest value of a function of a label that may be anywhere in its bin.

    Args:
        release: Released bins.
        bins: These bins.
        extremes: Function of the first and the last point of a bin; it returns the least and the largest value there,
            for each row or for all.
    """
    points, least, largest = np.asarray(release.space.points), np.zeros(len(release)), np.zeros(len(release))
    for b, (first, last) in enumerate(zip(bins.firsts, bins.lasts, strict=True)):
        weight = ((release.codes == b) - bins.other) / (bins.keep - bins.other) if len(bins.firsts) > 1 else 1.0
        below, above = extremes(points[first], points[last])
        least, largest = least + weight * below, largest + weight * above
    return least, largest


def _squared_distances(predicted: np.ndarray, start: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest squared distance of predictions from labels between two points."""
    return (predicted - np.clip(predicted, start, end)) ** 2, np.maximum(predicted - start, end - predicted) ** 2


def _mean_bounds(
    least: np.ndarray, largest: np.ndarray, level: float, low: float, high: float = np.inf, units: object = None
) -> Bounds:
    below, above = (mean_of_rows(each, level, low, high, units) for each in (least, largest))
    lower, upper = (float(np.clip(each.value, low, high)) for each in (below, above))
    return Bounds(lower, upper, below.low, above.high)


def _predictions(release: Release, predicted: object) -> Float[np.ndarray, "n"]:
    """One finite prediction for each row of numeric labels."""
    return finite_array(predicted, "predicted labels", (positive_row_count(require_numeric_labels(release)),))


SQUARED_GAIN = Metric("squared_gain", _predictions, gains_of)
SQUARED_ERROR = Metric(
    "squared_error",
    _predictions,
    _squared_errors,
    _squares_by_outcome,
    likely=_nearest_points,
    least=0.0,
    fewest=_LEAST_UNITS,
)
_BY_LABEL = of_true_class(
    "absolute_error", _predictions, _distances, likely=_nearest_points, least=0.0, fewest=_LEAST_UNITS
)
ABSOLUTE_ERROR = replace(_BY_LABEL, rows=_absolute_errors)
