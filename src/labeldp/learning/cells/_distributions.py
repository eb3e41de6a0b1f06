"""Class distributions and mean labels of cells from a curator's answers, or released labels, shrunk towards all rows.

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
from labeldp.errors import InputError, LabelError, NotTrueLabelsError
from labeldp.learning.losses import ends_of, label_variance, noise_variances, unbiased_numbers
from labeldp.mechanisms.queries import Choices, Counts, FlippedLabels, Means, Reading
from labeldp.privacy import Interval
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer, Release


def require_answer(y: object, forms: tuple[type[Reading], ...]) -> Answer:
    """The argument itself, if it is an answer that is read in one of some forms."""
    if not isinstance(y, Answer):
        raise NotTrueLabelsError(
            f"expected an Answer as labels, found {type(y).__name__}; get one from "
            "Curator.answer(query), or from Answer.load"
        )
    if not isinstance(y.reading, forms):
        raise InputError(f"expected an answer of {' or '.join(form.noun for form in forms)}, found that to {y.query}")
    return y


def numbers_of(cells: Any, rows: int) -> Int[np.ndarray, "n"]:
    """The cell of each row, from clusters or an array."""
    numbers = np.asarray(getattr(cells, "numbers", cells))
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise InputError(
            f"expected the cell of each of the {rows} rows that the answer is about, numbered from 0, found "
            f"{numbers.dtype} of shape {numbers.shape}; give the cells of the query"
        )
    return numbers.astype(np.int64)


def cell_distributions(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """The class distribution of each cell, shrunk towards that of all rows by the size of its noise.

    Raises:
        InputError: The answer lacks a cell, or is pure noise.
    """
    reading = answer.reading
    return _ESTIMATORS[type(reading)](reading, cells, answer.space.size)


def _from_counts(reading: Counts, cells: Int[np.ndarray, "n"], _: int) -> Float[np.ndarray, "cells k"]:
    """Distributions from noisy counts; the known sum of a cell's shares removes a k-th of the noise."""
    rows = rows_of_cells(cells, len(reading.values))
    known = np.maximum(rows, 1)
    shares = reading.values / known[:, None]
    shares += (1.0 - shares.sum(axis=1, keepdims=True)) / shares.shape[1]
    return _shrink(shares, np.where(rows > 0, (reading.deviation / known) ** 2, np.inf), rows)


def _from_choices(reading: Choices, cells: Int[np.ndarray, "n"], size: int) -> Float[np.ndarray, "cells k"]:
    """Distributions from the classes chosen for each cell, as if its rows were evenly of these.

    Another class then has the exponential mechanism's odds against a chosen one, and cells of few rows get nearly
    uniform distributions. Permute-and-flip is at least as likely to return the class.
    """
    rows, most = rows_of_cells(cells, len(reading.codes)), reading.codes.shape[1]
    against = np.exp(-rows / most * reading.rate)[:, None]
    named = (reading.codes[:, :, None] == np.arange(size)).any(axis=1)
    return np.asarray(np.where(named, 1.0, against) / (most + (size - most) * against))


def _from_flipped_labels(reading: FlippedLabels, cells: Int[np.ndarray, "n"], k: int) -> Float[np.ndarray, "cells k"]:
    """Distributions from randomized labels: released shares corrected for noise, ``(share - flip) / (1 - k flip)``.

    The variances of a cell's shares sum to the noise of its rows: that of a true label is p (1 - p) for its own class,
    with probability p, and q (1 - q) for each other one. Labels drawn with replacement add that of a sample, at most
    1 - 1/k over their number.
    """
    if k * reading.flip == 1:
        raise InputError(f"expected labels that tell true classes, found each with probability 1/{k}: pure noise")
    q, p = float(reading.flip), float(1 - (k - 1) * reading.flip)
    rows = rows_of_cells(cells, int(cells.max()) + 1)
    responded = reading.codes >= 0
    pairs = cells[responded] * k + reading.codes[responded]
    counts = np.bincount(pairs, minlength=len(rows) * k).reshape(-1, k)
    released = counts.sum(axis=1)
    shares = (counts / np.maximum(released, 1)[:, None] - q) / (p - q)
    noise = (p * (1.0 - p) + (k - 1) * q * (1.0 - q)) / rows.clip(1)
    noise += reading.resampled * (1.0 - 1.0 / k) / np.maximum(released, 1)
    variance = np.where(released > 0, noise / (k - 1) / (p - q) ** 2, np.inf)
    return _shrink(shares, variance, rows)


def _shrink(
    shares: Float[np.ndarray, "cells k"], variance: Float[np.ndarray, "cells"], rows: Int[np.ndarray, "cells"]
) -> Float[np.ndarray, "cells k"]:
    """Shrink noisy shares towards those of all rows, by each cell's noise variance relative to that between cells.

    The variance between cells is estimated by the mean squared difference less the noise variance. If shares vary
    around those of all rows with that variance and noise is normal, the result is the posterior mean, projected to the
    nearest distribution.

    References:
        Efron and Morris 1973, for the estimate from all cells; Held, Wolfe and Crowder 1974, for the projection.
    """
    overall = nearest_distributions((rows @ shares / rows.sum())[None])
    difference = shares - overall
    precision = np.where(rows > 0, 1.0 / variance, 0.0)
    degrees = shares.shape[1] - 1
    excess = precision @ (difference**2).sum(axis=1) - degrees * np.count_nonzero(precision)
    between = max(0.0, float(excess) / (degrees * float(precision.sum())))
    return nearest_distributions(overall + difference * (between * precision / (between * precision + 1.0))[:, None])


def rows_of_cells(cells: Int[np.ndarray, "n"], count: int) -> Int[np.ndarray, "cells"]:
    """Number of rows of each cell."""
    if int(cells.max()) >= count:
        raise InputError(
            f"expected cells below {count}, the number of cells of the answer, found cell {cells.max()}; give the "
            "cells of the query"
        )
    return np.bincount(cells, minlength=count)


_ESTIMATORS: Mapping[type, Callable[[Any, Int[np.ndarray, "n"], int], Float[np.ndarray, "cells k"]]] = MappingProxyType(
    {Counts: _from_counts, Choices: _from_choices, FlippedLabels: _from_flipped_labels}
)

#: Forms of answers that determine class distributions of cells.
CLASS_READINGS = tuple(_ESTIMATORS)


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
    return _shrunk(noisy, rows, None if overall is None else _overall_mean(overall, answer), spread)


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
    return _shrunk(_NoisyMeans(means, variance, within, low, high), rows, None, spread)


def _shrunk(
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
    return _MEANS_OF[type(answer.reading)](answer.reading, rows, answer.space)


def _from_means(reading: Means, rows: Int[np.ndarray, "cells"], _: Interval) -> _NoisyMeans:
    """Means from noisy means; the noise of a mean is that of its sum over the number of rows."""
    deviation = reading.deviation / np.maximum(rows, 1)
    noise = np.where(rows > 0, deviation**2, np.inf)
    return _NoisyMeans(np.where(rows > 0, reading.values, 0.0), noise, 0.0, reading.low, reading.high)


def _means_from_counts(reading: Counts, rows: Int[np.ndarray, "cells"], space: Interval) -> _NoisyMeans:
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


_MEANS_OF: Mapping[type, Callable[[Any, Int[np.ndarray, "cells"], Interval], _NoisyMeans]] = MappingProxyType(
    {Means: _from_means, Counts: _means_from_counts}
)

#: Forms of answers that determine mean labels of cells.
NUMBER_READINGS = tuple(_MEANS_OF)
