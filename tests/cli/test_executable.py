"""The real executable, and ``python -m labeldp``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LABELDP = [str(Path(sys.executable).with_name("labeldp"))]
WAYS = {"labeldp": LABELDP, "python -m labeldp": [sys.executable, "-m", "labeldp"]}
RELEASE = ["--label", "y", "--classes", "zq-secret-7,zq-secret-8,zq-secret-9", "--epsilon", "1", "--keep", "all"]


def execute(*command, **environment):
    """Run a command in a process of its own."""
    settings = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "COLUMNS")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, env=settings | environment
    )


@pytest.mark.parametrize("way", WAYS)
def test_from_a_table_to_a_ledger(table, tmp_path, way):
    """Release, verify and ledger work as programs, print on standard output and nothing else, and exit with 0."""
    out = tmp_path / "out"
    for command in (
        ["release", table, *RELEASE, "--output", out],
        ["verify", out],
        ["ledger", f"{table}.labeldp-ledger"],
    ):
        done = execute(*WAYS[way], *command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout
    assert "│ released" in done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_a_bad_command_ends_with_a_message(table, tmp_path, way):
    """A refusal exits with 1 and says why on standard error, in plain text."""
    done = execute(*WAYS[way], "release", table, *RELEASE, "--output", tmp_path / "none" / "out")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: expected an existing folder")
    assert "zq-secret" not in done.stderr


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("command", [[], ["release"], ["verify"], ["plan"], ["account"], ["ledger"]])
def test_help(way, command):
    """Every command explains itself."""
    done = execute(*WAYS[way], *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: labeldp" in done.stdout


def test_a_wrong_option_is_a_mistake_in_typing():
    """An unknown option or command exits with 2, as programs do."""
    assert execute(*LABELDP, "release", "--magic").returncode == 2
    assert execute(*LABELDP, "magic").returncode == 2


def test_a_terminal_that_writes_ascii_alone(table, tmp_path):
    """A release is announced in any encoding: its exit code says that it took place."""
    done = execute(*LABELDP, "release", table, *RELEASE, "--output", tmp_path / "oé", PYTHONIOENCODING="ascii")
    assert (tmp_path / "oé").is_dir()
    assert "nothing was released" not in done.stderr
    assert done.returncode == 0


def test_a_full_disk_under_standard_output_does_not_deny_the_release(table, tmp_path):
    """Where standard output cannot be written, nobody is told that nothing was released."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        command = [*LABELDP, "release", str(table), *RELEASE, "--output", str(tmp_path / "out")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (tmp_path / "out").is_dir()
    assert "nothing was released" not in done.stderr
    assert "Traceback" not in done.stderr
