"""Conversion of slices, row numbers and masks to row indices."""

from __future__ import annotations

import sys

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import RowsError
from labeldp.release.released._row_identity import RowIdentity, identity_of


def row_places(rows: object, count: int, identity: RowIdentity | None = None) -> slice | Int[np.ndarray, "n"]:
    """Convert rows to a slice if they are contiguous, which copies nothing, else to ``row_numbers``.

    Raises:
        RowsError: A row does not exist, or the argument is no selection of rows.
    """
    start, stop, step = (0, count, 1) if rows is None else rows.indices(count) if isinstance(rows, slice) else (0, 0, 0)
    return slice(start, max(start, stop)) if step == 1 else row_numbers(rows, count, identity)


def row_numbers(rows: object, count: int, identity: RowIdentity | None = None) -> Int[np.ndarray, "n"]:
    """Convert a slice, row numbers (negative ones from the end) or a mask to row numbers; None is all rows.

    Args:
        rows: The selection.
        count: How many rows there are.
        identity: Their identity, with which the index of a pandas object must agree.

    Raises:
        RowsError: A row does not exist, or the argument is no selection of rows, or a mask of other rows.
    """
    if rows is None:
        return np.arange(count)
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    try:
        index = np.asarray(rows)
    except ValueError:
        raise RowsError("expected row numbers in one dimension, found lists of different lengths") from None
    if identity is not None:
        _check_pandas(rows, index, identity)
    if index.dtype == np.bool_:
        if index.shape != (count,):
            raise RowsError(f"expected a mask of {count} rows, found shape {index.shape}")
        return np.flatnonzero(index)
    if index.ndim != 1 or (index.size and index.dtype.kind not in "iu"):
        raise RowsError(f"expected row numbers in one dimension, found {index.dtype} of shape {index.shape}")
    if index.size and not (-count <= int(index.min()) and int(index.max()) < count):
        raise RowsError(f"expected row numbers between 0 and {count - 1}, found others")
    return index.astype(np.int64) % max(count, 1)


def _check_pandas(rows: object, index: np.ndarray, identity: RowIdentity) -> None:
    """Refuse a mask of other rows, and numbers that may be the names of rows instead of their places."""
    if index.dtype == np.bool_:
        identity.check(identity_of(rows), "a mask")
        return
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(rows, pandas.Series | pandas.Index) and not identity.is_positions:
        raise RowsError(
            "expected the places of rows as an array, found a pandas object, whose values may be in the index of the "
            "labels instead; pass .to_numpy() of places, or labels.index.get_indexer(...)"
        )
