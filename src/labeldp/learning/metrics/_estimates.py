"""Estimates with standard errors and confidence intervals, which metrics return."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.special import stdtrit

from labeldp import _checks
from labeldp._shapes import Bool, Float, Int
from labeldp.errors import InputError
from labeldp.learning.features import freeze_arrays
from labeldp.learning.losses import require_release
from labeldp.learning.metrics._units import Units
from labeldp.release import Release


@dataclass(frozen=True)
class Estimate:
    """An estimated number with its confidence interval.

    Attributes:
        value: The estimate. It is not clipped to the range of the metric, so that means of it stay unbiased.
        error: Its standard error; infinite for a single row.
        low: Lower end of the confidence interval, clipped to the range of the metric.
        high: Upper end.
    """

    value: float
    error: float
    low: float
    high: float


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


def mean_of_rows(
    values: Float[np.ndarray, "n"],
    level: float,
    least: float = -np.inf,
    most: float = np.inf,
    units: object = None,
) -> Estimate:
    """Mean of rows of independent units, with Student's interval clipped to a range."""
    value, sample = float(np.mean(values)), Units.of(units, len(values))
    error = float(np.sqrt(sample.covariance((values - value)[:, None])[0, 0])) / len(values)
    return normal_estimate(value, error, level, least, most, sample.free)


def normal_estimate(
    value: float, error: float, level: float, least: float, most: float, free: float = np.inf
) -> Estimate:
    """One estimate with a normal interval, or Student's with ``free`` degrees, clipped to the range of the metric."""
    half = quantile(level, free) * error
    return Estimate(value, error, float(np.clip(value - half, least, most)), float(np.clip(value + half, least, most)))


def quantile(level: float, free: Any = np.inf) -> Any:
    """Quantile of a two-sided interval: the normal one, or Student's with ``free`` degrees of freedom."""
    return stdtrit(free, (1.0 + check_level(level)) / 2.0)


def quotient_estimates(
    top: Float[np.ndarray, "*shape"],
    bottom: Float[np.ndarray, "*shape"],
    covariance: tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]],
    known: Bool[np.ndarray, "*shape"],
    level: float,
    free: Any = np.inf,
    added: float = 0.0,
) -> Estimates:
    """Quotients of two sums, for quotients of means between 0 and 1; NaN if not known.

    The interval is the hull of all t between 0 and 1 for which ``top - t bottom`` is within its error of zero, that is
    ``a t^2 - 2 b t + c <= 0`` (Fieller 1954). It keeps its coverage if the divisor is few standard errors away from
    zero, while ``value`` plus and minus multiples of ``error`` would not.

    Args:
        top: Dividends.
        bottom: Divisors.
        covariance: Variances of the dividends, covariances with the divisors, and variances of the divisors.
        known: True for a positive divisor with a known variance.
        level: Coverage of each interval.
        free: Degrees of freedom of the variances.
        added: Pseudo counts for the interval, in squared quantiles: as many hits as misses.
    """
    bottom = np.where(known, bottom, 1.0)
    tops, both, bottoms = (np.where(known, each, 0.0) for each in covariance)
    value = top / bottom
    error = np.sqrt(np.maximum(tops - 2 * value * both + value**2 * bottoms, 0.0)) / bottom
    bar = quantile(level, free) ** 2
    top, bottom = top + added * bar, bottom + 2.0 * added * bar
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


def check_level(level: float) -> float:
    """A confidence level strictly between 0 and 1."""
    return _checks.share(level, "a level", "()", "; use for instance 0.95")


def positive_row_count(release: Release) -> int:
    """Number of rows of a release, which must not be empty."""
    if len(require_release(release)) == 0:
        raise InputError("expected at least one row, found none")
    return len(release)


def finite_array(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of a shape as an array."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected {name} as numbers of shape {shape}, found something else") from None
    if array.shape != shape:
        raise InputError(f"expected {name} of shape {shape}, found {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {name}, found NaN or infinity")
    return array
