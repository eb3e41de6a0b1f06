"""The first pass over a table, which checks everything before anything is drawn."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._progress import Progress
from labeldp._shapes import Int
from labeldp.columns import PLAIN, Notation, as_array, is_text, numbers_as_texts, result_or_none
from labeldp.errors import LabelError, TableError
from labeldp.mechanisms.randomizers import checked_prior
from labeldp.privacy import Classes, LabelSpace, undeclared_label
from labeldp.release.engines import Engine, Tick, reported
from labeldp.release.tables._cell_hashes import as_texts
from labeldp.release.tables._fingerprints import FEWEST_VALUES
from labeldp.release.tables._look import TablePart
from labeldp.release.tables._tables import Table, prefetch
from labeldp.release.tables._units import UnitKey, Units, unit_keys

#: Rows in which kept columns are compared with the label, and the most parts that they are taken from.
_HEAD, _HEADS = 1 << 16, 64
#: Share of the changes of label that a shuffled table would have, and number of these, below which rows are in groups.
_FEW_CHANGES, _EXPECTED_CHANGES = 0.5, 30.0
#: The advice on rows whose order discloses labels, at the end of a note.
SHUFFLE = "shuffle them (--shuffle, shuffle=True), or shuffle the table first"
#: Rows of a fingerprint: few, so that a table is recognized after rows were appended.
_FINGERPRINT_ROWS = 32
_FEW_VALUES = 0.5
#: Rows of a value, and their share of one class, from which it tells the class.
_TELLING_ROWS, _TELLING_SHARE = 100, 0.995
#: Rows of other classes that have to be expected of it, and how many times rarer they have to be.
_EXPECTED_OTHERS = 10.0


@dataclass(frozen=True)
class Survey:
    """Findings of the first pass; about labels only that all of them are in the space.

    Attributes:
        parts: The parts of the table, with the digest of what was read of each.
        rows: Number of rows.
        units: The rows of each unit, if a unit was declared.
        notes: Private notes for the curator: kept columns or a row order that disclose labels.
    """

    parts: tuple[TablePart, ...]
    rows: int
    units: Units | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Task:
    """A part whose rows are checked: its label, unit and prior columns, and the place of its first row."""

    part: TablePart
    space: LabelSpace
    unit: str | None
    prior: tuple[str, ...]
    rows_per_batch: int
    unit_key: UnitKey | None


@dataclass
class PartSurvey:
    """Findings in the labels of one part, which can be merged with those in the next; private.

    Attributes:
        counts: Number of rows of each class.
        units: The rows of each unit, if a unit was declared.
        ends: The codes of the first and the last label; None without rows.
        changes: The number of rows whose label is not that of the row before.
        rows: Number of rows.
        digest: SHA-256 of labels and units, which the second pass must find again.
    """

    counts: Int[np.ndarray, "k"]
    units: Units | None
    ends: tuple[int, int] | None = None
    changes: int = 0
    rows: int = 0
    digest: bytes = b""

    def add(self, codes: Int[np.ndarray, "n"]) -> None:
        """Add the codes of the next rows."""
        if not codes.size:
            return
        first, last = int(codes[0]), int(codes[-1])
        self._follow((first, last), int(np.count_nonzero(np.diff(codes))))
        self.counts += np.bincount(codes, minlength=self.counts.size)
        self.rows += codes.size

    def merge(self, other: PartSurvey) -> None:
        """Add the findings in the part that follows."""
        if other.ends is not None:
            self._follow(other.ends, other.changes)
        self.counts += other.counts
        if self.units is not None and other.units is not None:
            self.units.merge(other.units)
        self.rows += other.rows

    @property
    def is_grouped(self) -> bool:
        """True if all rows of each class are together, in a table of enough rows."""
        return self.changes + 1 == int(np.count_nonzero(self.counts)) and self.rows > 2 * self.counts.size

    @property
    def is_clustered(self) -> bool:
        """True if the label changes far less often from row to row than it would in a shuffled table."""
        shares = self.counts / max(1, self.rows)
        expected = (self.rows - 1) * (1.0 - float(shares @ shares))
        return expected >= _EXPECTED_CHANGES and self.changes < _FEW_CHANGES * expected

    def _follow(self, ends: tuple[int, int], changes: int) -> None:
        """Count the changes of rows that follow, and where they begin."""
        self.changes += changes + int(self.ends is not None and self.ends[1] != ends[0])
        self.ends = (ends[0] if self.ends is None else self.ends[0], ends[1])


class PassDigest:
    """SHA-256 of what a pass reads of a part, batch by batch, by which two passes are compared."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, codes: Int[np.ndarray, "n"], keys: Int[np.ndarray, "n"] | None) -> None:
        """Add the codes of labels of a batch, and the keys of its units."""
        for values in (codes,) if keys is None else (codes, keys):
            self._hash.update(np.ascontiguousarray(values).data)

    def value(self) -> bytes:
        """The digest of all batches."""
        return self._hash.digest()


