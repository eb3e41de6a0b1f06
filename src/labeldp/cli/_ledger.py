"""``labeldp ledger``: all charges, and the spent part of each budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from labeldp.cli._terminal import show
from labeldp.errors import LedgerError


def ledger(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A ledger file, such as TABLE.labeldp-ledger beside the table.")
    ],
) -> None:
    """Show all charges of a ledger, and the spent part of each budget."""
    from labeldp.release.ledger import Ledger, spent_by_data  # noqa: PLC0415 (commands load what they need)
    from labeldp.report import ledger_text  # noqa: PLC0415

    if not file.is_file():
        raise LedgerError(
            f"expected a ledger, found no file {file}; look for TABLE.labeldp-ledger beside the released table"
        )
    entries = Ledger(file).entries()
    show(*ledger_text(entries, spent_by_data(entries)))
