"""Effects and regression tables on the command line."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Interval, Release, public_columns, release_table
from labeldp.learning.inference import coefficients, treatment_effect

SPACE = Classes(["no", "yes"])

QUESTIONS = (
    ("describe", "--by", "drug"),
    ("effect", "--treatment", "drug", "--features", "age"),
    ("coefficients", "age + drug"),
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A release of patients in units of two rows, with the number of each unit."""
    rows, rng = 2000, np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.integers(20, 90, rows), "drug": rng.integers(0, 2, rows), "share": 0.5})
    table["person"] = np.arange(rows) // 2
    ill = table["age"] - 20 * table["drug"] + rng.normal(0, 10, rows) > 50
    folder = tmp_path_factory.mktemp("trial")
    table.assign(ill=np.where(ill, "yes", "no")).to_csv(folder / "trial.csv", index=False)
    release_table(str(folder / "trial.csv"), "ill", SPACE, 8.0, str(folder / "shared"), drop=[], unit="person")
    return folder / "shared"


def test_an_effect_says_what_it_assumes_before_the_number(run, shared):
    """Estimated propensities come with the assumption; those of a trial with none."""
    estimated = run("effect", shared, "--treatment", "drug", "--features", "age")
    assert estimated.code == 0, estimated.err
    assert estimated.out.startswith("Read this first: the effect assumes that age hold everything")
    known = run("effect", shared, "--treatment", "drug", "--propensity", "share", "--features", "age")
    assert known.out.startswith("The probabilities of the treatment were declared as known")
    assert "Read this first" not in known.out
    same = run("effect", shared, "--treatment", "drug", "--propensity", 0.5, "--features", "age")
    assert same.out == known.out


@pytest.mark.parametrize("question", QUESTIONS, ids=[name for name, *_ in QUESTIONS])
def test_an_answer_states_the_guarantee_that_covers_it(run, shared, question):
    """The sentence of the certificate ends the text, and the document has its numbers."""
    command, *options = question
    certificate = Release.load(shared).certificate
    assert certificate.sentence in run(command, shared, *options).out.replace("\n\n", "\n")
    printed = json.loads(run(command, shared, *options, "--json").out)
    assert (printed["sentence"], printed["epsilon"], printed["unit"]) == (certificate.sentence, 8.0, "person")
    assert (printed["label"], printed["rows"]) == ("ill", 2000)


def test_the_command_is_the_function_with_the_units_of_the_folder(run, shared):
    """The document has the numbers of the library, told the column of the units."""
    release, table = Release.load(shared), public_columns(shared)
    units = table["person"]
    printed = json.loads(run("effect", shared, "--treatment", "drug", "--features", "age", "--json").out)
    found = treatment_effect(release, table, treatment="drug", features=["age"], units=units)
    effect = printed["effect"]
    assert effect["effects"][0]["difference"]["error"] == found.effects[0].difference.error
    assert (effect["units"], effect["mixed"]) == (1000, False)
    answer = json.loads(run("coefficients", shared, "ill ~ age + drug", "--reference", "yes", "--json").out)
    printed = answer["regression"]
    table_of = coefficients(release, table, "age + drug", units=units, reference="yes")
    assert [each["std_err"] for each in printed["coefficients"]] == [each.std_err for each in table_of.coefficients]
    assert printed["reference"] == "yes"


@pytest.mark.parametrize(
    "typed",
    [
        ("effect", "--treatment", "dose", "--features", "age"),
        ("effect", "--treatment", "drug", "--features", "aeg"),
        ("effect", "--treatment", "drug", "--propensity", "shares"),
        ("describe", "--by", "dose"),
    ],
)
def test_a_misspelt_column_is_refused_before_learners_are_loaded(run, shared, monkeypatch, typed):
    """Loading them takes seconds; the message names the columns that there are."""
    monkeypatch.setitem(sys.modules, "labeldp.learning.inference", None)
    command, *options = typed
    done = run(command, shared, *options)
    assert done.code == 1
    assert f"no column '{typed[-1] if typed[-1] != 'age' else 'dose'}'; columns: age, drug" in done.err


@pytest.mark.parametrize(("option", "value"), [("--level", "1"), ("--trim", "0")])
def test_a_number_out_of_range_is_refused_before_learners_are_loaded(run, shared, monkeypatch, option, value):
    """As a misspelt column is."""
    monkeypatch.setitem(sys.modules, "labeldp.learning.inference", None)
    done = run("effect", shared, "--treatment", "drug", "--features", "age", option, value)
    assert done.code == 1
    assert f"{option.strip('-')} above 0 and below 1" in done.err


