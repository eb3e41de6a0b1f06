"""Parsing of text columns into the types of a form; text that is no such value becomes missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from labeldp._arrow import is_text, values_type
from labeldp.mechanisms.resampling._column_form import DATE, FLAG, REAL, TEXT, TIME, WHOLE, ColumnForm

_NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?$"
_INTEGER = r"^-?\d{1,18}$"
_DAY = r"^\d{4}-\d\d-\d\d$"
_TIME = r"^\d{4}-\d\d-\d\d([ T]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?$"
_FLAGS = MappingProxyType({"true": True, "1": True, "false": False, "0": False})
_NOTHING = pa.nulls(1, pa.string())[0]  # a scalar from Python would load pandas


def read_columns(columns: tuple[ColumnForm, ...], table: pa.Table) -> pa.Table:
    """See ``Form.read``."""
    forms = {column.name: column for column in columns}
    parsed = [_parsed(forms[name], table[name]) if name in forms else table[name] for name in table.column_names]
    return pa.table(parsed, names=table.column_names)


def _parsed(column: ColumnForm, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column unchanged, or parsed if it holds text and the form another type."""
    if column.element == TEXT or column.width is not None or not is_text(values_type(values.type)):
        return values
    return _READERS[column.element](pc.utf8_trim_whitespace(values.cast(pa.string())))


def _only(texts: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """The texts that match a pattern; others are missing."""
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, _NOTHING)


def _parsed_floats(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    return _only(pc.replace_substring_regex(texts, r"^\+", ""), _NUMBER).cast(pa.float64())


def _parsed_integers(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers exactly; other numbers rounded and clipped to the range of forms."""
    low, high = WHOLE["int64"]
    exact = _only(pc.replace_substring_regex(texts, r"^\+", ""), _INTEGER).cast(pa.int64())
    inside = pc.min_element_wise(
        pc.max_element_wise(_parsed_floats(texts), float(low), skip_nulls=False), float(high), skip_nulls=False
    )
    return pc.coalesce(exact, pc.round(inside, round_mode="half_to_even").cast(pa.int64()))


def _parsed_days(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Days that exist: Arrow reads the 30th of February as another day, which prints as another text."""
    days = pc.strptime(_only(texts, _DAY), format="%Y-%m-%d", unit="s", error_is_null=True).cast(pa.date32())
    return pc.if_else(pc.equal(days.cast(pa.string()), texts), days, pa.scalar(None, pa.date32()))


def _parsed_times(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times on days that exist."""
    days = _parsed_days(pc.utf8_slice_codeunits(texts, 0, 10))
    return pc.if_else(pc.is_valid(days), _only(texts, _TIME), _NOTHING).cast(pa.timestamp("us"))


def _parsed_flags(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    places = pc.index_in(pc.utf8_lower(texts), value_set=pa.array(list(_FLAGS)))
    return pa.chunked_array([pa.array(list(_FLAGS.values())).take(places.combine_chunks())])


_READERS: Mapping[str, Callable[[pa.ChunkedArray], pa.ChunkedArray]] = MappingProxyType(
    {
        **dict.fromkeys(WHOLE, _parsed_integers),
        **dict.fromkeys(REAL, _parsed_floats),
        DATE: _parsed_days,
        TIME: _parsed_times,
        FLAG: _parsed_flags,
    }
)
