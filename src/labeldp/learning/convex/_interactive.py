"""Interactive descent: a curator tells one noisy gradient of each label, at the parameters that earlier ones led to."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import clone

from labeldp.errors import InputError
from labeldp.learning.convex._base import ConvexLearner, Pull, scores_of
from labeldp.learning.convex._descent import Descent, Rows
from labeldp.learning.convex._learners import of_classes
from labeldp.learning.convex._losses import CustomLoss, Loss
from labeldp.mechanisms.queries import NoisyGradients, gradient_error
from labeldp.privacy import Interval
from labeldp.release import Curator

Learner = TypeVar("Learner", bound=ConvexLearner)

#: Directions in which gradients differ by less than this share of their largest entry are rounding.
_NOTHING = 1e-12


def fit_interactively(
    model: Learner, features: Any, curator: Curator, *, epsilon: float, delta: float = 0.0
) -> Learner:
    """Fit a convex learner on noisy gradients, one of each label, that a curator tells as descent goes on.

    At each step the gradients of the row's loss for all labels are known, but for which of them is the row's. The
    curator tells that one with noise, in the span of their differences alone, however many features there are. Each
    label is used once, so there is one pass: what is told is of no use at other parameters.

    Args:
        model: A ``ConvexClassifier`` or ``ConvexRegressor``. With ``region="auto"`` the usual ball is taken, and
            ``passes`` must be 1. ``steps="ghazi"`` are those of Proposition 11, ``D / (G sqrt(t))``.
        features: Shape (n, d), dense or sparse, of all rows of the curator; public.
        curator: Who holds the labels, and charges for them.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        delta: Failure probability. Above 0 noise is Gaussian (LP-Normal-SGD); at 0 a random direction and one bit of
            the label are told (the vector randomizer).

    Returns:
        The model, fitted; its ``answer_`` is what was told, with its certificate.

    Where it helps: for the absolute and Huber losses of real labels, which released numbers cannot serve. With classes
    released labels have less noise and can be used again. Gaussian noise is less than that of a bit only where epsilon
    and the number of classes are large: look at ``moment_``.

    Guarantee:
        That of ``NoisyGradients``, whatever the loss: no Lipschitz constant is taken on trust.

    References:
        Ghazi et al. 2021, Algorithm 6; Chua et al. 2025, Appendix B, with the randomizer of Duchi et al. 2013.

    Raises:
        BudgetError: The curator's budget does not allow it: the labels were used before. Nothing was drawn.
        InputError: The model is no convex learner, or the features are of another number of rows. Where a loss of your
            own fails at some step, the labels have been used: try it on public labels first.

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
        raise InputError(f"expected passes=1, found {model.passes!r}: each label is asked for once")
    if not isinstance(curator, Curator):
        raise InputError(
            f"expected a Curator, who holds the labels, found {type(curator).__name__}; fit releases with model.fit"
        )
    made, loss = clone(model), model._loss()
    checked = made._features(features, len(curator), reset=True)
    made._end = made._end_of(checked)
    rows = Rows.of(checked, made._end)
    pull = _pull(loss, curator, epsilon, delta)
    made._keep(curator.space)
    made.region_ = made._usual(rows, scores_of(loss, pull)) if made.region == "auto" else made._declared(made.region)
    made._say(loss, pull, len(curator))
    descent = made._begun(loss, pull, rows, made.region_, len(curator))
    order = np.arange(len(curator))
    if made.shuffle:
        order = np.random.default_rng(made.random_state).permutation(order)
    asker, scores = _Asker(descent, rows, order), scores_of(loss, pull)
    query = NoisyGradients(curator.space, epsilon, delta, client=asker, rows=len(curator), dimension=scores)
    answer = curator.answer(query, rows=order)
    model.__dict__.update(vars(made._finished(descent)))  # only now: what fails before leaves the model as it was
    model.answer_ = answer
    return model


class _Asker:
    """Asks for the gradient of each row's loss in its scores, and steps along what it is told."""

    def __init__(self, descent: Descent, rows: Rows, order: Int[np.ndarray, "n"]) -> None:
        self._descent, self._rows, self._order = descent, rows, order
        self._own = descent.loss.right_angled(len(descent.points))

    def ask(self, row: int) -> Float[np.ndarray, "k ..."]:
        """The gradients for all labels; at right angles but for a common part, they are as good as unit vectors."""
        self._row = self._rows.row(int(self._order[row]))
        self._gradients = self._descent.loss.gradients(self._row @ self._descent.core, self._descent.points)
        return self._gradients if self._own is None else np.ones(len(self._gradients))

    def tell(self, row: int, vector: Float[np.ndarray, "r"]) -> None:
        """Step, without the noise that is in no direction that gradients differ in."""
        del row
        gradients = self._gradients
        if self._own is not None:
            vector = vector + (1.0 - vector.sum()) / vector.size
            vector = gradients[0] - self._own * (vector - np.eye(1, vector.size)[0])
        elif isinstance(self._descent.loss, CustomLoss):
            vector = within_span(vector, gradients)
        elif vector.size > 1:  # gradients of the scores of classes sum to zero
            vector = vector - vector.mean()
        self._descent.move(self._row, vector)


def within_span(vector: Float[np.ndarray, "r"], gradients: Float[np.ndarray, "k r"]) -> Float[np.ndarray, "r"]:
    """The nearest point to a vector that differs from gradients only in directions in which they differ themselves."""
    centre = gradients.mean(axis=0)
    _, sizes, directions = np.linalg.svd(gradients - centre, full_matrices=False)
    directions = directions[sizes > _NOTHING * np.abs(gradients).max()]
    return np.asarray(centre + (vector - centre) @ directions.T @ directions)


def _pull(loss: Loss, curator: Curator, epsilon: float, delta: float) -> Pull:
    """What is known of the moves that gradients lead to which are told."""
    k, labels = curator.space.size, curator.labels_of_a_unit
    if loss.of_classes:
        of_classes(curator.space)
    elif not isinstance(curator.space, Interval):
        raise InputError("expected a curator of real labels, declared as an Interval, found one of classes")
    points = np.zeros(k) if loss.of_classes else np.linspace(-1.0, 1.0, k)
    return Pull(points, _noise(loss, k, epsilon, delta, labels), k, epsilon / labels, told=True)


def _noise(loss: Loss, k: int, epsilon: float, delta: float, labels: int = 1) -> float:
    """How far what is told is from the gradient of the true label, mean square."""
    original, steepest = loss.right_angled(k), loss.lipschitz(k, 0.0)
    size, spread, radius = (steepest if loss.of_classes else min(steepest, 1.0)), 2.0, 1.0
    if original is not None:
        size, spread, radius = original, math.sqrt(2.0), math.sqrt(1.0 - 1.0 / k)
    return size**2 * gradient_error(
        epsilon,
        delta,
        classes=k,
        dimension=k - 1 if loss.of_classes else 1,
        spread=spread,
        radius=radius,
        labels_of_a_unit=labels,
    )
