"""The ledger: it only grows, knows the same data again, lets one in at a time, and settles after every crash."""

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import stat
import time
from concurrent.futures import Future
from contextlib import closing

import numpy as np
import pytest

import labeldp.release.folder._run as run_module
import labeldp.release.folder._staging as output_module
import labeldp.release.folder._write as writing_module
import labeldp.release.jobs._job as table_module
import labeldp.release.ledger._ledger as ledger_module
from labeldp import Classes, Curator, Ledger, RandomizedResponse, release_table, verify
from labeldp.errors import BudgetError, LedgerError, TableError
from labeldp.release import ledger_path
from labeldp.release.ledger import Entry


@pytest.fixture
def source(write_table, columns, tables):
    """A small Parquet table."""
    return write_table(tables / "t.parquet", columns)


@pytest.fixture
def release(space, tables):
    """A function that releases the colour of a table into a folder of this name."""

    def run(source, name, **options):
        given = {"label": "colour", "space": space, "epsilon": 1.0, "keep": ["id"], **options}
        return release_table(source, output=tables / name, **given)

    return run


def hidden(folder):
    """Staging folders that are left in a folder."""
    return [path.name for path in folder.iterdir() if path.name.startswith(".o") and path.is_dir()]


def states(path):
    """The states of all charges in a ledger."""
    return [entry.state for entry in Ledger(path).entries()]


# The file


def test_a_ledger_is_readable_by_its_owner_alone(source, release, umask):
    """The ledger, its lock and its notes have no permissions for others, whatever the mask is."""
    umask(0)
    done = release(source, "o")
    beside = [path for path in source.parent.iterdir() if path.name.startswith(done.ledger.name)]
    assert len(beside) >= 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in beside} == {0o600}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET event = 'void'",
        "UPDATE events SET number = number + 100",
        "DELETE FROM events",
        "DELETE FROM events WHERE number = 1",
        "INSERT OR REPLACE INTO events SELECT number, time, charge, 'void', '{}' FROM events WHERE number = 1",
        "REPLACE INTO events SELECT number, time, charge, event, '{}' FROM events WHERE number = 2",
        "UPDATE about SET value = '00' WHERE name = 'key'",
        "DELETE FROM about",
    ],
)
def test_a_ledger_only_grows(source, release, statement):
    """No event can be changed, replaced or deleted, and neither can the key by which data is known again."""
    path = release(source, "o").ledger
    with closing(sqlite3.connect(path)) as database, database:
        before = database.execute("SELECT * FROM events").fetchall()
        about = database.execute("SELECT * FROM about").fetchall()
        with pytest.raises(sqlite3.DatabaseError):
            database.execute(statement)
        database.rollback()
        assert database.execute("SELECT * FROM events").fetchall() == before
        assert database.execute("SELECT * FROM about").fetchall() == about
    database.close()


def test_each_charge_has_its_events(source, release):
    """A charge is written before the release and its end after it, with the budget in force and no label."""
    path = release(source, "o", budget=2.5).ledger
    with closing(sqlite3.connect(path)) as database, database:
        rows = database.execute("SELECT event, body FROM events ORDER BY number").fetchall()
    database.close()
    assert [event for event, _ in rows] == ["charged", "released"]
    assert json.loads(rows[0][1])["budget"]["epsilon"] == 2.5
    (entry,) = Ledger(path).entries()
    assert (entry.state, entry.label, entry.rows.ranges) == ("released", "colour", ((0, 60),))


def sqlite_of(path, *statements):
    """A database made by these statements."""
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(*([statement] if isinstance(statement, str) else statement))
    database.close()