def survey(
    table: Table,
    space: LabelSpace,
    kept: list[str],
    unit: str | None,
    prior: list[str],
    rows_per_batch: int,
    report: Progress,
    parts: Sequence[TablePart],
    engine: Engine,
    unit_key: UnitKey | None = None,
) -> Survey:
    """Check label, unit and prior of every row, part by part; with a key, units are told by their made-up numbers.

    Raises:
        LabelError: A label is missing or not in the space.
        PriorError: A prior is no distribution.
        TableError: The table is empty, or a unit is missing.
    """
    total, checked = _no_rows(space, unit), list[TablePart]()
    known = sum(part.rows or 0 for part in parts)
    tasks = [_Task(part, space, unit, tuple(prior), rows_per_batch, unit_key) for part in parts]
    found_in_parts = reported(engine, survey_part, tasks, report, "check", known)
    for part, found in zip(parts, found_in_parts, strict=True):
        checked.append(dataclasses.replace(part, rows=found.rows, first=total.rows, digest=found.digest))
        total.merge(found)
    if total.rows == 0:
        raise TableError(f"{table.path} has column names and no rows; check how it was saved")
    notes = [
        f"the kept column {name!r} equals or determines the label: drop it, or it discloses labels"
        for name, _ in disclosing_columns(checked, space, [table.label], kept)
    ]
    if total.is_grouped:
        notes.append(f"the rows are grouped by label, so their order discloses labels: {SHUFFLE}")
    elif total.is_clustered:
        notes.append(
            "from row to row the label changes less than half as often as in a shuffled table, so the order of rows "
            f"may disclose labels: {SHUFFLE}"
        )
    return Survey(tuple(checked), total.rows, total.units, tuple(notes))


def survey_part(task: _Task, tick: Tick) -> PartSurvey:
    """Check label, unit and prior of every row of a part."""
    table, unit, prior = task.part.table, task.unit, list(task.prior)
    found, digest, row = _no_rows(task.space, unit), PassDigest(), task.part.first
    key = task.unit_key.read() if task.unit_key else b""
    for batch in prefetch(table.batches([table.label, *([unit] if unit else []), *prior], task.rows_per_batch)):
        codes = label_codes(table, batch, task.space, row)
        keys = unit_keys(batch[unit], key=key) if unit else None
        digest.add(codes, keys)
        if found.units is not None and keys is not None:
            found.units.add(keys)
        if prior:
            prior_of(batch, prior, row)
        found.add(codes)
        row += batch.num_rows
        tick(batch.num_rows)
    if found.units is not None:
        found.units.settle()
    found.digest = digest.value()
    return found


def _no_rows(space: LabelSpace, unit: str | None) -> PartSurvey:
    """The findings in no rows."""
    return PartSurvey(np.zeros(space.size, dtype=np.int64), Units() if unit else None)


