"""A look at a table before its release, for the holder alone: it may read labels, spends nothing and shares nothing."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from labeldp._progress import Progress, silent
from labeldp._spelling import canonical
from labeldp.columns import (
    PLAIN,
    Notation,
    are_images,
    as_array,
    has_controls,
    is_free_text,
    is_text,
    proposed_notation,
    remark_on,
    rows_of_values,
    texts_in,
    texts_or_none,
    type_name,
    value_counts,
)
from labeldp.errors import TableError
from labeldp.privacy import Classes, Interval, LabelSpace
from labeldp.release.curator import ROW, TableSource
from labeldp.release.jobs._job import CheckedTable, TableJob
from labeldp.release.jobs._ledgers import Spending
from labeldp.release.jobs._release_table import unit_column
from labeldp.release.ledger import Earlier, Ledger, PublicData
from labeldp.release.released import KEEP, kept_columns, refuse_labels
from labeldp.release.tables import (
    SKETCH,
    CopyCounter,
    Identity,
    Place,
    Table,
    TableFile,
    cell_hashes,
    column_heads,
    declared_classes,
    differing,
    is_empty,
    look_at,
    one_of_a_kind,
    open_table,
    parts_of,
    people_in,
    telling_values,
    typed,
)

#: Rows in which the spelling of columns is looked at, and different values that are counted.
MOST_ROWS, MOST_VALUES = 1 << 18, 1 << 18
#: Different labels that are counted.
MOST_LABELS = 1 << 12
#: A label of more different values than this is no class, if its values are numbers.
_MOST_CLASSES = 50
#: Values that tell a class, to be named.
_MOST_TELLING = 5
#: Points of an interval in which the order of numbers is looked at.
_POINTS = 64
_ROWS_PER_BATCH = 1 << 16
#: Beginnings of the names of types of numbers, which hold no other class.
_NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")
#: The second class beside one that occurs alone.
_OPPOSITE = {"true": "false", "false": "true", "0": "1"}


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about a public column.

    Attributes:
        name: Its name.
        kind: Its type, as a release stores it.
        different: The number of different values, estimated where they are more than ``MOST_VALUES``; 0 for lists.
        missing: The number of rows without a value, or with an empty text.
        remarks: Remarks for the decision to publish it, of its spelling from the first ``MOST_ROWS`` rows.
        identifies: ``"people"`` if it may identify people with several rows, ``"rows"`` if it names single rows,
            ``"few"`` if it may identify few people, by texts of which most are in fewer than 5 rows; else empty.
    """

    name: str
    kind: str
    different: int
    missing: int
    remarks: tuple[str, ...]
    identifies: str


@dataclass(frozen=True)
class LabelFacts:
    """Facts about the labels. They are private.

    Attributes:
        name: Name of the column.
        kind: The type in which the table stores it; text for all of CSV.
        counts: The number of rows of each value, most frequent first; a few thousand different ones at most.
        missing: The number of rows without a label.
        is_number: True if values are numbers, and too many to be classes.
        remarks: Remarks on the spelling of classes.
    """

    name: str
    kind: str
    counts: Mapping[str, int]
    missing: int
    is_number: bool
    remarks: tuple[str, ...]

    @property
    def classes(self) -> list[str]:
        """The classes that occur, one spelling of each, and one for missing labels.

        The certificate publishes their order, which follows from their names and says nothing of how frequent they are.
        """
        names = {*spellings(self.counts), *([] if self.missing_class is None else [self.missing_class])}
        if len(names) == 1:  # a space has two at least
            (only,) = names
            names.add(_OPPOSITE.get(only, f"not {only}" if not _is_whole(only) else "0"))
        try:
            return sorted(names, key=int)
        except ValueError:
            return sorted(names)

    @property
    def class_rows(self) -> dict[str, int]:
        """The rows with a label of each class, in all its spellings, most frequent first."""
        rows = {name: sum(self.counts[each] for each in alike) for name, alike in spellings(self.counts).items()}
        return dict(sorted(rows.items(), key=lambda item: -item[1]))

    @property
    def missing_class(self) -> str | None:
        """A class for missing labels that no label has and the column's type can hold; None without missing labels."""
        if not self.missing:
            return None
        if self.kind == "bool":
            return "false"
        known = set(map(canonical, self.counts))
        texts = itertools.chain(["missing", "no label"], (f"missing {number}" for number in itertools.count(1)))
        numbers = (str(-1 - number) for number in itertools.count())
        return next(name for name in (numbers if self.kind.startswith(_NUMBERS) else texts) if name not in known)


