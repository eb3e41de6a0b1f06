"""A job that releases a table: the choice of its ledger, one charge for all of it, and files that appear at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress, silent
from labeldp._random_words import identifier
from labeldp._shapes import Bool, Int
from labeldp._spelling import canonical
from labeldp.columns import plain_schema
from labeldp.errors import EngineError, InputError, LabelError, OutputError, TableError
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.release.curator import ROW, TableSource, clashing
from labeldp.release.engines import Count, Engine, InProcess
from labeldp.release.folder import (
    SHUFFLED,
    Certificate,
    beside_ledger,
    check_store,
    check_target,
    declarations,
    effective_share,
    finish,
    inode_of,
    staged,
)
from labeldp.release.jobs._ledgers import Spending, TableLedgers, alone_with, home_of, ledger_path
from labeldp.release.jobs._notes import (
    copies_of_rows,
    disclosed,
    left_before,
    left_out,
    naming_rows,
    refuse_returning,
    repeats_declared,
    respelled,
    returning,
    undeclared,
    write_notes,
)
from labeldp.release.ledger import Entry, PublicData, features_left
from labeldp.release.released import (
    IMPORTED,
    KEEP,
    UNIT,
    declare,
    drawn_labels,
    kept_columns,
    refuse_labels,
    refuse_renamed_labels,
)
from labeldp.release.tables import (
    Identity,
    Look,
    Place,
    StorePath,
    Table,
    TableFile,
    UnitKey,
    column_heads,
    look_at,
    open_table,
    parts_of,
    people_in,
    place_of,
    survey,
    typed,
)

#: Rows of a batch, and of a row group: the same wherever a part is worked on.
_ROWS_PER_BATCH = 1 << 18
_ENTRIES_PER_BATCH = 1 << 24
#: Files of a table: a certificate names one for each, in at most 32 MiB.
_MOST_FILES = 200_000
_OTHER_PEOPLE = "declare it with --other-people (other_people=)"


@dataclass(frozen=True)
class TableRelease:
    """A release of a table: its certificate, the paths of its files, and the budget.

    Attributes:
        certificate: The certificate.
        output: The release folder: a path, or that of an object store.
        ledger: The ledger that was charged.
        notes: Private notes for the curator, which may depend on labels; also in ``notes_file``.
        notes_file: The file with the notes, beside the ledger.
        spent: The (epsilon, delta) charged for this label of these rows so far.
        budget: The budget for this label.
        remarks: Remarks on public columns, such as rows that are copies of each other.
    """

    certificate: Certificate
    output: Place
    ledger: Path
    notes: tuple[str, ...] = field(repr=False)
    notes_file: Path
    spent: tuple[float, float]
    budget: Budget
    remarks: tuple[str, ...] = ()

    def effective_share(self) -> float | None:
        """Effective rows per released row at the class shares of the released labels; None where unknown.

        It is read from the folder, unless that is in an object store. An upper bound for any statistic is
        ``certificate.expects.clean_share``.
        """
        return effective_share(self.output, self.certificate) if isinstance(self.output, Path) else None


@dataclass(frozen=True)
class CheckedTable:
    """A table whose labels, units and priors were checked.

    Attributes:
        source: The source of its labels.
        data: Public facts, by which a ledger recognizes it.
        notes: Private notes for the curator.
        remarks: Remarks on public columns.
        rows_declared: True if each row was declared to be a privacy unit.
        identities: Columns that may identify somebody.
    """

    source: TableSource
    data: PublicData
    notes: tuple[str, ...] = field(repr=False)
    remarks: tuple[str, ...]
    rows_declared: bool
    identities: tuple[Identity, ...]


@dataclass(frozen=True)
class TableCharge:
    """A charge for a table that was recorded.

    Attributes:
        entry: The charge.
        redrawn: True if features of these rows left resampled in an earlier release.
        drawn: Records that a client is about to see labels, so that the charge stays whatever happens.
    """

    entry: Entry
    redrawn: bool
    drawn: Callable[[], None]


@dataclass(frozen=True)
class TableJob:
    """A table, its public columns, and the place of its release; no label was read.

    Attributes:
        table: The table.
        space: The declared label space.
        kept: The columns that are declared public.
        target: The output folder.
        spending: The budget and the ledger.
        report: Receives the progress.
        stamp: The state of the files when the job began.
        heads: The first values of each column, by which the same data is recognized.
        engine: The engine that works on its parts.
        public: Every column that leaves, or that something that leaves follows from, with the option that names it.
        imported: True if the labels were randomized elsewhere, and leave as they are.
        clusters: The numbers of public clusters, if they are no column.
        looked_at: Columns that a check looks at, which do not leave.
        unit_key: The key of made-up numbers that leave in the place of the unit.
        whole: The table that these are the new rows of, if returning rows are left out.
        chosen: A mask of the new rows in it.
    """

    table: Table
    space: LabelSpace
    kept: list[str]
    target: Place
    spending: Spending
    report: Progress
    stamp: object
    heads: Mapping[str, str]
    engine: Engine = field(default_factory=InProcess)
    public: Mapping[str, str] = field(default_factory=dict)
    imported: bool = False
    clusters: Int[np.ndarray, "n"] | None = None
    looked_at: tuple[str, ...] = ()
    unit_key: UnitKey | None = None
    whole: PublicData | None = None
    chosen: Bool[np.ndarray, "n"] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        source: str | Place | TableFile,
        label: str,
        space: LabelSpace,
        output: str | Place,
        columns: tuple[Sequence[str] | None, Sequence[str] | None],
        spending: Spending,
        progress: Progress | None,
        engine: Engine,
    ) -> TableJob:
        """Open a table; ``columns`` are those to keep or to drop.

        Raises:
            EngineError: Workers cannot read the table, or what is written beside the output.
            InputError: The columns are invalid, or the label space cannot be that of a file.
            OutputError: The output exists, or there is no folder to put it in.
            TableError: The table is invalid, or has too many files.
        """
        table = open_table(source, label)
        if len(table.files) > _MOST_FILES:
            raise TableError(
                f"expected a table of at most {_MOST_FILES} files, whose releases a certificate can name, found "
                f"{len(table.files)}; join small files first"
            )
        stamp, heads = table.stamp, column_heads(table)
        kept = kept_columns(table.schema, table.label, *columns)
        if table.kind == "csv" and "" in space.points:
            raise LabelError(
                "expected non-empty classes, found an empty one, which is a missing label in CSV; rename it"
            )
        home, target = home_of(table.path, spending.ledger), place_of(output)
        if isinstance(target, Path):
            target = target.absolute()
            check_target(target)
        if table.path.is_dir() and _is_inside(target, table.path):
            raise OutputError(
                f"expected an output beside the table's folder, found {target} in it, where it would be a part of the "
                "table; take another place"
            )
        if isinstance(target, StorePath):
            check_store(target)
        if engine.shared and isinstance(table.path, StorePath) and table.path.is_read_only:
            raise EngineError(
                f"expected a table that all workers can read, found {table.path}, of which this process alone has a "
                "copy; release without an engine, or put the table into an object store or on a shared disk"
            )
        engine.check(target.parent if isinstance(target, Path) else ledger_path(home, spending.ledger).parent)
        report = progress or silent
        public = dict.fromkeys(kept, KEEP)
        return cls(table, space, kept, target, spending, report, stamp, heads, engine, public)

    def declaring(self, names: Sequence[str], option: str) -> TableJob:
        """The job with more public columns, which an option names.

        Raises:
            InputError: One does not exist, or is the label.
        """
        public = {**declare(self.table.schema, self.table.label, names, option), **self.public}
        return dataclasses.replace(self, public=public)

    @property
    def ledgers(self) -> TableLedgers:
        """The ledgers that may know the rows of the table."""
        return TableLedgers(self.table.path, self.table.label, self.spending)

    @property
    def rows_per_batch(self) -> int:
        """Number of rows in memory at a time."""
        return max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // self.space.size))

    def typed(self, others: Sequence[str]) -> TableJob:
        """The job with inferred types of columns."""
        return dataclasses.replace(self, table=typed(self.table, others, hold=True))

    @property
    def leaving(self) -> Mapping[str, str]:
        """The columns that pass the gate: the public ones, and a label that leaves as it is."""
        return {**self.public, self.table.label: IMPORTED} if self.imported else self.public

    @property
    def shown(self) -> list[str]:
        """The columns whose values leave or decide what leaves: of a unit only the sizes of its groups do."""
        return [*self.looked_at, *(name for name, option in self.public.items() if option != UNIT)]

    @property
    def features(self) -> Literal["", "kept"]:
        """``"kept"`` if values of public columns leave, or something that follows from them, by any option."""
        return "kept" if self.shown or self.clusters is not None or self.unit_key is not None else ""

    def checked(
        self,
        unit: str | None = None,
        prior: Sequence[str] = (),
        refusal: Callable[[Identity], InputError] = undeclared,
    ) -> CheckedTable:
        """Check every label, unit and prior in a first pass, and take fingerprints of the other columns.

        Args:
            unit: The column of the privacy unit, ``"row"`` if each row was declared to be one, or None.
            prior: The columns of the prior.
            refusal: Makes the error for a column that may be people, without a declared unit.

        Raises:
            InputError: No unit was declared, and a column may be people with several rows.
        """
        rows, column, labels = self.rows_per_batch, None if unit == ROW else unit, self.ledgers.charged
        seen, data, identities = self.look(unit, refusal)
        if not self.spending.other_people and any(canonical(name) in labels for name in self.leaving):
            # before any value is checked, since a failure would show something about it
            refuse_labels(self.leaving, drawn_labels(self.ledgers.earlier(data)), _OTHER_PEOPLE)
        checks = (self.space, self.shown, column, list(prior), rows, self.report)
        found = survey(self.table, *checks, seen.parts, self.engine, self.unit_key)
        if seen.fingerprints and seen.fingerprints.count != found.rows:  # no ledger would know the others
            raise TableError(
                f"expected as many labels as values in other columns of {self.table.path}, found {found.rows} and "
                f"{seen.fingerprints.count}: it is damaged or changed; save it again"
            )
        facts = (found.rows, column or ROW, found.units, rows, found.parts)
        source = TableSource(self.table, self.space, *facts, self.engine, unit_key=self.unit_key)
        copies = copies_of_rows(data) if column is None else ()
        known = any(canonical(name) in labels for name in self.table.schema.names)  # then copies show what it hides
        remarks = (*left_out(data), *(() if known else copies), *naming_rows(identities, self.kept))
        remarks = (*remarks, *respelled(self.table, self.kept))
        notes = (*found.notes, *(copies if known else ()))
        return CheckedTable(source, data, notes, remarks, unit == ROW, identities)

    def look(
        self, unit: str | None, refusal: Callable[[Identity], InputError] = undeclared
    ) -> tuple[Look, PublicData, tuple[Identity, ...]]:
        """Look at the public columns: the first look, the facts that recognize the table, and identifying columns.

        Raises:
            InputError: No unit was declared, and a column may be people with several rows.
        """
        column = None if unit == ROW else unit
        seen = look_at(self.table, parts_of(self.table), column, self.report, self.engine)
        labels = self.ledgers.charged
        identities = tuple(each for each in seen.identities if canonical(each.name) not in labels)
        if unit is None and (people := people_in(identities)):
            raise refusal(people[0])
        heads = self.heads if seen.fingerprints else {}
        facts = (str(self.table.path.resolve()), heads, seen.fingerprints, column or ROW, seen.units)
        return seen, PublicData(*facts, whole=self.whole, chosen=self.chosen), identities

    def _declared(self, checked: CheckedTable, guarantee: Guarantee) -> tuple[str, ...]:
        """Assumptions about people, which only the holder can know."""
        reason = self.spending.other_people
        repeats = repeats_declared(checked.identities, self.public) if checked.rows_declared else {}
        return (
            *declarations(repeats, guarantee),
            *([SHUFFLED] if checked.data.order is not None else []),
            *([f"the rows are other people's than those released before: {reason}"] if reason else []),
        )

    def schema(self, types: Mapping[str, pa.DataType], added: Mapping[str, pa.DataType]) -> pa.Schema:
        """The released columns: public ones, with other types if these are given, and added ones.

        Raises:
            InputError: A public column, or the label, has the name of an added one.
        """
        public, own = list(types) or self.kept, canonical(self.table.label)
        if taken := [name for name in added if name in public or canonical(name) == own]:
            raise clashing(taken[0])
        stored = [(name, types.get(name, self.table.schema.field(name).type)) for name in public]
        return pa.schema([*plain_schema(pa.schema(stored)), *(pa.field(name, kind) for name, kind in added.items())])

    def entry(
        self,
        name: str,
        guarantee: Guarantee,
        asked: float,
        rows: int,
        features: Literal["", "kept", "redrawn"],
        source: str = "",
    ) -> Entry:
        """The charge for the release."""
        return Entry(
            *(identifier(), self.table.label, (), name, guarantee, RowRanges.all(rows)),
            asked=asked,
            output=str(self.target),
            features=features,
            source=source,
            table=str(self.table.path.resolve()),
            other_people=self.spending.other_people,
            public=tuple(self.leaving),
        )

    def publish(
        self,
        checked: CheckedTable,
        entry: Entry,
        write: Callable[[Path, TableCharge], Certificate],
        notes: Callable[[], tuple[str, ...]] = lambda: (),
        drew: Callable[[], bool] = lambda: False,
    ) -> TableRelease:
        """Charge, let labels be drawn and written to a staging folder, and publish it.

        Args:
            checked: The table.
            entry: The charge.
            write: Draws, writes to a folder, and returns the certificate.
            notes: Returns more private notes, once everything was written.
            drew: As for ``Ledger.charged``.

        Raises:
            BudgetError: The budget does not allow it; nothing was drawn.
            InputError: Features of these rows were released before.
            LedgerError: Another release of a table in this folder does not end.
        """
        data, uploading, label, ledgers = checked.data, Count(), self.table.label, self.ledgers
        with alone_with(ledgers.home):
            record, elsewhere = ledgers.to_charge(data, self.target)
            new = tuple(ledgers.remarks_on(record))
            entry = dataclasses.replace(entry, marks=record.marks(data))
            target = self.target
            on_disk = target if isinstance(target, Path) else beside_ledger(record.path or ledgers.home, target)

            def left() -> bool:
                """True if anything may have been seen: what was drawn for a client, or uploaded."""
                return drew() or bool(uploading.done)

            with (
                staged(on_disk, entry.identifier) as staging,
                record.charged(
                    dataclasses.replace(entry, staging=inode_of(staging)), self.spending.budget, left, data, elsewhere
                ) as admitted,
            ):
                self._check_unchanged()
                earlier = admitted.earlier
                refuse_returning(label, data, earlier)
                refuse_labels(self.leaving, drawn_labels(earlier), _OTHER_PEOPLE)
                refuse_renamed_labels(self.table, self.leaving, self.clusters, checked.source.rows, earlier)
                private = tuple(disclosed(self.shown, self.clusters, checked.source, earlier))
                redrawn = features_left(admitted.earlier, entry.rows, "redrawn")
                certificate = write(staging, TableCharge(entry, redrawn, lambda: record.drawn(entry.identifier)))
                promise = certificate.guarantee
                if declared := (*self._declared(checked, promise), *returning(label, admitted, promise)):
                    assumptions = (*certificate.assumptions, *declared)
                    certificate = dataclasses.replace(certificate, assumptions=assumptions)
                record.recorded()
                self._check_unchanged()
                if isinstance(target, StorePath):
                    record.drawn(entry.identifier)
                    uploading.add(1)
                finish(staging, target, certificate)
        path, found = ledger_path(ledgers.home, record.path), (*checked.notes, *private, *notes())
        notes_file, account = write_notes(path, found), admitted.account
        again = returning(label, admitted, certificate.guarantee, named=True)
        remarks = (*again, *checked.remarks, *new, *left_before(label, admitted.earlier))
        return TableRelease(certificate, self.target, path, found, notes_file, account.spent, account.budget, remarks)

    def _check_unchanged(self) -> None:
        """Refuse a table that changed since it was checked: other units and priors would not be charged."""
        if self.table.stamp != self.stamp:
            raise TableError(
                f"expected a table that does not change during the release, found {self.table.path} changed; try again"
            )


def _is_inside(target: Place, table: Place) -> bool:
    """True for a target in the folder of a table."""
    if isinstance(target, Path) and isinstance(table, Path):
        return target.resolve().is_relative_to(table.resolve())
    return isinstance(target, StorePath) and isinstance(table, StorePath) and target.is_relative_to(table)
