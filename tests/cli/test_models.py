"""Models on the command line: predictions in files, models of images from release to audit, and what is missing."""

import inspect
import re
import struct
import sys

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, learning, release_table
from labeldp.cli._options import EncoderOptions, ImageOptions, TrainingOptions
from labeldp.cli._stages import ModelOptions
from labeldp.learning.tables import learn


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_are_written(run, tmp_path, ending):
    """A class and its probabilities for each row, in order, from a table without labels too; nothing else of it."""
    frame = pd.DataFrame({"id": range(200), "age": np.arange(200) % 60, "town": ["north", "south"] * 100})
    frame.assign(ill=np.where(frame["age"] > 30, "yes", "no")).to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "ill", Classes(["no", "yes"]), 3.0, tmp_path / "shared", keep=["age", "town"])
    model = learn(tmp_path / "shared", model="softmax").model
    model.save(tmp_path / "m.safetensors")
    frame.to_parquet(tmp_path / "bare.parquet")
    for table in ("t.csv", "bare.parquet"):
        output = tmp_path / f"{table}.{ending}"
        done = run("predict", tmp_path / "m.safetensors", tmp_path / table, "--output", output)
        assert done.code == 0, done.err
        found = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
        assert list(found) == ["ill_predicted", "ill_probability_no", "ill_probability_yes"]
        assert found["ill_predicted"].tolist() == model.predict(frame).tolist()
        np.testing.assert_allclose(found.iloc[:, 1:], model.predict_proba(frame))


@pytest.mark.parametrize(("images", "model"), [("images-idx3-ubyte", "patches"), (None, "softmax")])
def test_the_model_that_is_taken_where_none_is_named(tmp_path, images, model):
    """With images it is that of ``learn``."""
    if images is not None:
        (tmp_path / images).write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 2, 8, 8) + bytes(128))
        images = tmp_path / images
    options = ModelOptions(images=ImageOptions(images), encoders=EncoderOptions(), training=TrainingOptions())
    assert options.choice().model == model


@pytest.mark.parametrize(
    ("command", "library", "kept", "message"),
    [
        ("learn", "sklearn", r"(tables|convex|sklearn)", r"; pip install .*'(pandas|scikit-learn)>="),
        ("learn --model torch:mlp", "torch", r"(torch|tables)", r"; pip install 'torch>="),
        ("stages --model torch:mlp", "torch", r"(torch|tables)", r"; pip install 'torch>="),
    ],
)
def test_without_the_extra_it_says_what_to_install(
    run, tmp_path, monkeypatch, table, secrets, states, command, library, kept, message
):
    """A missing library is named with the command that brings it, before a label is drawn.

    It comes last: modules that are imported anew have classes of their own.
    """
    for part, module in [*vars(learning).items()]:
        if inspect.ismodule(module):
            monkeypatch.setattr(learning, part, module)  # puts it back
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if re.match(rf"labeldp\.learning\.{kept}", name)]:
        monkeypatch.delitem(sys.modules, name)
    name, *more = command.split()
    given = (
        ("--label", "y", "--classes", ",".join(secrets), "--epsilon", 1, "--keep", "age") if name == "stages" else ()
    )
    done = run(name, table, *more, *given, "--output", tmp_path / "m")
    assert done.code == 1
    assert re.search(message, done.err)
    assert {state for ledger in tmp_path.glob("*ledger") for state in states(ledger)} <= {"void"}
