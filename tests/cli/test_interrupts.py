"""Ctrl-C and errors in the middle: a message and an exit code, nothing that looks finished, and the ledger knows."""

import pytest


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
