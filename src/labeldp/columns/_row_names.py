"""The index of rows, by which rows in another order are noticed: of a pandas object, or of an Arrow table."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa


def row_names(values: object) -> Any:
    """The index of a pandas object, or of an Arrow table made from one; None without one.

    Class probabilities have that of the rows that they were predicted for, or that of their values.

    An index of several levels is not looked at: one of them may be the label, as ``pandas.concat(parts, keys=classes)``
    makes it.
    """
    pandas = sys.modules.get("pandas")
    index = getattr(values, "index", None) if pandas else None
    if pandas and isinstance(index, pandas.Index):
        return index if index.nlevels == 1 else None
    if isinstance(values, pa.Table | pa.RecordBatch):
        return _stored_index(values)
    return getattr(values, "row_names", None)


def _stored_index(table: pa.Table | pa.RecordBatch) -> Any:
    """The pandas index that an Arrow table names in its metadata; None without one, or of several levels."""
    try:
        named = (table.schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:
        return None
    name = named[0] if len(named) == 1 else None
    if not isinstance(name, dict):
        return table[name] if name in table.schema.names else None
    numbers = range(*(int(name[end]) for end in ("start", "stop", "step")))
    # Rows may have been taken from the table, and its metadata left as they were.
    return np.array(numbers) if len(numbers) == table.num_rows else None
