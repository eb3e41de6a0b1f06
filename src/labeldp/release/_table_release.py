"""Release of a table on disk: two passes, in bounded memory, all or nothing."""

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

from labeldp import _checks
from labeldp._shapes import Int
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
    LabelCounts,
    ReleaseRequest,
    TableDraw,
    TableMechanism,
    check_mechanism,
    mechanism_on_table,
)
from labeldp.release._row_release import POPULATION
from labeldp.release.folder import Certificate, Draw, FileWriter, check_target, columns_of, finish, staged, to_columns
from labeldp.release.ledger import Entry, Ledger, account_of, check_features, related
from labeldp.release.tables import (
    Table,
    clusters_of,
    column_heads,
    label_codes,
    no_such_column,
    open_table,
    plain_column,
    plain_schema,
    prefetch,
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
    """Release the public columns of a table and its labels, each randomized once, with a certificate.

    Args:
        source: A CSV or Parquet file, or a folder of either.
        label: The label column.
        space: The declared label space.
        epsilon: The cost of each row's label, or of all labels of one unit.
        output: A folder that does not exist yet. It is written atomically or not at all.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        mechanism: ``"auto"``, ``"randomized-response"``, ``"subset"``, ``"bits"``, ``"prior"`` or
            ``"prior-subset"`` randomize each label alone; for labels on an ``Interval`` so do
            ``"optimal"`` (which ``"auto"`` takes if its worst variance is the smallest), ``"piecewise"``, ``"one-bit"``
            and ``"laplace"``, which release numbers. With ``"bins"`` and ``"optimal-counts"`` a trusted curator first
            counts numeric labels with a part of epsilon; with ``"cluster"`` a trusted curator counts the classes of
            each cluster with half of epsilon or more, and labels respond towards these counts with the rest.
            ``"peer"`` simulates peers who exchange labels of two classes inside clusters, at a delta.
            ``"double"`` also resamples the features of rows with some probability, and ``"dummy"`` releases no
            features: both have a guarantee with conditional features too.
        prior: For ``"prior"`` and ``"prior-subset"``: the prefix of the prior's columns, before the class.
        clusters: For ``"cluster"`` and ``"peer"``: the column of each row's cluster, which need not be kept, or the
            number of each row's cluster. It is declared public.
        delta: For ``"peer"``: the failure probability.
        unit: The column of the privacy unit; it is declared public, and need not be kept.
        generator: For ``"double"``: the generator of features. The kept columns are those of its form.
        replaced: For ``"double"``: the probability that a row's features are resampled; by default that of its label.
        divergences: For ``"double"``: see ``Curator.randomize_rows``.
        population: For ``"double"``: a description of the population.
        budget: The largest total cost for this label of this data; by default the first release sets it.
        ledger: The ledger file; by default beside the source.
        progress: Called with the name of the pass, the rows done, and the total (0 while unknown).

    Returns:
        The certificate and the paths of all files.

    Guarantee:
        * The charge is in the ledger before a label is drawn, and stays unless nothing was written.
        * Failures and their messages do not depend on labels inside the space; ``notes`` may.

    Raises:
        InputError: The arguments are invalid; nothing was charged.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in.
    """
    report = progress or (lambda *_: None)
    allowance = budget_of(budget)
    table = open_table(Path(source), label)
    stamp, heads = table.stamp, column_heads(table)
    kept = kept_columns(table.schema, label, keep, drop)
    priors = _prior_columns(table, space, mechanism, prior)
    _check_public(table, [unit] if unit else [], "unit")
    if unit == "row":
        raise InputError(
            "expected another name for the unit column, found 'row', which means that each row is a unit; rename it"
        )
    if table.kind == "csv" and "" in space.points:
        raise LabelError("expected non-empty classes, found an empty one, which is a missing label in CSV; rename it")
    target = Path(output).absolute()
    check_target(target)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // space.size))
    request = ReleaseRequest(
        label, space, _checks.epsilon(epsilon), mechanism, tuple(priors), unit, None, _checks.delta(delta)
    )
    check_mechanism(request)
    request = _with_features(request, kept, generator, replaced, divergences, population)
    cells = [clusters] if isinstance(clusters, str) else []
    _check_clusters(table, request, clusters)
    table = typed(table, [*([] if generator else kept), *priors, *cells, *([unit] if unit else [])])
    if generator is not None:
        _check_generator(table, generator, rows)
    if clusters is not None:
        request = dataclasses.replace(request, clusters=clusters_of(table, clusters, rows, report))
    labels = LabelCounts(request)
    surveyed = survey(table, space, list(dict.fromkeys([*kept, *cells])), unit, priors, rows, report, labels.add)
    table_mechanism = mechanism_on_table(request, surveyed, labels)
    columns = tuple(table_mechanism.types) or tuple(kept)
    job = _Job(table, space, columns, table_mechanism, rows, surveyed.rows, report)
    record = ledger_of(table.path, ledger, label, heads)
    record.settle()
    entry = Entry(
        identifier(),
        label,
        marks_of(record, table.path, heads),
        table_mechanism.name,
        table_mechanism.guarantee,
        RowRanges.all(surveyed.rows),
        asked=request.epsilon,
        output=str(target),
        features="redrawn" if table_mechanism.types else "kept" if kept else "",
        source=table_mechanism.features.paid_split if table_mechanism.features else "",
    )
    check_features_beside(table.path, record, heads, entry)
    with staged(target, entry.identifier) as staging, record.charged(entry, allowance):
        unchanged(table, stamp)
        certificate = job.write(staging, entry, SecureWords())
        unchanged(table, stamp)
        finish(staging, target, certificate)
    path = ledger_path(table.path, record.path)
    mine = related(record.entries(), label, entry.marks)
    notes = (*surveyed.notes, *job.notes)
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
            f"expected either --keep or --drop to declare the public columns, found "
            f"{'neither' if keep is None else 'both'}; columns besides the label: {', '.join(others) or 'none'}"
        )
    named = list(keep if keep is not None else drop or ())
    _check_columns(schema, named)
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


