"""Ctrl-C and errors in the middle: a message and an exit code, nothing that looks finished, and the ledger knows."""

import signal
import subprocess
import sys
import time

import pytest

PATIENCE = 60.0
#: A command that waits once its first rows are written, so that it is never done before a signal comes.
WAITING = f"""
import pathlib, sys, time
from labeldp.cli import main
from labeldp.release.folder._write import FileWriter
write, begun = FileWriter.write, pathlib.Path(sys.argv.pop(1))
FileWriter.write = lambda self, table: (write(self, table), begun.touch(), time.sleep({PATIENCE}))
sys.exit(main(sys.argv[1:]))
"""


def test_ctrl_c_leaves_and_charges_nothing(release, table, secrets, tmp_path, states):
    """After a true signal: exit code 130, a message, no output, no staging folder, no charge; then it works."""
    begun, deadline = tmp_path / "begun", time.monotonic() + PATIENCE
    options = ["--label", "y", "--classes", ",".join(secrets), "--epsilon", "1", "--keep", "all"]
    options += ["--output", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(begun), "release", str(table), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        while not begun.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert not any(secret in err for secret in secrets)
    assert "stopped; an output that exists is complete, and nothing else was released; labeldp ledger shows" in err
    assert sorted([*tmp_path.glob("*out*"), *tmp_path.glob(".out*")]) == []
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["void"]
    assert release(table, tmp_path / "out").code == 0
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["void", "released"]


def test_ctrl_c_speaks_of_charges_where_there_may_be_some(run, monkeypatch):
    """A command that charges nothing names no ledger."""
    monkeypatch.setattr("labeldp.cli._run", _interrupted)
    found = {name: run(name) for name in ("learn", "verify", "release", "stages", "plan")}
    assert {ran.code for ran in found.values()} == {130}
    assert {name for name, ran in found.items() if "ledger" in ran.err} == {"release", "stages", "plan"}


def _interrupted(_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()])
def test_whatever_stops_it_nothing_is_left(release, table, tmp_path, monkeypatch, states, problem):
    """Ctrl-C, a full disk or memory: a message, no output, no charge; the same command then succeeds."""

    def stop(*_, **__):
        raise problem

    with monkeypatch.context() as patched:
        patched.setattr("labeldp.release.curator._drawing.draw", stop)
        ran = release(table, tmp_path / "out")
    assert ran.code == (130 if isinstance(problem, KeyboardInterrupt) else 1)
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert "zq-secret" not in ran.err
    assert not (tmp_path / "out").exists()
    assert list(tmp_path.glob(".out*")) == []
    ledger = tmp_path / "t.csv.labeldp-ledger"
    assert not ledger.exists() or set(states(ledger)) <= {"void"}
    assert release(table, tmp_path / "out").code == 0
    assert states(ledger)[-1] == "released"


def test_a_label_in_an_unexpected_error_is_not_shown(release, table, tmp_path, monkeypatch, states):
    """An error that nobody foresaw may quote a label: only its type is shown."""

    def stop(*_, **__):
        raise ZeroDivisionError("zq-secret-7")

    monkeypatch.setattr("labeldp.release.curator._drawing.draw", stop)
    ran = release(table, tmp_path / "out")
    assert ran.code == 1
    assert "ZeroDivisionError" in ran.err
    assert "zq-secret" not in ran.err + ran.out
    assert "Traceback" not in ran.err
    assert states(tmp_path / "t.csv.labeldp-ledger") == ["void"]
