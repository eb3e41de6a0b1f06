"""Clusters of table rows by public columns, in bounded memory plus one number per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress, silent
from labeldp._shapes import Int
from labeldp.errors import TableError
from labeldp.learning.cells import cluster
from labeldp.learning.features import columns_of, frame_of, scaling_transformer
from labeldp.release import kept_columns
from labeldp.release.tables import Table, TableFile, open_table, typed

_ROWS_PER_BATCH = 1 << 16
#: Most rows in a sample that clusters are fitted on.
_SAMPLED_ROWS = 1 << 16


def cluster_table(
    source: str | Path | TableFile,
    label: str,
    columns: Sequence[str],
    count: int | Callable[[int], int],
    progress: Progress | None = None,
) -> Int[np.ndarray, "n"]:
    """Cluster the rows of a table on disk by public columns, for the ``clusters`` of ``release_table``.

    Numbers are scaled, and texts are one-hot encoded. Clusters are fitted by k-means on up to 65 536 evenly spaced
    rows; every row goes to the nearest one. Values of the label column are never read.

    Args:
        source: A CSV or Parquet file, or a folder of either.
        label: The label column, which is left out.
        columns: The public columns to use.
        count: The number of clusters, chosen independently of labels, or a function of the number of rows.
        progress: Called with the name of the pass, the rows done, and the total number of rows (0 while unknown).

    Returns:
        The number of each row's cluster, from 0.

    Guarantee:
        That of ``labeldp.learning.cells.cluster``.

    Raises:
        InputError: The label is among the columns, a column is missing, none is usable, or there are fewer rows than
            clusters.
        TableError: The table cannot be read.
    """
    report = progress or silent
    opened = open_table(source, label)
    columns = kept_columns(opened.schema, opened.label, columns, None)
    table = typed(opened, columns)
    sample, rows = _spaced(table, columns)
    used, _ = columns_of(sample, None, None)
    encoder = scaling_transformer(used, dense=True)
    points = np.asarray(encoder.fit_transform(frame_of(sample, used)))
    clusters = cluster(points, count if isinstance(count, int) else count(rows))
    numbers = np.empty(rows, dtype=np.int32)
    for first, batch in _batches(table, list(used)):
        numbers[first : first + batch.num_rows] = clusters.predict(encoder.transform(frame_of(batch, used)))
        report("clusters", first + batch.num_rows, rows)
    return numbers


def _spaced(table: Table, columns: Sequence[str]) -> tuple[pa.Table, int]:
    """An evenly spaced sample of rows, thinned by half whenever it grows too large; and the number of all rows."""
    sample: pa.Table | None = None
    step, rows = 1, 0
    for first, batch in _batches(table, columns):
        rows = first + batch.num_rows
        places = np.arange(-first % step, batch.num_rows, step)
        spaced = batch.take(places)
        sample = spaced if sample is None else pa.concat_tables([sample, spaced])
        while sample.num_rows > _SAMPLED_ROWS:
            sample, step = sample.take(np.arange(0, sample.num_rows, 2)), 2 * step
    if sample is None:
        raise TableError(f"expected at least one row in {table.path}, found none")
    return sample, rows


def _batches(table: Table, columns: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
    """Batches of some columns, each with the number of its first row."""
    first = 0
    for batch in table.batches(columns, _ROWS_PER_BATCH):
        yield first, pa.Table.from_batches([batch])
        first += batch.num_rows
