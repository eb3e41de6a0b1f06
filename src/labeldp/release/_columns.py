"""Released labels as Arrow columns, and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int, UInt8

from labeldp.errors import VerificationError
from labeldp.privacy import Channel, LabelSpace, pack, row_arrays, unpack

#: The field that holds the released labels themselves; the other fields are what the channel needs for each row.
CODES = "codes"


def column_name(label: str, field: str) -> str:
    """The column of a field: ``LABEL_released`` for the released label, ``LABEL_candidates`` and the like."""
    return f"{label}_released" if field == CODES else f"{label}_{field}"


def to_columns(label: str, space: LabelSpace, channel: Channel, codes: np.ndarray) -> dict[str, pa.Array]:
    """Released labels and what differs by row, as columns by name; sets are lists in declared order."""
    points = pa.array(space.points, space.arrow_type())
    columns = {CODES: _from_sets(codes, points) if channel.form == "set" else points.take(pa.array(codes))}
    for field, values in row_arrays(channel).items():
        columns[field] = _from_sets(values, points) if values.ndim == 2 else pa.array(values)
    return {column_name(label, field): column for field, column in columns.items()}


def column_types(label: str, space: LabelSpace, channel: Channel) -> dict[str, pa.DataType]:
    """The types of the columns that a release adds."""
    sets = channel.form == "set"
    empty = np.empty((0, (channel.classes + 7) // 8) if sets else 0, dtype=np.uint8 if sets else np.int32)
    columns = to_columns(label, space, channel.take(slice(0, 0)), empty)
    return {name: column.type for name, column in columns.items()}


def from_column(column: pa.Array, space: LabelSpace) -> np.ndarray:
    """Codes of a column of points, packed sets of a column of lists, numbers of a column of group numbers.

    Raises:
        VerificationError: A value is missing or not in the space, or a set repeats or is out of order.
    """
    if column.null_count:
        raise VerificationError(f"expected a value in every row of a released column, found {column.null_count} nulls")
    points = pa.array(space.points, space.arrow_type())
    if pa.types.is_list(column.type):
        return _to_sets(column, points)
    if column.type == pa.int32():
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return _to_codes(column, points)


def _from_sets(packed: UInt8[np.ndarray, "n b"], points: pa.Array) -> pa.Array:
    mask = unpack(packed, len(points))
    offsets = np.zeros(len(mask) + 1, dtype=np.int32)
    np.cumsum(np.count_nonzero(mask, axis=1), out=offsets[1:])
    members = np.nonzero(mask)[1].astype(np.int32)
    kind = pa.list_(pa.field("element", points.type, nullable=False))
    return pa.ListArray.from_arrays(pa.array(offsets), points.take(pa.array(members)), type=kind)


def _to_sets(column: pa.ListArray, points: pa.Array) -> UInt8[np.ndarray, "n b"]:
    lengths = np.asarray(pc.list_value_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)
    rows = np.repeat(np.arange(len(column)), lengths)
    members = _to_codes(column.flatten(), points)
    same_row = rows[1:] == rows[:-1]
    if (same_row & (np.diff(members) <= 0)).any():
        raise VerificationError("expected released sets in declared order without repeats, found another order")
    mask = np.zeros((len(column), len(points)), dtype=np.bool_)
    mask[rows, members] = True
    return pack(mask)


def _to_codes(column: pa.Array, points: pa.Array) -> Int[np.ndarray, "n"]:
    codes = pc.index_in(column, value_set=points)
    if codes.null_count:
        raise VerificationError(f"expected only declared labels in a released column, found {codes.null_count} others")
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int32)
