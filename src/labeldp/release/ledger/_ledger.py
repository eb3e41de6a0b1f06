"""The ledger: an append-only record of charges, in one SQLite file beside the data or in memory.

It is on the private side, though it holds nothing that depends on a label: what was charged for, when, and a keyed
fingerprint of the public columns by which the same data is known again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from labeldp._words import identifier
from labeldp.errors import BudgetError, InputError, LedgerError
from labeldp.privacy import Guarantee
from labeldp.privacy.accounting import Account, Budget, Charge, RowRanges
from labeldp.release.folder import Fate, fate_of

State = Literal["charged", "released", "void"]

_ANY_ROWS = RowRanges.all(1 << 62)
#: Seconds to wait for another thread or process that holds the ledger. It holds it while it draws and writes.
_PATIENCE = 60.0
_held = threading.local()  # the ledgers that this thread holds: to wait for oneself would be to wait in vain
_STATES: dict[str, State] = {"released": "released", "void": "void"}
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, charge TEXT NOT NULL, event TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER events_are_new BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE number = NEW.number)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER about_stays BEFORE UPDATE ON about BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER about_remains BEFORE DELETE ON about BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER about_is_new BEFORE INSERT ON about WHEN EXISTS (SELECT 1 FROM about WHERE name = NEW.name)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""


@dataclass(frozen=True)
class Entry:
    """One charge as the ledger keeps it.

    Attributes:
        identifier: The name of the release that was paid for.
        label: The label column, or the name that a curator was given.
        marks: Keyed fingerprints of the data; data sets that share one are taken for the same, and data without any
            for the same as every other.
        mechanism: What was drawn with.
        guarantee: What was promised.
        rows: Which rows.
        session: Within one session rows have one meaning; rows of another session may be any rows.
        units: A keyed fingerprint of who is one unit with whom, where that is no column.
        output: The folder it goes to, or None if it stays in memory.
        features: What became of the features of these rows: ``"kept"``, ``"redrawn"`` with some chance, or not known.
        source: The release that a generator of redrawn features was fitted on; features of its rows were given up.
        asked: The epsilon that was asked for; without any other budget it is the budget.
        budget: The budget in force, after this charge.
        state: ``"charged"`` until it is known whether it left, then ``"released"`` or ``"void"``.
        time: When it was charged, UTC.
    """

    identifier: str
    label: str
    marks: tuple[str, ...]
    mechanism: str
    guarantee: Guarantee
    rows: RowRanges
    asked: float
    session: str = ""
    units: str = ""
    output: str | None = None
    budget: Budget | None = None
    features: Literal["", "kept", "redrawn"] = ""
    source: str = ""
    state: State = "charged"
    time: str = ""

    def charge(self, session: str) -> Charge:
        """What the account of a session counts: rows of another session may be any rows."""
        unit = f"{self.guarantee.unit} {self.units[:16]}" if self.units else self.guarantee.unit
        guarantee = dataclasses.replace(self.guarantee, unit=unit)
        return Charge(guarantee, self.rows if self.session == session else _ANY_ROWS)


class Ledger:
    """Charges on disk, or in memory where no path is given.

    Args:
        path: An SQLite file; made when the first charge is recorded.

    Raises:
        LedgerError: The file is no ledger, is in use, or was opened in another process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path.resolve() if path else None
        self._process = os.getpid()
        self._thread = threading.RLock()
        self._memory = None if path else sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)

    def mark(self, *parts: str) -> str:
        """A keyed fingerprint of public facts; of no use to anyone without this ledger."""
        with self._open() as database:
            key = dict(database.execute("SELECT name, value FROM about").fetchall())["key"]
        return hmac.new(bytes.fromhex(key), json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def entries(self) -> list[Entry]:
        """All charges, oldest first, in their latest state."""
        if self.path and not self.path.exists():
            return []
        found: dict[str, Entry] = {}
        with self._open() as database:
            rows = database.execute("SELECT time, charge, event, body FROM events ORDER BY number").fetchall()
        try:
            for time, name, event, body in rows:
                if event == "charged":
                    found[name] = _entry(name, time, dict(json.loads(body)))
                else:
                    found[name] = dataclasses.replace(found[name], state=_STATES[event])
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise LedgerError(
                f"expected charges and what became of them in the ledger {self.path}, found a "
                f"{type(problem).__name__}; restore a copy"
            ) from None
        return list(found.values())

    @contextmanager
    def charged(self, entry: Entry, budget: Budget | None, drew: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Record a charge, then let the caller draw; afterwards the charge stands or, if nothing left, is void.

        Args:
            entry: The charge.
            budget: The most that may be spent, or None for the budget that is in force.
            drew: Whether anything was drawn that somebody may have seen, such as who was told half of an answer; asked
                where the caller failed. Then nobody can tell who has seen it, and the charge stays. What is drawn into
                a staging folder alone was seen by nobody.

        Raises:
            BudgetError: The charge would exceed the budget; nothing was recorded.
            LedgerError: Another process is releasing from this ledger, or the caller forked, and this is the child: the
                charge is the parent's, and so is what was drawn.
        """
        with self._alone():
            self._settle_the_dead()
            try:
                self._admit(entry, budget)
                yield
                self._check_process()
            except BaseException:
                if os.getpid() == self._process and any(e.identifier == entry.identifier for e in self.entries()):
                    fate: Fate = "never left"
                    if entry.output:  # the staging folder goes, which later would say that nothing left
                        fate = fate_of(Path(entry.output), entry.identifier)
                    if fate == "never left" and drew():
                        fate = "unknown"
                    self._settled(entry, fate)
                raise
            self._append(entry.identifier, "released")

    def settle(self) -> None:
        """Find out what became of charges whose process died."""
        if self.path is None or self.path.exists():
            with self._alone():
                self._settle_the_dead()

    def allows(self, entries: Sequence[Entry], budget: Budget | None) -> Budget:
        """The budget in force, if it allows charges of one session one after another; nothing is recorded.

        Raises:
            BudgetError: A charge would exceed the budget, or earlier ones were made under a budget that this one may
                not follow.
            InputError: Features of these rows were released before, and one of the two releases redraws features.
        """
        entry = entries[0]
        known = related(self.entries(), entry.label, entry.marks)
        check_features(self.entries(), entry)
        first = Budget(entry.asked, entry.guarantee.delta)
        in_force = budget or _latest(known) or first
        try:
            _refuse_another_kind(in_force, known)
            account = Account(in_force, tuple(e.charge(entry.session) for e in known))
            for each in entries:
                account = account.admit(each.charge(entry.session))
        except BudgetError as refusal:
            where = f" (ledger {self.path})" if self.path else ""
            raise BudgetError(f"{refusal}{where}") from None
        return in_force

    def _admit(self, entry: Entry, budget: Budget | None) -> None:
        """Ask the account and record the charge."""
        in_force = self.allows([entry], budget)
        self._append(entry.identifier, "charged", _body(dataclasses.replace(entry, budget=in_force)))

    def _settle_the_dead(self) -> None:
        """Roll forward what stands at its target, void what never left; any other charge stays.

        Nobody else is at work here, since the caller holds the lock.
        """
        for entry in self.entries():
            if entry.state == "charged" and entry.output:
                self._settled(entry, fate_of(Path(entry.output), entry.identifier))

    def _settled(self, entry: Entry, fate: Fate) -> None:
        """Record what became of a charge; one that can't be told stays."""
        if fate != "unknown":
            self._append(entry.identifier, "released" if fate == "left" else "void")

    def _append(self, name: str, event: State, body: dict[str, Any] | None = None) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._open() as database:
            database.execute(
                "INSERT INTO events (time, charge, event, body) VALUES (?, ?, ?, ?)",
                (now, name, event, json.dumps(body or {})),
            )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the ledger against other threads and processes, after them; the lock falls when its process dies."""
        self._check_process()
        with self._thread:
            if self.path is None:
                yield
                return
            mine = _held.__dict__.setdefault("paths", set())
            lock = FileLock(f"{self.path}.lock", timeout=0 if self.path in mine else _PATIENCE, mode=0o600)
            try:
                lock.acquire()
            except Timeout:
                raise LedgerError(
                    f"expected the ledger {self.path} to be free, found another release at work on it; wait for it"
                ) from None
            except OSError as problem:
                raise LedgerError(f"expected to lock the ledger {self.path}, found: {problem.strerror}") from None
            mine.add(self.path)
            try:
                yield
            finally:
                mine.discard(self.path)
                if os.getpid() == self._process:  # a forked child would let go of its parent's lock
                    lock.release()

    def _check_process(self) -> None:
        """Refuse a forked child."""
        if os.getpid() != self._process:
            raise LedgerError("expected the process that opened this ledger, found a fork of it; open it again there")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database, with its tables and its key; one thread at a time."""
        with self._thread:
            yield from self._opened()

    def _opened(self) -> Iterator[sqlite3.Connection]:
        database = self._memory
        try:
            if database is None:
                if not self.path.exists():  # type: ignore[union-attr]
                    os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))  # type: ignore[arg-type]
                database = sqlite3.connect(self.path, isolation_level=None, timeout=30)  # type: ignore[arg-type]
                database.execute("PRAGMA synchronous = FULL")
            _prepare(database)
            yield database
        except (sqlite3.DatabaseError, KeyError) as problem:
            raise LedgerError(f"expected a labeldp ledger at {self.path}, found: {problem}; restore a copy") from None
        except OSError as problem:
            raise LedgerError(f"expected to write the ledger {self.path}, found: {problem.strerror}") from None
        finally:
            if database is not None and database is not self._memory:
                database.close()


