"""Laws on finitely many rows, in integers: what is drawn has exactly the probabilities that are stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int, UInt64

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.generators._columns import Columns, FreshNumbers
from labeldp.privacy import log_above

MOST_CELLS = 1 << 20
_BITS = 63
_WORDS = 1 << _BITS
_EXACT = 53
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class CellLaw:
    """For each class the probability of each row that the form allows, as a number of words out of 2**63.

    Attributes:
        weights: Words of each row, shape (k, cells); those of a class add up to 2**63. Rows are in the order of their
            columns' values, the last column's changing fastest, and what is missing is the last value.
    """

    name: ClassVar[str] = "cells"
    #: All listed numbers are categories here.
    few: ClassVar[int] = MOST_CELLS

    weights: UInt64[np.ndarray, "k cells"]

    def check(self, columns: Columns, classes: int) -> None:
        """Refuse arrays that are no such law.

        Raises:
            ValueError: They are none.
        """
        if self.weights.dtype != np.uint64 or self.weights.shape != (classes, math.prod(columns.sizes)):
            raise ValueError("other weights")
        halves = [(self.weights >> np.uint64(32)), self.weights & np.uint64(0xFFFFFFFF)]
        high, low = (half.sum(axis=1).tolist() for half in halves)
        if any((upper << 32) + lower != _WORDS for upper, lower in zip(high, low, strict=True)):
            raise ValueError("weights that do not add up")

    def draw(self, columns: Columns, codes: Int[np.ndarray, "m"], fresh: FreshNumbers) -> tuple[np.ndarray, np.ndarray]:
        """Numbers, of which there are none, and codes of rows of these classes: a word for each."""
        words, cells = fresh.words(len(codes)) >> np.uint64(64 - _BITS), np.empty(len(codes), dtype=np.int64)
        for label in np.unique(codes).tolist():
            rows = codes == label
            cells[rows] = np.searchsorted(np.cumsum(self.weights[label])[:-1], words[rows], side="right")
        return np.empty((len(codes), 0)), cell_codes(columns, cells)

    @property
    def density(self) -> Float[np.ndarray, "k cells"]:
        """Q(row | class), to the nearest doubles."""
        return np.asarray(self.weights / float(_WORDS))

    def log_floor(self) -> float | None:
        """The logarithm of the least probability that the mean over classes gives a row, rounded down; None for 0."""
        least = float(self.weights.astype(np.float64).sum(axis=0).min()) / len(self.weights) / _WORDS
        return math.log(least) - _MARGIN if least > 0 else None

    def divergence_bound(self, conditional: object, alpha: float) -> float:
        """See ``FittedGenerator.divergence_bound``."""
        given = _checked(conditional, self.weights.shape)
        if not alpha > 1:
            raise InputError(f"expected an order alpha above 1, found {alpha}; math.inf is the largest")
        pooled = [sum(column) for column in zip(*self.weights.tolist(), strict=True)]  # of k 2^63 words
        if any(share and not words for row in given.tolist() for share, words in zip(row, pooled, strict=True)):
            return math.inf
        worst = max(_largest_ratio(row, pooled, len(self.weights)) for row in given.tolist())
        pure = log_above(max(worst, Fraction(1)))
        if math.isinf(alpha):
            return pure
        mean = np.array([float(Fraction(words, len(self.weights) * _WORDS)) for words in pooled])
        return min(pure, max(_renyi_above(row / row.sum(), mean, alpha) for row in given))


def _largest_ratio(row: list[float], pooled: list[int], classes: int) -> Fraction:
    """The largest of P / Qbar, exactly, where P is not 0."""
    total = sum(map(Fraction, row))
    ratios = (Fraction(share) / words for share, words in zip(row, pooled, strict=True) if share)
    return max(ratios) * classes * _WORDS / total


def _renyi_above(row: Float[np.ndarray, "cells"], mean: Float[np.ndarray, "cells"], alpha: float) -> float:
    """The divergence of order alpha, and what rounding may have taken off it."""
    there = row > 0
    exponents = alpha * np.log(row[there]) - (alpha - 1) * np.log(mean[there])
    largest = float(exponents.max())
    found = (largest + math.log(math.fsum(np.exp(exponents - largest)))) / (alpha - 1)
    sizes = alpha * np.abs(np.log(row[there])) + (alpha - 1) * np.abs(np.log(mean[there]))
    return max(0.0, found) + 1e-13 * (1.0 + float(sizes.max())) * alpha / (alpha - 1)


def _checked(conditional: object, shape: tuple[int, ...]) -> Float[np.ndarray, "k cells"]:
    """The probabilities of rows given classes, as they were stated."""
    found = np.asarray(conditional, dtype=np.float64)
    if found.shape != shape:
        raise InputError(f"expected probabilities of shape {shape}, a row for each class, found {found.shape}")
    if not np.isfinite(found).all() or (found < 0).any() or (np.abs(found.sum(axis=1) - 1) > 1e-9).any():
        raise InputError("expected probabilities that add up to 1 in each class, found others")
    return found


def cell_codes(columns: Columns, cells: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m c"]:
    """The codes of rows by their numbers."""
    return np.column_stack(np.unravel_index(cells, columns.sizes)).astype(np.int64)


def cell_law(columns: Columns, codes: Int[np.ndarray, "n c"], classes: list[np.ndarray], smoothing: float) -> CellLaw:
    """The frequencies of rows in each class, mixed with all rows alike.

    Args:
        columns: What codes are.
        codes: Of all rows.
        classes: For each class, the rows that are of it.
        smoothing: The share of all rows alike.

    Raises:
        InputError: There are numbers among the columns, or too many rows that the form allows.
    """
    cells = columns.form.cells
    if cells is None or cells > MOST_CELLS:
        found = "columns of numbers" if cells is None else f"{cells} rows"
        raise InputError(
            f"expected a form of at most {MOST_CELLS} different rows, whose columns all list their values, found "
            f"{found}; keep fewer columns, put numbers into bins, or fit a copula"
        )
    numbers = np.ravel_multi_index(tuple(codes.T), columns.sizes)
    counts = np.stack([np.bincount(numbers[rows], minlength=cells) / len(rows) for rows in classes])
    return CellLaw(np.stack([_words_of((1 - smoothing) * row + smoothing / cells) for row in counts]))


def _words_of(shares: Float[np.ndarray, "cells"]) -> UInt64[np.ndarray, "cells"]:
    """Shares as whole numbers that add up to 2**63; the likeliest row takes what rounding leaves."""
    words = np.floor(shares * 2.0**_EXACT).astype(np.uint64) << np.uint64(_BITS - _EXACT)
    largest = int(np.argmax(words))
    words[largest] = 0
    words[largest] = _WORDS - sum(words.tolist())
    return words


def check_smoothing(smoothing: float) -> float:
    """A share from 0 to 1, 1 left out."""
    found = _checks.number(smoothing, "smoothing")
    if not 0 <= found < 1:
        raise InputError(
            f"expected smoothing from 0 to below 1, found {found}; 0.01 makes one row in a hundred uniform"
        )
    return found