def label_codes(table: Table, batch: pa.RecordBatch, space: LabelSpace, first_row: int) -> Int[np.ndarray, "n"]:
    """Codes of a batch's labels. Labels that are texts are parsed in the type of the space; empty means missing."""
    column = batch[table.label]
    if not table.has_texts_as_labels:
        return space.encode(column, first_row)
    empty = pc.equal(column, "")
    column = pc.if_else(empty, pa.scalar(None, pa.string()), column)
    if pa.types.is_string(space.arrow_type()):
        return space.encode(column, first_row)
    if not isinstance(space, Classes):
        numbers = _to_floats(column, table.file.notation if table.kind == "csv" else PLAIN)
        if numbers is None:
            raise LabelError(f"expected numbers in the label column, found {_kind_of_text(column)}")
        return space.encode(numbers, first_row)
    known = pa.array(space.points, space.arrow_type()).take(space.text_codes(column))
    undeclared = pc.and_(known.is_null(), column.is_valid())
    if pc.any(undeclared).as_py():
        place = pc.index(undeclared, True).as_py()
        raise undeclared_label(column[place].as_py(), space.points, first_row + place)
    return space.encode(known, first_row)


def prior_of(batch: pa.RecordBatch, columns: list[str], first_row: int) -> np.ndarray:
    """The checked prior of a batch."""
    numbers = [_to_floats(batch[name]) for name in columns]
    if any(column is None for column in numbers):
        raise TableError(f"expected numbers in the prior columns {columns[0]!r} ..., found something else")
    return checked_prior(np.stack([np.asarray(column) for column in numbers], axis=1), len(columns), first_row)


def _to_floats(column: pa.Array, notation: Notation = PLAIN) -> pa.Array | None:
    """Convert a column to numbers, or return None; Arrow's error may quote a label and is dropped here."""
    read = notation.numbers if is_text(column.type) else (lambda numbers: numbers)
    return result_or_none(lambda: read(column).cast(pa.float64()))


def _kind_of_text(column: pa.Array) -> str:
    """The kind of labels that are no numbers, and the way out."""
    if numbers_as_texts(column):
        return "numbers with commas; pass --decimal , for 12,5 or --thousands , for 1,000"
    return "text; declare categories with --classes (Classes), or leave rows without a number empty and use --missing"


def column_heads(table: Table) -> dict[str, str]:
    """The first values of each column but the label, as text, if they differ and so can identify a data set.

    Few values, and numbers at even distances, as of a counter, an hour or a rank, may be those of any table.
    """
    others = [name for name in table.schema.names if name != table.label]
    if not others or (batch := table.first(others, _FINGERPRINT_ROWS)) is None:
        return {}
    texts = {name: list(map(_as_marked, as_texts(column))) for name, column in zip(others, batch.columns, strict=True)}
    return {
        name: "\n".join(values)
        for name, values in texts.items()
        if len(set(values)) >= FEWEST_VALUES and not _counts(values)
    }


def _counts(values: Sequence[str]) -> bool:
    """True for numbers at one distance, which may begin again."""
    try:
        steps = np.diff(np.array(values, dtype=np.float64))
    except ValueError:
        return False
    return np.unique(np.abs(steps[np.isfinite(steps)])).size <= 2


def _as_marked(text: str) -> str:
    """A number in Python's notation, and other text unchanged, as the marks in all ledgers have them."""
    try:
        return repr(float(text))
    except ValueError:
        return text


def _different(values: Int[np.ndarray, "n"]) -> int:
    """The number of different values, by sorting, which is several times as fast as NumPy's hash table of numbers."""
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + min(1, ordered.size)


