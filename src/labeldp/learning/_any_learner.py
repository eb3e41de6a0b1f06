"""Whatever learns: learners for released labels as they are, and scikit-learn's classifiers made into such."""

from __future__ import annotations

from pathlib import Path
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


def in_folder_of_stage(model: Any, number: int) -> Any:
    """A model that keeps its state in a folder, with one folder for each stage: the states differ."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    folder = last.get_params(deep=False).get("checkpoint") if hasattr(last, "get_params") else None
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        last.set_params(checkpoint=Path(folder) / f"stage-{number + 1}")
    return model


def going_on(model: Any, learner: Any) -> Any:
    """A fitted model with the parameters of a learner of its type, which goes on from what the model knows.

    Of pipelines the last step goes on, and the others begin anew. None where there is no parameter ``warm_start``, or
    the learner is of another type.
    """
    if type(model) is not type(learner):
        return None
    fresh = clone(learner, safe=False)
    if isinstance(fresh, Pipeline):
        name, step = fresh.steps[-1]
        last = going_on(model.steps[-1][1], step)
        return None if last is None else fresh.set_params(**{name: last})
    settings = fresh.get_params(deep=False) if hasattr(fresh, "get_params") else {}
    return model.set_params(**{**settings, "warm_start": True}) if "warm_start" in settings else None
