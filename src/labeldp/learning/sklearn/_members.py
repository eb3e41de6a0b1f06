"""Encoders of features for models of several families, leaves of clusters among them, and the forms of features."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.columns import (
    Columns,
    is_free_text,
    kind_of_type,
    plain_column,
    python_texts,
    stored_integers,
    type_name,
    values_or_none,
)
from labeldp.errors import InputError
from labeldp.learning.cells import cluster_tree, embed

if TYPE_CHECKING:
    import pandas as pd


#: Most columns of features that are clustered as they are; of more, leading singular vectors.
_COLUMNS, _VECTORS = 64, 50
#: Rows that trees are built from; of more, evenly spaced ones. The search for neighbours takes quadratic time.
_ROWS = 5_000
#: Rows in a leaf on average, and bounds on the number of leaves.
_ROWS_PER_LEAF, _FEWEST, _MOST = 10, 20, 500
_NEIGHBOURS, _EIGENVECTORS = 5, (8, 15, 30)
#: Units in a set of similar rows on average: larger sets divide fewer units, and leave fewer sets to hold out.
_UNITS_OF_A_SET = 4


@documented_in("labeldp.learning.sklearn")
class ClusterLeaves(TransformerMixin, BaseEstimator):
    """Leaf of each row in several trees of clusters of public features.

    One tree is of clusters of the features themselves (``cluster_tree``), the others of clusters in the graph of
    nearest neighbours (``embed``), which follow curved groups, by 8, 15 and 30 eigenvectors.

    Guarantee:
        That of ``labeldp.learning.cells.cluster``: no label is seen.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Build the trees from features of shape (n, d), dense or sparse."""
        self._leaves_of(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> Int[np.ndarray, "n t"]:  # noqa: ARG002, N803
        """Build the trees, and return the leaf of each row in each, shape (n, 4)."""
        return self._leaves_of(X)

    def transform(self, X: Any) -> Int[np.ndarray, "m t"]:  # noqa: N803
        """The leaf of each new row in each tree, shape (m, 4)."""
        check_is_fitted(self)
        parts = [self._points(X[rows]) for rows in blocks(X.shape[0], X.shape[1])]
        return np.concatenate([np.empty((0, len(self.trees_)), dtype=np.int64), *map(self._leaves_at, parts)])

    def _leaves_at(self, points: Float[np.ndarray, "m d"]) -> Int[np.ndarray, "m t"]:
        """The leaf of new points in each tree: those of the graph have their neighbours in common."""
        own, *graph = (tree.finder for tree in self.trees_)
        places = graph[0].embedding.transform(points) if graph else None
        return np.stack([own(points), *(each(points, places) for each in graph)], axis=1)

    def similar(self, X: Any, size: int) -> Int[np.ndarray, "n"]:  # noqa: N803 (scikit-learn's name)
        """Sets of similar rows, which stand for privacy units that nobody can tell any more.

        Rows of one unit are mostly near-duplicates, and then in one leaf of a tree of clusters.
        """
        points, step = self._some(X)
        tree = cluster_tree(points, min(max(X.shape[0] // (size * _UNITS_OF_A_SET), 2), _MOST, len(points)))
        if step == 1:
            return np.asarray(tree.leaves)
        return np.concatenate([tree.predict(self._points(X[rows])) for rows in blocks(X.shape[0], X.shape[1])])

    def _some(self, features: Any) -> tuple[Float[np.ndarray, "m d"], int]:
        """Evenly spaced rows as they are clustered, and their distance."""
        rows, columns = features.shape
        self.components_ = None
        if columns > _COLUMNS:
            with threadpool_limits(1):  # so that sums are added in one order
                self.components_ = TruncatedSVD(_VECTORS, random_state=0).fit(features)
        step = -(-rows // _ROWS)
        return self._points(features[::step]), step

    def _leaves_of(self, features: Any) -> Int[np.ndarray, "n t"]:
        """Build the trees; the leaf of each row."""
        points, step = self._some(features)
        leaves = min(_MOST, max(_FEWEST, len(points) // _ROWS_PER_LEAF), len(points))
        self.trees_ = [cluster_tree(points, leaves)]
        if len(points) > max(_EIGENVECTORS):
            graph = embed(points, neighbours=_NEIGHBOURS, eigenvectors=max(_EIGENVECTORS), components=None)
            self.trees_ += [graph.tree(leaves, eigenvectors=count) for count in _EIGENVECTORS]
        return np.stack([tree.leaves for tree in self.trees_], axis=1) if step == 1 else self.transform(features)

    def _points(self, features: Any) -> Float[np.ndarray, "m d"]:
        """Features as they are clustered."""
        if self.components_ is not None:
            return np.asarray(self.components_.transform(features))
        return np.asarray(features.toarray() if issparse(features) else features)


#: Power of the likelihood by which trees of clusters weigh.
POWER = 0.25


@dataclass(frozen=True)
class Encoders:
    """Encoders of features for members."""

    scaled: Any
    coded: Any
    categorical: Sequence[int]
    leaves: Pipeline


def encoders_of(columns: Mapping[str, str] | None) -> Encoders:
    """The encoders of columns of some kinds, or of sparse features."""
    from labeldp.learning.features import UnitScaler, scaling_transformer, tree_transformer  # noqa: PLC0415 (pandas)

    if columns is None:
        scaled: Any = MaxAbsScaler()
        coded, categorical = FunctionTransformer(accept_sparse=True), list[int]()
    else:
        scaler = StandardScaler() if "category" in columns.values() else UnitScaler()
        scaled, (coded, categorical) = scaling_transformer(columns, scaler=scaler), tree_transformer(columns)
    leaves = Pipeline([("scaled", clone(scaled)), ("leaves", ClusterLeaves())])
    return Encoders(scaled, coded, categorical, leaves)


def as_frame(features: Any) -> Any:
    """Features as a frame of numbers and objects, or as compressed sparse rows.

    Texts become objects, with None for missing values; all other columns numbers, with NaN. Values of several kinds are
    texts. Columns of other values, such as lists, are left out.
    """
    import pandas as pd  # noqa: PLC0415 (an extra)

    if issparse(features):
        return features.tocsr()
    if not (hasattr(features, "columns") or hasattr(features, "to_pandas")):
        array = np.asarray(features)
        if array.ndim != 2:
            raise InputError(f"expected features in rows and columns, found an array of {array.ndim} dimensions")
        features = dict(enumerate(array.T))
    table = Columns(features).table(instead=python_texts)
    values = {name: _values(table[name]) for name in table.column_names}
    used = {name: each for name, each in values.items() if each is not None}
    if not used:
        kinds = ", ".join(f"{name!r} of {type_name(table[name].type)}" for name in values) or "none"
        raise InputError(f"expected a column of numbers, dates or text, found {kinds}")
    return pd.DataFrame({name: pd.Series(each, dtype=each.dtype) for name, each in used.items()})  # as in frame_of


def _values(column: pa.ChunkedArray) -> np.ndarray | None:
    """The values of a column: numbers, or objects with None for missing values; None if it has other values."""
    plain = stored_integers(plain_column(column)) if kind_of_type(column.type) is None else column
    return values_or_none(plain, kind_of_type(plain.type) or "category")


def warn_of_left_out(features: Any, frame: pd.DataFrame) -> None:
    """Warn of columns that are neither numbers nor dates nor text."""
    names = features.schema.names if isinstance(features, pa.Table | pa.RecordBatch) else features.columns
    if left_out := [name for name in map(str, names) if name not in frame]:
        warnings.warn(
            f"Left out {', '.join(map(repr, left_out))}: no model takes such values; give numbers, dates or text",
            stacklevel=3,
        )


def warn_of_texts(frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Warn of columns of categories that look like numbers."""
    from labeldp.learning.features import warn_of_numbers  # noqa: PLC0415 (pandas)

    for name in (name for name, kind in kinds.items() if kind == "category"):
        warn_of_numbers(name, pa.array(frame[name].dropna().unique().tolist(), pa.string()))


def kinds_of(frame: pd.DataFrame) -> dict[str, str]:
    """The kind of each column: ``"number"``, ``"category"`` or ``"text"``."""
    return {str(name): _kind_of(frame[name]) for name in frame.columns}


def _kind_of(column: pd.Series) -> str:
    if column.dtype == np.float64:
        return "number"
    texts = pa.array(column, pa.string(), from_pandas=True)
    return "text" if is_free_text(pa.chunked_array([texts])) else "category"
