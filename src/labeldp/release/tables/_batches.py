"""Batches of rows: regrouped to one length, some rows of each, or held in memory for later passes over a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from labeldp._shapes import Bool
from labeldp.columns import arrow
from labeldp.errors import TableError
from labeldp.release.tables._store import Place

#: Bytes of the cells of a CSV table, as text, that are held at most.
_MOST = 1 << 28


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


class Memory:
    """The rows of a table's files that are held; a worker that gets the table reads its files."""

    def __init__(self, held: Mapping[Place, pa.Table] = MappingProxyType({})) -> None:
        self._held = dict(held)

    def __reduce__(self) -> tuple[type[Memory], tuple[()]]:
        return Memory, ()

    def of(self, path: Place) -> pa.Table | None:
        """The rows of a file; None if they are not held."""
        return self._held.get(path)

    def hold(self, path: Place, rows: pa.Table) -> pa.Table:
        """Hold the rows of a file."""
        self._held[path] = rows
        return rows


class Texts:
    """The cells of a CSV table, as long as all of them fit.

    Attributes:
        columns: The columns that are held; none once they do not fit.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = list(columns)
        self._pieces: dict[Place, dict[str, list[pa.Array]]] = {}
        self._size = 0

    def add(self, path: Place, batch: pa.RecordBatch) -> None:
        """Add the next rows of a file."""
        self._size += batch.nbytes
        if self._size > _MOST:
            self.columns.clear()
            self._pieces.clear()
        for name in self.columns:
            self._pieces.setdefault(path, {}).setdefault(name, []).append(batch[name])

    def read(self, cells: Callable[[pa.Array, str, Place, int], pa.Array]) -> Memory:
        """The rows of all files, once a function converted each column; its texts are given up."""
        held = {}
        for path, pieces in self._pieces.items():
            columns = {}
            for name in self.columns:
                texts = pa.chunked_array(pieces.pop(name), pa.string()).combine_chunks()
                columns[name] = cells(texts, name, path, 0)
            held[path] = pa.table(columns)
        return Memory(held)
