"""Release of a table on disk: two passes, in bounded memory, all or nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from labeldp import _checks
from labeldp._progress import Progress
from labeldp._random_words import random_order
from labeldp._spelling import canonical
from labeldp.errors import InputError
from labeldp.privacy import LabelSpace
from labeldp.privacy.accounting import Budget
from labeldp.release.curator import ROW, Curator, FolderSink, TableSource
from labeldp.release.engines import Count, Engine, Executor, InProcess, engine_of
from labeldp.release.folder import FEATURES_REDRAWN, Certificate, answer_columns, number_column, run_in, stored_form
from labeldp.release.jobs._job import CheckedTable, TableCharge, TableJob, TableRelease
from labeldp.release.jobs._ledgers import Spending, unit_key_of
from labeldp.release.jobs._protocol import only_new_rows
from labeldp.release.jobs.mechanisms import AUTO, TableInput, TableMechanism, TableRequest, mechanism_of
from labeldp.release.ledger import Ledger
from labeldp.release.released import UNIT, Answer, declare, declared_by, declared_columns
from labeldp.release.tables import SHUFFLE, Place, Table, TableFile, UnitKey, sorted_columns

#: The most values that are shuffled in memory.
_MOST_SHUFFLED = 1 << 28


def release_table(
    source: str | Place | TableFile,
    label: str,
    space: LabelSpace,
    epsilon: float | None,
    output: str | Place,
    *,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    mechanism: str | TableMechanism = AUTO,
    unit: str | None = None,
    renumber: bool = False,
    shuffle: bool = False,
    budget: float | tuple[float, float] | Budget | None = None,
    ledger: str | Path | Ledger | None = None,
    other_people: str | None = None,
    only_new: bool = False,
    progress: Progress | None = None,
    executor: Engine | Executor | None = None,
) -> TableRelease:
    """Release the public columns of a table and its labels, each randomized once, with a certificate.

    Args:
        source: A CSV or Parquet file, or a folder of either: a path, or an address such as ``s3://bucket/table``, or
            ``https://host/table.csv`` of one file; a ``TableFile`` says how CSV files are written.
        label: The label column.
        space: The declared label space.
        epsilon: The cost of each row's label, or of all labels of one unit; None with ``DeclaredMechanism``, which has
            its own.
        output: A folder that does not exist yet: a path, where it appears at once or not at all, or an address, where
            nothing is a release before its certificate is there, which comes last.
        keep: The public columns, or ``"all"`` but the label, or ``"none"``; None with ``drop``.
        drop: The columns that are not public; all others are declared public.
        mechanism: A mechanism with its options, such as ``ClusterMechanism("family")``; or the name of one that needs
            none. ``"auto"`` and the names of randomizers randomize each label alone (``RandomizerMechanism``), and with
            a prior so does ``PriorMechanism``. A trusted curator counts labels first with ``ClusterMechanism``, and
            with ``"bins"`` and ``"optimal-counts"`` (``CountedMechanism``). ``PeerMechanism`` simulates peers who
            exchange labels, and ``ShuffleMechanism`` a shuffler of the labels of each cluster. Features are private
            with ``DoubleMechanism`` and ``"dummy"`` (``DummyMechanism``). ``"noisy-histogram"``
            (``HistogramMechanism``) and ``QuantileMechanism`` release no row: see ``Answer.load``.
        unit: The column of the privacy unit, which is declared public and need not be kept; ``"row"`` declares that
            epsilon is for each row, although a column may be people with several rows.
        renumber: True to release a made-up number of each unit, in random order, in the column ``<unit>_number``. The
            unit's own column is not released. The numbers follow from a key in the folder of the ledger, which the
            first release makes: people who return in a later table keep their numbers.
        shuffle: True to release the rows in a random order, in one file; all rows are in memory. This hides the order
            of the table, but no column that is sorted as the table is, such as a date.
        budget: The largest total cost for this label of this data; by default the first release sets it.
        ledger: The ledger file; by default beside the source. Charges in ledgers beside the source count too. For a
            source in an object store it is required, and those beside it count. ``Ledger(path, team=True)`` is one that
            several users share.
        other_people: A reason for which the rows are other people's than all that were released before, though their
            public values look alike; certificate and ledger show it.
        only_new: True to leave out each row that was released before with this label, and all other rows of its unit.
        progress: Called with the name of the pass, the rows done, and the total (0 while unknown); where there are
            several parts also with that name and ``" parts"``, the parts done, and their number.
        executor: Workers for the parts of the table, which are its files and ranges of row groups of large ones:
            anything with the ``submit`` of ``concurrent.futures``, such as a ``ProcessPoolExecutor`` of the start
            method ``spawn`` or a ``distributed.Client``. Workers read the table and write beside the output, under
            the same paths as this process. By default this process does all of it.

    Returns:
        The certificate and the paths of all files.

    Guarantee:
        * The charge is in the ledger before a label is drawn, and stays unless nothing was written.
        * No column that was released as a label of these rows leaves by any option: by its name, and by its values as
          far as the labels released before tell.
        * Failures and their messages do not depend on labels inside the space; ``notes`` may.
        * Every attempt of a worker at a part writes the same bytes, so that parts that are worked on several times
          cost nothing: ``docs/design/cluster.md`` has the proof.

    Raises:
        AttemptError: Two attempts of workers at one file differ. Nothing was published, and the charge stays.
        EngineError: Workers died, share no folder with this process, or have other versions of labeldp, Python,
            pyarrow or NumPy. Nothing was published, and the charge is void.
        InputError: The arguments are invalid; nothing was charged.
        BudgetError: The budget does not allow it; nothing was drawn.
        OutputError: The output exists, or there is no folder to put it in, or a store does not take it; once the
            upload has begun, the charge stays.
    """
    asked = mechanism_of(mechanism)
    if asked.imported and epsilon is not None:
        raise InputError("expected no epsilon with labels that were randomized elsewhere, found one; pass None")
    _check_whole(asked, executor, shuffle=shuffle)
    spending = Spending.of(budget, ledger, other_people)
    engine = engine_of(executor, InProcess())
    public = declared_columns(keep, drop)
    if renumber:
        public = _without_unit(asked, unit, *public)
    job = TableJob.of(source, label, space, output, public, spending, progress, engine)
    column, label = unit_column(job.table, unit), job.table.label
    if renumber and column in job.kept:
        raise InputError(
            f"--keep names {column!r}, and --renumber releases a made-up number in its place; leave one of them out"
        )
    columns = {
        option: list(declare(job.table.schema, label, names, declared_by(option)))
        for option, names in asked.columns(space).items()
    }
    total = 0.0 if asked.imported else _checks.epsilon(epsilon)
    made = asked.checked(space, total, job.kept, column)
    job = _declaring(job, asked, columns, column)
    made_up = [number_column(column)] if renumber and column else []
    if made_up:
        job = dataclasses.replace(job, unit_key=unit_key_of(job.ledgers.home, spending.ledger))
    job = only_new_rows(job, column or unit) if only_new else job
    checked = _with_remark(job.checked(column or unit, columns.get("prior", [])), job.unit_key)
    table = checked.source
    request = asked.on(TableInput(table, total, made, columns, job.report, job.chosen))
    total = total or request.guarantee.epsilon  # what was drawn elsewhere costs what it costs
    job = dataclasses.replace(job, clusters=request.clusters)
    checked = _shuffled(checked, job, [] if asked.resampled else job.kept) if shuffle else checked
    schema = job.schema(request.types, {**dict.fromkeys(made_up, pa.int64()), **request.added})
    law = request.law
    entry = job.entry(
        request.name,
        request.guarantee,
        total,
        table.rows,
        "redrawn" if request.types else job.features,
        law.paid_split if law else "",
    )

    def write(folder: Path, charge: TableCharge) -> Certificate:
        columns = (*(request.types or job.kept), *made_up)
        with run_in(folder, shared=engine.shared, remote=engine.remote) as run:
            sink = FolderSink(table, run, schema, columns, law is not None, job.report, checked.data.order)
            try:
                return _drawn(request, sink, charge)
            except BaseException:
                if run.differed:  # two draws of the same rows lay on a disk that workers share
                    differing.add(1)
                    charge.drawn()
                raise

    differing = Count()
    return job.publish(checked, entry, write, lambda: _misfits(table), lambda: bool(differing.done))


def _check_whole(mechanism: TableMechanism, executor: Engine | Executor | None, *, shuffle: bool) -> None:
    """Refuse an engine for a request that needs all rows in one place, and a shuffle without rows."""
    if executor is not None:
        mechanism.check_engine()
    if shuffle and executor is not None:
        raise InputError("an engine works on parts of a table, and --shuffle needs all rows; leave out one of them")
    if shuffle and not mechanism.rows:
        raise InputError(f"{mechanism.name!r} releases no rows, so there are none to shuffle; leave out --shuffle")


def _declaring(
    job: TableJob, mechanism: TableMechanism, columns: Mapping[str, Sequence[str]], unit: str | None
) -> TableJob:
    """The job with the public columns of a mechanism and of the unit, in the types of what leaves."""
    for option, names in columns.items():
        job = job.declaring(names, declared_by(option))
    job = dataclasses.replace(job.declaring([unit] if unit else [], UNIT), imported=mechanism.imported)
    return job.typed([name for name in job.public if name not in mechanism.resampled])


def _with_remark(checked: CheckedTable, key: UnitKey | None) -> CheckedTable:
    """A table with a remark on the key of made-up numbers, if the key is new."""
    if key is None or not key.is_new:
        return checked
    remark = f"made-up numbers follow from the new key {key.path}. Keep a copy: without it everybody gets a new number"
    return dataclasses.replace(checked, remarks=(*checked.remarks, remark))


def _shuffled(checked: CheckedTable, job: TableJob, public: Sequence[str]) -> CheckedTable:
    """A table whose rows leave in a random order, with remarks on public columns that show the old order."""
    rows, columns = checked.source.rows, len(job.kept) + 1
    if rows * columns > _MOST_SHUFFLED:
        raise InputError(
            f"--shuffle holds all rows in memory, at most {_MOST_SHUFFLED:,} values, found {rows:,} rows of {columns} "
            "columns. Shuffle the table first, or release it in parts"
        )
    remarks = (
        f"{name!r} is sorted in the table, so it shows the order of rows again: drop it if that discloses labels"
        for name in sorted_columns(job.table, public, job.rows_per_batch)
    )
    notes = tuple(note for note in checked.notes if not note.endswith(SHUFFLE))
    data = dataclasses.replace(checked.data, order=random_order(rows))
    return dataclasses.replace(checked, data=data, notes=notes, remarks=(*checked.remarks, *remarks))


def _without_unit(
    mechanism: TableMechanism, unit: str | None, keep: Sequence[str] | None, drop: Sequence[str] | None
) -> tuple[Sequence[str] | None, Sequence[str] | None]:
    """The columns to keep or to drop if a made-up number leaves in place of the unit."""
    if not mechanism.rows:
        raise InputError(f"{mechanism.name!r} releases no rows, so there are none to number; leave out --renumber")
    if unit in (None, ROW):
        raise InputError(
            "--renumber (renumber=) makes up numbers of a privacy unit, and there is none; name its column with --unit"
        )
    return keep, None if drop is None else [*drop, str(unit)]


def unit_column(table: Table, unit: str | None) -> str | None:
    """The column of the privacy unit; None if each row is a unit.

    Raises:
        InputError: It is no public column of the table, or its name declares rows to be units.
    """
    named = [unit] if unit and unit != ROW else []
    column = next(iter(declare(table.schema, table.label, named, UNIT)), None)
    names = [name for name in table.schema.names if canonical(name) == ROW] if unit == ROW else []
    if names or column == ROW:  # either may be meant, however it is spelled
        raise InputError(
            f"expected another name for the column {(names or [ROW])[0]!r}, since unit {ROW!r} means that each row is "
            "one; rename it"
        )
    return column


def _drawn(request: TableRequest, sink: FolderSink, charge: TableCharge) -> Certificate:
    """Ask a curator of the table, whose account has the epsilon that the ledger was charged, and write the answer."""
    entry = charge.entry
    result = request.ask(Curator._of(sink.source, sink, entry))
    if isinstance(result, Answer):
        values = answer_columns(result.value, entry.label, result.law, sink.space)
        by_row = stored_form(result.law, sink.space).by_row
        (sink.write_columns if by_row else sink.write_answer)({**values, **request.beside})
    certificate = sink.certified(result.certificate, entry.identifier)
    if request.types or not charge.redrawn:
        return certificate
    return dataclasses.replace(certificate, assumptions=(*certificate.assumptions, FEATURES_REDRAWN))


def _misfits(table: TableSource) -> tuple[str, ...]:
    """A private note on rows whose features were changed."""
    if not table.misfits:
        return ()
    return (f"{table.misfits:,} rows had features outside the generator's form: they were moved to the nearest one",)
