"""The public form of rows: types, precision, ranges, categories, and columns with missing values.

Real and synthetic rows of one release must be indistinguishable but for their values. So both pass through one function
that depends on the form alone, and its results have one type, one range, one precision, one spelling and one way to be
missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._shapes import Bool
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import _coerce
from labeldp.mechanisms.resampling._column_form import ColumnForm
from labeldp.mechanisms.resampling._parse import read_columns


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
    """The form that plain data describe.

    Raises:
        InputError: The data describe no form.
    """
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
