"""The cells of a CSV column in its type, and the first one that is of another."""

from __future__ import annotations

import pyarrow as pa

from labeldp.columns import Notation, misfit, read_as, result_or_none
from labeldp.errors import TableError
from labeldp.privacy import row_name
from labeldp.release.tables._store import Place

_WANTED = {pa.bool_(): "true or false", pa.date32(): "a date", pa.timestamp("us"): "a date and time"}


def csv_cells(
    texts: pa.Array, column: pa.Field, notation: Notation, separator: str | None, path: Place, first: int
) -> pa.Array:
    """The values of a column, from their texts.

    Args:
        texts: The texts.
        column: The name and the type of the column. Labels stay text, and so are never refused here.
        notation: The notation of its numbers and dates.
        separator: The separator of the file.
        path: The file.
        first: The place of the first row in the file.

    Raises:
        TableError: A value of the column, which is public, is not of its type.
    """
    values = result_or_none(lambda: read_as(texts, column.type, notation))
    if values is not None:
        return values
    place, found, options = misfit(texts, column.type, notation, separator or ",")
    raise TableError(
        f"expected {_WANTED.get(column.type, 'a number')} in every row of the column {column.name!r}, found {found} in "
        f"{row_name(first + place)} of {path.name}; {f'pass {options}' if options else 'correct it'}"
    )