INSERT = "INSERT INTO events (time, charge, event, body) VALUES ('', ?, ?, ?)"
FOREIGN = {
    "text": lambda path: path.write_text("not a database, but long enough to be looked at" * 50),
    "bytes": lambda path: path.write_bytes(np.random.default_rng(0).bytes(9000)),
    "folder": lambda path: path.mkdir(),
    "another database": lambda path: sqlite_of(path, "CREATE TABLE songs (name TEXT)"),
    "another version": lambda path: sqlite_of(
        path,
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE events (number INTEGER PRIMARY KEY, time TEXT, charge TEXT, event TEXT, body TEXT)",
        "INSERT INTO about VALUES ('version', '2'), ('key', '00')",
    ),
    "no version": lambda path: sqlite_of(
        path,
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE events (number INTEGER PRIMARY KEY, time TEXT, charge TEXT, event TEXT, body TEXT)",
    ),
    "other columns": lambda path: sqlite_of(
        path,
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)",
        "CREATE TABLE events (song TEXT)",
        "INSERT INTO about VALUES ('version', '1'), ('key', '00')",
    ),
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_something_else_is_refused(source, release, tables, make, monkeypatch):
    """A ledger that is none raises before anything is drawn, and stays as it is."""
    path = tables / "other"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", None)
    with pytest.raises(LedgerError):
        release(source, "o", ledger=path)
    assert not (tables / "o").exists()
    assert not hidden(tables)
    assert before is None or path.read_bytes() == before


