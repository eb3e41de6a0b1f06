"""The public form of rows: types, precision, ranges, categories, and columns with missing values.

Real and synthetic rows of one release must be indistinguishable but for their values. So both pass through one function
that depends on the form alone, and its results have one type, one range, one precision, one spelling and one way to be
missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Bool
from labeldp.columns import is_text, plain_column, plain_type
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import _coerce
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
    if column.element == TEXT or column.width is not None or not is_text(plain_type(values.type)):
        return values
    return _READERS[column.element](pc.utf8_trim_whitespace(plain_column(values).cast(pa.string())))


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


@dataclass(frozen=True)
class Form:
    """The form of rows, real and synthetic ones alike: their columns, in order.

    It is public: declared, or inferred from public rows, never from private ones.

    Attributes:
        columns: The columns.
        of_array: True if rows are a NumPy array of numbers; then there is one column, with a shape.

    Example:
        >>> form = Form.of({"age": [44.5, 51.0], "town": ["Ulm", "Bonn"]})
        >>> rows = form.table({"age": [-0.0, 46.7171], "town": ["Ulm", "ulm"]})
        >>> form.shaped(rows)[0].to_pylist()
        [{'age': 44.5, 'town': 'Ulm'}, {'age': 46.7, 'town': 'Bonn'}]

    Raises:
        InputError: There is no column, or a name occurs twice.
    """

    columns: tuple[ColumnForm, ...]
    of_array: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        if not self.columns or len(set(self.names)) != len(self.columns):
            raise InputError("expected at least one column, and different names, found none, or a name twice")
        if self.of_array and (len(self.columns) > 1 or self.columns[0].shape is None):
            raise InputError("expected one column with a shape for an array, found something else")

    @classmethod
    def of(cls, public: object) -> Form:
        """The form inferred from public rows: their types, ranges, digits and categories.

        Numbers are restricted to the public values if these are few (at most 20 that occur 20 times on average) or have
        gaps (at most 1 000 that occur twice on average, with at least as many other numbers of the same digits between
        them). Otherwise values that only real rows have would identify real rows. Floats that no number of decimals or
        significant digits explains are rounded to public values too, the nearest of at most 1 000, evenly by rank: all
        the digits of a float could identify a real row, such as those of a scaled whole number. To use full precision
        anyway, declare a ``ColumnForm``.

        Args:
            public: A pandas or polars frame, an Arrow table, a mapping of columns; or an array of numbers of shape
                (n, ...), such as images. It must be public.

        Raises:
            InputError: A column has no type that a form knows, too many different texts, or no value at all.
        """
        return cls(*_coerce.columns_of(public))

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def array_name(self) -> str | None:
        """The name of the only column if rows are an array, else None."""
        return self.names[0] if self.of_array else None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of shaped rows."""
        return _coerce.schema_of(self.columns)

    @property
    def cells(self) -> int | None:
        """Number of possible rows if every column lists its values, else None."""
        sizes = [column.cells for column in self.columns]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def table(self, rows: object) -> pa.Table:
        """Rows as an Arrow table with the form's columns, in its order and with unchanged values.

        Args:
            rows: As in ``of``. It must have exactly these columns, each of a type that fits: numbers may be of another
                type of numbers, texts may be dictionaries.

        Raises:
            InputError: Columns are missing or too many, or have other types. Values do not matter.
        """
        return _coerce.table_of(self.columns, self.array_name, rows)

    def read(self, rows: object) -> pa.Table:
        """Rows with texts, as from CSV, or mixed Python objects converted to the types of the form.

        Args:
            rows: A frame, an Arrow table, a mapping of columns, or an array where the form is one.

        Guarantee:
            Each value is a function of the same text alone, and every text has one: text that is no value of the
            column's type becomes missing. So reading private rows never fails, and failure discloses nothing.
        """
        return read_columns(self.columns, _coerce.container(self.columns, self.array_name, rows))

    def shaped(self, rows: pa.Table) -> tuple[pa.Table, Bool[np.ndarray, "n"]]:
        """Rows shaped to fit: numbers clipped to the range and rounded, unknown texts replaced by the fallback.

        Args:
            rows: The result of ``table``.

        Returns:
            The rows, whose schema is ``schema``, and the mask of rows with a changed value.

        Guarantee:
            * Each row of the result is a function of the same row of ``rows`` and of the form alone: applied to
              private rows before anything is drawn, it is preprocessing of the features.
            * It is total: it never fails, whatever the values are, so failure discloses nothing.
            * It is idempotent, so nobody can see whether a row was shaped before.
        """
        return _coerce.shaped(self.columns, rows)

    def array(self, rows: pa.Table) -> np.ndarray:
        """Shaped rows as an array of shape (n, ...), for the form of an array.

        Raises:
            InputError: The form is that of a table.
        """
        if not self.of_array:
            raise InputError("expected the form of an array, found that of a table; use the table")
        return _coerce.array_of(self.columns[0], rows[self.columns[0].name])

    def describe(self) -> dict[str, Any]:
        """The form as plain data, which ``form_from`` reads back."""
        return {"columns": [column.describe() for column in self.columns], "of_array": self.of_array}


def form_from(plain: object) -> Form:
    """The form that plain data describe."""
    try:
        return _form_from(plain)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        if isinstance(problem, InputError):
            raise
        why = type(problem).__name__
    raise InputError(f"expected the description of a form, found something else ({why})")


def _form_from(plain: Any) -> Form:
    columns = []
    for body in plain["columns"]:
        if not isinstance(body, Mapping):
            raise TypeError("expected columns")
        fields: dict[str, Any] = {key: tuple(each) if isinstance(each, list) else each for key, each in body.items()}
        columns.append(ColumnForm(**fields))
    return Form(tuple(columns), plain["of_array"] is True)
