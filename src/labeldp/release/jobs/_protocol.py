"""Release of a table by an interactive protocol: several requests to a curator, but one release and one charge.

The table is held in memory, since a protocol in stages learns from all rows in between.

Rows that were not released before are told by public values alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from shlex import quote

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._progress import Progress
from labeldp.columns import plain_column, plain_schema
from labeldp.errors import InputError, LabelDPError
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import Budget
from labeldp.release.curator import (
    KEPT_PUBLIC,
    ROW,
    TYPE_PUBLIC,
    ArraySource,
    Curator,
    FolderSink,
    GivenRows,
    MemorySink,
    clashing,
)
from labeldp.release.engines import InProcess
from labeldp.release.folder import (
    CODES,
    Certificate,
    column_name,
    column_types,
    run_in,
    to_columns,
)
from labeldp.release.jobs._job import TableCharge, TableJob, TableRelease
from labeldp.release.jobs._ledgers import Spending
from labeldp.release.jobs._notes import of_one_row, undeclared
from labeldp.release.ledger import Ledger, latest_budget, with_the_same_data
from labeldp.release.released import Release
from labeldp.release.tables import Identity, Place, TableFile, choose, column_heads


def only_new_rows(job: TableJob, unit: str | None, refusal: Callable[[Identity], InputError] = undeclared) -> TableJob:
    """The job for the new rows: those without an earlier release of this label, for themselves or their unit.

    Raises:
        InputError: All rows were released before, or it cannot be told which were; or a column may be people with
            several rows, and no unit was declared. Nothing was charged.
    """
    seen, data, _ = job.look(unit, refusal)
    found = job.ledgers.matches(data)
    earlier = [each for each in with_the_same_data(found) if each.entry.is_of(job.table.label)]
    count = sum(part.count for part in seen.parts) if earlier else 0
    if not all(each.certain for each in earlier):
        raise InputError(
            "it cannot be told which rows are new, since values of an earlier release are edited or missing. Release a "
            "table of new rows, or all rows within a larger budget"
        )
    new = np.ones(count, dtype=bool)
    for each in earlier:
        match = found[each.entry]
        assert match is not None  # noqa: S101 (what is certain was matched)
        new &= ~match.mask(count)
    if new.all():
        return job
    if not new.any():
        whose = "" if data.unit == "row" else f", or others of their {data.unit}"
        raise InputError(
            f"no row is new: all {count:,} were released before{whose}. Use the earlier releases; nothing was charged"
        )
    table = choose(job.table, seen.parts, new)
    spending = dataclasses.replace(job.spending, budget=job.spending.budget or latest_budget(earlier))
    heads = column_heads(table)
    return dataclasses.replace(job, table=table, heads=heads, spending=spending, whole=data, chosen=new)


#: A protocol: from the public columns and a curator to one release of all rows.
Protocol = Callable[[pa.Table, Curator], Release]

_CANDIDATES = "candidates"


def release_with(
    source: str | Place | TableFile,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Place,
    protocol: Protocol,
    *,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    budget: float | tuple[float, float] | Budget | None = None,
    ledger: str | Path | Ledger | None = None,
    unit: str | None = None,
    other_people: str | None = None,
    only_new: bool = False,
    progress: Progress | None = None,
) -> TableRelease:
    """Release a table by a protocol, such as ``MultiStage.fit``, which may make several requests.

    Args:
        source: A CSV or Parquet file, or a folder of either, which is held in memory; a ``TableFile`` says how CSV
            files are written.
        label: The label column.
        space: The declared label space.
        epsilon: The total cost of all requests for each row's label.
        output: A folder that does not exist yet. It is written atomically or not at all.
        protocol: A function of the public columns (without any, a table of no rows) and a curator whose budget is
            epsilon. It returns one release of all rows, in order, whose certificate has all charges (``concatenate``).
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        budget: The largest total cost for this label of this data; by default the first release sets it.
        ledger: The ledger file; by default beside the source. Charges in ledgers beside the source count too.
        unit: ``"row"`` declares that epsilon is for each row, though a column repeats like a person's identifier: all
            labels of one person together have that epsilon times the person's rows, as the certificate says.
        other_people: As for ``release_table``.
        only_new: As for ``release_table``.
        progress: Called with the name of the pass, the rows done, and the total (0 while unknown).

    Returns:
        The certificate and the paths of all files.

    Guarantee:
        * Epsilon is in the ledger before the first label is drawn. The curator's own account ensures that all draws
          together cost no more.
        * Once anything was drawn the charge stays, whatever fails then: the protocol, the machine, the writing, an
          interrupt, or a signal that kills the process. Somebody may have seen a draw by then, and a failure may depend
          on it. The ledger has that mark before the first draw. A failure before that makes the charge void.
        * A failure before anything is drawn, and its message, do not depend on labels inside the space.

    Raises:
        InputError: The arguments or the protocol's release are invalid. If labels had been drawn, the charge stays.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in.
    """
    if unit not in (None, ROW):
        raise InputError(
            f"expected {ROW!r} as the unit of stages or a protocol, whose epsilon is for one row, or none, found "
            f"{unit!r}; for all labels of one unit together use 'labeldp release --unit {quote(str(unit))}'"
        )
    job = TableJob.of(
        source, label, space, output, (keep, drop), Spending.of(budget, ledger, other_people), progress, InProcess()
    )
    label = job.table.label
    for name in (column_name(label, field) for field in (CODES, _CANDIDATES)):
        if name in job.kept:
            raise clashing(name)
    total, job = _checks.epsilon(epsilon), job.typed(job.kept)
    refusal = partial(of_one_row, epsilon=total)
    job = only_new_rows(job, unit, refusal) if only_new else job
    checked = job.checked(unit, refusal=refusal)
    table, columns = checked.source, _columns(job)
    entry = job.entry("stages", Guarantee(total, trust="central"), total, table.rows, job.features)
    codes = np.concatenate([batch.codes for batch in table.batches(slice(0, table.rows))])
    labels = ArraySource(space, codes, None, identified=False)
    told: list[TableCharge] = []
    curator = Curator._of(labels, MemorySink(), entry, lambda: _mark_drawn(told))

    def write(folder: Path, charge: TableCharge) -> Certificate:
        told.append(charge)
        release, certificate = _run_protocol(protocol, columns, curator)
        schema = job.schema({}, column_types(label, space, release.channel))
        with run_in(folder, shared=False) as run:
            sink = FolderSink(table, run, schema, tuple(job.kept), single=True, report=job.report)
            sink.write([GivenRows(_pieces(columns, release, label, job.rows_per_batch))])
            assumptions = tuple(dict.fromkeys((KEPT_PUBLIC, TYPE_PUBLIC, *certificate.assumptions)))
            return sink.certified(dataclasses.replace(certificate, assumptions=assumptions), entry.identifier)

    return job.publish(checked, entry, write, drew=lambda: _drew(curator))


def _mark_drawn(waiting: list[TableCharge]) -> None:
    """Record before the first draw that the charge stays."""
    while waiting:
        waiting[-1].drawn()
        waiting.pop()


def _columns(job: TableJob) -> pa.Table:
    """The public columns as they will be written."""
    schema = plain_schema(pa.schema([job.table.schema.field(name) for name in job.kept]))
    batches = job.table.batches(job.kept, job.rows_per_batch) if job.kept else []
    parts = [pa.table([plain_column(column) for column in batch.columns], schema=schema) for batch in batches]
    return pa.concat_tables([schema.empty_table(), *parts])


def _pieces(columns: pa.Table, release: Release, label: str, rows: int) -> Iterator[pa.Table]:
    """Public columns and released labels, some rows at a time."""
    for low in range(0, len(release), rows):
        part = slice(low, low + rows)
        released = to_columns(label, release.space, release.channel.take(part), release.codes[part])
        public = {name: columns[name].slice(low, rows) for name in columns.column_names}
        yield pa.table({**public, **released})


def _drew(curator: Curator) -> bool:
    """True if anything was drawn; the curator's own charge for a request that failed before is void."""
    return curator.spent[0] > 0.0


