"""What the tests of the command line share: running it in this process, tables on disk, and what a ledger says."""

import csv
from dataclasses import dataclass
from pathlib import Path

import pytest

from labeldp import Ledger
from labeldp.cli import main

#: Texts that occur nowhere but in labels, so that a leak of one is seen.
SECRETS = ("zq-secret-7", "zq-secret-8", "zq-secret-9")


@dataclass(frozen=True)
class Ran:
    """What a command left behind: its exit code and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """No setting of the terminal that runs the tests changes what is printed."""
    for name in ("FORCE_COLOR", "COLUMNS", "LINES", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys):
    """Run a command in this process."""

    def running(*arguments):
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return running


@pytest.fixture
def release(run):
    """Release a table: defaults that work, replaced by options given, left out where one is None."""

    def releasing(source, output, **options):
        chosen = {"label": "y", "classes": ",".join(SECRETS), "epsilon": 1.0, "keep": "all"} | options
        typed = [(f"--{name}", value) for name, value in chosen.items() if value is not None]
        return run("release", source, "--output", output, *(part for pair in typed for part in pair))

    return releasing


@pytest.fixture
def secrets():
    """The declared classes."""
    return SECRETS


@pytest.fixture
def write_csv():
    """Write a CSV table of given columns."""

    def writing(path, columns):
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow(columns)
            lines.writerows(zip(*columns.values(), strict=True))
        return path

    return writing


@pytest.fixture
def columns():
    """Thirty rows: an identifier, an age, a town, who they belong to, and the label."""
    return {
        "id": list(range(30)),
        "age": [20 + 7 * i % 50 for i in range(30)],
        "town": [("north", "south", "east")[i * i % 3] for i in range(30)],
        "street": [i // 2 if i < 20 else 100 + i for i in range(30)],
        "y": [SECRETS[(i * 5 + i // 4) % 3] for i in range(30)],
    }


@pytest.fixture
def table(tmp_path, write_csv, columns):
    """The thirty rows as a CSV file."""
    return write_csv(tmp_path / "t.csv", columns)


@pytest.fixture
def states():
    """The states of all charges of a ledger, oldest first."""
    return lambda path: [entry.state for entry in Ledger(Path(path)).entries()]
