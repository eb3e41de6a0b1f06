"""Convex feasible sets of parameters, with their projections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class Ball:
    """Points at most ``radius`` from zero.

    Args:
        radius: Above 0.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import Ball
        >>> Ball(2.5).project(np.array([[3.0], [4.0]])).tolist()
        [[1.5], [2.0]]
    """

    l2: ClassVar[float] = 0.0

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _checks.positive(self.radius, "the radius of a ball"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The nearest point of the ball: the point itself, or shortened to the radius."""
        length = float(np.linalg.norm(parameters))
        return parameters * (1.0 if length <= self.radius else self.radius / length)


@dataclass(frozen=True)
class Unconstrained:
    """All points, with a penalty of ``l2 / 2`` times the squared length of the parameters added to the loss.

    Args:
        l2: Above 0.
    """

    radius: ClassVar[float] = math.inf

    l2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "l2", _checks.positive(self.l2, "l2, the penalty of unconstrained parameters,"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The point itself."""
        return parameters.copy()


#: A feasible set: ``radius`` is the largest distance of a point from zero, ``l2`` the penalty.
Region = Ball | Unconstrained
