"""Classifiers learned from a curator's answers about cells of rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.cells import CLASS_READINGS, cell_distributions, numbers_of, require_answer
from labeldp.learning.features import indexable_rows, row_weights
from labeldp.learning.sklearn._soft_labels import (
    MetaEstimator,
    ProbabilityClassifier,
    fit_on_soft_labels,
    soft_probabilities,
)
from labeldp.release import Answer, Release


def cells_of_rows(clusters: Any, features: Any, answer: Answer | Release, cells: Any) -> Int[np.ndarray, "n"]:
    """The cell of each row of an answer or release: the given ones, those that clusters store, or their predictions."""
    count = len(answer) if isinstance(answer, Release) else answer.rows
    if not hasattr(clusters, "predict"):
        raise InputError(
            f"expected clusters that predict the cell of a row, found {type(clusters).__name__}; give a result "
            "of labeldp.learning.cells, such as that of cluster, or a fitted KMeans"
        )
    stored = getattr(clusters, "numbers", None) if cells is None else cells
    rows = indexable_rows(features)
    if rows.shape[0] != count:
        raise InputError(f"expected the {count} rows that the answer is about, found {rows.shape[0]}")
    return numbers_of(clusters.predict(rows) if stored is None else stored, count)


class CellClassifier(ProbabilityClassifier):
    """Classifier by cells: each row has the class distribution of its cell.

    Args:
        clusters: Model that assigns rows to cells: ``labeldp.learning.cells.Clusters``, or any fitted object whose
            ``predict`` returns numbers from 0, such as scikit-learn's ``KMeans`` (wrapped in a ``FrozenEstimator`` for
            model selection).

    Attributes:
        classes_: The declared classes.
        distributions_: Class distribution of each cell, shape (cells, k).

    Guarantee:
        Post-processing of an answer: covered by the answer's guarantee at no further cost. Cells depend on features
        alone, and must have done so for the answer too.

    References:
        Efron and Morris 1973, for the shrinkage of cells with few rows.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, NoisyHistogram
        >>> from labeldp.learning.cells import cluster
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
        """Estimate the class distribution of each cell from an answer.

        Args:
            X: Features of the n rows that the answer is about.
            y: The answer to ``NoisyHistogram``, ``NoisyArgmax``, ``ExchangedLabels`` or ``ShuffledLabels``.
            cells: The cell of each row in the query; by default the numbers that ``clusters`` stores, else its
                predictions.
        """
        answer = require_answer(y, CLASS_READINGS)
        numbers = cells_of_rows(self.clusters, X, answer, cells)
        codes = self._set_classes(answer.space)
        self.distributions_ = cell_distributions(answer, numbers)[:, codes]
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return np.asarray(self.distributions_[np.asarray(self.clusters.predict(X))])


@documented_in("labeldp.learning.sklearn")
class SoftLabelClassifier(MetaEstimator, ProbabilityClassifier):
    """Scikit-learn classifier fitted on the class distributions of cells, which it smooths by features.

    Every row is used once for each class, weighted by the class's share in the row's cell.

    Args:
        estimator: A classifier with ``predict_proba`` that takes ``sample_weight``, or a pipeline that ends in one;
            by default logistic regression, which is softmax regression on soft labels.
        smallest_weight: Class shares below this are dropped.

    Attributes:
        classes_: The declared classes.
        distributions_: Class distribution of each cell, shape (cells, k).
        estimator_: The fitted classifier, of class codes.

    Guarantee:
        Post-processing of an answer: covered by the answer's guarantee at no further cost. Cells are public and must
        not depend on these labels.

    Example:
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from labeldp import Classes, Curator, NoisyHistogram
        >>> from labeldp.learning.cells import cluster
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
            y: The answer to ``NoisyHistogram``, ``NoisyArgmax``, ``ExchangedLabels`` or ``ShuffledLabels``.
            cells: The cell of each row in the query: numbers from 0, or ``Clusters``. Required.
            sample_weight: Weights of rows.
        """
        answer, features = require_answer(y, CLASS_READINGS), indexable_rows(X)
        if cells is None:
            raise InputError(
                f"expected the cell of each of the {answer.rows} rows that the answer is about, found none; give "
                "cells= as in the query"
            )
        if features.shape[0] != answer.rows:
            raise InputError(f"expected the {answer.rows} rows that the answer is about, found {features.shape[0]}")
        numbers = numbers_of(cells, answer.rows)
        weights = row_weights(sample_weight, answer.rows)
        codes = self._set_classes(answer.space)
        self.distributions_ = cell_distributions(answer, numbers)[:, codes]
        soft = self.distributions_[numbers]
        self.estimator_ = fit_on_soft_labels(self.estimator, features, soft, weights, self.smallest_weight)
        self._count_features()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return soft_probabilities(self.estimator_, X, len(self.classes_))