@dataclass(frozen=True)
class _Job:
    """The second pass: read everything again, draw labels, and write files."""

    table: Table
    space: LabelSpace
    kept: tuple[str, ...]
    mechanism: TableMechanism
    rows_per_batch: int
    rows: int
    report: Progress
    notes: list[str] = field(default_factory=list)

    def write(self, staging: Path, entry: Entry, words: Words) -> Certificate:
        """Write the files of a release and return its certificate."""
        table_draw = self.mechanism.begin(SecureWords())
        shares, files, done = [], [], 0
        # the split into files may depend on features, which are not public then
        sources = (None,) if self.mechanism.features else self.table.files
        for number, source in enumerate(sources):
            name = "data.parquet" if len(sources) == 1 else f"part-{number:05d}.parquet"
            with FileWriter(staging, name, self.schema) as writer:
                for piece, expected in self._pieces(table_draw, source, words, done):
                    writer.write(piece)
                    done += piece.num_rows
                    shares.append((piece.num_rows, expected))
                    self.report("release", done, self.rows)
                files.append(writer.close())
        if done != self.rows:
            raise TableError(
                f"expected a table that does not change during the release, found {done} rows after {self.rows}; try "
                "again"
            )
        self.notes.extend(table_draw.notes())
        unit = entry.guarantee.unit
        return Certificate(
            release=entry.identifier,
            label=entry.label,
            space=self.space,
            rows=self.rows,
            draws=tuple(
                Draw(name, law, entry.rows, dataclasses.replace(promised, unit=unit))
                for name, law, promised in table_draw.charges
            ),
            columns=columns_of(staging / files[0].name),
            files=tuple(files),
            expects=mean_expectation(shares),
            assumptions=(
                *(ROWS_PUBLIC if self.mechanism.features else DECLARED_PUBLIC),
                *self.space.declared,
                *self.mechanism.declared,
                *self.mechanism.guarantee.assumptions,
            ),
            private=words.private,
            features=self.mechanism.features,
        )

    def _pieces(
        self, table_draw: TableDraw, source: Path | None, words: Words, first: int
    ) -> Iterator[tuple[pa.Table, Expectation | NumberExpectation | None]]:
        """Released rows of one file in batches, with their expected utility."""
        columns = [self.table.label, *self.kept, *self.mechanism.columns]
        for batch in prefetch(self.table.batches(columns, self.rows_per_batch, source)):
            released, expected = self._released(table_draw, batch, words, first)
            public = {name: plain_column(column) for name, column in self._features(table_draw, batch, first).items()}
            yield pa.table({**public, **released}, schema=self.schema), expected
            first += batch.num_rows

    def _features(
        self, table_draw: TableDraw, batch: pa.RecordBatch, first: int
    ) -> dict[str, pa.Array | pa.ChunkedArray]:
        """The released features of a batch."""
        if table_draw.features is None:
            return {name: batch[name] for name in self.kept}
        drawn = table_draw.features(batch.select(list(self.kept)), first)
        return {name: drawn[name] for name in self.kept}

    def _released(
        self, table_draw: TableDraw, batch: pa.RecordBatch, words: Words, first: int
    ) -> tuple[dict[str, pa.Array], Expectation | NumberExpectation | None]:
        """The released columns of a batch: drawn now from its channel, or drawn before."""
        if table_draw.channel is None:
            return table_draw.released(slice(first, first + batch.num_rows)), None
        channel, mass = table_draw.channel(batch, first)
        codes = draw(channel, label_codes(self.table, batch, self.space, first), words, first)
        return to_columns(self.table.label, self.space, channel, codes), expectation(channel, mass)

    @property
    def schema(self) -> pa.Schema:
        """The released columns: kept ones, the released label, and the row arrays of its channel."""
        added = self.mechanism.added
        for name in added:
            if name in self.kept:
                raise InputError(
                    f"expected no column named {name!r}, which the release adds, found one; rename or drop it"
                )
        stored = {name: self.mechanism.types.get(name, self.table.schema.field(name).type) for name in self.kept}
        kept = plain_schema(pa.schema(list(stored.items())))
        return pa.schema([*kept, *(pa.field(name, kind) for name, kind in added.items())])