def _run_protocol(protocol: Protocol, columns: pa.Table, curator: Curator) -> tuple[Release, Certificate]:
    """Run a protocol and return its release and certificate.

    A failure after labels were drawn may depend on them, so its own text is not shown, except errors of the machine and
    of this package.
    """
    try:
        try:
            release = protocol(columns, curator)
        finally:
            curator._close()  # whoever kept the curator draws nothing more, which nobody would charge
        return release, _whole_certificate(release, curator)
    except Exception as problem:
        machine = isinstance(problem, OSError | MemoryError) and not isinstance(problem, LabelDPError)
        if machine or not _drew(curator):
            raise
        why = str(problem) if isinstance(problem, LabelDPError) else f"an unexpected {type(problem).__name__}"
    raise InputError(f"{why} (labels had already been drawn, so the charge stays, though nothing was written)")


def _whole_certificate(release: Release, curator: Curator) -> Certificate:
    """The certificate of a release of all of a curator's rows, after a check that it has all charges.

    A release may depend on all earlier requests, so a certificate of its last draw alone would claim too much privacy.
    """
    certificate = release.certificate
    if certificate is None or certificate.parent is not None or len(release) != len(curator):
        raise InputError(
            f"expected the protocol to return one release of all {len(curator)} rows, found something else"
        )
    promised = certificate.guarantee
    if certificate.label != curator.name or (promised.epsilon, promised.delta) != curator.spent:
        raise InputError(
            "expected a release of this curator with all charges in its certificate, found another; pass the answers "
            "that its channel was computed from to concatenate(parts, answers=...)"
        )
    return certificate
