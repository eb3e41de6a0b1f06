"""A job that releases a table: the choice of its ledger, one charge for all of it, and files that appear at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

from labeldp._random_words import identifier
from labeldp.errors import InputError, LabelError, LedgerError, TableError
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.release._curator import budget_of
from labeldp.release._sink import clashing
from labeldp.release._source import Progress, TableSource
from labeldp.release.folder import Certificate, check_target, finish, staged
from labeldp.release.ledger import Entry, Ledger, account_of, check_features, related
from labeldp.release.tables import (
    Table,
    column_heads,
    no_such_column,
    open_table,
    plain_schema,
    survey,
    typed,
)

_ENDING = ".labeldp-ledger"
_ROWS_PER_BATCH = 1 << 18
_ENTRIES_PER_BATCH = 1 << 24


@dataclass(frozen=True)
class TableRelease:
    """A release of a table: its certificate, the paths of its files, and the budget.

    Attributes:
        certificate: The certificate.
        output: The release folder.
        ledger: The ledger that was charged.
        notes: Private notes for the curator, which may depend on labels; also in ``notes_file``.
        notes_file: The file with the notes, beside the ledger.
        spent: The (epsilon, delta) charged for this label so far.
        budget: The budget for this label.
    """

    certificate: Certificate
    output: Path
    ledger: Path
    notes: tuple[str, ...] = field(repr=False)
    notes_file: Path
    spent: tuple[float, float]
    budget: Budget


@dataclass(frozen=True)
class TableJob:
    """A table, its public columns, and the place of its release; no label was read.

    Attributes:
        table: The table.
        space: The declared label space.
        kept: The columns that are declared public.
        target: The output folder.
        ledger: The ledger file, or None for the one beside the table.
        budget: The largest total, or None for the budget in force.
        report: Receives the progress.
        stamp: The state of the files when the job began.
        heads: The first values of each column, by which the same data is recognized.
    """

    table: Table
    space: LabelSpace
    kept: list[str]
    target: Path
    ledger: str | Path | None
    budget: Budget | None
    report: Progress
    stamp: object
    heads: Mapping[str, str]

    @classmethod
    def of(
        cls,
        source: str | Path,
        label: str,
        space: LabelSpace,
        output: str | Path,
        columns: tuple[Sequence[str] | None, Sequence[str] | None],
        spending: tuple[float | tuple[float, float] | Budget | None, str | Path | None],
        progress: Progress | None,
    ) -> TableJob:
        """Open a table; ``columns`` are those to keep or to drop, ``spending`` the budget and the ledger.

        Raises:
            InputError: The columns or the budget are invalid, or the label space cannot be that of a file.
            OutputError: The output exists, or there is no folder to put it in.
        """
        budget, ledger = spending
        allowance = budget_of(budget)
        table = open_table(Path(source), label)
        stamp, heads = table.stamp, column_heads(table)
        kept = kept_columns(table.schema, label, *columns)
        if table.kind == "csv" and "" in space.points:
            raise LabelError(
                "expected non-empty classes, found an empty one, which is a missing label in CSV; rename it"
            )
        target = Path(output).absolute()
        check_target(target)
        report = progress or (lambda *_: None)
        return cls(table, space, kept, target, ledger, allowance, report, stamp, heads)

    @property
    def rows_per_batch(self) -> int:
        """Number of rows in memory at a time."""
        return max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // self.space.size))

    def typed(self, others: Sequence[str]) -> TableJob:
        """The job with inferred types of columns."""
        return dataclasses.replace(self, table=typed(self.table, others))

    def checked(
        self,
        public: Sequence[str],
        unit: str | None = None,
        prior: Sequence[str] = (),
        process: Callable[[np.ndarray, int], None] = lambda *_: None,
    ) -> tuple[TableSource, tuple[str, ...]]:
        """Check every label, unit and prior in a first pass: the source, and private notes."""
        rows = self.rows_per_batch
        found = survey(self.table, self.space, list(public), unit, list(prior), rows, self.report, process)
        return TableSource(self.table, self.space, found.rows, unit or "row", found.units, rows), found.notes

    def schema(self, types: Mapping[str, pa.DataType], added: Mapping[str, pa.DataType]) -> pa.Schema:
        """The released columns: public ones, with other types if these are given, and added ones.

        Raises:
            InputError: A public column has the name of an added one.
        """
        public = list(types) or self.kept
        if taken := [name for name in added if name in public]:
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
    ) -> tuple[Ledger, Entry]:
        """The ledger of the table, and the entry of the job, which is not charged yet.

        Raises:
            LedgerError: Several ledgers have charges for these labels, so none has the total.
            InputError: Features of these rows were released before.
        """
        record = ledger_of(self.table.path, self.ledger, self.table.label, self.heads)
        record.settle()
        entry = Entry(
            identifier(),
            self.table.label,
            marks_of(record, self.table.path, self.heads),
            name,
            guarantee,
            RowRanges.all(rows),
            asked=asked,
            output=str(self.target),
            features=features,
            source=source,
        )
        check_features_beside(self.table.path, record, self.heads, entry)
        return record, entry

    def publish(
        self,
        record: Ledger,
        entry: Entry,
        write: Callable[[Path], Certificate],
        notes: Callable[[], tuple[str, ...]],
        drew: Callable[[], bool] = lambda: False,
    ) -> TableRelease:
        """Charge, let labels be drawn and written to a staging folder, and publish it.

        Args:
            record: The ledger.
            entry: The charge.
            write: Draws, writes to a folder, and returns the certificate.
            notes: Returns private notes, once everything was written.
            drew: As for ``Ledger.charged``.
        """
        with staged(self.target, entry.identifier) as staging, record.charged(entry, self.budget, drew):
            self._check_unchanged()
            certificate = write(staging)
            self._check_unchanged()
            finish(staging, self.target, certificate)
        path = ledger_path(self.table.path, record.path)
        account, found = account_of(related(record.entries(), entry.label, entry.marks)), notes()
        notes_file = _write_notes(path, found)
        return TableRelease(certificate, self.target, path, found, notes_file, account.spent, account.budget)

    def _check_unchanged(self) -> None:
        """Refuse a table that changed since it was checked: other units and priors would not be charged."""
        if self.table.stamp != self.stamp:
            raise TableError(
                f"expected a table that does not change during the release, found {self.table.path} changed; try again"
            )


def kept_columns(schema: pa.Schema, label: str, keep: Sequence[str] | None, drop: Sequence[str] | None) -> list[str]:
    """The columns declared public, in the table's order.

    Raises:
        InputError: Neither or both were declared, a column does not exist, or the label is among them.
    """
    others = [name for name in schema.names if name != label]
    if (keep is None) == (drop is None):
        raise InputError(
            f"expected either --keep or --drop to declare the public columns, found "
            f"{'neither' if keep is None else 'both'}; columns besides the label: {', '.join(others) or 'none'}"
        )
    named = list(keep if keep is not None else drop or ())
    check_columns(schema, named)
    if keep is not None and label in named:
        raise InputError(
            f"expected public columns to keep, found the label {label!r}; leave it out: it is released randomized"
        )
    chosen = set(named)
    return [name for name in others if (name in chosen) == (keep is not None)]


def ledger_path(source: Path, ledger: str | Path | None = None) -> Path:
    """The path of the ledger of a table: beside it, unless another is passed."""
    source = source.resolve()
    return Path(ledger).absolute() if ledger else source.with_name(f"{source.name}{_ENDING}")


def ledger_of(source: Path, ledger: str | Path | None, label: str, heads: Mapping[str, str]) -> Ledger:
    """The ledger of a table: the one that is passed, or one beside it that has charges for these labels, or its own.

    A table that was renamed or converted thus keeps the ledger of its first release.

    Raises:
        LedgerError: Several ledgers have charges for these labels, so none has the total.
    """
    original = ledger_path(source, ledger)
    ledgers = []
    for path in [] if ledger is not None else sorted(original.parent.glob(f"*{_ENDING}")):
        with suppress(*([] if path == original else [LedgerError])):
            beside = Ledger(path)
            if related(beside.entries(), label, marks_of(beside, source, heads)):
                ledgers.append(beside)
    if len(ledgers) > 1:
        names = ", ".join(str(each.path) for each in ledgers)
        raise LedgerError(
            f"expected one ledger with charges for {label!r} of this table, found {names}; their charges add up: "
            "pass one of them (ledger=, --ledger), and reduce the budget by the charges in the others"
        )
    return ledgers[0] if ledgers else Ledger(original)


def check_features_beside(source: Path, record: Ledger, heads: Mapping[str, str], entry: Entry) -> None:
    """Refuse features that another ledger beside the table lists as released, such as that of a copy of the table.

    Raises:
        InputError: Features of these rows were released before.
    """
    for path in sorted(ledger_path(source).parent.glob(f"*{_ENDING}")):
        if path != record.path:
            with suppress(LedgerError):
                beside = Ledger(path)
                mine = dataclasses.replace(entry, marks=marks_of(beside, source, heads))
                check_features(beside.entries(), mine)


def marks_of(ledger: Ledger, path: Path, heads: Mapping[str, str]) -> tuple[str, ...]:
    """Keyed fingerprints of the data: its path, and the first values of each column but the label."""
    columns = (ledger.mark("column", name, head) for name, head in sorted(heads.items()))
    return (ledger.mark("path", str(path.resolve())), *columns)


def _write_notes(ledger: Path, notes: tuple[str, ...]) -> Path:
    """Append notes for the curator to a file beside the ledger that only its owner can read."""
    path = ledger.with_name(f"{ledger.name}.notes")
    lines = notes or ("no kept column and no row order was found to disclose labels",)
    with suppress(OSError):  # the failure of a release must not depend on notes
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.writelines(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {note}\n" for note in lines)
    return path


def check_columns(schema: pa.Schema, names: Sequence[str], what: str = "") -> None:
    for name in names:
        if name not in schema.names:
            raise InputError(no_such_column(name, schema.names, what))
