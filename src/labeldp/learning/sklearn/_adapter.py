"""Adapter of scikit-learn classifiers to released labels; learners of this package stay as they are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.pipeline import Pipeline

from labeldp._shapes import Int
from labeldp.errors import InputError, LabelDPError
from labeldp.learning.features import missing_values, row_count, take_rows
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.learning.sklearn._softmax import ReleasedLabelClassifier, SoftmaxRegression
from labeldp.privacy import LabelSpace
from labeldp.release import Release

#: Rows of a trial fit, and how many rows with missing or infinite values are added at most.
TRIAL_ROWS, _NOT_FINITE = 256, 256
#: Parameters of learners that a trial fit overrides, so that it is short and leaves no files.
_TRIAL_PARAMETERS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "epochs": lambda epochs: min(epochs, 1),
        "training": lambda training: {**(training or {}), "epochs": 1, "checkpoint": None},
        "checkpoint": lambda _: None,
        "report": lambda _: None,
    }
)


def for_released_labels(learner: Any) -> Any:
    """A learner of released labels: the given one, a wrapped scikit-learn classifier, or softmax regression for None.

    Raises:
        InputError: The learner has no ``fit`` or no ``predict_proba``, or is a class.
    """
    if learner is None:
        return SoftmaxRegression()
    if isinstance(learner, type) or not (hasattr(learner, "fit") and hasattr(learner, "predict_proba")):
        raise InputError(
            f"expected a learner with fit and predict_proba, found {learner!r:.80}; give SoftmaxRegression()"
        )
    last = _last_step(learner)
    foreign = isinstance(last, ClassifierMixin) and not isinstance(last, ProbabilityClassifier)
    return ReleasedLabelClassifier(learner) if foreign else learner


def rehearse(learner: Any, features: Any, space: LabelSpace) -> None:
    """Fit a copy on a few rows with invented labels, so that errors show before a label is drawn.

    The rows include some with missing or infinite values, which some learners refuse.
    """
    rows = _trial_rows(features)
    invented = Release.public([space.points[code] for code in np.arange(len(rows)) % space.size], space)
    model = clone(learner, safe=False)
    last = _last_step(model)
    settings = last.get_params(deep=False) if hasattr(last, "get_params") else {}
    try:
        if trial := {name: value(settings[name]) for name, value in _TRIAL_PARAMETERS.items() if name in settings}:
            last.set_params(**trial)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(take_rows(features, rows), invented)
        return
    except LabelDPError:
        raise
    except Exception as problem:  # noqa: BLE001 (of any learner; its message may quote a value)
        kind = type(problem).__name__
    raise InputError(
        f"expected features that {type(last).__name__} can be fitted on, found {kind} in a trial with invented labels; "
        "fit it on them with invented labels to see why"
    )


def _last_step(learner: Any) -> Any:
    """The last step of a pipeline, or the learner itself."""
    return learner.steps[-1][1] if isinstance(learner, Pipeline) else learner


def _trial_rows(features: Any) -> np.ndarray:
    """Equally spaced rows, and the first row of each column with a missing or an infinite value."""
    count = row_count(features)
    spaced = np.unique(np.linspace(0, count - 1, TRIAL_ROWS).astype(np.int64))
    return np.union1d(spaced, _not_finite(features)[:_NOT_FINITE])


def _not_finite(features: Any) -> Int[np.ndarray, "m"]:
    """The first row of each column with a missing value, and with an infinite one."""
    rows = [np.zeros(0, dtype=np.int64)]
    for part in features if isinstance(features, tuple) else (features,):
        for columns in _columns(part):
            infinite = np.isinf(columns) if columns.dtype.kind == "f" else np.zeros_like(columns, dtype=np.bool_)
            rows.extend(found.argmax(axis=0)[found.any(axis=0)] for found in (missing_values(columns), infinite))
    return np.unique(np.concatenate(rows))


def _columns(features: Any) -> Iterator[np.ndarray]:
    """The columns of an array together, or those of a frame one by one, each of shape (n, m)."""
    if isinstance(features, np.ndarray):
        yield features.reshape(len(features), -1)
    for name in dict.fromkeys(getattr(features, "columns", ())):
        yield np.asarray(features[name]).reshape(len(features), -1)


def set_stage_checkpoint(model: Any, number: int) -> Any:
    """Give a model with a checkpoint folder a sub-folder of its own for a stage, and return it."""
    last = _last_step(model)
    folder = last.get_params(deep=False).get("checkpoint") if hasattr(last, "get_params") else None
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        last.set_params(checkpoint=Path(folder) / f"stage-{number + 1}")
    return model


def warm_start(model: Any, learner: Any) -> Any:
    """A fitted model with the parameters of a learner of its type and ``warm_start`` on.

    Only the last step of a pipeline starts warm; the others start anew. The result is None if the learner has another
    type or no parameter ``warm_start``.
    """
    if type(model) is not type(learner):
        return None
    fresh = clone(learner, safe=False)
    if isinstance(fresh, Pipeline):
        name, step = fresh.steps[-1]
        last = warm_start(model.steps[-1][1], step)
        return None if last is None else fresh.set_params(**{name: last})
    settings = fresh.get_params(deep=False) if hasattr(fresh, "get_params") else {}
    return model.set_params(**{**settings, "warm_start": True}) if "warm_start" in settings else None
