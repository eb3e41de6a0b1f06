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


def strokes(rows, seed):
    """Images of 8 x 8 points with a bright line, which lies or stands, and which it is."""
    random = np.random.default_rng(seed)
    codes = np.arange(rows) % 2
    images = random.integers(0, 60, (rows, 8, 8), np.uint8)
    for image, code, place in zip(images, codes, random.integers(0, 8, rows), strict=True):
        image[(place, slice(None)) if code else (slice(None), place)] = 255
    return images, codes


def accuracy(ran):
    """The accuracy that was printed, in percent."""
    assert ran.code == 0, ran.err
    return float(re.search(r" accuracy +│ +([\d.]+)%", ran.out)[1])


def test_images_by_the_names_of_their_files(run, tmp_path, monkeypatch):
    """A kept column joins rows with the files of a folder, in whatever order they are."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    images, codes = strokes(60, 0)
    (tmp_path / "png").mkdir()
    for number in range(60):
        image.fromarray(images[number]).save(tmp_path / "png" / f"{number:03}.png")
    order = np.random.default_rng(0).permutation(60)
    names = [f"{number:03}.png" for number in order]
    labels = np.array(["lies", "stands"])[codes[order]]
    pd.DataFrame({"file": names, "y": labels}).to_csv("t.csv", index=False)
    given = ("stages", "t.csv", "--label", "y", "--classes", "lies,stands", "--epsilon", 9, "--keep", "file")
    network = ("--model", "torch:convolutional", "--epochs", 10, "--batch-size", 10, "--images", "png")
    unnamed = run(*given, *network, "--output", "two")
    assert unnamed.code == 1
    assert "a folder of images needs --image-column COLUMN, the one" in unnamed.err
    named = ("--image-column", "file")
    done = run(*given, *network, *named, "--output", "out")
    assert done.code == 0, done.err
    judged = run("evaluate", "out.safetensors", "t.csv", "--images", "png", *named, "--labels-are-public")
    assert accuracy(judged) > 75
    for output, table in (("ordered.csv", ("t.csv", *named)), ("sorted.csv", ())):
        done = run("predict", "out.safetensors", *table, "--images", "png", "--output", output)
        assert done.code == 0, done.err
    by_name = pd.read_csv("sorted.csv")
    ordered = pd.read_csv("ordered.csv").assign(image=names)[list(by_name)]
    pd.testing.assert_frame_equal(ordered, by_name.iloc[order].reset_index(drop=True))


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
