"""Estimates with standard errors and confidence intervals, which metrics return."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Bool, Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.losses import require_release
from labeldp.learning.metrics._units import FEW_UNITS, Units, design_effect
from labeldp.privacy import ClassProbabilities
from labeldp.release import Release

#: Sums of unbiased weights, and of probabilities, are right up to this.
TOLERANCE = 1e-4
#: Below this skewness the correction is lost in rounding.
_NO_SKEW = 1e-6


@dataclass(frozen=True)
class Estimate:
    """An estimated number with its confidence interval.

    Attributes:
        value: The estimate. It is not clipped to the range of the metric, so that means of it stay unbiased: an area
            may be 1.1 and a loss negative. Programs average it; people read ``shown``, or ``str`` of the estimate.
        error: Its standard error; infinite for a single row.
        low: Lower end of the confidence interval, clipped to the range of the metric.
        high: Upper end.
    """

    value: float
    error: float
    low: float
    high: float

    @property
    def shown(self) -> float:
        """The estimate within its interval, and so in the range of the metric; NaN if the labels do not tell it."""
        return min(max(self.value, self.low), self.high)

    def __str__(self) -> str:
        value = "cannot be told" if math.isnan(self.value) else f"{self.shown:.3g}"
        return f"{value} ({self.low:.3g} to {self.high:.3g})"

    def rows_needed(self, rows: int, width: float) -> int | None:
        """About how many rows would give an interval that is this wide; None if the standard error does not tell.

        The width falls with the root of the number of rows.

        Args:
            rows: Number of rows that the estimate is from.
            width: The wanted width.
        """
        needed = rows * (self._width / width) ** 2
        if math.isnan(self.value) or not rows < needed < math.inf:
            return None
        unit = 10.0 ** math.floor(math.log10(needed) - 1)
        return int(math.ceil(needed / unit) * unit)

    @property
    def _width(self) -> float:
        """Width of the normal interval of 95 %, before it is clipped."""
        return 2.0 * float(ndtri(0.975)) * self.error


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated numbers, each with its own confidence interval.

    Attributes:
        value: The estimates; NaN for a quotient without a positive divisor.
        error: Their standard errors.
        low: Lower ends of the confidence intervals, clipped to the range of the metric.
        high: Upper ends.
    """

    value: Float[np.ndarray, "*shape"]
    error: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]
    high: Float[np.ndarray, "*shape"]

    def __post_init__(self) -> None:
        freeze_arrays(self, **{field.name: np.float64 for field in fields(self)})

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        """The estimate at an index."""
        return Estimate(*(float(getattr(self, field.name)[place]) for field in fields(self)))


