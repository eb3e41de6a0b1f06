"""Ledgers of a table: which is charged, its budget, where they lie, and the lock that is held meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labeldp import _checks
from labeldp._locks import locked
from labeldp._spelling import canonical
from labeldp.errors import InputError, LedgerError
from labeldp.privacy.accounting import Budget
from labeldp.release.ledger import Earlier, Entry, Ledger, Match, PublicData, is_ledger, with_the_same_data
from labeldp.release.tables import Place, StorePath, UnitKey, disk_path

_ENDING = ".labeldp-ledger"
#: Seconds to wait for another release of a table in the same folder.
_PATIENCE = 60.0


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


@dataclass(frozen=True)
class TableLedgers:
    """The ledgers that may know the rows of a table: the one that was named, and those beside the table."""

    table: Place
    label: str
    spending: Spending

    @property
    def home(self) -> Path:
        """The path on a disk beside which they lie."""
        return home_of(self.table, self.spending.ledger)

    @property
    def paths(self) -> list[Path]:
        """The ledger that was named, if there is one already, and those beside the table."""
        named = self.spending.ledger
        near = ledgers_near(on_disk(self.table) if named is None else self.home)
        return [path for path in {*near, *([] if named is None else [named.resolve()])} if is_ledger(path)]

    def earlier(self, data: PublicData) -> list[Earlier]:
        """Earlier charges of what may be rows of the table; nothing is settled or charged.

        They are in the ledger that was named and in all beside the table: for one in a store, beside that ledger, or in
        the current folder.
        Labels alone may be any labels: of them, charges for a label of that name.
        """
        found = with_the_same_data(self.matches(data))
        return [each for each in found if each.entry.is_of(self.label)] if data.anonymous else found

    def matches(self, data: PublicData) -> dict[Entry, Match | None]:
        """All charges in these ledgers, of any label, each with its match to rows of the table."""
        known: dict[Entry, Match | None] = {}
        for path in self.paths:
            known |= self._open(path).matches(data)
        return known

    @property
    def charged(self) -> set[str]:
        """The labels, as they are spelled canonically, of all charges in these ledgers, but of this table's label."""
        entries = [entry for path in self.paths for entry in self._open(path).entries()]
        names = {canonical(entry.label) for entry in entries if entry.state != "void"}
        return names - {canonical(self.label)}

    def to_charge(self, data: PublicData, target: Place) -> tuple[Ledger, dict[Entry, Match | None]]:
        """The ledger to charge, and the charges in all others beside the table, with what may be these rows.

        That is the ledger that was passed, else the table's own, else the one beside it with the latest charge for
        these labels: a table that was renamed or converted thus keeps the ledger of its first release.

        Raises:
            LedgerError: A ledger beside the table cannot be read: it may know these rows.
        """
        own = ledger_path(self.home, self.spending.ledger)
        known: dict[Path, dict[Entry, Match | None]] = {}
        for path in ledgers_near(self.home):
            beside = self._open(path)
            with suppress(*([] if path == own else [LedgerError])):  # then charges that are in doubt count
                beside.settle(str(target))
            known[path] = beside.matches(data)
        chosen = own
        if not own.exists() and self.spending.ledger is None and not self.spending.other_people:
            charges = ((path, *each) for path, found in known.items() for each in found.items())
            times = [(e.time, path) for path, e, match in charges if match is not None and e.is_of(self.label)]
            chosen = max(times)[1] if times else own
        others = [each for path, each in known.items() if not (chosen.exists() and path.samefile(chosen))]
        return self._open(chosen), {entry: match for each in others for entry, match in each.items()}

    def remarks_on(self, record: Ledger) -> Iterator[str]:
        """The remark on the first ledger of a table in a store: nobody looks for others beside the table."""
        if isinstance(self.table, StorePath) and record.path is not None and not record.path.exists():
            yield (
                f"the ledger {record.path} is new: charges for these rows in ledgers of other folders do not count. "
                "If there was a release before, its epsilon adds up; pass the same --ledger each time"
            )

    def _open(self, path: Path) -> Ledger:
        return Ledger(path, team=self.spending.team)


