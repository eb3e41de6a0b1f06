"""The ledger: an append-only record of charges, in one SQLite file beside the data or in memory.

It stays on the private side of the trust boundary, though nothing in it depends on a label: charges, times, and keyed
fingerprints of the public columns, by which the same data is recognized.
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

from labeldp._random_words import identifier
from labeldp.errors import BudgetError, InputError, LedgerError
from labeldp.privacy import Guarantee, shown_above
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
    """One charge in the ledger.

    Attributes:
        identifier: The identifier of the release.
        label: The label column, or the curator's name of the labels.
        marks: Keyed fingerprints of the data; data sets that share one are taken to be the same, and data without any
            to be the same as every other.
        mechanism: The name of the mechanism.
        guarantee: The guarantee.
        rows: The rows.
        session: Row numbers have one meaning within a session; rows of another session may be any rows.
        units: A keyed fingerprint of the assignment of rows to units, if that is no column.
        output: The output folder, or None if the release stays in memory.
        features: The treatment of the features of these rows: ``"kept"``, ``"redrawn"`` (resampled), or unknown.
        source: The release that a generator of resampled features was fitted on, whose features count as kept.
        asked: The requested epsilon, which is the budget if there is no other.
        budget: The budget in force after this charge.
        state: ``"charged"`` while the outcome is unknown, then ``"released"`` or ``"void"``.
        time: Time of the charge, UTC.
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
        """The charge in the account of a session; rows of another session may be any rows."""
        unit = f"{self.guarantee.unit} {self.units[:16]}" if self.units else self.guarantee.unit
        guarantee = dataclasses.replace(self.guarantee, unit=unit)
        return Charge(guarantee, self.rows if self.session == session else _ANY_ROWS)


