"""Learners from what a curator answered about many labels at once: of cells of rows, or sums of features by class."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float, Int
from sklearn.base import MetaEstimatorMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.errors import InputError
from labeldp.learning._cells import QUERIES, answered, cell_distributions, numbers_of
from labeldp.learning._fitting import softmax
from labeldp.learning._moments import HEADS, HeadLoss, Moments, Rotated, penalty_at_noise, projected
from labeldp.learning._soft import (
    ProbabilityClassifier,
    fitted_softly,
    indexable_rows,
    row_weights,
    soft_probabilities,
)
from labeldp.privacy import nearest_distributions
from labeldp.release import Answer, Release


def cells_of_rows(clusters: Any, features: Any, answer: Answer | Release, cells: Any) -> Int[np.ndarray, "n"]:
    """The cell of each row that an answer is about, or of a release: as given, or as clusters have or predict it."""
    count = len(answer) if isinstance(answer, Release) else answer.rows
    if not hasattr(clusters, "predict"):
        raise InputError(
            f"expected clusters that predict the cell of a row, found {type(clusters).__name__}; give those of "
            "labeldp.learning.clusters.cluster or labeldp.learning.cells, or a fitted KMeans"
        )
    known = getattr(clusters, "numbers", None) if cells is None else cells
    rows = indexable_rows(features)
    if rows.shape[0] != count:
        raise InputError(f"expected the {count} rows that the answer is about, found {rows.shape[0]}")
    return numbers_of(clusters.predict(rows) if known is None else known, count)


class CellClassifier(ProbabilityClassifier):
    """A table: each row has the class distribution of its cell.

    Args:
        clusters: What gives rows their cells: ``labeldp.learning.clusters.Clusters``, or any fitted object whose
            ``predict`` gives numbers from 0, such as scikit-learn's ``KMeans`` (in searches, in a ``FrozenEstimator``).

    Attributes:
        classes_: The declared classes.
        distributions_: The class distribution of each cell, shape (cells, k).

    Guarantee:
        What is learned from an answer is covered by the answer's guarantee, at no further cost. Cells are taken from
        features alone, and must have been for the answer too.

    References:
        Efron and Morris 1973, for what cells with few rows are given.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, NoisyHistogram
        >>> from labeldp.learning.clusters import cluster
        >>> from labeldp.learning.sklearn import CellClassifier
        >>> space, features = Classes(["no", "yes"]), np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> clusters = cluster(features, 2)
        >>> query = NoisyHistogram(space, epsilon=0.5, cells=clusters.numbers)
        >>> answer = Curator(["no"] * 500 + ["yes"] * 500, space).answer(query)
        >>> CellClassifier(clusters).fit(features, answer).predict([[0.1], [0.9]]).tolist()
        ['no', 'yes']
    """

    def __init__(self, clusters: Any) -> None:
        self.clusters = clusters

    def fit(self, X: Any, y: Answer, cells: Any = None) -> Self:  # noqa: N803
        """Read the table off an answer.

        Args:
            X: Features of the n rows that the answer is about.
            y: The answer to ``NoisyHistogram``, ``NoisyArgmax`` or ``ExchangedLabels``.
            cells: The cell of each row that the curator was asked about; by default that of ``clusters``: the numbers
                of its rows if it has them, else what it predicts.
        """
        answer = answered(y, QUERIES)
        numbers = cells_of_rows(self.clusters, X, answer, cells)
        self.classes_ = np.array(answer.space.points)
        self.distributions_ = cell_distributions(answer, numbers)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return np.asarray(self.distributions_[np.asarray(self.clusters.predict(X))])


class SoftLabelClassifier(MetaEstimatorMixin, ProbabilityClassifier):
    """Any scikit-learn classifier on the class distributions of cells: what cells say of rows, smoothed by features.

    Every row stands once for each class, weighted by the class's share in the row's cell.

    Args:
        estimator: A classifier with ``predict_proba`` that takes ``sample_weight``, or a pipeline that ends in one;
            by default logistic regression, which is softmax regression on soft labels.
        smallest_weight: Shares of a row below this are left out.

    Attributes:
        classes_: The declared classes.
        distributions_: The class distribution of each cell, shape (cells, k).
        estimator_: The fitted classifier, of class codes.

    Guarantee:
        What is learned from an answer is covered by the answer's guarantee, at no further cost. Cells are public and
        must not have been computed from these labels.

    Example:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from labeldp import Classes, Curator, NoisyHistogram
        >>> from labeldp.learning.clusters import cluster
        >>> from labeldp.learning.sklearn import SoftLabelClassifier
        >>> space, features = Classes(["no", "yes"]), np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> clusters = cluster(features, 2)
        >>> query = NoisyHistogram(space, epsilon=0.5, cells=clusters.numbers)
        >>> answer = Curator(["no"] * 500 + ["yes"] * 500, space).answer(query)
        >>> model = SoftLabelClassifier(DecisionTreeClassifier(max_depth=2)).fit(features, answer, clusters)
        >>> model.predict([[0.1], [0.9]]).tolist()
        ['no', 'yes']
    """

    def __init__(self, estimator: Any = None, *, smallest_weight: float = 1e-3) -> None:
        self.estimator = estimator
        self.smallest_weight = smallest_weight

    def fit(self, X: Any, y: Answer, cells: Any = None, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit on features of n rows, in any form that the classifier takes.

        Args:
            X: Features of the n rows that the answer is about.
            y: The answer to ``NoisyHistogram``, ``NoisyArgmax`` or ``ExchangedLabels``.
            cells: The cell of each row that the curator was asked about: numbers from 0, or ``Clusters``. They must
                be given.
            sample_weight: Weights of rows.
        """
        answer, features = answered(y, QUERIES), indexable_rows(X)
        if cells is None:
            raise InputError(
                f"expected the cell of each of the {answer.rows} rows that the answer is about, found none; give "
                "cells= that the curator was asked about"
            )
        if features.shape[0] != answer.rows:
            raise InputError(f"expected the {answer.rows} rows that the answer is about, found {features.shape[0]}")
        numbers = numbers_of(cells, answer.rows)
        weights = row_weights(sample_weight, answer.rows)
        self.classes_ = np.array(answer.space.points)
        self.distributions_ = cell_distributions(answer, numbers)
        soft = self.distributions_[numbers]
        self.estimator_ = fitted_softly(self.estimator, features, soft, weights, self.smallest_weight)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return soft_probabilities(self.estimator_, X, len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        """It takes the features that the classifier takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(LogisticRegression() if self.estimator is None else self.estimator).input_tags
        return tags


class MomentClassifier(ProbabilityClassifier):
    """A linear head on public features, fitted to optimality with noisy label moments in the place of labels.

    The label-dependent part of a softmax or ridge loss is linear in the labels, so the sums of features by class, which
    a curator gives once (``LabelMoments``), are all that it takes. There are no steps, epochs or batches to pay for.
    On the places of ``labeldp.learning.clusters.embed``, these are eigenvector moments.

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
        self.norm_ = math.sqrt(int(answer.law["sensitivity_squared"]) / 2) * step
        rotated = Rotated.of(self._cut(features))
        moments = Moments.of(answer.value, answer.noise_deviation, rotated, answer.rows * 2 * step)
        fit = HEADS[self.loss]
        self.classes_ = np.array(answer.space.points)
        self.l2_ = penalty_at_noise(rotated, moments, fit, self.tol) if self.l2 == "auto" else float(self.l2)
        if self.project:
            moments = projected(rotated, moments, self.norm_, self.tol)
        self.coef_ = (rotated.vectors @ fit(rotated, moments, self.l2_, self.tol, None)).T
        return self

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

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        features = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(self._cut(features) @ self.coef_.T)

    def _cut(self, features: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Features as the curator sums them: longer rows are cut."""
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features * (self.norm_ / np.maximum(lengths, self.norm_)))
