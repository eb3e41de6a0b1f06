"""From a table on disk to a release on disk: two passes, in bounded memory, all or nothing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from labeldp import _checks
from labeldp._words import SecureWords, Words, identifier
from labeldp.errors import InputError, LabelError, LedgerError, TableError
from labeldp.mechanisms import draw
from labeldp.mechanisms.features import DoubleResponse, DummyResponse, FeatureLaw, Generator
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, expectation, mean_expectation
from labeldp.privacy import LabelSpace
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.release._curator import budget_of
from labeldp.release._requests import (
    AUTO,
    CLUSTER,
    DOUBLE,
    DUMMY,
    PEER,
    WITH_PRIOR,
    Drawing,
    ReleaseRequest,
    TableLaw,
    Tally,
    check_mechanism,
    law_on_table,
)
from labeldp.release._row_release import POPULATION
from labeldp.release.folder import Certificate, Draw, FileWriter, check_target, columns_of, finish, staged, to_columns
from labeldp.release.ledger import Entry, Ledger, account_of, check_features, related
from labeldp.release.tables import (
    Table,
    ahead,
    clusters_of,
    heads,
    label_codes,
    open_table,
    plain_column,
    plain_schema,
    survey,
    typed,
)

_ENDING = ".labeldp-ledger"
_ROWS_PER_BATCH = 1 << 18
_ENTRIES_PER_BATCH = 1 << 24
DECLARED_PUBLIC = (
    "the kept columns, the row order, the row set and the split into files are public",
    "the type in which the table stores its label column is public",
)
ROWS_PUBLIC = (
    "the row order and the row set are public, and do not depend on labels or features",
    DECLARED_PUBLIC[1],
)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TableRelease:
    """What was released from a table, and where it is.

    Attributes:
        certificate: What is promised.
        output: The folder.
        ledger: The ledger that was charged.
        notes: For the curator alone, since they may depend on labels; also in ``notes_file``.
        notes_file: Where notes are kept, beside the ledger.
        spent: The (epsilon, delta) charged for this label so far.
        budget: The most that may be.
    """

    certificate: Certificate
    output: Path
    ledger: Path
    notes: tuple[str, ...] = field(repr=False)
    notes_file: Path
    spent: tuple[float, float]
    budget: Budget


def release_table(
    source: str | Path,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Path,
    *,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    mechanism: str = AUTO,
    prior: str | None = None,
    clusters: str | Int[np.ndarray, "n"] | None = None,
    delta: float = 0.0,
    unit: str | None = None,
    generator: Generator | None = None,
    replaced: float | None = None,
    divergences: Mapping[float, float] | None = None,
    population: str = POPULATION,
    budget: float | tuple[float, float] | Budget | None = None,
    ledger: str | Path | None = None,
    progress: Progress | None = None,
) -> TableRelease:
    """Release a table: its public columns, and each label randomized once, with a certificate.

    Args:
        source: A CSV or Parquet file, or a folder of either.
        label: The label column.
        space: The declared label space.
        epsilon: What each row's label, or all labels of one unit, may cost.
        output: A folder that does not exist yet. It appears at once, complete, or not at all.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        mechanism: ``"auto"``, ``"randomized-response"``, ``"subset"``, ``"bits"``, ``"prior"`` or
            ``"prior-subset"``, by which each label is randomized alone; of labels on an ``Interval`` also
            ``"optimal"`` (which ``"auto"`` takes where it has the least worst variance), ``"piecewise"``, ``"one-bit"``
            and ``"laplace"``, which release numbers, and ``"bins"`` and ``"optimal-counts"``, for a trusted curator who
            counts labels with a part of epsilon first; ``"cluster"``, for a trusted curator who counts
            the classes in each cluster with half of epsilon or more and lets labels respond towards them with the rest;
            ``"peer"``, a simulation of peers who exchange labels of two classes inside clusters, at a delta;
            ``"double"``, which also redraws the features of rows with some chance, and ``"dummy"``, which releases no
            features: they promise something with conditional features too.
        prior: With ``"prior"`` and ``"prior-subset"``: what the names of the prior's columns begin with, each followed
            by its class.
        clusters: With ``"cluster"`` and ``"peer"``: the column that says which cluster a row is in, which need not be
            kept, or the number of each row's cluster. It is declared public.
        delta: With ``"peer"``: the failure probability.
        unit: The column that tells units of protection apart; it is declared public, and need not be kept.
        generator: With ``"double"``: what features are drawn from. The kept columns are those of its form.
        replaced: With ``"double"``: the chance that the features of a row are redrawn; by default that of its label.
        divergences: With ``"double"``: see ``Curator.randomize_rows``.
        population: With ``"double"``: whose features these are, in words.
        budget: The most that may be spent on this label of this data; by default the first release sets it.
        ledger: Where charges are kept; by default beside the source.
        progress: Called with the name of the pass, the rows done, and the rows in all (0 while not known).

    Returns:
        The certificate and where everything is.

    Guarantee:
        * The charge is in the ledger before a label is drawn, and stays unless nothing left.
        * Whether it fails, and what it says, does not depend on labels inside the space; ``notes`` may.

    Raises:
        InputError: Something does not fit; nothing was charged.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in.
    """
    report = progress or (lambda *_: None)
    allowance = budget_of(budget)
    table = open_table(Path(source), label)
    stamp, known_by = table.stamp, heads(table)
    kept = kept_columns(table.schema, label, keep, drop)
    likely = _prior_columns(table, space, mechanism, prior)
    _public(table, [unit] if unit else [], "unit")
    if unit == "row":
        raise InputError("expected a unit column of another name, found 'row', which means each row; rename it")
    if table.kind == "csv" and "" in space.points:
        raise LabelError("expected classes with text, found an empty one, which is a missing label in CSV; rename it")
    target = Path(output).absolute()
    check_target(target)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // space.size))
    asked = ReleaseRequest(
        label, space, _checks.epsilon(epsilon), mechanism, tuple(likely), unit, None, _checks.delta(delta)
    )
    check_mechanism(asked)
    asked = _with_features(asked, kept, generator, replaced, divergences, population)
    named = [clusters] if isinstance(clusters, str) else []
    _clustered(table, asked, clusters)
    table = typed(table, [*([] if generator else kept), *likely, *named, *([unit] if unit else [])])
    if generator is not None:
        _check_rows(table, generator, rows)
    if clusters is not None:
        asked = dataclasses.replace(asked, clusters=clusters_of(table, clusters, rows, report))
    tally = Tally(asked)
    found = survey(table, space, list(dict.fromkeys([*kept, *named])), unit, likely, rows, report, tally.add)
    law = law_on_table(asked, found, tally)
    job = _Job(table, space, tuple(law.types) or tuple(kept), law, rows, found.rows, report)
    record = ledger_of(table.path, ledger, label, known_by)
    record.settle()
    entry = Entry(
        identifier(),
        label,
        marks_of(record, table.path, known_by),
        law.name,
        law.guarantee,
        RowRanges.all(found.rows),
        asked=asked.epsilon,
        output=str(target),
        features="redrawn" if law.types else "kept" if kept else "",
        source=law.features.paid_split if law.features else "",
    )
    check_features_beside(table.path, record, known_by, entry)
    with staged(target, entry.identifier) as staging, record.charged(entry, allowance):
        unchanged(table, stamp)
        certificate = job.write(staging, entry, SecureWords())
        unchanged(table, stamp)
        finish(staging, target, certificate)
    path = ledger_path(table.path, record.path)
    mine = related(record.entries(), label, entry.marks)
    notes = (*found.notes, *job.noted)
    account, notes_file = account_of(mine), write_notes(path, notes)
    return TableRelease(certificate, target, path, notes, notes_file, account.spent, account.budget)


def kept_columns(schema: pa.Schema, label: str, keep: Sequence[str] | None, drop: Sequence[str] | None) -> list[str]:
    """The columns declared public, in the table's order.

    Raises:
        InputError: Neither or both were declared, a column does not exist, or the label is among them.
    """
    others = [name for name in schema.names if name != label]
    if (keep is None) == (drop is None):
        raise InputError(
            f"expected columns to keep or columns to drop, found {'neither' if keep is None else 'both'}; --keep all "
            f"declares as public: {', '.join(others) or 'none'}. Name those that are, or drop those that are not"
        )
    named = list(keep if keep is not None else drop or ())
    _known(schema, named, "kept" if keep is not None else "dropped")
    if keep is not None and label in named:
        raise InputError(f"expected public columns to keep, found the label {label!r}; leave it out, it is released")
    chosen = set(named)
    return [name for name in others if (name in chosen) == (keep is not None)]


def ledger_path(source: Path, ledger: str | Path | None = None) -> Path:
    """Where the charges for a table are kept: beside it, unless another place was named."""
    source = source.resolve()
    return Path(ledger).absolute() if ledger else source.with_name(f"{source.name}{_ENDING}")


def ledger_of(source: Path, ledger: str | Path | None, label: str, known_by: Mapping[str, str]) -> Ledger:
    """The ledger of a table: the one that was named, or one beside it that knows these labels, or its own.

    So a table that was renamed, or written in another format, meets the ledger of the first release, though a ledger
    of its own knows other labels.

    Raises:
        LedgerError: Several ledgers know these labels; what each says is spent is not all.
    """
    original = ledger_path(source, ledger)
    found = []
    for path in [] if ledger is not None else sorted(original.parent.glob(f"*{_ENDING}")):
        with suppress(*([] if path == original else [LedgerError])):
            beside = Ledger(path)
            if related(beside.entries(), label, marks_of(beside, source, known_by)):
                found.append(beside)
    if len(found) > 1:
        names = ", ".join(str(each.path) for each in found)
        raise LedgerError(
            f"expected one ledger that knows {label!r} of this table, found {names}; what was spent adds up, so take "
            "both together into account and name one of them (ledger=, --ledger)"
        )
    return found[0] if found else Ledger(original)


def check_features_beside(source: Path, record: Ledger, known_by: Mapping[str, str], entry: Entry) -> None:
    """Refuse features that left already by another ledger beside a table, such as that of a copy of it.

    Raises:
        InputError: They did.
    """
    for path in sorted(ledger_path(source).parent.glob(f"*{_ENDING}")):
        if path != record.path:
            with suppress(LedgerError):
                beside = Ledger(path)
                mine = dataclasses.replace(entry, marks=marks_of(beside, source, known_by))
                check_features(beside.entries(), mine)


@dataclass(frozen=True)
class _Job:
    """The second pass: everything is read again, labels are drawn, and files are written."""

    table: Table
    space: LabelSpace
    kept: tuple[str, ...]
    law: TableLaw
    rows_per_batch: int
    rows: int
    report: Progress
    noted: list[str] = field(default_factory=list)

    def write(self, staging: Path, entry: Entry, words: Words) -> Certificate:
        """Write the files of a release and describe it."""
        drawing = self.law.begin(SecureWords())
        shares, files, done = [], [], 0
        # how rows are split into files may depend on features, which then are not public
        sources = (None,) if self.law.features else self.table.files
        for number, source in enumerate(sources):
            name = "data.parquet" if len(sources) == 1 else f"part-{number:05d}.parquet"
            with FileWriter(staging, name, self.schema) as writer:
                for piece, kept in self._pieces(drawing, source, words, done):
                    writer.write(piece)
                    done += piece.num_rows
                    shares.append((piece.num_rows, kept))
                    self.report("release", done, self.rows)
                files.append(writer.close())
        if done != self.rows:
            raise TableError(f"expected a table that stays as it is, found {done} rows after {self.rows}; try again")
        self.noted.extend(drawing.notes())
        unit = entry.guarantee.unit
        return Certificate(
            release=entry.identifier,
            label=entry.label,
            space=self.space,
            rows=self.rows,
            draws=tuple(
                Draw(name, law, entry.rows, dataclasses.replace(promised, unit=unit))
                for name, law, promised in drawing.charges
            ),
            columns=columns_of(staging / files[0].name),
            files=tuple(files),
            expects=mean_expectation(shares),
            assumptions=(
                *(ROWS_PUBLIC if self.law.features else DECLARED_PUBLIC),
                *self.space.declared,
                *self.law.declared,
                *self.law.guarantee.assumptions,
            ),
            private=words.private,
            features=self.law.features,
        )

    def _pieces(
        self, drawing: Drawing, source: Path | None, words: Words, first: int
    ) -> Iterator[tuple[pa.Table, Expectation | NumberExpectation | None]]:
        """Released rows of one file, batch by batch, and what they keep."""
        columns = [self.table.label, *self.kept, *self.law.columns]
        for batch in ahead(self.table.batches(columns, self.rows_per_batch, source)):
            released, kept = self._released(drawing, batch, words, first)
            public = {name: plain_column(column) for name, column in self._features(drawing, batch, first).items()}
            yield pa.table({**public, **released}, schema=self.schema), kept
            first += batch.num_rows

    def _features(self, drawing: Drawing, batch: pa.RecordBatch, first: int) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The features of a batch as they leave."""
        if drawing.features is None:
            return {name: batch[name] for name in self.kept}
        drawn = drawing.features(batch.select(list(self.kept)), first)
        return {name: drawn[name] for name in self.kept}

    def _released(
        self, drawing: Drawing, batch: pa.RecordBatch, words: Words, first: int
    ) -> tuple[dict[str, pa.Array], Expectation | NumberExpectation | None]:
        """The released columns of a batch: drawn now by its channel, or drawn before."""
        if drawing.channel is None:
            return drawing.released(slice(first, first + batch.num_rows)), None
        channel, mass = drawing.channel(batch, first)
        codes = draw(channel, label_codes(self.table, batch, self.space, first), words, first)
        return to_columns(self.table.label, self.space, channel, codes), expectation(channel, mass)

    @property
    def schema(self) -> pa.Schema:
        """The released columns: what was kept, the released label, and what its channel needs."""
        added = self.law.added
        for name in added:
            if name in self.kept:
                raise InputError(f"expected no column named {name!r}, found one; rename or drop it")
        stored = {name: self.law.types.get(name, self.table.schema.field(name).type) for name in self.kept}
        kept = plain_schema(pa.schema(list(stored.items())))
        return pa.schema([*kept, *(pa.field(name, kind) for name, kind in added.items())])


