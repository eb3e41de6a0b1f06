"""``labeldp ledger``: all charges, and the spent part of each budget."""

from __future__ import annotations

from pathlib import Path

import labeldp.release.ledger as ledgers
from labeldp import release, report
from labeldp._checks import nearest
from labeldp.cli._terminal import result
from labeldp.errors import LedgerError
from labeldp.release import tables


def ledger(file: Path, *, json_: bool = False) -> None:
    """Show all charges of a ledger, and the spent part of each budget; of a table, name other ledgers that count too.

    Args:
        file (FILE): A table that was released, or its ledger, such as TABLE.labeldp-ledger beside it.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    table, own = file, release.ledger_path(file)
    if own.is_file():
        file = own
    others = [path for path in release.ledgers_near(table) if path != file.resolve()] if file is own else []
    if not file.exists():
        near = [each.name for each in file.parent.iterdir() if each.is_file()] if file.parent.is_dir() else []
        hint = nearest(file.name, near) or "; look for TABLE.labeldp-ledger"
        raise LedgerError(f"expected a released table or its ledger, found no file {file}{hint}")
    is_table = file.is_dir() or file.name.lower().endswith(tuple(tables.TABLE_ENDINGS))
    if file is table and is_table and not (file.is_file() and ledgers.is_ledger(file)):
        beside = ", ".join(map(str, release.ledgers_near(table)))
        which = f"here are {beside}" if beside else "name that one"
        nothing = f"nothing was released from {table.name}, unless with another --ledger; {which}"
        raise LedgerError(f"expected a ledger, found none at {own}: {nothing}")
    entries = ledgers.Ledger(file).entries()
    totals = ledgers.spent_by_data(entries)
    result(
        json_, lambda: report.ledger_json(entries, totals, others), lambda: report.ledger_text(entries, totals, others)
    )
