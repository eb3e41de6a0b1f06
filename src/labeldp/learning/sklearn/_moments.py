"""Linear heads fitted to optimality on noisy label moments, whose noise distribution is known."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.cells import require_answer
from labeldp.learning.heads import (
    HEADS,
    HeadLoss,
    Moments,
    RotatedFeatures,
    penalty_at_noise,
    project_moments,
    softmax,
)
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.learning.sklearn._soft_labels import ScoreClassifier, checked_features
from labeldp.mechanisms.queries import ClassSums, EndSums, FeatureSums
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Answer


@dataclass(eq=False, repr=False)
class MomentHead(BaseEstimator):
    """Base of linear heads from noisy moments, of classes or of the two ends of an interval."""

    _: KW_ONLY
    loss: HeadLoss = "softmax"
    l2: float | Literal["auto"] = "auto"
    project: bool = True
    tol: float = 1e-5

    def _fit(self, X: Any, sums: FeatureSums, rows: int) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the moments are of."""
        features = checked_features(self, X, dtype=np.float64)
        fit = HEADS[_checks.among(self.loss, "a loss", HEADS)]
        l2 = None if self.l2 == "auto" else _checks.positive(self.l2, "l2, if not 'auto',")
        if features.shape != (rows, len(sums.values)):
            raise InputError(
                f"expected the features that the moments were computed from, {rows} rows and "
                f"{len(sums.values)} columns, "
                f"found shape {features.shape}"
            )
        self.norm_ = sums.norm
        rotated = RotatedFeatures.of(self._clip_norms(features))
        moments = Moments.of(sums.values, sums.deviation, rotated, rows * 2 * sums.step)
        self.l2_ = penalty_at_noise(rotated, moments, fit, self.tol) if l2 is None else l2
        if self.project:
            moments = project_moments(rotated, moments, self.norm_, self.tol)
        self.coef_ = (rotated.vectors @ fit(rotated, moments, self.l2_, self.tol, None)).T
        return self

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        features = checked_features(self, X, dtype=np.float64, reset=False)
        return np.asarray(self._clip_norms(features) @ self.coef_.T)

    def _clip_norms(self, features: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Rows with their norms clipped, as in the curator's sums."""
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features * (self.norm_ / np.maximum(lengths, self.norm_)))


class MomentClassifier(MomentHead, ScoreClassifier):
    """Linear classifier on public features, fitted to optimality on noisy label moments.

    The label-dependent part of a softmax or ridge loss is linear in the labels, so it is determined by the sums of
    features by class, which a curator answers once (``LabelMoments``). There are no steps, epochs or batches to pay
    for. On the places of ``labeldp.learning.cells.embed``, these are eigenvector moments.

    It has no separate intercept: add a column of ones to the features, for the curator too.

    Args:
        loss: ``"softmax"`` (multinomial logistic regression) or ``"squared"`` (ridge regression on one-hot labels).
        l2: Weight of half the squared coefficients beside the sum of the losses, above 0; or ``"auto"``: the penalty at
            which the residual moments have the known norm of the noise.
        project: True to project noisy moments onto those of distributions over classes in each row before the fit. It
            removes much of a large noise, and costs a little accuracy if the noise is small.
        tol: Tolerance of the fit: the sum of the losses is within about ``p k n tol**2`` of its minimum.

    Attributes:
        classes_: The declared classes.
        coef_: Coefficients, shape (k, p).
        l2_: The penalty used.
        norm_: Largest norm of a row; longer rows are clipped, as in the curator's sums.

    Guarantee:
        Post-processing of an answer: covered by the answer's guarantee at no further cost, including the choice of
        ``l2``, which uses the answer and its noise distribution alone.

    References:
        Chaudhuri, Monteleoni and Sarwate 2011, for noise on the linear term of a convex loss, the only term that
        depends on labels if features are public; Morozov 1966, for the penalty.

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

    def fit(self, X: Any, y: Answer) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the moments are of, and the answer to ``LabelMoments``."""
        answer = require_answer(y, (ClassSums,))
        codes = self._set_classes(answer.space)
        self._fit(X, cast(FeatureSums, answer.reading), answer.rows)
        self.coef_ = self.coef_[codes]
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k); with the squared loss those nearest to the scores."""
        scores = self._scores(X)
        if self.loss == "softmax":
            return softmax(scores)
        return nearest_distributions(scores + 1.0 / scores.shape[1])


@dataclass(eq=False, repr=False)
class MomentRegressor(MomentHead, NumberRegressor):
    """Ridge regression of numeric labels on public features, fitted on noisy number moments.

    Least squares depends on labels only through their sums with the features, which a curator answers once
    (``NumberMoments``). It has no separate intercept: add a column of ones to the features, for the curator too.

    Args:
        l2: Weight of half the squared coefficients beside the sum of the losses, above 0; or ``"auto"``: the penalty at
            which the residual moments have the known norm of the noise.
        project: True to project noisy moments onto those of labels in the declared range.
        tol: As for ``MomentClassifier``.

    Attributes:
        coef_: Coefficients of the two ends of the range, shape (2, p).
        range_: Ends of the declared range, to which predictions are clipped.
        l2_: The penalty used.
        norm_: Largest norm of a row; longer rows are clipped, as in the curator's sums.

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

    loss: HeadLoss = field(default="squared", init=False)

    def fit(self, X: Any, y: Answer) -> Self:  # noqa: N803
        """Fit on the features of shape (n, p) that the moments are of, and the answer to ``NumberMoments``."""
        answer = require_answer(y, (EndSums,))
        self.range_ = (float(answer.space.points[0]), float(answer.space.points[-1]))
        return self._fit(X, cast(FeatureSums, answer.reading), answer.rows)

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The predicted label of each row, within the declared range."""
        low, high = self.range_
        return np.asarray(low + (high - low) * np.clip(0.5 + self._scores(X)[:, 1], 0.0, 1.0))