def home_of(table: Place, ledger: Path | None) -> Path:
    """The path on a disk beside which the ledgers of a table lie: its own, or that of the ledger if it is in a store.

    Raises:
        InputError: The table is in a store, and no ledger was named, or its folder does not exist.
    """
    if isinstance(table, Path):
        return table
    if ledger is None:
        raise InputError(
            f"expected a ledger for {table}, which has no place beside it for one, found none; name a file on a disk "
            "that all releases of this table share with --ledger (ledger=)"
        )
    _check_folder(ledger)
    return ledger


def _check_folder(ledger: Path) -> None:
    """Refuse a ledger that has no folder to be in."""
    if not ledger.parent.is_dir():
        raise InputError(f"expected an existing folder for the ledger, found none at {ledger.parent}; create it first")


def ledger_path(source: Place, ledger: str | Path | None = None) -> Path:
    """The path of the ledger of a table: beside it, or in the current folder if it is in a store; or that passed."""
    source = on_disk(source).resolve()
    return Path(ledger).absolute() if ledger else source.with_name(f"{source.name}{_ENDING}")


def on_disk(table: Place) -> Path:
    """The path of a table, or, if it is in a store, that of its name in the current folder."""
    return table if isinstance(table, Path) else Path.cwd() / table.name


def unit_key_of(table: Path, ledger: Path | None) -> UnitKey:
    """The key of made-up numbers in the folder of the ledger; all tables there, and all their parts, share it.

    Raises:
        InputError: There is no such folder.
        LedgerError: It cannot be written, or another release does not end.
    """
    if ledger:
        _check_folder(ledger)
    table = table.resolve()
    whole = _whole_of(table)
    folder = ledger.parent if ledger else whole.parent if whole != _folder_of(table) else table.parent
    why = ""
    with _alone_in(folder):
        try:
            return UnitKey.in_folder(folder)
        except OSError as problem:
            why = problem.strerror or type(problem).__name__
    raise LedgerError(f"the key of made-up numbers cannot be written in {folder}: {why}. Name a --ledger elsewhere")


@contextmanager
def alone_with(table: Path) -> Iterator[None]:
    """Wait for other releases of tables in the same folder, so that two copies of one cannot both find no ledger.

    A part of a table in folders such as year=2026 also waits for those of the other parts, which may be of the same
    people, and of the whole.

    Raises:
        LedgerError: Another release does not end.
    """
    table = table.resolve()
    whole = _whole_of(table)
    around = [whole.parent] if whole != _folder_of(table) else []
    with ExitStack() as locks:
        for folder in dict.fromkeys((*around, table.parent)):  # from above for all, so that nobody waits in a circle
            locks.enter_context(_alone_in(folder))
        yield


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder.

    Raises:
        LedgerError: Another release does not end, or the folder cannot be locked, so that none would be noticed.
    """
    why: str | None = None
    with ExitStack() as lock:
        try:
            lock.enter_context(locked(folder, _PATIENCE))
        except TimeoutError:
            why = f"expected no other release of a table in {folder}, found one in progress; wait for it"
        except OSError as problem:
            why = (
                f"expected to lock the folder {folder}, so that no other release of its tables goes unnoticed, found: "
                f"{problem.strerror}; copy the table to a folder on a local disk that you may read"
            )
        if why is not None:
            raise LedgerError(why)
        yield


def ledgers_near(table: Path) -> list[Path]:
    """The ledgers beside a table, inside it if it is a folder, and those of tables and of their parts around it."""
    table = table.resolve()
    near = {*table.parent.iterdir(), *(ledger_path(folder) for folder in table.parents if folder.name)}
    folder, whole = _folder_of(table), _whole_of(table)
    around = {*whole.glob("*=*")} if whole != folder else {table} if table.is_dir() else set()
    near |= {path for each in around for path in (each, *each.rglob(f"*{_ENDING}"))}
    files = (path for path in near if path.is_file())
    return sorted(path for path in files if path.name.endswith(_ENDING) or is_ledger(path))


def _folder_of(table: Path) -> Path:
    """The folder of a table: itself, or the one that its file is in."""
    return table if table.is_dir() else table.parent


def _whole_of(table: Path) -> Path:
    """The folder of the table that a folder such as year=2026, or a file in one, is a part of; else its own."""
    whole = _folder_of(table)
    while "=" in whole.name:
        whole = whole.parent
    return whole