def _prior_columns(table: Table, space: LabelSpace, mechanism: str, prefix: str | None) -> list[str]:
    """The prior's columns in declared class order."""
    if (mechanism in WITH_PRIOR) != (prefix is not None):
        found = f"a prefix with {mechanism!r}" if prefix is not None else "no prefix"
        raise InputError(f"expected a mechanism with a prior with the prefix of its columns (--prior), found {found}")
    columns = [f"{prefix}{point}" for point in space.points] if prefix is not None else []
    _public(table, columns, "prior")
    return columns


def _with_features(
    asked: ReleaseRequest,
    kept: Sequence[str],
    generator: Generator | None,
    replaced: float | None,
    divergences: Mapping[float, float] | None,
    population: str,
) -> ReleaseRequest:
    """What was asked of features, where they are not public.

    Raises:
        InputError: It does not go with the mechanism, or other columns are kept than the generator draws.
    """
    if (asked.mechanism == DOUBLE) != (generator is not None) or (
        asked.mechanism != DOUBLE and (replaced is not None or divergences is not None)
    ):
        found = f"one, or its parameters, with {asked.mechanism!r}" if asked.mechanism != DOUBLE else "none"
        raise InputError(f"expected a generator of features with {DOUBLE!r} alone (--generator), found {found}")
    if asked.mechanism == DUMMY:
        if kept:
            raise InputError(f"expected no kept columns with {DUMMY!r}, which releases labels alone, found some")
        law = FeatureLaw.without_features(asked.space.size)
        return dataclasses.replace(asked, response=DummyResponse(asked.space, asked.epsilon), features=law)
    if generator is None:
        return asked
    if sorted(kept) != sorted(generator.form.names):
        raise InputError(
            f"expected to keep the columns that the generator draws, {', '.join(generator.form.names)}, found "
            f"{', '.join(kept) or 'none'}: any other column would tell which rows are true"
        )
    response = DoubleResponse(asked.space, asked.epsilon, generator, replaced)
    return dataclasses.replace(asked, response=response, features=response.law(population, divergences))