def disclosing_columns(
    parts: Sequence[TablePart],
    space: LabelSpace,
    labels: Sequence[str],
    names: Sequence[str],
    beside: Mapping[str, Int[np.ndarray, "n"]] = MappingProxyType({}),
) -> Iterator[tuple[str, str]]:
    """Columns that equal or determine a label in the first rows of parts all over the table, each with that label.

    A column in the names of folders has one value in each part.

    Args:
        parts: The parts of the table.
        space: The declared space of the table's own label; other labels are compared as they are stored.
        labels: Columns that are labels.
        names: The columns to compare with each.
        beside: Whole numbers from 0 of all rows, to compare with each as columns.
    """
    if not labels or not (names or beside):
        return
    wanted = list(dict.fromkeys([*labels, *names]))
    heads = _heads(parts, wanted)
    pairs = [(part.table, batch) for part, batch in heads]
    own = parts[0].table.label  # its type may differ from file to file, where labels are missing
    groups = {name: _groups([batch[name] for _, batch in pairs]) for name in wanted if name != own}
    if own in labels:
        groups[own] = np.concatenate([label_codes(table, batch, space, 0) for table, batch in pairs]).astype(np.int64)
    for name, numbers in beside.items():
        pieces = [numbers[part.first :][: head.num_rows] for part, head in heads]
        groups[name] = np.concatenate(pieces).astype(np.int64)
    for label, name in itertools.product(labels, [*names, *beside]):
        codes, values = groups[label], groups[name]
        if label != name and codes is not None and values is not None and _determines(values, codes):
            yield name, label


def telling_values(
    parts: Sequence[TablePart], space: LabelSpace, names: Sequence[str]
) -> Iterator[tuple[str, object, int, float, float]]:
    """Values of columns whose rows are nearly all of one class, in the first rows of parts all over the table.

    Exceptions from such a class are ten times rarer than in all rows, by whose shares ten or more were expected. A
    class that nearly all rows have is none that a value tells.

    Returns:
        The column, the value, the number of its rows, the share of its most common class, and the share in all rows.
    """
    heads = _heads(parts, [parts[0].table.label, *names])
    if not heads:
        return
    codes = np.concatenate([label_codes(part.table, batch, space, 0) for part, batch in heads]).astype(np.int64)
    others = 1.0 - np.bincount(codes, minlength=space.size) / codes.size
    for name in names:
        values = pa.chunked_array([batch[name] for _, batch in heads]).combine_chunks()
        if (places := _groups([values])) is None:
            continue
        sizes = np.bincount(places)
        often = np.flatnonzero(sizes >= _TELLING_ROWS)
        order = np.full(sizes.size, -1)
        order[often] = np.arange(often.size)
        seen, cells = order[places] >= 0, order[places] * space.size + codes
        counts = np.bincount(cells[seen], minlength=often.size * space.size).reshape(often.size, space.size)
        rows, apart = sizes[often], others[counts.argmax(axis=1)]
        fewest = rows * np.minimum(1.0 - _TELLING_SHARE, apart / _EXPECTED_OTHERS)
        many = (rows * apart >= _EXPECTED_OTHERS) & (apart > 1.0 - _TELLING_SHARE)
        for at in np.flatnonzero(many & (rows - counts.max(axis=1) <= fewest)):
            value = values[int((places == often[at]).argmax())].as_py()
            yield name, value, int(rows[at]), float(counts[at].max() / rows[at]), float(1.0 - apart[at])


def _heads(parts: Sequence[TablePart], names: Sequence[str]) -> list[tuple[TablePart, pa.RecordBatch]]:
    """The first rows of parts all over the table."""
    chosen = [parts[place] for place in np.unique(np.linspace(0, len(parts) - 1, min(len(parts), _HEADS)).astype(int))]
    read = [(part, part.table.first(names, max(1, _HEAD // len(chosen)))) for part in chosen]
    return [(part, batch) for part, batch in read if batch is not None]


def _determines(values: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"]) -> bool:
    """True for several values, each in several rows and in rows of one class alone, of several classes."""
    different = _different(values)
    return (
        1 < different <= _FEW_VALUES * codes.size
        and _different(codes) > 1
        and _different(values * (int(codes.max()) + 1) + codes) == different
    )


def _groups(pieces: Sequence[pa.Array]) -> Int[np.ndarray, "n"] | None:
    """The number of each value, from 1, and 0 for a missing one; None for lists and the like."""
    try:
        values = pa.chunked_array(pieces).combine_chunks().dictionary_encode().indices
    except pa.ArrowNotImplementedError:
        return None
    return np.where(as_array(values.is_null()), 0, as_array(values).astype(np.int64) + 1)