@dataclass(frozen=True)
class TableCheck:
    """Findings in a table. They depend on labels, and are for the holder alone.

    Attributes:
        table: The table, with inferred types.
        rows: Number of rows.
        columns: The public columns.
        label: The labels.
        people: Columns that may be people with several rows.
        remarks: Remarks on public columns together, such as rows that are copies of each other, and on values whose
            rows are nearly all of one class.
        notes: Columns and row orders that disclose labels.
        earlier: Earlier charges of what may be these rows, of any label.
        unit: The column of the privacy unit, by which returning units were counted, or ``"row"``.
        declared: True if the unit was declared, not proposed.
        ledger: The ledger that was named.
        team: True if that ledger is a team's.
        kept: The columns that were declared public; None where they are proposed.
    """

    table: Table
    rows: int
    columns: tuple[ColumnFacts, ...]
    label: LabelFacts
    people: tuple[Identity, ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]
    earlier: tuple[Earlier, ...]
    unit: str = ROW
    declared: bool = False
    ledger: Path | None = None
    team: bool = False
    kept: tuple[str, ...] | None = None

    @property
    def proposed_unit(self) -> str | None:
        """The column of the privacy unit that is declared or proposed; None for rows."""
        if self.declared:
            return None if self.unit == ROW else self.unit
        return next((each.name for each in self.people if each.name != ROW), None)

    @property
    def rare(self) -> dict[str, int]:
        """The columns of rare values and how many values each has, without columns that name rows or units."""
        few = (each for each in self.columns if each.identifies == "few" and each.name != self.proposed_unit)
        return {each.name: each.different for each in few}

    @property
    def disclosing(self) -> list[str]:
        """The columns that disclose a label, by the private notes."""
        return [column.name for column in self.columns if any(repr(column.name) in note for note in self.notes)]

    @cached_property
    def left_out(self) -> list[str]:
        """The columns that were not declared public; by default those that name rows or people, or disclose a label."""
        if self.kept is not None:
            return [column.name for column in self.columns if column.name not in self.kept]
        of_rows = self.unit == ROW and self.declared
        people = {self.proposed_unit, *(() if of_rows else (each.name for each in self.people))}
        private = {*self.disclosing} | people | set(self.rare)
        labels = {canonical(name) for name in (self.label.name, *(each.entry.label for each in self.earlier))}
        private |= {each.name for each in self.columns if canonical(each.name) in labels}
        private |= {field.name for field in self.table.schema if is_empty(field)}
        return [column.name for column in self.columns if column.identifies == "rows" or column.name in private]