def related(entries: Sequence[Entry], label: str, marks: Sequence[str]) -> list[Entry]:
    """The charges for the same label of the same data, oldest first; doubt says it is the same.

    Data that shares a mark is the same, and so is what shares one with that; data without marks is any data.
    """
    return _of_data([entry for entry in entries if entry.state != "void" and entry.label == label], marks)


def _of_data(rest: Sequence[Entry], marks: Sequence[str]) -> list[Entry]:
    """Those of some charges that are of the same data."""
    known, anything = set(marks), not marks
    while True:
        more = [e for e in rest if anything or not e.marks or not known.isdisjoint(e.marks)]
        marked = known.union(*(e.marks for e in more))
        if marked == known and anything == (anything or any(not e.marks for e in more)):
            return more
        known, anything = marked, anything or any(not e.marks for e in more)


def check_features(entries: Sequence[Entry], entry: Entry) -> None:
    """Refuse what would show which features of some rows are true: their features once redrawn and once more released.

    With conditional features a row's features are private, and two releases of them have those in common that are true,
    so that nothing is promised any more of either. Features belong to the data, whatever label was released with them.

    Args:
        entries: All charges that are known.
        entry: The charge that is asked for.

    Raises:
        InputError: Features of these rows were released before.
    """
    clashes = {"redrawn": ("redrawn", "kept"), "kept": ("redrawn",), "": ()}
    given_up = _given_up(entries, [entry.source])
    for wanted in (entry, *given_up):
        for known in features_left([*given_up, *entries], wanted, clashes[wanted.features]):
            raise InputError(
                f"expected rows whose features were not released before, found that release {known.identifier[:8]} has "
                f"features of them {known.features}, or that a generator was fitted on them: who sees features twice "
                "knows which are true. Release labels without features (--keep none, or DummyResponse), or other rows"
            )


