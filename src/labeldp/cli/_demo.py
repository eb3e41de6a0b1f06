"""``labeldp demo``: a sample table to try the other commands with."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

from labeldp import datasets, results
from labeldp.cli._terminal import result
from labeldp.errors import OutputError

_FILE = "patients.csv"


def demo(folder: Path = Path(), *, json_: bool = False) -> None:
    """Write a table of invented patients, to try the other commands with.

    Each row is a visit, and a patient has one to four of them. The diagnosis is the label; the costs of a visit are a
    numeric one. It is the same table every time.

    Args:
        folder ([DIR]): The folder to write patients.csv to; default: this one.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    path = folder / _FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="") as file:
            rows = list(datasets.visits())
            csv.writer(file, lineterminator="\n").writerows([datasets.COLUMNS, *rows])
    except FileExistsError:
        raise OutputError(
            f"expected to write {path}, found that it exists; name another folder, or remove it"
        ) from None
    following = f"labeldp check {shlex.quote(str(path))} --label diagnosis"
    done = f"Wrote {path}: {len(rows):,} visits of {datasets.PATIENTS:,} invented patients."
    part = results.Part(
        "A table to try", done, lead=(done, "", "Next: look at it, before anything is spent:", f"  {following}")
    )
    result(json_, lambda: results.DemoTable(str(path), len(rows), following), lambda: part)
