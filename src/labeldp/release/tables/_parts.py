"""Parts of a table: its files, and ranges of row groups of large ones, whoever works on them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

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
    for file, sizes in zip(table.files, table.row_groups, strict=True):
        alone = dataclasses.replace(table, files=(file,), row_groups=())
        if table.kind != "parquet":
            yield TablePart(alone)
            continue
        first, rows = 0, 0
        for number, size in enumerate(sizes, 1):
            rows += size
            if rows >= _ROWS_PER_PART and number < len(sizes):
                yield TablePart(dataclasses.replace(alone, groups=tuple(range(first, number))), rows)
                first, rows = number, 0
        groups = tuple(range(first, len(sizes))) if first else None
        yield TablePart(dataclasses.replace(alone, groups=groups), rows)
