"""Learners from label moments: linear heads that are fitted to optimality, with known noise in the place of labels."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.errors import InputError
from labeldp.learning.cells import answered
from labeldp.learning.sklearn._lbfgs import softmax
from labeldp.learning.sklearn._moment_heads import HEADS, HeadLoss, Moments, Rotated, penalty_at_noise, projected
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer


class MomentHead(BaseEstimator):
    """A linear head from noisy moments, of classes or of the two ends of an interval."""

    loss: HeadLoss
    l2: float | Literal["auto"]
    project: bool
    tol: float

    def _fit(self, X: Any, answer: Answer) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the curator was asked about."""
        features = validate_data(self, X, dtype=np.float64)
        if self.loss not in HEADS:
            raise InputError(f"expected a loss among {', '.join(HEADS)}, found {self.loss!r}")
        if self.l2 != "auto" and not (isinstance(self.l2, int | float | np.number) and 0 < self.l2 < math.inf):
            raise InputError(f"expected l2 to be 'auto' or a number above 0, found {self.l2!r}")
        if features.shape != (answer.rows, len(answer.value)):
            raise InputError(
                f"expected the features that the moments are of, {answer.rows} rows and {len(answer.value)} columns, "
                f"found shape {features.shape}"
            )
        step = math.ldexp(1.0, -int(answer.law["bits"]))
        self.norm_ = math.sqrt(int(answer.law["sensitivity_squared"]) / 2) * step / int(answer.law.get("parts", 1))
        rotated = Rotated.of(self._cut(features))
        moments = Moments.of(answer.value, answer.noise_deviation, rotated, answer.rows * 2 * step)
        fit = HEADS[self.loss]
        self.l2_ = penalty_at_noise(rotated, moments, fit, self.tol) if self.l2 == "auto" else float(self.l2)
        if self.project:
            moments = projected(rotated, moments, self.norm_, self.tol)
        self.coef_ = (rotated.vectors @ fit(rotated, moments, self.l2_, self.tol, None)).T
        return self

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self._cut(features) @ self.coef_.T)

    def _cut(self, features: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Features as the curator sums them: longer rows are cut."""
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features * (self.norm_ / np.maximum(lengths, self.norm_)))


class MomentClassifier(MomentHead, ProbabilityClassifier):
    """A linear head on public features, fitted to optimality with noisy label moments in the place of labels.

    The label-dependent part of a softmax or ridge loss is linear in the labels, so the sums of features by class, which
    a curator gives once (``LabelMoments``), are all that it takes. There are no steps, epochs or batches to pay for.
    On the places of ``labeldp.learning.cells.embed``, these are eigenvector moments.

    There is no intercept of its own: put a column of ones among the features, for the curator too.

    Args:
        loss: ``"softmax"`` (multinomial logistic regression) or ``"squared"`` (ridge regression on one-hot labels).
        l2: Weight of half the squared coefficients beside the sum of the losses, above 0; or ``"auto"``: where the
            head leaves over as much of the moments as noise adds to them, which is known.
        project: Whether to move noisy moments to the nearest that labels can have, distributions over classes in each
            row, before the head is fitted. Where noise is large it takes much of it off; where it is small it costs
            a little.
        tol: Where it stops: the sum of the losses is then within about ``p k n tol**2`` of the least.

    Attributes:
        classes_: The declared classes.
        coef_: Coefficients, shape (k, p).
        l2_: The penalty that was used.
        norm_: The length that rows are cut to, as they were for the curator.

    Guarantee:
        What is learned from an answer is covered by the answer's guarantee, at no further cost; so is choosing ``l2``,
        which looks at the answer and its law alone.

    References:
        Chaudhuri, Monteleoni and Sarwate 2011, for noise on the linear term of a convex loss, which is all of it that
        labels are in where features are public; Morozov 1966, for the penalty.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, LabelMoments
        >>> from labeldp.learning.sklearn import MomentClassifier
        >>> space, features = Classes(["no", "yes"]), np.repeat([[-1.0, 1.0], [1.0, 1.0]], 500, axis=0)
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> answer = curator.answer(LabelMoments(space, 0.5, 1e-6, features))
        >>> MomentClassifier().fit(features, answer).predict([[-0.9, 1.0], [0.9, 1.0]]).tolist()
        ['no', 'yes']
    """

    def __init__(
        self,
        *,
        loss: HeadLoss = "softmax",
        l2: float | Literal["auto"] = "auto",
        project: bool = True,
        tol: float = 1e-5,
    ) -> None:
        self.loss = loss
        self.l2 = l2
        self.project = project
        self.tol = tol

    def fit(self, X: Any, y: Answer) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the curator was asked about, and the answer to ``LabelMoments``."""
        answer = answered(y, ("label-moments",))
        self.classes_ = np.array(answer.space.points)
        return self._fit(X, answer)

    def decision_function(self, X: Any) -> Float[np.ndarray, "n ..."]:  # noqa: N803
        """Scores of shape (n, k); with two classes that of the second over the first, of shape (n,)."""
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k); with the squared loss the distribution nearest to scores."""
        scores = self._scores(X)
        if self.loss == "softmax":
            return softmax(scores)
        return nearest_distributions(scores + 1.0 / scores.shape[1])

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most likely true class of each row."""
        most = np.argmax(self._scores(X), axis=1)
        return np.asarray(self.classes_[most])


class MomentRegressor(MomentHead, NumberRegressor):
    """Ridge regression of real labels on public features, with noisy number moments in the place of labels.

    Least squares needs no more of labels than their sums with the features, which a curator gives once
    (``NumberMoments``). There is no intercept of its own: put a column of ones among the features, for the curator too.

    Args:
        l2: Weight of half the squared coefficients beside the sum of the losses, above 0; or ``"auto"``: where the
            head leaves over as much of the moments as noise adds to them, which is known.
        project: Whether to move noisy moments to the nearest that labels of the range can have.
        tol: As for ``MomentClassifier``.

    Attributes:
        coef_: Coefficients of the two ends of the range, shape (2, p).
        range_: The ends of the declared range, which predictions are cut to.
        l2_: The penalty that was used.
        norm_: The length that rows are cut to, as they were for the curator.

    Guarantee:
        As for ``MomentClassifier``.

    References:
        As for ``MomentClassifier``.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval, NumberMoments
        >>> from labeldp.learning.sklearn import MomentRegressor
        >>> space, features = Interval(0, 10, 1), np.repeat([[-1.0, 1.0], [1.0, 1.0]], 5000, axis=0)
        >>> curator = Curator([2] * 5000 + [8] * 5000, space)
        >>> answer = curator.answer(NumberMoments(space, 1.0, 1e-6, features))
        >>> MomentRegressor().fit(features, answer).predict([[-1.0, 1.0], [1.0, 1.0]]).round(0).tolist()
        [2.0, 8.0]
    """

    loss: HeadLoss = "squared"

    def __init__(self, *, l2: float | Literal["auto"] = "auto", project: bool = True, tol: float = 1e-5) -> None:
        self.l2 = l2
        self.project = project
        self.tol = tol

    def fit(self, X: Any, y: Answer) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the curator was asked about, and the answer to ``NumberMoments``."""
        answer = answered(y, ("number-moments",))
        self.range_ = (float(answer.space.points[0]), float(answer.space.points[-1]))
        return self._fit(X, answer)

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The label of each row, within the declared range."""
        low, high = self.range_
        return np.asarray(low + (high - low) * np.clip(0.5 + self._scores(X)[:, 1], 0.0, 1.0))
