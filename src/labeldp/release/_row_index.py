"""Rows as users name them: slices, numbers, masks."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from labeldp.errors import RowsError


def row_places(rows: object, count: int) -> slice | Int[np.ndarray, "n"]:
    """Where rows are in an array: a slice where they follow one another, which copies nothing, else ``row_numbers``.

    Raises:
        RowsError: A row does not exist, or these are no rows.
    """
    start, stop, step = (0, count, 1) if rows is None else rows.indices(count) if isinstance(rows, slice) else (0, 0, 0)
    return slice(start, max(start, stop)) if step == 1 else row_numbers(rows, count)


def row_numbers(rows: object, count: int) -> Int[np.ndarray, "n"]:
    """Row numbers of a slice, of row numbers (negative ones from the end) or of a mask; None is all rows.

    Raises:
        RowsError: A row does not exist, or these are no rows.
    """
    if rows is None:
        return np.arange(count)
    if isinstance(rows, slice):
        return np.arange(count)[rows]
    try:
        given = np.asarray(rows)
    except ValueError:
        raise RowsError("expected row numbers in one dimension, found lists of different lengths") from None
    if given.dtype == np.bool_:
        if given.shape != (count,):
            raise RowsError(f"expected a mask of {count} rows, found shape {given.shape}")
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise RowsError(f"expected row numbers in one dimension, found {given.dtype} of shape {given.shape}")
    if given.size and not (-count <= int(given.min()) and int(given.max()) < count):
        raise RowsError(f"expected row numbers between 0 and {count - 1}, found others")
    return given.astype(np.int64) % max(count, 1)
