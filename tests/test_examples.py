"""The examples run and say something."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

#: What the others use, started as a user starts it; peers.py starts itself anew.
ARGUMENTS = {"demo.py": ("demo", "2")}  # fewer releases
AS_A_USER_STARTS_THEM = ("peers.py", "protect_people.py", "release_labels.py")


def test_there_are_examples():
    """A user finds something to start from."""
    assert {path.name for path in EXAMPLES} > set(AS_A_USER_STARTS_THEM)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path, tmp_path, monkeypatch, capsys):
    """It runs in an empty folder with warnings as errors, prints something, and leaves nothing in the tree."""
    before = sorted(FOLDER.rglob("*"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), *ARGUMENTS.get(path.name, ())])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert sorted(FOLDER.rglob("*")) == before


@pytest.mark.parametrize("name", AS_A_USER_STARTS_THEM)
def test_an_example_runs_by_itself(name, tmp_path):
    """In an interpreter of its own it needs nothing that other tests have loaded."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / name)],
        cwd=tmp_path,
        env=settings | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr
