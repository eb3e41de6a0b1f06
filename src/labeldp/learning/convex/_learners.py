"""Convex learners of classes and of numeric labels, and interactive descent.

For the latter a curator answers with one noisy gradient of each label, at the current parameters.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.convex._convex_learner import ConvexLearner, GradientNoiseBound, Targets
from labeldp.learning.convex._descent import Descent, DescentRows, squared_lengths
from labeldp.learning.convex._losses import Loss, SoftmaxLoss, SquaredLoss, loss_of
from labeldp.learning.heads import softmax
from labeldp.learning.losses import (
    decoded_numbers,
    ends_of,
    gain,
    is_decodable,
    require_numeric_labels,
    require_release,
)
from labeldp.learning.sklearn import NumberRegressor, ScoreClassifier
from labeldp.mechanisms.queries import NoisyGradients, gradient_error
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import ClassChannel, candidate_sizes, gradient_noise
from labeldp.release import Curator, Release

_ENDS = np.array([-1.0, 1.0])


def _of_softmax(model: ConvexClassifier) -> bool:
    """True if scores are logits, so that there are probabilities."""
    return isinstance(model._loss(), SoftmaxLoss)


@documented_in("labeldp.learning.convex")
@dataclass(eq=False, repr=False)
class ConvexClassifier(ConvexLearner, ScoreClassifier):
    """A linear classifier by projected stochastic gradient descent on released labels, each by its unbiased vector.

    Args:
        loss: ``"softmax"`` or ``"linear"``.
        region: Feasible set: a ``Ball``, or ``Unconstrained`` with a penalty. ``"auto"`` is the ball that held-out
            released labels prefer; in a stream, the usual one of those.
        steps: ``"bound"``: from a bound on the second moment of gradients that holds for the channel at hand;
            ``"adaptive"``: from the released gradients so far (``Unconstrained`` takes the bound's); ``"chua"``:
            Algorithm 1, line 7; ``"ghazi"``: Theorem 9; or a length.
        average: Whether the model is the mean of all points; else the last one.
        passes: Number of passes over the rows, with the same released labels each time.
        norm: A public bound on the length of rows of features; steps suit rows of that length. By default they suit
            the lengths of the rows at hand.
        fit_intercept: Whether to append a 1 to each row.
        project: Whether to project unbiased vectors so that they sum to one, which keeps them unbiased and lowers their
            variance; the papers do not.
        shuffle: Whether to visit rows in random order, independent of labels.
        random_state: Seed of that order.

    Attributes:
        classes_: The declared classes.
        coef_: Coefficients, shape (k, d).
        intercept_: Intercepts, shape (k,).
        region_: The region.
        moment_: The bound on the second moment of gradients that sets the steps.
        steps_done_: Number of steps made.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost, however often its
        rows are seen. How good it is: with ``average``, ``steps="bound"``, a region and ``norm`` given, one pass over n
        independent rows leads on average to at most ``R G / sqrt(n)`` above the least expected loss in the region, R
        its radius and G^2 ``moment_``, if true classes are among the candidates where rows have some. Without ``norm``
        steps suit the mean squared length of the rows, and this is only a guide.

    References:
        Chua et al. 2025, Algorithm 1 and Appendix A; Ghazi et al. 2021, Algorithm 5 and Corollary 10. The unbiased
        vectors of any randomizer can be used: see ``labeldp.gradient_noise`` for G.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.convex import Ball, ConvexClassifier
        >>> features, space = np.repeat([[-1.0], [1.0]], 1000, axis=0), Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 1000 + ["yes"] * 1000, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = ConvexClassifier(region=Ball(5.0)).fit(features, release)
        >>> model.predict([[-1.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    _default_score = 10.0

    loss: str = "softmax"
    _: KW_ONLY
    steps: str | float = "bound"

    @available_if(_of_softmax)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k); only with the softmax loss."""
        return softmax(self._scores(X))

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean gain on released labels, as of ``SoftmaxRegression``; for ``"linear"`` minus its unbiased mean."""
        if _of_softmax(self):
            return super().score(X, y, sample_weight)
        targets = self._targets(require_release(y))
        scores = self._declared(self._scores(X), targets.release.space)
        gains = self._gains(targets, scores, np.arange(len(targets.release)))
        return float(np.average(gains, weights=sample_weight))

    def _loss(self) -> Loss:
        return loss_of(self.loss, of_classes=True)

    def _targets(self, release: Release) -> Targets:
        check_classes(release.space)
        return class_targets(release, self._loss(), np.zeros(release.space.size), self.project)

    def _gains(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        if isinstance(self._loss(), SoftmaxLoss):
            return gain(targets.release[rows], softmax(scores))
        return _unbiased_loss(targets, scores, rows)

    def _set_parameters(self, descent: Descent) -> Self:
        super()._set_parameters(descent)
        self.coef_, self.intercept_ = self.coef_[self._codes], self.intercept_[self._codes]
        return self

    def _set_space(self, space: LabelSpace) -> None:
        self._codes = self._set_classes(space)

    def _has_space(self, space: LabelSpace) -> bool:
        return space.size == len(self.classes_) and np.array_equal(np.array(space.points)[self._codes], self.classes_)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a saved model; those of earlier versions have the declared order, in ``classes_`` too."""
        super().__setstate__(state)
        if hasattr(self, "classes_") and not hasattr(self, "_codes"):
            self._codes = np.arange(len(self.classes_))


@documented_in("labeldp.learning.convex")
@dataclass(eq=False, repr=False)
class ConvexRegressor(ConvexLearner, NumberRegressor):
    """A linear model of numeric labels by projected stochastic gradient descent on released labels, each without bias.

    Labels are scaled to [-1, 1] from their declared range; the region applies on this scale.

    Args:
        loss: ``"squared"``, from any release of numeric labels; ``"absolute"``, from releases of grid points
            and sets of them (``RandomizedResponse``, ``SubsetResponse``), since a released number is unbiased for the
            label but not for this loss.
        region: As for ``ConvexClassifier``; the intercept counts divided by the constant appended to rows.
        steps: As for ``ConvexClassifier``; adaptive by default, since the slope of the squared loss is mostly far below
            its bound.
        average: As for ``ConvexClassifier``.
        passes: As for ``ConvexClassifier``.
        norm: As for ``ConvexClassifier``.
        fit_intercept: Whether to append a constant to each row: ``norm``, or the root of the mean squared length of
            rows, so that the intercept is learned as fast as the coefficients.
        project: As for ``ConvexClassifier``; the squared loss uses released numbers as they are.
        shuffle: As for ``ConvexClassifier``.
        random_state: As for ``ConvexClassifier``.

    Attributes:
        coef_: Coefficients on the scale, shape (1, d).
        intercept_: The intercept on the scale, shape (1,).
        range_: The ends of the declared range, to which predictions are clipped.
        region_: The region.
        moment_: The bound on the second moment of gradients that sets the steps.
        steps_done_: Number of steps made.

    Guarantee:
        As for ``ConvexClassifier``, with ``steps="bound"``, from releases whose numbers have labels as their means;
        from bins the mean label of a bin is learned.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp import best_number_response
        >>> from labeldp.learning.convex import Ball, ConvexRegressor
        >>> features, space = np.repeat([[-1.0], [1.0]], 4000, axis=0), Interval(0, 10, 1)
        >>> release = Curator([2] * 4000 + [8] * 4000, space).randomize(best_number_response(space, 2.0))
        >>> model = ConvexRegressor(region=Ball(2.0), passes=5).fit(features, release)
        >>> bool(abs(model.predict([[1.0]])[0] - 8) < 1.5)
        True
    """

    _default_score = 1.0

    loss: str = "squared"
    _: KW_ONLY
    steps: str | float = "adaptive"

    def _default_end(self, features: Any) -> float:
        """The declared norm, or the root mean squared length of rows."""
        return float(self.norm) if self.norm is not None else math.sqrt(float(squared_lengths(features).mean())) or 1.0

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The predicted label of each row, within the declared range."""
        scores = self._scores(X)[:, 0]
        low, high = self.range_
        return np.asarray(low + (high - low) * (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0)

    def _loss(self) -> Loss:
        return loss_of(self.loss, of_classes=False)

    def _targets(self, release: Release) -> Targets:
        loss, (low, high) = self._loss(), ends_of(require_numeric_labels(release))
        if not isinstance(loss, SquaredLoss):
            return class_targets(release, loss, np.linspace(-1.0, 1.0, release.space.size), self.project)
        if not is_decodable(release):
            raise InputError(
                "expected released labels that are unbiased numbers, found candidates or clusters; use the absolute "
                "loss, which needs only unbiased vectors"
            )
        numbers = 2.0 * (decoded_numbers(release) - low) / (high - low) - 1.0
        return Targets(release, _noise_bound(release, loss, _ENDS, _number_noise(release, numbers)), numbers)

    def _gains(self, targets: Targets, scores: Float[np.ndarray, "m s"], rows: Int[np.ndarray, "m"]) -> np.ndarray:
        return _unbiased_loss(targets, scores, rows)

    def _set_space(self, space: LabelSpace) -> None:
        self.range_ = (float(space.points[0]), float(space.points[-1]))

    def _has_space(self, space: LabelSpace) -> bool:
        of_numbers = isinstance(self._loss(), SquaredLoss)
        sizes = {space.size, space.size if of_numbers else len(self._descent.points)}
        return len(sizes) == 1 and (float(space.points[0]), float(space.points[-1])) == self.range_


def check_classes(space: LabelSpace) -> None:
    """Refuse numeric labels, whose order a classifier would ignore."""
    if isinstance(space, Interval):
        raise InputError("expected labels that are classes, found numeric ones on an Interval; use ConvexRegressor")


def class_targets(release: Release, loss: Loss, points: Float[np.ndarray, "k"], project: bool) -> Targets:
    """Unbiased vectors over all labels, and bounds on their noise for a loss."""
    if not isinstance(release.channel, ClassChannel):
        raise InputError(
            "expected a release of classes or of sets of them, found one of numbers, which only determine the mean of "
            "labels; use the squared loss, or release by SubsetResponse"
        )
    if release.is_public:
        return Targets(release, _noise_bound(release, loss, points, 0.0), projected=project)
    steepest = loss.lipschitz(len(points), math.inf)
    # a common part adds nothing if vectors sum to one
    orthogonal = loss.orthogonal_length(len(points)) if project else None
    moment = gradient_noise(release.channel, projected=project).second_moment(steepest, orthogonal)
    return Targets(release, _noise_bound(release, loss, points, moment - steepest**2), projected=project)


def _noise_bound(release: Release, loss: Loss, points: Float[np.ndarray, "k"], noise: float) -> GradientNoiseBound:
    """Bounds on the gradients that released labels lead to."""
    sizes = candidate_sizes(release.channel)
    labels = release.space.size if sizes is None else int(sizes.max(initial=1))
    channels = getattr(release.channel, "channels", (release.channel,))  # of units, one for each of their sizes
    epsilon = math.inf if release.is_public else min(channel.epsilon for channel in channels)
    return GradientNoiseBound(loss, points, noise, labels, epsilon)


def _unbiased_loss(targets: Targets, scores: np.ndarray, rows: np.ndarray) -> Float[np.ndarray, "m"]:
    """Minus an unbiased estimate of the loss of each row's true label."""
    return np.asarray(-(targets.of_rows(rows) * targets.bound.loss.values(scores, targets.bound.points)).sum(axis=1))


def _number_noise(release: Release, numbers: Float[np.ndarray, "n"]) -> float:
    """Worst-case variance of released numbers on the scale; for bins, the largest possible squared error."""
    if release.is_public:
        return 0.0
    if release.channel.bins is not None:
        return float(np.abs(numbers).max() + 1.0) ** 2
    steps = 2.0 / (release.space.size - 1)
    return max(float(law.variance.max()) for law in release.channel.number_laws()) * steps**2


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