def _given_up(entries: Sequence[Entry], sources: Sequence[str]) -> list[Entry]:
    """The charges of releases that generators were fitted on, whose features are then as good as kept."""
    named = {*sources, *(entry.source for entry in entries if entry.state != "void")} - {""}
    return [dataclasses.replace(entry, features="kept") for entry in entries if entry.identifier in named]


def features_left(entries: Sequence[Entry], entry: Entry, how: Sequence[str]) -> list[Entry]:
    """Earlier charges, of any label, with which features of the rows of a charge left in one of some ways."""
    rows = entry.charge(entry.session).rows
    mine = _of_data([each for each in entries if each.state != "void"], entry.marks)
    return [each for each in mine if each.features in how and rows.meet(each.charge(entry.session).rows)]


def spent_on(entries: Sequence[Entry], label: str, marks: Sequence[str], session: str = "") -> tuple[float, float]:
    """The (epsilon, delta) charged for a label of some data, as a session sees it and as the budget in force counts."""
    known = related(entries, label, marks)
    return account_of(known, session).spent if known else (0.0, 0.0)


def account_of(entries: Sequence[Entry], session: str = "") -> Account:
    """The account of charges for one label of one data set, under the budget in force, as a session sees it."""
    budget = _latest(entries) or Budget(entries[0].asked, entries[0].guarantee.delta)
    return Account(budget, tuple(entry.charge(session) for entry in entries))


