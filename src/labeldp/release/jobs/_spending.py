"""The budget of a release of a table, and the ledger that is charged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.privacy.accounting import Budget
from labeldp.release.ledger import Ledger
from labeldp.release.tables import disk_path


@dataclass(frozen=True)
class Spending:
    """The budget of a release of a table, and where it is recorded.

    Attributes:
        budget: The largest total, or None for the budget in force.
        ledger: The ledger file, or None for the one beside the table.
        team: True if ledgers may be other users', and their groups may write to them.
        other_people: The reason for which the rows are other people's than any released before, if that is declared.
    """

    budget: Budget | None
    ledger: Path | None
    team: bool
    other_people: str

    @classmethod
    def of(
        cls,
        budget: float | tuple[float, float] | Budget | None,
        ledger: str | Path | Ledger | None,
        other_people: str | None,
    ) -> Spending:
        """Check what a caller passed.

        Raises:
            InputError: The budget is invalid, the ledger is in memory, or the reason is empty, too long, or not
                printable.
        """
        reason = "" if other_people is None else _checks.reason(other_people)
        allowed = None if budget is None else Budget.of(budget)
        if not isinstance(ledger, Ledger):
            return cls(allowed, disk_path(ledger).absolute() if ledger else None, False, reason)
        if ledger.path is None:
            raise InputError("expected a ledger in a file for a table, found one in memory; pass Ledger(path)")
        return cls(allowed, ledger.path, ledger.team, reason)
