"""Progress of long work, with and without a terminal."""

import pytest

from labeldp.cli import _terminal


def test_without_a_terminal_a_line_comes_every_ten_seconds(capsys, monkeypatch):
    """None before, and one for many reports in between."""
    clock = iter([0.0, 3.0, 9.9, 10.0, 12.0, 19.0, 20.5])
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: next(clock))
    with _terminal.progress() as report:
        for done in range(1, 7):
            report("release", done * 1000, 0 if done < 4 else 9000)
    assert capsys.readouterr().err.splitlines() == [
        "randomizing and writing: 3,000",
        "randomizing and writing: 6,000 of 9,000, about 10 seconds left",
    ]


@pytest.mark.parametrize(
    ("passed", "done", "left"),
    [(40.0, 4, "10 seconds"), (40.0, 1, "3 minutes"), (3600.0, 1, "4 hours"), (5.0, 0, None)],
)
def test_the_time_that_is_left_is_that_of_what_was_done(capsys, monkeypatch, passed, done, left):
    """From the first report of a kind of work; before anything is done nothing is known."""
    clock = iter([0.0, 100.0, 100.0 + max(passed, 10.0)])
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: next(clock))
    with _terminal.progress() as report:
        report("learn", 0, 5)
        report("learn", done, 5)
    said = "" if left is None else f", about {left} left"
    assert capsys.readouterr().err.splitlines()[-1] == f"fitting models: {done} of 5{said}"


@pytest.mark.parametrize("name", _terminal._TITLES)
def test_every_kind_of_work_has_a_title(capsys, monkeypatch, name):
    """Whatever reports, the line says what is being done."""
    clock = iter([0.0, 30.0])
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: next(clock))
    with _terminal.progress() as report:
        report(name, 1, 2)
    assert capsys.readouterr().err == f"{_terminal._TITLES[name]}: 1 of 2\n"
