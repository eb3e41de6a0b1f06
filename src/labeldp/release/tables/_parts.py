"""Parts of a table: its files, and ranges of row groups of large ones, whoever works on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from labeldp._shapes import Bool
from labeldp.release.tables._store import Place
from labeldp.release.tables._tables import Table

#: The fewest rows of a part of a Parquet file, but for the last.
_ROWS_PER_PART = 1 << 22


@dataclass(frozen=True)
class TablePart:
    """Consecutive rows of a table, which are read and written alone.

    Attributes:
        table: A table of one file, or of some of its row groups.
        rows: Number of rows; None until they were counted.
        first: The place of the first row among all rows, once all rows before were counted.
        digest: SHA-256 of all that the first pass read of it, once it did. It depends on labels,
            and goes to workers alone, who read them.
    """

    table: Table
    rows: int | None = None
    first: int = 0
    digest: bytes = dataclasses.field(default=b"", repr=False)

    @property
    def count(self) -> int:
        """Number of rows, which were counted."""
        assert self.rows is not None  # noqa: S101 (the first look counts rows)
        return self.rows


def parts_of(table: Table) -> tuple[TablePart, ...]:
    """The parts of a table, in the order of its rows."""
    return tuple(_parts(table))


def _parts(table: Table) -> Iterator[TablePart]:
    for file, sizes, chosen in zip_longest(table.files, table.row_groups, table.chosen):
        alone = dataclasses.replace(table, files=(file,), row_groups=(), chosen=())
        if table.kind != "parquet":
            yield from _some(TablePart(alone), chosen)
            continue
        first, rows, before = 0, 0, 0
        for number, size in enumerate(sizes, 1):
            rows += size
            if rows >= _ROWS_PER_PART and number < len(sizes):
                some = None if chosen is None else chosen[before : before + rows]
                yield from _some(TablePart(dataclasses.replace(alone, groups=tuple(range(first, number))), rows), some)
                first, rows, before = number, 0, before + rows
        groups = tuple(range(first, len(sizes))) if first else None
        rest = None if chosen is None else chosen[before:]
        yield from _some(TablePart(dataclasses.replace(alone, groups=groups), rows), rest)


def _some(part: TablePart, chosen: Bool[np.ndarray, "n"] | None) -> Iterator[TablePart]:
    """A part with its chosen rows alone; nothing if there are none."""
    if chosen is None:
        yield part
    elif chosen.any():
        table = dataclasses.replace(part.table, chosen=(chosen,))
        yield dataclasses.replace(part, table=table, rows=int(np.count_nonzero(chosen)))


def choose(table: Table, parts: Sequence[TablePart], chosen: Bool[np.ndarray, "n"]) -> Table:
    """The table of some of its rows, and of the files that hold them; its parts were counted."""
    masks: dict[Place, list[np.ndarray]] = {file: [chosen[:0]] for file in table.files}
    for part in parts:
        masks[part.table.files[0]].append(chosen[part.first : part.first + part.count])
    of_files = {file: np.concatenate(each) for file, each in masks.items()}
    kept = [(f, sizes) for f, sizes in zip_longest(table.files, table.row_groups) if of_files[f].any()]
    files, row_groups = zip(*kept, strict=True)
    return dataclasses.replace(table, files=files, row_groups=row_groups, chosen=tuple(of_files[f] for f in files))
