"""The real executable, and ``python -m labeldp``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from labeldp.cli import app

LABELDP = [str(Path(sys.executable).with_name("labeldp"))]
WAYS = {"labeldp": LABELDP, "python -m labeldp": [sys.executable, "-m", "labeldp"]}
RELEASE = ["--label", "y", "--classes", "zq-secret-7,zq-secret-8,zq-secret-9", "--epsilon", "1", "--keep", "all"]


def execute(*command, **environment):
    """Run a command in a process of its own."""
    settings = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=settings | environment
    )


@pytest.mark.slow  # the release in ASCII below is one of the same program
@pytest.mark.parametrize("way", WAYS)
def test_from_a_table_to_a_ledger(table, tmp_path, way):
    """Release, verify and ledger work as programs, print on standard output and nothing else, and exit with 0."""
    out = tmp_path / "out"
    released = ["release", table, *RELEASE, "--output", out]
    for command in (released, ["verify", out], ["ledger", f"{table}.labeldp-ledger"], ["--help"]):
        done = execute(*WAYS[way], *command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
    assert "Usage: labeldp" in done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_command_ends_with_a_message(table, tmp_path, way):
    """A refusal exits with 1 and says why on standard error, in plain text."""
    done = execute(*WAYS[way], "release", table, *RELEASE, "--output", tmp_path / "none" / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: there is no folder")
    assert "zq-secret" not in done.stderr


def test_every_command_explains_itself(run):
    """And a wrong option or command exits with 2, as programs do."""
    for command in ([], *([name] for name in typer.main.get_command(app()).commands)):
        ran = run(*command, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert f"Usage: labeldp {' '.join(command)}" in ran.out
    assert [run("release", "--magic").code, run("magic").code] == [2, 2]


def test_a_terminal_that_writes_ascii_alone(table, tmp_path):
    """A release is announced in any encoding: its exit code says that it took place."""
    done = execute(*LABELDP, "release", table, *RELEASE, "--output", tmp_path / "oé", PYTHONIOENCODING="ascii")
    assert (tmp_path / "oé").is_dir()
    assert "nothing was released" not in done.stderr
    assert (done.returncode, done.stdout != "") == (0, True)


def test_every_option_has_a_text():
    """Of each command, whatever parses the option and wherever it is declared."""
    for name, command in typer.main.get_command(app()).commands.items():
        shown = [each for each in command.get_params(typer.Context(command)) if not getattr(each, "hidden", False)]
        assert shown
        assert not [(name, each.name) for each in shown if not each.help]
