"""SQLite files that only grow: the tables of a ledger, and of a collection of reports, and their triggers."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from labeldp._random_words import identifier, is_identifier

VERSION = 1
#: Text of every trigger, by which a damaged ledger is told from other databases.
ONLY_GROWS = b"the ledger only grows"
_ABOUT = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TRIGGER about_stays BEFORE UPDATE ON about BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER about_remains BEFORE DELETE ON about BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER about_is_new BEFORE INSERT ON about WHEN EXISTS (SELECT 1 FROM about WHERE name = NEW.name)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
_EVENTS = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, charge TEXT NOT NULL, event TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TRIGGER events_stay BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER events_remain BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER events_are_new BEFORE INSERT ON events WHEN EXISTS (SELECT 1 FROM events WHERE number = NEW.number)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
CHARGES = _ABOUT + _EVENTS
#: Hashes of the rows of charges, by which the same rows are recognized; ledgers from before have none.
HASHES = """
CREATE TABLE IF NOT EXISTS hashes (
    charge TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (charge, name)
);
CREATE TRIGGER IF NOT EXISTS hashes_stay BEFORE UPDATE ON hashes
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER IF NOT EXISTS hashes_remain BEFORE DELETE ON hashes
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER IF NOT EXISTS hashes_are_new BEFORE INSERT ON hashes
    WHEN EXISTS (SELECT 1 FROM hashes WHERE charge = NEW.charge AND name = NEW.name)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
_REPORTS = """
CREATE TABLE reports (mark TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER reports_stay BEFORE UPDATE ON reports BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER reports_remain BEFORE DELETE ON reports BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER reports_are_new BEFORE INSERT ON reports WHEN EXISTS (SELECT 1 FROM reports WHERE mark = NEW.mark)
    BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
"""
#: Reports of devices under keyed hashes of their tokens, in the order of these.
REPORTS = _ABOUT + _REPORTS


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one, for a single transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def schema_of(*scripts: str) -> frozenset[str]:
    """The statements of scripts as SQLite stores them."""
    every = (each for script in scripts for each in statements(script))
    return frozenset(each.strip().rstrip(";").replace(" IF NOT EXISTS", "") for each in every)


def connected(path: Path, patience: float) -> sqlite3.Connection:
    """A connection whose commits are on disk, and that runs nothing that a stored schema asks for."""
    database = sqlite3.connect(path, isolation_level=None, timeout=patience, check_same_thread=False)
    try:
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA trusted_schema = OFF")
    except BaseException:  # it is no database
        database.close()
        raise
    return database


def marked(key: str, *parts: str) -> str:
    """A fingerprint of public facts under a key in hexadecimal digits."""
    return hmac.new(bytes.fromhex(key), json.dumps(parts).encode(), hashlib.sha256).hexdigest()


def prepare(
    database: sqlite3.Connection, least: frozenset[str], most: frozenset[str], script: str, *, check: bool
) -> None:
    """Create the tables and the key of a new file; refuse other databases, and damaged ones if they are checked.

    Raises:
        sqlite3.DatabaseError: It is another database, or a damaged one.
    """
    if not tables(database):
        database.execute("BEGIN IMMEDIATE")
        if not tables(database):  # another thread or process may have made them in the meantime
            for statement in statements(script):
                database.execute(statement)
            rows = [("version", str(VERSION)), ("key", identifier())]
            database.executemany("INSERT INTO about VALUES (?, ?)", rows)
        database.execute("COMMIT")
    if not least <= _stored_schema(database) <= most:  # a trigger or a view of somebody else could hide charges
        raise sqlite3.DatabaseError("another schema")
    if check and database.execute("PRAGMA quick_check").fetchall() != [("ok",)]:
        raise sqlite3.DatabaseError("a damaged database")
    about = dict(database.execute("SELECT name, value FROM about").fetchall())
    if about["version"] != str(VERSION):
        raise sqlite3.DatabaseError(f"version {about['version']} instead of {VERSION}")
    if not isinstance(about["key"], str) or not is_identifier(about["key"]):
        raise sqlite3.DatabaseError("another key")


def _stored_schema(database: sqlite3.Connection) -> frozenset[str]:
    """The statements that made a database; what SQLite makes by itself has none, or a name of its own."""
    rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_sequence'")
    return frozenset(sql for (sql,) in rows.fetchall())


def tables(database: sqlite3.Connection) -> set[str]:
    """The names of the tables."""
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