@dataclass(frozen=True)
class Bounds:
    """Lower and upper bound of a metric that released labels do not identify.

    Attributes:
        lower: Estimate of the least value that is consistent with the distribution of the released labels.
        upper: Estimate of the largest such value.
        low: Lower confidence limit of the least value.
        high: Upper confidence limit of the largest.
    """

    lower: float
    upper: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and estimated frequencies of a class in bins of predictions; bins without rows are left out.

    Attributes:
        predicted: Mean predicted probability in each bin.
        frequency: Estimated frequency of the class among true labels in each bin.
        rows: Number of rows in each bin.
    """

    predicted: Float[np.ndarray, "b"]
    frequency: Estimates
    rows: Int[np.ndarray, "b"]


@dataclass(frozen=True, eq=False)
class NumberCalibration:
    """Predicted and estimated mean labels in bins of predictions; bins without rows are left out.

    Attributes:
        predicted: Mean prediction in each bin.
        mean: Estimated mean of true labels in each bin.
        rows: Number of rows in each bin.
    """

    predicted: Float[np.ndarray, "b"]
    mean: Estimates
    rows: Int[np.ndarray, "b"]


def mean_of_rows(
    values: Float[np.ndarray, "n"],
    level: float,
    least: float = -np.inf,
    most: float = np.inf,
    units: object = None,
    expected: tuple[float, float] = (0.0, 0.0),
    extremes: tuple[float, float] | None = None,
) -> Estimate:
    """Mean of rows of independent units, with Student's interval, corrected for skewness and clipped to a range.

    Few units may by chance show no unit of a kind of which there are many, and then they seem to be alike. With
    ``extremes`` the interval also holds the mean if as many as can be missed were there, at either extreme.

    Args:
        values: What each row contributes.
        level: Coverage of the interval.
        least: Least possible mean.
        most: Largest possible mean.
        units: The unit of each row.
        expected: Least variance of the sum of independent rows, and the part of it that rows of a unit may share. Where
            few units carry the variance, they are taken to share it.
        extremes: The least and the largest that a row may contribute.
    """
    value, sample = float(np.mean(values)), Units.of(units, len(values))
    totals = sample.totals(values - value)
    found = float((totals**2).sum()) * sample.count / sample.free
    shared = (sample.size - 1.0) * expected[1] if (totals**2).sum() ** 2 < FEW_UNITS * (totals**4).sum() else 0.0
    error = float(np.sqrt(max(found, expected[0] + shared))) if sample.count > 1 else np.inf
    skew = float((totals**3).sum()) / error**3 if error > 0.0 else 0.0
    bar = quantile(level, sample.freedom(totals))
    low, high = (value - transformed(side, skew) * error / len(values) for side in (bar, -bar))
    if extremes is not None:
        missed = missed_share(sample, level)
        low = min(low, value + missed * (min(extremes[0], value) - value))
        high = max(high, value + missed * (max(extremes[1], value) - value))
    return Estimate(value, error / len(values), float(np.clip(low, least, most)), float(np.clip(high, least, most)))


def missed_share(units: Units, level: float) -> float:
    """The largest share of units of a kind of which none of these is, by one side of an interval (Clopper, Pearson)."""
    return 1.0 - float(((1.0 - level) / 2.0) ** (1.0 / units.effective))


def difference_of(one: Estimate, other: Estimate, least: float, most: float, correlation: float = 0.0) -> Estimate:
    """The difference of two estimates as they are shown, with an interval from both of theirs (MOVER).

    An end follows from an end of either interval, whatever the standard errors are. So an estimate whose few rows show
    no variance leaves the difference as open as it is itself. An end of a range, which is no estimate, is subtracted
    as it is.

    Args:
        one: An estimate.
        other: The estimate that is subtracted.
        least: Least possible value of both.
        most: Largest possible value of both.
        correlation: The correlation of both.

    References:
        Newcombe 1998, method 10; Zou and Donner 2008, with the correlation.
    """

    def distance(first: float, second: float) -> float:
        shared = 2.0 * correlation * first * second if correlation else 0.0
        return math.sqrt(max(first**2 + second**2 - shared, 0.0))

    shown, value = one.shown - other.shown, one.value - other.value
    low, high = one.low - other.high, one.high - other.low
    if one.low > least and other.high < most:
        low = value - distance(one.value - one.low, other.high - other.value)
    if one.high < most and other.low > least:
        high = value + distance(one.high - one.value, other.value - other.low)
    return Estimate(shown, distance(one.error, other.error), min(low, shown), max(high, shown))


def transformed(score: float, skew: float) -> float:
    """The value of a Studentized mean whose transformation has a nearly symmetric distribution.

    For skewed rows ``T = (mean - truth) / error`` is skewed the other way, and Student's interval misses on one side.
    ``g(T) = T + a T^2 / 3 + a^2 T^3 / 27 + a / 6`` with ``a`` the skewness over the root of the number of rows is
    symmetric up to terms of the order of the inverse of that number, and increases; this solves ``g(T) = score``.

    Args:
        score: A quantile of a symmetric distribution.
        skew: ``a``: the sum of cubed residuals over the cubed root of the sum of squares.

    References:
        Hall 1992, On the removal of skewness by transformation, equation 2.2.
    """
    if abs(skew) < _NO_SKEW:
        return score
    return float(3.0 / skew * (np.cbrt(1.0 + skew * (score - skew / 6.0)) - 1.0))


def normal_estimate(value: float, error: float, level: float, least: float, most: float) -> Estimate:
    """One estimate with a normal interval, clipped to the range of the metric."""
    half = quantile(level) * error
    return Estimate(value, error, float(np.clip(value - half, least, most)), float(np.clip(value + half, least, most)))


def quantile(level: float, free: Any = np.inf) -> Any:
    """Quantile of a two-sided interval: the normal one, or Student's with ``free`` degrees of freedom."""
    return stdtrit(free, (1.0 + _checks.level(level)) / 2.0)


