"""Ctrl-C and errors in the middle: a message and an exit code, nothing that looks finished, and the ledger knows."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 400_000
CLASSES = ",".join(f"zq-{i}" for i in range(100))
PATIENCE = 60.0


def command(folder):
    """A release that takes a while: sets of about forty classes for every row."""
    options = ["--label", "y", "--classes", CLASSES, "--epsilon", "1", "--keep", "all", "--output", str(folder / "out")]
    return [sys.executable, "-m", "labeldp", "release", str(folder / "t.parquet"), *options]


@pytest.fixture
def large(tmp_path):
    """A folder with a table large enough to be interrupted."""
    labels = pa.array(CLASSES.split(",")).take(pa.array(np.arange(ROWS) * 7 % 100))
    pq.write_table(pa.table({"id": np.arange(ROWS), "y": labels}), tmp_path / "t.parquet")
    return tmp_path


#: The command, which waits while its first rows are written, so that it is never done before a signal comes.
WAITING = f"""
import pathlib, sys, time
from labeldp.cli import main
from labeldp.release.folder._write import FileWriter
write, begun = FileWriter.write, pathlib.Path(sys.argv.pop(1))
FileWriter.write = lambda self, table: (write(self, table), begun.touch(), time.sleep({PATIENCE}))
sys.exit(main(sys.argv[1:]))
"""


def hit(folder, number):
    """Start the release, send it a signal while it writes, and return its exit code and what it printed."""
    begun = folder / "begun"
    waiting = [sys.executable, "-c", WAITING, str(begun), *command(folder)[3:]]
    with subprocess.Popen(
        waiting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + PATIENCE
        while not begun.exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def finish(folder):
    """Run the same command again, and undisturbed."""
    return subprocess.run(command(folder), capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_ctrl_c_leaves_and_charges_nothing(run, large, states):
    """After Ctrl-C: exit code 130, a message, no output, no staging folder, no charge; then it works."""
    code, out, err = hit(large, signal.SIGINT)
    assert code == 130
    assert out == ""
    assert "Traceback" not in err
    assert "zq-" not in err
    assert sorted(large.glob("*out*")) + sorted(large.glob(".out*")) == []
    assert states(large / "t.parquet.labeldp-ledger") == ["void"]
    again = finish(large)
    assert again.returncode == 0
    assert all(" rows a second" in line for line in again.stderr.splitlines())  # progress, where it takes long
    assert states(large / "t.parquet.labeldp-ledger") == ["void", "released"]
    assert run("verify", large / "out").code == 0
    assert "stopped; an output that exists is complete, and nothing else was released; labeldp ledger shows" in err


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
