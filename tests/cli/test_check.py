"""``labeldp check``: what it says of a table, commands that run as they are printed, and that it leaves nothing."""

import dataclasses
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, check_table, release_table
from labeldp.release.folder import read_certificate
from labeldp.results import release_command

LABEL, CLASSES = "diagnosis", Classes(["none", "heart disease"])


#: Changes of the sample table, and what is found then.
FINDINGS = [
    (lambda t: t.assign(copy=t.diagnosis), "'copy' equals or determines the label"),
    (lambda t: t.sort_values(LABEL), "grouped by label"),
    (lambda t: pd.concat([t, t]), "copies of others"),
    (lambda t: t.assign(site="A"), "the same in every row"),
    (lambda t: t.assign(costs=t.costs.str.replace(".", ",")), "read by --decimal ,"),
    (
        lambda t: t.assign(costs=[f"1,{row % 1000:03d}" for row in range(len(t))]),
        "read by --thousands ,",
    ),
    (lambda t: t.assign(visit=t.visit.str.split("-").str[::-1].str.join(".")), "read by --dates dmy"),
    (lambda t: t.assign(town=[f"t{i % 600}" for i in range(len(t))]), "'town' is dropped below: most of its 600 "),
    (lambda t: t.assign(name=[f"n{i}" for i in range(len(t))]), "names rows"),
    (lambda t: t.assign(record_id=np.arange(len(t)) * 17), "names rows"),
    (lambda t: t.assign(age=["" if i % 9 == 0 else a for i, a in enumerate(t.age)]), "missing in "),
    (lambda t: t.assign(diagnosis=["" if i < 7 else d for i, d in enumerate(t.diagnosis)]), "missing    7 rows"),
    (
        lambda t: t.assign(diagnosis=["None" if i % 50 == 0 else d for i, d in enumerate(t.diagnosis)]),
        "differ in spelling alone",
    ),
    (lambda t: t.assign(diagnosis=["x" if i == 3 else d for i, d in enumerate(t.diagnosis)]), "fewer than 20 rows"),
]


@pytest.fixture
def patients(run, tmp_path):
    """The sample table."""
    assert run("demo", tmp_path).code == 0
    return tmp_path / "patients.csv"


def command_in(out):
    """The command that a check ends with."""
    return shlex.split(out.strip().splitlines()[-1])


def changed(patients, change):
    """The sample table, changed."""
    frame = pd.read_csv(patients, dtype=str, keep_default_na=False)
    change(frame).to_csv(patients, index=False)
    return patients


def test_what_a_check_prints_can_be_run(run, patients, tmp_path):
    """From a check to a release of all rows, with the unit that repeats and without the columns that name rows."""
    found = run("check", patients, "--label", LABEL)
    words = command_in(found.out)
    assert words[:3] == ["labeldp", "release", str(patients)]
    assert words[words.index("--unit") + 1] == "patient_id"
    done = run(*words[1:-1], tmp_path / "shared")
    assert done.code == 0
    assert "per patient_id" in done.out


def test_nothing_is_spent_or_written(run, patients):
    """A check twice leaves the folder as it was, and a release afterwards spends its own epsilon alone."""
    before = {path: path.read_bytes() for path in patients.parent.iterdir()}
    outs = {run("check", patients, "--label", LABEL).out for _ in range(2)}
    assert len(outs) == 1
    assert {path: path.read_bytes() for path in patients.parent.iterdir()} == before
    done = release_table(patients, LABEL, CLASSES, 1.0, patients.parent / "o", keep=["age"], unit="patient_id")
    assert done.spent == (1.0, 0.0)


@pytest.mark.parametrize(("change", "wanted"), FINDINGS)
def test_what_should_be_known_before_a_release_is_said(run, patients, change, wanted):
    """Each finding of a table that has it."""
    assert wanted in run("check", changed(patients, change), "--label", LABEL).out


