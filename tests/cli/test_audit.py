"""``labeldp audit``: 0 where nothing beyond the claim was found, 1 where it was, 2 where nothing could be audited."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, DoubleResponse, RandomizedResponse, Release, release_table
from labeldp.learning.generators import fit_copula

MECHANISMS = """
import numpy as np
rng = np.random.default_rng()

def response(label, n, keep=0.731):
    other = {"zq-a": "zq-b", "zq-b": "zq-a"}[label]
    return np.where(rng.random(n) < keep, label, other)

def doubled(label, n):
    return response(label, n, 0.88)

def counted(label, n):
    return rng.integers(0, 2, n) + label

def one(label):
    return round(label + rng.laplace(0, 2), 3)

def clipped_below_alone(label):
    return round(max(label, 0.0) + rng.laplace(0, 1), 3)

def boom(label, n):
    raise ValueError("private words")

def short(label, n):
    return [label]

number = 7
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of mechanisms, from which the command is run."""
    (tmp_path / "zq_mechanisms.py").write_text(MECHANISMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


@pytest.fixture
def audit(run, here):
    """Audit a function of the module."""
    del here

    def auditing(name, *options, claim="1.01"):
        return run("audit", "--callable", f"zq_mechanisms:{name}", "--claim", claim, "--draws", "40000", *options)

    return auditing


def test_a_sound_function_holds(audit):
    """Nothing beyond the claim: exit code 0, with the claim, what was shown, how, and that this is no proof."""
    ran = audit("response", "--classes", "zq-a,zq-b", "--confidence", "0.999999")
    assert (ran.code, ran.err) == (0, "")
    assert "The claim of epsilon 1.01 was not refuted: epsilon is between" in ran.out
    assert "200,000" not in ran.out
    assert "confidence 0.999999" in ran.out
    assert "no proof of privacy" in ran.out


def test_a_broken_function_fails(audit):
    """More than the claim: exit code 1, with the event and the counts that show it."""
    ran = audit("doubled", "--classes", "zq-a,zq-b")
    assert (ran.code, ran.err) == (1, "")
    assert "The claim of epsilon 1.01 is wrong: epsilon is at least" in ran.out
    assert "from 'zq-a'" in ran.out or "from 'zq-b'" in ran.out


def test_whole_numbers_are_given_as_such(audit):
    """Classes that are whole numbers reach the function as whole numbers."""
    assert audit("counted", "--classes", "0,1").code == 1


def test_labels_of_a_range_are_its_ends_and_middle(audit):
    """A function of a real label is called with both ends, so that one that clips one side alone is caught."""
    assert audit("one", "--interval=-1,1,0.5", "--confidence", "0.999999").code == 0
    assert audit("clipped_below_alone", "--interval=-3,3,0.5").code == 1
    assert (
        audit(
            "clipped_below_alone",
            "--interval=-3,3,0.5",
            claim="0.5",
        ).code
        == 1
    )


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("short", ["--classes", "zq-a,zq-b"], "outputs, found 1"),
        ("number", ["--classes", "zq-a,zq-b"], "can be called, found int"),
        ("nothing", ["--classes", "zq-a,zq-b"], "found no such name"),
        ("response", [], "either --classes or --interval"),
        ("response", ["--classes", "zq-a,zq-b", "--interval", "0,1,0.5"], "either --classes or --interval"),
        ("response", ["--classes", "zq-a"], "at least two declared classes"),
        ("response", ["--classes", "zq-a,zq-b", "--delta", "1"], "below 1"),
        ("response", ["--classes", "zq-a,zq-b", "--delta", "nan"], "found nan"),
        ("response", ["--classes", "zq-a,zq-b", "--confidence", "2"], "below 1"),
        ("response", ["--interval", "0,1"], "LO,HI,STEP"),
    ],
)
def test_what_cannot_be_audited_ends_with_two(audit, name, options, words, as_users_call):
    """Bad usage, and functions that fail, end with exit code 2 and a reason that shows no label."""
    del as_users_call
    ran = audit(name, *options)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "zq-" not in ran.err


def test_a_function_that_fails_is_named_with_its_input(audit):
    """The declared label and the call at which it raised are told, but not what it said: that may hold data."""
    ran = audit("boom", "--classes", "zq-a,zq-b")
    assert (ran.code, ran.out) == (2, "")
    assert "found that it raised ValueError at call 1, for the declared label 'zq-a'; call it yourself with" in ran.err
    assert "private words" not in ran.err


@pytest.mark.parametrize("claim", ["0", "-1", "nan", "inf"])
def test_a_claim_that_none_can_be_ends_with_two(audit, claim):
    """Claims of zero and the like are refused."""
    assert audit("response", "--classes", "zq-a,zq-b", claim=claim).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["out", "--callable", "zq_mechanisms:response"],
        ["--callable", "zq_mechanisms:response", "--classes", "a,b"],
        ["--callable", "zq_nowhere:response", "--claim", "1", "--classes", "a,b"],
        ["out", "--claim", "1"],
        ["out", "--classes", "a,b"],
        ["--draws", "many"],
        ["out", "--truth", "t.csv", "--label", "y"],
        ["out", "--label", "y"],
        ["--callable", "zq_mechanisms:response", "--claim", "1", "--classes", "zq-a,zq-b", "--model", "m.skops"],
        ["--callable", "zq_mechanisms:response", "--claim", "1", "--classes", "zq-a,zq-b", "--profile"],
    ],
)
def test_bad_usage_ends_with_two(run, here, arguments):
    """Neither or both of a folder and a function, or options of the other, end with exit code 2."""
    del here
    assert run("audit", *arguments).code == 2


def test_a_release_is_audited(run, release, table, tmp_path):
    """A sound release holds, beside another of the same rows: each check, the law, the draw, and what is unknown."""
    for name in ("one", "two"):
        assert release(table, tmp_path / name, budget=2).code == 0
    ran = run("audit", tmp_path / "one", "--against", tmp_path / "two")
    assert (ran.code, ran.err) == (0, "")
    assert "FAILED" not in ran.out
    assert ran.out.count("ok  ") == 11
    assert "the channel, from its integers: The claim of epsilon 1 holds: epsilon is 1." in ran.out
    assert "features that predict the label reveal it at any epsilon" in ran.out


def test_a_release_is_attacked(run, release, table, tmp_path):
    """With true labels that are public, it is shown what attacks by the released label gain, and what is proven."""
    assert release(table, tmp_path / "out").code == 0
    ran = run("audit", tmp_path / "out", "--truth", table, "--label", "y", "--labels-are-public")
    assert (ran.code, ran.err) == (0, "")
    assert "gain of attacks on the labels" in ran.out
    assert "the released label, if features disclose nothing; no class above" in ran.out


@pytest.mark.parametrize("found", ["no such folder", "a folder without a certificate"])
def test_what_is_no_release_ends_with_two(run, tmp_path, found):
    """A path without a release is no claim that fails: exit code 2 and one line."""
    ran = run("audit", tmp_path / "typo" if found == "no such folder" else tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.strip().startswith("error: expected the folder of a release at ")
    assert f"found {found}; check the path" in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("option", ["model", "ending", "folder", "there already"])
def test_what_is_asked_for_is_checked_first(run, release, table, tmp_path, option):
    """A missing model, and a figure that could not be written, end with 2 before anything is shown or overwritten."""
    assert release(table, tmp_path / "out").code == 0
    (tmp_path / "kept.svg").write_text("kept", encoding="utf-8")
    figures = {"ending": "p.jpg", "folder": "nowhere/p.svg", "there already": "kept.svg"}
    asked = ["--figure", tmp_path / figures[option]] if option in figures else ["--model", tmp_path / "none.skops"]
    ran = run("audit", tmp_path / "out", *asked)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: expected")
    assert (tmp_path / "kept.svg").read_text(encoding="utf-8") == "kept"


@pytest.fixture
def redrawn(tmp_path):
    """The folder of rows a half of whose features were redrawn, of which one column tells the label; its generator."""
    random = np.random.default_rng(5)
    text = np.array(["no", "yes"])[np.arange(1500) % 2]
    rows = {"number": np.where(text == "yes", 1.0, 0.0) + random.normal(0, 0.3, 1500)}
    space = Classes(["no", "yes"])
    fitted = fit_copula(pd.DataFrame(rows), Release.public(text, space), "a study")
    fitted.save(tmp_path / "people.generator")
    random.shuffle(order := np.arange(1500))
    private = pd.DataFrame({"number": rows["number"][order] + random.normal(0, 0.01, 1500)})
    double = DoubleResponse(space, 1.0, fitted.generator(), 0.5)
    Curator(text[order], space).randomize_rows(double, private, divergences={2.0: 0.8}).save(tmp_path / "rows")
    return tmp_path / "rows"


def test_features_that_were_redrawn_are_attacked_as_such(run, redrawn, tmp_path):
    """A model of true features counts for the rows that kept theirs; one of mixed rows is taken as it is.

    So features and label together gain no less than the label alone, the guarantee with conditional features limits
    both, and nobody is told to redraw what was redrawn.
    """
    for name, options in (("true", ["--generator", tmp_path / "people.generator"]), ("mixed", [])):
        assert run("learn", redrawn, *options, "--output", tmp_path / f"{name}.skops").code == 0
    generator = ["--generator", tmp_path / "people.generator"]
    ran = run("audit", redrawn, "--model", tmp_path / "true.skops", *generator, "--profile")
    assert (ran.code, ran.err) == (0, "")
    lines = [[cell.strip() for cell in line.split("│")] for line in ran.out.splitlines() if "as believed" in line]
    believed = {cells[1]: float(cells[2].rstrip("%")) for cells in lines}
    assert believed["features and the released label"] >= believed["the released label"]
    assert "resampled with probability 50.0%, and the attack uses that" in ran.out
    assert "the guarantee with conditional features of this release does" in ran.out
    assert "by the guarantee with conditional features (order 2); no class above 5" in ran.out
    assert "--mechanism double" not in ran.out
    assert "features that predict the label reveal it at any epsilon" not in ran.out
    assert "limited by its guarantee with conditional features" in ran.out
    ran = run("audit", redrawn, "--model", tmp_path / "mixed.skops")
    assert (
        "resampled with probability 50.0%. The model's probabilities are taken to be for features as released"
        in ran.out
    )


def test_a_corrected_model_is_fitted_anew_with_its_generator_alone(run, redrawn, tmp_path):
    """Without the generator a corrected model of the release is refused, and a generator without a model too."""
    generator = ["--generator", tmp_path / "people.generator"]
    assert run("learn", redrawn, *generator, "--output", tmp_path / "true.skops").code == 0
    ran = run("audit", redrawn, "--model", tmp_path / "true.skops")
    assert ran.code == 2
    assert "expected the generator of the resampled features" in ran.err
    ran = run("audit", redrawn, *generator)
    assert (ran.code, ran.out) == (2, "")
    assert "together with --model" in ran.err


@pytest.fixture
def noise(tmp_path):
    """Releases of two tables of 300 coins beside forty columns that do not depend on them."""
    random = np.random.default_rng(3)
    for name in ("one", "other"):
        frame = pd.DataFrame(random.normal(size=(300, 40)), columns=[f"x{j}" for j in range(40)])
        frame.assign(y=random.choice(["no", "yes"], 300)).to_csv(tmp_path / f"{name}.csv", index=False)
        release_table(tmp_path / f"{name}.csv", "y", Classes(["no", "yes"]), 0.5, tmp_path / name, drop=[])
    return tmp_path


def shares_of(text, column):
    """A column of the table of attacks, by the attacker's knowledge; the first source of each."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    return {cells[0]: cells[column] for cells in reversed(lines) if len(cells) == 4}


