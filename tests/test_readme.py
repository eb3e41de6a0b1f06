"""The commands of the README: they run as printed, one after another, and print what it shows but for the numbers."""

import re
import shlex
from pathlib import Path

import pytest

from labeldp.cli import main

README = Path(__file__).parents[1] / "README.md"
_STORY = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands():
    """The commands in order, each with the lines that it prints; ``...`` stands for lines that are left out."""
    found = []
    for block in _STORY.findall(README.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = part.replace("\\\n", "").partition("\n")
            found.append((command, printed.splitlines()))
    return found


def shape(line):
    """A line without its numbers, and without what follows from their widths."""
    words = re.sub(r"[\d][\d,.]*", "#", line)
    return re.sub(r"[\s─━┏┓┗┛└┘┴┬┳┻╇┡┩│┃]+", " ", words).strip()


def is_shown(expected, printed):
    """Whether the lines are printed in this order, with gaps where dots are."""
    lines = [shape(line) for line in printed if shape(line)]
    place, gap = 0, False
    for line in (shape(each) for each in expected):
        if not line:
            continue
        if line == "...":
            gap = True
            continue
        while gap and place < len(lines) and lines[place] != line:
            place += 1
        if place >= len(lines) or lines[place] != line:
            return f"expected {line!r}, found {lines[place : place + 3]}"
        place, gap = place + 1, False
    return "" if gap or place == len(lines) else f"expected no more, found {lines[place : place + 3]}"


def test_the_story_runs_as_it_is_printed(tmp_path, monkeypatch, capsys):
    """Each command ends well and prints what the README shows."""
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert len(commands()) >= 5
    for command, expected in commands():
        capsys.readouterr()
        words = shlex.split(command, comments=True)
        assert words[0] == "labeldp"
        assert main(words[1:]) == 0, command
        assert is_shown(expected, capsys.readouterr().out.splitlines()) == "", command


def test_a_readme_that_says_something_else_is_noticed():
    """The comparison can fail: another word, a line too many, a line too few."""
    printed = ["Released 12 rows.", "", "spent  0.5"]
    assert is_shown(["Released 34 rows.", "spent 1"], printed) == ""
    assert is_shown(["...", "spent 1"], printed) == ""
    for expected in (["Refused 34 rows.", "spent 1"], ["Released 1 rows."], ["Released 1 rows.", "spent 1", "more"]):
        assert is_shown(expected, printed)


def test_the_readme_is_short():
    """All else is in docs/guide."""
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120
