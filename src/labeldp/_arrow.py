"""Columns of Arrow as arrays of NumPy and back without pandas, which pyarrow itself would load: a fifth of a second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from labeldp._shapes import Shaped


def arrow(values: Shaped[np.ndarray, "n"]) -> pa.Array:
    """Numbers as an Arrow array; flags as numbers."""
    numbers = np.ascontiguousarray(values, np.uint8 if values.dtype == np.bool_ else None)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), numbers.size, [None, pa.py_buffer(numbers)])


def as_array(column: pa.Array) -> np.ndarray:
    """Numbers or flags of a column as an array; missing floats as NaN, other missing values as 0."""
    if pa.types.is_boolean(column.type):
        return np.asarray(as_array(column.cast(pa.uint8())).view(np.bool_))
    if not column.null_count:
        return np.from_dlpack(column)
    stored = pa.Array.from_buffers(column.type, len(column), [None, column.buffers()[1]], offset=column.offset)
    values = np.from_dlpack(stored).copy()
    values[as_array(column.is_null())] = np.nan if pa.types.is_floating(column.type) else 0
    return values


def class_array(values: Sequence[str | int | float | bool], kind: pa.DataType) -> pa.Array:
    """Values of a label space as an Arrow array of their type."""
    if not isinstance(values[0], str):
        return arrow(np.asarray(values)).cast(kind)
    texts = [str(text).encode() for text in values]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
