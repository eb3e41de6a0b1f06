"""The first look at a table: fingerprints and identities of its public columns, part by part; labels are not read.

Parts are its files, and ranges of row groups of large ones, whoever works on them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress
from labeldp._shapes import Bool, UInt64
from labeldp.columns import Columns, result_or_none
from labeldp.release.engines import Engine, Tick, reported
from labeldp.release.tables._fingerprints import FingerprintBuilder, Fingerprints
from labeldp.release.tables._identities import Identity, IdentityFinder, in_order, people_in
from labeldp.release.tables._store import Place
from labeldp.release.tables._tables import Table, prefetch

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


_ROWS_PER_BATCH = 1 << 18


@dataclass(frozen=True)
class Look:
    """Findings in the public columns of a table.

    Attributes:
        parts: The parts of the table, whose rows were counted.
        fingerprints: The fingerprints of all rows; None if there is no column but the label.
        identities: Columns that may identify somebody.
        units: The hash of each row's unit, if a unit was declared.
    """

    parts: tuple[TablePart, ...]
    fingerprints: Fingerprints | None
    identities: tuple[Identity, ...]
    units: UInt64[np.ndarray, "n"] | None


@dataclass(frozen=True)
class _Task:
    """A part to look at.

    Attributes:
        table: The part.
        columns: All columns but the label.
        unit: The column of the privacy unit.
        rows: The number of rows of the whole table, as far as it is known.
        identities: False if the rows in which identities are looked for come before this part.
    """

    table: Table
    columns: tuple[str, ...]
    unit: str | None
    rows: int
    identities: bool


@dataclass
class PartLook:
    """Findings in one part, which can be merged with those in the next."""

    builder: FingerprintBuilder
    finder: IdentityFinder
    units: list[np.ndarray] = field(default_factory=list)
    rows: int = 0

    def merge(self, other: PartLook) -> None:
        """Add the findings in the part that follows."""
        self.builder.merge(other.builder)
        self.finder.merge(other.finder)
        self.units.extend(other.units)
        self.rows += other.rows


def look_at(table: Table, parts: Sequence[TablePart], unit: str | None, report: Progress, engine: Engine) -> Look:
    """Fingerprints and identities of all columns but the label, and the number of rows of each part."""
    columns = tuple(name for name in table.schema.names if name != table.label)
    rows = [part.rows or 0 for part in parts]
    before = np.cumsum([0, *rows])
    tasks = {
        number: _Task(part.table, columns, unit, sum(rows), bool(before[number] < IdentityFinder.ROWS))
        for number, part in enumerate(parts)
        if columns or (part.rows is None and len(parts) > 1)
    }
    total = _empty(table, columns, unit, sum(rows))
    looks = reported(engine, look_at_part, list(tasks.values()), report, "look", sum(rows))
    for number, look in zip(tasks, looks if tasks else (), strict=True):
        total.merge(look)
        rows[number] = look.rows
    before = np.cumsum([0, *rows])
    counted = (
        dataclasses.replace(part, rows=size, first=int(first))
        for part, size, first in zip(parts, rows, before, strict=False)
    )
    prints = total.builder.result() if columns else None
    units = np.concatenate(total.units) if total.units else None
    return Look(tuple(counted), prints, total.finder.result(), units)


def look_at_part(task: _Task, tick: Tick) -> PartLook:
    """Fingerprints and identities of one part."""
    look = _empty(task.table, task.columns, task.unit, task.rows)

    def also(cells: Mapping[str, np.ndarray]) -> None:
        if task.unit is not None:
            look.units.append(cells[task.unit])

    batches = _counted(prefetch(task.table.scan(task.columns, _ROWS_PER_BATCH)), tick)
    if task.identities:
        batches = _watched(batches, look.finder)
    if task.columns:
        look.builder.add(batches, also)
        look.rows = look.builder.count
    else:
        look.rows = sum(batch.num_rows for batch in batches)
    return look


def people_of(columns: Columns) -> tuple[Identity, ...]:
    """Columns of a table in memory that may be people; those that cannot be read are no columns."""
    read = (result_or_none(partial(columns.table, [name])) for name in columns.names)
    found: list[Identity] = []
    for part in (part for part in read if part is not None):
        finder = IdentityFinder(part.schema)
        for batch in part.to_batches():
            finder.add(batch)
        found += finder.result()
    return people_in(in_order(found))


def _empty(table: Table, columns: Sequence[str], unit: str | None, rows: int) -> PartLook:
    """The findings in no rows."""
    kept = [unit] if unit in columns and unit is not None else []
    return PartLook(FingerprintBuilder(columns, rows=rows, kept=kept), IdentityFinder(table.schema))


def _watched(batches: Iterator[pa.RecordBatch], finder: IdentityFinder) -> Iterator[pa.RecordBatch]:
    """Batches, whose rows are added to a finder."""
    for batch in batches:
        finder.add(batch)
        yield batch


def _counted(batches: Iterator[pa.RecordBatch], tick: Tick) -> Iterator[pa.RecordBatch]:
    """Batches, whose rows are reported once they were taken, in steps that do not follow the table's row groups."""
    waiting = 0
    for batch in batches:
        yield batch
        waiting += batch.num_rows
        if waiting >= _ROWS_PER_BATCH:
            tick(_ROWS_PER_BATCH)
            waiting -= _ROWS_PER_BATCH
    if waiting:
        tick(waiting)
