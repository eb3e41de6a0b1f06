"""The columns of a table of several files: those in the names of folders, and those that files have in common.

Columns in names of folders, such as ``year=2026/month=11/part-0.parquet``, are read as pandas and pyarrow do. A column
that no common type can hold, or that a file lacks, is empty to every pass, and refused where it is declared.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from labeldp.columns import plain_column, plain_type, result_or_none, type_name
from labeldp.errors import TableError
from labeldp.release.tables._store import Place

#: The metadata of a column whose files differ: the reason why it cannot be read.
_DIFFERS = b"differs"
_LISTED = 3


def common_schema(schemas: Mapping[str, pa.Schema], label: str) -> pa.Schema:
    """The columns of all files, by the names of the files.

    The label has the type of the first file: missing labels may change it, and a label space reads any.

    Raises:
        TableError: A file has no such label.
    """
    first, *others = schemas.values()
    if all(schema == first for schema in others):
        return first
    names = dict.fromkeys(name for schema in schemas.values() for name in schema.names)
    if all(set(schema.names) == names.keys() for schema in others) and len(set(first.names)) < len(first.names):
        return first  # two columns of one name are refused
    return pa.schema([_common_field(name, schemas, label) for name in names])


def _common_field(name: str, schemas: Mapping[str, pa.Schema], label: str) -> pa.Field:
    """A column in a type that holds the values of all files, or an empty one that says why there is none."""
    kinds = {file: schema.field(name).type for file, schema in schemas.items() if name in schema.names}
    if lacking := [file for file in schemas if file not in kinds]:
        why = f"no column {name!r} in {', '.join(lacking[:_LISTED])}, which {next(iter(kinds))} has"
        if name == label:
            raise TableError(f"expected the label in every file, found {why}; rename it there, or move that file")
        return _empty(name, why)
    if name == label:
        return pa.field(name, next(iter(kinds.values())))
    if len(set(kinds.values())) == 1:
        return pa.field(name, next(iter(kinds.values())))
    fields = [pa.schema([(name, plain_type(kind))]) for kind in kinds.values()]
    merged = result_or_none(lambda: pa.unify_schemas(fields, promote_options="permissive"))
    if merged is not None:
        return merged.field(name)
    by_type = {type_name(plain_type(kind)): file for file, kind in kinds.items()}
    shown = ", ".join(f"{kind} in {file}" for kind, file in list(by_type.items())[:_LISTED])
    return _empty(name, f"{name!r} as {shown}")


def _empty(name: str, why: str) -> pa.Field:
    return pa.field(name, pa.null(), metadata={_DIFFERS: why.encode()})


def differing(schema: pa.Schema, names: Collection[str] | None = None) -> Iterator[str]:
    """The reasons why columns, or all of them, cannot be read."""
    for field in schema:
        if (field.metadata or {}).get(_DIFFERS) and (names is None or field.name in names):
            yield field.metadata[_DIFFERS].decode()


def is_empty(field: pa.Field) -> bool:
    """True for a column that cannot be read."""
    return _DIFFERS in (field.metadata or {})


def as_stored(schema: pa.Schema, names: Sequence[str], columns: Sequence[pa.Array], label: str) -> list[pa.Array]:
    """Columns of one file in the types of all files, where these differ; labels as they are."""
    pairs = zip(names, columns, strict=True)
    return [column if name == label else _cast(column, schema.field(name).type) for name, column in pairs]


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in a wider type, with the nearest floats; as it is where its values have that type."""
    if plain_type(column.type) == plain_type(kind):
        return column
    return plain_column(column).cast(plain_type(kind), safe=not pa.types.is_floating(kind))


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
