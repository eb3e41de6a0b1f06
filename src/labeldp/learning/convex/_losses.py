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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.errors import InputError

#: Number of random points at which a user's loss is tested, and the tolerance for rounding.
_TRIALS, _ROUNDING = 64, 1e-9

RowScores = Float[np.ndarray, "n s"]
Points = Float[np.ndarray, "k"]


@dataclass(frozen=True)
class Loss(ABC):
    """A loss that is convex in the scores.

    Attributes:
        number: Number of the loss in the compiled descent; -1 for a loss that is not compiled.
        of_classes: Whether there is a score for each class, and not one score for a numeric label.
    """

    number: ClassVar[int] = -1
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

    @property
    def width(self) -> float:
        """Distance at which the Huber loss turns from a parabola to a line; 0 for other losses."""
        return 0.0


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
class HingeLoss(Loss):
    """The multinomial hinge, ``max_i (z_i + 1[i != j]) - z_j``.

    References:
        Crammer and Singer 2001.
    """

    number: ClassVar[int] = 1

    def lipschitz(self, classes: int, largest: float) -> float:
        """A gradient is ``e_i - e_j``, or 0."""
        return math.sqrt(2.0)

    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each class; the best rival is the top class, or the second one for the top class."""
        order = np.sort(scores, axis=1)
        other = np.where(scores == order[:, -1:], order[:, -2:-1], order[:, -1:])
        return np.asarray(np.maximum(other + 1.0 - scores, 0.0))

    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """``e_i - e_j`` for the class i that is largest with its margin; nothing where that is j."""
        k = scores.size
        rivals = (scores + 1.0 - np.eye(k)).argmax(axis=1)
        return np.asarray(np.eye(k)[rivals] - np.eye(k))


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
                "Ball or a Box, or use the Huber loss"
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


@dataclass(frozen=True)
class HuberLoss(NumberLoss):
    """Half the square up to a distance, and a line beyond it.

    Attributes:
        distance: Distance at which it turns into a line, on the scale from -1 to 1.

    References:
        Huber 1964.
    """

    number: ClassVar[int] = 5

    distance: float = 0.1

    def __post_init__(self) -> None:
        _checks.positive(self.distance, "the distance of the Huber loss")

    def lipschitz(self, classes: int, largest: float) -> float:
        """The slope of the line."""
        return float(self.distance)

    def of(self, difference: np.ndarray) -> np.ndarray:
        """The loss."""
        inside = np.minimum(np.abs(difference), self.distance)
        return np.asarray(inside * (np.abs(difference) - inside / 2))

    def slope(self, difference: np.ndarray) -> np.ndarray:
        """The difference, clipped."""
        return np.asarray(np.clip(difference, -self.distance, self.distance))

    @property
    def width(self) -> float:
        """The distance."""
        return float(self.distance)


@dataclass(frozen=True)
class CustomLoss(Loss):
    """A loss of your own, of a class and its scores.

    Args:
        function: Takes scores, shape (k,), and the code of a class; returns the loss and a (sub)gradient in the scores,
            shape (k,). It must be convex in the scores.
        constant: Its Lipschitz constant: a bound on the Euclidean length of gradients. The step length depends on it.
            It is checked on random scores before descent begins, and at every step.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import CustomLoss
        >>> def margin(scores, code):  # the hinge, one class against all others together
        ...     signs = np.where(np.arange(scores.size) == code, -1.0, 1.0)
        ...     over = 1.0 + signs * scores
        ...     return np.maximum(over, 0.0).sum(), np.where(over > 0, signs, 0.0)
        >>> CustomLoss(margin, constant=2.0).lipschitz(classes=4, largest=1.0)
        2.0

    Raises:
        InputError: The Lipschitz constant is missing, or is not a number above 0.
    """

    function: Callable[[np.ndarray, int], tuple[float, np.ndarray]]
    constant: float

    def __post_init__(self) -> None:
        _checks.positive(self.constant, "the Lipschitz constant of a loss")
        if not callable(self.function):
            raise InputError(f"expected a function and its Lipschitz constant, found {type(self.function).__name__}")

    def lipschitz(self, classes: int, largest: float) -> float:
        """As declared."""
        return float(self.constant)

    def values(self, scores: RowScores, points: Points) -> Float[np.ndarray, "n k"]:
        """The loss of each row for each class."""
        return np.array([[self.function(row, code)[0] for code in range(len(points))] for row in scores])

    def gradients(self, scores: Float[np.ndarray, "s"], points: Points) -> Float[np.ndarray, "k s"]:
        """The gradient for each class; none may be longer than declared."""
        try:
            gradients = np.array([self.function(scores, code)[1] for code in range(len(points))], dtype=np.float64)
        except (TypeError, IndexError):
            raise InputError(
                "expected a number and a gradient from the loss, found something else; return both, (value, gradient)"
            ) from None
        if gradients.shape != (len(points), scores.size):
            raise InputError(
                f"expected a gradient of {scores.size} entries from the loss, found shape {gradients.shape[1:]}"
            )
        longest = float(np.linalg.norm(gradients, axis=1).max())
        if not longest <= self.constant * (1 + _ROUNDING):
            raise InputError(
                f"expected gradients in the scores no longer than the declared constant, {self.constant:g}, found "
                f"{longest:g}; declare a larger one, or correct the loss"
            )
        return gradients

    def check(self, classes: int, largest: float) -> None:
        """Check at random scores that gradients are no longer than declared, and tangents below the loss.

        Raises:
            InputError: The loss is not convex, or its gradients are longer than declared.
        """
        random, points = np.random.default_rng(0), np.zeros(classes)
        length = min(largest, 10.0)
        for _ in range(_TRIALS):
            near, far = (length * random.uniform(-1, 1, classes) / math.sqrt(classes) for _ in range(2))
            here, there = (self.values(scores[None], points)[0] for scores in (near, far))
            tangent = here + self.gradients(near, points) @ (far - near)
            if not (there >= tangent - 1e-7 * (1 + np.abs(here))).all():
                raise InputError(
                    "expected a loss that is convex in the scores, with its gradient, found one that goes below its "
                    "tangent; correct the loss or its gradient"
                )


#: The losses by name.
LOSSES: Mapping[str, Loss] = MappingProxyType(
    {
        "softmax": SoftmaxLoss(),
        "hinge": HingeLoss(),
        "linear": LinearLoss(),
        "squared": SquaredLoss(),
        "absolute": AbsoluteLoss(),
        "huber": HuberLoss(),
    }
)


def loss_of(loss: object, *, of_classes: bool) -> Loss:
    """Return a loss, looked up by name if it is a string.

    Raises:
        InputError: It is not a loss, or is for the other kind of label.
    """
    known = [name for name, each in LOSSES.items() if each.of_classes == of_classes]
    found = LOSSES.get(loss) if isinstance(loss, str) else loss
    if callable(found):
        raise InputError(
            "expected a loss with its Lipschitz constant, found a function; write CustomLoss(function, constant=...)"
        )
    if not isinstance(found, Loss) or found.of_classes != of_classes:
        more = ", or a CustomLoss" if of_classes else ", or a HuberLoss"
        raise InputError(f"expected a loss among {', '.join(known)}{more}, found {loss!r}")
    return found
