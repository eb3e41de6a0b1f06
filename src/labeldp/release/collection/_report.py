"""Reports of devices: each one JSON object, which strangers may have written, and one line of a file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._strict_json import strict_json
from labeldp.errors import InputError
from labeldp.privacy.channels import pack
from labeldp.release.released import Declaration

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
