"""Public cluster numbers of a table's rows, computed without reading a label."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import TableError
from labeldp.mechanisms.queries import cell_numbers
from labeldp.release.tables._tables import Table, prefetch
from labeldp.release.tables._units import unit_keys


def clusters_of(
    table: Table, clusters: str | Int[np.ndarray, "n"], rows_per_batch: int, report: Callable[[str, int, int], None]
) -> Int[np.ndarray, "n"]:
    """The number of each row's cluster, from 0: as passed, or numbered by the keys of a column's values.

    Different spellings are different clusters: these are public groups of rows, not people, and none is protected by
    merging two. This takes four bytes per row.

    Raises:
        InputError: The numbers are not whole numbers from 0.
        TableError: The column has a missing value, or the table no rows.
    """
    if not isinstance(clusters, str):
        return cell_numbers(clusters).astype(np.int32)
    numbers: dict[int, int] = {}
    parts, done = [], 0
    for batch in prefetch(table.batches([clusters], rows_per_batch)):
        if batch[clusters].null_count:
            raise TableError(f"expected a cluster in every row of {clusters!r}, found missing ones; fill them in")
        keys, places = np.unique(unit_keys(batch[clusters], as_stored=True), return_inverse=True)
        cells = np.array([numbers.setdefault(int(key), len(numbers)) for key in keys], dtype=np.int32)
        parts.append(cells[places])
        done += batch.num_rows
        report("clusters", done, 0)
    if not done:
        raise TableError(f"expected at least one row in {table.path}, found none")
    ranks = np.argsort(np.argsort(np.fromiter(numbers, dtype=np.int64))).astype(np.int32)
    return np.asarray(ranks[np.concatenate(parts)])
