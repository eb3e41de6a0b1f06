"""The form of rows: types, precision, ranges, categories, and what may be missing. It is public.

Where some rows of a release are real and others are synthetic, nobody may tell them apart by anything but what they
say. So both go through one function that depends on nothing but the form, and what it gives has one type, one range,
one precision, one spelling and one way to be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from labeldp.errors import InputError
from labeldp.mechanisms.features._column_form import ColumnForm

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Form:
    """What rows look like, real and synthetic ones alike: their columns, in order.

    It is public: declared, or read off public rows, and never off private ones.

    Attributes:
        columns: The columns.
        of_array: Whether rows are given and handed out as a NumPy array of numbers; then there is one column, with a
            shape.

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
        """The form of public rows: types, ranges, digits and categories as they are there.

        Numbers may take the public values alone where these are few, at most 20 that occur 20 times on average, or
        leave gaps: at most 1 000 that occur twice on average, between which at least as many others would have the
        same digits. Else true rows would be known by values that only they have. Floats that no decimals and no
        significant digits explain are put on public ones too, the nearest of at most 1 000, evenly by rank: with all
        the digits of a float, a true row could be known by them, such as those of a whole number that was scaled. Who
        declares a ``ColumnForm`` of full precision answers for that.

        Args:
            public: A pandas or polars frame, an Arrow table, a mapping of columns; or an array of numbers of shape
                (n, ...), such as images. It must be public.

        Raises:
            InputError: A column has no type that a form knows, too many different texts, or no value at all.
        """
        from labeldp.mechanisms.features._coerce import columns_of  # noqa: PLC0415 (keeps `import labeldp` light)

        columns, of_array = columns_of(public)
        return cls(columns, of_array)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def array_name(self) -> str | None:
        """The name of the only column where rows are an array, else None."""
        return self.names[0] if self.of_array else None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of shaped rows."""
        from labeldp.mechanisms.features._coerce import schema_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return schema_of(self.columns)

    @property
    def cells(self) -> int | None:
        """How many different rows there may be, where every column lists its values; else None."""
        sizes = [column.cells for column in self.columns]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def table(self, rows: object) -> pa.Table:
        """Rows as an Arrow table with the form's columns, in its order; the values are as they were given.

        Args:
            rows: As in ``of``. It must have exactly these columns, each of a type that fits: numbers may be of another
                type of numbers, texts may be dictionaries.

        Raises:
            InputError: Columns are missing or too many, or have other types. Values do not matter.
        """
        from labeldp.mechanisms.features._coerce import table_of  # noqa: PLC0415 (keeps `import labeldp` light)

        return table_of(self.columns, self.array_name, rows)

    def read(self, rows: object) -> pa.Table:
        """Rows whose columns may hold texts, as CSV has them, or Python objects of several types, as the form's kinds.

        Args:
            rows: A frame, an Arrow table, a mapping of columns, or an array where the form is one.

        Guarantee:
            Each value is a function of the same text alone, and any text has one: one that stands for no value of the
            column's type is missing, so that reading private rows does not fail, and tells nothing of them.
        """
        from labeldp.mechanisms.features._coerce import container  # noqa: PLC0415 (keeps `import labeldp` light)
        from labeldp.mechanisms.features._parse import read_columns  # noqa: PLC0415

        return read_columns(self.columns, container(self.array_name, rows))

    def shaped(self, rows: pa.Table) -> tuple[pa.Table, Bool[np.ndarray, "n"]]:
        """Rows made to fit: numbers moved into the range and rounded, other texts replaced by the fallback.

        Args:
            rows: What ``table`` gave.

        Returns:
            The rows, whose schema is ``schema``, and which of them hold another value than before.

        Guarantee:
            * Each row of the result is a function of the same row of ``rows`` alone, and of the form: applied to
              private rows before anything is drawn, it is part of what the features are.
            * It is total: whatever the values are, it does not fail, so failing tells nothing of them.
            * What it gives it leaves as it is, so whether a row was shaped before cannot be seen.
        """
        from labeldp.mechanisms.features._coerce import shaped  # noqa: PLC0415 (keeps `import labeldp` light)

        return shaped(self.columns, rows)

    def array(self, rows: pa.Table) -> np.ndarray:
        """Shaped rows as an array of shape (n, ...), where the form is that of an array.

        Raises:
            InputError: It is that of a table.
        """
        from labeldp.mechanisms.features._coerce import array_of  # noqa: PLC0415 (keeps `import labeldp` light)

        if not self.of_array:
            raise InputError("expected the form of an array, found that of a table; use the table")
        return array_of(self.columns[0], rows[self.columns[0].name])

    def describe(self) -> dict[str, Any]:
        """The form as plain data, which ``form_from`` reads back."""
        return {"columns": [column.describe() for column in self.columns], "of_array": self.of_array}


def form_from(plain: object) -> Form:
    """The form that plain data describe.

    Raises:
        InputError: They describe none.
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
