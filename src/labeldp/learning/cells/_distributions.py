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
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer

_WORD = 1 << 64


def require_answer(y: object, queries: tuple[str, ...]) -> Answer:
    """The argument itself, if it is an answer to one of some queries.

    Raises:
        NotTrueLabelsError: It is no answer.
        InputError: It is the answer to another query.
    """
    if not isinstance(y, Answer):
        raise NotTrueLabelsError(
            f"expected an Answer as labels, found {type(y).__name__}; get one from "
            "Curator.answer(query), or from Answer.load"
        )
    if y.query not in queries:
        raise InputError(f"expected the answer to a query among {', '.join(queries)}, found that to {y.query}")
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

    Args:
        answer: The answer to a query among ``QUERIES``.
        cells: The cell of each row.

    Raises:
        InputError: The answer lacks a cell, or is pure noise.
    """
    return _ESTIMATORS[answer.query](answer, cells)


def _from_histogram(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """Distributions from noisy counts; the known sum of a cell's shares removes a k-th of the noise."""
    rows = rows_of_cells(cells, len(answer.value))
    known = np.maximum(rows, 1)
    shares = answer.value / known[:, None]
    shares += (1.0 - shares.sum(axis=1, keepdims=True)) / shares.shape[1]
    return _shrink(shares, np.where(rows > 0, (answer.noise_deviation / known) ** 2, np.inf), rows)


def _from_argmax(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """Distributions from one class per cell, with the exponential mechanism's probabilities for unanimous cells.

    So cells of few rows get nearly uniform distributions. Permute-and-flip is at least as likely to return the class.
    """
    rows = rows_of_cells(cells, len(answer.value))
    against = np.exp(-rows * (int(answer.law["rate"]) / int(answer.law["parts"])))[:, None]
    named = answer.value[:, None] == np.arange(answer.space.size)
    return np.asarray(np.where(named, 1.0, against) / (1.0 + (answer.space.size - 1) * against))


def _from_peer_exchange(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """Distributions from peer exchange: the mean released label corrected for flips, ``(mean - flip) / (1 - 2 flip)``.

    Given the number of ones among a cell's flipped labels, its released labels are independent, so their mean has a
    variance of at most a quarter over their number; the flips of the cell's rows add theirs.
    """
    flip = int(answer.law["flip"]) / _WORD
    if 2 * int(answer.law["flip"]) == _WORD:
        raise InputError("expected labels that peers flip with probability below 1/2, found 1/2, which is pure noise")
    rows = rows_of_cells(cells, int(cells.max()) + 1)
    responded = answer.value >= 0
    released = np.bincount(cells[responded], minlength=len(rows))
    ones = np.bincount(cells[responded], weights=answer.value[responded], minlength=len(rows))
    mean = ones / np.maximum(released, 1)
    share = (mean - flip) / (1.0 - 2.0 * flip)
    noise = 0.25 / np.maximum(released, 1) + flip * (1.0 - flip) / rows.clip(1)
    variance = np.where(released > 0, noise / (1.0 - 2.0 * flip) ** 2, np.inf)
    return _shrink(np.stack([1.0 - share, share], axis=1), variance, rows)


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


_ESTIMATORS: Mapping[str, Callable[[Answer, Int[np.ndarray, "n"]], Float[np.ndarray, "cells k"]]] = MappingProxyType(
    {"noisy-histogram": _from_histogram, "noisy-argmax": _from_argmax, "peer-exchange": _from_peer_exchange}
)

#: Queries whose answers determine class distributions of cells.
QUERIES = tuple(_ESTIMATORS)
