"""An encoder on the command line: from two releases of the same images to models, predictions and pages."""

import json
import struct

import numpy as np
import pandas as pd
import pytest
from tests import onnx_files

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.features import read_images
from labeldp.learning.images import onnx_encoder
from labeldp.learning.tables import ModelChoice, learn_network, open_encoder, open_model

pytest.importorskip("onnxruntime")
STATED = ("--encoder-licence", "CC0-1.0", "--encoder-labels", "directions of other stripes")
REMARK = "the guarantee is about the labels of this release alone; it does not cover labels that the encoder was"


def stripes(rows, seed):
    """Noisy stripes of gray pixels, and whether they lie."""
    chance = np.random.default_rng(seed)
    lies = chance.random(rows) < 0.5
    waves = 128 + 100 * np.sin((np.arange(12) + chance.integers(0, 6, (rows, 1))) * np.pi / 3)
    images = np.where(lies[:, None, None], waves[:, :, None], waves[:, None, :])
    noisy = np.clip(images + chance.normal(0, 20, images.shape), 0, 255)
    return noisy.astype(np.uint8), np.where(lies, "lies", "stands")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with images, two releases with other labels, an encoder, and a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    images, labels = stripes(600, 0)
    for name, pixels in (("images", images), ("others", stripes(200, 1)[0])):
        (tmp_path / name).write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *pixels.shape) + pixels.tobytes())
    table = pd.DataFrame({"row": np.arange(600)})
    twins = (("shared", labels, 2.0), ("twin", np.roll(labels, 1), 2.0))
    for folder, values, epsilon in twins:
        space = Classes(["lies", "stands"])
        Curator(values, space, name="way").randomize(epsilon=epsilon).save(tmp_path / folder, table, keep=["row"])
    (tmp_path / "edges.onnx").write_bytes(onnx_files.encoder(shape=("batch", 1, 12, 12)))
    return tmp_path


def learned(run, *more):
    """The result of learning with the encoder of the file."""
    done = run("learn", "shared", "--images", "images", "--encoder", "edges.onnx", *more)
    assert done.code == 0, done.err
    return done


def test_a_model_names_its_encoder_and_is_as_good_as_it(run, place):
    """The result says what the encoder is, whose it is and what it learned from; so does the page, and the file."""
    told = learned(run, *STATED, "--output", "m.safetensors")
    for words in ("edges.onnx, SHA-256 ", "CC0-1.0", "directions of other stripes", REMARK):
        assert words in " ".join(told.out.replace("│", " ").split())
    document = json.loads(learned(run, *STATED, "--json", "--output", "again.safetensors").out)
    card = onnx_encoder("edges.onnx", licence="CC0-1.0", labels="directions of other stripes").card
    assert document["encoder"] == card.plain()
    assert any(note.startswith(REMARK) for note in document["notes"])
    (place / "learned.json").write_text(json.dumps(document), encoding="utf-8")
    assert run("report", "learned.json", "--output", "page.html").code == 0
    page = (place / "page.html").read_text(encoding="utf-8")
    assert all(words in page for words in (card.digest, "directions of other stripes", REMARK))
    assert open_model("m.safetensors").card == card
    done = run("predict", "m.safetensors", "--images", "others", "--encoder", "edges.onnx", "--output", "p.csv")
    assert done.code == 0, done.err
    assert (pd.read_csv("p.csv")["way_predicted"] == stripes(200, 1)[1]).mean() > 0.9


def test_features_do_not_depend_on_labels(run, place):
    """Two releases of the same images with other labels have the same features, byte for byte, in the same files."""
    learned(run, "--output", "m.safetensors")
    folder = place / "caches" / "labeldp" / "encoders"
    first = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert len(first) == 3
    for file in folder.iterdir():
        file.unlink()
    done = run("learn", "twin", "--images", "images", "--encoder", "edges.onnx", "--output", "twin.safetensors")
    assert done.code == 0, done.err
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == first


