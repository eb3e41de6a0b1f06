"""Tables as models take them: which columns, and their values as numbers or categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from labeldp.errors import InputError, TableError

#: What a column may be for a model, and the Arrow type that its values are read in.
KINDS = MappingProxyType(
    {
        "number": pa.float64(),
        "flag": pa.bool_(),
        "date": pa.date32(),
        "time": pa.timestamp("us"),
        "category": pa.string(),
    }
)
#: The whole numbers that values of a kind are stored as, for kinds that are no numbers themselves.
_WHOLE = MappingProxyType({"flag": pa.uint8(), "date": pa.int32(), "time": pa.int64()})

_TYPES = MappingProxyType(
    {
        "number": (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        "flag": (pa.types.is_boolean,),
        "date": (pa.types.is_date,),
        "time": (pa.types.is_timestamp,),
        "category": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_dictionary),
    }
)
_MANY_VALUES = 0.5
#: Rarer texts of a column count as one.
MOST_CATEGORIES = 200


def columns_of(
    table: pa.Table, wanted: Sequence[str] | None, unit: str | None
) -> tuple[dict[str, str], dict[str, str]]:
    """The kind of each column to learn from, and why others are not."""
    names = table.column_names
    for name in wanted or ():
        if name not in names:
            raise InputError(f"expected features among the public columns {', '.join(names)}, found {name!r}")
    used, left_out = {}, {}
    for name in dict.fromkeys(wanted or names):
        kind = _kind(table.schema.field(name).type)
        why = "its type is none that a model takes" if kind is None else None
        if wanted is None and kind is not None:
            why = "it names the unit" if name == unit else _useless(table[name], kind)
        if why is None and kind is not None:
            used[name] = kind
        elif wanted is not None:
            raise InputError(f"expected numbers, dates or text in the feature {name!r}, found {table[name].type}")
        else:
            left_out[name] = str(why)
    if not used:
        raise InputError(
            f"expected a public column to learn from, found none among {len(names)} "
            f"({'; '.join(f'{name}: {why}' for name, why in left_out.items()) or 'the release kept none'})"
        )
    return used, left_out


def _kind(kind: pa.DataType) -> str | None:
    """What a column is for a model."""
    return next((name for name, checks in _TYPES.items() if any(check(kind) for check in checks)), None)


def _useless(column: pa.ChunkedArray, kind: str) -> str | None:
    """Why a column says nothing that carries over to other rows, if so."""
    different = pc.count_distinct(column, mode="all").as_py()
    if different <= 1:
        return "it is the same in every row"
    if kind == "category" and different > _MANY_VALUES * len(column):
        return "most of its texts occur once; name it among the features to use it"
    return None


def frame_of(table: pa.Table, columns: Mapping[str, str]) -> pd.DataFrame:
    """The columns that a model takes: numbers, and categories as objects; None and NaN are missing."""
    lacking = [repr(name) for name in columns if name not in table.column_names]
    if lacking:
        raise InputError(f"expected the columns {', '.join(map(repr, columns))}, found no {', '.join(lacking)}")
    return pd.DataFrame({name: _values(table[name], name, kind) for name, kind in columns.items()})


def scaled(columns: Mapping[str, str], *, dense: bool = False) -> ColumnTransformer:
    """What makes numbers of a frame's columns that can be compared: scaled, and one for each text of a category.

    Many texts make them sparse, unless they are asked to be dense.
    """
    numbers = [name for name, kind in columns.items() if kind != "category"]
    categories = [name for name, kind in columns.items() if kind == "category"]
    complete = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES)
    parts = [("numbers", complete, numbers), ("categories", encoder, categories)]
    return ColumnTransformer(parts, sparse_threshold=0.0) if dense else ColumnTransformer(parts)


def points_of(table: pa.Table, unit: str | None = None) -> Float[np.ndarray, "n d"]:
    """The rows of a table as points: numbers in units of their deviation, and a 0 or 1 for each common text.

    Args:
        table: Public columns; those that say nothing of a row are left out.
        unit: The column that names the unit, which is left out too.

    Raises:
        InputError: No column can be used.
    """
    columns, _ = columns_of(table, None, unit)
    return np.asarray(scaled(columns, dense=True).fit_transform(frame_of(table, columns)), dtype=np.float64)


def for_trees(columns: Mapping[str, str]) -> tuple[ColumnTransformer, list[int]]:
    """What gives trees of a frame's columns numbers as they are and categories as codes, and where the latter are."""
    numbers = [name for name, kind in columns.items() if kind != "category"]
    categories = [name for name, kind in columns.items() if kind == "category"]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=MOST_CATEGORIES)
    encoded = ColumnTransformer([("numbers", "passthrough", numbers), ("categories", encoder, categories)])
    return encoded, list(range(len(numbers), len(columns)))


def _values(column: pa.ChunkedArray, name: str, kind: str) -> np.ndarray:
    """The values of a column of a kind."""
    try:
        read = column.cast(KINDS[kind])
        if kind == "category":  # in CSV a missing text is an empty one
            texts = pc.if_else(pc.equal(read, ""), pa.scalar(None, pa.string()), read)
            return np.array(texts.to_pylist(), dtype=object)
        numbers = read.cast(_WHOLE.get(kind, pa.float64())).cast(pa.float64()).to_numpy()
    except pa.ArrowException:
        raise TableError(f"expected a {kind} in every row of the column {name!r}, found {column.type}") from None
    endless = np.isinf(numbers)
    if endless.any():
        raise TableError(f"expected finite numbers in {name!r}, found infinity in row {int(np.argmax(endless))}")
    return np.asarray(numbers)
