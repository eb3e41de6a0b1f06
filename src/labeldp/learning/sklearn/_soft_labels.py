"""Any scikit-learn classifier on soft labels: each row once for every class that is likely enough, with its weight."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from labeldp.errors import InputError
from labeldp.learning.features import take_rows
from labeldp.learning.losses import gain, released
from labeldp.release import Release


class ProbabilityClassifier(ClassifierMixin, BaseEstimator):
    """What learners share that give probabilities: predicted classes, and a score on released labels."""

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k)."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """The most likely true class of each row."""
        most = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[most])

    def score(self, X: Any, y: Release, sample_weight: Any = None) -> float:  # noqa: N803
        """The mean log likelihood of released labels, in nats over a model that knows nothing; more is better."""
        check_is_fitted(self, "classes_")
        release = released(y)
        if not np.array_equal(np.array(release.space.points), self.classes_):
            raise InputError(
                "expected a release of the classes that the model was fitted on, in their order, found other classes "
                "or another order; declare the same label space"
            )
        return float(np.average(gain(release, self.predict_proba(X)), weights=sample_weight))


def fitted_softly(
    estimator: Any,
    features: Any,
    soft: Float[np.ndarray, "n k"],
    weights: Float[np.ndarray, "n"],
    smallest: float,
) -> Any:
    """A copy of a classifier, fitted on every row once for each class that is likely enough.

    Args:
        estimator: A classifier that takes weights, or a pipeline that ends in one; None for logistic regression.
        features: Features in any form that the classifier takes.
        soft: Probabilities of the classes of each row; their codes are what is fitted.
        weights: Weights of rows.
        smallest: Shares of a row below this are left out.
    """
    model = LogisticRegression(max_iter=1000) if estimator is None else clone(estimator)
    rows, codes = np.nonzero(soft >= smallest)
    return model.fit(take_rows(features, rows), codes, **{weight_keyword(model): soft[rows, codes] * weights[rows]})


def soft_probabilities(model: Any, features: Any, classes: int) -> Float[np.ndarray, "n k"]:
    """Probabilities of all declared classes, also those that no row was fitted on."""
    found = np.asarray(model.predict_proba(features))
    spread = np.zeros((len(found), classes))
    spread[:, np.asarray(model.classes_, dtype=np.int64)] = found
    return spread


def weight_keyword(model: Any) -> str:
    """What a classifier, or the last step of a pipeline, calls its weights of rows."""
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        model, prefix = last, f"{name}__"
    else:
        prefix = ""
    if not has_fit_parameter(model, "sample_weight"):
        raise InputError(f"expected a classifier that takes sample_weight, found {type(model).__name__}")
    return f"{prefix}sample_weight"
