"""The vectors that an asker names for the classes of one row: any, or at right angles. They are public."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from labeldp.errors import InputError

_LARGEST_ENTRY = 1e100
#: Classes whose distances to all others are computed at a time.
_AT_ONCE = 1 << 10


class ClassVectors(ABC):
    """The vectors of the classes, as they were asked for a row."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The number of entries of a vector."""

    @property
    @abstractmethod
    def origin(self) -> Float[np.ndarray, "r"]:
        """What ``off`` is taken from: the common vector, where all are the same."""

    @property
    @abstractmethod
    def off(self) -> np.ndarray:
        """Numbers that say how each differs from the origin."""

    @property
    @abstractmethod
    def centre(self) -> Float[np.ndarray, "r"]:
        """A point between them, about which directions are: the common vector, where all are the same."""

    @property
    @abstractmethod
    def lengths(self) -> Float[np.ndarray, "k"]:
        """How far each is from the centre."""

    @staticmethod
    @abstractmethod
    def spread_squared(off: np.ndarray) -> float:
        """The largest squared distance of two of them; exact where that is a whole number below 2^50."""

    @abstractmethod
    def of_class(self, steps: Int[np.ndarray, "..."], code: int) -> Int[np.ndarray, "r"]:
        """The vector of a class, from whole steps of ``off``."""

    @abstractmethod
    def direction(self, normals: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "r"], int]:
        """A uniform direction in what they span about the centre, from normal numbers; and its dimensions."""

    @abstractmethod
    def along(self, direction: Float[np.ndarray, "r"]) -> Float[np.ndarray, "k"]:
        """How far each goes along a direction from the centre."""


@dataclass(frozen=True, eq=False)
class AnyVectors(ClassVectors):
    """A vector in each line."""

    vectors: Float[np.ndarray, "k r"]

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    @cached_property
    def origin(self) -> Float[np.ndarray, "r"]:
        """Their mean, which is exactly what they are where all are the same."""
        return np.asarray(self.vectors[0] + (self.vectors - self.vectors[0]).mean(axis=0))

    @cached_property
    def off(self) -> Float[np.ndarray, "k r"]:
        return np.asarray(self.vectors - self.origin)

    @property
    def centre(self) -> Float[np.ndarray, "r"]:
        return self._about[0]

    @property
    def lengths(self) -> Float[np.ndarray, "k"]:
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
        """The centre and the distances from it: of numbers, the middle of their range.

        Else of two centres the one whose largest distance is the smaller. One is the mean. The other is the point
        nearest to zero among those that differ from the vectors in their span alone: from there no vector is longer
        than from zero.
        """
        if self.dimension == 1:
            middle = np.array([0.5 * (self.vectors.min() + self.vectors.max())])
            return middle, np.abs(self.vectors[:, 0] - middle)
        foot = self.origin - (self._span @ self.origin) @ self._span
        found = [(point, _lengths(self.vectors - point)) for point in (self.origin, foot)]
        return min(found, key=lambda pair: float(pair[1].max()))

    @staticmethod
    def spread_squared(off: np.ndarray) -> float:
        if off.shape[1] == 1:
            return float(off.max() - off.min()) ** 2
        squares = (off * off).sum(axis=1)
        parts = (slice(low, low + _AT_ONCE) for low in range(0, len(off), _AT_ONCE))
        return max(float((squares[part, None] + squares - 2.0 * (off[part] @ off.T)).max()) for part in parts)

    def of_class(self, steps: Int[np.ndarray, "k r"], code: int) -> Int[np.ndarray, "r"]:
        return np.asarray(steps[code])

    def direction(self, normals: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "r"], int]:
        dimension = len(self._span)
        return _unit(normals[:dimension] @ self._span), dimension

    def along(self, direction: Float[np.ndarray, "r"]) -> Float[np.ndarray, "k"]:
        return np.asarray((self.vectors - self.centre) @ direction)


@dataclass(frozen=True, eq=False)
class RightAngledVectors(ClassVectors):
    """Vectors at right angles: that of class j has the j-th number in the j-th entry, and zeros elsewhere."""

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
        """Of ``l_j e_j - l / k``."""
        squares, centre = self.numbers * self.numbers, self.centre
        return np.asarray(np.sqrt((1.0 - 2.0 / self.dimension) * squares + centre @ centre))

    @staticmethod
    def spread_squared(off: np.ndarray) -> float:
        squares = off * off
        squares.partition(len(off) - 2)
        return float(squares[-2] + squares[-1])

    def of_class(self, steps: Int[np.ndarray, "k"], code: int) -> Int[np.ndarray, "r"]:
        found = np.zeros_like(steps)
        found[code] = steps[code]
        return found

    def direction(self, normals: Float[np.ndarray, "r"]) -> tuple[Float[np.ndarray, "r"], int]:
        """In all entries that are not zero; if none is, at right angles to ``1 / l``, as every ``l_j e_j - l / k``."""
        least = np.abs(self.numbers).min()
        if not least:
            used = self.numbers != 0.0
            return _unit(normals * used), int(used.sum())
        across = least / self.numbers
        return _unit(normals - across * ((across @ normals) / (across @ across))), self.dimension - 1

    def along(self, direction: Float[np.ndarray, "r"]) -> Float[np.ndarray, "k"]:
        return np.asarray(self.numbers * direction - self.centre @ direction)


def class_vectors(found: object, row: int, classes: int, dimension: int) -> ClassVectors:
    """A copy of what was asked of a row, checked.

    Raises:
        InputError: It is no finite vector for each class.
    """
    try:
        vectors = np.array(np.asarray(found, dtype=np.float64))  # what has __array__ may give its own memory
    except (TypeError, ValueError):
        raise InputError(f"expected numbers from ask, found something else for row {row}") from None
    if vectors.shape != (classes, dimension) and not vectors.shape == (classes,) == (dimension,):
        raise InputError(
            f"expected {classes} vectors of {dimension} entries from ask, of shape ({classes}, {dimension}), or their "
            f"{classes} lengths where dimension is {classes}, found shape {vectors.shape} for row {row}"
        )
    if not np.abs(vectors).max() <= _LARGEST_ENTRY:
        raise InputError(f"expected finite vectors of at most {_LARGEST_ENTRY:g} from ask, found others for row {row}")
    return RightAngledVectors(vectors) if vectors.ndim == 1 else AnyVectors(vectors)


def _lengths(vectors: Float[np.ndarray, "k r"]) -> Float[np.ndarray, "k"]:
    return np.asarray(np.sqrt((vectors * vectors).sum(axis=1)))


def _unit(vector: Float[np.ndarray, "r"]) -> Float[np.ndarray, "r"]:
    """A vector of length 1 in its direction, or zeros as they are."""
    return np.asarray(vector / (math.sqrt(vector @ vector) or 1.0))
