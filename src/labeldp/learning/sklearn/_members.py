"""Encoders of features for models of several families, and the forms that features of tables have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

from labeldp.columns import (
    Columns,
    kind_of_type,
    plain_column,
    python_texts,
    stored_integers,
    type_name,
    values_or_none,
)
from labeldp.errors import InputError
from labeldp.learning.sklearn._cluster_leaves import ClusterLeaves

if TYPE_CHECKING:  # pandas is in another extra than the rest of this package
    import pandas as pd

#: Power of the likelihood by which trees of clusters weigh.
POWER = 0.25


@dataclass(frozen=True)
class Encoders:
    """Encoders of features for members.

    Attributes:
        scaled: Standardised numbers, and categories one-hot.
        coded: Numbers as they are, and codes of categories.
        categorical: Columns of these codes.
        leaves: Leaves of trees of clusters of scaled features.
    """

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
    texts.

    Raises:
        InputError: They are not a table, or have no columns.
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
    if not table.num_columns:
        raise InputError("expected features of at least one column, found none")
    return pd.DataFrame({name: _values(table[name], name) for name in table.column_names})


def _values(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """The values of a column: numbers, or objects with None for missing values."""
    plain = stored_integers(plain_column(column)) if kind_of_type(column.type) is None else column
    values = values_or_none(plain, kind_of_type(plain.type) or "category")
    if values is None:
        raise InputError(f"expected numbers, dates or text in the feature {name!r}, found {type_name(column.type)}")
    return values


def warn_of_texts(frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Warn of columns of categories that look like numbers."""
    from labeldp.learning.features import warn_of_numbers  # noqa: PLC0415 (pandas)

    for name in (name for name, kind in kinds.items() if kind == "category"):
        warn_of_numbers(name, pa.array(frame[name].dropna().unique().tolist(), pa.string()))


def kinds_of(frame: pd.DataFrame) -> dict[str, str]:
    """The kind of each column: ``"number"`` or ``"category"``."""
    return {str(name): "number" if frame[name].dtype == np.float64 else "category" for name in frame.columns}
