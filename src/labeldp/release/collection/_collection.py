"""A collection of reports: one private file that only grows, each token's report once, and nobody's token.

A report of a device is one JSON object, which strangers may have written, and one line of that file.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa

from labeldp._own_files import check_new_file
from labeldp._spelling import canonical
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, LabelDPError, LedgerError
from labeldp.privacy.channels import pack
from labeldp.release.folder import column_name, column_types
from labeldp.release.ledger import REPORTS, check_file, connected, marked, prepare, schema_of
from labeldp.release.released import Declaration, Release

#: The longest report in bytes.
MOST_BYTES = 8192
_MOST_DIGITS = 40
_MOST_LETTERS = 200
_FEWEST_OF_A_TOKEN = 16
_MOST_COLUMNS = 64
#: The types of public columns, by the name that ``--columns`` has for them.
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType({"number": (int, float), "text": (str,), "bool": (bool,)})
_LARGEST = 1 << 53

#: The public columns beside a report: their names, and the names of their types.
Columns = Mapping[str, str]


@dataclass(frozen=True)
class Report:
    """A report that came as it should.

    Attributes:
        token: The device's random token, which is never stored.
        body: The reported label and the public columns, in the one form in which they are stored.
    """

    token: str
    body: str


def columns_of(text: str) -> Columns:
    """The public columns that ``--columns age:number,region:text`` names."""
    pairs = [part.strip().rpartition(":")[::2] for part in text.split(",")] if text.strip() else []
    if any(not name or kind not in _TYPES for name, kind in pairs) or len(dict(pairs)) < len(pairs):
        raise InputError(
            "expected public columns as NAME:TYPE, each once, with the types number, text and bool, such as "
            f"age:number,region:text, found {text!r:.100}"
        )
    if len(pairs) > _MOST_COLUMNS:
        raise InputError(f"expected at most {_MOST_COLUMNS} public columns, found {len(pairs)}")
    return dict(pairs)


def read_report(line: bytes, declaration: Declaration, columns: Columns) -> Report:
    """Read a report.

    Raises:
        InputError: It is none of this declaration. The message repeats nothing of it.
    """
    if len(line) > MOST_BYTES:
        raise InputError(f"a report of more than {MOST_BYTES:,} bytes")
    try:
        body: Any = strict_json(line.decode("utf-8"), _MOST_DIGITS)
        name, token, report = body["declaration"], body["token"], body["report"]
        public = body.get("public", {})
        known = set(body) <= {"declaration", "token", "report", "public"}
    except (ValueError, LookupError, TypeError, AttributeError):
        raise InputError("no report in JSON") from None
    if name != declaration.name:
        raise InputError("a report of another declaration")
    if not (known and isinstance(token, str) and _FEWEST_OF_A_TOKEN <= len(token) <= _MOST_LETTERS and _is_text(token)):
        raise InputError("a report without a token of 16 letters or more")
    if not _is_possible(report, declaration):
        raise InputError("a report that the declared mechanism cannot give")
    if not isinstance(public, dict) or set(public) != set(columns):
        raise InputError("a report with other public columns")
    if not all(_is_of(public[column], kind) for column, kind in columns.items()):
        raise InputError("a public column of another type")
    return Report(token, json.dumps([report, [public[column] for column in columns]], ensure_ascii=False))


def _is_possible(report: object, declaration: Declaration) -> bool:
    """True for a declared value, or a list of them that the channel can release, in declared order."""
    channel, codes = declaration.channel, declaration.codes
    if channel.form == "class":
        return _code(report, codes) is not None
    if channel.form == "index":
        whole = isinstance(report, int) and not isinstance(report, bool) and 0 <= report < _LARGEST
        return whole and bool(channel.possible(np.array([report]))[0])
    if not isinstance(report, list) or len(report) > channel.classes:
        return False
    members = [_code(each, codes) for each in report]
    places = [each for each in members if each is not None]
    if len(places) < len(members) or any(one >= other for one, other in itertools.pairwise(places)):
        return False
    mask = np.zeros((1, channel.classes), dtype=np.bool_)
    mask[0, places] = True
    return bool(channel.possible(pack(mask))[0])


def _code(value: object, codes: Mapping[tuple[type, object], int]) -> int | None:
    """The code of a value of JSON, in which true is not 1."""
    return codes.get((type(value), value)) if isinstance(value, str | int | bool) else None


def _is_of(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    if not isinstance(value, _TYPES[kind]):
        return False
    return _is_text(value) if isinstance(value, str) else isinstance(value, int | float) and abs(value) <= _LARGEST


def _is_text(value: str) -> bool:
    """True for a text that is not long, and that has a form in UTF-8."""
    return len(value) <= _MOST_LETTERS and not any("\ud800" <= letter <= "\udfff" for letter in value)


_ENDINGS = (".jsonl", ".ndjson", ".json")


def lines_of(source: Path) -> Iterator[bytes]:
    """The lines of a file, or of all JSON files of a folder; one that is too long comes cut, which is refused."""
    files = sorted(each for each in source.iterdir() if each.suffix in _ENDINGS) if source.is_dir() else [source]
    if not files or not all(each.is_file() for each in files):
        raise InputError(f"expected a file of JSON lines, or a folder of some (.jsonl), found none at {source}")
    for file in files:
        yield from _lines(file)


def _lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        while line := lines.readline(MOST_BYTES + 1):
            rest = line
            while len(rest) > MOST_BYTES and not rest.endswith(b"\n"):  # skip the rest of a line that is too long
                rest = lines.readline(MOST_BYTES + 1)
            if line.strip():
                yield line


#: What became of a report: it was kept, was here before, or is another one of a token that has one.
Received = Literal["kept", "known", "another"]

_PATIENCE = 60.0
#: The word that declares each row to be a unit, in place of a column.
_ROW = "row"
_SCHEMA = schema_of(REPORTS)
_ARROW = {"number": pa.float64(), "text": pa.string(), "bool": pa.bool_()}


class Collection:
    """Reports of devices on disk, under keyed hashes of their tokens.

    A report that ``add`` returned for is on disk, whatever happens then. The file has no times and no order but that of
    the hashes. Nobody else can have written it, as nobody can have written a ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._lock, self._process = path, threading.Lock(), os.getpid()
        if not path.is_file():
            raise InputError(f"expected a collection at {path}, found none; begin one with --declaration")
        with self._errors():
            check_file(path, path, team=False)
            self._database = connected(path, _PATIENCE)
            weakref.finalize(self, self._database.close)
            if not self._database.execute("SELECT 1 FROM sqlite_master").fetchone():
                raise sqlite3.DatabaseError("an empty database")
            prepare(self._database, _SCHEMA, _SCHEMA, REPORTS, check=True)
            about = dict(self._database.execute("SELECT name, value FROM about").fetchall())
            self.columns: Columns = strict_json(about["columns"])
            if not set(self.columns.values()) <= set(_TYPES):
                raise ValueError("columns of other types")
            self.declaration, self._key = Declaration.from_json(about["declaration"]), about["key"]

    @classmethod
    def begin(cls, path: Path, declaration: Declaration, columns: Columns) -> Self:
        """A new collection.

        Raises:
            InputError: A public column has the name of the label, in any spelling, or one that the release uses.
            LedgerError: Another process begins it, or it cannot be written.
            OutputError: There is a file, or no folder for it.
        """
        check_new_file(path, "a collection")
        if declaration.answers > 1:
            raise InputError(
                "expected a declaration of one answer of each person, found one of several: a collection does not know "
                "whose they are; take them over with 'labeldp import --unit'"
            )
        if canonical(declaration.label) in map(canonical, columns):
            raise InputError("the label is the report, and no public column; leave it out of --columns")
        added = column_types(declaration.label, declaration.mechanism.space, declaration.channel)
        own = {*added, column_name(declaration.label, "groups"), _ROW}
        if taken := sorted(own.intersection(columns)):  # or all reports would come before the refusal
            raise InputError(f"expected no public column named {taken[0]!r}, which the release uses; rename it")
        rows = [("declaration", declaration.to_json()), ("columns", json.dumps(dict(columns)))]
        check_file(path, path, team=False)
        database = connected(path, _PATIENCE)
        try:
            prepare(database, _SCHEMA, _SCHEMA, REPORTS, check=False)
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO about VALUES (?, ?)", rows)
            database.execute("COMMIT")
        except sqlite3.DatabaseError:
            raise LedgerError(
                f"expected to begin a collection at {path}, found that another process has just begun one, or that the "
                "file cannot be written"
            ) from None
        finally:
            database.close()
        return cls(path)

    def add(self, reports: Sequence[Report]) -> list[Received]:
        """Keep reports, each token's first; all of them are on disk when this returns.

        Raises:
            InputError: The collection is closed.
            LedgerError: They could not be written; none of them was kept.
        """
        with self._writing() as database:
            if self.is_closed:
                raise InputError(f"the collection {self.path} is closed and takes no more reports; begin another one")
            return [self._added(database, report) for report in reports]

    def _added(self, database: sqlite3.Connection, report: Report) -> Received:
        mark = self.mark("token", report.token)
        kept = database.execute("SELECT body FROM reports WHERE mark = ?", (mark,)).fetchone()
        if kept is not None:
            return "known" if kept[0] == report.body else "another"
        database.execute("INSERT INTO reports VALUES (?, ?)", (mark, report.body))
        return "kept"

    def __len__(self) -> int:
        with self._errors():
            return int(self._database.execute("SELECT count(*) FROM reports").fetchone()[0])

    @property
    def is_closed(self) -> bool:
        """True if no more reports are taken."""
        return self._database.execute("SELECT 1 FROM about WHERE name = 'closed'").fetchone() is not None

    def close(self) -> None:
        """Take no more reports."""
        with self.closing():
            pass

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Take no more reports, unless the caller fails; those that are sent meanwhile wait for that."""
        with self._writing() as database:
            if not self.is_closed:
                database.execute("INSERT INTO about VALUES ('closed', 'yes')")
            yield

    def release(self, unit: str | None = None) -> tuple[Release, pa.Table]:
        """The release of all reports, with their public columns, in the order of the hashes of their tokens.

        Raises:
            InputError: There is no report or no such column, or together they cannot come from the declared mechanism.
        """
        if unit is not None and unit not in self.columns:
            known = ", ".join(self.columns) or "none"
            raise InputError(f"expected a public column of the collection ({known:.200}), found {unit!r:.100}")
        with self._errors():
            bodies = list(self._kept())
        if not bodies:
            raise InputError("expected reports to release, found none")
        columns = {
            name: pa.array([public[place] for _, public in bodies], _ARROW[kind])
            for place, (name, kind) in enumerate(self.columns.items())
        }
        labels, how = [report for report, _ in bodies], self.declaration
        people = None if unit is None else columns[unit]
        release = Release.randomized(labels, how.mechanism, declared_by=how.declared_by, units=people, name=how.label)
        return release, pa.table(columns)

    def _kept(self) -> Iterator[tuple[Any, list[Any]]]:
        """Reports, each with its public columns, in the form that ``read_report`` lets in."""
        for (body,) in self._database.execute("SELECT body FROM reports ORDER BY mark"):
            report, public = strict_json(body)
            if len(public) != len(self.columns) or not all(map(_is_of, public, self.columns.values())):
                raise ValueError("public columns of another form")
            if not _is_possible(report, self.declaration):
                raise ValueError("a report that the declared mechanism cannot give")
            yield report, public

    def mark(self, *parts: str) -> str:
        """A keyed fingerprint that nobody else can make."""
        return marked(self._key, *parts)

    @property
    def digest(self) -> str:
        """SHA-256 of all that is kept, which differs if a report does."""
        sha256 = hashlib.sha256()
        with self._errors():
            for row in self._database.execute("SELECT mark, body FROM reports ORDER BY mark"):
                sha256.update(json.dumps(row).encode())
        return sha256.hexdigest()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, for one thread at a time; it is undone where it fails."""
        with self._lock, self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        if os.getpid() != self._process:
            raise LedgerError("expected the process that opened the collection, found a forked child; open it anew")
        try:
            yield
        except (sqlite3.DatabaseError, LookupError, TypeError, ValueError, AttributeError) as problem:
            if isinstance(problem, LabelDPError):
                raise
            raise LedgerError(
                f"expected a collection of reports that can be read and written at {self.path}, found another file, a "
                f"damaged one or a full disk ({type(problem).__name__})"
            ) from None
