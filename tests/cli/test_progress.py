"""Progress of long work, with and without a terminal."""

import io
import re
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from labeldp import Classes, Curator, verify
from labeldp.cli import _terminal
from labeldp.release import engines


def test_without_a_terminal_a_line_comes_every_ten_seconds(capsys, monkeypatch):
    """None before, and one for many reports in between."""
    clock = iter([0.0, 3.0, 9.9, 10.0, 12.0, 19.0, 20.5])
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: next(clock))
    with _terminal.progress() as report:
        for done in range(1, 7):
            report("release", done * 1000, 0 if done < 4 else 9000)
    assert capsys.readouterr().err.splitlines() == [
        "randomizing and writing: 3,000, 286 rows a second",
        "randomizing and writing: 6,000 of 9,000, 286 rows a second, about 10 seconds left",
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


def _two_of_three_parts(report):
    """The reports of a pass of which two parts are done."""
    report("release", 0, 9_000_000)
    for part in (1, 2):
        report("release", 3_000_000 * part, 9_000_000)
        report(f"release{engines.PARTS}", part, 3)
    report("release", 6_000_000, 9_000_000)


def test_parts_are_told_beside_rows(capsys, monkeypatch):
    """How many are done of all, with the rows a second since the pass began, and the time that is left."""
    clock = iter([0.0, 0.0, 5.0, 5.1, 15.0])
    monkeypatch.setattr(_terminal.time, "monotonic", lambda: next(clock))
    with _terminal.progress() as report:
        _two_of_three_parts(report)
    assert capsys.readouterr().err.splitlines() == [
        "randomizing and writing: 6,000,000 of 9,000,000, 2 of 3 parts, 400,000 rows a second, about 8 seconds left"
    ]


def test_a_bar_tells_the_same(monkeypatch):
    """On a terminal, beside the bar."""
    screen, clock = io.StringIO(), iter([0.0, 5.0, 5.1, 15.0])
    monkeypatch.setattr(_terminal, "Console", lambda **_: Console(file=screen, force_terminal=True, width=160))
    monkeypatch.setattr(_terminal, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
    with _terminal.progress() as report:
        _two_of_three_parts(report)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "6000000/9000000 2 of 3 parts, 400,000 rows a second, about 8 seconds left" in shown


def test_every_kind_of_work_has_a_title(capsys, monkeypatch):
    """Whatever reports, the line says what is being done."""
    for name, title in _terminal._TITLES.items():
        clock = iter([0.0, 30.0])
        monkeypatch.setattr(_terminal.time, "monotonic", lambda clock=clock: next(clock))
        with _terminal.progress() as report:
            report(name, 1, 2)
        assert capsys.readouterr().err == f"{title}: 1 of 2\n"


def test_a_plan_of_a_table_tells_its_passes(run, tmp_path, monkeypatch):
    """Of all rows, where the table states their number."""
    monkeypatch.setattr(_terminal, "_PAUSE", 0.0)
    pq.write_table(pa.table({"z": range(20), "y": ["a", "b"] * 10}), tmp_path / "t.parquet")
    done = run("plan", tmp_path / "t.parquet", "--label", "y", "--classes", "2", "--epsilon", "1")
    assert (done.code, done.err.splitlines()) == (
        0,
        ["reading the public columns: 20 of 20", "relating the public columns: 20 of 20"],
    )


def test_stages_are_told_one_by_one(run, tmp_path, monkeypatch):
    """Each as soon as its model is fitted, of all of them."""
    monkeypatch.setattr(_terminal, "_PAUSE", 0.0)
    pq.write_table(pa.table({"x": [*range(6)] * 10, "y": ["a", "b"] * 30}), tmp_path / "t.parquet")
    given = (tmp_path / "t.parquet", "--label", "y", "--classes", "a,b", "--unit", "row", "--keep", "x")
    done = run("stages", *given, "--epsilon", 1, "--stages", 3, "--output", tmp_path / "out")
    assert done.code == 0, done.err
    told = re.findall(r"^learning in stages: (\d) of 3", done.err, re.MULTILINE)
    assert told == ["0", "1", "2", "3"]


def test_verification_reports_its_rows(tmp_path):
    """Of the bytes of each file and of the values, up to all rows; whether anybody listens changes nothing."""
    labels, space = ["no", "yes"] * 150, Classes(["no", "yes"])
    folder = Curator(labels, space).randomize(epsilon=1.0).save(tmp_path / "shared")
    seen = []
    verdict = verify(folder, progress=lambda *report: seen.append(report))
    assert verdict.checks == verify(folder).checks
    assert seen == [(name, done, 300) for name in ("digest", "verify") for done in (0, 300)]
    assert {name for name, *_ in seen} <= set(_terminal._TITLES)
