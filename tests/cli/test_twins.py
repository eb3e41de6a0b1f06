"""Twin runs: with the draw held fixed, nothing but the private notes may tell two neighbouring tables apart."""

import datetime as calendar
import itertools
import shutil
import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import public_split
from labeldp._random_words import TapeWords
from labeldp.mechanisms import draw

pytestmark = pytest.mark.usefixtures("still")

A, B, RARE, LONG = "zq-secret-7", "zq-secret-8", "zq-secret-9", "zq-secret-" + "long" * 20
CLASSES = ",".join((A, B, RARE, LONG))
BASE = [A, B, A, RARE, B, A, B, B, A, A, B, A]
ONE_CLASS = [A] * 12


def but(labels, row, label):
    """A neighbour: one label replaced."""
    return [*labels[:row], label, *labels[row + 1 :]]


#: Neighbouring labels.
NEIGHBOURS = {
    "first row": (BASE, but(BASE, 0, B)),
    "first row to a class not seen": (BASE, but(BASE, 0, LONG)),
    "last row": (BASE, but(BASE, 11, RARE)),
    "middle row": (BASE, but(BASE, 5, LONG)),
    "rare class disappears": (BASE, but(BASE, 3, A)),
    "a second class appears": (ONE_CLASS, but(ONE_CLASS, 7, B)),
    "grouped by label": ([A] * 6 + [B] * 6, but([A] * 6 + [B] * 6, 3, B)),
    "missing": (BASE, but(BASE, 4, "")),
    "first missing": (BASE, but(BASE, 0, "")),
}


class Clock(calendar.datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz=None):
        """One moment."""
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


@pytest.fixture
def still(monkeypatch):
    """Hold all chance and time fixed: labels that are drawn depend on rows alone, names and moments on nothing."""
    tape = TapeWords(np.arange(1, 9974, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))

    def fixed(channel, codes, _, first_row=0):
        return draw(channel, np.zeros_like(codes), tape, first_row)

    monkeypatch.setattr("labeldp.release.curator._drawing.draw", fixed)
    monkeypatch.setattr("labeldp.release.jobs._job.identifier", lambda: "3" * 32)
    for module in ("jobs._job", "ledger._ledger", "folder._staging"):  # numbers of files, which no label decides
        monkeypatch.setattr(f"labeldp.release.{module}.inode_of", lambda _: (1, 2))
    monkeypatch.setattr("labeldp.learning.stages._multi_stage.public_split", partial(public_split, seed=0))
    monkeypatch.setattr("labeldp.release.ledger._database.identifier", lambda: "2" * 32)
    monkeypatch.setattr("labeldp.release.ledger._ledger.datetime", Clock)


