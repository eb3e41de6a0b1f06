"""Interactive descent: a curator answers with one noisy gradient of each label, at the current parameters."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.convex._convex_learner import ConvexLearner, GradientNoiseBound
from labeldp.learning.convex._descent import Descent, DescentRows
from labeldp.learning.convex._learners import check_classes
from labeldp.learning.convex._losses import Loss
from labeldp.mechanisms.queries import NoisyGradients, gradient_error
from labeldp.privacy import Interval
from labeldp.release import Curator

Learner = TypeVar("Learner", bound=ConvexLearner)


def fit_interactively(
    model: Learner, features: Any, curator: Curator, *, epsilon: float, delta: float = 0.0
) -> Learner:
    """Fit a convex learner on noisy gradients, one of each label, answered by a curator during descent.

    At each step the gradients of the row's loss for all labels are public; only which of them belongs to the true label
    is private. The curator answers with that one plus noise, in the span of their differences, however many features
    there are. Each label is used once, so there is one pass: a gradient is of no use at other parameters.

    Args:
        model: A ``ConvexClassifier`` or ``ConvexRegressor``. With ``region="auto"`` the default ball is used, and
            ``passes`` must be 1. ``steps="ghazi"`` are those of Proposition 11, ``D / (G sqrt(t))``.
        features: Shape (n, d), dense or sparse, of all rows of the curator; public.
        curator: Holder of the labels, who charges for them.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        delta: Failure probability. Above 0 noise is Gaussian (LP-Normal-SGD); at 0 the answer is a random
            direction and one bit of the label (the vector randomizer).

    Returns:
        The fitted model; its ``answer_`` holds the noisy gradients and their certificate.

    Use it for the absolute loss of numeric labels, for which released numbers do not suffice. With classes,
    released labels have less noise and can be used again. Gaussian noise is less than that of a bit only if epsilon
    and the number of classes are large: compare ``moment_``.

    Guarantee:
        That of ``NoisyGradients``, whatever the loss: it does not depend on a declared Lipschitz constant.

    References:
        Ghazi et al. 2021, Algorithm 6; Chua et al. 2025, Appendix B, with the randomizer of Duchi et al. 2013.

    Raises:
        BudgetError: The curator's budget does not allow it: the labels were used before. Nothing was drawn.
        InputError: The model is not a convex learner, or the number of rows of features differs.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.convex import Ball, ConvexClassifier, fit_interactively
        >>> features, space = np.repeat([[-1.0], [1.0]], 1000, axis=0), Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 1000 + ["yes"] * 1000, space)
        >>> model = fit_interactively(ConvexClassifier(region=Ball(5.0)), features, curator, epsilon=2.0)
        >>> model.predict([[-1.0], [1.0]]).tolist(), model.answer_.guarantee.epsilon
        (['no', 'yes'], 2.0)
    """
    if not isinstance(model, ConvexLearner):
        raise InputError(f"expected a ConvexClassifier or a ConvexRegressor, found {type(model).__name__}")
    if model.passes != 1:
        raise InputError(f"expected passes=1, found {model.passes!r}: each label is used only once")
    if not isinstance(curator, Curator):
        raise InputError(
            f"expected a Curator, who holds the labels, found {type(curator).__name__}; fit releases with model.fit"
        )
    fitted = clone(model)
    _, rows = fitted._rows(features, curator)
    bound = _interactive_noise_bound(model._loss(), curator, epsilon, delta)
    fitted._set_space(curator.space)
    fitted.region_ = fitted._fixed_region(bound, rows)
    fitted._check_row_count(bound, len(curator))
    descent = fitted._new_descent(bound, rows, fitted.region_, len(curator))
    order = np.arange(len(curator))
    if fitted.shuffle:
        order = np.random.default_rng(fitted.random_state).permutation(order)
    client = _GradientClient(descent, rows, order)
    query = NoisyGradients(curator.space, epsilon, delta, client=client, rows=len(curator), dimension=bound.scores)
    answer = curator.answer(query, rows=order)
    model.__dict__.update(
        vars(fitted._set_parameters(descent))
    )  # only now, so that a failure leaves the model unchanged
    model.answer_ = answer
    return model


class _GradientClient:
    """Interactive client: asks for the gradient of each row's loss in its scores, and steps along the answer."""

    def __init__(self, descent: Descent, rows: DescentRows, order: Int[np.ndarray, "n"]) -> None:
        self._descent, self._rows, self._order = descent, rows, order
        self._orthogonal = descent.loss.orthogonal_length(len(descent.points))

    def ask(self, row: int) -> Float[np.ndarray, "k ..."]:
        """The gradients for all labels; unit vectors stand for gradients that are orthogonal but for a common part."""
        self._row = self._rows.row(int(self._order[row]))
        self._gradients = self._descent.loss.gradients(self._row @ self._descent.core, self._descent.points)
        return self._gradients if self._orthogonal is None else np.ones(len(self._gradients))

    def tell(self, row: int, vector: Float[np.ndarray, "r"]) -> None:
        """Step along the answer, without noise outside the span of gradient differences."""
        if self._orthogonal is not None:
            vector = vector + (1.0 - vector.sum()) / vector.size
            vector = self._gradients[0] - self._orthogonal * (vector - np.eye(1, vector.size)[0])
        self._descent.move(self._row, vector)


def _interactive_noise_bound(loss: Loss, curator: Curator, epsilon: float, delta: float) -> GradientNoiseBound:
    """Bounds on the gradients that the curator answers with."""
    k, labels = curator.space.size, curator.labels_of_a_unit
    if loss.of_classes:
        check_classes(curator.space)
    elif not isinstance(curator.space, Interval):
        raise InputError("expected a curator of numeric labels, declared as an Interval, found one of classes")
    points = np.zeros(k) if loss.of_classes else np.linspace(-1.0, 1.0, k)
    noise = _noise(loss, k, epsilon, delta, labels)
    return GradientNoiseBound(loss, points, noise, k, epsilon / labels, interactive=True)


def _noise(loss: Loss, k: int, epsilon: float, delta: float, labels: int = 1) -> float:
    """Mean squared distance of the answer from the gradient of the true label."""
    orthogonal = loss.orthogonal_length(k)
    if orthogonal is None:
        size, spread, radius = loss.lipschitz(k, 0.0), 2.0, 1.0
    else:
        size, spread, radius = orthogonal, math.sqrt(2.0), math.sqrt(1.0 - 1.0 / k)
    return size**2 * gradient_error(
        epsilon,
        delta,
        classes=k,
        dimension=k - 1 if loss.of_classes else 1,
        spread=spread,
        radius=radius,
        labels_of_a_unit=labels,
    )