def check_table(
    source: str | Place | TableFile,
    label: str,
    progress: Progress | None = None,
    *,
    unit: str | None = None,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    ledger: str | Path | Ledger | None = None,
) -> TableCheck:
    r"""Look at a table before its release: its columns and labels, who is in it, and what was released of it before.

    Nothing is charged, drawn or written. What is returned depends on true labels: keep it to yourself.

    Args:
        source: A CSV or Parquet file, or a folder of either; a ``TableFile`` says how CSV files are written.
        label: The label column.
        progress: Called with the name of the pass, the rows done, and the total number of rows (0 while unknown).
        unit: The column of the privacy unit, or ``"row"``; by default the one that is proposed.
        keep: The public columns, as for ``release_table``; by default they are proposed.
        drop: Or the columns that are not public.
        ledger: A ledger elsewhere than beside the table, or ``Ledger(path, team=True)`` that several users share.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(f"{folder}/t.csv").write_text("age,ill\n30,no\n40,yes\n40,no\n", encoding="utf-8")
        ...     found = check_table(f"{folder}/t.csv", "ill")
        >>> found.rows, dict(found.label.counts)
        (3, {'no': 2, 'yes': 1})

    Raises:
        InputError: There is no column of that unit, or no folder for the ledger.
        TableError: The table cannot be read, or has no rows.
    """
    table = open_table(source, label)
    others = [name for name in table.schema.names if name != table.label]
    unit = unit_column(table, unit) or unit
    kept = None if keep is None and drop is None else tuple(kept_columns(table.schema, table.label, keep, drop))
    written = _as_written(table, [*others, table.label])
    labels = _labels_of(written)
    table = typed(written if labels.is_number else _as_written(table, others), others, hold=True)
    job = TableJob(
        *(table, _space_of(table, labels), [], Path()),
        *(Spending.of(None, ledger, None), progress or silent, table.stamp, column_heads(table)),
        looked_at=tuple(others),
    )
    found: CheckedTable = job.checked(unit or ROW)
    people = people_in(found.identities)
    if unit is None and people and job.ledgers.paths:  # people who return are known by the unit alone
        with suppress(TableError):  # a row without one
            found = job.checked(people[0].name)
    columns = tuple(_columns_of(table, others, {each.name: each.of for each in found.identities}))
    check = TableCheck(
        *(table, found.source.rows, columns, labels, people, found.remarks),
        *(found.notes, tuple(job.ledgers.earlier(found.data)), found.data.unit, unit is not None, job.spending.ledger),
        team=job.spending.team,
        kept=kept,
    )
    seen = (*_singled_out(check, job.report), *_of_one_class(check, found.source))
    return dataclasses.replace(check, remarks=(*check.remarks, *seen))


def _singled_out(check: TableCheck, report: Progress) -> Iterator[str]:
    """A remark on the rows or people that are one of a kind on the columns that would be kept."""
    kept, unit = [each.name for each in check.columns if each.name not in check.left_out], check.proposed_unit
    if not kept:
        return
    batches = check.table.scan([*kept, *([unit] if unit else [])], _ROWS_PER_BATCH)
    found = one_of_a_kind(_counted(batches, check.rows, report), kept, unit, few=True)
    who, few = "rows" if found.unit == ROW else found.unit, ", ".join(map(repr, found.few))
    alone = f"; on {few} alone, {found.alone_on_few:,}" if found.few else ""
    yield (
        f"{found.sentence(who)} on the columns that would be kept{alone}: whoever knows these values of somebody finds "
        "their rows. Only labels are protected; whether the columns may leave is for you to decide"
    )


def _of_one_class(check: TableCheck, source: TableSource) -> Iterator[str]:
    """Remarks on values of columns that would be kept whose rows are nearly all of one class."""
    kept = [each.name for each in check.columns if each.name not in {*check.left_out, *check.disclosing}]
    if check.label.is_number or not kept:
        return
    found = sorted(telling_values(source.parts, source.space, kept), key=lambda each: -each[2])
    for name, value, rows, *shares in found[:_MOST_TELLING]:
        what = "missing" if value is None else repr(str(value))
        share, of_all = (f"{math.floor(1000 * each) / 10:g} %" for each in shares)
        yield (
            f"{name!r} is {what} in {rows:,} rows that were looked at, and {share} of them are of one class, as are "
            f"{of_all} of all rows: whoever knows this of somebody knows the label. Merge such values, or drop the "
            "column"
        )


