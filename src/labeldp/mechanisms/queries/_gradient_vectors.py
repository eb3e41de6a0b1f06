"""The public vectors that an interactive client proposes for the classes of one row: arbitrary or orthogonal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError

_LARGEST_ENTRY = 1e100
#: Classes whose distances to all others are computed at a time.
_AT_ONCE = 1 << 10


@dataclass(frozen=True, eq=False)
class AnyVectors:
    """Arbitrary vectors of the classes, one in each row."""

    vectors: Float[np.ndarray, "k r"]

    @property
    def dimension(self) -> int:
        """The number of entries of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def origin(self) -> Float[np.ndarray, "r"]:
        """The reference point of ``off``: the mean, or exactly the common vector if all are equal."""
        return np.asarray(self.vectors[0] + (self.vectors - self.vectors[0]).mean(axis=0))

    @cached_property
    def off(self) -> Float[np.ndarray, "k r"]:
        """The differences of the vectors from the origin."""
        return np.asarray(self.vectors - self.origin)

    @property
    def centre(self) -> Float[np.ndarray, "r"]:
        """The centre of directions, between the vectors: the common vector if all are equal."""
        return self._about[0]

    @property
    def lengths(self) -> Float[np.ndarray, "k"]:
        """The distance of each vector from the centre."""
        return self._about[1]

    @cached_property
    def _span(self) -> Float[np.ndarray, "d r"]:
        """An orthonormal basis of the differences, of at most k - 1 lines."""
        if self.dimension == 1:
            return np.ones((1, 1))
        _, sizes, basis = np.linalg.svd(self.off, full_matrices=False)
        least = float(sizes[0]) * max(self.off.shape) * np.finfo(np.float64).eps
        return np.asarray(basis[: min(len(self.vectors) - 1, int(np.count_nonzero(sizes > least)))])

    @cached_property
    def _about(self) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "k"]]:
        """The centre and the distances from it: for numbers, the middle of their range.

        Otherwise the better of two centres by largest distance. One is the mean. The other is the point nearest to zero
        in the affine span of the vectors: no vector is farther from it than from zero.
        """
        if self.dimension == 1:
            middle = np.array([0.5 * (self.vectors.min() + self.vectors.max())])
            return middle, np.abs(self.vectors[:, 0] - middle)
        foot = self.origin - (self._span @ self.origin) @ self._span
        centres = [(point, _lengths(self.vectors - point)) for point in (self.origin, foot)]
        return min(centres, key=lambda pair: float(pair[1].max()))

    @staticmethod
    def spread_squared(off: np.ndarray) -> float:
        """The largest squared distance of two vectors; exact for whole numbers below 2^50."""
        if off.shape[1] == 1:
            return float(off.max() - off.min()) ** 2
        squares = (off * off).sum(axis=1)
        parts = (slice(low, low + _AT_ONCE) for low in range(0, len(off), _AT_ONCE))
        return max(float((squares[part, None] + squares - 2.0 * (off[part] @ off.T)).max()) for part in parts)

    def of_class(self, steps: Int[np.ndarray, "k r"], code: int) -> Int[np.ndarray, "r"]:
        """The vector of a class, from ``off`` in whole steps."""
        return np.asarray(steps[code])

    def direction(self, normals: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "r"], int]:
        """A uniform direction in the span of the vectors about the centre, from normal numbers; and its dimension."""
        dimension = len(self._span)
        return _unit(normals[:dimension] @ self._span), dimension

    def along(self, direction: Float[np.ndarray, "r"]) -> Float[np.ndarray, "k"]:
        """The component of each vector along a direction from the centre."""
        return np.asarray((self.vectors - self.centre) @ direction)


@dataclass(frozen=True, eq=False)
class RightAngledVectors:
    """Orthogonal vectors: that of class j has the j-th number in the j-th entry, and zeros elsewhere."""

    numbers: Float[np.ndarray, "k"]

    @property
    def dimension(self) -> int:
        return len(self.numbers)

    @property
    def origin(self) -> Float[np.ndarray, "r"]:
        return np.zeros(self.dimension)

    @property
    def off(self) -> Float[np.ndarray, "k"]:
        return self.numbers

    @cached_property
    def centre(self) -> Float[np.ndarray, "r"]:
        return self.numbers / self.dimension

    @cached_property
    def lengths(self) -> Float[np.ndarray, "k"]:
        """The lengths of ``l_j e_j - l / k``."""
        squares, centre = self.numbers * self.numbers, self.centre
        return np.asarray(np.sqrt((1.0 - 2.0 / self.dimension) * squares + centre @ centre))

    @staticmethod
    def spread_squared(off: np.ndarray) -> float:
        squares = off * off
        squares.partition(len(off) - 2)
        return float(squares[-2] + squares[-1])

    def of_class(self, steps: Int[np.ndarray, "k"], code: int) -> Int[np.ndarray, "r"]:
        vector = np.zeros_like(steps)
        vector[code] = steps[code]
        return vector

    def direction(self, normals: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "r"], int]:
        """In all non-zero entries if a number is zero; else orthogonal to ``1 / l``, like every ``l_j e_j - l / k``."""
        least = np.abs(self.numbers).min()
        if not least:
            used = self.numbers != 0.0
            return _unit(normals * used), int(used.sum())
        across = least / self.numbers
        return _unit(normals - across * ((across @ normals) / (across @ across))), self.dimension - 1

    def along(self, direction: Float[np.ndarray, "r"]) -> Float[np.ndarray, "k"]:
        return np.asarray(self.numbers * direction - self.centre @ direction)


#: The proposed vectors of the classes for one row: two forms with the same members.
ClassVectors = AnyVectors | RightAngledVectors


def class_vectors(proposed: object, row: int, classes: int, dimension: int) -> ClassVectors:
    """A checked copy of the vectors that a client proposes for a row."""
    try:
        vectors = np.array(np.asarray(proposed, dtype=np.float64))  # __array__ may return the client's own memory
    except (TypeError, ValueError):
        raise InputError(f"expected numbers from ask, found something else at position {row}") from None
    if vectors.shape != (classes, dimension) and not vectors.shape == (classes,) == (dimension,):
        raise InputError(
            f"expected {classes} vectors of {dimension} entries from ask, of shape ({classes}, {dimension}), or their "
            f"{classes} lengths where dimension is {classes}, found shape {vectors.shape} at position {row}"
        )
    if not np.abs(vectors).max() <= _LARGEST_ENTRY:
        raise InputError(
            f"expected finite vectors of at most {_LARGEST_ENTRY:g} from ask, found others at position {row}"
        )
    return RightAngledVectors(vectors) if vectors.ndim == 1 else AnyVectors(vectors)


def _lengths(vectors: Float[np.ndarray, "k r"]) -> Float[np.ndarray, "k"]:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=1)))


def _unit(vector: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """The vector scaled to length 1; zeros stay."""
    return np.asarray(vector / (math.sqrt(vector @ vector) or 1.0))
