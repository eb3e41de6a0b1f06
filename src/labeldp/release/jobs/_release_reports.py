"""The end of a collection: no more reports are taken, and those that came are released, charged to a named ledger."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp._own_files import write_new_file
from labeldp.columns import Columns
from labeldp.release.collection import Collection
from labeldp.release.folder import check_target
from labeldp.release.jobs._job import TableRelease
from labeldp.release.jobs._notes import undeclared
from labeldp.release.jobs._release_table import release_table
from labeldp.release.jobs.mechanisms import DeclaredMechanism
from labeldp.release.ledger import Ledger
from labeldp.release.released import Release, UnitWarning
from labeldp.release.tables import people_of


def release_reports(
    reports: Collection, output: Path, *, unit: str | None = None, ledger: Path | Ledger | None = None, **spending: Any
) -> Release | TableRelease:
    """Take no more reports, and release those that came, with their public columns, to a new folder.

    A token is of a device, and is not stored: whose a report is only a public column can say. A ledger knows people by
    these columns, as it knows those of a table. If they identify nobody, the reports may be of anybody, and each
    charge for a label of this name counts.

    Args:
        reports: The collection, which stays open if this fails.
        output: A folder that does not exist yet.
        unit: The public column of people with several reports, whose epsilons add up; ``"row"`` if there are none.
        ledger: The ledger to charge, or None for no charge.
        **spending: Further arguments of ``release_table``: ``budget``, ``other_people`` and ``only_new``.

    Returns:
        The release; with a ledger, with what it has spent.

    Raises:
        BudgetError: The budget does not allow it.
        InputError: There is no report, they cannot come from the declared mechanism, there is no such column, none is
            named and one may be people with several reports, or a ledger is named and the mechanism releases sets.
        OutputError: The output exists.
    """
    check_target(output.absolute())
    with reports.closing():  # a report that is taken is among those that are released, or comes too late
        release, table = reports.release(None if unit == "row" else unit)
        if ledger is not None:
            return _charged(reports, release, table, output, unit=unit, ledger=ledger, **spending)
        for person in people_of(Columns(table)) if unit is None else ():
            raise undeclared(person)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnitWarning)  # rows were declared to be units
            release.save(output, table if table.num_columns else None, keep=table.column_names or None)
        return release


def _charged(reports: Collection, release: Release, table: pa.Table, output: Path, **options: Any) -> TableRelease:
    """The release of a table of the reports, which lies beside the collection for that time."""
    how, public = reports.declaration, table.column_names
    mechanism = DeclaredMechanism(how=how.mechanism, declared_by=how.declared_by)
    columns = {**{name: table[name] for name in public}, how.label: release.to_arrow()}
    file = reports.path.with_name(f"{reports.path.name}.reports.parquet")
    write_new_file(file, lambda path: pq.write_table(pa.table(columns), path), private=True)
    try:
        given = (file, how.label, how.mechanism.space, None, output)
        return release_table(*given, keep=public, mechanism=mechanism, **options)
    finally:
        file.unlink()
