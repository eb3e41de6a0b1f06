"""Make golden artefacts, and record what those say that no expectation is of yet.

    python tests/golden/make.py
    python tests/golden/make.py NAME --label level --classes low,middle,high --keep age,town --unit row ...

The second releases the made-up people into ``command/NAME`` first. What Python makes is saved by hand: a release or an
answer of ``facts.curator()`` into ``python/NAME``, a model into ``models``, a generator into ``generators``; they are
packed here. How version 0.1.0 made what is there, the history of this file shows.
"""

from __future__ import annotations

import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from facts import EXPECTED, GENERATED, HERE, PREDICTED, TABLE, contents, facts, generator_facts, predictions, write_json

from labeldp import cli


def release(name: str, *typed: str) -> None:
    """``labeldp release`` of a copy of the table, so that no ledger knows another release of it.

    Raises:
        SystemExit: It failed.
    """
    with tempfile.TemporaryDirectory() as place:
        source = shutil.copy(TABLE, place)
        if code := cli.main(["release", str(source), "--output", str(HERE / "command" / name), *typed]):
            raise SystemExit(code)


def pack(path: Path) -> None:
    """Replace a file by itself, packed."""
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    path.unlink()


def of_folder(path: Path) -> dict[str, Any]:
    """What the folder of a release or an answer says."""
    return {**facts(path), "contents": contents(path)}


def record(path: Path, paths: dict[str, Path], says: Callable[[Path], Any]) -> None:
    """Add to a file of expectations what it lacks."""
    known = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, known | {name: says(each) for name, each in paths.items() if name not in known})


def main(typed: list[str]) -> None:
    """Release what is typed, pack what lies there unpacked, and record what is not recorded."""
    if typed:
        release(*typed)
    for path in (*HERE.glob("models/*.safetensors"), *HERE.glob("generators/*.generator")):
        pack(path)
    folders = {path.parent.relative_to(HERE).as_posix(): path.parent for path in HERE.glob("*/*/*certificate.json")}
    record(EXPECTED, folders, of_folder)
    for path, says in ((PREDICTED, predictions), (GENERATED, generator_facts)):
        record(path, {file.name: file for file in path.parent.glob("*.gz")}, says)


if __name__ == "__main__":
    main(sys.argv[1:])
