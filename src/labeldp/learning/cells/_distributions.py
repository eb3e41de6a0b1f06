"""Class distributions of cells, from what a curator answered about their rows; what noise hides falls back to all rows.

How many rows a cell has is public, and so is the law of the noise: both say how far a cell's answer is to be believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from labeldp.errors import InputError, NotTrueLabelsError
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer

_WORD = 1 << 64


def answered(y: object, queries: tuple[str, ...]) -> Answer:
    """An answer to one of some queries, or the error that says how to get one."""
    if not isinstance(y, Answer):
        raise NotTrueLabelsError(
            f"expected an Answer as labels, found {type(y).__name__}; ask a Curator with answer(query), or load an "
            "answer with Answer.load"
        )
    if y.query not in queries:
        raise InputError(f"expected the answer to a query among {', '.join(queries)}, found that to {y.query}")
    return y


def numbers_of(cells: Any, rows: int) -> Int[np.ndarray, "n"]:
    """The cell of each row, from clusters or as given."""
    numbers = np.asarray(getattr(cells, "numbers", cells))
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or (numbers < 0).any():
        raise InputError(
            f"expected the cell of each of the {rows} rows that the answer is about, numbered from 0, found "
            f"{numbers.dtype} of shape {numbers.shape}; give the cells that the curator was asked about"
        )
    return numbers.astype(np.int64)


def cell_distributions(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """The class distribution of each cell, drawn towards that of all rows as far as noise hides it.

    Args:
        answer: The answer to a query among ``QUERIES``.
        cells: The cell of each row that it is about.

    Raises:
        InputError: There are cells that the answer says nothing of, or it is of noise alone.
    """
    return _SAYS[answer.query](answer, cells)


def _counted(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """From noisy counts. That a cell's shares sum to one is known, which takes a k-th of the noise off."""
    rows = rows_of_cells(cells, len(answer.value))
    known = np.maximum(rows, 1)
    shares = answer.value / known[:, None]
    shares += (1.0 - shares.sum(axis=1, keepdims=True)) / shares.shape[1]
    return _shrunk(shares, np.where(rows > 0, (answer.noise_deviation / known) ** 2, np.inf), rows)


def _named(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """From a class for each cell: as sure of it as the exponential mechanism is where all rows of the cell agree.

    The name of a cell of few rows says little, that of one without rows nothing. Permute-and-flip is never less sure.
    """
    rows = rows_of_cells(cells, len(answer.value))
    against = np.exp(-rows * (int(answer.law["rate"]) / int(answer.law["parts"])))[:, None]
    named = answer.value[:, None] == np.arange(answer.space.size)
    return np.asarray(np.where(named, 1.0, against) / (1.0 + (answer.space.size - 1) * against))


def _exchanged(answer: Answer, cells: Int[np.ndarray, "n"]) -> Float[np.ndarray, "cells k"]:
    """From what peers released: the mean of a cell's labels less the flips, ``(mean - flip) / (1 - 2 flip)``.

    Given how many of a cell's flipped labels are ones, its released labels are independent, so that their mean has a
    variance of at most a quarter over their number; the flips of its rows add theirs.
    """
    flip = int(answer.law["flip"]) / _WORD
    if 2 * int(answer.law["flip"]) == _WORD:
        raise InputError("expected labels that peers flip less often than every second time, found noise alone")
    rows = rows_of_cells(cells, int(cells.max()) + 1)
    given = answer.value >= 0
    released = np.bincount(cells[given], minlength=len(rows))
    ones = np.bincount(cells[given], weights=answer.value[given], minlength=len(rows))
    mean = ones / np.maximum(released, 1)
    share = (mean - flip) / (1.0 - 2.0 * flip)
    noise = 0.25 / np.maximum(released, 1) + flip * (1.0 - flip) / rows.clip(1)
    variance = np.where(released > 0, noise / (1.0 - 2.0 * flip) ** 2, np.inf)
    return _shrunk(np.stack([1.0 - share, share], axis=1), variance, rows)


def _shrunk(
    shares: Float[np.ndarray, "cells k"], variance: Float[np.ndarray, "cells"], rows: Int[np.ndarray, "cells"]
) -> Float[np.ndarray, "cells k"]:
    """Noisy shares drawn towards those of all rows, each cell as far as its noise is large beside what cells differ by.

    How much cells differ is estimated too: the mean square of what they differ by, less what noise adds to it. Where
    each share has that variance around those of all rows, and noise is normal, this is the mean of the posterior; then
    comes the nearest distribution.

    References:
        Efron and Morris 1973, for the estimate from all cells; Held, Wolfe and Crowder 1974, for the projection.
    """
    whole = nearest_distributions((rows @ shares / rows.sum())[None])
    beyond = shares - whole
    trust = np.where(rows > 0, 1.0 / variance, 0.0)
    degrees = shares.shape[1] - 1
    energy = trust @ (beyond**2).sum(axis=1) - degrees * np.count_nonzero(trust)
    differ = max(0.0, float(energy) / (degrees * float(trust.sum())))
    return nearest_distributions(whole + beyond * (differ * trust / (differ * trust + 1.0))[:, None])


def rows_of_cells(cells: Int[np.ndarray, "n"], count: int) -> Int[np.ndarray, "cells"]:
    """How many rows each cell has."""
    if int(cells.max()) >= count:
        raise InputError(
            f"expected cells below {count}, as many as the answer has, found number {cells.max()}; give the cells that "
            "the curator was asked about"
        )
    return np.bincount(cells, minlength=count)


_SAYS: Mapping[str, Callable[[Answer, Int[np.ndarray, "n"]], Float[np.ndarray, "cells k"]]] = MappingProxyType(
    {"noisy-histogram": _counted, "noisy-argmax": _named, "peer-exchange": _exchanged}
)

#: Queries whose answers say how classes are distributed in cells.
QUERIES = tuple(_SAYS)
