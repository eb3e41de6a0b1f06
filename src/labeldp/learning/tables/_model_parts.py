"""Checks of a model in a file: its parts are those that learning makes, and it predicts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import check_array

from labeldp.columns import KINDS
from labeldp.learning.features import frame_columns
from labeldp.learning.sklearn import (
    AutoClassifier,
    AutoRegressor,
    NeighborsRegressor,
)

if TYPE_CHECKING:
    from labeldp.learning.tables._files import TableModel

#: scikit-learn's estimators in the models that learning makes. Others do what no model needs, such as reading files.
_KNOWN = frozenset(
    [
        *("Pipeline", "ColumnTransformer", "FunctionTransformer", "SimpleImputer", "MissingIndicator"),
        *("StandardScaler", "MaxAbsScaler", "OneHotEncoder", "OrdinalEncoder", "LabelEncoder", "_BinMapper"),
        *("LogisticRegression", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
        *("NearestNeighbors", "KMeans", "MiniBatchKMeans", "PCA", "TruncatedSVD"),
    ]
)


def check_parts(estimator: Any, columns: Mapping[str, str]) -> None:
    """Refuse fitted parts that learning does not make, and build search trees anew.

    Raises:
        KeyError: There is one.
    """
    for part in _estimators_in(estimator, set()):
        if type(part).__module__.startswith("sklearn.") and type(part).__name__ not in _KNOWN:
            raise KeyError(type(part).__name__)
        if isinstance(part, FunctionTransformer) and getattr(part.func, "func", part.func) not in (None, check_array):
            raise KeyError("func")  # boosting's own checks its arrays
    if isinstance(estimator, AutoClassifier | AutoRegressor):
        _check_members(estimator, columns)
    elif isinstance(estimator[-1], NeighborsRegressor):
        _build_search_tree(estimator[-1].index_)


def check_prediction(model: TableModel) -> None:
    """Refuse a model that cannot predict a row without values: its parts do not fit together.

    Raises:
        ValueError: It predicts something else than it should. Whatever else fails raises its own error.
    """
    row = pa.table({name: pa.nulls(1, KINDS[kind]) for name, kind in model.columns.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a missing category may be a new one
        found = model.predict(row) if model.of_numbers else model.predict_proba(row)
    shape = (1,) if model.of_numbers else (1, model.space.size)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError("predictions of another form")


def types_of(estimator: Any) -> tuple[Any, ...]:
    """The types of an estimator and of all its parts, in order."""
    match estimator:
        case Pipeline(steps=parts) | ColumnTransformer(transformers=parts):
            inner = [part[1] for part in parts]
        case _:
            inner = [getattr(estimator, "estimator", None)]
    return type(estimator), *(types_of(each) for each in inner if hasattr(each, "get_params"))


def categories_in(estimator: Any) -> dict[str, frozenset[str]]:
    """The texts that a fitted estimator knows of each column of categories."""
    found: dict[str, frozenset[str]] = {}
    for part in _estimators_in(estimator, set()):
        for _, encoder, columns in getattr(part, "transformers_", ()):
            for name, known in zip(columns, getattr(encoder, "categories_", ()), strict=False):
                found[name] = frozenset(text for text in known if isinstance(text, str))
    return found


def _estimators_in(value: Any, seen: set[int]) -> Iterator[BaseEstimator]:
    """All estimators that can be reached from a value, each once."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, BaseEstimator):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for each in inner or getattr(value, "__dict__", {}).values():
        yield from _estimators_in(each, seen)


def _check_members(fitted: AutoClassifier | AutoRegressor, columns: Mapping[str, str]) -> None:
    """Refuse members that the combination of models does not make."""
    known = fitted.target.members(frame_columns(columns))
    for name, (encoder, learner) in fitted.members_.items():
        if types_of(encoder) != types_of(known[name].encoder) or type(learner) is not known[name].kind:
            raise KeyError(name)
        for tree in getattr(learner, "trees", ()):
            if tree.finder.embedding is not None:
                _build_search_tree(tree.finder.embedding.search)
        if hasattr(learner, "trees"):
            encoder[-1].trees_ = learner.trees  # those that rows go through; a file may hold others


def _build_search_tree(index: NearestNeighbors) -> None:
    """Build an index of neighbours anew: a search tree in a forged file may point outside its rows."""
    index.fit(index._fit_X)
