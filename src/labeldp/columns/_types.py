"""Types of Arrow: which of them are numbers, texts or bytes, and their names in messages."""

from __future__ import annotations

import pyarrow as pa


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
