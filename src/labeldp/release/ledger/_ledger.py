"""The ledger: an append-only record of charges, in one SQLite file beside the data or in memory.

It stays on the private side of the trust boundary, though nothing in it depends on a label: charges, times, and keyed
fingerprints of the public columns, by which the same data is recognized.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from labeldp._locks import locked
from labeldp._random_words import is_identifier
from labeldp._strict_json import strict_json
from labeldp.errors import BudgetError, LedgerError
from labeldp.privacy.accounting import Account, Budget
from labeldp.release.folder import Fate, Inode, beside_ledger, fate_of, inode_of, is_unused
from labeldp.release.ledger import _files
from labeldp.release.ledger._accounts import account_before, check_features, matched, refusal, with_the_same_data
from labeldp.release.ledger._database import (
    CHARGES,
    HASHES,
    ONLY_GROWS,
    connected,
    marked,
    prepare,
    schema_of,
    statements,
    tables,
)
from labeldp.release.ledger._entry import Earlier, Entry, State
from labeldp.release.ledger._same_data import WEAK, KeyedData, Match, PublicData, Recognizer, of_chosen
from labeldp.release.tables import StorePath, place_of

#: Seconds to wait for another thread or process that holds the ledger. It holds it while it draws and writes.
_PATIENCE = 60.0
_held = threading.local()  # the ledgers that this thread holds: to wait for oneself would be to wait in vain
_STATES: dict[str, State] = {"drawn": "drawn", "released": "released", "void": "void"}
#: Bytes of hashes that are written beside the draw; a copy of the ledger that is made meanwhile may be damaged.
_LARGE = 1 << 23
_SQLITE = b"SQLite format 3\0"
#: The statements of every ledger, and all statements that one may have.
_LEAST, _MOST = schema_of(CHARGES), schema_of(CHARGES, HASHES)
#: Bytes at the beginning of a ledger that contain its schema.
_HEAD = 1 << 16


@dataclass(frozen=True)
class Admitted:
    """A charge that the budget allowed.

    Attributes:
        account: The account of the request's rows, with this charge.
        earlier: The earlier charges of these rows.
    """

    account: Account
    earlier: tuple[Earlier, ...]


class Ledger:
    """Charges on disk, or in memory without a path.

    Args:
        path: An SQLite file; created with the first charge.
        team: True for a ledger that several users share: another one may own it, and its group may write to it. By
            default it must be this user's, and nobody else can write to it.

    Raises:
        LedgerError: The file is no ledger, or somebody else's, is in use, or was opened in another process.
    """

    def __init__(self, path: Path | None = None, *, team: bool = False) -> None:
        self.path, self.team, self._named = path.resolve() if path else None, team, path
        self._process = os.getpid()
        self._thread = threading.RLock()
        self._checked = False
        self._writing: Future[None] | None = None
        self._memory = None if path else sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        if self._memory is not None:
            weakref.finalize(self, self._memory.close)

    def mark(self, *parts: str) -> str:
        """A keyed fingerprint of public facts; useless without this ledger."""
        return marked(self._key(), *parts)

    def marks(self, data: PublicData) -> tuple[str, ...]:
        """Keyed fingerprints of a table: its path, first and all values of each column, and the orders of each two.

        Labels alone have none: they may be any labels. Weak marks count if two are shared.
        """
        key = self._key()
        if data.anonymous or data.fingerprints is None:
            return ()
        count = str(data.fingerprints.count)
        heads = (marked(key, "column", name, head) for name, head in sorted(data.heads.items()))
        sums = (
            strength + marked(key, "values", count, str(total))
            for total, many in sorted(data.fingerprints.columns)
            for strength in (["", WEAK] if many else [WEAK])
        )
        orders = (marked(key, "orders", count, str(total)) for total in data.fingerprints.orders)
        return (marked(key, "path", data.path), *heads, *sums, *orders)

    def matches(self, data: PublicData) -> dict[Entry, Match | None]:
        """All charges, of any label, oldest first, with what may be rows of a table."""
        known = [entry for entry in self.entries() if entry.state != "void"]
        if not known:
            return {}
        recognizer = Recognizer(data, self._number(), self.marks(data))
        of_rows = [entry for entry in known if data.units is not None and entry.guarantee.unit == "row"]
        of_units = [entry for entry in known if of_rows and entry.protects(data.unit)]
        whose = [self._hashes(each) for each in of_units]
        people = [each for each in whose if each is not None]

        def hashes(entry: Entry) -> KeyedData | None:
            found = self._hashes(entry)
            return found.with_people(people) if found is not None and entry in of_rows else found

        found = {entry: recognizer.match(entry, hashes(entry)) for entry in known}
        if data.whole is None or data.chosen is None:
            return found
        return of_chosen(found, self.matches(data.whole), data.chosen)

    def entries(self) -> list[Entry]:
        """All charges, oldest first, in their latest state."""
        if self.path and not self.path.exists():
            return []
        entries: dict[str, Entry] = {}
        with self._open() as database:
            rows = database.execute("SELECT time, charge, event, body FROM events ORDER BY number").fetchall()
        try:
            for time, name, event, body in rows:
                if not all(isinstance(each, str) for each in (time, name, event, body)):
                    raise ValueError("something else than texts")
                if event == "charged":
                    if not is_identifier(name):
                        raise ValueError("a charge of another name")
                    entry = Entry.read(name, time, dict(strict_json(body)))
                    entries[name] = dataclasses.replace(entry, ledger=self.path)
                else:
                    entries[name] = dataclasses.replace(entries[name], state=_STATES[event])
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise LedgerError(
                f"expected charges and their states in the ledger {self.path}, found damaged ones "
                f"({type(problem).__name__}); restore a backup"
            ) from None
        return list(entries.values())

    @contextmanager
    def charged(
        self,
        entry: Entry,
        budget: Budget | None,
        drew: Callable[[], bool] = lambda: False,
        data: PublicData | None = None,
        elsewhere: Mapping[Entry, Match | None] = MappingProxyType({}),
    ) -> Iterator[Admitted]:
        """Record a charge, then let the caller draw; afterwards the charge stands, or is void if nothing was released.

        Args:
            entry: The charge.
            budget: The largest total, or None for the budget in force.
            drew: Returns True if anything was drawn that somebody may have seen, such as an interactive client; called
                if the caller failed. The charge then stays. Draws in a staging folder alone were seen by nobody.
            data: The table, which is compared with that of earlier charges; without it, the rows may be any rows but
                those of another number in the same session.
            elsewhere: The charges in other ledgers, with what may be these rows.

        Raises:
            BudgetError: The charge would exceed the budget; nothing was recorded.
            InputError: Features of these rows were released before, and one of the two releases resamples features.
            LedgerError: Another process uses this ledger, or this is a forked child: charge and draws belong to the
                parent.
        """
        with self._locked():
            self._settle_interrupted(entry.output)
            try:
                with ThreadPoolExecutor(1) as beside:
                    yield self._admit(entry, budget, data, elsewhere, beside)
                self._check_process()
                self.recorded()
            except BaseException:
                if os.getpid() == self._process and any(e.identifier == entry.identifier for e in self.entries()):
                    fate: Fate = "never left"
                    if entry.output:  # before the staging folder is removed, which shows that nothing was published
                        fate = fate_of(self._outputs(entry.output), entry.identifier, entry.staging, ended=True)
                    if fate == "never left" and drew():
                        fate = "unknown"
                    self._settle(entry, fate)
                raise
            self._append(entry.identifier, "released")

    def drawn(self, identifier: str) -> None:
        """Record that a client is about to see labels: whatever happens then, the charge stays."""
        self.recorded()
        self._append(identifier, "drawn")

    def recorded(self) -> None:
        """Wait until the charge is on disk with the hashes of its rows; nothing may leave before.

        Raises:
            LedgerError: They could not be written.
        """
        if self._writing is not None:
            self._writing.result()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Wait for requests in progress, and let none begin."""
        with self._locked():
            yield

    def settle(self, address: str | None = None) -> None:
        """Determine the state of charges whose process died; of stores only the output of this command is asked."""
        if self.path is None or self.path.exists():
            with self._locked():
                self._settle_interrupted(address)

    def allows(
        self, entries: Sequence[Entry], budget: Budget | None, earlier: Sequence[Earlier] | None = None
    ) -> Account:
        """Return the account that charges of one session in sequence leave, if it allows them; nothing is recorded.

        Args:
            entries: The charges.
            budget: The largest total, or None for the budget in force.
            earlier: The earlier charges of these rows; by default those of any data.

        Raises:
            BudgetError: A charge would exceed the budget, or the budget may not follow that of earlier charges.
        """
        entry = entries[0]
        known = [
            each for each in (self.of_session(entry) if earlier is None else earlier) if each.entry.is_of(entry.label)
        ]
        default = budget or Budget(entry.asked, entry.guarantee.delta)
        account = account_before(known, entry.named_guarantee.unit, default, budget)
        for charge in [each.charge(entry.session) for each in entries]:
            if known and entry.table and not account.allows(charge):
                raise BudgetError(refusal(account, charge, known, entry, self.path))
            account = account.admit(charge)
        return account

    def of_session(self, entry: Entry) -> list[Earlier]:
        """All charges, as they count for a request of a session: rows of other sessions may be any rows."""
        known = [each for each in self.entries() if each.state != "void"]
        return [Earlier(each, each.charge(entry.session).rows) for each in known]

    def _admit(
        self,
        entry: Entry,
        budget: Budget | None,
        data: PublicData | None,
        elsewhere: Mapping[Entry, Match | None],
        beside: Executor,
    ) -> Admitted:
        """Compare the rows with earlier ones, check the account, and record the charge; hashes of rows in a thread."""
        found = {} if data is None else {**elsewhere, **self.matches(data)}
        earlier = self.of_session(entry) if data is None else with_the_same_data(found)
        if entry.other_people:  # rows that identify themselves are no other people's, whatever is declared
            earlier = [each for each in matched(found) if each.stays_with(entry)]
        check_features(self.entries(), entry, earlier)
        account = self.allows([entry], budget, earlier)
        same = tuple(each.entry.identifier for each in earlier if not each.certain) if data else None
        shares = tuple(each.entry.identifier for each in earlier if each.certain) if data else ()
        entry = dataclasses.replace(entry, budget=account.budget, same=same, shares=shares, spent=account.spent)
        hashes = {} if data is None else KeyedData.of(data, self._number()).blobs()
        beside_it, lock = self._beside(entry.output), self._lock_inode()
        entry = dataclasses.replace(entry, beside=beside_it, lock=lock, hashes=tuple(hashes))
        large = [name for name in ("rows",) if self.path and name in hashes and hashes[name].nbytes > _LARGE]
        rows = {name: hashes.pop(name) for name in large}
        self._append(entry.identifier, "charged", entry.body(), hashes)
        self._writing = beside.submit(self._append_hashes, entry.identifier, rows) if rows else None
        return Admitted(account, tuple(earlier))

    def _settle_interrupted(self, address: str | None = None) -> None:
        """Mark charges as released if their output exists, as void if it was never published; others stay.

        The caller holds the lock, so no release is in progress. A store is asked about its own ``address`` alone, which
        is the output of this command: others may have written the addresses in a ledger.
        """
        for entry in self.entries():
            if entry.state in ("charged", "drawn") and entry.output:
                places = self._outputs(entry.output, entry.beside)
                fate = fate_of(places, entry.identifier, entry.staging, ended=self._has_ended(entry))
                if fate == "never left" and (entry.state == "drawn" or _may_be_uploaded(entry.output, address)):
                    fate = "unknown"
                self._settle(entry, fate)

    def _has_ended(self, entry: Entry) -> bool:
        """True if the process of an unsettled charge has ended: the caller holds the lock that it held.

        A copy of a ledger has another lock, and the process may be at work under the original. Of an older ledger, a
        copy is one that has another place beside the output.
        """
        if entry.lock is None:
            return len(self._outputs(entry.output or "", entry.beside)) == 1
        return entry.lock == self._lock_inode()

    def _lock_inode(self) -> Inode | None:
        """The inode of the lock, which is a file beside the ledger and is never removed."""
        return None if self.path is None else inode_of(Path(f"{self.path}.lock"))

    def _outputs(self, output: str, beside: str = "") -> list[Path]:
        """The places of an output: where it would be if it was moved with the ledger, and where it was to be."""
        place = place_of(output)
        if isinstance(place, StorePath):
            return [] if self.path is None else [beside_ledger(self.path, place)]
        moved = [] if self.path is None or not beside else [self.path.resolve().parent / beside]
        return list(dict.fromkeys(path.parent.resolve() / path.name for path in (*moved, Path(output))))

    def _beside(self, output: str | None) -> str:
        """The path of an output from the folder of the ledger."""
        if self.path is None or not output or isinstance(place_of(output), StorePath):
            return ""
        return os.path.relpath(Path(output).parent.resolve() / Path(output).name, self.path.resolve().parent)

    def _settle(self, entry: Entry, fate: Fate) -> None:
        """Record the fate of a charge; one with unknown fate stays."""
        if fate != "unknown":
            self._append(entry.identifier, "released" if fate == "left" else "void")

    def _append(
        self,
        name: str,
        event: State,
        body: Mapping[str, Any] | None = None,
        hashes: Mapping[str, memoryview] = MappingProxyType({}),
    ) -> None:
        now, text = datetime.now(UTC).isoformat(timespec="seconds"), json.dumps(body or {})
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            for statement in statements(HASHES) if hashes else ():
                database.execute(statement)
            if hashes:
                database.executemany("INSERT INTO hashes VALUES (?, ?, ?)", [(name, *each) for each in hashes.items()])
            database.execute(
                "INSERT INTO events (time, charge, event, body) VALUES (?, ?, ?, ?)",
                (now, name, event, text),
            )
            database.execute("COMMIT")
            stored = database.execute("SELECT time, charge, event, body FROM events ORDER BY number DESC LIMIT 1")
            if stored.fetchall() != [(now, name, event, text)]:
                raise LedgerError(
                    f"expected the ledger {self.path} to keep what is written to it, found something else in it; "
                    "restore a backup"
                )

    def _append_hashes(self, name: str, hashes: Mapping[str, memoryview]) -> None:
        """Add large hashes to a charge, beside the thread that draws and has locked the ledger."""
        with self._opened() as database:
            rows = [(name, *each) for each in hashes.items()]
            database.executemany("INSERT INTO hashes VALUES (?, ?, ?)", rows)

    def _hashes(self, entry: Entry) -> KeyedData | None:
        """The hashes of the rows of a charge; None if some are missing, as in a copy from before they were written."""
        found: dict[str, bytes] = {}
        with self._open() as database:
            if "hashes" in tables(database):
                rows = database.execute("SELECT name, body FROM hashes WHERE charge = ?", (entry.identifier,))
                found = dict(rows.fetchall())
        try:
            return KeyedData.read(found) if found.keys() >= set(entry.hashes) else None
        except (ValueError, TypeError):
            raise LedgerError(
                f"expected hashes of rows in the ledger {self.path}, found damaged ones; restore a backup"
            ) from None

    def _key(self) -> str:
        """The key of fingerprints, in hexadecimal digits."""
        with self._open() as database:
            return str(dict(database.execute("SELECT name, value FROM about").fetchall())["key"])

    def _number(self) -> int:
        """The key of hashes, which follows from that of fingerprints."""
        return int(self.mark("hashes")[:16], 16)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the ledger after other threads and processes; the lock is released when its process dies."""
        self._check_process()
        with self._thread:
            if self.path is None:
                yield
                return
            mine = _held.__dict__.setdefault("paths", set())
            patience, why = 0.0 if self.path in mine else _PATIENCE, ""
            with ExitStack() as lock:
                try:
                    lock.enter_context(locked(_files.make(Path(f"{self.path}.lock"), team=self.team), patience))
                except TimeoutError:
                    why = f"expected the ledger {self.path} to be free, found another release in progress; wait for it"
                except OSError as problem:
                    why = f"expected to lock the ledger {self.path}, found: {problem.strerror}"
                if why:
                    raise LedgerError(why)
                mine.add(self.path)
                lock.callback(mine.discard, self.path)
                yield

    def _check_process(self) -> None:
        """Refuse a forked child."""
        if os.getpid() != self._process:
            raise LedgerError("expected the process that opened this ledger, found a fork; open the ledger again there")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The database with its tables and its key, for one thread at a time."""
        with self._thread, self._opened() as database:
            yield database

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        database = self._memory
        try:
            if database is None:
                path = self.path or Path()
                _files.check_file(path, self._named or path, team=self.team)
                database = connected(path, _PATIENCE)
            prepare(database, _LEAST, _MOST, CHARGES, check=not self._checked)
            self._checked = True
            yield database
        except sqlite3.OperationalError as problem:
            raise LedgerError(
                f"expected to read and write the ledger {self.path}, found: {problem}; check its permissions, and that "
                "no other program has it open"
            ) from None
        except (sqlite3.DatabaseError, KeyError, UnicodeError):  # SQLite's message may quote bytes that are no text
            raise LedgerError(
                f"expected a labeldp ledger at {self.path}, found another file, or a damaged one; name a file that "
                "ends in .labeldp-ledger, or restore a backup"
            ) from None
        except OSError as problem:
            raise LedgerError(
                f"expected to write the ledger {self.path}, found: {problem.strerror}; make its folder, or name "
                "another file with --ledger (ledger=)"
            ) from None
        finally:
            if database is not None and database is not self._memory:
                database.close()


def _may_be_uploaded(output: str, address: str | None) -> bool:
    """True unless an output is on a disk, or is at an address whose store answers that nothing is there."""
    place = place_of(output)
    return isinstance(place, StorePath) and not (output == address and is_unused(place))


def is_ledger(path: Path) -> bool:
    """True for a file that is a ledger, whatever its name; it is only read, and no lock of others is waited for."""
    with suppress(OSError, sqlite3.DatabaseError, UnicodeError), path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)) as found:
                try:
                    return {"about", "events"} <= tables(found)
                except sqlite3.DatabaseError:  # a copy that was made while it was written
                    return ONLY_GROWS in file.read(_HEAD)
    return False