def test_a_damaged_ledger_is_refused(source, release):
    """Cut anywhere, or with a stretch of it overwritten, a ledger either says so or still knows the charge."""
    path = release(source, "o").ledger
    good = path.read_bytes()
    cases = [good[: len(good) * i // 8] for i in range(1, 8)]
    cases += [good[:at] + b"\x00" * 1000 + good[at + 1000 :] for at in range(0, len(good) - 1000, 1000)]
    refused = 0
    for i, data in enumerate(cases):
        path.write_bytes(data)
        try:
            release(source, f"o{i}")
        except LedgerError:
            refused += 1
        except BudgetError:
            continue
        else:
            pytest.fail(f"case {i} was released again")
    assert refused >= 7


@pytest.mark.parametrize("body", ["{", "{}", "[]", "null", '{"label": "colour"}'])
def test_a_damaged_charge_is_refused(source, release, body):
    """A charge that can't be read raises a ledger error, not one of JSON."""
    path = release(source, "o").ledger
    sqlite_of(path, (INSERT, ("x", "charged", body)))
    with pytest.raises(LedgerError):
        release(source, "o2")
    with pytest.raises(LedgerError):
        Ledger(path).entries()


def test_a_ledger_whose_damage_is_no_text_is_refused(source, release):
    """SQLite's message quotes what it cannot parse, which Python cannot decode."""
    path = release(source, "o").ledger
    path.write_bytes(path.read_bytes().replace(b"CREATE TRIGGER about_is_new", b"CREATE TRIGG\xfaR about_is_new"))
    with pytest.raises(LedgerError, match="a damaged one"):
        Ledger(path).entries()
    with pytest.raises(LedgerError, match="a damaged one"):
        release(source, "o2")


def test_rows_that_were_not_looked_at_are_refused(source, release, tables, monkeypatch):
    """A damaged file may have no values in one column, so that none of its rows would be known to a ledger."""
    look_at = table_module.look_at

    def damaged(*args):
        seen = look_at(*args)
        return dataclasses.replace(seen, fingerprints=dataclasses.replace(seen.fingerprints, count=0))

    monkeypatch.setattr(table_module, "look_at", damaged)
    with pytest.raises(TableError, match="and 0: it is damaged"):
        release(source, "o")
    assert not (tables / "o").exists()


def test_nothing_leaves_before_the_hashes_of_rows_are_on_disk(source, release, tables, monkeypatch):
    """They are written beside the draw; if that fails, nothing was released, and no client sees a label."""

    def fail(*_):
        raise LedgerError("no space")

    monkeypatch.setattr(ledger_module, "_LARGE", 0)
    monkeypatch.setattr(Ledger, "_append_hashes", fail)
    with pytest.raises(LedgerError, match="no space"):
        release(source, "o")
    assert not (tables / "o").exists()
    (path,) = tables.glob("*.labeldp-ledger")
    assert [entry.state for entry in Ledger(path).entries()] == ["void"]
    ledger = Ledger(path)
    ledger._writing = Future()
    ledger._writing.set_exception(LedgerError("no space"))
    with pytest.raises(LedgerError, match="no space"):
        ledger.drawn(ledger.entries()[0].identifier)


def test_a_damaged_order_is_refused(source, release):
    """So does the end of a charge that never began, and an event of no known kind."""
    path = release(source, "o").ledger
    shutil.copy(path, path.with_name("copy"))
    sqlite_of(path, (INSERT, ("x", "released", "{}")))
    with pytest.raises(LedgerError):
        Ledger(path).entries()
    path = path.with_name("copy")
    name = Ledger(path).entries()[0].identifier
    sqlite_of(path, (INSERT, (name, "refunded", "{}")))
    with pytest.raises(LedgerError):
        Ledger(path).entries()


def test_a_ledger_without_permission_is_an_error_of_this_library(source, release, tables):
    """A ledger in a folder that does not exist raises before anything is drawn."""
    with pytest.raises(LedgerError):
        release(source, "o", ledger=tables / "no" / "ledger")
    assert not (tables / "o").exists()


# The same data


def again(run, *args, **options):
    """Whether a release is refused because its data is known."""
    try:
        run(*args, **options)
    except BudgetError:
        return True
    return False


@pytest.mark.parametrize("kept", ["id", "height", "name", "street", "prior_red"])
def test_any_shared_column_is_known(source, release, write_table, columns, tables, kept):
    """A copy with one of the columns left, in another format, is known."""
    path = release(source, "o1").ledger
    copy = write_table(tables / "copy.csv", {kept: columns[kept], "colour": columns["colour"]})
    assert again(release, copy, "o2", ledger=path, keep=[kept])


def test_appended_rows_of_a_long_table_are_known(space, release, write_table, tables):
    """A copy of a table of more rows than a fingerprint reads is known with more rows."""
    rows = 5000
    label = [space.values[i % 5] for i in range(rows)]
    one = write_table(tables / "a.parquet", {"id": list(range(rows)), "colour": label})
    two = write_table(tables / "b.parquet", {"id": list(range(rows + 9)), "colour": [*label, *label[:9]]})
    path = release(one, "o1").ledger
    assert again(release, two, "o2", ledger=path)


def test_a_symbolic_link_is_known(source, release, tables):
    """Through a link in another folder, the same file meets the same ledger."""
    release(source, "o1")
    (tables / "elsewhere").mkdir()
    (tables / "elsewhere" / "link.parquet").symlink_to(source)
    assert again(release, tables / "elsewhere" / "link.parquet", "o2")


def test_another_label_has_its_own_account(source, release, columns):
    """Another label column of the same table is charged for by itself."""
    release(source, "o1")
    names = Classes(sorted(set(columns["name"])))
    done = release(source, "o2", label="name", space=names)
    assert states(done.ledger) == ["released", "released"]
    assert again(release, source, "o3", label="name", space=names)


# Budgets


def test_an_explicit_budget_raises_the_limit_and_lowers_it(source, release):
    """A stated budget holds from then on, for this label of this data."""
    release(source, "o1", epsilon=0.5)
    assert again(release, source, "o2", epsilon=0.5)
    release(source, "o2", epsilon=0.5, budget=2.0)
    release(source, "o3", epsilon=0.5)  # the larger budget is still in force
    release(source, "o4", epsilon=0.1, budget=1.7)
    assert again(release, source, "o5", epsilon=0.2)  # and now the smaller one is
    assert again(release, source, "o5", epsilon=0.1, budget=1.6)
    release(source, "o5", epsilon=0.1)
    assert again(release, source, "o6", epsilon=0.01)


def test_a_refusal_leaves_nothing(source, release, tables, monkeypatch):
    """A refused release draws nothing, writes nothing and records nothing."""
    path = release(source, "o1").ledger
    before = sorted(tables.iterdir())
    monkeypatch.setattr("labeldp.release.curator._drawing.draw", None)
    assert again(release, source, "o2")
    assert sorted(tables.iterdir()) == before
    assert states(path) == ["released"]


# One at a time

CHARGED, REFUSED, LOST = 10, 11, 12


def charging(go, path, space):
    """A forked child that charges epsilon 1 out of 3 once a file exists, and ends with what came of it."""
    child = os.fork()
    if child:
        return child
    end = LOST
    try:
        while not go.exists():
            time.sleep(0.001)
        Curator(space.points[:1] * 20, space, budget=3.0, ledger=path).randomize(RandomizedResponse(space, 1.0))
        end = CHARGED
    except BudgetError:
        end = REFUSED
    finally:
        os._exit(end)


def test_processes_on_a_new_ledger_get_in_one_after_the_other(space, tmp_path):
    """Of six processes that open a new ledger at once, three are charged and three refused; none finds it damaged."""
    for trial in range(5):
        path, go = tmp_path / f"ledger-{trial}", tmp_path / f"go-{trial}"
        children = [charging(go, path, space) for _ in range(6)]
        go.touch()
        ends = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
        assert ends == [CHARGED] * 3 + [REFUSED] * 3
        assert states(path) == ["released"] * 3


def test_another_process_is_refused_while_one_is_at_work(source, release, tables, monkeypatch):
    """While a process holds the ledger for long a second is refused and draws nothing; it may try again later."""
    monkeypatch.setattr(ledger_module, "_PATIENCE", 0.1)
    path = ledger_path(source)
    held, hold = os.pipe()
    holder = os.fork()
    if not holder:
        try:
            with Ledger(path)._locked():
                os.write(hold, b"held")
                time.sleep(60)
        finally:
            os._exit(0)
    os.read(held, 4)
    with pytest.raises(LedgerError, match="in progress"):
        release(source, "o")
    assert not (tables / "o").exists()
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    release(source, "o")  # the lock of a dead process is no lock
    assert states(path) == ["released"]


# Crashes


def die(*_, **__):
    """The end of a process without any of its clean-up."""
    os._exit(9)


def crash_after(monkeypatch, module, name):
    """Let a function do its work and then die."""
    original = getattr(module, name)

    def wrapped(*args, **kwargs):
        original(*args, **kwargs)
        die()

    monkeypatch.setattr(module, name, wrapped)


def die_marking(monkeypatch):
    """Die where the end of a charge would be written."""
    original = Ledger._append

    def append(self, name, event, *given):
        if event != "charged" and self.path:
            die()
        original(self, name, event, *given)

    monkeypatch.setattr(Ledger, "_append", append)


def die_removing(monkeypatch):
    """Die where the staging folder would be removed, had it not been moved."""
    original = shutil.rmtree
    monkeypatch.setattr(
        output_module.shutil,
        "rmtree",
        lambda path, **options: die() if ".labeldp-" in path.name else original(path, **options),
    )


#: Where the process dies; then the states, whether the output stands, and whether the same release may run again.
CRASHES = {
    "before the staging folder": (lambda m: m.setattr(table_module, "staged", die), [], False, True),
    "after the staging folder": (lambda m: m.setattr(Ledger, "charged", die), [], False, True),
    "before the charge": (lambda m: m.setattr(Ledger, "_append", die), [], False, True),
    "after the charge": (lambda m: crash_after(m, Ledger, "_append"), ["void"], False, True),
    "before the first row": (lambda m: m.setattr("labeldp.release.curator._drawing.draw", die), ["void"], False, True),
    "mid-write": (lambda m: crash_after(m, writing_module.FileWriter, "write"), ["void"], False, True),
    "before the certificate": (lambda m: m.setattr(table_module, "finish", die), ["void"], False, True),
    "before the rename": (lambda m: m.setattr(writing_module, "publish", die), ["void"], False, True),
    "after the rename": (lambda m: crash_after(m, writing_module, "publish"), ["released"], True, False),
    "before the mark": (die_marking, ["released"], True, False),
    "before its run is wiped": (lambda m: m.setattr(run_module, "wipe", die), ["void"], False, True),
    "after the mark": (die_removing, ["released"], True, False),
}


def crash(prepare, release, source):
    """A release that dies."""
    with pytest.MonkeyPatch.context() as patch:
        prepare(patch)
        release(source, "o")


@pytest.mark.parametrize("point", CRASHES)
def test_every_crash_is_settled(source, release, tables, in_child, point):
    """After a process died at any point, the ledger rolls forward what stands and voids what never left."""
    prepare, expected, stands, may_again = CRASHES[point]
    path = ledger_path(source)
    assert in_child(lambda: crash(prepare, release, source)) == 9
    Ledger(path).settle()
    assert states(path) == expected
    assert (tables / "o").exists() == stands
    if stands:
        assert verify(tables / "o").holds
    left = hidden(tables)
    assert not left or (expected == [] and not any((tables / left[0]).iterdir()))
    assert again(release, source, "o2" if stands else "o") != may_again
    Ledger(path).settle()
    assert sorted(states(path)) == sorted([*expected, *(["released"] if may_again else [])])
    if may_again:
        assert verify(tables / "o").holds
        assert not hidden(tables)


def test_an_output_that_may_have_left_stays_charged(source, release, tables, in_child):
    """Where neither the output nor its staging folder is left, the charge stays."""
    path = ledger_path(source)
    assert in_child(lambda: crash(CRASHES["after the rename"][0], release, source)) == 9
    (tables / "o").rename(tables / "sent-away")
    Ledger(path).settle()
    assert states(path) == ["charged"]
    assert again(release, source, "o2")


def test_another_output_at_the_same_place_is_not_taken_for_it(source, release, tables, write_table, columns, in_child):
    """A folder with another release's certificate at the target does not make a dead charge released."""
    other = {"id": [i * 17 % 61 for i in range(60)], "colour": columns["colour"]}
    release(write_table(tables / "other.parquet", other), "elsewhere")
    path = ledger_path(source)
    assert in_child(lambda: crash(CRASHES["before the rename"][0], release, source)) == 9
    (tables / "elsewhere").rename(tables / "o")
    Ledger(path).settle()
    assert states(path) == ["void"]
    assert verify(tables / "o").holds


# Copies


@pytest.fixture
def project(tables, write_table, columns):
    """A project folder with a table."""
    return write_table(tables / "project" / "t.parquet", columns).parent


def during(monkeypatch, module, name, action):
    """Let something happen just before a function does its work for the first time."""
    original = getattr(module, name)

    def wrapped(*args, **kwargs):
        monkeypatch.setattr(module, name, original)
        action()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, wrapped)


#: What is copied while a release is in progress, and where the copy of the ledger lies.
COPIES = {
    "the project": lambda project, path: shutil.copytree(project, project.with_name("copy")) / path.name,
    "its ledger": lambda project, path: shutil.copy(path, project.with_name("copied-ledger")),
    "its ledger, beside it": lambda _, path: shutil.copy(path, path.with_name("old.labeldp-ledger")),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("moment", [(writing_module.FileWriter, "write"), (table_module, "finish")])
def test_a_copied_ledger_leaves_a_live_release_alone(project, release, monkeypatch, copied, moment):
    """While a release is in progress, a copy of its ledger is settled: it claims nothing and removes its own copies."""
    path, copies = ledger_path(project / "t.parquet"), []

    def settled():
        copies.append(COPIES[copied](project, path))
        Ledger(copies[0]).settle()

    during(monkeypatch, *moment, settled)
    assert verify(release(project / "t.parquet", project / "o").output).holds
    assert (states(path), states(copies[0])) == (["released"], ["charged"])
    assert not hidden(project)
    assert not hidden(copies[0].parent)


@pytest.mark.parametrize("restored", ["elsewhere", "in place"])
def test_a_copy_from_before_the_end_voids_nothing_that_was_published(project, release, monkeypatch, restored):
    """A staging folder in a copy does not show that the output never left; the charge stays and nothing more leaves."""
    path, copy = ledger_path(project / "t.parquet"), project.with_name("copy")
    during(monkeypatch, table_module, "finish", lambda: shutil.copytree(project, copy))
    release(project / "t.parquet", project / "o")
    (project / "o").rename(project.with_name("shared"))
    if restored == "in place":  # under the same lock
        (name,) = hidden(copy)
        shutil.copytree(copy / name, project / name)
        (project / name / "more").touch()  # as if its times were not restored
        path.write_bytes((copy / path.name).read_bytes())
        copy = project
    Ledger(copy / path.name).settle()
    assert states(copy / path.name) == ["charged"]
    assert not hidden(copy)
    assert again(release, copy / "t.parquet", copy / "o2")


def test_a_restored_folder_with_the_inode_of_the_original_shows_nothing(tables):
    """File systems give numbers of removed folders to new ones; a copy with the old time has a later time of change."""
    target, name = tables / "o", "1" * 32
    with output_module.staged(target, name) as staging:
        (staging / "part").write_bytes(b"x")
        time.sleep(0.02)
        shutil.copytree(staging, tables / "backup")
    restored = (tables / "backup").rename(output_module.staging_of(target, name))
    assert output_module.fate_of([target], name, output_module.inode_of(restored), ended=True) == "unknown"
    with output_module.staged(target, name) as staging:
        (staging / "part").write_bytes(b"x")
        inode = output_module.inode_of(staging)
        assert output_module.fate_of([target], name, inode, ended=True) == "never left"


@pytest.mark.parametrize(("moved", "expected"), [(False, ["void"]), (True, ["charged"])])
def test_a_ledger_without_inodes_counts_where_it_was(project, release, tables, in_child, monkeypatch, moved, expected):
    """An older ledger settles a staging folder at its place as before, and none at another place: it may be a copy."""

    def died():
        original = Entry.body
        older = lambda entry: {k: v for k, v in original(entry).items() if k not in ("staging", "lock")}  # noqa: E731
        monkeypatch.setattr(Entry, "body", older)
        monkeypatch.setattr(table_module, "finish", die)
        release(project / "t.parquet", project / "o")

    assert in_child(died) == 9
    here = project.rename(tables / "renamed") if moved else project
    Ledger(ledger_path(here / "t.parquet")).settle()
    assert states(ledger_path(here / "t.parquet")) == expected


@pytest.mark.parametrize("name", ["*", "a**b", "[o]", "o"])
def test_the_name_of_an_output_is_no_pattern(tables, name):
    """Empty staging folders of other outputs stay, whatever the name of this one."""
    others = [tables / f".{other}.labeldp-{'0' * 32}" for other in ("other", "o.labeldp-x", "aab")]
    for folder in others:
        folder.mkdir()
    with output_module.staged(tables / name, "1" * 32):
        assert all(folder.is_dir() for folder in others)


def test_a_release_that_has_just_begun_keeps_its_folder(tables):
    """Another one of the same output removes the empty folders of dead jobs alone, and ends first or not at all."""
    (tables / f".o.labeldp-{'0' * 32}").mkdir()
    with output_module.staged(tables / "o", "1" * 32) as first:
        with output_module.staged(tables / "o", "2" * 32) as second:
            assert sorted(tables.glob(".o.labeldp-*")) == [first, second]
        assert first.is_dir()
    assert not any(tables.glob(".o.labeldp-*"))


def test_settling_what_does_not_exist_makes_nothing(tables):
    """A ledger that was never charged is not made by looking at it."""
    Ledger(tables / "nothing").settle()
    assert Ledger(tables / "nothing").entries() == []
    assert not any(tables.iterdir())
