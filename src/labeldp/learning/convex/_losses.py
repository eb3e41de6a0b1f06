"""Convex losses of linear scores, for classes and for numeric labels, with their gradients and Lipschitz bounds.

A row has scores z: one for each class, or a single one for a numeric label. A loss gives, for every label j that the
row may have, a gradient ``g_j(z)`` in the scores; in the parameters it is ``x g_j^T``. From a released label with the
unbiased vector w, ``sum_j w_j g_j(z)`` has the gradient of the true label as its mean: that sum is the row's
*stochastic gradient*.

Numeric labels are on a scale from -1 to 1, the ends of their declared range.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.errors import InputError

RowScores = Float[np.ndarray, "n s"]
Points = Float[np.ndarray, "k"]


@dataclass(frozen=True)
class Loss(ABC):
    """A loss that is convex in the scores.

    Attributes:
        number: Number of the loss in the compiled descent.
        of_classes: Whether there is a score for each class, and not one score for a numeric label.
    """

    number: ClassVar[int]
    of_classes: ClassVar[bool] = True

    @abstractmethod
    def lipschitz(self, classes: int, largest: float) -> float:
        """Bound on the length of gradients in the scores, for score vectors no longer than ``largest``."""

    def orthogonal_length(self, classes: int) -> float | None:
        """Length r if gradients of all labels are a common vector plus orthogonal vectors of length r; else None."""
        return None

    @abstractmethod
    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each possible label."""

    @abstractmethod
    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """The gradient of a row for each possible label."""


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class SoftmaxLoss(Loss):
    """The cross entropy, ``log sum_i exp(z_i) - z_j``, with gradient ``p - e_j``: multinomial logistic regression."""

    number: ClassVar[int] = 0

    def lipschitz(self, classes: int, largest: float) -> float:
        """``|p - e_j|`` is below ``sqrt(2)``."""
        return math.sqrt(2.0)

    def orthogonal_length(self, classes: int) -> float:
        """1: ``p`` is common to all classes, and ``-e_j`` is orthogonal."""
        return 1.0

    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each class."""
        top = scores.max(axis=1, keepdims=True)
        return np.asarray(top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True)) - scores)

    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """``p - e_j``."""
        shares = np.exp(scores - scores.max())
        return np.asarray(shares / shares.sum() - np.eye(scores.size))


@dataclass(frozen=True)
class LinearLoss(Loss):
    """``-(z_j - mean(z)) / 2``: minimising it estimates how often each class occurs, which is the hardest case.

    References:
        Chua et al. 2025, proof of theorem 2, with a feature that is always 1.
    """

    number: ClassVar[int] = 2

    def lipschitz(self, classes: int, largest: float) -> float:
        """``|e_j - 1/k| / 2``."""
        return 0.5 * math.sqrt(1.0 - 1.0 / classes)

    def orthogonal_length(self, classes: int) -> float:
        """1/2: ``1/(2k)`` is common to all classes, and ``-e_j / 2`` is orthogonal."""
        return 0.5

    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each class."""
        return np.asarray(-0.5 * (scores - scores.mean(axis=1, keepdims=True)))

    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """``-(e_j - 1/k) / 2``."""
        k = scores.size
        return np.asarray(-0.5 * (np.eye(k) - 1.0 / k))


@dataclass(frozen=True)
class NumberLoss(Loss):
    """A loss of one score and a numeric label, which depends on their difference."""

    of_classes: ClassVar[bool] = False

    @abstractmethod
    def of(self, difference: np.ndarray) -> np.ndarray:
        """The loss at a difference of score and label."""

    @abstractmethod
    def slope(self, difference: np.ndarray) -> np.ndarray:
        """Its derivative."""

    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each possible label."""
        return np.asarray(self.of(scores - points))

    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """The derivative for each possible label."""
        return np.asarray(self.slope(scores - points)[:, None])


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class SquaredLoss(NumberLoss):
    """``(z - y)^2 / 2``: least squares."""

    number: ClassVar[int] = 3

    def lipschitz(self, classes: int, largest: float) -> float:
        """``|z - y|``, bounded only in a bounded region."""
        if not math.isfinite(largest):
            raise InputError(
                "expected a loss with a Lipschitz bound, found the squared loss with unconstrained parameters; give a "
                "Ball, or use the absolute loss"
            )
        return largest + 1.0

    def of(self, difference: np.ndarray) -> np.ndarray:
        """Half the square."""
        return np.asarray(0.5 * difference**2)

    def slope(self, difference: np.ndarray) -> np.ndarray:
        """The difference."""
        return np.asarray(difference)


@dataclass(frozen=True)
class AbsoluteLoss(NumberLoss):
    """``|z - y|``: medians."""

    number: ClassVar[int] = 4

    def lipschitz(self, classes: int, largest: float) -> float:
        """1."""
        return 1.0

    def of(self, difference: np.ndarray) -> np.ndarray:
        """The distance."""
        return np.asarray(np.abs(difference))

    def slope(self, difference: np.ndarray) -> np.ndarray:
        """The sign."""
        return np.asarray(np.sign(difference))


#: The losses by name.
LOSSES: Mapping[str, Loss] = MappingProxyType(
    {"softmax": SoftmaxLoss(), "linear": LinearLoss(), "squared": SquaredLoss(), "absolute": AbsoluteLoss()}
)


def loss_of(loss: str, *, of_classes: bool) -> Loss:
    """Return the loss of a name.

    Raises:
        InputError: The name is unknown, or is that of a loss for the other kind of label.
    """
    known = [name for name, each in LOSSES.items() if each.of_classes == of_classes]
    return LOSSES[_checks.among(loss, "a loss", known)]