def quotient_estimates(
    top: Float[np.ndarray, "q"],
    bottom: Float[np.ndarray, "q"],
    covariance: Float[np.ndarray, "q 2 2"],
    known: Bool[np.ndarray, "q"],
    level: float,
    free: Any = np.inf,
    within: Float[np.ndarray, "q 2 2"] | None = None,
) -> Estimates:
    """Quotients of two sums, for quotients of means between 0 and 1; NaN if not known.

    The interval is the hull of all t between 0 and 1 for which ``top - t bottom`` is within its error of zero, that is
    ``a t^2 - 2 b t + c <= 0`` (Fieller 1954). It keeps its coverage if the divisor is few standard errors away from
    zero, while ``value`` plus and minus multiples of ``error`` would not.

    Args:
        top: Dividends.
        bottom: Divisors.
        covariance: Covariances of dividends and divisors.
        known: True for a positive divisor with a known variance.
        level: Coverage of each interval.
        free: Degrees of freedom of the variances.
        within: Covariances for the interval, if these are others than for the standard error.
    """
    bottom = np.where(known, bottom, 1.0)
    tops, both, bottoms = _entries(covariance, known)
    value = top / bottom
    error = np.sqrt(np.maximum(tops - 2 * value * both + value**2 * bottoms, 0.0)) / bottom
    bar = quantile(level, free) ** 2
    tops, both, bottoms = _entries(covariance if within is None else within, known)
    a, b, c = bottom**2 - bar * bottoms, top * bottom - bar * both, top**2 - bar * tops
    far = b + np.copysign(np.sqrt(np.maximum(b**2 - a * c, 0.0)), b)
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([far / a, c / far])
    # The hull ends at roots, or at 0 or 1 where these satisfy the inequality. If no such point is in [0, 1], all
    # solutions lie on one side of it, or, if the divisor may be zero, on both.
    ends = np.stack([np.zeros_like(a), np.ones_like(a), *roots])
    held = np.stack([c <= 0, a - 2 * b + c <= 0, *((roots >= 0) & (roots <= 1))])
    nearest = np.clip(value, 0.0, 1.0)
    low = np.where(held.any(axis=0), np.where(held, ends, 1.0).min(axis=0), np.where(a > 0, nearest, 0.0))
    high = np.where(held.any(axis=0), np.where(held, ends, 0.0).max(axis=0), np.where(a > 0, nearest, 1.0))
    # If the divisor may be zero, the solutions may leave the estimate out.
    low, high = np.minimum(low, nearest), np.maximum(high, nearest)
    value, error = np.where(known, value, np.nan), np.where(known, error, np.inf)
    return Estimates(value, error, np.where(known, low, 0.0), np.where(known, high, 1.0))


def _entries(covariance: Float[np.ndarray, "q 2 2"], known: Bool[np.ndarray, "q"]) -> Iterator[Float[np.ndarray, "q"]]:
    """Variances of dividends, covariances with divisors, variances of divisors; 0 if not known."""
    return (np.where(known, covariance[:, i, j], 0.0) for i, j in ((0, 0), (0, 1), (1, 1)))


def score_covariance(
    top: float,
    bottom: float,
    noise: Float[np.ndarray, "2 2"],
    found: Float[np.ndarray, "2 2"],
    size: float,
    largest: float,
) -> Float[np.ndarray, "2 2"]:
    """Covariance of hits and rows such that ``top - t bottom`` has the variance that it has if a share t hits.

    That is ``bottom t (1 - t)`` for independent rows (Wilson 1927), times the design effect of units, plus the noise of
    labels. No hit, or no miss, is then no proof that there are none.
    """
    if not np.isfinite(found).all():  # a single unit
        return noise
    share = float(np.clip(top / bottom, 0.0, 1.0)) if bottom > 0.0 else 0.5
    at = np.array([1.0, -share])
    effect = design_effect(at @ (found - noise) @ at, bottom * share * (1.0 - share), size, largest)
    return np.asarray(noise - effect * max(bottom, 0.0) * np.array([[0.0, 0.5], [0.5, 1.0]]))


def positive_row_count(release: Release) -> int:
    """Number of rows of a release, which must not be empty."""
    if len(require_release(release)) == 0:
        raise InputError("expected at least one row, found none")
    return len(release)


def finite_array(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of a shape as an array."""
    array = floats(values, name)
    if array.shape != shape:
        raise InputError(f"expected {name} of shape {shape}, found {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {name}, found NaN or infinity")
    return array


def is_column(values: object) -> bool:
    """True for one number for each row, and not one for each class of it."""
    return not isinstance(values, ClassProbabilities) and floats(values, "numbers").ndim < 2
