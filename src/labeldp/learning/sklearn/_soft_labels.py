"""Scikit-learn classifiers on soft labels: each row once for every likely class, weighted by its probability."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from labeldp._shapes import Float, Int
from labeldp.columns import Columns, floats_or_none, kind_of, result_or_none
from labeldp.errors import InputError, LabelDPError, NotTrueLabelsError, RowsError
from labeldp.learning.choice import Held, OneSetting
from labeldp.learning.features import indexable_rows, missing_values, row_count, take_rows
from labeldp.learning.losses import gain
from labeldp.privacy import LabelSpace, columns_in_order, predicted_columns
from labeldp.release import Release, check_same_rows


class ProbabilityClassifier(OneSetting, ClassifierMixin, BaseEstimator):
    """Base of classifiers with probabilities: predicted classes, and a score on released labels.

    ``classes_`` is sorted, as scikit-learn requires, and all that a fitted learner shows has its order: columns of
    probabilities and scores, coefficients, class distributions. What is computed from a release or an answer has the
    declared order; ``fit`` changes it by the codes from ``_set_classes``.
    """

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        raise NotImplementedError

    def _set_classes(self, space: LabelSpace) -> Int[np.ndarray, "k"]:
        """Set ``classes_`` to the sorted classes of a space, and return their codes, in that order."""
        self.classes_ = np.array(space.points)[space.sorted_codes]
        return space.sorted_codes

    def _declared(self, values: Float[np.ndarray, "n k"], space: LabelSpace) -> Float[np.ndarray, "n k"]:
        """Columns of probabilities or scores in the declared order of a space."""
        if space.size != len(self.classes_) or not np.isin(np.array(space.points), self.classes_).all():
            raise InputError(
                "expected a release of the classes that the model was fitted on, found other classes; declare the "
                "same classes"
            )
        return columns_in_order(values, self.classes_, space.points)

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most likely true class of each row."""
        most = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[most])

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean log likelihood of released labels, in nats over the uniform model; more is better."""
        check_is_fitted(self, "classes_")
        if not isinstance(y, Release):
            raise NotTrueLabelsError(
                f"expected a Release as labels, found {type(y).__name__}; wrap public labels with "
                "Release.public(labels, space), or use accuracy_score(y, model.predict(X)) for their accuracy"
            )
        release = y
        check_same_rows(X, release)
        probabilities = self._declared(self.predict_proba(X), release.space)
        return float(np.average(gain(release, probabilities), weights=sample_weight))

    def _predict_held(self, held: Held) -> Float[np.ndarray, "m k"]:
        return predicted_columns(self, held.features, held.release.space)


class ScoreClassifier(ProbabilityClassifier):
    """A classifier that predicts the class of the largest score."""

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """The scores of rows, in the order of ``classes_``; not fitted is an error."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> Float[np.ndarray, "n ..."]:  # noqa: N803
        """Scores by ``classes_``, shape (n, k); with two the score of the second minus the first, shape (n,)."""
        scores = self._scores(X)
        return np.asarray(scores[:, 1] - scores[:, 0]) if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The class with the largest score in each row."""
        most = np.argmax(self._scores(X), axis=1)  # first, so that an unfitted learner raises NotFittedError
        return np.asarray(self.classes_[most])


class SparseInput:
    """An estimator that takes sparse features too."""

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: sparse features are taken."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


class MetaEstimator(MetaEstimatorMixin):
    """An estimator that takes the features that another one does."""

    def _inner(self) -> Any:
        """The estimator that the features are for."""
        return LogisticRegression() if self.estimator is None else self.estimator

    def _count_features(self) -> None:
        """Take the number of features from the fitted estimator, if it has one."""
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: the input is that of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._inner()).input_tags
        return tags


def fit_on_soft_labels(
    estimator: Any,
    features: Any,
    soft: Float[np.ndarray, "n k"],
    weights: Float[np.ndarray, "n"],
    smallest: float,
) -> Any:
    """Fit a copy of a classifier on every row once for each likely class.

    Args:
        estimator: A classifier that takes weights, or a pipeline that ends in one; None for logistic regression.
        features: Features in any form that the classifier takes.
        soft: Class probabilities of each row; the classifier is fitted on the numbers of columns.
        weights: Weights of rows.
        smallest: Probabilities below this are dropped.
    """
    model = LogisticRegression(max_iter=1000) if estimator is None else clone(estimator)
    rows, codes = np.nonzero(soft >= smallest)
    weighted = {weight_keyword(model): soft[rows, codes] * weights[rows]}
    return of_features(model.fit, take_rows(features, rows), codes, **weighted)


def soft_probabilities(model: Any, features: Any, classes: int) -> Float[np.ndarray, "n k"]:
    """Probabilities of all columns that ``fit_on_soft_labels`` had, zero for those that it was not fitted on."""
    known = np.asarray(of_features(model.predict_proba, indexable_rows(features)))
    probabilities = np.zeros((len(known), classes))
    probabilities[:, np.asarray(model.classes_, dtype=np.int64)] = known
    return probabilities


def weight_keyword(model: Any) -> str:
    """The keyword for row weights of a classifier or of the last step of a pipeline."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        model, prefix = last, f"{name}__"
    else:
        prefix = ""
    if not has_fit_parameter(model, "sample_weight"):
        raise InputError(
            f"expected a classifier that takes sample_weight, found {type(model).__name__}; use NeighborsClassifier, "
            "or another of labeldp.learning.sklearn"
        )
    return f"{prefix}sample_weight"


