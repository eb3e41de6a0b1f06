"""Learning a real label on the command line, and judging what came of it, in the unit of the label."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Interval, release_table
from labeldp.errors import InputError
from labeldp.learning.metrics import Estimate
from labeldp.learning.tables import NumberScores, TableModel, evaluate, learn
from labeldp.results import LearnedModel, learned_part
from labeldp.results._scores import _number

SPACE = Interval(0.0, 120.0, 1.0)


def costs(rows, seed):
    """A table of a number with gaps, text and a flag, and a real label that the first two tell."""
    random = np.random.default_rng(seed)
    age, town = random.integers(20, 80, rows).astype(float), random.choice(np.array(["north", "south"]), rows)
    cost = np.clip(0.9 * age + 25.0 * (town == "north") + random.normal(0, 5, rows), 0.0, 120.0).round()
    age[random.random(rows) < 0.05] = np.nan
    return pd.DataFrame({"age": age, "town": town, "smokes": random.random(rows) < 0.3, "cost": cost})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two tables as CSV, and a release of each at a large epsilon."""
    folder = tmp_path_factory.mktemp("costs")
    for name, seed in (("train", 1), ("test", 2)):
        costs(1500, seed).to_csv(folder / f"{name}.csv", index=False)
        release_table(
            folder / f"{name}.csv", "cost", SPACE, 4.0, folder / f"{name}-shared", drop=[], other_people="made up"
        )
    return folder


@pytest.fixture(scope="module")
def learned(folder):
    """A linear model of the release, and where it was kept."""
    found = learn(folder / "train-shared", model="ridge")
    found.model.save(folder / "model.skops")
    return found


def rows_of(text):
    """The figures of a printed table by their names."""
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    return {name: value for name, value, _ in cells}


def squared(root):
    """The square of a printed root; where noise made the estimate negative, nothing is printed, and 0 is near it."""
    return 0.0 if root.startswith("too few rows to tell") else float(root) ** 2


def test_a_release_of_numbers_gives_a_model_and_its_error(folder, run, tmp_path):
    """What 'learn' prints from released labels is near what true labels of another table say, in their unit.

    The mean square has a deviation below 30 on released labels, so that 170 raise a false alarm below 1e-6; saying the
    mean has one of 400.
    """
    kept = tmp_path / "model.skops"
    done = run("learn", folder / "train-shared", "--output", kept)
    assert done.code == 0, done.err
    assert "epsilon 4" in done.out
    judged = run("evaluate", kept, folder / "test.csv", "--label", "cost", "--labels-are-public")
    assert judged.code == 0, judged.err
    found, true = rows_of(done.out), rows_of(judged.out)
    error, baseline = (float(true[name]) for name in ("root mean squared error (RMSE)", "RMSE of predicting the mean"))
    assert error < 0.7 * baseline
    low, high = (f"{end:g}" for end in (SPACE.low, SPACE.high))
    clipped = f"Labels below {low} or above {high}, the range that was declared, are scored as its ends."
    assert clipped in " ".join(judged.out.split())
    assert float(true["mean absolute error"]) < error
    assert float(true["share of variance explained (R2)"]) == pytest.approx(1 - (error / baseline) ** 2, abs=0.01)
    assert abs(squared(found["root mean squared error (RMSE)"]) - error**2) < 170
    done = run("predict", kept, folder / "test.csv", "--output", tmp_path / "p.csv")
    assert done.code == 0, done.err
    written, table = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(folder / "test.csv")
    assert list(written) == ["cost_predicted"]
    assert np.sqrt(((written["cost_predicted"] - table["cost"].clip(SPACE.low, SPACE.high)) ** 2).mean()) < 1.01 * error
    other = run("evaluate", kept, folder / "test-shared", "--label", "cost", "--released")
    assert other.code == 0, other.err
    assert abs(squared(rows_of(other.out)["root mean squared error (RMSE)"]) - error**2) < 170


def test_other_models_are_kept_too(folder, tmp_path):
    """Every model of real labels can be written and opened, and is judged by numbers."""
    for model in ("neighbours", "boosting", "convex"):
        found = learn(folder / "train-shared", model=model, features=["age"])
        path = found.model.save(tmp_path / f"{model}.skops")
        scores = evaluate(TableModel.load(path), folder / "test-shared", "cost", public=False)
        assert isinstance(scores, NumberScores)
        assert scores.gain.value > 0


def test_one_bit_of_a_label_bounds_the_error(folder, run, tmp_path):
    """A law that does not tell squares gives bounds of the error, and the gain, which is six deviations from zero."""
    release_table(
        folder / "train.csv", "cost", SPACE, 4.0, tmp_path / "bit", drop=[], mechanism="one-bit",
        ledger=tmp_path / "ledger", budget=20.0,
    )  # fmt: skip
    done = run("learn", tmp_path / "bit", "--model", "ridge", "--output", tmp_path / "model.skops")
    assert done.code == 0, done.err
    found = rows_of(done.out)
    assert " and " in found["root mean squared error (RMSE) lies between"]
    assert float(found["MSE improvement over predicting the mean"]) > 0
    assert "only bounded" in done.out


