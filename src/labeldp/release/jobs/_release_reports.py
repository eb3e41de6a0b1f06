"""The end of a collection: no more reports are taken, and those that came are released, charged to a named ledger."""

from __future__ import annotations

import dataclasses
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp._own_files import opened_own, remove_staging, write_new_file
from labeldp.columns import Columns
from labeldp.errors import VerificationError
from labeldp.release.collection import Collection
from labeldp.release.folder import check_target, is_release
from labeldp.release.jobs._job import TableRelease
from labeldp.release.jobs._notes import undeclared
from labeldp.release.jobs._release_table import release_table
from labeldp.release.jobs.mechanisms import DeclaredMechanism
from labeldp.release.ledger import Ledger
from labeldp.release.released import Release, UnitWarning, public_columns
from labeldp.release.tables import people_of

#: The key of the mark in the metadata of the table of reports, by which a later close knows it again.
_MARK = b"labeldp-collection"


def release_reports(
    reports: Collection, output: Path, *, unit: str | None = None, ledger: Path | Ledger | None = None, **spending: Any
) -> Release | TableRelease:
    """Take no more reports, and release those that came, with their public columns, to a new folder.

    A token is of a device, and is not stored: whose a report is only a public column can say. A ledger knows people by
    these columns, as it knows those of a table. If they identify nobody, the reports may be of anybody, and each
    charge for a label of this name counts.

    What was killed is continued by the same call: it removes what was left, and where the output is there already, with
    all reports that came, the collection is closed without another charge.

    Args:
        reports: The collection, which stays open if this fails.
        output: A folder that does not exist yet.
        unit: The public column of people with several reports, whose epsilons add up; ``"row"`` if there are none.
        ledger: The ledger to charge, or None for no charge.
        **spending: Further arguments of ``release_table``: ``budget``, ``other_people`` and ``only_new``.

    Returns:
        The release, with the certificate that was written; with a ledger, with what it has spent.

    Raises:
        BudgetError: The budget does not allow it.
        InputError: There is no report, they cannot come from the declared mechanism, there is no such column, none is
            named and one may be people with several reports, or a ledger is named and the mechanism releases sets.
        OutputError: The output exists, and is no release of all reports.
        VerificationError: The output was exchanged as soon as it was written.
    """
    with reports.closing():  # a report that is taken is among those that are released, or comes too late
        file, mark = reports.path.with_name(f"{reports.path.name}.reports.parquet"), reports.mark("table")
        _remove_left(file, mark)
        release, table = reports.release(None if unit == "row" else unit)
        if is_release(output) and (finished := _finished(release, table, output, ledger)) is not None:
            return finished
        check_target(output.absolute())
        if ledger is not None:
            columns = dict(zip(table.column_names, table.columns, strict=True))
            columns |= {reports.declaration.label: release.to_arrow()}
            marked = pa.table(columns).replace_schema_metadata({_MARK: mark})
            write_new_file(file, lambda path: pq.write_table(marked, path), private=True)
            return _charged(reports, file, table.column_names, output, unit=unit, ledger=ledger, **spending)
        for person in people_of(Columns(table)) if unit is None else ():
            raise undeclared(person)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnitWarning)  # rows were declared to be units
            release.save(output, table if table.num_columns else None, keep=table.column_names or None)
        return _saved(release, table, output)


def _written(release: Release, table: pa.Table, output: Path) -> Release:
    """The release in a folder, which has these labels and public columns."""
    written = Release.load(output)
    if written.hash != release.hash or not public_columns(output, written.certificate).equals(table):
        raise VerificationError(f"expected the release of these reports in {output}, found another; do not use it")
    return written


def _saved(release: Release, table: pa.Table, output: Path) -> Release:
    """The release that was just saved, with the certificate that lies in its folder."""
    written = _written(release, table, output)
    found = written.certificate and dataclasses.replace(written.certificate, columns=(), files=())
    if found != release.certificate:
        raise VerificationError(f"expected the certificate of these reports in {output}, found another; do not use it")
    return written


def _finished(release: Release, table: pa.Table, output: Path, ledger: Path | Ledger | None) -> Release | None:
    """The release in a folder, if it is of all these reports with their public columns, and the ledger was charged."""
    with suppress(VerificationError):
        written = _written(release, table, output)
        same = _facts(written) == _facts(release)
        return written if same and (ledger is None or _knows(ledger, written)) else None
    return None


def _facts(release: Release) -> tuple[object, ...]:
    """The facts that a release of the same reports has, with a ledger or without one."""
    promise, certificate = release.guarantee, release.certificate
    assert certificate is not None  # noqa: S101 (it has a guarantee)
    return certificate.label, certificate.space, certificate.declared_by, promise.epsilon, promise.unit == "row"


def _knows(ledger: Path | Ledger, release: Release) -> bool:
    """True if a ledger was charged for a release."""
    record = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    name = None if release.certificate is None else release.certificate.release
    return any(entry.identifier == name for entry in record.entries() if entry.state != "void")


def _charged(reports: Collection, file: Path, keep: list[str], output: Path, **options: Any) -> TableRelease:
    """The release of a table of the reports, which lies beside the collection for that time."""
    how = reports.declaration
    mechanism = DeclaredMechanism(how=how.mechanism, declared_by=how.declared_by)
    try:
        given = (file, how.label, how.mechanism.space, None, output)
        return release_table(*given, keep=keep, mechanism=mechanism, **options)
    finally:
        file.unlink()


def _remove_left(file: Path, mark: str) -> None:
    """Remove the table that a killed close of this collection left; any other file of that name stays."""
    remove_staging(file)
    if file.is_file():
        ours = False
        with opened_own(file) as left, suppress(pa.ArrowException):
            ours = (pq.read_schema(left).metadata or {}).get(_MARK) == mark.encode()
        if ours:
            file.unlink()