def _prior_columns(table: Table, space: LabelSpace, mechanism: str, prefix: str | None) -> list[str]:
    """The columns of the prior, in declared class order."""
    if (mechanism in WITH_PRIOR) != (prefix is not None):
        found = f"it with {mechanism!r}" if prefix is not None else f"{mechanism!r} without it"
        raise InputError(
            f"expected --prior, the prefix of the prior's columns, with prior or prior-subset, found {found}"
        )
    columns = [f"{prefix}{point}" for point in space.points] if prefix is not None else []
    _check_public(table, columns, "prior")
    return columns


def _with_features(
    request: ReleaseRequest,
    kept: Sequence[str],
    generator: Generator | None,
    replaced: float | None,
    divergences: Mapping[float, float] | None,
    population: str,
) -> ReleaseRequest:
    """Add the treatment of private features to a request.

    Raises:
        InputError: The options do not go with the mechanism, or other columns are kept than the generator draws.
    """
    if (request.mechanism == DOUBLE) != (generator is not None) or (
        request.mechanism != DOUBLE and (replaced is not None or divergences is not None)
    ):
        found = f"one, or its options, with {request.mechanism!r}" if request.mechanism != DOUBLE else "none"
        raise InputError(f"expected --generator and its options with the mechanism {DOUBLE!r} alone, found {found}")
    if request.mechanism == DUMMY:
        if kept:
            raise InputError(
                f"expected no kept columns with {DUMMY!r}, which releases labels alone, found some; pass --keep none"
            )
        law = FeatureLaw.without_features(request.space.size)
        return dataclasses.replace(request, response=DummyResponse(request.space, request.epsilon), features=law)
    if generator is None:
        return request
    if sorted(kept) != sorted(generator.form.names):
        raise InputError(
            f"expected to keep the columns that the generator draws, {', '.join(generator.form.names)}, found "
            f"{', '.join(kept) or 'none'}; any other column would disclose which features are original"
        )
    response = DoubleResponse(request.space, request.epsilon, generator, replaced)
    return dataclasses.replace(request, response=response, features=response.law(population, divergences))


def _check_generator(table: Table, generator: Generator, rows: int) -> None:
    """Refuse a generator that was fitted on the first rows of a table, and columns of other types than its form."""
    form = generator.form
    for batch in table.batches(form.names, rows):
        generator.check_private(form.table(form.read(pa.Table.from_batches([batch]))))
        break


def _check_clusters(table: Table, request: ReleaseRequest, clusters: object) -> None:
    """Refuse clusters without a mechanism that uses them, and a cluster column that is not public."""
    if (request.mechanism in (CLUSTER, PEER)) != (clusters is not None):
        found = f"it with {request.mechanism!r}" if clusters is not None else f"{request.mechanism!r} without it"
        raise InputError(f"expected --clusters with the mechanisms {CLUSTER!r} and {PEER!r} alone, found {found}")
    if request.delta and request.mechanism != PEER:
        raise InputError(
            f"expected no delta for {request.mechanism!r}, which does not use one, found {request.delta!r}; for a "
            "budget with a delta pass --budget EPSILON,DELTA"
        )
    _check_public(table, [clusters] if isinstance(clusters, str) else [], "cluster")


def _check_public(table: Table, names: Sequence[str], what: str) -> None:
    _check_columns(table.schema, names, what)
    if table.label in names:
        raise InputError(
            f"expected a public {what} column, found the label {table.label!r}, which is private; name another"
        )


def _check_columns(schema: pa.Schema, names: Sequence[str], what: str = "") -> None:
    for name in names:
        if name not in schema.names:
            raise InputError(no_such_column(name, schema.names, what))


def unchanged(table: Table, stamp: object) -> None:
    """Refuse a table that changed since it was checked: other units and priors would not be charged."""
    if table.stamp != stamp:
        raise TableError(
            f"expected a table that does not change during the release, found {table.path} changed; try again"
        )


def marks_of(ledger: Ledger, path: Path, heads: Mapping[str, str]) -> tuple[str, ...]:
    """Keyed fingerprints of the data: its path, and the first values of each column but the label."""
    columns = (ledger.mark("column", name, head) for name, head in sorted(heads.items()))
    return (ledger.mark("path", str(path.resolve())), *columns)


def write_notes(ledger: Path, notes: tuple[str, ...]) -> Path:
    """Append notes for the curator to a file beside the ledger that only its owner can read."""
    path = ledger.with_name(f"{ledger.name}.notes")
    lines = notes or ("no kept column and no row order was found to disclose labels",)
    with suppress(OSError):  # the failure of a release must not depend on notes
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.writelines(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {note}\n" for note in lines)
    return path
