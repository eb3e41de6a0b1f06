"""Columns in the names of folders, such as ``year=2026/month=11/part-0.parquet``, read as pandas and pyarrow do."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable

import pyarrow as pa

from labeldp.release.tables._store import Place

#: The name of a folder whose rows have no value, as Hive and Spark write it.
_MISSING = "__HIVE_DEFAULT_PARTITION__"


def path_texts(root: Place, file: Place) -> dict[str, str | None]:
    """The columns in the path of a file of a table, with their values as text; None is a missing value."""
    parents = file.relative_to(root).parts[:-1] if file != root else ()  # type: ignore[arg-type]
    pairs = (part.partition("=") for part in parents if "=" in part)
    unquote = urllib.parse.unquote
    return {unquote(name): None if text == _MISSING else unquote(text) for name, _, text in pairs}


def path_types(root: Place, files: Iterable[Place]) -> dict[str, pa.DataType]:
    """The types of the columns in paths: whole numbers if all values are, else text."""
    return {name: pa.int64() if _are_whole(texts) else pa.string() for name, texts in _texts(root, files).items()}


def path_respelled(root: Place, files: Iterable[Place]) -> list[str]:
    """The columns in paths whose numbers are written otherwise there, such as 01 for 1."""
    found = _texts(root, files).items()
    return [name for name, texts in found if _are_whole(texts) and any(text != str(int(text)) for text in texts)]


def path_values(root: Place, file: Place, schema: pa.Schema, rows: int) -> dict[str, pa.Array]:
    """The columns in the path of a file, in the types of a schema and for so many rows."""
    texts = path_texts(root, file)
    values = {name: pa.scalar(text, pa.string()).cast(schema.field(name).type) for name, text in texts.items()}
    return {name: pa.repeat(value, rows) for name, value in values.items()}


def _texts(root: Place, files: Iterable[Place]) -> dict[str, set[str]]:
    """The different values of each column in paths, without missing ones."""
    values: dict[str, set[str]] = {}
    for file in files:
        for name, text in path_texts(root, file).items():
            values.setdefault(name, set()).update(() if text is None else (text,))
    return values


def _are_whole(texts: set[str]) -> bool:
    """True if there are values, and all of them are whole numbers."""
    return bool(texts) and all(map(_is_whole, texts))


def _is_whole(text: str) -> bool:
    """True for a whole number of 64 bits in ASCII digits, which may begin with zeros."""
    return text.isascii() and text.removeprefix("-").isdecimal() and -(1 << 63) <= int(text) < 1 << 63
