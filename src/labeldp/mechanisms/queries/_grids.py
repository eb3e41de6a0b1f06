"""Public features in whole steps of a grid, so that sums of them are exact."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp.errors import InputError

#: No row is longer than 2 to the power of so many steps, but for the rounding of a float: an entry fits 32 bits, the
#: square of a row's length 62, and the sum of as many rows as are allowed too.
_BITS = 30
#: Times a number of parts, so that there is room for noise.
_MOST_BITS = 40
_MOST_ROWS = 1 << 31
#: Entries that are worked on at a time.
_AT_ONCE = 1 << 22
#: Lengths whose squares are far from the ends of floats.
_LEAST, _MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class FeatureGrid:
    """Features, each row cut to a length and each entry then cut off, toward zero, to whole steps of a grid.

    Attributes:
        steps: The features in steps, 32-bit integers of shape (n, p); a CSR array where they were sparse.
        bits: A step is ``2**-bits``.
        longest_squared: The square of the length of the longest row, in steps, exactly.
    """

    steps: Any
    bits: int
    longest_squared: int

    @classmethod
    def of(cls, features: object, norm: float | None, parts: int = 1) -> Self:
        """The grid for some features.

        Args:
            features: Finite numbers of shape (n, p), or a SciPy sparse matrix.
            norm: The length that rows are cut to; by default that of the longest, so that none is.
            parts: Rows will be added up to so many times each: where it is above 1, steps are so large that all such
                sums are below 2^62.

        Raises:
            InputError: They are no such numbers, or all zero.
        """
        matrix = _matrix(features)
        lengths = np.concatenate([np.sqrt(_squares(block.astype(np.float64))) for block in _blocks(matrix)])
        if not (lengths <= _MOST).all():
            raise InputError(
                f"expected finite features in rows of at most {_MOST:g} in length, found others in row "
                f"{np.argmin(lengths <= _MOST)}; fill in what is missing"
            )
        longest = float(lengths.max())
        bound = longest if norm is None else min(longest, _norm(norm))
        if bound < _LEAST:
            raise InputError(f"expected features of at least {_LEAST:g} in length, found shorter ones; scale them")
        room = min(_BITS, _MOST_BITS - parts.bit_length(), 61 - parts.bit_length() - len(lengths).bit_length())
        bits = (room if parts > 1 else _BITS) - math.frexp(bound)[1]
        factors = bound / np.maximum(lengths, bound)
        steps = _gridded(matrix, factors, bits)
        return cls(steps, bits, max(int(_squares(block.astype(np.int64)).max()) for block in _blocks(steps)))

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of features."""
        rows, columns = self.steps.shape
        return rows, columns

    def sums(self, codes: Int[np.ndarray, "n"], classes: int) -> Int[np.ndarray, "p k"]:
        """The sum of the rows of each class, in steps, exactly.

        Floats add them: a block has at most ``2**22`` rows of entries of about ``2**30`` at most, so that in any order
        all partial sums are whole numbers below ``2**53``.
        """
        total = np.zeros((self.shape[1], classes), dtype=np.int64)
        low = 0
        for block in _blocks(self.steps, classes):
            chosen = codes[low : low + block.shape[0], None] == np.arange(classes)
            total += np.asarray(block.T.astype(np.float64) @ chosen.astype(np.float64)).astype(np.int64)
            low += block.shape[0]
        return total

    def sums_between(self, codes: Int[np.ndarray, "n"], parts: int) -> Int[np.ndarray, "p 2"]:
        """The sum of the rows, each ``parts - code`` times and ``code`` times, in steps, exactly."""
        total = np.zeros((self.shape[1], 2), dtype=np.int64)
        low = 0
        for block in _blocks(self.steps, 2):
            near = codes[low : low + block.shape[0]].astype(np.int64)
            total += np.asarray(block.T.astype(np.int64) @ np.stack([parts - near, near], axis=1))
            low += block.shape[0]
        return total


def _matrix(features: object) -> Any:
    """Features as a matrix of numbers, dense or in compressed rows."""
    if np.ma.is_masked(features):
        raise InputError("expected a number in every place of the features, found masked ones; fill them in")
    if hasattr(features, "tocsr"):
        from scipy import sparse  # noqa: PLC0415 (who has a sparse matrix has loaded it)

        found: Any = sparse.csr_array(features, copy=True)
        found.sum_duplicates()
    else:
        found = np.asarray(features)
    if found.dtype.kind not in "biuf" or found.ndim != 2 or 0 in found.shape or found.shape[0] > _MOST_ROWS:
        raise InputError(
            f"expected features as numbers of shape (rows, columns), found {found.dtype} of shape {found.shape}; turn "
            "texts and dates into numbers first"
        )
    return found


def _norm(value: object) -> float:
    found = _checks.number(value, "norm")
    if not _LEAST <= found <= _MOST:
        raise InputError(f"expected a norm above 0, from {_LEAST:g} to {_MOST:g}, found {found!r}")
    return found


def _blocks(matrix: Any, columns: int = 1) -> Iterator[Any]:
    """A matrix in parts of some rows, which have so many columns beside them."""
    width = matrix.shape[1] if isinstance(matrix, np.ndarray) else 1
    rows = max(1, _AT_ONCE // max(columns, width))
    for low in range(0, matrix.shape[0], rows):
        yield matrix[low : low + rows]


def _squares(block: Any) -> np.ndarray:
    """The square of the length of each row, in the type of the entries."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(block, np.ndarray):
            return np.asarray(np.einsum("ij,ij->i", block, block))
        return np.asarray(block.multiply(block).sum(axis=1)).ravel()


def _gridded(matrix: Any, factors: Float[np.ndarray, "n"], bits: int) -> Any:
    """A matrix whose rows are multiplied by factors and whose entries are cut off to steps; its own copy, read-only."""
    if not isinstance(matrix, np.ndarray):
        data = _cut(matrix.data, np.repeat(factors, np.diff(matrix.indptr)), bits)
        found = type(matrix)((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        for part in (found.data, found.indices, found.indptr):
            part.flags.writeable = False
        return found
    steps, low = np.empty(matrix.shape, dtype=np.int32), 0
    for block in _blocks(matrix):
        high = low + len(block)
        steps[low:high] = _cut(block, factors[low:high, None], bits)
        low = high
    steps.flags.writeable = False
    return steps


def _cut(entries: np.ndarray, factors: np.ndarray, bits: int) -> np.ndarray:
    return np.asarray(np.trunc(np.ldexp(entries.astype(np.float64) * factors, bits)), dtype=np.int32)
