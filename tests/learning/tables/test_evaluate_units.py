"""Evaluation of a model on a release of units."""

import dataclasses
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Release, release_table
from labeldp.learning.metrics import UnitsWarning, accuracy
from labeldp.learning.tables import evaluate, learn
from labeldp.release import public_columns


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
