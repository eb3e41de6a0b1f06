"""A ledger that somebody else wrote or altered, and locks that cannot be held: both refuse, and nothing is drawn."""

import contextlib
import dataclasses
import fcntl
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.forgeries import forgeries

from labeldp import Classes, Curator, Ledger, release_table
from labeldp.errors import BudgetError, InputError, LedgerError
from labeldp.release import ledger_path
from labeldp.release.ledger import _ledger as ledger_module
from labeldp.release.ledger._entry import Entry

SPACE = Classes(["no", "yes"])
ROWS = 60
IGNORED = "BEGIN SELECT RAISE(IGNORE); END"


def table(path):
    """A table of sixty people."""
    columns = {"number": range(10**6, 10**6 + ROWS), "ill": ["no", "yes"] * (ROWS // 2)}
    pq.write_table(pa.table({name: list(values) for name, values in columns.items()}), path)
    return path


def release(path, output="out", **options):
    """Release the table at epsilon 1."""
    return release_table(path, "ill", SPACE, 1.0, path.parent / output, keep=[], unit="row", **options)


def rewritten(ledger, *statements):
    """Run statements on a ledger as somebody who may write it would; its triggers are put back."""
    with closing(sqlite3.connect(ledger)) as database, database:
        triggers = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            database.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            database.execute(*([statement] if isinstance(statement, str) else statement))
        for _, sql in triggers:
            database.execute(sql)
    database.close()


def test_a_file_that_is_no_database_is_not_held_open(tmp_path, monkeypatch):
    """Whoever refuses it closes it; later versions of Python warn of connections that nobody closed."""
    path, opened, connect = tmp_path / "t.labeldp-ledger", [], sqlite3.connect
    path.write_bytes(b"no database" * 100)

    def noted(*args, **options):
        opened.append(connect(*args, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with pytest.raises(LedgerError, match="a damaged one"):
        Ledger(path).entries()
    assert opened
    for each in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            each.execute("SELECT 1")


@pytest.fixture
def ledger(tmp_path):
    """The ledger of a table that was released once at epsilon 1."""
    return release(table(tmp_path / "t.parquet"), "first").ledger


#: What somebody adds to a ledger, or takes from it, so that charges vanish or change.
SCHEMAS = {
    "charges are dropped": f"CREATE TRIGGER z BEFORE INSERT ON events {IGNORED}",
    "charges are voided": (
        "CREATE TRIGGER z AFTER INSERT ON events WHEN NEW.event = 'charged' BEGIN INSERT INTO events "
        "(time, charge, event, body) VALUES (NEW.time, NEW.charge, 'void', '{}'); END"
    ),
    "a label is renamed": (
        "CREATE TRIGGER z BEFORE INSERT ON events WHEN NEW.body LIKE '%ill%' BEGIN INSERT INTO events "
        "(time, charge, event, body) VALUES (NEW.time, NEW.charge, NEW.event, replace(NEW.body, 'ill', 'sick')); "
        "SELECT RAISE(IGNORE); END"
    ),
    "hashes are dropped": f"CREATE TRIGGER z BEFORE INSERT ON hashes {IGNORED}",
    "a view": "CREATE VIEW z AS SELECT * FROM events",
    "another table": "CREATE TABLE z (x)",
    "an index": "CREATE INDEX z ON events (charge)",
    "a trigger of another name": f"CREATE TRIGGER sqlit BEFORE INSERT ON about {IGNORED}",
}


@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("change", SCHEMAS)
def test_a_ledger_with_another_schema_is_refused(ledger, change, planted):
    """Whatever else is in it: it is refused, nothing is drawn, and nothing is written to it."""
    path = ledger.with_name("t.parquet")
    with closing(sqlite3.connect(ledger)) as database, database:
        database.execute(SCHEMAS[change])
    database.close()
    if planted:  # beside the table, under a name that nobody gave
        ledger = ledger.rename(ledger.with_name("aaa.labeldp-ledger"))
    before = ledger.read_bytes()
    for options in ({}, {"ledger": ledger}):
        with pytest.raises(LedgerError, match=r"expected a labeldp ledger at .*, found another file, or a damaged one"):
            release(path, "second", budget=9.0, **options)
    with pytest.raises(LedgerError):
        Curator(["no", "yes"], SPACE, ledger=ledger).randomize(epsilon=1.0)
    assert not (path.parent / "second").exists()
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("name", ["events_stay", "events_remain", "events_are_new", "about_stays"])
def test_a_ledger_without_one_of_its_triggers_is_refused(ledger, name):
    """It would no longer only grow."""
    with closing(sqlite3.connect(ledger)) as database, database:
        database.execute(f"DROP TRIGGER {name}")
    database.close()
    with pytest.raises(LedgerError):
        release(ledger.with_name("t.parquet"), "second", budget=9.0)


def test_a_charge_that_is_not_kept_draws_nothing(ledger, monkeypatch):
    """Each event is read back: even where the schema says nothing, what was not written is not charged."""
    monkeypatch.setattr(ledger_module, "_MOST", frozenset([*ledger_module._MOST, SCHEMAS["charges are dropped"]]))
    with closing(sqlite3.connect(ledger)) as database, database:
        database.execute(SCHEMAS["charges are dropped"])
    database.close()
    path = ledger.with_name("t.parquet")
    with pytest.raises(LedgerError, match="to keep what is written to it"):
        release(path, "second", budget=9.0)
    assert not (path.parent / "second").exists()


BODIES = {
    "a body that is nested deep": ("0" * 32, '{"a":' * 100_000 + "1" + "}" * 100_000),
    "a charge with a path for a name": ("x/../../y", None),
    "a charge of another form": ("A" * 32, None),
    "a key twice": ("0" * 32, '{"label": "ill", "label": "x"}'),
    "a number that is none": ("0" * 32, '{"asked": NaN}'),
}


@pytest.mark.parametrize("case", BODIES)
def test_events_of_another_form_are_damage(ledger, case):
    """A sentence, no crash: in the release of a table, in the list of charges and in an account."""
    name, body = BODIES[case]
    with closing(sqlite3.connect(ledger)) as database, database:
        (stored,) = database.execute("SELECT body FROM events WHERE event = 'charged'").fetchone()
    database.close()
    change = "INSERT INTO events (time, charge, event, body) VALUES ('2026-01-01T00:00:00+00:00', ?, 'charged', ?)"
    rewritten(ledger, (change, (name, body or stored)))
    for ask in (lambda: Ledger(ledger).entries(), lambda: release(ledger.with_name("t.parquet"), "second", budget=9.0)):
        with pytest.raises(LedgerError, match="found damaged ones"):
            ask()


def test_a_charge_is_read_as_it_was_written_or_is_damage(ledger):
    """Each part with values of other types, sizes and depths: none is taken for another, or left out."""
    with closing(sqlite3.connect(ledger)) as database:
        (stored,) = database.execute("SELECT body FROM events WHERE event = 'charged'").fetchone()
    read, refused = 0, 0
    for name, forged in forgeries(json.loads(stored)):
        try:
            entry = Entry.read("0" * 32, "2026-01-01T00:00:00+00:00", forged)
        except (ValueError, KeyError, TypeError, AttributeError):
            refused += 1
            continue
        read += 1
        written, given = (json.loads(json.dumps(each), parse_int=float) for each in (entry.body(), forged))
        given.pop("more", None)
        assert written == written | given, name
        assert hash(entry) == hash(dataclasses.replace(entry))
    assert min(read, refused) > 100  # texts of any kind and numbers that there can be are read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("marks", [["x"]]),
        ("spent", [None, 0]),
        ("spent", ["x", 0]),
        ("spent", [1e308, 0]),
        ("rows", {"ranges": [[0, 10**30]]}),
        ("asked", None),
        ("asked", True),
        ("guarantee", {"epsilon": 10**400, "assumptions": []}),
        ("guarantee", {"epsilon": 1.0, "assumptions": [], "sigma": 1.0}),
        ("budget", None),
        ("output", "a\0b"),
        ("output", "\ud800"),
        ("mechanism", None),
    ],
)
def test_a_charge_of_another_form_is_no_reason_to_forget_it(ledger, name, value):
    """The ledger that has it is refused as damaged."""
    with closing(sqlite3.connect(ledger)) as database, database:
        (body,) = database.execute("SELECT body FROM events WHERE event = 'charged'").fetchone()
    database.close()
    change = "INSERT INTO events (time, charge, event, body) VALUES ('2026-01-01T00:00:00+00:00', ?, 'charged', ?)"
    rewritten(ledger, (change, ("0" * 32, json.dumps(json.loads(body) | {name: value}))))
    with pytest.raises(LedgerError, match="found damaged ones"):
        Ledger(ledger).entries()


def test_a_key_of_another_form_is_damage(ledger):
    """It is 32 hexadecimal digits, from which fingerprints are computed."""
    rewritten(ledger, "UPDATE about SET value = 'no key' WHERE name = 'key'")
    with pytest.raises(LedgerError, match="or a damaged one"):
        Ledger(ledger).entries()


@pytest.mark.parametrize("column", ["time", "charge", "event", "body"])
def test_an_event_of_bytes_is_damage(ledger, column):
    """Events are texts."""
    rewritten(ledger, f"UPDATE events SET {column} = CAST({column} AS BLOB)")  # noqa: S608 (our own names)
    with pytest.raises(LedgerError, match="found damaged ones"):
        Ledger(ledger).entries()


def test_no_address_in_a_ledger_is_asked(ledger, monkeypatch):
    """An unsettled charge names a store of somebody else: nobody connects to it, and the charge stays."""
    address = "s3://bucket/x?endpoint_override=127.0.0.1:9&scheme=http"
    asked = []
    monkeypatch.setattr(ledger_module, "is_unused", lambda place: asked.append(place) or True)
    monkeypatch.setattr(ledger_module, "fate_of", lambda *_, **__: "never left")  # as its staging folder would say
    with closing(sqlite3.connect(ledger)) as database, database:
        (body,) = database.execute("SELECT body FROM events WHERE event = 'charged'").fetchone()
    database.close()
    body = json.dumps(json.loads(body) | {"output": address})
    change = "INSERT INTO events (time, charge, event, body) VALUES ('2026-01-01T00:00:00+00:00', ?, 'charged', ?)"
    rewritten(ledger, (change, ("0" * 32, body)))
    with pytest.raises(BudgetError):
        release(ledger.with_name("t.parquet"), "second")
    Ledger(ledger).settle()
    assert not asked
    assert [each.state for each in Ledger(ledger).entries()] == ["released", "charged"]


def test_a_ledger_from_before_hashes_is_one_still(tmp_path):
    """It has fewer tables, and gets the others with the first charge."""
    ledger = tmp_path / "old.labeldp-ledger"
    with closing(sqlite3.connect(ledger)) as database, database:
        for statement in ledger_module.statements(ledger_module.CHARGES):
            database.execute(statement)
        database.executemany("INSERT INTO about VALUES (?, ?)", [("version", "1"), ("key", "0" * 32)])
    database.close()
    assert release(table(tmp_path / "t.parquet"), ledger=ledger).spent == (1.0, 0.0)


def planted_journal(ledger):
    """A journal of somebody else, from which SQLite would complete the ledger."""
    journal = ledger.with_name(f"{ledger.name}-journal")
    journal.write_bytes(b"pages of somebody else")
    os.chown(journal, STRANGER, STRANGER)


def planted_link(ledger):
    """A link of somebody else to a ledger of this user's."""
    ledger.rename(ledger.with_name("mine"))
    ledger.symlink_to("mine")
    os.chown(ledger, STRANGER, STRANGER, follow_symlinks=False)


STRANGER = 61234
#: How somebody else can have written what is in a ledger.
ALTERED = {
    "one of another user": lambda ledger: os.chown(ledger, STRANGER, STRANGER),
    "one that other users can write to": lambda ledger: ledger.chmod(0o620),
    "one that other users can write to; see what is in it": lambda ledger: ledger.chmod(0o606),
    "one of another user. A ledger that a team": planted_journal,
    "a link of another user": planted_link,
}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give a file to another user")


@as_root
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("why", ALTERED)
def test_a_ledger_that_somebody_else_can_have_altered_is_refused(ledger, why, named):
    """Whether it is named or only lies beside the table, it is not passed over: nothing is drawn or written."""
    path = ledger.with_name("t.parquet")
    if not named:
        ledger = ledger.rename(ledger.with_name("aaa.labeldp-ledger"))
    ALTERED[why](ledger)
    before = ledger.read_bytes()
    with pytest.raises(LedgerError, match=f"expected a ledger that nobody else can have altered at .*, found {why}"):
        release(path, "second", budget=9.0, ledger=ledger if named else None)
    with pytest.raises(LedgerError, match=r"named by --team-ledger \(in Python Ledger\(path, team=True\)\)"):
        Curator(["no", "yes"], SPACE, ledger=ledger).randomize(epsilon=1.0)
    assert not (path.parent / "second").exists()
    assert ledger.read_bytes() == before


@as_root
def test_a_ledger_of_a_team_is_named_as_one(ledger):
    """Another user may own it, its group may write to it, and its charges count; nobody else may write to it."""
    path = ledger.with_name("t.parquet")
    os.chown(ledger, STRANGER, STRANGER)
    ledger.chmod(0o660)
    for team in (Ledger(ledger, team=True), Ledger(path.parent / "other", team=True)):  # the other is beside it
        with pytest.raises(BudgetError):
            release(path, "second", ledger=team)
    assert release(path, "second", ledger=Ledger(ledger, team=True), budget=2.0).spent == (2.0, 0.0)
    assert Curator(["no"], SPACE, ledger=Ledger(ledger, team=True), name="ill").spent == (2.0, 0.0)
    ledger.chmod(0o662)
    with pytest.raises(LedgerError, match="found one that other users can write to"):
        release(path, "third", ledger=Ledger(ledger, team=True), budget=9.0)


@as_root
def test_two_users_of_a_team_charge_one_ledger():
    """Each in a process of their own: the second finds the charge of the first, and may add to it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # others may pass through it, whatever the tests' own is
        folder = Path(name)
        os.chown(folder, -1, STRANGER)
        folder.chmod(0o2770)
        path = table(folder / "t.parquet")
        path.chmod(0o644)
        given = {"ledger": folder / "team.ledger"}
        budgets = {"first": 1.0, "second": 1.0, "third": 2.0}
        ended = [as_user(STRANGER + n, path, name, budgets[name], **given) for n, name in enumerate(budgets)]
        assert ended == ["left", "BudgetError", "left"]
        notes = {each.name for each in folder.glob("team.ledger.*notes")}
        assert notes == {"team.ledger.notes", f"team.ledger.{STRANGER + 2}.notes"}


def as_user(user, path, output, budget, *, ledger):
    """What becomes of a release by a member of the team."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(user)
            release(path, output, budget=budget, ledger=Ledger(ledger, team=True))
            os.write(tell, b"left")
        except BaseException as problem:  # noqa: BLE001 (the parent sees which)
            os.write(tell, type(problem).__name__.encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(tell)
    with os.fdopen(told) as file:
        return file.read()


def test_a_pipe_in_the_place_of_an_output_is_not_waited_for(tmp_path):
    """Somebody else may have put it there; a ledger that settles holds its lock meanwhile."""
    target, fates = tmp_path / "out", []
    target.mkdir()
    os.mkfifo(target / "_certificate.json")

    def settle():
        fates.append(ledger_module.fate_of([target], "1" * 32, None, ended=True))

    thread = threading.Thread(target=settle, daemon=True)
    thread.start()
    thread.join(10)
    assert fates == ["unknown"]


def test_a_ledger_in_memory_is_none_of_a_table(tmp_path):
    """It would be forgotten with the process."""
    with pytest.raises(InputError, match="expected a ledger in a file for a table, found one in memory"):
        release(table(tmp_path / "t.parquet"), ledger=Ledger())


RACE = """
import os, sys, time
from pathlib import Path
from labeldp import Classes, release_table
from labeldp.errors import BudgetError, LedgerError

def release(path):
    release_table(path, "ill", Classes(["no", "yes"]), 1.0, path.with_suffix(".out"), keep=[], unit="row")

for number, line in enumerate(sys.stdin):
    path = Path(line.strip())
    if number == 0:  # all modules are loaded before another user may not read them
        release(path)
        if len(sys.argv) > 1:
            os.setuid(int(sys.argv[1]))
    print("ready", flush=True)
    while number and not (path.parent / "go").exists():
        time.sleep(0.0005)
    try:
        if number:
            release(path)
    except (BudgetError, LedgerError) as problem:
        print(type(problem).__name__, flush=True)
    else:
        print("left", flush=True)
"""


@contextlib.contextmanager
def racing(*users):
    """Two processes, of two users, each of which releases the table whose path it is told once a file says go."""
    with contextlib.ExitStack() as opened:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        words = [[sys.executable, "-c", RACE, *user] for user in users or ((), ())]
        both = [opened.enter_context(subprocess.Popen(each, **pipes)) for each in words]
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            for racer, folder in zip(both, (first, second), strict=True):
                print(table(Path(folder) / "t.parquet"), file=racer.stdin, flush=True)
            assert [racer.stdout.readline() for racer in (*both, *both)] == ["ready\n"] * 2 + ["left\n"] * 2
        yield both


@pytest.fixture
def racers():
    """Two processes of this user."""
    with racing() as both:
        yield both


def raced(folder, racers):
    """What becomes of two copies of a table that two processes release at one instant."""
    for racer, name in zip(racers, "ab", strict=True):
        print(table(folder / f"{name}.parquet"), file=racer.stdin, flush=True)
    assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 2
    (folder / "go").touch()
    return sorted(racer.stdout.readline().strip() for racer in racers)


PLANTED = {
    "nothing": lambda _: None,
    "a file": lambda lock: lock.touch(mode=0o000),
    "a link to nowhere": lambda lock: lock.symlink_to("nowhere"),
    "a folder": lambda lock: lock.mkdir(),
}


def test_two_copies_never_both_leave(tmp_path, racers):
    """Whatever lies in the folder under the name of an older lock: one leaves, and the other finds its charge."""
    for planted, plant in PLANTED.items():
        (folder := tmp_path / planted).mkdir()
        plant(folder / ".labeldp-ledger.lock")
        assert raced(folder, racers) == ["BudgetError", "left"], planted


@pytest.mark.slow
@pytest.mark.parametrize("planted", PLANTED)
def test_fifty_races_have_one_winner_each(tmp_path, planted, racers):
    """Two hundred in all."""
    for number in range(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        PLANTED[planted](folder / ".labeldp-ledger.lock")
        assert raced(folder, racers) == ["BudgetError", "left"]


@as_root
@pytest.mark.slow
def test_fifty_races_of_two_users_have_one_winner_each():
    """In a folder that both may write to: the other finds a ledger that is not its own, and nothing of it leaves."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name, racing([str(STRANGER)], [str(STRANGER + 1)]) as racers:
        Path(name).chmod(0o755)
        for number in range(50):
            folder = Path(name) / str(number)
            folder.mkdir()
            folder.chmod(0o777)  # each may read the table
            assert raced(folder, racers) == ["LedgerError", "left"]


def test_a_folder_that_cannot_be_locked_releases_nothing(tmp_path, monkeypatch):
    """As on a network file system without locks: a guard that cannot work refuses."""

    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = table(tmp_path / "t.parquet")
    with pytest.raises(LedgerError, match="found: No locks available; copy the table to a folder on a local disk"):
        release(path)
    with pytest.raises(LedgerError, match=r"expected to lock the ledger .*, found: No locks available"):
        Curator(["no", "yes"], SPACE, ledger=tmp_path / "l.labeldp-ledger").randomize(epsilon=1.0)
    assert {each.name for each in tmp_path.iterdir()} <= {"t.parquet", "l.labeldp-ledger", "l.labeldp-ledger.lock"}


@pytest.mark.parametrize("planted", ["link", "dangling link", "pipe"])
def test_the_lock_of_a_ledger_is_a_file_of_its_own(tmp_path, planted):
    """A link leads elsewhere, to a file that stays as it was: the ledger is refused."""
    path, other = table(tmp_path / "t.parquet"), tmp_path / "thesis.txt"
    other.write_text("years of work")
    lock = tmp_path / f"{ledger_path(path).name}.lock"
    if planted == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(other if planted == "link" else "nowhere")
    with pytest.raises(LedgerError, match="expected to lock the ledger"):
        release(path)
    assert other.read_text() == "years of work"
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "out").exists()


def test_a_forked_child_does_not_let_go_of_a_lock(tmp_path):
    """Whatever ends in the child: the parent still holds it, and others wait."""
    lock, seen = ledger_module.locked(tmp_path, 1.0), tmp_path / "ended"
    with lock:
        child = os.fork()
        if not child:
            try:
                lock.__exit__(None, None, None)
                seen.touch()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert seen.exists()
        with pytest.raises(TimeoutError), ledger_module.locked(tmp_path, 0.1):
            pass
    begun = time.monotonic()
    with ledger_module.locked(tmp_path, 60.0):
        assert time.monotonic() - begun < 30.0
