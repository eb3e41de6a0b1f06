"""Public features rounded to whole grid steps, so that sums of them are exact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._shapes import Float, Int
from labeldp.errors import InputError

#: Rows are at most 2**_BITS steps long, up to float rounding: an entry fits in 32 bits, and the square of a row's
#: length and the sum of the largest number of rows fit in 62.
_BITS = 30
#: The limit including the number of parts, which leaves space for noise.
_MOST_BITS = 40
_MOST_ROWS = 1 << 31
#: Entries processed at a time.
_AT_ONCE = 1 << 22
#: Lengths whose squares neither underflow nor overflow.
_LEAST, _MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class FeatureGrid:
    """Features with each row clipped to a norm and each entry truncated, toward zero, to whole grid steps.

    Attributes:
        steps: The features in steps, 32-bit integers of shape (n, p); a CSR array for sparse features.
        bits: A step is ``2**-bits``.
        longest_squared: The exact square of the longest row's length, in steps.
    """

    steps: Any
    bits: int
    longest_squared: int

    @classmethod
    def of(cls, features: object, norm: float | None, parts: int = 1) -> Self:
        """The grid of a feature matrix.

        Args:
            features: Finite numbers of shape (n, p), or a SciPy sparse matrix.
            norm: The length that rows are clipped to; by default that of the longest row, so that none is clipped.
            parts: The largest multiple of a row in a sum: if it is above 1, steps are so large that all such sums are
                below 2^62.

        Raises:
            InputError: The features are not finite numbers of that shape, or all zero.
        """
        matrix = _matrix(features)
        lengths = np.concatenate([np.sqrt(_squared_lengths(block.astype(np.float64))) for block in _blocks(matrix)])
        if not (lengths <= _MOST).all():
            raise InputError(
                f"expected finite features of norm at most {_MOST:g} in every row, found others at position "
                f"{np.argmin(lengths <= _MOST)}; fill in missing values, or scale the features"
            )
        longest = float(lengths.max())
        bound = longest if norm is None else min(longest, _checked_norm(norm))
        if bound < _LEAST:
            raise InputError(f"expected features of norm at least {_LEAST:g}, found smaller ones; scale them")
        available = min(_BITS, _MOST_BITS - parts.bit_length(), 61 - parts.bit_length() - len(lengths).bit_length())
        bits = (available if parts > 1 else _BITS) - math.frexp(bound)[1]
        factors = bound / np.maximum(lengths, bound)
        steps = _gridded(matrix, factors, bits)
        return cls(steps, bits, max(int(_squared_lengths(block.astype(np.int64)).max()) for block in _blocks(steps)))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of features."""
        rows, columns = self.steps.shape
        return rows, columns

    def sums(self, codes: Int[np.ndarray, "n"], classes: int) -> Int[np.ndarray, "p k"]:
        """The exact sum of the rows of each class, in steps.

        Floats add them: a block has at most ``2**22`` rows of entries of at most about ``2**30``, so all partial sums,
        in any order, are integers below ``2**53``.
        """
        return self._sums(codes, classes, np.float64, lambda part: part[:, None] == np.arange(classes))

    def sums_between(self, codes: Int[np.ndarray, "n"], parts: int) -> Int[np.ndarray, "p 2"]:
        """The exact sums of the rows with weights ``parts - code`` and ``code``, in steps."""
        return self._sums(codes, 2, np.int64, lambda part: np.stack([parts - part, part], axis=1))

    def _sums(
        self,
        codes: Int[np.ndarray, "n"],
        columns: int,
        exact: type[np.generic],
        weights_of: Callable[[Int[np.ndarray, "m"]], np.ndarray],
    ) -> Int[np.ndarray, "p c"]:
        """The sums of the rows with weights that depend on codes, block by block, in a type that adds them exactly."""
        total, low = np.zeros((self.shape[1], columns), dtype=np.int64), 0
        for block in _blocks(self.steps, columns):
            weights = weights_of(codes[low : low + block.shape[0]].astype(np.int64))
            total += np.asarray(block.T.astype(exact) @ weights.astype(exact)).astype(np.int64)
            low += block.shape[0]
        return total


def _matrix(features: object) -> Any:
    """Features as a matrix of numbers, dense or in compressed rows."""
    if np.ma.is_masked(features):
        raise InputError("expected features without masked entries, found some; fill them in")
    if hasattr(features, "tocsr"):
        from scipy import sparse  # noqa: PLC0415 (already loaded if there is a sparse matrix)

        matrix: Any = sparse.csr_array(features, copy=True)
        matrix.sum_duplicates()
    else:
        matrix = np.asarray(features)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or 0 in matrix.shape or matrix.shape[0] > _MOST_ROWS:
        raise InputError(
            f"expected features as numbers of shape (rows, columns), found {matrix.dtype} of shape {matrix.shape}; "
            "convert texts and dates to numbers first"
        )
    return matrix


def _checked_norm(value: object) -> float:
    norm = _checks.number(value, "norm")
    if not _LEAST <= norm <= _MOST:
        raise InputError(f"expected a norm above 0, from {_LEAST:g} to {_MOST:g}, found {norm!r}")
    return norm


def _blocks(matrix: Any, columns: int = 1) -> Iterator[Any]:
    """A matrix in blocks of rows, sized for ``columns`` further entries per row."""
    width = matrix.shape[1] if isinstance(matrix, np.ndarray) else 1
    rows = max(1, _AT_ONCE // max(columns, width))
    for low in range(0, matrix.shape[0], rows):
        yield matrix[low : low + rows]


def _squared_lengths(block: Any) -> np.ndarray:
    """The squared length of each row, in the type of the entries."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(block, np.ndarray):
            return np.asarray(np.einsum("ij,ij->i", block, block))
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()


def _gridded(matrix: Any, factors: Float[np.ndarray, "n"], bits: int) -> Any:
    """A read-only copy of a matrix with its rows scaled and its entries truncated to steps."""
    if not isinstance(matrix, np.ndarray):
        data = _cut(matrix.data, np.repeat(factors, np.diff(matrix.indptr)), bits)
        copy = type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        for part in (copy.data, copy.indices, copy.indptr):
            read_only(part)
        return copy
    steps, low = np.empty(matrix.shape, dtype=np.int32), 0
    for block in _blocks(matrix):
        high = low + len(block)
        steps[low:high] = _cut(block, factors[low:high, None], bits)
        low = high
    return read_only(steps)


def _cut(entries: np.ndarray, factors: np.ndarray, bits: int) -> np.ndarray:
    return np.asarray(np.trunc(np.ldexp(entries.astype(np.float64) * factors, bits)), dtype=np.int32)