def _latest(entries: Sequence[Entry]) -> Budget | None:
    """The budget that was in force at the last charge."""
    return next((entry.budget for entry in reversed(entries) if entry.budget), None)


def _refuse_another_kind(budget: Budget, known: Sequence[Entry]) -> None:
    """Refuse a budget that none of the charges so far were made for."""
    for earlier in (entry.budget for entry in known):
        if earlier and not budget.may_follow(earlier):
            raise BudgetError(
                f"expected a budget that differs from that of earlier charges in epsilon alone ({earlier}), found "
                f"{budget}: a concentrated budget holds from the first charge to the last with the delta that it began "
                "with; state that budget, or keep to the release that exists"
            )


def _prepare(database: sqlite3.Connection) -> None:
    """Make the tables and the key of a new ledger; refuse a file that is something else."""
    if not _tables(database):
        database.execute("BEGIN IMMEDIATE")
        if not _tables(database):  # another thread or process may have made them in the meantime
            for statement in _statements(_SCHEMA):
                database.execute(statement)
            rows = [("version", str(_SCHEMA_VERSION)), ("key", identifier())]
            database.executemany("INSERT INTO about VALUES (?, ?)", rows)
        database.execute("COMMIT")
    if not {"about", "events"} <= _tables(database):
        raise sqlite3.DatabaseError("a database of something else")
    if database.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise sqlite3.DatabaseError("a damaged database")
    version = dict(database.execute("SELECT name, value FROM about").fetchall())["version"]
    if version != str(_SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"a ledger of version {version}, and this program knows {_SCHEMA_VERSION}")


def _tables(database: sqlite3.Connection) -> set[str]:
    """Names of the tables of a database."""
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _statements(script: str) -> Iterable[str]:
    """The statements of a script, one by one, so that they can stand in one transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _body(entry: Entry) -> dict[str, Any]:
    body = dataclasses.asdict(entry)
    for known_elsewhere in ("identifier", "state", "time"):
        del body[known_elsewhere]
    return body


def _entry(name: str, time: str, body: dict[str, Any]) -> Entry:
    guarantee = {**body["guarantee"], "assumptions": tuple(body["guarantee"]["assumptions"])}
    return Entry(
        identifier=name,
        time=time,
        label=body["label"],
        marks=tuple(body["marks"]),
        mechanism=body["mechanism"],
        guarantee=Guarantee(**guarantee),
        rows=RowRanges(tuple((a, b) for a, b in body["rows"]["ranges"])),
        asked=body["asked"],
        session=body["session"],
        units=body["units"],
        output=body["output"],
        budget=Budget(**body["budget"]),
        features=body.get("features", ""),
        source=body.get("source", ""),
    )


def by_data(entries: Sequence[Entry]) -> list[list[Entry]]:
    """The charges that stand, one list for each label of each data set, in the order of their last charges."""
    rest = [entry for entry in entries if entry.state != "void"]
    found = []
    while rest:
        mine = related(rest, rest[-1].label, rest[-1].marks)
        names = {entry.identifier for entry in mine}
        rest = [entry for entry in rest if entry.identifier not in names]
        found.append(mine)
    return found[::-1]


def spent_by_data(entries: Sequence[Entry]) -> list[tuple[str, float, float, Budget]]:
    """For each label of each data set: its name, the epsilon and delta spent as its budget counts, and that budget."""
    accounts = [(mine[-1].label, account_of(mine, mine[-1].session)) for mine in by_data(entries)]
    return [(label, *account.spent, account.budget) for label, account in accounts]
