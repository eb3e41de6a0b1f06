"""``labeldp ledger``: all charges, and the spent part of each budget."""

from __future__ import annotations

from pathlib import Path

import labeldp.release.ledger as ledgers
from labeldp import release, report
from labeldp._checks import nearest
from labeldp.cli._terminal import result
from labeldp.errors import LedgerError

#: Endings of tables that a user may name instead of their ledgers.
_TABLES = frozenset({".csv", ".tsv", ".gz", ".parquet", ".pq"})


def ledger(file: Path, *, json_: bool = False) -> None:
    """Show all charges of a ledger, and the spent part of each budget.

    Args:
        file (FILE): A table that was released, or its ledger, such as TABLE.labeldp-ledger beside it.
        json_: Print JSON; docs/guide/json.md lists the keys.
    """
    beside = release.ledger_path(file)
    if beside.is_file():
        file = beside
    if not file.is_file():
        near = [each.name for each in file.parent.iterdir() if each.is_file()] if file.parent.is_dir() else []
        hint = nearest(file.name, near) or "; look for TABLE.labeldp-ledger"
        raise LedgerError(f"expected a released table or its ledger, found no file {file}{hint}")
    if file.suffix.lower() in _TABLES and not ledgers.is_ledger(file):
        raise LedgerError(
            f"expected a ledger, found none at {beside}: nothing was released from {file.name}, unless with another "
            "--ledger; name that one"
        )
    entries = ledgers.Ledger(file).entries()
    totals = ledgers.spent_by_data(entries)
    result(json_, lambda: report.ledger_json(entries, totals), lambda: report.ledger_text(entries, totals))
