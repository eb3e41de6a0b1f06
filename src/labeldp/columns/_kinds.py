"""Kinds of columns, and the values of each: numbers, flags, days, instants, categories and free texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Float, Int
from labeldp.columns._arrow import as_array
from labeldp.columns._conversions import result_or_none
from labeldp.columns._forms import all_match
from labeldp.columns._storage import is_bytes, is_number, is_text, plain_column, plain_uuids
from labeldp.columns._written import read_as

#: Kinds of columns, and the Arrow type that values of each are read as. A date or a time is a single number, to
#: networks and in older models; a day or an instant has a month and a weekday too.
KINDS = MappingProxyType(
    {
        "number": pa.float64(),
        "flag": pa.bool_(),
        "date": pa.date32(),
        "time": pa.timestamp("us"),
        "day": pa.date32(),
        "instant": pa.timestamp("us"),
        "category": pa.string(),
        "text": pa.string(),
    }
)
#: The integer type that stores the values of kinds other than numbers.
_INTEGER_TYPES = MappingProxyType(
    {"flag": pa.uint8(), "date": pa.int32(), "time": pa.int64(), "day": pa.int32(), "instant": pa.int64()}
)
_MICROSECONDS = 86_400e6  # of a day
#: The kind of each type, by the first check that holds.
_KIND_OF_TYPE = (
    (is_number, "number"),
    (pa.types.is_boolean, "flag"),
    (pa.types.is_date, "day"),
    (pa.types.is_timestamp, "instant"),
    (is_text, "category"),
)
#: A number in any spelling, as in a column of ``1.50``, ``2`` and ``1e3``. With leading zeros it is a code.
_NUMBER = r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]+$"
#: Three words, and the largest share of different values among the rows of a column of categories.
_WORDS, MOST_DISTINCT = r"\S\s+\S+\s+\S", 0.5
#: Numbers up to here can be squared and added up, and are floats of 32 bits too.
_LARGEST = 1e38


def kind_of_type(kind: pa.DataType) -> str | None:
    """The kind of plain values of a type; None for nested values, bytes, durations and times of day."""
    return next((name for check, name in _KIND_OF_TYPE if check(kind)), None)


def column_kind(column: pa.ChunkedArray) -> str | None:
    """The kind of a column; None for values that are nested, bytes, durations or times of day.

    Texts are numbers if all but the missing ones are, and not all are whole: texts of whole numbers may be codes.
    """
    column = plain_column(column)
    kind = kind_of_type(column.type)
    return "number" if kind == "category" and _are_numbers(pc.unique(column.cast(pa.string()))) else kind


def _are_numbers(texts: pa.Array) -> bool:
    """True if all texts but those of missing values are numbers, not all whole."""
    numbers = result_or_none(lambda: read_as(texts, pa.float64()))
    if numbers is None:
        return False
    known = texts.filter(numbers.is_valid())
    return all_match(known, _NUMBER) and not all_match(known, _WHOLE)


def is_free_text(column: pa.ChunkedArray) -> bool:
    """True of texts of three words and more, most of which occur once."""
    if not is_text(column.type) or not len(column):
        return False
    texts = column.cast(pa.string())
    if pc.count_distinct(texts, mode="all").as_py() <= MOST_DISTINCT * len(texts):
        return False
    return bool((pc.mean(pc.match_substring_regex(texts, _WORDS)).as_py() or 0.0) > MOST_DISTINCT)


def why_unusable(column: pa.ChunkedArray, kind: str) -> str | None:
    """The reason why nothing can be computed with the values of a column; None if it can."""
    if kind == "category":
        return None
    values = values_or_none(column, kind)
    if values is None:
        return f"its values are no {kind}s that can be read"
    if np.isinf(values).any():
        return "it has infinite numbers"
    if np.abs(values).max(initial=0.0, where=~np.isnan(values)) > _LARGEST:
        return f"it has numbers above {_LARGEST:g} in size"
    return None


def values_of_kind(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """A column as the type of its kind, with the nearest floats and whole microseconds.

    Texts and decimals are read as those of a CSV.

    Raises:
        ArrowException: A value cannot be read.
    """
    column = plain_column(column)
    if kind != "category" and (is_text(column.type) or pa.types.is_decimal(column.type)):
        column = pa.chunked_array([read_as(column.cast(pa.string()).combine_chunks(), KINDS[kind])])
    finer = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    return column.cast(KINDS[kind], safe=kind != "number" and not finer)


def values_or_none(column: pa.ChunkedArray, kind: str) -> np.ndarray | None:
    """The values of a column: texts with None for missing ones, or floats with NaN; None where they are of no kind.

    Days and instants are numbers of days since 1970.
    """
    return result_or_none(lambda: (_texts if kind == "category" else numbers_of)(column, kind))


def _texts(column: pa.ChunkedArray, kind: str) -> np.ndarray:
    """The texts of a column; in a CSV a missing one is empty."""
    values = values_of_kind(column, kind)
    return np.array(pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values).to_pylist(), dtype=object)


def numbers_of(column: pa.ChunkedArray, kind: str = "number") -> Float[np.ndarray, "n"]:
    """The values of a column as floats, and NaN for missing ones.

    Raises:
        ArrowException: A value is none.
    """
    values = values_of_kind(column, kind).cast(_INTEGER_TYPES.get(kind, pa.float64()))
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    return np.asarray(numbers / _MICROSECONDS if kind == "instant" else numbers)


def plain_numbers(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Numbers and flags as they are, days and microseconds: whole ones with 0 for missing ones, or floats with NaN."""
    column = plain_column(column)
    kind = kind_of_type(column.type) or ""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string()).cast(pa.float64())
    elif kind in _INTEGER_TYPES:
        column = column.cast(KINDS[kind], safe=False).cast(_INTEGER_TYPES[kind])
    return as_array(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)