def test_a_model_of_the_release_is_fitted_anew(run, noise):
    """A model that was learned from coins finds nothing in the same release: it says what ``learn`` said of it.

    Fitted on all rows it remembers the noise of their labels, which would judge it.
    """
    learned = run("learn", noise / "one", "--model", "boosting", "--output", noise / "model.skops", "--json")
    accuracy = f"{json.loads(learned.out)['scores']['accuracy']['value']:.1%}"
    ran = run("audit", noise / "one", "--model", noise / "model.skops")
    assert (ran.code, ran.err) == (0, "")
    assert shares_of(ran.out, 1)["features"] == accuracy
    assert "Features alone show no gain over the trivial attack" in ran.out
    assert "such a model was fitted anew on the others" in " ".join(ran.out.split())
    assert "if the model was not fitted" not in ran.out
    again = run("audit", noise / "other", "--model", noise / "model.skops")
    assert again.code == 0
    assert "fitted anew" not in again.out
    assert "unbiased if the model was not fitted" in again.out


def test_a_release_that_does_not_verify_fails(run, release, table, tmp_path):
    """Exit code 1, and what failed."""
    assert release(table, tmp_path / "out").code == 0
    certificate = tmp_path / "out" / "_certificate.json"
    body = json.loads(certificate.read_text(encoding="utf-8"))
    body["guarantee"]["epsilon"] = 0.5
    certificate.write_text(json.dumps(body), encoding="utf-8")
    ran = run("audit", tmp_path / "out")
    assert ran.code == 1
    assert ran.out.startswith("Not verified: do not rely on this release.\n")
    assert "FAILED" in ran.out


