"""Lines of reports in files, each of bounded length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from labeldp.errors import InputError
from labeldp.release.collection._report import MOST_BYTES

_ENDINGS = (".jsonl", ".ndjson", ".json")


def lines_of(source: Path) -> Iterator[bytes]:
    """The lines of a file, or of all files of JSON lines in a folder; one that is too long comes cut, which is refused.

    Raises:
        InputError: There is no such file.
    """
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
