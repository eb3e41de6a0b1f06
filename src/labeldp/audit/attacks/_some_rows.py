"""Rows of a release folder that fit in memory: all, or some that are chosen by chance."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress, silent
from labeldp._shapes import Int
from labeldp.release import Release, public_columns, release_batches
from labeldp.release.folder import local_copy, read_certificate
from labeldp.release.tables import Place

_ROWS_PER_BATCH = 1 << 18


class SomeRows(NamedTuple):
    """Rows of a release.

    Attributes:
        table: Their public columns.
        release: Their labels.
        places: Their numbers among all rows, in order; None where these are all rows.
    """

    table: pa.Table
    release: Release
    places: Int[np.ndarray, "n"] | None


def some_rows(directory: str | Place, most: int, progress: Progress = silent) -> SomeRows:
    """Public columns and released labels of a release, of at most so many rows; memory grows with these alone.

    If there are more, the rows are chosen by chance, each set of so many rows with the same probability, without a look
    at labels; their order is kept.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``.
        most: The most rows.
        progress: Called with ("load", rows read, rows of the release) where rows are chosen.

    Raises:
        VerificationError: The folder and its certificate do not agree.
    """
    with local_copy(directory) as folder:
        return _some_rows(folder, most, progress)


def _some_rows(directory: Path, most: int, progress: Progress) -> SomeRows:
    """Rows of a release on a disk."""
    rows = read_certificate(directory).rows
    if rows <= most:
        release = Release.load(directory)
        return SomeRows(public_columns(directory, release.certificate), release, None)
    places = np.sort(np.random.default_rng().choice(rows, most, replace=False, shuffle=False))
    tables, parts, first = list[pa.Table](), list[Release](), 0
    for table, labels in release_batches(directory, _ROWS_PER_BATCH):
        low, high = np.searchsorted(places, [first, first + len(labels)])
        chosen = places[low:high] - first
        tables.append(table.take(chosen))
        parts.append(labels[chosen])
        first += len(labels)
        progress("load", first, rows)
    return SomeRows(pa.concat_tables(tables), Release.concat(parts), places)
