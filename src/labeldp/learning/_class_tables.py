"""Classifiers of the rows of a table: which there are, how they learn, and what is chosen among."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError
from labeldp.learning._frames import for_trees, scaled
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftLabelClassifier, SoftmaxRegression

#: The methods of each model; the first is the default.
METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"softmax": ("likelihood", "unbiased", "plain", "clusters"), "boosting": ("em", "plain", "clusters")}
)

#: How models learn from what peers exchanged, where there is nothing to choose.
EXCHANGED = "exchanged"
#: How they learn from labels that lean towards their clusters, if nothing else is asked for.
CLUSTERS = "clusters"

#: The model of classes that is learned if none is asked for.
OF_CLASSES = "softmax"

_TREES = 50
_LEAVES = (8, 31)


def estimators_of(columns: Mapping[str, str], model: str, method: str) -> list[Pipeline]:
    """What is to be chosen among, by released labels."""
    encoded: Any
    if model == OF_CLASSES:
        linear: Any = SoftmaxRegression(method=method)  # type: ignore[arg-type]
        learner = _softly(LogisticRegression(max_iter=1000), method) if method in (CLUSTERS, EXCHANGED) else linear
        encoded, learners = scaled(columns), [learner]
    else:
        encoded, places = for_trees(columns)
        fixed = {"max_iter": _TREES, "early_stopping": False, "random_state": 0, "categorical_features": places}
        boosting = [HistGradientBoostingClassifier(max_leaf_nodes=leaves, **fixed) for leaves in _LEAVES]
        learners = [_softly(each, method) for each in boosting]
    return [Pipeline([("columns", clone(encoded)), ("model", learner)]) for learner in learners]


def _softly(estimator: Any, method: str) -> Any:
    """A learner that fits a classifier on soft labels."""
    if method == EXCHANGED:
        return SoftLabelClassifier(estimator)
    return ReleasedLabelClassifier(estimator, method=method)  # type: ignore[arg-type]


def check_class_model(model: str, method: str | None) -> tuple[str, str | None]:
    """A model of classes and a method that it has."""
    if model not in METHODS:
        raise InputError(f"expected a model of classes among {', '.join(METHODS)}, found {model!r}")
    if method is not None and method not in METHODS[model]:
        raise InputError(f"expected a method of {model} among {', '.join(METHODS[model])}, found {method!r}")
    return model, method


def class_setting(fitted: Pipeline, model: str, best: int) -> str:
    """What was chosen, in words."""
    exchanged = isinstance(fitted.steps[-1][1], SoftLabelClassifier)
    chosen = ", chosen on released labels"
    if model == "boosting":
        return f"{_TREES} trees of {_LEAVES[best]} leaves" + ("" if exchanged else chosen)
    last = fitted.steps[-1][1]
    return f"l2 {last.l2_:.3g}{chosen}" if hasattr(last, "l2_") else "scikit-learn's usual penalty"
