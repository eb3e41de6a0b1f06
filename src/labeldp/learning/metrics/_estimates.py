"""What metrics return: estimates with their standard errors and confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import betaincinv, ndtri

from labeldp.errors import InputError


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated.

    Attributes:
        value: The estimate. It is not cut to the range of the metric, so that means of it stay unbiased.
        error: Its standard error; infinite where one row cannot tell.
        low: Lower end of the confidence interval, cut to the range of the metric.
        high: Upper end.
    """

    value: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Estimates:
    """Numbers that were estimated, each with its own confidence interval.

    Attributes:
        value: The estimates; NaN where a quotient has no positive divisor.
        error: Their standard errors.
        low: Lower ends of the confidence intervals, cut to the range of the metric.
        high: Upper ends.
    """

    value: Float[np.ndarray, "*shape"]
    error: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]
    high: Float[np.ndarray, "*shape"]

    def __post_init__(self) -> None:
        for field in fields(self):
            array = np.array(getattr(self, field.name), dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, field.name, array)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, place: int | tuple[int, ...]) -> Estimate:
        """One of them."""
        return Estimate(*(float(getattr(self, field.name)[place]) for field in fields(self)))


@dataclass(frozen=True)
class Bounds:
    """Where a metric must lie that released labels do not determine.

    Attributes:
        lower: Estimate of the least value that agrees with the law of the released labels.
        upper: Estimate of the largest.
        low: The least value, with the sampling error taken off.
        high: The largest, with the sampling error added.
    """

    lower: float
    upper: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted and estimated frequencies of a class in bins of predictions; bins without rows are left out.

    Attributes:
        predicted: Mean predicted probability of each bin.
        frequency: Estimated frequency of the class among true labels in each bin.
        rows: Number of rows in each bin.
    """

    predicted: Float[np.ndarray, "b"]
    frequency: Estimates
    rows: Int[np.ndarray, "b"]


def clopper_pearson(
    count: Float[np.ndarray, "g"], rows: Int[np.ndarray, "g"], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """The interval of Clopper and Pearson for a probability."""
    tail = (1 - checked_level(level)) / 2
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), rows - count + 1, tail), 0.0)
    high = np.where(count < rows, betaincinv(count + 1, np.maximum(rows - count, 1), 1 - tail), 1.0)
    return low, high


def mean_of_rows(
    values: Float[np.ndarray, "n"], level: float, least: float = -np.inf, most: float = np.inf
) -> Estimate:
    """The mean of independent rows."""
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    return normal_estimate(float(np.mean(values)), error, level, least, most)


def normal_estimate(value: float, error: float, level: float, least: float, most: float) -> Estimate:
    """One estimate with a normal interval, cut to the range of the metric."""
    return normal_estimates(np.array([value]), np.array([error]), level, least, most)[0]


def normal_estimates(value: np.ndarray, error: np.ndarray, level: float, least: float, most: float) -> Estimates:
    """Estimates with normal intervals, cut to the range of the metric."""
    half = ndtri((1 + checked_level(level)) / 2) * error
    return Estimates(value, error, np.clip(value - half, least, most), np.clip(value + half, least, most))


def quotient_estimates(
    top: Float[np.ndarray, "*shape"],
    bottom: Float[np.ndarray, "*shape"],
    spread: tuple[Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"], Float[np.ndarray, "*shape"]],
    known: Bool[np.ndarray, "*shape"],
    level: float,
) -> Estimates:
    """Quotients of two sums, for a quotient of means between 0 and 1; NaN where it is not known.

    The interval is the hull of all t between 0 and 1 for which ``top - t bottom`` is within its error of zero, that is
    ``a t^2 - 2 b t + c <= 0`` (Fieller 1954). Where the divisor is few errors away from zero, it holds the truth as
    often as it says, while ``value`` plus and minus multiples of ``error`` would hold it too seldom.

    Args:
        top: The dividends.
        bottom: The divisors.
        spread: Variances of the dividends, covariances with the divisors, and variances of the divisors.
        known: Where the divisor is positive and there is a spread.
        level: Chance that an interval holds its quotient of means.
    """
    bottom = np.where(known, bottom, 1.0)
    tops, both, bottoms = (np.where(known, each, 0.0) for each in spread)
    value = top / bottom
    error = np.sqrt(np.maximum(tops - 2 * value * both + value**2 * bottoms, 0.0)) / bottom
    bar = ndtri((1 + checked_level(level)) / 2) ** 2
    a, b, c = bottom**2 - bar * bottoms, top * bottom - bar * both, top**2 - bar * tops
    far = b + np.copysign(np.sqrt(np.maximum(b**2 - a * c, 0.0)), b)
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.stack([far / a, c / far])
    # The hull ends at roots, or at 0 or 1 where they are allowed. Without any of these, all that is allowed lies on
    # one side of [0, 1], or, if the divisor may be zero, on both.
    ends = np.stack([np.zeros_like(a), np.ones_like(a), *roots])
    held = np.stack([c <= 0, a - 2 * b + c <= 0, *((roots >= 0) & (roots <= 1))])
    nearest = np.clip(value, 0.0, 1.0)
    low = np.where(held.any(axis=0), np.where(held, ends, 1.0).min(axis=0), np.where(a > 0, nearest, 0.0))
    high = np.where(held.any(axis=0), np.where(held, ends, 0.0).max(axis=0), np.where(a > 0, nearest, 1.0))
    value, error = np.where(known, value, np.nan), np.where(known, error, np.inf)
    return Estimates(value, error, np.where(known, low, 0.0), np.where(known, high, 1.0))


def checked_level(level: float) -> float:
    """A chance strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
        raise InputError(f"expected a level between 0 and 1, found {level!r}; use for instance 0.95")
    return float(level)
