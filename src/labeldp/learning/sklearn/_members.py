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

    Columns of text and of categories become objects, with None for missing values; all others numbers, with NaN.

    Raises:
        InputError: They are not a table, or have no columns.
    """
    import pandas as pd  # noqa: PLC0415 (an extra)

    if issparse(features):
        return features.tocsr()
    found = features.to_pandas() if hasattr(features, "to_pandas") else features
    if not isinstance(found, pd.DataFrame):
        array = np.asarray(found)
        if array.ndim != 2:
            raise InputError(f"expected features in rows and columns, found an array of {array.ndim} dimensions")
        found = pd.DataFrame(array, columns=[str(place) for place in range(array.shape[1])])
    if not found.shape[1]:
        raise InputError("expected features of at least one column, found none")
    return pd.DataFrame({str(name): _column(found.iloc[:, place]) for place, name in enumerate(found.columns)})


def _column(values: pd.Series) -> np.ndarray:
    """The values of a column: numbers, or objects with None for missing values."""
    import pandas.api.types as kinds  # noqa: PLC0415 (an extra)

    if kinds.is_datetime64_any_dtype(values) or kinds.is_timedelta64_dtype(values):
        return np.asarray(values.astype("int64").where(values.notna()).to_numpy(np.float64, na_value=np.nan))
    if kinds.is_numeric_dtype(values):
        return np.asarray(values.to_numpy(np.float64, na_value=np.nan))
    texts = values.astype(object)
    return np.asarray(texts.where(values.notna(), None).map(lambda each: each if each is None else str(each)), object)


def warn_of_texts(frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Warn of columns of categories that look like numbers."""
    from labeldp.learning.features import warn_of_numbers  # noqa: PLC0415 (pandas)

    for name in (name for name, kind in kinds.items() if kind == "category"):
        warn_of_numbers(name, pa.array(frame[name].dropna().unique().tolist(), pa.string()))


def kinds_of(frame: pd.DataFrame) -> dict[str, str]:
    """The kind of each column: ``"number"`` or ``"category"``."""
    from pandas.api.types import is_numeric_dtype  # noqa: PLC0415 (an extra)

    return {str(name): "number" if is_numeric_dtype(frame[name]) else "category" for name in frame.columns}
