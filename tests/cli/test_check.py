"""The look at a table before its release: what it finds, what it leads to, and that it leaves nothing behind."""

import dataclasses
import json
import os
import shlex
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Interval, check_table, release_table, verify
from labeldp.errors import InputError
from labeldp.release import ledger_path
from labeldp.results import release_command

LABEL, CLASSES = "diagnosis", Classes(["none", "heart disease"])


#: Changes of the sample table, and what is found then.
FINDINGS = [
    (lambda t: t.assign(copy=t.diagnosis), "'copy' equals or determines the label"),
    (lambda t: t.sort_values(LABEL), "grouped by label"),
    (lambda t: pd.concat([t, t]), "copies of others"),
    (lambda t: t.assign(site="A"), "the same in every row"),
    (lambda t: t.assign(costs=t.costs.str.replace(".", ",")), "numbers have a decimal comma: write a point"),
    (
        lambda t: t.assign(costs=[f"1,{row % 1000:03d}" for row in range(len(t))]),
        "have commas between their digits",
    ),
    (lambda t: t.assign(visit=t.visit.str.split("-").str[::-1].str.join(".")), "dates are written so"),
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


def test_the_sample_is_the_same_every_time(run, tmp_path):
    """Twice the same bytes, and never over a file that is there."""
    first, second = (run("demo", tmp_path / name) for name in "ab")
    assert (tmp_path / "a/patients.csv").read_bytes() == (tmp_path / "b/patients.csv").read_bytes()
    assert f"labeldp check {tmp_path / 'a/patients.csv'} --label diagnosis" in first.out
    assert second.code == 0
    again = run("demo", tmp_path / "a")
    assert again.code == 1
    assert "exists" in again.err
    assert f"labeldp check '{tmp_path / 'a b/patients.csv'}' --label" in run("demo", tmp_path / "a b").out


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


def test_a_table_without_findings_has_none(run, patients):
    """The first line says that counts of labels are for the holder alone, and no finding of another table is there."""
    out = run("check", patients, "--label", LABEL).out
    assert out.startswith("For the holder alone: this page depends on the labels")
    assert not [wanted for _, wanted in FINDINGS if wanted in out]


@pytest.mark.parametrize(("change", "wanted"), FINDINGS)
def test_what_should_be_known_before_a_release_is_said(run, patients, change, wanted):
    """Each finding of a table that has it."""
    assert wanted in run("check", changed(patients, change), "--label", LABEL).out


@pytest.mark.parametrize(("column", "wanted"), [("postcode", "kept as text"), ("visit", "a date or time")])
def test_columns_say_what_they_are(run, patients, column, wanted):
    """Codes with leading zeros stay text, and dates are dates."""
    (line,) = (line for line in run("check", patients, "--label", LABEL).out.splitlines() if f" {column} " in line)
    assert wanted in line


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


def test_text_of_rare_values_is_dropped(run, patients, tmp_path):
    """A postcode tells where somebody lives; a ward of many rows, and a few texts in few rows, tell of nobody."""
    frame = pd.read_csv(patients, dtype=str).assign(ward=lambda t: [f"w{row % 30}" for row in range(len(t))])
    frame["costs"] = frame["costs"].str.replace(".", ",")
    frame["few"] = ["r"] * (len(frame) - 9) + [f"r{row}" for row in range(9)]
    frame.astype({"postcode": "category"}).to_parquet(tmp_path / "patients.parquet")
    out = run("check", tmp_path / "patients.parquet", "--label", LABEL).out
    words = command_in(out)
    assert set(words[words.index("--drop") + 1].split(",")) == {"patient_id", "postcode"}
    assert out.count("may show who somebody is") == 1
    found = {each.name: each.identifies for each in check_table(tmp_path / "patients.parquet", LABEL).columns}
    assert {name: kind for name, kind in found.items() if kind} == {"patient_id": "people", "postcode": "few"}


def test_values_are_counted_in_all_rows(tmp_path):
    """Past the rows in which spellings are looked at; empty texts are missing, and very many values are estimated."""
    rows, people = 300_000, 150_000
    columns = {
        "user": [f"u{row % people}" for row in range(rows)],
        "site": ["", "a", "b"] * (rows // 3),
        "click": range(rows),
        "tags": [[1]] * rows,
    }
    pd.DataFrame({**columns, "y": [0, 1] * (rows // 2)}).to_parquet(tmp_path / "t.parquet")
    user, site, click, tags = check_table(tmp_path / "t.parquet", "y").columns
    assert user.different == people
    assert (site.different, site.missing) == (2, rows // 3)
    assert abs(click.different / rows - 1) < 0.02
    assert "the number of different values is an estimate" in click.remarks
    assert tags.different == 0


def test_patients_of_any_language_are_asked_about(run, tmp_path):
    """With numbers. Numbers of cases name rows: the command leaves them out, and a release that keeps them says so."""
    stays = np.random.default_rng(0).permutation(np.repeat(np.arange(300), 1 + np.arange(300) % 5))
    frame = pd.DataFrame({"Patienten-Nr.": stays * 7919 + 10**7, "Fall-Nr.": np.arange(len(stays)) * 31 + 10**6})
    frame.assign(Wiederaufnahme=np.where(stays % 3, "ja", "nein")).to_csv(tmp_path / "t.csv", index=False)
    out = run("check", tmp_path / "t.csv", "--label", "Wiederaufnahme").out
    question = "'Patienten-Nr.' has 300 values in 900 rows, up to 5 rows each"
    assert f"{question}: a person? Then --unit Patienten-Nr." in out
    words = command_in(out)
    assert words[words.index("--drop") + 1] == "Patienten-Nr.,Fall-Nr."
    given = ("release", tmp_path / "t.csv", "--label", "Wiederaufnahme", "--classes", "ja,nein", "--epsilon", 1)
    refused = run(*given, "--keep", "all", "--output", tmp_path / "o")
    assert refused.code == 1
    assert f"expected a privacy unit: {question}" in refused.err
    done = run(*given, "--unit", "Patienten-Nr.", "--keep", "Fall-Nr.", "--output", tmp_path / "o")
    assert "different in each row, like case numbers" in done.out
    assert "each row is taken for one person" not in done.out


def test_it_is_said_that_each_row_is_a_person(run, tmp_path):
    """Where no column repeats like a person's identifier, before a release and after it."""
    table = pd.DataFrame({"dose": np.arange(60) / 7, "ill": ["yes", "no"] * 30})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert "each row is taken for one person" in run("check", tmp_path / "t.csv", "--label", "ill").out
    given = ("release", tmp_path / "t.csv", "--label", "ill", "--classes", "no,yes", "--epsilon", 1, "--keep", "dose")
    assert "each row is taken for one person" in run(*given, "--output", tmp_path / "o").out


def test_names_of_images_are_kept(run, tmp_path):
    """Models of images need them, though each row has another."""
    frame = pd.DataFrame({"file": [f"{row}.png" for row in range(60)], "y": ["a", "b"] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = run("check", tmp_path / "t.csv", "--label", "y").out
    assert "names of PNG files" in out
    assert command_in(out)[-4:-2] == ["--keep", "all"]


@pytest.mark.parametrize("spelled", ["{:02}/01/1990", "1,{:03},567"])
def test_text_that_is_different_in_each_row_is_dropped_however_it_is_spelled(run, tmp_path, spelled):
    """Birth dates and numbers of accounts name people, though they are no names."""
    frame = pd.DataFrame({"mark": [spelled.format(row) for row in range(1, 29)], "y": ["cat", "dog"] * 14})
    frame.to_csv(tmp_path / "t.csv", index=False)
    out = run("check", tmp_path / "t.csv", "--label", "y").out
    assert "names rows: different in each" in out
    assert command_in(out)[-4:-2] == ["--drop", "mark"]


def test_earlier_releases_are_found(run, patients):
    """Of the same rows, in another order too, whatever the label; in ledgers beside the table."""
    release_table(patients, LABEL, CLASSES, 0.5, patients.parent / "first", keep=["age"], unit="patient_id")
    out = run("check", changed(patients, lambda t: t.iloc[::-1]), "--label", "costs").out
    assert "'diagnosis' of what may be these rows was released on" in out
    assert "at epsilon 0.5" in out


@pytest.fixture
def january(patients):
    """A table whose first rows were released with those of December, and which has more visits of its patients."""
    frame = pd.read_csv(patients, dtype=str, keep_default_na=False)
    frame[:1500].to_csv(patients.parent / "december.csv", index=False)
    frame[1200:].to_csv(patients.parent / "january.csv", index=False)
    output = patients.parent / "december"
    release_table(patients.parent / "december.csv", LABEL, CLASSES, 1.0, output, keep=["age"], unit="patient_id")
    return patients.parent / "january.csv"


def test_people_who_return_are_counted(run, january):
    """A check says how many return, with how many rows, and which rows are new, as the refusal of the release does."""
    people = pd.read_csv(january, dtype=str)["patient_id"]
    back = people.isin(people[:300])
    wanted = f"{people[back].nunique()} returning patient_id with {back.sum()} of these {len(people)} rows"
    proposed = run("check", january, "--label", LABEL).out
    declared = run("check", january, "--label", LABEL, "--unit", "patient_id").out
    refused = run(*command_in(declared.replace("--only-new ", ""))[1:-1], january.parent / "o").err
    new = f"{len(people) - back.sum()} rows have a new patient_id: release them alone with --only-new"
    for text in (proposed, declared, refused):
        assert wanted in text
        assert new in text
    assert "a person?" in proposed
    assert "If it identifies people" not in declared
    rows = run("check", january, "--label", LABEL, "--unit", "row").out
    assert "'diagnosis' of 300 of these 791 rows was released on" in rows
    assert command_in(rows)[command_in(rows).index("--unit") + 1] == "row"
    assert "epsilon is for each row, though 'patient_id' has" in rows
    (earlier,) = json.loads(run("check", january, "--label", LABEL, "--json").out)["earlier"]
    assert (earlier["rows"], earlier["units"]) == (back.sum(), people[back].nunique())
    ran = run(*command_in(declared)[1:-1], january.parent / "new")
    assert ran.out.startswith(f"Released {len(people) - back.sum()} rows at epsilon 1 per patient_id.")


def test_a_budget_is_asked_for_only_where_it_is_needed(run, patients):
    """Within the declared budget another release needs no larger one; beyond it the printed command asks for one."""
    options = {"keep": ["age"], "unit": "patient_id"}
    release_table(patients, LABEL, CLASSES, 1.0, patients.parent / "first", budget=3.0, **options)
    within = run("check", patients, "--label", LABEL, "--unit", "patient_id").out
    assert "another release of it adds up" in within
    assert "--budget" not in within
    release_table(patients, LABEL, CLASSES, 1.5, patients.parent / "second", **options)
    beyond = run("check", patients, "--label", LABEL, "--unit", "patient_id").out
    assert "another release of it adds up, and needs --budget" in beyond
    assert "--budget TOTAL" in beyond


def test_a_ledger_elsewhere_is_looked_at(run, january, tmp_path):
    """The one that is named, which the command at the end names too; of one that does not exist it is said."""
    (tmp_path / "elsewhere").mkdir()
    ledger = (january.parent / "december.csv.labeldp-ledger").rename(tmp_path / "all.ledger")
    moved = january.rename(tmp_path.joinpath("elsewhere", january.name))
    assert "was released on" not in run("check", moved, "--label", LABEL).out
    found = run("check", moved, "--label", LABEL, "--ledger", ledger).out
    assert "returning patient_id" in found
    words = command_in(found)
    assert words[words.index("--ledger") + 1] == str(ledger)
    assert "there is no ledger" in run("check", moved, "--label", LABEL, "--ledger", tmp_path / "none").out
    assert run("check", moved, "--label", LABEL, "--unit", "nobody").code == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give a file to another user")
def test_a_ledger_of_a_team_is_named_as_one(run, january):
    """A colleague's ledger beside the table is not passed over; named as the team's it is looked at, and charged."""
    ledger = january.parent / "december.csv.labeldp-ledger"
    os.chown(ledger, 61234, 61234)
    refused = run("check", january, "--label", LABEL)
    assert (refused.code, "found one of another user" in refused.err) == (1, True)
    assert "--team-ledger" in refused.err
    words = command_in(run("check", january, "--label", LABEL, "--team-ledger", ledger).out)
    assert words[words.index("--team-ledger") + 1] == str(ledger)
    both = run("check", january, "--label", LABEL, "--team-ledger", ledger, "--ledger", ledger)
    assert "expected --ledger or --team-ledger, found both" in both.err
    release = (
        "release",
        january,
        "--label",
        LABEL,
        "--classes",
        "none,heart disease",
        "--epsilon",
        0.1,
        "--keep",
        "none",
    )
    assert "found one of another user" in run(*release, "--unit", "row", "--output", january.parent / "o").err
    done = run(*release, "--unit", "row", "--output", january.parent / "o", "--team-ledger", ledger, "--budget", 99)
    assert done.code == 0, done.err


def test_the_order_of_classes_says_nothing_of_labels(run, patients):
    """The certificate publishes it, so one label more or less must not change it."""
    frame = pd.read_csv(patients, dtype=str)
    orders = set()
    for share in (10, len(frame) - 10):
        frame["diagnosis"] = np.where(np.arange(len(frame)) < share, "none", "heart disease")
        frame.to_csv(patients, index=False)
        words = command_in(run("check", patients, "--label", LABEL).out)
        orders.add(words[words.index("--classes") + 1])
    assert orders == {"heart disease,none"}


def test_a_label_that_was_released_is_not_kept(run, patients, states):
    """Its true values would leave beside the next label: check drops it, and a release that keeps it is refused."""
    release_table(patients, LABEL, CLASSES, 0.5, patients.parent / "first", keep=["age"], unit="patient_id")
    words = command_in(run("check", patients, "--label", "costs").out)
    assert "diagnosis" in words[words.index("--drop") + 1].split(",")
    asked = (patients, "costs", Interval(0, 10_000, 10), 0.5, patients.parent / "second")
    with pytest.raises(InputError, match="'diagnosis' was already released with noise, and --keep"):
        release_table(*asked, keep=["age", "diagnosis"], unit="patient_id")
    assert not (patients.parent / "second").exists()
    assert states(ledger_path(patients)) == ["released"], "refused before anything was charged"
    assert verify(release_table(*asked, keep=["age"], unit="patient_id").output).holds


def test_a_label_that_left_as_a_kept_column_is_named(patients):
    """Its true values are in an earlier release: the one of its labels says so."""
    first = patients.parent / "first"
    release_table(patients, "costs", Interval(0, 10_000, 10), 0.5, first, keep=["diagnosis"], unit="patient_id")
    given = {"keep": ["age"], "unit": "patient_id"}
    done = release_table(patients, LABEL, CLASSES, 0.5, patients.parent / "second", **given)
    assert (
        f"the label 'diagnosis' was a public column of the release in {first}: its true values left with it"
        in done.remarks
    )


def test_names_and_classes_with_commas_are_quoted(run, tmp_path):
    """The command can be run as it is printed."""
    frame = pd.DataFrame({"last, first": [f"n{row}" for row in range(40)], "x": range(40), "y": ["a, b", " c"] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = command_in(run("check", tmp_path / "t.csv", "--label", "y").out)
    done = run(*words[1:-1], tmp_path / "shared")
    assert done.code == 0, done.err
    assert set(pd.read_parquet(tmp_path / "shared/data.parquet")["y_released"]) <= {"a, b", "c"}


def test_a_numeric_label_asks_for_a_public_range(run, patients):
    """The least and largest label are private, and so are no range."""
    out = run("check", patients, "--label", "costs").out
    assert "must be public" in out
    words = command_in(out)
    assert words[words.index("--interval") + 1] == "LOW,HIGH,STEP"


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


def test_without_a_label_the_columns_are_listed(run, patients):
    """To choose from."""
    done = run("check", patients)
    assert done.code == 1
    assert "patient_id, postcode, visit" in done.err


def test_labels_alone_are_not_taken_for_those_of_other_tables(run, patients, tmp_path):
    """Of a release of another label beside them nothing is said; of the same label, that it may be of these rows."""
    declared = ("--epsilon", 1, "--keep", "none", "--unit", "row", "--classes")
    digits = tmp_path / "digits-idx1-ubyte"
    digits.write_bytes(struct.pack(">BBBBI", 0, 0, 8, 1, 60) + bytes(number % 2 for number in range(60)))
    ran = run("release", patients, "--label", LABEL, *declared, "none,heart disease", "--output", tmp_path / "one")
    assert ran.code == 0, ran.err
    out = run("check", digits, "--label", "label").out
    assert "was released on" not in out
    assert "different values" not in out, "a table of no columns"
    assert run("release", digits, "--label", "label", *declared, "0,1", "--output", tmp_path / "two").code == 0
    assert "'label' of what may be these rows was released on" in run("check", digits, "--label", "label").out