class Ledger:
    """Charges on disk, or in memory without a path.

    Args:
        path: An SQLite file; created with the first charge.

    Raises:
        LedgerError: The file is no ledger, is in use, or was opened in another process.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path.resolve() if path else None
        self._process = os.getpid()
        self._thread = threading.RLock()
        self._memory = None if path else sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)

    def mark(self, *parts: str) -> str:
        """A keyed fingerprint of public facts; useless without this ledger."""
        with self._open() as database:
            key = dict(database.execute("SELECT name, value FROM about").fetchall())["key"]
        return hmac.new(bytes.fromhex(key), json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def entries(self) -> list[Entry]:
        """All charges, oldest first, in their latest state."""
        if self.path and not self.path.exists():
            return []
        entries: dict[str, Entry] = {}
        with self._open() as database:
            rows = database.execute("SELECT time, charge, event, body FROM events ORDER BY number").fetchall()
        try:
            for time, name, event, body in rows:
                if event == "charged":
                    entries[name] = _entry(name, time, dict(json.loads(body)))
                else:
                    entries[name] = dataclasses.replace(entries[name], state=_STATES[event])
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise LedgerError(
                f"expected charges and their states in the ledger {self.path}, found damaged ones "
                f"({type(problem).__name__}); restore a backup"
            ) from None
        return list(entries.values())

    @contextmanager
    def charged(self, entry: Entry, budget: Budget | None, drew: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Record a charge, then let the caller draw; afterwards the charge stands, or is void if nothing was released.

        Args:
            entry: The charge.
            budget: The largest total, or None for the budget in force.
            drew: Returns True if anything was drawn that somebody may have seen, such as an interactive client; called
                if the caller failed. The charge then stays. Draws in a staging folder alone were seen by nobody.

        Raises:
            BudgetError: The charge would exceed the budget; nothing was recorded.
            LedgerError: Another process uses this ledger, or this is a forked child: charge and draws belong to the
                parent.
        """
        with self._locked():
            self._settle_interrupted()
            try:
                self._admit(entry, budget)
                yield
                self._check_process()
            except BaseException:
                if os.getpid() == self._process and any(e.identifier == entry.identifier for e in self.entries()):
                    fate: Fate = "never left"
                    if entry.output:  # before the staging folder is removed, which shows that nothing was published
                        fate = fate_of(Path(entry.output), entry.identifier)
                    if fate == "never left" and drew():
                        fate = "unknown"
                    self._settle(entry, fate)
                raise
            self._append(entry.identifier, "released")

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for requests in progress, and let none begin."""
        with self._locked():
            yield

    def settle(self) -> None:
        """Determine the state of charges whose process died."""
        if self.path is None or self.path.exists():
            with self._locked():
                self._settle_interrupted()

    def allows(self, entries: Sequence[Entry], budget: Budget | None) -> Budget:
        """Return the budget in force if it allows charges of one session in sequence; nothing is recorded.

        Raises:
            BudgetError: A charge would exceed the budget, or the budget may not follow that of earlier charges.
            InputError: Features of these rows were released before, and one of the two releases resamples features.
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
            raise BudgetError(f"{refusal}{self._earlier_releases(known)}") from None
        return in_force

    def _earlier_releases(self, known: Sequence[Entry]) -> str:
        """The outputs, epsilons and dates of the latest charges, for a refusal."""
        outputs = [
            f"epsilon {shown_above(each.guarantee.epsilon, 3)} into {each.output} on {each.time[:10]}"
            for each in known
            if each.output
        ]
        listed = f"; released before: {', '.join(outputs[-3:])}" if outputs else ""
        return listed + (f" (ledger {self.path})" if self.path else "")

    def _admit(self, entry: Entry, budget: Budget | None) -> None:
        """Check the account, and record the charge."""
        in_force = self.allows([entry], budget)
        self._append(entry.identifier, "charged", _body(dataclasses.replace(entry, budget=in_force)))

    def _settle_interrupted(self) -> None:
        """Mark charges as released if their output exists, as void if it was never published; others stay.

        The caller holds the lock, so no release is in progress.
        """
        for entry in self.entries():
            if entry.state == "charged" and entry.output:
                self._settle(entry, fate_of(Path(entry.output), entry.identifier))

    def _settle(self, entry: Entry, fate: Fate) -> None:
        """Record the fate of a charge; one with unknown fate stays."""
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
    def _locked(self) -> Iterator[None]:
        """Lock the ledger after other threads and processes; the lock is released when its process dies."""
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
                    f"expected the ledger {self.path} to be free, found another release in progress; wait for it"
                ) from None
            except OSError as problem:
                raise LedgerError(f"expected to lock the ledger {self.path}, found: {problem.strerror}") from None
            mine.add(self.path)
            try:
                yield
            finally:
                mine.discard(self.path)
                if os.getpid() == self._process:  # a forked child would release its parent's lock
                    lock.release()

    def _check_process(self) -> None:
        """Refuse a forked child."""
        if os.getpid() != self._process:
            raise LedgerError("expected the process that opened this ledger, found a fork; open the ledger again there")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database with its tables and its key, for one thread at a time."""
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
            raise LedgerError(
                f"expected a labeldp ledger at {self.path}, found: {problem}; name a file that ends in "
                ".labeldp-ledger, or restore a backup"
            ) from None
        except OSError as problem:
            raise LedgerError(f"expected to write the ledger {self.path}, found: {problem.strerror}") from None
        finally:
            if database is not None and database is not self._memory:
                database.close()


def related(entries: Sequence[Entry], label: str, marks: Sequence[str]) -> list[Entry]:
    """The charges for the same label of the same data, oldest first; in doubt data counts as the same.

    Data sets that share a mark are the same, transitively; data without marks may be any data.
    """
    return _of_data([entry for entry in entries if entry.state != "void" and entry.label == label], marks)


def _of_data(rest: Sequence[Entry], marks: Sequence[str]) -> list[Entry]:
    """The charges that are of the same data."""
    known, anything = set(marks), not marks
    while True:
        more = [e for e in rest if anything or not e.marks or not known.isdisjoint(e.marks)]
        marked = known.union(*(e.marks for e in more))
        if marked == known and anything == (anything or any(not e.marks for e in more)):
            return more
        known, anything = marked, anything or any(not e.marks for e in more)


def check_features(entries: Sequence[Entry], entry: Entry) -> None:
    """Refuse a second release of features: comparing the two would disclose which rows kept their own.

    With conditional features a row's features are private; two releases have the true ones in common, so that neither
    guarantee holds any more. Features belong to the data, whatever label was released with them.

    Args:
        entries: All charges in the ledger.
        entry: The requested charge.

    Raises:
        InputError: Features of these rows were released before.
    """
    clashes = {"redrawn": ("redrawn", "kept"), "kept": ("redrawn",), "": ()}
    given_up = _given_up(entries, [entry.source])
    for wanted in (entry, *given_up):
        for known in features_left([*given_up, *entries], wanted, clashes[wanted.features]):
            raise InputError(
                f"expected rows whose features were not released before, found them {known.features} in release "
                f"{known.identifier[:8]}, or a generator that was fitted on them: comparing the two would disclose "
                "which features are original. Release other rows, or labels without features (--keep none, "
                "DummyResponse)"
            )


def _given_up(entries: Sequence[Entry], sources: Sequence[str]) -> list[Entry]:
    """The charges of releases that generators were fitted on, whose features therefore count as kept."""
    named = {*sources, *(entry.source for entry in entries if entry.state != "void")} - {""}
    return [dataclasses.replace(entry, features="kept") for entry in entries if entry.identifier in named]


def features_left(entries: Sequence[Entry], entry: Entry, how: Sequence[str]) -> list[Entry]:
    """Earlier charges, of any label, that released features of the rows of a charge in one of some ways."""
    rows = entry.charge(entry.session).rows
    mine = _of_data([each for each in entries if each.state != "void"], entry.marks)
    return [each for each in mine if each.features in how and rows.meet(each.charge(entry.session).rows)]


def spent_on(entries: Sequence[Entry], label: str, marks: Sequence[str], session: str = "") -> tuple[float, float]:
    """The (epsilon, delta) charged for a label of some data, for a session and composed as the budget in force does."""
    known = related(entries, label, marks)
    return account_of(known, session).spent if known else (0.0, 0.0)


def account_of(entries: Sequence[Entry], session: str = "") -> Account:
    """The account of charges for one label of one data set, under the budget in force and for a session."""
    budget = _latest(entries) or Budget(entries[0].asked, entries[0].guarantee.delta)
    return Account(budget, tuple(entry.charge(session) for entry in entries))


def _latest(entries: Sequence[Entry]) -> Budget | None:
    """The budget in force at the last charge."""
    return next((entry.budget for entry in reversed(entries) if entry.budget), None)


def _refuse_another_kind(budget: Budget, known: Sequence[Entry]) -> None:
    """Refuse a budget that may not follow those of the charges so far."""
    for earlier in (entry.budget for entry in known):
        if earlier and not budget.may_follow(earlier):
            raise BudgetError(
                f"expected a budget that differs from that of earlier charges in epsilon alone ({earlier}), found "
                f"{budget}; pass the earlier kind of budget with its delta, or use the existing release"
            )


def _prepare(database: sqlite3.Connection) -> None:
    """Create the tables and the key of a new ledger; refuse other databases."""
    if not _tables(database):
        database.execute("BEGIN IMMEDIATE")
        if not _tables(database):  # another thread or process may have made them in the meantime
            for statement in _statements(_SCHEMA):
                database.execute(statement)
            rows = [("version", str(_SCHEMA_VERSION)), ("key", identifier())]
            database.executemany("INSERT INTO about VALUES (?, ?)", rows)
        database.execute("COMMIT")
    if not {"about", "events"} <= _tables(database):
        raise sqlite3.DatabaseError("another kind of database")
    if database.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise sqlite3.DatabaseError("a damaged database")
    version = dict(database.execute("SELECT name, value FROM about").fetchall())["version"]
    if version != str(_SCHEMA_VERSION):
        raise sqlite3.DatabaseError(f"a ledger of version {version} instead of {_SCHEMA_VERSION}")


def _tables(database: sqlite3.Connection) -> set[str]:
    """Names of the tables of a database."""
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _statements(script: str) -> Iterable[str]:
    """The statements of a script one by one, for a single transaction."""
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
    """The charges that are not void, one list for each label of each data set, in the order of their last charges."""
    rest = [entry for entry in entries if entry.state != "void"]
    groups = []
    while rest:
        mine = related(rest, rest[-1].label, rest[-1].marks)
        names = {entry.identifier for entry in mine}
        rest = [entry for entry in rest if entry.identifier not in names]
        groups.append(mine)
    return groups[::-1]


def spent_by_data(entries: Sequence[Entry]) -> list[tuple[str, float, float, Budget]]:
    """Name, spent epsilon and delta, and budget of each label of each data set."""
    accounts = [(mine[-1].label, account_of(mine, mine[-1].session)) for mine in by_data(entries)]
    return [(label, *account.spent, account.budget) for label, account in accounts]
