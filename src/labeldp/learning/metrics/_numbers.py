"""Metrics of predicted numbers from released labels alone: what errors, gains and means would be on true labels.

With Z the released number of a row, whose mean is its label y, and f the prediction, ``f**2 - 2 f Z`` has the mean
``f**2 - 2 f y``: the squared error but for ``y**2``, which is the same for all models. So models can be compared under
every law that gives unbiased numbers. The error itself takes a number whose mean is ``y**2``, which some laws do not
give; there it is bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from labeldp.errors import InputError
from labeldp.learning.losses import (
    blocks_of,
    decoded_numbers,
    ends_of,
    real_labels,
    require_identified,
    unbiased_numbers,
    unbiased_rows,
)
from labeldp.learning.metrics._estimates import Bounds, Estimate, mean_of_rows, normal_estimate
from labeldp.privacy.channels import BinChannel, ClassChannel
from labeldp.release import Release


def mean_label(release: Release, *, level: float = 0.95) -> Estimate | Bounds:
    """Estimate of the mean of true labels; bounds where only bins of labels were released.

    Args:
        release: Released real labels of n rows.
        level: Chance that the interval holds the expectation, by a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 0.5, 1.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_label(release).value
        0.625

    Raises:
        InputError: Rows have candidates, or there are none.
    """
    low, high = ends_of(real_labels(release))
    _rows(release)
    if isinstance(release.channel, BinChannel):
        return _between(*_of_bins(release, lambda start, end: (start, end)), level, low, high)
    return mean_of_rows(unbiased_numbers(release), level, low, high)


def squared_gain(release: Release, predicted: object, *, level: float = 0.95) -> Estimate:
    """How far the mean squared error on true labels is below that of always saying the middle of the range.

    More is better, and 0 is a model that knows nothing. With the middle c, a row adds
    ``(c - y)**2 - (f - y)**2 = (f - c) (2 y - c - f)``, which is linear in y: so it is estimated without bias under
    every law that gives unbiased numbers, and is what such models are selected by. Of released bins, the mean of the
    label's bin is taken for the label, as far as it is known.

    Args:
        release: Released real labels of n rows.
        predicted: A predicted label for each row.
        level: Chance that the interval holds the expectation, by a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> squared_gain(release, [0.0, 1.0]).value, squared_gain(release, [0.5, 0.5]).value
        (0.25, 0.0)

    Raises:
        InputError: There is not one finite prediction for each row, or rows have candidates.
    """
    found = _predictions(real_labels(release), predicted)
    return mean_of_rows(gains_of(release, found), level)


def mean_squared_error(release: Release, predicted: object, *, level: float = 0.95) -> Estimate | Bounds:
    """Estimate of the mean squared error on true labels; bounds where the law does not tell the squares of labels.

    Such a law is that of one bit, which tells the mean of labels and nothing else. Then the error lies above the square
    of the mean difference of labels and predictions, and, since ``y**2 <= (low + high) y - low high`` in the range,
    below the mean of ``f**2 - 2 f y + (low + high) y - low high``. Where bins were released, each label is somewhere in
    its bin.

    Args:
        release: Released real labels of n rows.
        predicted: A predicted label for each row.
        level: Chance that the interval, or ``low`` and ``high`` of the bounds, hold the expectation, by a normal
            approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_squared_error(release, [0.0, 0.5]).value
        0.125

    Raises:
        InputError: There is not one finite prediction for each row, or rows have candidates.
    """
    found = _predictions(real_labels(release), predicted)
    if isinstance(release.channel, BinChannel):
        return _between(*_of_bins(release, lambda start, end: _nearest_and_farthest(found, start, end)), level, 0.0)
    values = unbiased_numbers(release)
    squares = _squares(release)
    if squares is not None:
        return mean_of_rows(found**2 - 2.0 * found * values + squares, level, 0.0)
    low, high = ends_of(release)
    off = mean_of_rows(found - values, level)
    above = mean_of_rows(found**2 - 2.0 * found * values + (low + high) * values - low * high, level, 0.0)
    least = 0.0 if off.low <= 0.0 <= off.high else min(abs(off.low), abs(off.high)) ** 2
    return Bounds(max(off.value**2 - off.error**2, 0.0), above.value, least, above.high)


def r2(release: Release, predicted: object, *, level: float = 0.95) -> Estimate:
    """Estimate of the share of the variance of true labels that predictions explain, 1 at most.

    It is a quotient of unbiased estimates, so its bias is of the order of its squared error. Where released labels
    leave it open whether labels vary at all, it is NaN.

    Args:
        release: Released real labels of n rows.
        predicted: A predicted label for each row.
        level: Chance that the interval holds it, by a normal approximation for the quotient.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0, 0.0, 1.0], Interval(0, 1, 0.5))
        >>> r2(release, [0.0, 1.0, 0.0, 0.5]).value
        0.75

    Raises:
        InputError: There is not one finite prediction for each row, or the law does not tell the squares of labels, so
            that nothing is known of their variance; use ``squared_gain``.
    """
    found = _predictions(real_labels(release), predicted)
    values, squares = unbiased_numbers(release), release.numbers(power=2)
    mean, n = float(values.mean()), len(release)
    errors, spreads = found**2 - 2.0 * found * values + squares, squares - 2.0 * mean * values + mean**2
    variance = float(spreads.mean())
    doubt = float(np.std(spreads)) / np.sqrt(n)
    if n < 2 or variance <= doubt:
        return Estimate(float("nan"), float("inf"), float("-inf"), 1.0)
    value = 1.0 - float(errors.mean()) / variance
    # the influence of a row on the quotient; the mean of labels has none on their variance, to the first order
    influence = (errors - (1.0 - value) * spreads) / variance
    return normal_estimate(value, float(np.std(influence, ddof=1)) / np.sqrt(n), level, float("-inf"), 1.0)


def mean_absolute_error(release: Release, predicted: object, *, level: float = 0.95) -> Estimate:
    """Estimate of the mean absolute error on true labels, where the law tells every function of a label.

    Args:
        release: Real labels of n rows, public or released as points of their grid or sets of these.
        predicted: A predicted label for each row.
        level: Chance that the interval holds the expectation, by a normal approximation.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

    Example:
        >>> from labeldp import Interval, Release
        >>> release = Release.public([0.0, 1.0], Interval(0, 1, 0.5))
        >>> mean_absolute_error(release, [0.0, 0.5]).value
        0.25

    Raises:
        InputError: There is not one finite prediction for each row, rows have candidates, or numbers were released.
    """
    found = _predictions(real_labels(release), predicted)
    if not isinstance(release.channel, ClassChannel):
        raise InputError(
            "expected labels that are public or released as points of their grid, found released numbers, which do not "
            "tell absolute errors; use mean_squared_error or squared_gain"
        )
    require_identified(release)
    points = np.asarray(release.space.points)
    if release.is_public:
        return mean_of_rows(np.abs(found - points[release.codes]), level, 0.0)
    losses = np.empty(len(release))
    for rows in blocks_of(release):
        losses[rows] = (unbiased_rows(release, rows) * np.abs(found[rows, None] - points)).sum(axis=1)
    return mean_of_rows(losses, level, 0.0)


def squared_scorer(estimator: Any, X: Any, release: Release) -> float:  # noqa: N803 (scikit-learn's name)
    """``squared_gain`` of a fitted regressor, for ``scoring=`` in scikit-learn's model selection.

    Args:
        estimator: A regressor.
        X: Features of n rows.
        release: Released real labels of n rows.

    Guarantee:
        It is computed from a release, so the release's guarantee covers it at no further cost.

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
    return squared_gain(release, estimator.predict(X)).value


