"""Mean labels of cells from a curator's answers or released labels, shrunk towards the mean of all rows.

The number of rows of a cell and the distribution of the noise are public; they determine the shrinkage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import brentq

from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelError
from labeldp.learning.cells._distributions import require_answer, rows_of_cells
from labeldp.learning.losses import ends_of, label_variance, noise_variances, unbiased_numbers
from labeldp.mechanisms.queries import Counts, Means
from labeldp.privacy import Interval
from labeldp.release import Answer, Release

#: The variance between cells is estimated from those whose noise has at most this share of the range as standard
#: deviation: means are clipped to the range, so that larger noise would seem smaller than it is.
_SMALL_NOISE = 0.25


@dataclass(frozen=True, eq=False)
class CellMeans:
    """Estimated mean labels of cells with their standard errors.

    Attributes:
        means: Means shrunk towards the mean of all rows, shape (cells,).
        errors: Their standard errors.
        overall: The mean of all rows, also the mean of cells without rows.
        overall_error: Its standard error.
        between: Estimated standard deviation between cells.
        low: Lower end of the range of means.
        high: Upper end.
    """

    means: Float[np.ndarray, "cells"]
    errors: Float[np.ndarray, "cells"]
    overall: float
    overall_error: float
    between: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class _NoisyMeans:
    """Noisy means of cells before shrinkage.

    Attributes:
        means: One for each cell; 0 for cells without rows.
        noise: Variance of their noise; infinite for cells without rows.
        within: Variance of labels within a cell, if the answer identifies it, else 0.
        low: Lower clipping bound of the labels.
        high: Upper clipping bound.
    """

    means: Float[np.ndarray, "cells"]
    noise: Float[np.ndarray, "cells"]
    within: float
    low: float
    high: float


def cell_means(
    answer: Answer, cells: Int[np.ndarray, "n"], overall: Answer | None = None, spread: float | None = None
) -> CellMeans:
    """The mean label of each cell from an answer, shrunk towards the mean of all rows.

    If the means of cells have variance t around the mean of all rows, and the noisy mean of cell l has variance a_l
    around the cell's, from the noise and from sampling labels, then the posterior mean puts the weight
    ``t / (t + a_l)`` on the noisy mean, and the posterior variance is that share of a_l.

    Args:
        answer: An answer in one of ``NUMBER_READINGS``.
        cells: The cell of each row.
        overall: The answer to the same query without cells, or None to estimate the mean of all rows from the cells'.
        spread: Standard deviation of labels within a cell, if it is known.

    Raises:
        InputError: The answer lacks a cell, or the other answer is about other rows or labels.

    References:
        Efron and Morris 1973, for the posterior; Paule and Mandel 1982, for the variance t, at which the squared
        differences have their expected size; Zhao et al. 2025, equation (23), for the means.
    """
    rows = rows_of_cells(cells, len(answer.value))
    noisy = _noisy_means(answer, rows)
    return _shrink(noisy, rows, None if overall is None else _overall_mean(overall, answer), spread)


def released_cell_means(release: Release, cells: Int[np.ndarray, "n"], spread: float | None = None) -> CellMeans:
    """The mean label of each cell from released labels, shrunk towards the mean of all rows as in ``cell_means``.

    Released numbers have the labels as their means, so a weighted mean of them over a cell is unbiased for the cell's
    mean label. Rows with less noise weigh more. The variance of numbers in a cell less that of their noise estimates
    the variance of labels.

    Args:
        release: Released numeric labels, by a channel with unbiased numbers.
        cells: The cell of each row.
        spread: Standard deviation of labels within a cell, if it is known.

    References:
        Zhao et al. 2025, equations (12) and (20), for averages of labels that were randomized one by one.
    """
    numbers, noise = unbiased_numbers(release), noise_variances(release)
    weights = 1.0 / (noise + label_variance(release, numbers))
    rows, total = np.bincount(cells), np.bincount(cells, weights)
    known = rows > 0
    shares = weights / total[cells]
    means = np.bincount(cells, shares * numbers)
    low, high = ends_of(release)
    excess = np.sum((numbers - means[cells]) ** 2) / max(1, len(cells) - int(known.sum())) - noise.mean()
    within = float(np.clip(excess, 0.0, (high - low) ** 2 / 4))
    variance = np.where(known, np.bincount(cells, shares**2 * noise), np.inf)
    return _shrink(_NoisyMeans(means, variance, within, low, high), rows, None, spread)


def _shrink(
    noisy: _NoisyMeans, rows: Int[np.ndarray, "cells"], centre: tuple[float, float] | None, spread: float | None
) -> CellMeans:
    """Shrink means towards that of all rows, or towards a known centre with its variance."""
    within = noisy.within if spread is None else spread**2
    variance = noisy.noise + within / np.maximum(rows, 1)
    known = rows > 0
    precise = known & (noisy.noise <= (_SMALL_NOISE * (noisy.high - noisy.low)) ** 2)
    precise = precise if precise.any() else known
    between = _variance_between(noisy.means[precise], variance[precise], centre, (noisy.high - noisy.low) ** 2)
    middle, middle_variance = centre or _weighted_mean(noisy.means[precise], variance[precise] + between)
    share = np.where(known, between / (between + np.where(known, variance, 1.0)), 0.0)
    means = np.clip(middle + share * (noisy.means - middle), noisy.low, noisy.high)
    errors = np.sqrt(
        np.where(known, share * np.where(known, variance, 0.0), between) + (1.0 - share) ** 2 * middle_variance
    )
    middle = min(max(middle, noisy.low), noisy.high)
    return CellMeans(means, errors, middle, math.sqrt(middle_variance), math.sqrt(between), noisy.low, noisy.high)


def _noisy_means(answer: Answer, rows: Int[np.ndarray, "cells"]) -> _NoisyMeans:
    """Means before shrinkage, from an answer about numeric labels."""
    if not isinstance(answer.space, Interval):
        raise LabelError("expected an answer about numeric labels on an Interval, found one about classes")
    return _ESTIMATORS[type(answer.reading)](answer.reading, rows, answer.space)


def _from_means(reading: Means, rows: Int[np.ndarray, "cells"], _: Interval) -> _NoisyMeans:
    """Means from noisy means; the noise of a mean is that of its sum over the number of rows."""
    deviation = reading.deviation / np.maximum(rows, 1)
    noise = np.where(rows > 0, deviation**2, np.inf)
    return _NoisyMeans(np.where(rows > 0, reading.values, 0.0), noise, 0.0, reading.low, reading.high)


def _from_counts(reading: Counts, rows: Int[np.ndarray, "cells"], space: Interval) -> _NoisyMeans:
    """Means from noisy counts of the grid points; centring the grid first reduces the noise variance.

    Centring is allowed because the number of rows of a cell is public. The second moments less the squared means, which
    are too large by the noise, give the variance of labels within a cell.
    """
    points = np.asarray(space.points, dtype=np.float64)
    middle, known = points.mean(), np.maximum(rows, 1)
    centred = points - middle
    means = reading.values @ centred / known
    noise = (reading.deviation / known) ** 2 * (centred @ centred)
    variance = reading.values @ centred**2 / known - means**2 + noise
    within = float(np.clip(rows @ variance / rows.sum(), 0.0, (points[-1] - points[0]) ** 2 / 4))
    return _NoisyMeans(means + middle, np.where(rows > 0, noise, np.inf), within, float(points[0]), float(points[-1]))


def _overall_mean(overall: Answer, answer: Answer) -> tuple[float, float]:
    """The mean of all rows and its variance, from an answer about all of them in one cell."""
    checked = require_answer(overall, NUMBER_READINGS)
    if (checked.space, checked.rows, len(checked.value)) != (answer.space, answer.rows, 1):
        raise InputError(
            f"expected overall to be an answer about the same labels, with all {answer.rows} rows in one cell, found "
            f"{checked.rows} rows in {len(checked.value)} cells, or other labels; request NoisyMean without cells"
        )
    noisy = _noisy_means(checked, np.array([checked.rows]))
    return float(noisy.means[0]), float(noisy.noise[0])


def _weighted_mean(means: Float[np.ndarray, "m"], variance: Float[np.ndarray, "m"]) -> tuple[float, float]:
    """The mean with inverse-variance weights, and its variance."""
    weights = 1.0 / variance
    return float(weights @ means / weights.sum()), float(1.0 / weights.sum())


def _variance_between(
    means: Float[np.ndarray, "m"], variance: Float[np.ndarray, "m"], centre: tuple[float, float] | None, largest: float
) -> float:
    """The variance t at which the squared differences of means from their centre, over t + a, sum to their number.

    If the centre is estimated from the means, they sum to one less. The sum decreases in t, so it has one root.
    """
    expected = len(means) - (centre is None)

    def energy(between: float) -> float:
        middle = _weighted_mean(means, variance + between)[0] if centre is None else centre[0]
        return float(np.sum((means - middle) ** 2 / (variance + between)))

    if expected == 0 or energy(0.0) <= expected:
        return 0.0
    if energy(largest) >= expected:
        return largest
    return float(brentq(lambda between: energy(between) - expected, 0.0, largest, xtol=1e-12 * largest))


_ESTIMATORS: Mapping[type, Callable[[Any, Int[np.ndarray, "cells"], Interval], _NoisyMeans]] = MappingProxyType(
    {Means: _from_means, Counts: _from_counts}
)

#: Forms of answers that determine mean labels of cells.
NUMBER_READINGS = tuple(_ESTIMATORS)
