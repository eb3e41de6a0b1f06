"""Whatever learns: learners for released labels as they are, and scikit-learn's classifiers made into such."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError, LabelDPError
from labeldp.learning.features import row_count, take_rows
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.learning.sklearn._softmax import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.privacy import LabelSpace
from labeldp.release import Release

#: Rows that learners are tried on, and how many of them may be rows with numbers that are not finite.
_TRIED, _NOT_FINITE = 256, 16
#: What makes a trial short, and leaves nothing of it, where a learner has such a parameter.
_SHORT: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"epochs": lambda asked: min(asked, 1), "checkpoint": lambda _: None, "report": lambda _: None}
)


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


def rehearse(learner: Any, features: Any, space: LabelSpace) -> None:
    """Fit a copy on a few rows with labels that are made up, so that what does not fit shows before a label is drawn.

    Rows with numbers that are not finite are among them, since some learners refuse these.

    Raises:
        InputError: It cannot be fitted.
    """
    rows = _telling_rows(features)
    made_up = Release.public([space.points[code] for code in np.arange(len(rows)) % space.size], space)
    model = clone(learner, safe=False)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    settings = last.get_params(deep=False) if hasattr(last, "get_params") else {}
    try:
        if short := {name: shorter(settings[name]) for name, shorter in _SHORT.items() if name in settings}:
            last.set_params(**short)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(take_rows(features, rows), made_up)
    except LabelDPError:
        raise
    except Exception as problem:
        raise InputError(
            f"expected features that {type(last).__name__} can be fitted on, found that it cannot, in a trial with "
            f"labels that were made up: {problem}"
        ) from problem


def _telling_rows(features: Any) -> np.ndarray:
    """Some rows from all over, and some with numbers that are not finite."""
    count = row_count(features)
    some = np.unique(np.linspace(0, count - 1, _TRIED).astype(np.int64))
    if not isinstance(features, np.ndarray) or features.dtype.kind != "f":
        return some
    wrong = np.flatnonzero(~np.isfinite(features.reshape(count, -1)).all(axis=1))[:_NOT_FINITE]
    return np.union1d(some, wrong)


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
