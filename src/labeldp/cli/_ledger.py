"""``labeldp ledger``: all charges, and the spent part of each budget."""

from __future__ import annotations

from pathlib import Path

import labeldp.release.ledger as ledgers
from labeldp import release, report
from labeldp.cli._terminal import result
from labeldp.errors import LedgerError
from labeldp.release import tables


def ledger(file: Path, *, json_: bool = False) -> None:
    """Show all charges of a ledger, and the spent part of each budget; of a table, name other ledgers that count too.

    Args:
        file (FILE): A table that was released, or its ledger, such as TABLE.labeldp-ledger beside it.
        json_: Print JSON; docs/guide/json.md lists the keys.
    """
    table, own = file, release.ledger_path(file)
    if own.is_file():
        file = own
    others = [path for path in release.ledgers_near(table) if path != file.resolve()] if file is own else []
    if not file.exists():
        raise LedgerError(
            f"expected a ledger, found no file {file}; look for TABLE.labeldp-ledger beside the released table"
        )
    if file is table and (file.is_dir() or file.name.endswith(tuple(tables.TABLE_ENDINGS))):
        near = ", ".join(map(str, release.ledgers_near(table)))
        known = f"there are {near}" if near else "no label of it was released from here"
        raise LedgerError(f"expected a ledger, or a table beside its ledger, found {table} without {own.name}; {known}")
    entries = ledgers.Ledger(file).entries()
    totals = ledgers.spent_by_data(entries)
    result(
        json_, lambda: report.ledger_json(entries, totals, others), lambda: report.ledger_text(entries, totals, others)
    )