def test_another_encoder_is_refused(run, place):
    """A model predicts with the encoder that it was learned with, by its digest, and asks for its file."""
    learned(run, "--output", "m.safetensors")
    (place / "edges.onnx").write_bytes(onnx_files.encoder(shape=("batch", 1, 12, 12), seed=1))
    given = ("predict", "m.safetensors", "--images", "others", "--output", "p.csv")
    for more, message in (
        (("--encoder", "edges.onnx"), "expected the encoder that the model was learned with, edges.onnx of digest"),
        ((), "expected the file of the encoder edges.onnx, found none; pass it (--encoder)"),
        (("--encoder", "edges.pt"), "expected an encoder that is efficientnet-lite0, or a file that ends in .onnx"),
    ):
        done = run(*given, *more)
        assert done.code == 1
        assert message in " ".join(done.err.split())
    assert not (place / "p.csv").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ("--images", "images", "--model", "patches", "--encoder", "edges.onnx"),
            "with the model 'encoder' and with no",
        ),
        (("--images", "images", "--model", "encoder"), "expected an encoder (--encoder) with the model 'encoder'"),
        (("--encoder", "edges.onnx"), "expected images for a model of images"),
        (("--images", "images", *STATED), "expected an --encoder of which licence or labels are stated, found none"),
        (("--images", "images", "--encoder", "efficientnet-lite0", *STATED), "expected no licence and no labels with"),
        (("--model", "softmax", "--encoder", "edges.onnx"), "expected --encoder with a network"),
        (STATED, "expected an --encoder of which licence or labels are stated, found none"),
    ],
)
@pytest.mark.usefixtures("place")
def test_an_encoder_goes_with_images_and_no_other_model(run, given, message):
    """What contradicts itself is refused before anything is read."""
    done = run("learn", "shared", *given, "--output", "m.safetensors")
    assert done.code == 1
    assert message in " ".join(done.err.split())


@pytest.mark.usefixtures("place")
def test_a_model_without_an_encoder_takes_none(run):
    """Neither does a model of columns."""
    for more in (("--images", "images"), ("--features", "row")):
        assert run("learn", "shared", *more, "--output", f"{len(more[1])}.safetensors").code == 0
    for name, table, message in (
        ("6", ("--images", "others"), "expected no --encoder with a model that was learned without one"),
        ("3", ("images",), "expected no --encoder with a model that was learned without one"),
    ):
        given = ("--encoder", "edges.onnx", "--output", "p.csv")
        done = run("predict", f"{name}.safetensors", *table, *given)
        assert done.code == 1
        assert message in " ".join(done.err.split())


@pytest.mark.usefixtures("place")
def test_stages_learn_with_an_encoder(run):
    """Each stage takes the same features; the model names the encoder."""
    labels = stripes(600, 0)[1]
    pd.DataFrame({"row": np.arange(600), "way": labels}).to_csv("t.csv", index=False)
    given = ("--label", "way", "--classes", "lies,stands", "--epsilon", 2, "--keep", "row", "--images", "images")
    done = run("stages", "t.csv", *given, "--encoder", "edges.onnx", *STATED, "--output", "staged")
    assert done.code == 0, done.err
    assert open_model("staged.safetensors").card.labels == "directions of other stripes"


def test_a_forged_file_states_no_encoder_that_is_none(place):
    """Facts of a wrong type or length, and facts without an encoder, are no model."""
    encoder = open_encoder("edges.onnx")
    model = learn_network("shared", ModelChoice("encoder", images=read_images("images"), encoder=encoder)).model
    plain = model.network.plain()
    assert type(model.network).from_plain(plain).plain() == plain
    card = plain["takes"]["card"]
    for wrong in ({"digest": "G" * 64}, {"digest": "0" * 63}, {"labels": ""}, {"licence": "x" * 1001}, {"outputs": 0}):
        with pytest.raises(ValueError, match="no encoder writes this"):
            type(model.network).from_plain({**plain, "takes": {**plain["takes"], "card": {**card, **wrong}}})
    for name, takes in (("patches", plain["takes"]), ("encoder", {**plain["takes"]})):
        if name == "encoder":
            del takes["card"]
        with pytest.raises(ValueError, match="an encoder of images without its facts, or such facts of another"):
            type(model.network).from_plain({**plain, "name": name, "takes": takes})
    (place / "other.onnx").write_bytes(onnx_files.encoder(shape=("batch", 1, 12, 12), seed=2))
    with pytest.raises(InputError, match="expected the encoder that the model was learned with"):
        model.with_encoder("other.onnx")