def left_in(folder):
    """Every file under a folder, byte for byte, but the tables, the notes and the ledger; of that what it says."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.endswith(".labeldp-ledger"):
            with closing(sqlite3.connect(path)) as opened, opened:
                found[name] = list(opened.iterdump())
            opened.close()
        elif not name.endswith(".notes") and not name.startswith("t."):
            found[name] = path.read_bytes() if path.is_file() else "folder"
    return found


def columns_of(labels, **more):
    """A table of these labels."""
    n = len(labels)
    return {"id": list(range(n)), "age": [20 + i for i in range(n)], **more, "street": [i // 2 for i in range(n)]} | {
        "y": labels
    }


@pytest.fixture
def told(run, tmp_path, write_csv, monkeypatch):
    """All that commands say and leave behind on a table: printed texts, exit codes and bytes; twice in one place."""

    def telling(columns, commands, kind="csv"):
        names = itertools.count()
        monkeypatch.setattr("labeldp.release.curator._curator.identifier", lambda: f"{next(names):032x}")
        place = tmp_path / "work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        source = place / f"t.{kind}"
        if kind == "csv":
            write_csv(source, columns)
        else:
            typed = pa.table(columns | {"y": pa.array([label or None for label in columns["y"]])})
            if kind == "dictionary.parquet":
                typed = typed.set_column(typed.num_columns - 1, "y", typed["y"].dictionary_encode())
            pq.write_table(typed, source)
        replies = [
            command(place) if callable(command) else run(*_placed(command, place, source)) for command in commands
        ]
        return replies, left_in(place)

    return telling


def _placed(command, place, source):
    return [part.replace("SOURCE", str(source)).replace("PLACE", str(place)) for part in command.split()]


def damage(place):
    """Change a byte of what was released."""
    path = place / "out" / "data.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"X")


STAGES = (
    f"stages SOURCE --label y --classes {CLASSES} --missing {B} --epsilon 1 --output PLACE/out "
    "--model-file PLACE/t.safetensors"
)
RELEASE = f"release SOURCE --label y --classes {CLASSES} --missing {B} --epsilon 1 --output PLACE/out"
COMMANDS = {
    "all is well": [f"{RELEASE} --keep all", "verify PLACE/out", "ledger SOURCE.labeldp-ledger"],
    "units": [f"{RELEASE} --keep id --unit street", "verify PLACE/out", "ledger SOURCE.labeldp-ledger"],
    "nothing kept": [f"{RELEASE} --drop id,age,street", "verify PLACE/out"],
    "twice": [f"{RELEASE} --keep id", f"{RELEASE}2 --keep id", "ledger SOURCE.labeldp-ledger"],
    "output exists": [f"{RELEASE} --keep id", f"{RELEASE} --keep id --budget 5", "ledger SOURCE.labeldp-ledger"],
    "damaged": [f"{RELEASE} --keep id", damage, "verify PLACE/out"],
    "no declaration": [RELEASE],
    "label kept": [f"{RELEASE} --keep id,y"],
    "unknown column": [f"{RELEASE} --keep height"],
    "bad epsilon": [f"{RELEASE} --keep id --epsilon 800"],
    "no parent": [f"{RELEASE}/none/below --keep id", "ledger SOURCE.labeldp-ledger"],
    "classes of another kind": [f"{RELEASE} --keep id --classes 1,2 --missing 1"],
    "budget": [f"{RELEASE} --keep id --budget 0.5", "ledger SOURCE.labeldp-ledger"],
    "unit is the label": [f"{RELEASE} --keep id --unit y"],
    "stages": [f"{STAGES} --keep id,age", "verify PLACE/out", "ledger SOURCE.labeldp-ledger", "account PLACE/out"],
    "stages of a network": [f"{STAGES} --keep id,age --model torch:mlp --epochs 1", "verify PLACE/out"],
    "stages of nothing": [f"{STAGES} --keep none", "ledger SOURCE.labeldp-ledger"],
}


@pytest.mark.parametrize(
    ("pair", "kind"),
    [*((pair, "csv") for pair in NEIGHBOURS), ("middle row", "parquet"), ("missing", "dictionary.parquet")],
)
def test_nothing_but_the_draw_depends_on_a_label(told, pair, kind):
    """Release, verify and ledger print and leave the same on both neighbours."""
    one, other = (told(columns_of(labels), COMMANDS["all is well"], kind) for labels in NEIGHBOURS[pair])
    assert [ran.code for ran in one[0]] == [0, 0, 0]
    assert one == other


@pytest.mark.parametrize(
    ("pair", "commands"),
    [*zip(itertools.cycle(["first row", "rare class disappears", "missing"]), COMMANDS, strict=False)],
)
def test_no_command_tells_neighbours_apart(told, pair, commands):
    """Whatever a command does or refuses, it is the same on both neighbours."""
    one, other = (told(columns_of(labels), COMMANDS[commands]) for labels in NEIGHBOURS[pair])
    assert one == other


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_copy_of_the_label_is_not_mentioned(told, kind):
    """A kept column that equals the label is a note for the curator alone: what is printed is the same."""
    like = [A, B] * 6
    copy = ["north" if name == A else "south" for name in like]
    one, other = (
        told(columns_of(labels, copy=copy), COMMANDS["all is well"], kind) for labels in (like, but(like, 3, A))
    )
    assert [ran.code for ran in one[0]] == [0, 0, 0]
    assert one == other


def test_a_copy_of_an_earlier_label_is_told_by_released_labels_alone(told, monkeypatch):
    """A true label of an earlier release decides no exit code and no word, though a kept column is its copy."""
    names = itertools.cycle(["3" * 32, "4" * 32])  # of the first release and of the second
    monkeypatch.setattr("labeldp.release.jobs._job.identifier", lambda: next(names))
    like = [A, B] * 6
    copy = ["north" if name == A else "south" for name in like]
    first = f"release SOURCE --label z --classes {CLASSES} --epsilon 8 --output PLACE/first --keep id --unit row"
    commands = [first, f"{RELEASE} --keep age,copy --unit row", "ledger SOURCE.labeldp-ledger"]
    one, other = (told(columns_of(BASE, copy=copy, z=earlier), commands) for earlier in (like, but(like, 3, A)))
    assert [ran.code for ran in one[0]] == [0, 0, 0], one[0][1].err
    (replies, left), (other_replies, other_left) = one, other
    ledger = "t.csv.labeldp-ledger"  # private: it knows the rows of the second release by their other columns
    assert replies == other_replies
    assert {**left, ledger: None} == {**other_left, ledger: None}


def test_notes_that_cannot_be_kept_do_not_tell_neighbours_apart(told):
    """Where the notes cannot be written, the exit code does not say whether there were any."""
    like = [A, B] * 6
    commands = [lambda place: (place / "t.csv.labeldp-ledger.notes").mkdir(), *COMMANDS["all is well"]]
    copy = ["x" if name == A else "w" for name in like]
    one, other = (told(columns_of(found, copy=copy), commands) for found in (like, but(like, 5, A)))
    assert one == other


def test_the_twins_would_see_a_leak(told, monkeypatch):
    """With a draw that passes labels on, the same comparison fails."""
    tape = TapeWords(np.arange(1, 99, dtype=np.uint64) << np.uint64(50))
    monkeypatch.setattr(
        "labeldp.release.curator._drawing.draw", lambda channel, codes, _, first=0: draw(channel, codes, tape, first)
    )
    one, other = (told(columns_of(labels), COMMANDS["all is well"]) for labels in (ONE_CLASS, [LONG] * 12))
    assert [ran.code for ran in one[0]] == [0, 0, 0]
    assert one != other