def value_counts(column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, Int[np.ndarray, "m"]] | None:
    """The different values that are not missing, and the number of rows of each; None where Arrow counts none."""
    column = column if pa.types.is_dictionary(column.type) else plain_column(plain_uuids(column))
    counted = result_or_none(lambda: pc.value_counts(column))
    if counted is None:
        return None
    values, times = plain_column(counted.field("values")), as_array(counted.field("counts"))
    return values.drop_null(), times[as_array(values.is_valid())]


def rows_of_values(column: pa.Array | pa.ChunkedArray) -> dict[Any, int]:
    """The number of rows of each value of plain texts, numbers or flags that is not missing."""
    values, times = value_counts(column) or (pa.array([]), np.empty(0, np.int64))
    return dict(zip(values.to_pylist(), times.tolist(), strict=True))


def texts_or_none(column: pa.Array) -> pa.Array | None:
    """Plain values as text: bytes as UTF-8, dates and times in ISO; None for nested values and bytes of other texts."""
    column = plain_column(column)
    texts = result_or_none(lambda: _valid_texts(column))
    if texts is None:
        return None
    if pa.types.is_timestamp(column.type):
        texts = pc.replace_substring_regex(texts, r"\.0+(Z?)$", r"\1")
        texts = pc.replace_substring_regex(texts, r" 00:00:00(Z?)$", r"\1")
    return texts


def _valid_texts(column: pa.Array) -> pa.Array:
    """Values as text, or an error of Arrow."""
    texts = column.cast(pa.binary() if is_bytes(column.type) else pa.string()).cast(pa.string())
    texts.validate(full=True)
    return texts


def number_matrix(batch: pa.RecordBatch, names: Sequence[str]) -> Float[np.ndarray, "n d"]:
    """Columns of numbers as floats side by side, with NaN for missing, infinite and huge ones."""
    columns = [numbers_of(pa.chunked_array([batch[name]])) for name in names]
    numbers = np.stack(columns, axis=1) if columns else np.empty((batch.num_rows, 0))
    return np.where(np.abs(numbers) <= _LARGEST, numbers, np.nan)


def spelled_like(column: pa.ChunkedArray, texts: Collection[str]) -> pa.ChunkedArray:
    """A column whose values that are no text become the one of some texts that reads as each, else their digits.

    Where several of these texts read as one value it is missing. Other readers take ``True`` for a flag and ``01000``
    for a number where the text was kept.
    """
    column = plain_column(column)
    if is_text(column.type):
        return column
    spellings = dict[Any, list[str]]()
    for text in texts:
        value = result_or_none(lambda text=text: pa.scalar(text).cast(column.type).as_py())  # type: ignore[misc]
        if value is not None:
            spellings.setdefault(value, []).append(text)
    distinct = column.unique()
    pairs = zip(distinct.to_pylist(), distinct.cast(pa.string()).to_pylist(), strict=True)
    read = [found[0] if len(found := spellings.get(value, [text])) == 1 else None for value, text in pairs]
    return pc.take(pa.array(read, pa.string()), pc.index_in(column, distinct))
