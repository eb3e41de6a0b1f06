"""Columns of others' tables as Arrow, each alone; and columns of Arrow as arrays of NumPy and back.

The latter without pandas, which pyarrow itself would load: a fifth of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._shapes import Shaped
from labeldp.columns._conversions import kind_of, result_or_none
from labeldp.errors import InputError


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


def column_or_none(values: Any, *, nan_is_missing: bool | None = None) -> pa.Array | pa.ChunkedArray | None:
    """One column in any container, or None where its values are not all of one kind that Arrow knows.

    Args:
        values: A list, array, tensor, or series or column of any library.
        nan_is_missing: True if NaN is a missing value; by default only in pandas objects, and among texts.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    categories: Any = getattr(getattr(values, "dtype", None), "categories", None)
    if hasattr(categories, "left"):  # intervals, as of pandas.cut
        values = getattr(values, "cat", values).rename_categories(list(map(str, categories)))
    column = result_or_none(lambda: pa.array(values, from_pandas=nan_is_missing))
    if column is None and hasattr(values, "__array__"):  # tensors, sparse series, numbers of another byte order
        column = result_or_none(lambda: pa.array(_native(np.asanyarray(values)), from_pandas=True))
    return column


def array_or_none(values: Any) -> pa.Array | None:
    """One column in any container as one array, with NaN as a missing value; None as of ``column_or_none``."""
    column = column_or_none(values, nan_is_missing=True)
    return result_or_none(column.combine_chunks) if isinstance(column, pa.ChunkedArray) else column


def python_texts(values: Any) -> pa.Array:
    """Python objects as text; None and NaN are missing."""
    absent = [value is None or (isinstance(value, float) and np.isnan(value)) for value in values]
    return pa.array([None if none else str(value) for value, none in zip(values, absent, strict=True)], pa.string())


def _native(array: np.ndarray) -> np.ndarray:
    """An array in the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


class Columns:
    """The columns of a table in any container; each is read and converted alone, and only if it is chosen.

    Args:
        table: A frame or series of pandas or polars, also a lazy one, a table, batch or data set of Arrow, a mapping of
            columns, a ``Dataset`` of Hugging Face, or anything else that exports Arrow's stream.

    Raises:
        InputError: It is nothing of these.
    """

    def __init__(self, table: Any) -> None:
        access = result_or_none(lambda: _access(table.to_frame() if hasattr(table, "to_frame") else table))
        if access is None:
            raise InputError(
                "expected a table such as a pandas or polars frame, an Arrow table or a mapping of columns, found "
                f"{type(table).__name__}"
            )
        keys, self._pick = access
        self.names = list(map(str, keys))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """The name of each column, and its values in the container that they are in."""
        return ((name, self._pick([place])[0]) for place, name in enumerate(self.names))

    def __len__(self) -> int:
        """The number of rows: those of the first column that can be read."""
        read = (result_or_none(partial(self._pick, [place])) for place in range(len(self.names)))
        return next((len(picked[0]) for picked in read if picked is not None), 0)

    def table(self, names: Iterable[str] | None = None, instead: Callable[[Any], pa.Array] | None = None) -> pa.Table:
        """Chosen columns, by default all, as an Arrow table without metadata.

        Args:
            names: Their names; those without a column are left out.
            instead: Makes a column of values that Arrow refuses; by default they are an error.

        Raises:
            InputError: A chosen name has two columns, or the values of a column are not of one kind.
        """
        chosen = [name for name in dict.fromkeys(self.names if names is None else names) if name in self.names]
        if not chosen:
            return pa.table({"": pa.nulls(len(self))}).select([])
        if twice := [name for name in chosen if self.names.count(name) > 1]:
            raise InputError(f"expected one column {twice[0]!r}, found {self.names.count(twice[0])}; rename them")
        picked = result_or_none(partial(self._pick, list(map(self.names.index, chosen))))
        if picked is None:
            shown = ", ".join(map(repr, chosen))
            raise InputError(f"expected columns that can be read, found an error in {shown}; collect them first")
        columns = []
        for name, values in zip(chosen, picked, strict=True):
            column = column_or_none(values)
            if column is None and instead is not None:
                column = instead(values)
            if column is None:
                raise InputError(
                    f"expected values of one kind in the column {name!r}, found others ({kind_of(values)}); convert "
                    "it, such as to text, or leave it out"
                )
            columns.append(column)
        if len(set(map(len, columns))) > 1:
            raise InputError("expected columns of one length, found several lengths")
        return pa.table(columns, names=chosen)


def _access(table: Any) -> tuple[Iterable[Any], Callable[[list[int]], Sequence[Any]]]:
    """The names of a table's columns as they are, and a function that reads some of them by place."""
    if isinstance(table, Mapping):
        keys = list(table)
        return keys, lambda places: [table[keys[place]] for place in places]
    if hasattr(table, "iloc"):  # pandas
        return table.columns, lambda places: [table.iloc[:, place] for place in places]
    if hasattr(table, "collect_schema"):  # polars
        keys = table.collect_schema().names()
        return keys, lambda places: table.lazy().select([keys[place] for place in places]).collect().get_columns()
    if hasattr(table, "select_columns") and hasattr(table, "with_format"):  # a data set of Hugging Face
        keys = table.column_names
        return keys, lambda places: _arrow_rows(table, [keys[place] for place in places]).columns
    if hasattr(table, "get_fragments"):  # a data set of Arrow, such as a folder of files
        keys = table.schema.names
        return keys, lambda places: table.to_table([keys[place] for place in places]).columns
    stored = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else pa.table(table)
    return stored.column_names, lambda places: [stored.column(place) for place in places]


def _arrow_rows(dataset: Any, names: list[str]) -> pa.Table:
    """Some columns of a data set of Hugging Face."""
    return dataset.select_columns(names).with_format("arrow")[:]
