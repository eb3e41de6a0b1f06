"""Predictions of tables and folders, batch by batch."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labeldp.learning.tables._evaluate as evaluate_module
import labeldp.release.released._public as public_module
from labeldp import Classes, release_table
from labeldp.cli import main
from labeldp.errors import TableError
from labeldp.learning.features import UnknownCategoryWarning
from labeldp.learning.tables import evaluate, learn, predict_table, predicted_batches


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of a town and a number, and its file."""
    home, chance = tmp_path_factory.mktemp("model"), np.random.default_rng(0)
    frame = pd.DataFrame({"x": chance.normal(size=400), "town": chance.choice(np.array(["bath", "rome"]), 400)})
    frame.assign(y=np.where(frame["x"] > 0, "yes", "no")).to_csv(home / "t.csv", index=False)
    release_table(home / "t.csv", "y", Classes(["no", "yes"]), 6.0, home / "o", drop=[], unit="row")
    learned = learn(home / "o", model="softmax").model
    return learned, learned.save(home / "m.safetensors")


def folder_of(tmp_path, towns):
    """A folder of two files of 150 rows."""
    (tmp_path / "f").mkdir()
    for part in range(2):
        rows = {"x": np.linspace(-1, 1, 150) + part, "town": [towns[row % len(towns)] for row in range(150)]}
        pd.DataFrame(rows).to_csv(tmp_path / "f" / f"{part}.csv", index=False)
    return tmp_path / "f"


def test_batches_put_together_are_the_table(model, tmp_path, monkeypatch):
    """Small batches have the same predictions as one of all rows, and none is empty."""
    folder = folder_of(tmp_path, ["bath", "rome"])
    whole = predict_table(model[0], folder)
    monkeypatch.setattr(public_module, "_ROWS_PER_BATCH", 40)
    batches = list(predicted_batches(model[0], folder))
    assert len(batches) >= 8
    assert min(batch.num_rows for batch in batches) > 0
    assert pa.concat_tables(batches).equals(whole)
    assert whole.num_rows == 300


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_command_writes_a_folder_batch_by_batch(model, tmp_path, monkeypatch, capsys, ending):
    """The file of predictions has all rows in their order, and what is said counts them."""
    folder, output = folder_of(tmp_path, ["bath", "rome"]), tmp_path / f"p.{ending}"
    monkeypatch.setattr(public_module, "_ROWS_PER_BATCH", 40)
    assert main(["predict", str(model[1]), str(folder), "--output", str(output)]) == 0
    assert "300 rows" in capsys.readouterr().out
    found = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
    pd.testing.assert_frame_equal(found, predict_table(model[0], folder).to_pandas())


def test_scores_are_those_of_one_batch(model, tmp_path, monkeypatch):
    """Public labels and released ones of patients give the same scores, with the same errors, in small batches."""
    chance = np.random.default_rng(1)
    frame = pd.DataFrame({"x": chance.normal(size=300), "town": "bath", "who": np.arange(300) // 3})
    frame.assign(y=np.where(frame["x"] > 0.3, "yes", "no")).to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "y", Classes(["no", "yes"]), 3.0, tmp_path / "o", drop=[], unit="who")
    found = []
    for rows in (1 << 18, 40):
        monkeypatch.setattr(public_module, "_ROWS_PER_BATCH", rows)
        public = evaluate(model[0], tmp_path / "t.csv", "y", public=True)
        released = evaluate(model[0], tmp_path / "o", "y", public=False)
        found.append([getattr(each, name) for each in (public, released) for name in ("accuracy", "auc", "log_loss")])
        assert public.rows == released.rows == 300
    assert found[0] == found[1]
    assert found[0][0].value > 0.7
    assert found[0][3].error > 0.0


def test_a_warning_is_given_once(model, tmp_path, monkeypatch):
    """Towns that the model does not know are told of in the first batch alone."""
    folder = folder_of(tmp_path, ["oslo", "kyiv"])
    monkeypatch.setattr(public_module, "_ROWS_PER_BATCH", 50)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert sum(batch.num_rows for batch in predicted_batches(model[0], folder)) == 300
    assert [each.category for each in caught].count(UnknownCategoryWarning) == 1


def test_a_table_without_rows_is_refused(model, tmp_path):
    """No rows are no predictions."""
    (tmp_path / "e.csv").write_text("x,town\n")
    with pytest.raises(TableError, match="at least one row"):
        predict_table(model[0], tmp_path / "e.csv")


def many(seed, rows=6_000):
    """Rows of patients with two each, whose labels follow a number with few mistakes."""
    chance = np.random.default_rng(seed)
    x = chance.normal(size=rows).round(3)
    wrong = chance.random(rows) < 0.1
    labels = np.where((x > 0) ^ wrong, "yes", "no")
    town = chance.choice(np.array(["bath", "rome"]), rows)
    return pd.DataFrame({"x": x, "town": town, "patient": np.arange(rows) // 2 + seed * rows, "y": labels})


def test_public_labels_of_many_rows_are_judged_by_some_of_them(model, tmp_path, monkeypatch, capsys):
    """At most so many rows are kept, the same ones however the table is cut, and the command says among how many."""
    many(1).to_parquet(tmp_path / "t.parquet")
    every = evaluate(model[0], tmp_path / "t.parquet", "y", public=True)
    assert (every.rows, every.of_rows) == (6_000, None)
    monkeypatch.setattr(evaluate_module, "_MOST_PUBLIC", 2_000)
    found = []
    for batch in (1 << 18, 700, 33):
        monkeypatch.setattr(public_module, "_ROWS_PER_BATCH", batch)
        found.append(evaluate(model[0], tmp_path / "t.parquet", "y", public=True))
    assert {(each.rows, each.of_rows, each.accuracy, each.auc) for each in found} == {
        (found[0].rows, 6_000, found[0].accuracy, found[0].auc)
    }
    assert 1_200 < found[0].rows <= 2_000
    assert abs(found[0].accuracy.value - every.accuracy.value) < 4 * found[0].accuracy.error
    assert found[0].accuracy.error > 1.5 * every.accuracy.error
    assert main(["evaluate", str(model[1]), str(tmp_path / "t.parquet"), "--label", "y", "--labels-are-public"]) == 0
    assert "that a public hash chose among 6,000" in " ".join(capsys.readouterr().out.split())


def test_a_release_that_does_not_fit_is_judged_by_whole_units(model, tmp_path, monkeypatch):
    """Some units are judged with all of their rows, whose number is said, and the interval is that of units."""
    many(2).to_parquet(tmp_path / "t.parquet")
    release_table(tmp_path / "t.parquet", "y", Classes(["no", "yes"]), 6.0, tmp_path / "o", drop=[], unit="patient")
    every = evaluate(model[0], tmp_path / "o", "y", public=False)
    seen, real = [], evaluate_module.class_scores
    monkeypatch.setattr(evaluate_module, "rows_in_memory", lambda *_: 2_000)
    monkeypatch.setattr(
        evaluate_module,
        "class_scores",
        lambda *given, units: seen.append(units) or real(*given, units=units),
    )
    found = evaluate(model[0], tmp_path / "o", "y", public=False)
    assert (every.of_rows, found.of_rows) == (None, 6_000)
    assert 1_500 < found.rows < 2_500
    assert set(np.bincount(seen[0])) <= {0, 2}
    assert abs(found.accuracy.value - every.accuracy.value) < 4 * found.accuracy.error
