"""Evaluation of a model on a release of units."""

import dataclasses
import inspect
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Release, release_table
from labeldp.learning.metrics import UnitsWarning, accuracy
from labeldp.learning.tables import evaluate, learn
from labeldp.learning.tables._part_sums import chosen_units
from labeldp.learning.tables._scores import class_scores
from labeldp.release import public_columns


@pytest.mark.parametrize("model", ["softmax", "boosting", "convex"])
def test_scores_take_rows_of_a_unit_as_dependent(tmp_path, monkeypatch, model):
    """Those of a model's own folds, whose rows were fitted on other people's; their column is no feature."""
    person, random = np.repeat(np.arange(60), 3), np.random.default_rng(0)
    frame = pd.DataFrame({"group": person, "x": random.normal(size=180), "y": random.integers(0, 2, 180)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes([0, 1]), 6.0, tmp_path / "out", drop=[], unit="group")
    form, seen = inspect.signature(class_scores), []

    def noted(*given, **named):
        seen.append(form.bind(*given, **named).arguments)
        return class_scores(*given, **named)

    monkeypatch.setattr("labeldp.learning.tables._learn.class_scores", noted)
    learned = learn(tmp_path / "out", model=model)
    assert learned.left_out == {"group": "it names the privacy unit"}
    (given,) = seen
    pairs = set(zip(person.tolist(), np.asarray(given["units"].numbers).tolist(), strict=True))
    assert len(pairs) == len(set(np.asarray(given["units"].numbers).tolist())) == 60
    assert all(len(set(given["folds"][person == each])) == 1 for each in range(60))


def test_evaluation_on_public_labels_takes_rows_of_one_person_as_dependent(tmp_path, monkeypatch):
    """Where the table has the column of the units that the model was learned from, also if some rows are judged."""
    rng, person = np.random.default_rng(3), np.repeat([f"P{i}" for i in range(40)], 5)
    label = np.repeat(rng.integers(0, 2, 40), 5)
    frame = pd.DataFrame({"person": person, "x": label + np.repeat(rng.normal(size=40), 5), "y": label})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.rename(columns={"person": "other"}).to_csv(tmp_path / "unnamed.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes([0, 1]), 20.0, tmp_path / "fit", keep=["x"], unit="person")
    model = learn(tmp_path / "fit", model="softmax", features=["x"]).model
    half = np.flatnonzero(chosen_units(np.arange(200, dtype=np.uint64), 0.5))
    for name, judged in (("t", np.arange(200)), ("unnamed", np.arange(200)), ("t", half)):
        monkeypatch.setattr("labeldp.learning.tables._evaluate._MOST_PUBLIC", len(judged))
        found = evaluate(model, tmp_path / f"{name}.csv", "y", public=True)
        release = Release.public(label[judged], Classes([0, 1]))
        units = person[judged] if name == "t" else None
        expected = accuracy(release, model.predict(frame[["x"]])[judged], units=units)
        assert dataclasses.astuple(found.accuracy) == pytest.approx(dataclasses.astuple(expected))


@pytest.mark.parametrize("kept", [True, False])
def test_evaluation_takes_rows_of_one_person_as_dependent(tmp_path, kept):
    """The interval is that of persons if their column was kept, and of rows if nobody can know them."""
    for seed, name in enumerate(("fit", "test")):
        rng = np.random.default_rng(seed)
        person = np.repeat(range(40), 5)
        label = np.repeat(rng.integers(0, 2, 40), 5)
        frame = pd.DataFrame({"person": person + 40 * seed, "x": label + np.repeat(rng.normal(size=40), 5), "y": label})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        release_table(
            tmp_path / f"{name}.csv", "y", Classes([0, 1]), 20.0, tmp_path / name,
            keep=["x", *(["person"] if kept else [])], unit="person", ledger=tmp_path / f"{name}-ledger", budget=20.0,
        )  # fmt: skip
    model = learn(tmp_path / "fit", model="softmax", features=["x"]).model
    with nullcontext() if kept else pytest.warns(UnitsWarning, match="units="):
        found = evaluate(model, tmp_path / "test", "y", public=False)
    table, release = public_columns(tmp_path / "test"), Release.load(tmp_path / "test")
    units = table["person"] if kept else "rows"
    expected = accuracy(release, model.predict(table), units=units)
    assert dataclasses.astuple(found.accuracy) == pytest.approx(dataclasses.astuple(expected))
    if kept:
        assert found.accuracy.error > 1.2 * accuracy(release, model.predict(table), units="rows").error
