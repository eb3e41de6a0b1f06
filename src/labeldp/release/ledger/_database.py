"""SQLite files that only grow: a ledger, and a collection of reports."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from pathlib import Path

from labeldp._random_words import identifier
from labeldp.release.ledger._schema import VERSION, statements


def connected(path: Path, patience: float) -> sqlite3.Connection:
    """A connection whose commits are on disk, and that runs nothing that a stored schema asks for."""
    database = sqlite3.connect(path, isolation_level=None, timeout=patience, check_same_thread=False)
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA trusted_schema = OFF")
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
    version = dict(database.execute("SELECT name, value FROM about").fetchall())["version"]
    if version != str(VERSION):
        raise sqlite3.DatabaseError(f"version {version} instead of {VERSION}")


def _stored_schema(database: sqlite3.Connection) -> frozenset[str]:
    """The statements that made a database; what SQLite makes by itself has none, or a name of its own."""
    rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != 'sqlite_sequence'")
    return frozenset(sql for (sql,) in rows.fetchall())


def tables(database: sqlite3.Connection) -> set[str]:
    """The names of the tables."""
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
