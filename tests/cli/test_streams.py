"""The exit code says what a command did, whatever happens to what it prints: broken pipes, full disks."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.cli import main

FULL = OSError(28, "No space left on device")
GONE = BrokenPipeError(32, "Broken pipe")


class Breaking(io.StringIO):
    """A stream that takes some writes, and then fails."""

    def __init__(self, problem, after):
        super().__init__()
        self.problem, self.after = problem, after

    def _count(self):
        self.after -= 1
        if self.after < 0:
            raise self.problem

    def write(self, text):
        """Write, as long as it works."""
        self._count()
        return super().write(text)

    def flush(self):
        """Fail, once writing does."""
        if self.after <= 0:
            raise self.problem


def ran(monkeypatch, stream, problem, after, *typed):
    """The exit code of a command whose stream breaks, and what it printed on the other one."""
    broken, other = Breaking(problem, after), io.StringIO()
    monkeypatch.setattr(sys, stream, broken)
    monkeypatch.setattr(sys, "stderr" if stream == "stdout" else "stdout", other)
    code = main([str(each) for each in typed])
    assert (sys.stdout if stream == "stdout" else sys.stderr) is broken
    monkeypatch.undo()
    return code, other.getvalue()


@pytest.fixture
def typed(table, secrets, tmp_path):
    """The words of a release."""
    return (
        *("release", table, "--label", "y", "--classes", ",".join(secrets), "--epsilon", 1, "--keep", "all"),
        *("--unit", "row", "--output", tmp_path / "out"),
    )


PROBLEMS = {"pipe": GONE, "disk": FULL, "closed": ValueError("closed")}
BROKEN = (
    *("pipe-stdout-0-text", "disk-stdout-0-text", "closed-stdout-0-text", "disk-stdout-1-text", "pipe-stdout-2-text"),
    *("disk-stdout-0-json", "pipe-stderr-0-text", "disk-stderr-1-json"),
)


@pytest.mark.parametrize("case", BROKEN)
def test_a_finished_release_ends_well(case, typed, monkeypatch, tmp_path):
    """Whatever stream breaks, and whenever, the release stands and the exit code is 0; a lost text is a warning."""
    name, stream, after, form = case.split("-")
    problem, after = PROBLEMS[name], int(after)
    code, other = ran(monkeypatch, stream, problem, after, *typed, *(["--json"] if form == "json" else []))
    assert code == 0
    assert main(["verify", str(tmp_path / "out")]) == 0
    assert ("warning: expected to print the result" in other) <= (stream == "stdout" and problem is FULL)
    if (stream, after, problem) == ("stdout", 0, FULL):
        assert "found: No space left on device" in other


@pytest.mark.parametrize("problem", [GONE, FULL], ids=["pipe", "disk"])
@pytest.mark.parametrize("json_", [[], ["--json"]], ids=["text", "json"])
def test_a_verdict_stays_what_it_is(problem, json_, typed, monkeypatch, tmp_path):
    """A release that does not verify ends with 1, whoever reads; one that does is no result where the disk is full."""
    assert main([str(each) for each in typed]) == 0
    code, other = ran(monkeypatch, "stdout", problem, 0, "verify", tmp_path / "out", *json_)
    assert code == (2 if problem is FULL else 0)
    assert ("error: expected to print the result" in other) == (problem is FULL)
    shutil.copy(tmp_path / "out" / "_certificate.json", tmp_path / "out" / "more.json")
    assert ran(monkeypatch, "stdout", problem, 0, "verify", tmp_path / "out", *json_)[0] == 1


def test_an_error_stays_an_error(monkeypatch, tmp_path):
    """A command that fails ends with its code, whether or not its message could be printed."""
    for stream in ("stdout", "stderr"):
        assert ran(monkeypatch, stream, FULL, 0, "verify", tmp_path / "none")[0] == 1


@pytest.mark.parametrize("answer", [[], ["--buy", "0.1"]], ids=["plan", "answer"])
def test_a_plan_is_what_it_prints_unless_it_pays(answer, table, secrets, monkeypatch, tmp_path):
    """A plan on a full disk is an error; one that bought an answer has made something, and ends well."""
    typed = ("plan", table, "--label", "y", "--classes", ",".join(secrets), "--epsilon", 1, "--unit", "row")
    more = (*answer, "--keep", "all", "--output", tmp_path / "a") if answer else ()
    assert ran(monkeypatch, "stdout", FULL, 0, *typed, *more)[0] == (0 if answer else 2)


SLOW = [pytest.mark.slow]


@pytest.mark.parametrize(
    "where", ["pipe", *(pytest.param(each, marks=SLOW) for each in ("first line", "closed", "full"))]
)
def test_a_process_ends_well(where, typed, tmp_path):
    """The interpreter does not fail at its end either, when it writes what is still waiting."""
    command = ["sh", "-c", 'exec "$@"' + {"closed": " >&-", "full": " >/dev/full"}.get(where, "")]
    command += ["sh", sys.executable, "-m", "labeldp", *map(str, typed)]
    if where == "full" and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=buffered) as process:
        if where == "first line":
            assert process.stdout.readline().startswith("Released 30 rows")
        process.stdout.close()
        errors = process.stderr.read()
    assert process.returncode == 0
    assert "Error" not in errors
    assert ("found: No space left on device" in errors) == (where == "full")
    assert main(["verify", str(tmp_path / "out")]) == 0