def _check_rows(table: Table, generator: Generator, rows: int) -> None:
    """Refuse a generator that has seen the first rows of a table, or a table whose columns are of other types."""
    form = generator.form
    for batch in table.batches(form.names, rows):
        generator.check_private(form.table(form.read(pa.Table.from_batches([batch]))))
        break


def _clustered(table: Table, asked: ReleaseRequest, clusters: object) -> None:
    """Clusters belong to the mechanisms that use them, and their column is public."""
    if (asked.mechanism in (CLUSTER, PEER)) != (clusters is not None):
        found = f"clusters with {asked.mechanism!r}" if clusters is not None else "no clusters"
        raise InputError(
            f"expected the mechanism {CLUSTER!r} or {PEER!r} with the clusters of rows (--clusters), found {found}"
        )
    if asked.delta and asked.mechanism != PEER:
        raise InputError(
            f"expected no delta for {asked.mechanism!r}, which has no need of it, found {asked.delta!r}; a budget's "
            "is part of it (--budget EPSILON,DELTA)"
        )
    _public(table, [clusters] if isinstance(clusters, str) else [], "cluster")


def _public(table: Table, names: Sequence[str], what: str) -> None:
    _known(table.schema, names, what)
    if table.label in names:
        raise InputError(f"expected a public {what} column, found the label {table.label!r}; it would give labels away")


def _known(schema: pa.Schema, names: Sequence[str], what: str) -> None:
    for name in names:
        if name not in schema.names:
            raise InputError(f"expected the {what} column {name!r} in the table, found {', '.join(schema.names[:20])}")


def unchanged(table: Table, stamp: object) -> None:
    """What was checked is what is released: units and priors of another table would not be paid for."""
    if table.stamp != stamp:
        raise TableError(f"expected a table that stays as it is, found {table.path} changed meanwhile; try again")


def marks_of(ledger: Ledger, path: Path, known_by: Mapping[str, str]) -> tuple[str, ...]:
    """Fingerprints of the data: its path, and the head of each column but the label."""
    columns = (ledger.mark("column", name, head) for name, head in sorted(known_by.items()))
    return (ledger.mark("path", str(path.resolve())), *columns)


def write_notes(ledger: Path, notes: tuple[str, ...]) -> Path:
    """Keep the notes for the curator beside the ledger, readable by nobody else."""
    path = ledger.with_name(f"{ledger.name}.notes")
    lines = notes or ("nothing was found in the kept columns or in the order of rows that gives labels away",)
    with suppress(OSError):  # whether a release fails must not depend on what is noted
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.writelines(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {note}\n" for note in lines)
    return path
