"""Convex feasible sets of parameters, with their starting points and projections."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.privacy.channels import nearest_distributions


@dataclass(frozen=True)
class Region(ABC):
    """A closed convex set of parameter arrays."""

    @abstractmethod
    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The nearest point of the set, as a new array."""

    @abstractmethod
    def reach(self, shape: tuple[int, ...]) -> float:
        """The largest distance from the start to a point of the set."""

    def start(self, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """The starting point of descent: zero."""
        return np.zeros(shape)


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class Ball(Region):
    """Points at most ``radius`` from zero.

    Args:
        radius: Above 0.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import Ball
        >>> Ball(2.5).project(np.array([[3.0], [4.0]])).tolist()
        [[1.5], [2.0]]
    """

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _checks.positive(self.radius, "the radius of a ball"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The point itself, or shortened to the radius."""
        length = float(np.linalg.norm(parameters))
        return parameters * (1.0 if length <= self.radius else self.radius / length)

    def reach(self, shape: tuple[int, ...]) -> float:
        """The radius."""
        return self.radius


@dataclass(frozen=True)
class Box(Region):
    """Points with entries between ``-half_width`` and ``half_width``.

    Args:
        half_width: Above 0.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import Box
        >>> Box(2.0).project(np.array([[3.0], [-1.0]])).tolist()
        [[2.0], [-1.0]]
    """

    half_width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "half_width", _checks.positive(self.half_width, "the half width of a box"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Each entry, clipped."""
        return np.asarray(np.clip(parameters, -self.half_width, self.half_width))

    def reach(self, shape: tuple[int, ...]) -> float:
        """The distance of a corner."""
        return self.half_width * math.sqrt(math.prod(shape))


@dataclass(frozen=True)
class Simplex(Region):
    """Points with entries of at least zero that sum to ``total``: weights, such as shares of experts.

    Args:
        total: Above 0.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import Simplex
        >>> Simplex().project(np.array([0.9, 0.5, -0.4])).round(3).tolist()
        [0.7, 0.3, 0.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _checks.positive(self.total, "the total of a simplex"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """All entries reduced by one number, and clipped at zero."""
        shares = np.reshape(parameters, (1, -1)) / self.total
        return np.asarray(self.total * nearest_distributions(shares)).reshape(parameters.shape)

    def reach(self, shape: tuple[int, ...]) -> float:
        """The distance from the centre to a corner."""
        return self.total * math.sqrt(1.0 - 1.0 / math.prod(shape))

    def start(self, shape: tuple[int, ...]) -> Float[np.ndarray, "*shape"]:
        """The centre."""
        return np.full(shape, self.total / math.prod(shape))


@dataclass(frozen=True)
class Unconstrained(Region):
    """All points, with a penalty of ``l2 / 2`` times the squared length of the parameters added to the loss.

    Args:
        l2: Above 0.
    """

    l2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "l2", _checks.positive(self.l2, "l2, the penalty of unconstrained parameters,"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The point itself."""
        return parameters.copy()

    def reach(self, shape: tuple[int, ...]) -> float:
        """Infinite."""
        return math.inf
