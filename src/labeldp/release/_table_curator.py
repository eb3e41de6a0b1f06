"""Release of a table by an interactive protocol: several requests to a curator, but one release and one charge.

The table is held in memory, since a protocol in stages learns from all rows in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp import _checks
from labeldp._words import identifier
from labeldp.errors import InputError, LabelDPError, LabelError
from labeldp.privacy import Guarantee, LabelSpace
from labeldp.privacy.accounting import Budget, RowRanges
from labeldp.release._curator import Curator, budget_of
from labeldp.release._release import Release
from labeldp.release._table_release import (
    DECLARED_PUBLIC,
    Progress,
    TableRelease,
    check_features_beside,
    kept_columns,
    ledger_of,
    ledger_path,
    marks_of,
    unchanged,
    write_notes,
)
from labeldp.release.folder import (
    CODES,
    Certificate,
    FileWriter,
    check_target,
    column_name,
    column_types,
    columns_of,
    finish,
    staged,
    to_columns,
)
from labeldp.release.ledger import Entry, account_of, related
from labeldp.release.tables import Table, column_heads, open_table, plain_column, plain_schema, survey, typed

#: A protocol: from the public columns and a curator to one release of all rows.
Protocol = Callable[[pa.Table, Curator], Release]

_CANDIDATES = "candidates"
_ROWS_PER_BATCH = 1 << 18
_ENTRIES_PER_BATCH = 1 << 24


def release_with(
    source: str | Path,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Path,
    protocol: Protocol,
    *,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    budget: float | tuple[float, float] | Budget | None = None,
    ledger: str | Path | None = None,
    progress: Progress | None = None,
) -> TableRelease:
    """Release a table by a protocol, such as ``MultiStage.fit``, which may make several requests.

    Args:
        source: A CSV or Parquet file, or a folder of either, which is held in memory.
        label: The label column.
        space: The declared label space.
        epsilon: The total cost of all requests for each row's label.
        output: A folder that does not exist yet. It is written atomically or not at all.
        protocol: A function of the public columns (without any, a table of no rows) and a curator whose budget is
            epsilon. It returns one release of all rows, in order, whose certificate has all charges (``concatenate``).
            It should disclose nothing that it learned from the labels, not even to disk, before the release is
            written: if its process is killed, nobody knows what was drawn, and the charge is void.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        budget: The largest total cost for this label of this data; by default the first release sets it.
        ledger: The ledger file; by default beside the source.
        progress: Called with the name of the pass, the rows done, and the total (0 while unknown).

    Returns:
        The certificate and the paths of all files.

    Guarantee:
        * Epsilon is in the ledger before the first label is drawn. The curator's own account ensures that all draws
          together cost no more.
        * Once anything was drawn the charge stays, whatever fails then: the protocol, the machine, the writing, or an
          interrupt. Somebody may have seen a draw by then, and a failure may depend on it. A failure before that
          makes the charge void; so does a killed process, if the output does not exist.
        * A failure before anything is drawn, and its message, do not depend on labels inside the space.

    Raises:
        InputError: The arguments or the protocol's release are invalid. If labels had been drawn, the charge stays.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in.
    """
    report = progress or (lambda *_: None)
    allowance = budget_of(budget)
    table = open_table(Path(source), label)
    stamp, heads = table.stamp, column_heads(table)
    kept = kept_columns(table.schema, label, keep, drop)
    if table.kind == "csv" and "" in space.points:
        raise LabelError("expected non-empty classes, found an empty one, which is a missing label in CSV; rename it")
    for name in (column_name(label, field) for field in (CODES, _CANDIDATES)):
        if name in kept:
            raise InputError(f"expected no column named {name!r}, which the release adds, found one; rename or drop it")
    target, total = Path(output).absolute(), _checks.epsilon(epsilon)
    check_target(target)
    table = typed(table, kept)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // space.size))
    parts: list[np.ndarray] = []
    surveyed = survey(table, space, kept, None, [], rows, report, lambda codes, _: parts.append(codes))
    labels = pa.array(space.points, space.arrow_type()).take(pa.array(np.concatenate(parts)))
    columns = _columns(table, kept, rows)
    record = ledger_of(table.path, ledger, label, heads)
    record.settle()
    entry = Entry(
        identifier(),
        label,
        marks_of(record, table.path, heads),
        "stages",
        Guarantee(total, trust="central"),
        RowRanges.all(surveyed.rows),
        asked=total,
        output=str(target),
        features="kept" if kept else "",
    )
    check_features_beside(table.path, record, heads, entry)
    curator = Curator(labels, space, budget=total, name=label)
    drew = partial(_drew, curator)
    with staged(target, entry.identifier) as staging, record.charged(entry, allowance, drew):
        unchanged(table, stamp)
        release, certificate = _run_protocol(protocol, columns, curator)
        unchanged(table, stamp)
        final = _write(staging, columns, release, certificate, entry, rows)
        finish(staging, target, final)
    path = ledger_path(table.path, record.path)
    mine = related(record.entries(), label, entry.marks)
    account, notes_file = account_of(mine), write_notes(path, surveyed.notes)
    return TableRelease(final, target, path, surveyed.notes, notes_file, account.spent, account.budget)


def _columns(table: Table, kept: Sequence[str], rows: int) -> pa.Table:
    """The public columns as they will be written."""
    schema = plain_schema(pa.schema([table.schema.field(name) for name in kept]))
    batches = table.batches(kept, rows) if kept else []
    parts = [pa.table([plain_column(column) for column in batch.columns], schema=schema) for batch in batches]
    return pa.concat_tables([schema.empty_table(), *parts])


def _drew(curator: Curator) -> bool:
    """True if anything was drawn; the curator's own charge for a request that failed before is void."""
    return curator.spent[0] > 0.0


def _run_protocol(protocol: Protocol, columns: pa.Table, curator: Curator) -> tuple[Release, Certificate]:
    """Run a protocol and return its release and certificate.

    A failure after labels were drawn may depend on them, so its own text is not shown, except errors of the machine and
    of this package.
    """
    try:
        release = protocol(columns, curator)
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


def _write(
    staging: Path, columns: pa.Table, release: Release, certificate: Certificate, entry: Entry, rows: int
) -> Certificate:
    """Write the rows of a release and the public columns to a file, and return the certificate."""
    added = column_types(entry.label, release.space, release.channel)
    for name in added:
        if name in columns.column_names:
            raise InputError(f"expected no column named {name!r}, which the release adds, found one; rename or drop it")
    schema = pa.schema([*columns.schema, *(pa.field(name, kind) for name, kind in added.items())])
    with FileWriter(staging, "data.parquet", schema) as writer:
        for low in range(0, len(release), rows):
            part = slice(low, low + rows)
            released = to_columns(entry.label, release.space, release.channel.take(part), release.codes[part])
            public = {name: columns[name].slice(low, rows) for name in columns.column_names}
            writer.write(pa.table({**public, **released}, schema=schema))
        file = writer.close()
    return dataclasses.replace(
        certificate,
        release=entry.identifier,
        columns=columns_of(staging / file.name),
        files=(file,),
        assumptions=tuple(dict.fromkeys((*DECLARED_PUBLIC, *certificate.assumptions))),
    )