@pytest.mark.parametrize("name", ["-t.csv", "$(touch here) 'a'.csv", "t.csv"])
def test_a_command_of_hostile_names_can_be_run(run, tmp_path, monkeypatch, name):
    """Names of files, columns and classes are no options, files, commands or marks of a terminal."""
    monkeypatch.chdir(tmp_path)
    label, classes = "-y\x1b[2J", ["@/etc/hostname", "-1", "$(touch here)", "`touch here`"]
    frame = pd.DataFrame({"age": np.arange(400) / 7, "--keep": [f"p{row}" for row in range(400)], label: classes * 100})
    frame.to_csv(Path(name).absolute(), index=False)
    found = check_table(f"./{name}", label)
    assert "\x1b" not in run("check", f"./{name}", "--label", label).out
    command = release_command(dataclasses.replace(found, table=dataclasses.replace(found.table, path=Path(name))))
    assert run(*shlex.split(command)[1:]).code == 0
    assert pd.read_parquet("shared").columns.tolist() == ["age", f"{label}_released"]
    assert not Path("here").exists()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.0, 1.0] * 20, "'0' 20 (50.0%), '1' 20 (50.0%)"),
        ([True, False] * 20, "'true' 20 (50.0%)"),
        (["a"] * 40, "'a' 40 (100.0%)"),
        (["a", None] * 20, "rows without a label get the class 'missing' below"),
        ([0.0, 1.0, None, 1.0] * 10, "rows without a label get the class '-1' below"),
        ([True, False, None, True] * 10, "rows without a label get the class 'false' below"),
        (["Missing", None] * 20, "rows without a label get the class 'no label' below"),
        (["missing", "no label", "missing 1", None] * 10, "rows without a label get the class 'missing 2' below"),
        (["No", "no ", "yes", "YES"] * 10, "'YES', 'yes' differ in spelling alone, and count as one class"),
        (list(range(20)) * 2, "'0' 2 (5.0%)"),
        (np.linspace(0, 1, 40), "numbers from 0 to 1"),
    ],
)
def test_labels_of_every_type(run, tmp_path, values, wanted):
    """Numbers, flags, one class, missing ones, spellings, too many numbers; the printed command runs."""
    pd.DataFrame({"x": range(40), "y": values}).to_parquet(tmp_path / "t.parquet")
    found = run("check", tmp_path / "t.parquet", "--label", "y")
    assert found.code == 0, found.err
    assert wanted in found.out
    printed = [word.replace("LOW,HIGH,STEP", "0,1,0.01") for word in command_in(found.out)]
    done = run(*printed[1:-1], tmp_path / "shared")
    assert done.code == 0, done.err


def test_many_classes_are_written_to_a_file(run, tmp_path, monkeypatch):
    """For the holder alone; both commands run as they are printed."""
    monkeypatch.chdir(tmp_path)
    names = [f"d, {number}" for number in range(60)]
    pd.DataFrame({"x": np.arange(120) % 7, "y": names * 2}).to_parquet("t.parquet")
    said = run("check", "t.parquet", "--label", "y").out
    assert "the 60 classes below are read from classes.txt" in said
    asked = shlex.split(next(line for line in said.splitlines() if "--save-classes" in line).split("this writes: ")[1])
    saved = run(*asked[1:])
    assert Path("classes.txt").read_text(encoding="utf-8").splitlines() == sorted(names)
    assert Path("classes.txt").stat().st_mode & 0o777 == 0o600
    assert "are read from" not in saved.out
    assert command_in(saved.out) == command_in(said)
    done = run(*command_in(said)[1:])
    assert done.code == 0, done.err
    assert run(*asked[1:]).code == 1, "no file is overwritten"


def test_figures_and_command_are_of_the_columns_that_are_named(run, patients):
    """Before anything is spent: how many are one of a kind on them, and a command that keeps them and runs."""
    given = ("check", patients, "--label", LABEL, "--unit", "patient_id")
    alone = {
        words: int(
            re.search(r"([\d,]+) of 1,000 patient_id are one of a kind", run(*given, *words).out)[1].replace(",", "")
        )
        for words in ((), ("--keep", "age,sex"), ("--keep", "sex"))
    }
    assert alone[()] > alone["--keep", "age,sex"] > alone["--keep", "sex"]
    checked = run(*given, "--drop", "visit,age,blood_pressure,smoker,complaint,costs")
    words = command_in(checked.out)
    assert "--renumber" not in words
    assert "'postcode' is kept below: most of its 951 values occur in few rows" in checked.out
    assert "'patient_id' is dropped below" not in checked.out
    assert run(*words[1:-1], patients.parent / "shared").code == 0
    kept = {name for name, _ in read_certificate(patients.parent / "shared").columns}
    assert {"patient_id", "sex", "postcode"} == kept - {f"{LABEL}_released", f"{LABEL}_groups"}
    assert run(*given, "--keep", "aeg").err.startswith("error: no column 'aeg'")


def test_the_plan_that_a_check_names_runs(run, tmp_path):
    """Epsilon is a decision too: the command says what it costs, of the same columns, unit and form of the file."""
    rows = "".join(f"p{row // 3},{row},{row % 9}.{row % 10},{'ab'[row % 2]}\n" for row in range(300)).replace(",", ";")
    (tmp_path / "t.csv").write_text("patient_id;x;bmi;y\n" + rows.replace(".", ","), "utf-8")
    text = run("check", tmp_path / "t.csv", "--label", "y").out
    (command,) = re.findall(r"epsilon 1 is an example\. What it costs, beside others: (labeldp plan .*)", text)
    assert re.search(r"--classes a,b --epsilon 1 --unit patient_id --drop \S*patient_id\S* --decimal ,$", command)
    ran = run(*shlex.split(command)[1:])
    assert ran.code == 0
    assert "Epsilon 1 per patient_id: if the 2 classes are equally common" in ran.out