def test_the_same_release_twice_ends_with_two(run, release, table, tmp_path):
    """A release is not compared with itself."""
    assert release(table, tmp_path / "out").code == 0
    ran = run("audit", tmp_path / "out", "--against", tmp_path / "out")
    assert ran.code == 2
    assert "found the same one" in ran.err


def test_attacks_are_measured_for_each_group_and_row(run, tmp_path):
    """True positives at few false alarms and each group's share are shown; each row goes to a file for its owner."""
    random = np.random.default_rng(6)
    labels = random.choice(["no", "yes"], 4000)
    table = pd.DataFrame({"number": np.arange(4000), "region": random.choice(["zq-north", "zq-south"], 4000)})
    space = Classes(["no", "yes"])
    Curator(labels, space, name="y").randomize(RandomizedResponse(space, 2.0)).save(tmp_path / "out", table, keep="all")
    table.assign(y=labels).to_csv(tmp_path / "truth.csv", index=False)
    public = ("--truth", tmp_path / "truth.csv", "--label", "y", "--labels-are-public", "--group", "region")
    rows = tmp_path / "private-rows.csv"
    ran = run("audit", tmp_path / "out", *public, "--private-rows", rows)
    assert (ran.code, ran.err) == (0, "")
    for words in ("of 'yes' seen, at 0.1% false alarms", "of group 'zq-north' guessed right", "mean and most"):
        assert words in ran.out
    assert rows.stat().st_mode & 0o777 == 0o600
    written = pd.read_csv(rows)
    assert list(written) == ["row", "guess", "sure without the released label", "sure with it"]
    assert (written["row"] == np.arange(4000)).all()
    assert 0.85 < written["sure with it"].mean() < 0.9  # e^2 / (1 + e^2)
    assert 0.85 < (written["guess"] == labels).mean() < 0.91
    again = run("audit", tmp_path / "out", *public, "--json")
    schema = json.loads(run("schema", "audit").out)
    jsonschema = pytest.importorskip("jsonschema", reason="it checks schemas")
    jsonschema.validate(json.loads(again.out), schema)
    assert [each["knows"] for each in json.loads(again.out)["measures"]] == [
        "nothing about the row",
        "the released label",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--private-rows", "rows.csv"], "a file name with 'private' in it"),
        (["--private-rows", "out/private.csv"], "a file outside of out"),
        (["--private-rows", "no/private.csv"], "an existing folder"),
        (["--group", "x"], "--group together with --truth"),
        (["--truth", "t.csv", "--label", "y", "--labels-are-public", "--group", "zq"], "Columns: "),
    ],
)
def test_rows_are_written_for_the_holder_alone(run, tmp_path, monkeypatch, options, words):
    """A file of rows that could be shared by accident, or cannot be written, and an unknown group are refused."""
    monkeypatch.chdir(tmp_path)
    table, space = pd.DataFrame({"x": np.arange(40)}), Classes(["no", "yes"])
    Curator(["no", "yes"] * 20, space, name="y").randomize(RandomizedResponse(space, 2.0)).save(
        "out", table, keep="all"
    )
    table.assign(y=["no", "yes"] * 20).to_csv("t.csv", index=False)
    ran = run("audit", "out", *options)
    assert ran.code == 2
    assert words in ran.err
    assert not list(tmp_path.rglob("*private*"))


def test_an_audit_says_where_it_has_no_bound_of_what_columns_disclose(run, tmp_path):
    """Of three classes nothing is bounded without assumptions, and that is not passed over in silence."""
    labels = ["a", "b", "c"] * 100
    folder = (
        Curator(labels, Classes(["a", "b", "c"]))
        .randomize(epsilon=1.0)
        .save(tmp_path / "shared", pa.table({"x": range(300)}), keep=["x"])
    )
    done = run("audit", folder)
    assert done.code == 0, done.err
    assert "disclose together is not bounded here: that takes two classes" in " ".join(done.out.split())
