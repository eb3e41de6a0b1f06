"""Released files: Parquet written from scratch, with nothing but the released columns."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.release._certificate import Certificate, File
from labeldp.release._output import CERTIFICATE, publish, staged


class FileWriter:
    """One Parquet file of a release, written in pieces; plain types, no metadata but the schema.

    Args:
        folder: The staging folder.
        name: The file's name.
        schema: The released columns.
    """

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self._path = folder / name
        self._rows = 0
        texts = [field.name for field in schema if not pa.types.is_floating(field.type)]
        self._writer = pq.ParquetWriter(self._path, schema, use_dictionary=texts, compression="snappy")

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        self._rows += table.num_rows

    def close(self) -> File:
        """Finish the file and describe it."""
        self._writer.close()
        return File(self._path.name, self._rows, file_digest(self._path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, and with plain values in place of dictionaries and extension types."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves, all the way down."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain_field(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    return pa.list_(_plain_field(kind.value_field)) if pa.types.is_list(kind) else kind


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def without_index(table: pa.Table) -> pa.Table:
    """A table without the columns that a pandas index became: an index is public only as a column."""
    try:
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:
        index = []
    return table.drop_columns([name for name in index if isinstance(name, str) and name in table.column_names])


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column's values themselves, without a dictionary that may list values that do not occur."""
    return column.cast(plain_type(column.type)) if plain_type(column.type) != column.type else column


def columns_of(file: Path) -> tuple[tuple[str, str], ...]:
    """Names and types of a file's columns, as a certificate lists them."""
    return tuple((field.name, str(field.type)) for field in pq.read_schema(file))


def write_release(target: Path, table: pa.Table, certificate: Certificate) -> Path:
    """Write one file and its certificate into a new folder, all at once."""
    schema = plain_schema(table.schema)
    plain = pa.table([plain_column(column) for column in table.columns], schema=schema)
    with staged(target, certificate.release) as staging:
        with FileWriter(staging, "data.parquet", schema) as writer:
            writer.write(plain)
            file = writer.close()
        finish(
            staging, target, dataclasses.replace(certificate, columns=columns_of(staging / file.name), files=(file,))
        )
    return target


def finish(staging: Path, target: Path, certificate: Certificate) -> None:
    """Put the certificate beside the files and move them to their target."""
    (staging / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
    publish(staging, target)


def file_digest(path: Path) -> str:
    """SHA-256 of a released file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