def gains_of(release: Release, predicted: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """What each row adds to ``squared_gain``."""
    middle = sum(ends_of(release)) / 2.0
    binned = isinstance(release.channel, BinChannel)
    values = decoded_numbers(release) if binned else unbiased_numbers(release)
    return np.asarray((predicted - middle) * (2.0 * values - middle - predicted))


def _squares(release: Release) -> Float[np.ndarray, "n"] | None:
    """Numbers whose mean is the square of the label, where the law gives them."""
    try:
        return np.asarray(release.numbers(power=2))
    except InputError:
        return None


def _of_bins(release: Release, ends_of_bin: Any) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """Estimates of the least and the largest of what a label may mean, if it is somewhere in its bin.

    Args:
        release: Released bins.
        ends_of_bin: The least and the largest value for each row, or for all, if its label is between two points.
    """
    channel, points = release.channel, np.asarray(release.space.points)
    if not isinstance(channel, BinChannel):
        raise InputError("expected released bins, found another law")
    word, lasts = float(1 << channel.bits), [*(start - 1 for start in channel.starts[1:]), len(points) - 1]
    keep, other = channel.keep / word, channel.other / word
    least, largest = np.zeros(len(release)), np.zeros(len(release))
    for b, (first, last) in enumerate(zip(channel.starts, lasts, strict=True)):
        weight = ((release.codes == b) - other) / (keep - other) if len(channel.starts) > 1 else 1.0
        below, above = ends_of_bin(points[first], points[last])
        least, largest = least + weight * below, largest + weight * above
    return least, largest


def _nearest_and_farthest(found: np.ndarray, start: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest squared distance of predictions from labels between two points."""
    return (found - np.clip(found, start, end)) ** 2, np.maximum(found - start, end - found) ** 2


def _between(least: np.ndarray, largest: np.ndarray, level: float, low: float, high: float = np.inf) -> Bounds:
    below, above = mean_of_rows(least, level, low, high), mean_of_rows(largest, level, low, high)
    lower, upper = (float(np.clip(each.value, low, high)) for each in (below, above))
    return Bounds(lower, upper, below.low, above.high)


def _rows(release: Release) -> int:
    if len(release) == 0:
        raise InputError("expected at least one row, found none")
    return len(release)


def _predictions(release: Release, predicted: object) -> Float[np.ndarray, "n"]:
    """A finite prediction for each row."""
    rows = _rows(release)
    try:
        found = np.asarray(predicted, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected {rows} predicted labels as numbers, found something else") from None
    if found.shape != (rows,):
        raise InputError(f"expected a predicted label for each of {rows} rows, found shape {found.shape}")
    if not np.isfinite(found).all():
        raise InputError("expected finite predicted labels, found NaN or infinity")
    return found
