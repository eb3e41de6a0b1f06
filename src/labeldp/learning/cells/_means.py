"""Mean labels of cells, from what a curator answered about their rows; what noise hides falls back to all rows.

How many rows a cell has is public, and so is the law of the noise: both say how far a cell's answer is to be believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from jaxtyping import Float, Int

from labeldp.errors import InputError, LabelError
from labeldp.learning.cells._distributions import answered, rows_of_cells
from labeldp.learning.losses import ends_of, label_variance, noise_variances, unbiased_numbers
from labeldp.mechanisms.queries import clip_of, sum_deviation
from labeldp.privacy import Interval
from labeldp.release import Answer, Release

#: How far cells differ is judged by those whose noise deviates by at most this share of the range: means are cut to
#: the range, and noise that often leaves it would seem smaller than it is.
_SMALL_NOISE = 0.25
_HALVINGS = 80


@dataclass(frozen=True, eq=False)
class CellMeans:
    """The mean label of each cell, and how sure it is.

    Attributes:
        means: Drawn towards the mean of all rows, shape (cells,).
        errors: Their standard errors.
        overall: The mean of all rows, which cells without rows have.
        overall_error: Its standard error.
        between: The standard deviation by which cells differ, as estimated.
        low: No mean is below.
        high: No mean is above.
    """

    means: Float[np.ndarray, "cells"]
    errors: Float[np.ndarray, "cells"]
    overall: float
    overall_error: float
    between: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class _Noisy:
    """Means as a curator gave them.

    Attributes:
        means: One for each cell; of cells without rows it is 0.
        noise: The variance of their noise; infinite for cells without rows.
        within: The variance of labels in a cell, where the answer says something of it, else 0.
        low: Labels were clipped to at least this.
        high: And to at most this.
    """

    means: Float[np.ndarray, "cells"]
    noise: Float[np.ndarray, "cells"]
    within: float
    low: float
    high: float


def cell_means(
    answer: Answer, cells: Int[np.ndarray, "n"], overall: Answer | None = None, spread: float | None = None
) -> CellMeans:
    """The mean label of each cell, each drawn towards the mean of all rows as far as noise and chance hide it.

    If cell l has a mean that differs from that of all rows with variance t, and its noisy mean has variance a_l around
    it, of the noise and of the labels that happen to be in the cell, then the mean of the posterior has the share
    ``t / (t + a_l)`` of the noisy mean, and a variance of that share of a_l.

    Args:
        answer: The answer to a query among ``NUMBER_QUERIES``.
        cells: The cell of each row that it is about.
        overall: The answer to the same query without cells, or None to estimate the mean of all rows from the cells'.
        spread: The standard deviation of labels in a cell, if it is known.

    Raises:
        InputError: There are cells that the answer says nothing of, or the other answer is about other rows or labels.

    References:
        Efron and Morris 1973, for the posterior; Paule and Mandel 1982, for the variance t, at which squared
        differences are as large as they should be; Zhao et al. 2025, equation (23), for the means.
    """
    rows = rows_of_cells(cells, len(answer.value))
    noisy = _READ[_real(answer).query](answer, rows)
    return _shrunk(noisy, rows, None if overall is None else _whole(overall, answer), spread)


def released_cell_means(release: Release, cells: Int[np.ndarray, "n"], spread: float | None = None) -> CellMeans:
    """The mean label of each cell from released labels, each drawn towards the mean of all rows as in ``cell_means``.

    Released numbers have the labels as their means, so a cell's weighted mean of them has its mean label. Rows with
    less noise weigh more. What numbers vary by in a cell, beyond their noise, is what labels do.

    Args:
        release: Released real labels, by a law that gives unbiased numbers.
        cells: The cell of each row.
        spread: The standard deviation of labels in a cell, if it is known.

    References:
        Zhao et al. 2025, equations (12) and (20), for averages of labels that were randomized alone.
    """
    numbers, noise = unbiased_numbers(release), noise_variances(release)
    weights = 1.0 / (noise + label_variance(release, numbers))
    rows, total = np.bincount(cells), np.bincount(cells, weights)
    known = rows > 0
    shares = weights / total[cells]
    means = np.bincount(cells, shares * numbers)
    low, high = ends_of(release)
    left = np.sum((numbers - means[cells]) ** 2) / max(1, len(cells) - int(known.sum())) - noise.mean()
    within = float(np.clip(left, 0.0, (high - low) ** 2 / 4))
    variance = np.where(known, np.bincount(cells, shares**2 * noise), np.inf)
    return _shrunk(_Noisy(means, variance, within, low, high), rows, None, spread)


def _shrunk(
    noisy: _Noisy, rows: Int[np.ndarray, "cells"], centre: tuple[float, float] | None, spread: float | None
) -> CellMeans:
    """Means drawn towards that of all rows, or to a centre that is known with its variance."""
    within = noisy.within if spread is None else spread**2
    variance = noisy.noise + within / np.maximum(rows, 1)
    known = rows > 0
    judged = known & (noisy.noise <= (_SMALL_NOISE * (noisy.high - noisy.low)) ** 2)
    judged = judged if judged.any() else known
    between = _between(noisy.means[judged], variance[judged], centre, (noisy.high - noisy.low) ** 2)
    middle, doubt = centre or _centre(noisy.means[judged], variance[judged] + between)
    share = np.where(known, between / (between + np.where(known, variance, 1.0)), 0.0)
    means = np.clip(middle + share * (noisy.means - middle), noisy.low, noisy.high)
    errors = np.sqrt(np.where(known, share * np.where(known, variance, 0.0), between) + (1.0 - share) ** 2 * doubt)
    middle = min(max(middle, noisy.low), noisy.high)
    return CellMeans(means, errors, middle, math.sqrt(doubt), math.sqrt(between), noisy.low, noisy.high)


def _real(answer: Answer) -> Answer:
    """An answer about labels on an interval."""
    if not isinstance(answer.space, Interval):
        raise LabelError("expected an answer about real labels on an Interval, found one about classes")
    return answer


def _averaged(answer: Answer, rows: Int[np.ndarray, "cells"]) -> _Noisy:
    """From noisy means; the noise of a mean is that of its sum over the rows."""
    low, high = (float(answer.space.points[end]) for end in clip_of(answer.law, answer.space))
    deviation = sum_deviation(answer.law, answer.space) / np.maximum(rows, 1)
    noise = np.where(rows > 0, deviation**2, np.inf)
    return _Noisy(np.where(rows > 0, answer.value, 0.0), noise, 0.0, low, high)


def _counted(answer: Answer, rows: Int[np.ndarray, "cells"]) -> _Noisy:
    """From noisy counts of the points: sums of points, which count less noise if they are taken from their middle.

    A cell's rows are known, so that any point may be taken off every label and added again. The second moments give
    the variance of labels in a cell: what is left of them over the square of the mean, which is too large by the noise.
    """
    points = np.asarray(answer.space.points, dtype=np.float64)
    middle, known = points.mean(), np.maximum(rows, 1)
    away = points - middle
    means = answer.value @ away / known
    noise = (answer.noise_deviation / known) ** 2 * (away @ away)
    left = answer.value @ away**2 / known - means**2 + noise
    within = float(np.clip(rows @ left / rows.sum(), 0.0, (points[-1] - points[0]) ** 2 / 4))
    return _Noisy(means + middle, np.where(rows > 0, noise, np.inf), within, float(points[0]), float(points[-1]))


def _whole(overall: Answer, answer: Answer) -> tuple[float, float]:
    """The mean of all rows and its variance, from an answer about them."""
    found = _real(answered(overall, NUMBER_QUERIES))
    if (found.space, found.rows, len(found.value)) != (answer.space, answer.rows, 1):
        raise InputError(
            f"expected an answer about these labels of all {answer.rows} rows in one cell as overall, found one about "
            f"{found.rows} rows in {len(found.value)} cells, or about other labels; ask NoisyMean without cells"
        )
    noisy = _READ[found.query](found, np.array([found.rows]))
    return float(noisy.means[0]), float(noisy.noise[0])


def _centre(means: Float[np.ndarray, "m"], variance: Float[np.ndarray, "m"]) -> tuple[float, float]:
    """The mean of all cells with the least variance, and that variance."""
    weights = 1.0 / variance
    return float(weights @ means / weights.sum()), float(1.0 / weights.sum())


def _between(
    means: Float[np.ndarray, "m"], variance: Float[np.ndarray, "m"], centre: tuple[float, float] | None, largest: float
) -> float:
    """The variance t at which the squared differences of means from their centre, over t + a, add up to their number.

    Where the centre is estimated from the means, to one less. The sum falls with t, so the place is found by halving.
    """
    expected = len(means) - (centre is None)

    def energy(between: float) -> float:
        middle = _centre(means, variance + between)[0] if centre is None else centre[0]
        return float(np.sum((means - middle) ** 2 / (variance + between)))

    low, high = 0.0, largest
    if expected == 0 or energy(low) <= expected:
        return low
    for _ in range(_HALVINGS):
        half = (low + high) / 2
        low, high = (half, high) if energy(half) > expected else (low, half)
    return high


_READ: Mapping[str, Callable[[Answer, Int[np.ndarray, "cells"]], _Noisy]] = MappingProxyType(
    {"noisy-mean": _averaged, "noisy-histogram": _counted}
)

#: Queries whose answers say what the mean label of a cell is.
NUMBER_QUERIES = tuple(_READ)