def test_ridge_does_not_learn_classes(tmp_path):
    """A model of real labels refuses a release of classes."""
    pd.DataFrame({"x": [*range(20)] * 2, "y": ["a", "b"] * 20}).to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes(["a", "b"]), 1.0, tmp_path / "out", drop=[])
    with pytest.raises(InputError, match="a model of classes among"):
        learn(tmp_path / "out", model="ridge")


@pytest.mark.parametrize(
    ("model", "mechanism"),
    [
        ("auto", "laplace"),
        ("ridge", "laplace"),
        ("neighbours", "laplace"),
        ("convex", "laplace"),
        ("auto", "bins"),
        ("ridge", "bins"),
    ],
)
def test_many_texts_and_few_numbers_are_learned_from(model, mechanism, run, tmp_path):
    """Columns whose texts make sparse features give a model, under laws with and without a bias."""
    random = np.random.default_rng(4)
    towns = random.choice([f"t{i}" for i in range(40)], 600)
    frame = pd.DataFrame({"town": towns, "job": random.permutation(towns), "age": random.integers(0, 9, 600)})
    frame["cost"] = np.where(frame["town"] < "t2", 80.0, 20.0)
    frame.to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "cost", SPACE, 6.0, tmp_path / "out", drop=[], mechanism=mechanism)
    done = run("learn", tmp_path / "out", "--model", model, "--output", tmp_path / "m.skops")
    assert (done.code, done.err) == (0, "")
    assert float(rows_of(done.out)["MSE improvement over predicting the mean"]) > 0


@pytest.mark.parametrize("model", ["neighbours", "convex"])
def test_bins_are_refused_where_numbers_are_taken_for_labels(model, folder, tmp_path):
    """A model that takes each released number for the label says that bins are none, and what to use."""
    given = {"drop": [], "mechanism": "bins", "ledger": tmp_path / "ledger", "budget": 40.0}
    release_table(folder / "train.csv", "cost", SPACE, 4.0, tmp_path / "bins", **given)
    with pytest.raises(InputError, match=f"unbiased released numbers for {model}, found bins"):
        learn(tmp_path / "bins", model=model)


def test_an_error_that_noise_hides_is_not_zero():
    """Where the estimate of a mean square is below zero its root is not printed as if it were none.

    For an interval half as wide as the upper end, 100 rows become 100 (3.92 5 / 8)^2 = 600.2, rounded up.
    """
    hidden = _number(Estimate(-3.0, 5.0, 0.0, 16.0), 100, root=True)
    assert hidden == ("too few rows to tell; about 610 would do", "0 to 4")
    assert _number(Estimate(9.0, 1.0, 4.0, 16.0), 100, root=True) == ("3", "2 to 4")


def test_a_model_that_predicts_the_mean_says_so_first(run, tmp_path):
    """Where features do not help, the mean is what a model predicts: no improvement over it is the first line."""
    chance = np.random.default_rng(3)
    pd.DataFrame({"x": chance.normal(size=300), "cost": chance.integers(0, 121, 300)}).to_csv(tmp_path / "t.csv")
    asked = ("--label", "cost", "--interval", "0,120,1", "--epsilon", 0.05, "--keep", "x")
    assert run("release", tmp_path / "t.csv", *asked, "--output", tmp_path / "shared").code == 0
    for model in ("auto", "ridge"):
        found = learn(tmp_path / "shared", model=model)
        fitted = found.model.estimator
        share = sum(fitted.weights_.values()) if model == "auto" else fitted.steps[-1][1].share_
        assert share or found.constant == "the mean label"
        for each in (dataclasses.replace(found, constant=""), dataclasses.replace(found, constant="the mean label")):
            text = "\n".join(learned_part(LearnedModel.of(each)).lead)
            assert text.startswith("The model predicts the mean label for every row") == bool(each.constant)
            assert ("MSE improvement" in text.partition("Learned")[0]) == (not each.constant)


@pytest.mark.usefixtures("learned")
def test_rows_that_may_be_those_of_the_release_are_noted(folder, run):
    """Scores on the table that a model was learned from are too good: as many rows are noted, fewer are not."""
    few = folder / "few.csv"
    costs(700, 5).to_csv(few, index=False)
    for table, noted in ((folder / "train.csv", True), (few, False)):
        ran = run("evaluate", folder / "model.skops", table, "--labels-are-public")
        assert ran.code == 0, ran.err
        assert ("the model was learned from as many rows (1,500)" in ran.err) == noted
    assert run("evaluate", folder / "model.skops", folder / "test-shared", "--released").err == ""
