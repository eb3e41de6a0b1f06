"""``labeldp ledger``: all charges, and the spent part of each budget."""

from __future__ import annotations

from pathlib import Path

import labeldp.release.ledger as ledgers
from labeldp import report
from labeldp.cli._terminal import show
from labeldp.errors import LedgerError


def ledger(file: Path) -> None:
    """Show all charges of a ledger, and the spent part of each budget.

    Args:
        file (FILE): A ledger file, such as TABLE.labeldp-ledger beside the table.
    """
    if not file.is_file():
        raise LedgerError(
            f"expected a ledger, found no file {file}; look for TABLE.labeldp-ledger beside the released table"
        )
    entries = ledgers.Ledger(file).entries()
    show(*report.ledger_text(entries, ledgers.spent_by_data(entries)))
