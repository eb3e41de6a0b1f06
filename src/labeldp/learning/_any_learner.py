"""Whatever learns: learners for released labels as they are, and scikit-learn's classifiers made into such."""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError
from labeldp.learning._soft import ProbabilityClassifier
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression


def for_released_labels(learner: Any) -> Any:
    """A learner for released labels: as it is, around a scikit-learn classifier, or softmax regression for None.

    Raises:
        InputError: It has no ``fit`` or no ``predict_proba``, or is a class.
    """
    if learner is None:
        return SoftmaxRegression()
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict_proba")):
        raise InputError(
            f"expected a learner with fit and predict_proba, found {learner!r:.80}; give SoftmaxRegression()"
        )
    last = learner.steps[-1][1] if isinstance(learner, Pipeline) else learner
    bare = isinstance(last, ClassifierMixin) and not isinstance(last, ProbabilityClassifier)
    return ReleasedLabelClassifier(learner) if bare else learner


def fitted_copy(learner: Any, features: Any, labels: Any) -> Any:
    """A copy of a learner, fitted."""
    model = clone(learner, safe=False)
    model.fit(features, labels)
    return model


def warm_start_of(learner: Any) -> str | None:
    """The parameter by which a learner, or the last step of a pipeline, goes on from what it knows."""
    name = f"{learner.steps[-1][0]}__warm_start" if isinstance(learner, Pipeline) else "warm_start"
    return name if hasattr(learner, "get_params") and name in learner.get_params() else None
