"""What commands print, whole: a transcript for each command in the folder ``words``.

What stands after a dollar sign is typed; below it is what both streams show, and ``[exit 1]`` where a command fails.
Moments have a word in their place, lines and blanks of tables are folded, and in transcripts of what rests on a fit or
on chance each number is ``#``. ``LABELDP_APPROVE=1`` writes transcripts anew: read the change before it is committed.
"""

import datetime as calendar
import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

WORDS = Path(__file__).with_name("words")
#: Transcripts whose numbers differ from machine to machine.
NUMBERLESS = {"audit", "learn"}
#: What differs from run to run or, as the steps of a solver, from machine to machine, and what is shown in its place.
VARYING = {
    r"\d{4}-\d\d-\d\dT[\d:.]+": "MOMENT",
    r"(?<=on )\d{4}-\d\d-\d\d": "DAY",
    r"[0-9a-f]{64}": "SHA-256",
    r"([━─])\1+": r"\1",
    r"(?<=\S)  +(?=[│┃])": " ",
    r"(?<=  )no(?= shrinkage)": "0%",
    r"(?<=minimax: one of )\d+(?= numbers)": "#",
}
NUMBER = r"(?<![\w.])[+-]?\d(?:[\d,]*\d)?(\.\d+)?(e[+-]?\d+)?"


class Clock(calendar.datetime):
    """A clock that is a minute later whenever it is looked at, so that charges have an order."""

    looks = 0

    @classmethod
    def now(cls, tz=None):
        """The next minute."""
        Clock.looks += 1
        return cls(2026, 1, 2, tzinfo=tz) + calendar.timedelta(minutes=Clock.looks)


def tables(folder):
    """Write the tables of transcripts: few rows of invented people."""
    chance, rows = np.random.default_rng(0), np.arange(60)
    few = pd.DataFrame({"id": rows, "age": 20 + 7 * rows % 50, "town": np.array(["north", "south"])[rows**2 % 3 % 2]})
    few["street"] = np.where(rows < 40, rows // 2, 100 + rows)
    few.assign(ill=np.where((rows * 5 + rows // 4) % 6, "no", "yes")).to_csv(folder / "few.csv", index=False)
    rows = np.arange(900)
    age, town = chance.integers(20, 80, 900), np.array(["north", "south", "east"])[rows % 3]
    many = pd.DataFrame({"age": age, "town": town, "note": [f"n{row}" for row in rows], "one": 1})
    many["ill"] = np.where(age + 20 * (town == "north") + chance.normal(0, 6, 900) > 66, "yes", "no")
    many["cost"] = np.clip(0.9 * age + 25 * (town == "north") + chance.normal(0, 5, 900), 0, 120).round()
    many[:600].to_csv(folder / "many.csv", index=False)
    (folder / "elsewhere").mkdir()
    many[600:].to_csv(folder / "elsewhere/others.csv", index=False)
    people = np.repeat(np.arange(300), 1 + np.arange(300) % 3)
    rows = np.arange(len(people))
    visits = pd.DataFrame({"patient_id": people, "x": rows % 7, "y": np.array(["a", "b"])[rows % 2], "z": rows % 11})
    for name, part in (("visits", visits), ("december", visits[:400]), ("january", visits[300:])):
        part.to_csv(folder / f"{name}.csv", index=False)


def shown(command, run, varying):
    """A command, what it shows, and its exit code where it fails; one of the shell, such as mv, is silent."""
    if not command.startswith("labeldp "):
        subprocess.run(command, shell=True, check=True)  # noqa: S602 (the text is ours)
        return f"$ {command}\n"
    ran = run(*shlex.split(command)[1:])
    text = "".join(f"{line.rstrip()}\n" for line in (ran.out + ran.err).splitlines()).replace(f"{Path.cwd()}/", "")
    for pattern, word in varying.items():
        text = re.sub(pattern, word, text)
    return f"$ {command}\n{text}" + (f"[exit {ran.code}]\n" if ran.code else "")


@pytest.mark.parametrize("name", sorted(path.stem for path in WORDS.glob("*.txt")))
def test_a_command_prints_its_words(run, tmp_path, monkeypatch, name):
    """All that it prints is what was approved."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("labeldp.cli._terminal._PAUSE", float("inf"))
    monkeypatch.setattr("labeldp.release.ledger._ledger.datetime", Clock)
    tables(tmp_path)
    approved = WORDS.joinpath(f"{name}.txt").read_text(encoding="utf-8")
    varying = VARYING | ({NUMBER: "#"} if name in NUMBERLESS else {})
    commands = re.findall(r"^\$ (.*)$", approved, flags=re.MULTILINE)
    printed = "\n".join(shown(command, run, varying) for command in commands)
    if os.environ.get("LABELDP_APPROVE"):
        WORDS.joinpath(f"{name}.txt").write_text(printed, encoding="utf-8")
    assert printed == approved
