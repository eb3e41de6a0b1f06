"""Reduction of columns to plain values: no dictionaries, no extension types, no metadata."""

from __future__ import annotations

import pyarrow as pa


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, with plain types instead of dictionaries and extension types."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The plain type of the values, at every depth."""
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


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of plain values, without a dictionary that may list values that do not occur."""
    return column.cast(plain_type(column.type)) if plain_type(column.type) != column.type else column


def plain_uuids(column: pa.Array) -> pa.Array:
    """UUIDs of Arrow's own type as the digits that their texts are known by; any other column as it is."""
    if getattr(column.type, "extension_name", "") != "arrow.uuid":
        return column
    return pa.array([None if value is None else value.hex() for value in column.storage.to_pylist()], pa.string())
