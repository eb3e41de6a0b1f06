"""Types of columns, and their reduction to plain values: no dictionaries, runs, views, extensions or metadata."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc


def is_number(kind: pa.DataType) -> bool:
    """True for numbers, also decimal ones."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """True for texts in any layout."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """True for bytes in any layout, as exports store UUIDs and texts whose encoding they do not state."""
    sized = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(sized or pa.types.is_binary_view(kind))


def type_name(kind: pa.DataType) -> str:
    """The name of a type for a message, without fields of nested types or digits of decimals: they may be values."""
    if pa.types.is_nested(kind):
        return "nested values"
    return "decimal" if pa.types.is_decimal(kind) else str(kind)


#: The plain type of views, of which many functions and readers know nothing.
_VIEWS = MappingProxyType({pa.string_view(): pa.string(), pa.binary_view(): pa.binary()})
#: Bits of the shorter whole numbers that dates and times are stored as.
_NARROW = 32
_LISTS = (
    (pa.types.is_large_list, pa.large_list),
    (pa.types.is_large_list_view, pa.large_list),
    (pa.types.is_list, pa.list_),
    (pa.types.is_list_view, pa.list_),
)


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata, with plain types instead of dictionaries, runs, views and extension types."""
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in schema])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The plain type of the values, at every depth."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):  # of which Arrow can count no values
        return pa.decimal128(kind.precision, kind.scale)
    return _plain_nested(kind) if pa.types.is_nested(kind) else _VIEWS.get(kind, kind)


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    """The plain type of nested values."""
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(i)) for i in range(kind.num_fields)])
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain_field(kind.value_field), kind.list_size)
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), _plain_field(kind.item_field))
    listed = next((make for check, make in _LISTS if check(kind)), None)
    return kind if listed is None else listed(_plain_field(kind.value_field))


def _plain_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, plain_type(field.type), field.nullable)


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column of plain values, without a dictionary that may list values that do not occur."""
    if plain_type(column.type) == column.type:
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(list(map(plain_column, column.chunks)), plain_type(column.type))
    if isinstance(column, pa.RunEndEncodedArray):
        return plain_column(pc.run_end_decode(column))
    if isinstance(column, pa.DictionaryArray) and column.dictionary.type != plain_type(column.type):
        return plain_column(column.dictionary).take(column.indices)  # Arrow cannot take from views
    if isinstance(column, pa.ListViewArray | pa.LargeListViewArray):  # whose cast has too few offsets
        return pa.array(column.to_pylist(), plain_type(column.type))
    return column.cast(plain_type(column.type))


def stored_integers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Dates, times and durations as the whole numbers that are stored; any other column as it is."""
    if not pa.types.is_temporal(column.type) or pa.types.is_interval(column.type):
        return column
    return column.cast(pa.int32() if column.type.bit_width == _NARROW else pa.int64())


def plain_uuids(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """UUIDs of Arrow's own type as the digits that their texts are known by; any other column as it is."""
    if getattr(column.type, "extension_name", "") != "arrow.uuid":
        return column
    return pa.array([None if value is None else value.hex for value in column.to_pylist()], pa.string())
