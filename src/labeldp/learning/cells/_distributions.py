"""Class distributions of cells from a curator's answers, shrunk towards the distribution of all rows.

The number of rows of a cell and the distribution of the noise are public; they determine the shrinkage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.mechanisms.queries import Choices, Counts, FlippedLabels, Reading
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer


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
