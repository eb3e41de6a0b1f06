"""The examples run and say something."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))

ARGUMENTS = {"demo.py": ("demo", "2")}  # fewer releases


def test_there_are_examples():
    """A user finds something to start from."""
    assert {path.name for path in EXAMPLES} > {"peers.py", "protect_people.py", "release_labels.py"}


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