def checked_features(estimator: Any, features: Any, **requirements: Any) -> Any:
    """Features as ``validate_data`` of scikit-learn converts them, under the guard of ``of_features``."""
    return of_features(partial(validate_data, estimator), features, **requirements)


def of_features(call: Callable[..., Any], features: Any, *arguments: Any, **named: Any) -> Any:
    """The result of a function of features in another library, whose message may quote values that are no numbers.

    Raises:
        InputError: It fails, and features are no matrix of real numbers, or a column has an infinite one, or a missing
            one that the function does not take.
        ValueError: It fails on a matrix of real numbers, such as for its shape.
    """
    try:
        return call(features, *arguments, **named)
    except LabelDPError:
        raise
    except (ValueError, TypeError) as error:  # a type error of an array is scikit-learn's contract
        explained = isinstance(error, ValueError) or hasattr(features, "columns")
        problem = _problem_of(features, "NaN" in str(error)) if explained else ""
        if not problem:
            raise
    raise InputError(problem)


def _problem_of(features: Any, missing: bool) -> str:
    """The reason why features are no matrix of finite numbers; empty if they are one, and for sparse ones.

    Args:
        features: Features in any container.
        missing: True if NaN is no number either.
    """
    columns: list[tuple[object, Any]]
    if issparse(features):
        return ""
    if hasattr(features, "columns"):
        columns = list(Columns(indexable_rows(features)))
        if not columns:
            return "expected at least one column of features, found none"
    else:
        numbers = floats_or_none(features)
        if numbers is None or numbers.ndim != 2:
            return (
                f"expected features in rows and columns that the learner takes, found others ({kind_of(features)}). "
                "Reshape your data if it has no columns, and encode texts and categories as numbers. Complex data not "
                "supported"
            )
        columns = list(enumerate(numbers.T))
    return next(filter(None, (_problem_of_column(name, values, missing) for name, values in columns)), "")


def _problem_of_column(name: object, values: Any, missing: bool) -> str:
    """The reason why a column has other values than finite numbers; empty if it has none."""
    array, numbers = result_or_none(lambda: np.asarray(values)), floats_or_none(values)
    if numbers is not None and np.isinf(numbers).any():
        return (
            f"expected finite features, found infinity in the column {name!r}; give a number, or NaN where the learner "
            "takes missing values"
        )
    if numbers is not None and not (missing and np.isnan(numbers).any()):
        return ""
    if array is not None and (gaps := missing_values(array)).any() and floats_or_none(array[~gaps]) is not None:
        what, advice = "missing values", "fill them, or give NaN in floats to a learner that takes missing values"
    else:
        what = "values that are no real numbers"
        advice = "encode texts, categories and dates as numbers, or leave it out"
    column = f"the column {name!r} ({kind_of(values)})"
    return f"expected features that the learner takes, found {what} in {column}; {advice}"


def check_released_rows(features: Any, release: Release) -> None:
    """Refuse features and a release of different length or of other rows, and empty ones."""
    rows = row_count(features)
    if rows != len(release):
        raise RowsError(f"expected a released label for each of {rows} rows of features, found {len(release)}")
    if rows == 0:
        raise RowsError("expected at least one row, found none")
    check_same_rows(features, release)
