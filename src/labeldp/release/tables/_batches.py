"""Batches of rows: regrouped to one length, or some rows of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from labeldp._shapes import Bool
from labeldp.columns import arrow
from labeldp.errors import TableError


def changed(found: str) -> TableError:
    """The error for a table that changed between two passes."""
    return TableError(f"expected a table that does not change during the release, {found}; try again")


def equal_batches(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Regroup rows into batches of equal length."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting, count = [*waiting, batch], count + batch.num_rows
        while count >= rows:
            combined = waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            yield combined.slice(0, rows)
            waiting, count = ([combined.slice(rows)] if count > rows else []), count - rows
    if count:
        yield pa.concat_batches(waiting)


def chosen_rows(batches: Iterator[pa.RecordBatch], chosen: Bool[np.ndarray, "n"]) -> Iterator[pa.RecordBatch]:
    """The rows of batches that a mask chooses.

    Raises:
        TableError: There are more or fewer rows than before.
    """
    first = 0
    for batch in batches:
        mask = chosen[first : first + batch.num_rows]
        if mask.size < batch.num_rows:
            break
        if mask.any():
            yield batch.take(arrow(np.flatnonzero(mask)))
        first += batch.num_rows
    if first != chosen.size:
        raise changed(f"found other rows than the {chosen.size:,} before")
