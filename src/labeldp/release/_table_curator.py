"""A table on disk whose labels are asked for more than once: all of it is one release, and one charge.

The table is held in memory: what asks stage by stage has to learn from all rows in between.
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
from labeldp.release.tables import Table, heads, open_table, plain_column, plain_schema, survey, typed

#: What asks a curator, knowing the public columns, and gives one release of all rows.
Ask = Callable[[pa.Table, Curator], Release]

_CANDIDATES = "candidates"
_ROWS_PER_BATCH = 1 << 18
_ENTRIES_PER_BATCH = 1 << 24


def release_with(
    source: str | Path,
    label: str,
    space: LabelSpace,
    epsilon: float,
    output: str | Path,
    ask: Ask,
    *,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    budget: float | tuple[float, float] | Budget | None = None,
    ledger: str | Path | None = None,
    progress: Progress | None = None,
) -> TableRelease:
    """Release a table whose labels are asked for by a function, such as ``MultiStage.fit``, which may ask repeatedly.

    Args:
        source: A CSV or Parquet file, or a folder of either, which is held in memory.
        label: The label column.
        space: The declared label space.
        epsilon: What all that is asked costs each row's label.
        output: A folder that does not exist yet. It appears at once, complete, or not at all.
        ask: Is given the public columns (without a column, a table of no rows) and a curator whose budget is epsilon,
            and gives one release of all rows, in order, whose certificate counts all requests (``concatenate``).
            What it learned from the labels it should keep to itself until the release stands, also on disk: where its
            process is killed, nobody can say any more what was drawn, and the charge is void.
        keep: The public columns, or None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        budget: The most that may be spent on this label of this data; by default the first release sets it.
        ledger: Where charges are kept; by default beside the source.
        progress: Called with the name of the pass, the rows done, and the rows in all (0 while not known).

    Returns:
        The certificate and where everything is.

    Guarantee:
        * Epsilon is in the ledger before the first label is drawn. The curator's own account sees to it that all that
          is drawn costs no more.
        * Once anything was drawn the charge stays, whatever fails then: the function, the machine, the writing, or
          whoever interrupts it. Somebody may have been told by then, and a failure may depend on what was drawn.
          Before that, a failure makes it void; so does a process that is killed, if the output does not stand.
        * Whether it fails before anything is drawn, and what it says, does not depend on labels inside the space.

    Raises:
        InputError: Something does not fit. What was not found before labels were drawn is paid for.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in.
    """
    report = progress or (lambda *_: None)
    allowance = budget_of(budget)
    table = open_table(Path(source), label)
    stamp, known_by = table.stamp, heads(table)
    kept = kept_columns(table.schema, label, keep, drop)
    if table.kind == "csv" and "" in space.points:
        raise LabelError("expected classes with text, found an empty one, which is a missing label in CSV; rename it")
    for name in (column_name(label, field) for field in (CODES, _CANDIDATES)):
        if name in kept:
            raise InputError(f"expected no column named {name!r}, found one; rename or drop it")
    target, asked = Path(output).absolute(), _checks.epsilon(epsilon)
    check_target(target)
    table = typed(table, kept)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // space.size))
    parts: list[np.ndarray] = []
    found = survey(table, space, kept, None, [], rows, report, lambda codes, _: parts.append(codes))
    labels = pa.array(space.points, space.arrow_type()).take(pa.array(np.concatenate(parts)))
    columns = _columns(table, kept, rows)
    record = ledger_of(table.path, ledger, label, known_by)
    record.settle()
    entry = Entry(
        identifier(),
        label,
        marks_of(record, table.path, known_by),
        "stages",
        Guarantee(asked, trust="central"),
        RowRanges.all(found.rows),
        asked=asked,
        output=str(target),
        features="kept" if kept else "",
    )
    check_features_beside(table.path, record, known_by, entry)
    curator = Curator(labels, space, budget=asked, name=label)
    drew = partial(_drew, curator)
    with staged(target, entry.identifier) as staging, record.charged(entry, allowance, drew):
        unchanged(table, stamp)
        release, certificate = _asked(ask, columns, curator)
        unchanged(table, stamp)
        final = _written(staging, columns, release, certificate, entry, rows)
        finish(staging, target, final)
    path = ledger_path(table.path, record.path)
    mine = related(record.entries(), label, entry.marks)
    account, notes_file = account_of(mine), write_notes(path, found.notes)
    return TableRelease(final, target, path, found.notes, notes_file, account.spent, account.budget)


def _columns(table: Table, kept: Sequence[str], rows: int) -> pa.Table:
    """The public columns, as they are written."""
    schema = plain_schema(pa.schema([table.schema.field(name) for name in kept]))
    batches = table.batches(kept, rows) if kept else []
    parts = [pa.table([plain_column(column) for column in batch.columns], schema=schema) for batch in batches]
    return pa.concat_tables([schema.empty_table(), *parts])


def _drew(curator: Curator) -> bool:
    """Whether anything was drawn: where a request fails before that, a curator's own charge is void."""
    return curator.spent[0] > 0.0


def _asked(ask: Ask, columns: pa.Table, curator: Curator) -> tuple[Release, Certificate]:
    """What a function asked for.

    Where it fails after labels were drawn, its failure may depend on them, so its own text is not shown; but for what
    the machine or the user says.
    """
    try:
        release = ask(columns, curator)
        return release, _whole(release, curator)
    except Exception as problem:
        machine = isinstance(problem, OSError | MemoryError) and not isinstance(problem, LabelDPError)
        if machine or not _drew(curator):
            raise
        why = str(problem) if isinstance(problem, LabelDPError) else f"an unexpected {type(problem).__name__}"
    raise InputError(f"{why} (labels had been drawn by then, so the charge stays, though nothing was written)")


def _whole(release: Release, curator: Curator) -> Certificate:
    """The certificate of a release of all a curator's rows, which says no less than what they cost.

    A release may depend on all that was asked before it, so a certificate of its last draw alone would claim too much.
    """
    certificate = release.certificate
    if certificate is None or certificate.parent is not None or len(release) != len(curator):
        raise InputError(f"expected one release of all {len(curator)} rows, found something else")
    promised = certificate.guarantee
    if certificate.label != curator.name or (promised.epsilon, promised.delta) != curator.spent:
        raise InputError(
            "expected a release of the curator that was given, whose certificate counts all that was asked, found "
            "another; name the answers that its law was made from with joined(parts, answers=...)"
        )
    return certificate


def _written(
    staging: Path, columns: pa.Table, release: Release, certificate: Certificate, entry: Entry, rows: int
) -> Certificate:
    """The certificate of a release, once its rows are in a file beside the public columns."""
    added = column_types(entry.label, release.space, release.channel)
    for name in added:
        if name in columns.column_names:
            raise InputError(f"expected no column named {name!r}, found one; rename or drop it")
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