REFUSED = {
    "nothing to adjust for": (("effect", "--treatment", "drug"), "--features"),
    "no such class": (("effect", "--treatment", "drug", "--features", "age", "--outcome", "maybe"), "class"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_answered_is_refused(run, shared, case):
    """Exit code 1 and one line that names the option."""
    (command, *arguments), message = REFUSED[case]
    done = run(command, shared, *arguments)
    assert done.code == 1
    assert message in done.err
    assert "features=" not in done.err


@pytest.mark.parametrize("question", [*QUESTIONS, ("learn", "--model", "ridge", "--output", "of.safetensors")])
def test_figures_of_numbers_say_that_labels_were_clipped(run, tmp_path, monkeypatch, question):
    """Beside the result, before any figure of it."""
    monkeypatch.chdir(tmp_path)
    age = np.arange(400) % 40
    pd.DataFrame({"age": age, "drug": age % 2, "cost": age / 4.0}).to_csv("costs.csv", index=False)
    release_table("costs.csv", "cost", Interval(0, 10, 1), 4.0, "paid", drop=[], unit="row")
    ran = run(question[0], "paid", *question[1:])
    assert ran.code == 0, ran.err
    assert "Labels beyond the declared range 0 to 10 were clipped to it" in ran.out.partition("\n\n")[0]


def test_figures_of_classes_say_nothing_of_a_range(run, shared):
    """Nothing was clipped, and nothing stands for missing labels."""
    printed = run("describe", shared).out
    assert "clipped" not in printed
    assert "issing labels" not in printed


@pytest.mark.parametrize("question", [("describe",), ("learn", "--model", "softmax", "--output", "of.safetensors")])
@pytest.mark.parametrize("space", [Classes(["0", "1"], missing="0"), Interval(0, 10, 1, missing=0)], ids=type)
def test_figures_say_what_stands_for_missing_labels(run, tmp_path, monkeypatch, space, question):
    """Beside the result, before any figure of it, and in the text beside the release."""
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"age": np.arange(400) % 40, "found": np.where(np.arange(400) % 3, "1", "")})
    table.to_csv("found.csv", index=False)
    release_table("found.csv", "found", space, 4.0, "filled", drop=[], unit="row")
    model = [("ridge" if each == "softmax" and isinstance(space, Interval) else each) for each in question[1:]]
    ran = run(question[0], "filled", *model)
    assert ran.code == 0, ran.err
    said = f"Missing labels, if there were any, were taken to be {space.missing!r}. Figures count them as such."
    assert said in ran.out.partition("\n\n")[0]
    assert said in " ".join((tmp_path / "filled" / "_README.txt").read_text(encoding="utf-8").split())


def test_rows_without_a_treatment_are_left_out_and_counted(run, tmp_path, monkeypatch):
    """The effect is that of the function on all other rows, and a note says how many."""
    monkeypatch.chdir(tmp_path)
    rows, rng = 900, np.random.default_rng(2)
    drug = np.where(np.arange(rows) % 10 == 3, "", np.where(rng.random(rows) < 0.5, "yes", "no"))
    table = pd.DataFrame({"drug": drug, "age": rng.integers(20, 90, rows), "person": np.arange(rows) // 2})
    ill = np.where(rng.random(rows) < 0.3 + 0.3 * (drug == "yes"), "yes", "no")
    table.assign(ill=ill).to_csv("t.csv", index=False)
    release_table("t.csv", "ill", SPACE, 6.0, "gaps", drop=[], unit="person")
    ran = run("effect", "gaps", "--treatment", "drug", "--features", "age", "--json")
    assert ran.err.startswith("note: 90 of 900 rows have no 'drug' and are left out")
    kept = np.flatnonzero(drug)
    expected = treatment_effect(
        Release.load("gaps")[kept],
        public_columns("gaps").take(kept),
        treatment="drug",
        features=["age"],
        units=table["person"][kept],
    )
    (found,) = json.loads(ran.out)["effect"]["effects"]
    assert (found["rows"], found["difference"]["value"]) == (810, expected.effects[0].difference.value)
    whole = run("effect", "gaps", "--treatment", "person", "--treated", "1", "--features", "age")
    assert "are left out" not in whole.err
