"""Distributions over finitely many rows, in integers, so that draws have exactly the stated probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int, UInt64
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.generators._columns import FormEncoder, FreshNumbers
from labeldp.privacy import log_above

MOST_CELLS = 1 << 20
_BITS = 63
_WORDS = 1 << _BITS
_EXACT = 53
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class CellLaw:
    """The probability of each row that the form allows, given the class, as a number of words out of 2**63.

    Attributes:
        weights: Words of each row, shape (k, cells); those of a class add up to 2**63. Rows are in the order of their
            columns' values, the last column changing fastest; a missing value comes last.
    """

    name: ClassVar[str] = "cells"
    #: All listed numbers are categories here.
    few: ClassVar[int] = MOST_CELLS

    weights: UInt64[np.ndarray, "k cells"]

    def check(self, columns: FormEncoder, classes: int) -> None:
        """Refuse arrays that do not form such a distribution."""
        if self.weights.dtype != np.uint64 or self.weights.shape != (classes, math.prod(columns.sizes)):
            raise ValueError("other weights")
        halves = [(self.weights >> np.uint64(32)), self.weights & np.uint64(0xFFFFFFFF)]
        high, low = (half.sum(axis=1).tolist() for half in halves)
        if any((upper << 32) + lower != _WORDS for upper, lower in zip(high, low, strict=True)):
            raise ValueError("weights that do not add up")

    def draw(
        self, columns: FormEncoder, codes: Int[np.ndarray, "m"], fresh: FreshNumbers
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows of these classes, from one word each: an empty matrix of numbers, and codes."""
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
        """Logarithm of the least probability of a row in the mean over classes, rounded down; None if it is 0."""
        least = float(self.weights.astype(np.float64).sum(axis=0).min()) / len(self.weights) / _WORDS
        return math.log(least) - _MARGIN if least > 0 else None

    def divergence_bound(self, conditional: object, alpha: float) -> float:
        """See ``FittedGenerator.divergence_bound``."""
        stated = _stated_probabilities(conditional, self.weights.shape)
        if not alpha > 1:
            raise InputError(f"expected an order alpha above 1, found {alpha}; math.inf is the largest")
        pooled = [sum(column) for column in zip(*self.weights.tolist(), strict=True)]  # of k 2^63 words
        if any(share and not words for row in stated.tolist() for share, words in zip(row, pooled, strict=True)):
            return math.inf
        worst = max(_largest_ratio(row, pooled, len(self.weights)) for row in stated.tolist())
        pure = log_above(max(worst, Fraction(1)))
        if math.isinf(alpha):
            return pure
        mean = np.array([float(Fraction(words, len(self.weights) * _WORDS)) for words in pooled])
        return min(pure, max(_renyi_above(row / row.sum(), mean, alpha) for row in stated))


def _largest_ratio(row: list[float], pooled: list[int], classes: int) -> Fraction:
    """The largest P / Qbar where P is not 0, exactly."""
    total = sum(map(Fraction, row))
    ratios = (Fraction(share) / words for share, words in zip(row, pooled, strict=True) if share)
    return max(ratios) * classes * _WORDS / total


def _renyi_above(row: Float[np.ndarray, "cells"], mean: Float[np.ndarray, "cells"], alpha: float) -> float:
    """The divergence of order alpha, plus a bound on the rounding error."""
    there = row > 0
    exponents = alpha * np.log(row[there]) - (alpha - 1) * np.log(mean[there])
    largest = float(exponents.max())
    divergence = (largest + math.log(math.fsum(np.exp(exponents - largest)))) / (alpha - 1)
    sizes = alpha * np.abs(np.log(row[there])) + (alpha - 1) * np.abs(np.log(mean[there]))
    return max(0.0, divergence) + 1e-13 * (1.0 + float(sizes.max())) * alpha / (alpha - 1)


def _stated_probabilities(conditional: object, shape: tuple[int, ...]) -> Float[np.ndarray, "k cells"]:
    """Check the stated probabilities of rows given classes."""
    probabilities = floats(conditional, "probabilities")
    if probabilities.shape != shape:
        raise InputError(f"expected probabilities of shape {shape}, a row for each class, found {probabilities.shape}")
    sums = probabilities.sum(axis=1)
    if not np.isfinite(probabilities).all() or (probabilities < 0).any() or (np.abs(sums - 1) > 1e-9).any():
        raise InputError("expected probabilities that add up to 1 in each class, found others")
    return probabilities


def cell_codes(columns: FormEncoder, cells: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m c"]:
    """The codes of rows from their cell numbers."""
    return np.column_stack(np.unravel_index(cells, columns.sizes)).astype(np.int64)


def cell_law(
    columns: FormEncoder, codes: Int[np.ndarray, "n c"], classes: list[np.ndarray], smoothing: float
) -> CellLaw:
    """The frequencies of rows in each class, mixed with the uniform distribution."""
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
    """Shares as whole numbers that add up to 2**63; the likeliest row absorbs the rounding."""
    words = np.floor(shares * 2.0**_EXACT).astype(np.uint64) << np.uint64(_BITS - _EXACT)
    largest = int(np.argmax(words))
    words[largest] = 0
    words[largest] = _WORDS - sum(words.tolist())
    return words


def check_smoothing(smoothing: float) -> float:
    """Check a share from 0 to below 1."""
    return _checks.share(smoothing, "smoothing", "[)", "; 0.01 makes one row in a hundred uniform")
