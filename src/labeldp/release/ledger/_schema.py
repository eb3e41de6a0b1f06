"""The tables of a ledger, and of a collection of reports, to which triggers allow additions alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

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