def _counted(batches: Iterator[pa.RecordBatch], rows: int, report: Progress) -> Iterator[pa.RecordBatch]:
    """Batches, whose rows are reported."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        report("look", done, rows)


def refuse_public_labels(source: str | Place | TableFile, label: str, columns: Sequence[str]) -> None:
    """Refuse to take a table for public whose label, or a column, was released with noise, as ledgers beside it know.

    Args:
        source: The table, as for ``check_table``.
        label: The label that is declared public.
        columns: The other columns that are declared public.

    Raises:
        InputError: There is one.
    """
    table = open_table(source, label)
    job = TableJob(
        *(table, Classes(range(2)), [], Path(), Spending.of(None, None, None), silent, table.stamp),
        heads=column_heads(table),
    )
    if job.ledgers.paths:
        seen = look_at(table, parts_of(table), None, job.report, job.engine)
        data = PublicData(str(table.path.resolve()), job.heads if seen.fingerprints else {}, seen.fingerprints)
        public = dict.fromkeys(columns, KEEP) | {label: "--labels-are-public"}
        most = min(SKETCH, seen.fingerprints.count if seen.fingerprints else 0) / 2  # in doubt they are other rows
        labels = [each.entry.label for each in job.ledgers.earlier(data) if each.certain or each.pairs[0].size > most]
        refuse_labels(public, labels, "put the table into a folder without their ledger")


def _labels_of(table: Table) -> LabelFacts:
    """The values of the label column, with their numbers of rows."""
    counts: Counter[str] = Counter()
    missing, stored = 0, table.schema.field(table.label).type
    for batch in table.batches([table.label], _ROWS_PER_BATCH):
        texts = texts_or_none(batch[table.label])
        if texts is None:
            raise TableError(
                f"expected texts, numbers, flags or dates in {table.label!r}, found {type_name(stored)}; convert the "
                "column to text"
            )
        missing += texts.null_count
        for value, count in rows_of_values(texts).items():
            if value == "" and table.kind == "csv":
                missing += count
            elif value in counts or len(counts) < MOST_LABELS:
                counts[value] += count
    if not counts:
        raise TableError(f"expected labels in {table.label!r}, found none; check the table")
    read = _read_in(table.file.notation, counts) if table.kind == "csv" else counts
    numbers = all(map(_is_number, read))
    is_number = numbers and len(read) > (_MOST_CLASSES if all(map(_is_whole, read)) else 2)
    counts = read if is_number else counts  # classes stay as they are written
    if len(counts) == MOST_LABELS and not is_number:
        raise TableError(
            f"expected classes or numbers in {table.label!r}, found thousands of different texts; name another column"
        )
    remarks = tuple(_label_remarks(counts, is_number))
    return LabelFacts(table.label, str(stored), dict(counts.most_common()), missing, is_number, remarks)


def _read_in(notation: Notation, counts: Counter[str]) -> Counter[str]:
    """The rows of each value, where numbers are read in a notation."""
    found: Counter[str] = Counter()
    texts = notation.numbers(pa.array(list(counts), pa.string())).to_pylist()
    for value, count in zip(texts, counts.values(), strict=True):
        found[value] += count
    return found


def _label_remarks(counts: Mapping[str, int], is_number: bool) -> Iterator[str]:
    if is_number:
        return
    for values in spellings(counts).values():
        if len(values) > 1:
            yield f"{', '.join(map(repr, values))} differ in spelling alone, and count as one class"


def spellings(values: Iterable[str]) -> dict[str, list[str]]:
    """The spellings of each value that occur, by the spelling that is proposed for the class.

    A text with a line break has one spelling alone, as when it is read.
    """
    alike: dict[str, list[str]] = {}
    lines = {value for value in values if "\n" in value or "\r" in value}
    for value in sorted(values):
        alike.setdefault(value if value in lines else canonical(value), []).append(value)
    return {each[0] if each[0] in lines else " ".join(each[0].split()): each for each in alike.values()}


def _space_of(table: Table, labels: LabelFacts) -> LabelSpace:
    """The labels as classes, or in an interval of a few dozen points; a missing one is the first."""
    if labels.is_number:
        numbers = [float(value) for value in labels.counts]
        step = 2.0 ** math.ceil(math.log2(max(max(numbers) - min(numbers), 1e-9) / _POINTS))
        low = math.floor(min(numbers) / step) * step
        return Interval(low, low + (_POINTS + 1) * step, step, low)
    return declared_classes(table, labels.classes, labels.classes[0])


def _columns_of(table: Table, names: Sequence[str], identities: Mapping[str, str]) -> Iterator[ColumnFacts]:
    first: list[pa.RecordBatch] = []
    counters, missing = {name: CopyCounter(MOST_VALUES) for name in names}, dict.fromkeys(names, 0)
    for batch in table.batches(names, _ROWS_PER_BATCH) if names else ():
        first += [batch] if len(first) * _ROWS_PER_BATCH < MOST_ROWS else []
        for name, column in zip(names, batch.columns, strict=True):
            missing[name] += _count_values(column, counters[name])
    seen = pa.Table.from_batches(first) if first else pa.table({})
    for name in names:
        values, _, share = counters[name].found()
        kind, identifies = table.schema.field(name).type, identities.get(name, "")
        different = round(values.size / share)
        remarks = (*_column_remarks(table, name, kind, different, missing[name], identifies == "rows"),)
        remarks += ("the number of different values is an estimate",) if share < 1 else ()
        yield ColumnFacts(
            name, str(kind), different, missing[name], (*remarks, *_spelling(table, name, seen[name])), identifies
        )


def _count_values(column: pa.Array, counter: CopyCounter) -> int:
    """Count the values of a batch, and return the number of missing ones, of which empty texts are."""
    counted = value_counts(column)
    if counted is None:  # lists and the like
        return int(column.null_count)
    values, times = counted
    if is_text(values.type):
        known = pc.not_equal(values, "")
        values, times = values.filter(known), times[as_array(known)]
    counter.add_counted(cell_hashes(values)[0], times)
    return len(column) - int(times.sum())


def _column_remarks(
    table: Table, name: str, kind: pa.DataType, different: int, missing: int, names_rows: bool
) -> Iterator[str]:
    if names_rows:
        yield "names rows: different in each"
    elif different == 1 and not missing:
        yield "the same in every row"
    yield from (f"not kept: its files differ, {why}" for why in differing(table.schema, [name]))
    if name in table.respelled:
        yield "kept as text, as it is written"
    if pa.types.is_temporal(kind):
        yield "a date or time"
    if missing:
        yield f"missing in {missing:,} row{'s' * (missing != 1)}"


def _spelling(table: Table, name: str, column: pa.ChunkedArray) -> Iterator[str]:
    """Remarks on texts that look like numbers or dates, which no reader takes for such, and on names of images."""
    texts = texts_in(column)
    if name in table.notated:
        yield f"read by {' '.join(table.file.notation.options)}"
    elif are_images(texts):
        yield "names of PNG files, which 'learn --images' needs: rename those that show a label or name a person"
    elif remark := remark_on(texts):
        yield remark
    elif is_free_text(texts):
        yield "free text, whose words 'learn' reads: keep it only if none says the label or names a person"
    if has_controls(pa.chunked_array([*texts.chunks, pa.array([name], pa.large_string())])):
        yield "control characters in it, as of a Windows file read as latin-1: pass --encoding cp1252"


def _as_written(table: Table, columns: Sequence[str]) -> Table:
    """A table whose notation is the one that was declared, or that the first rows of some columns propose."""
    if table.kind != "csv" or table.file.notation != PLAIN or not columns:
        return table
    batches = itertools.islice(table.batches(columns, _ROWS_PER_BATCH), MOST_ROWS // _ROWS_PER_BATCH)
    first = pa.Table.from_batches(batches, pa.schema([(name, pa.string()) for name in columns]))
    notation = proposed_notation(map(texts_in, first.columns), table.file.separator or ",")
    return dataclasses.replace(table, file=dataclasses.replace(table.file, notation=notation))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
