"""Formats of tables by the endings of their names, what is no table, first lines without names, and cells of CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from labeldp.columns import Notation, misfit, read_as, result_or_none
from labeldp.errors import TableError
from labeldp.privacy import row_name
from labeldp.release.tables._store import Place

Format = Literal["csv", "parquet", "feather", "json", "excel", "idx"]

#: The kinds of tables by the endings of their names.
TABLE_ENDINGS: Mapping[str, Format] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".tsv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".jsonl": "json",
    ".ndjson": "json",
    ".xlsx": "excel",
    "idx1-ubyte": "idx",
    "idx1-ubyte.gz": "idx",
}
#: What is no table but can be saved as one: endings of names, what was found, and what to do.
_SAVED_AS = {
    ".xls .xlsm .xlsb .ods": "a spreadsheet; save it as .xlsx",
    ".txt .dat .tab": "another ending; rename it to .csv: commas, semicolons, tabs and bars separate columns",
    ".zip .7z .rar .tar .tgz .bz2 .xz .zst": "an archive; unpack it, or pack a CSV as .csv.gz",
    ".pkl .pickle .json .dta .sas7bdat .sav .rds": "another format; save it as Parquet, in "
    "pandas with frame.to_parquet('table.parquet')",
}
#: Files beside data that are no tables, by a pattern of their names.
_BESIDE = {
    r"^(readme|license|licence|changelog|notice|citation)\b|\.(md|rst|txt|pdf|html?|docx?)$": "a description",
    r"^(thumbs\.db|desktop\.ini)$": "a file of Windows",
    r"\.(json|ya?ml|toml|xml)$": "settings or a description",
    r"\.(png|jpe?g|gif|svg)$": "an image",
    r"\.(py|r|sql|ipynb|sh)$": "a program",
    r"(~|\.(tmp|bak|log|crc|part|lock))$": "what a program left behind",
}


def kind_of_files(path: Place, files: Sequence[Place]) -> Format:
    """The format of a table's files."""
    kinds = {file: file_kind(file) for file in files}
    tables = [file for file in files if kinds[file] is not None]
    other = next((file for file in files if kinds[file] is None), None)
    if other is not None and tables:
        name = other.name.lower()
        what = next((what for pattern, what in _BESIDE.items() if re.search(pattern, name)), "another file")
        raise TableError(f"expected tables alone in {path}, found {other.name} beside them, {what}; move it away")
    if other is not None:
        wanted = "a table in CSV, TSV, Parquet, Feather, JSON lines or Excel, or labels in IDX"
        raise TableError(f"expected {wanted}, found {other.name}, {_way_out(other)}")
    formats = {kind for kind in kinds.values() if kind is not None}
    if len(formats) > 1:
        found = " and ".join(sorted(formats))
        raise TableError(f"expected files of one format in {path}, found {found}; move those of the others away")
    return formats.pop()


def file_kind(file: Place) -> Format | None:
    """The format of a file by its name; None for no table."""
    return next((kind for ending, kind in TABLE_ENDINGS.items() if file.name.lower().endswith(ending)), None)


def _way_out(file: Place) -> str:
    """The kind of a file that is no table, and the advice."""
    suffix = file.suffix.lower()
    known = (how for endings, how in _SAVED_AS.items() if suffix in endings.split())
    return next(known, "another ending; save it as CSV")


def no_header(path: Place, names: Sequence[str]) -> str:
    """An error message for a first line that does not name columns, which may be values and are not shown."""
    unnamed = sum(not name for name in names)
    if unnamed > 1 and is_header([name for name in names if name]):
        return f"{unnamed} columns of {path} have no name; name them in the first line"
    return f"expected column names in the first line of {path}, found {len(names)} values; add a line of names above it"


def is_header(names: Sequence[str]) -> bool:
    """False if a first line looks like values, which must not be printed."""
    return not any(_is_number(name) for name in names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text
    return True


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
