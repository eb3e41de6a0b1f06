"""Encoders of images: sizes and channels, the cache, and ONNX files, hostile ones among them."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest
from tests import onnx_files

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.features import EncoderCard
from labeldp.learning.images import EncoderFeatures, ImageEncoder, PatchClassifier, onnx_encoder
from labeldp.learning.images._image_encoder import check_message

SPACE = Classes(["no", "yes"])
CARD = EncoderCard("edges", "0" * 64, "CC0-1.0", "none", (3, 12, 12), 3)
IMAGES = np.random.default_rng(0).integers(0, 256, (300, 3, 12, 12), dtype=np.uint8)


class Counted:
    """The mean of each channel, and how many images were seen."""

    seen = 0

    def __call__(self, images):
        """Means, once more counted."""
        self.seen += len(images)
        return images.mean(axis=(2, 3)) * np.arange(1, 4)


@pytest.fixture
def counted(tmp_path):
    """An encoder with a cache in a folder that is not there yet."""
    return ImageEncoder(CARD, Counted(), tmp_path / "caches" / "encoders")


def test_images_are_encoded_once(counted):
    """They come from the cache from then on, to the bit; other images, and another encoder, do not."""
    first = counted(IMAGES)
    np.testing.assert_allclose(first, IMAGES.mean(axis=(2, 3)) * [1, 2, 3], rtol=1e-6)
    assert counted(IMAGES).tobytes() == first.tobytes()
    assert counted.run.seen == 300
    counted(IMAGES[:256])
    assert counted.run.seen == 300
    counted(IMAGES[1:257])
    assert counted.run.seen == 556
    other = dataclasses.replace(counted, card=dataclasses.replace(CARD, digest="1" * 64))
    other(IMAGES)
    assert counted.run.seen == 856


def test_features_in_the_cache_are_for_this_user_alone(counted):
    """So are the files of a usual mask of modes; without them nothing but time is lost."""
    first = counted(IMAGES)
    files = sorted(counted.cache.iterdir())
    assert [file.stat().st_mode & 0o777 for file in (counted.cache, *files)] == [0o700, 0o600, 0o600]
    for file in files:
        file.unlink()
    assert counted(IMAGES).tobytes() == first.tobytes()
    assert counted.run.seen == 600


@pytest.mark.parametrize("change", ["cut", "swapped", "others may write", "linked", "longer"])
def test_features_that_were_touched_are_computed_again(counted, change):
    """Files that are cut short, of other images, or that somebody else can have written are not read."""
    wanted = counted(IMAGES)
    first, second = sorted(counted.cache.iterdir(), key=lambda file: -file.stat().st_size)
    content = first.read_bytes()
    if change == "cut":
        first.write_bytes(content[:-4])
    elif change == "longer":
        first.write_bytes(content + bytes(4))
    elif change == "swapped":
        counted(IMAGES[1:257])
        (third,) = set(counted.cache.iterdir()) - {first, second}
        third.replace(first)
    elif change == "others may write":
        first.write_bytes(content[:-4] + bytes(4))
        first.chmod(0o666)
    else:
        first.rename(counted.cache / "elsewhere")
        first.symlink_to(counted.cache / "elsewhere")
        (counted.cache / "elsewhere").write_bytes(content[:-4] + bytes(4))
    before = counted.run.seen
    assert counted(IMAGES).tobytes() == wanted.tobytes()
    assert counted.run.seen == before + 256


def test_a_cache_that_cannot_be_written_costs_time_alone(tmp_path):
    """Such as one whose place is taken by a file."""
    (tmp_path / "taken").write_bytes(b"")
    encoder = ImageEncoder(CARD, Counted(), tmp_path / "taken")
    assert encoder(IMAGES[:2]).shape == encoder(IMAGES[:2]).shape == (2, 3)
    assert encoder.run.seen == 4


def test_progress_is_told_in_images(counted):
    """Each part of the images is one step."""
    steps = []
    counted(IMAGES, lambda *step: steps.append(step))
    assert steps == [("encode", 256, 300), ("encode", 300, 300)]


def test_images_take_the_size_and_the_channels_of_the_encoder():
    """A gray image fills three channels; a corner of another size stays where it is."""
    encoder = ImageEncoder(CARD, lambda images: images[:, :, 0, 0].astype(float))
    gray = np.zeros((2, 1, 24, 24), np.uint8)
    gray[1, :, :4, :4] = 200
    found = encoder(gray)
    assert (found[0] == 0).all()
    assert len(set(found[1])) == 1
    assert found[1, 0] > 150
    with pytest.raises(InputError, match="expected gray images for an encoder of gray images, found 3 channels"):
        ImageEncoder(dataclasses.replace(CARD, inputs=(1, 12, 12)), Counted())(IMAGES)


@pytest.mark.parametrize(
    ("images", "run", "message"),
    [
        (IMAGES / 255.0, Counted(), "expected pixels as bytes from 0 to 255 for an encoder, found float64"),
        (IMAGES, lambda images: np.full((len(images), 3), np.nan), "expected finite features by an encoder"),
        (IMAGES, lambda images: np.ones((len(images), 4)), r"expected features of shape \(256, 3\) by an encoder"),
    ],
    ids=["floats", "not finite", "another number"],
)
def test_what_is_no_feature_of_an_image_is_refused(images, run, message):
    """Pixels of another range, and numbers that no linear model takes."""
    with pytest.raises(InputError, match=message):
        ImageEncoder(CARD, run)(images)


def test_a_classifier_learns_from_features_as_from_images():
    """Components of features have length one, and the classifier finds what half of them say."""
    chance = np.random.default_rng(0)
    labels = np.repeat([0, 1], 400)
    embedded = chance.normal(size=(800, 20)) + np.outer(labels, np.repeat([3.0, 0.0], 10))
    release = Curator(np.array(["no", "yes"])[labels], SPACE).randomize(epsilon=2.0)
    model = PatchClassifier((4, 20)).fit(embedded, release)
    assert (model.predict(embedded) == np.array(["no", "yes"])[labels]).mean() > 0.95
    assert isinstance(model.features_, EncoderFeatures)
    np.testing.assert_allclose(np.linalg.norm(model.features_.transform(embedded), axis=1), 1.0, rtol=1e-5)
    with pytest.raises(InputError, match="expected 20 features, as in fit, found 19"):
        model.predict(embedded[:, :19])


@pytest.fixture
def written(tmp_path):
    """A function of the bytes of a file that returns its path; the runtime is an extra."""
    pytest.importorskip("onnxruntime")

    def write(content):
        path = tmp_path / "encoder.onnx"
        path.write_bytes(content)
        return path

    return write


def responses(images, shape=(8, 3, 3, 3)):
    """The mean size of responses to the filters of the file, place by place."""
    filters = np.random.default_rng(0).normal(size=shape)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(2, 3))
    return np.abs(np.einsum("nchwij,fcij->nfhw", windows, filters)).mean(axis=(2, 3))


def test_an_encoder_in_a_file_computes_its_graph(written):
    """Of images that are scaled as ImageNet's, or of the bytes themselves; one at a time if it takes no more."""
    unit = (IMAGES[:9] / 255.0 - np.array([0.485, 0.456, 0.406])[:, None, None]) / np.array([0.229, 0.224, 0.225])[
        :, None, None
    ]
    for shape in (("batch", 3, 12, 12), (1, 3, 12, 12)):
        found = onnx_encoder(written(onnx_files.encoder(shape=shape)), licence="CC0-1.0", labels="none")
        np.testing.assert_allclose(found(IMAGES[:9]), responses(unit), rtol=1e-4)
        assert (found.card.name, found.card.licence, found.card.labels) == ("encoder.onnx", "CC0-1.0", "none")
        assert (found.card.inputs, found.card.outputs) == ((3, 12, 12), 8)
    of_bytes = onnx_encoder(written(onnx_files.encoder(kind=2)))
    np.testing.assert_allclose(of_bytes(IMAGES[:9]), responses(IMAGES[:9].astype(float)), rtol=1e-4)
    assert (of_bytes.card.licence, of_bytes.card.labels) == ("not stated", "not stated")
    gray = onnx_encoder(written(onnx_files.encoder(shape=("batch", 1, 12, 12))))
    np.testing.assert_allclose(gray(IMAGES[:9, :1]), responses(IMAGES[:9, :1] / 255.0, (8, 1, 3, 3)), rtol=1e-4)


def repeated(times):
    """A graph that repeats an image below itself, and takes the mean of each channel."""
    count = np.array([1, 1, times, 1], "<i8").tobytes()
    nodes = [
        onnx_files.node("Tile", ["images", "times"], "large"),
        onnx_files.node("GlobalAveragePool", ["large"], "f"),
    ]
    graph = onnx_files.message(
        *((1, each) for each in nodes),
        (2, "encoder"),
        (5, onnx_files.message((1, 4), (2, 7), (8, "times"), (9, count))),
        (11, onnx_files.value("images", 1, ("batch", 3, 12, 12))),
        (12, onnx_files.value("f", 1, ("batch", 3, 1, 1))),
    )
    return onnx_files.message((1, 8), (8, onnx_files.message((1, ""), (2, 13))), (7, graph))


#: A program that opens an encoder with a bound of 64 MB on the memory of graphs.
BOUNDED = """
import sys
from labeldp.errors import InputError
from labeldp.learning.images import _image_encoder as images
images._MOST_MEMORY = 1 << 26
try:
    print(images.onnx_encoder(sys.argv[1]).card.outputs)
except InputError as problem:
    print(problem)
"""


@pytest.mark.parametrize(("times", "said"), [(1 << 10, "3\n"), (1 << 16, "found none")])
def test_a_graph_takes_no_more_memory_than_a_bound(written, times, said):
    """An encoder of a few hundred bytes that asks for two megabytes is opened, and one that asks for 113 is refused."""
    path = written(repeated(times))
    assert path.stat().st_size < 300
    done = subprocess.run([sys.executable, "-c", BOUNDED, path], capture_output=True, text=True, check=True)
    assert said in done.stdout


ELSEWHERE = (13, onnx_files.message((1, "location"), (2, "/etc/passwd")))
HOSTILE = {
    "weights in another file": {"weight": [ELSEWHERE]},
    "weights said to be elsewhere": {"weight": [(14, 1)]},
    "a loop": {"nodes": [onnx_files.node("Loop", ["sizes"], "more", onnx_files.loop())]},
    "a weight in an attribute": {
        "nodes": [
            onnx_files.node("Constant", ["sizes"], "more", onnx_files.message((5, onnx_files.message(ELSEWHERE))))
        ]
    },
    "a sparse weight": {"graph": [(15, onnx_files.message((1, onnx_files.message(ELSEWHERE))))]},
    "functions": {"model": [(25, onnx_files.message((1, "f")))]},
    "training": {"model": [(20, onnx_files.message((1, b"")))]},
    "another domain": {"nodes": [onnx_files.node("EPContext", ["sizes"], "more", domain="com.microsoft")]},
}


@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_reaches_beyond_itself_is_refused(written, parts, monkeypatch):
    """Before the runtime sees it: what names further files, does not end, or is no standard operator."""
    monkeypatch.setattr("onnxruntime.InferenceSession", None)
    nodes = parts.get("nodes", ())
    content = onnx_files.encoder(*nodes, **{name: each for name, each in parts.items() if name != "nodes"})
    with pytest.raises(InputError, match="expected an encoder whose weights and standard operators are in one plain"):
        onnx_encoder(written(content))


USUAL = onnx_files.encoder()
DAMAGED = {
    "empty": b"",
    "text": b"not an encoder",
    "cut": USUAL[:-7],
    "a tag that others cut off": onnx_files.number(1 << 40 | 7 << 3 | 2) + b"\x00" + USUAL,
    "a group": b"\x3b" + USUAL,
    "a long number": b"\x08" + b"\xff" * 20,
    "another form": b"\x12\x08\x00\x00ORTM" + USUAL,
    "a number as its graph": onnx_files.field(7, 3),
    "many parts": b"\x08\x01" * ((1 << 20) + 1),
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_a_file_that_is_no_graph_is_refused(written, content):
    """In one sentence, and quickly; no other form of the runtime is read."""
    with pytest.raises(InputError, match=r"expected an ONNX file in .*, found something else, or one that the runtime"):
        onnx_encoder(written(content))


@pytest.mark.parametrize("name", sorted(DAMAGED.keys() - {"empty", "another form"}))
def test_a_file_is_looked_at_to_its_end(name):
    """What is no message, or could be one thing to this reader and another to the runtime, is noticed by the former."""
    with pytest.raises((ValueError, IndexError)):
        check_message(DAMAGED[name])


SHAPES = {
    "no fixed size": {"shape": ("batch", 3, "height", "width")},
    "two channels": {"shape": ("batch", 2, 12, 12)},
    "a batch of four": {"shape": (4, 3, 12, 12)},
    "too many pixels": {"shape": ("batch", 3, 1 << 11, 1 << 11)},
    "no images": {"shape": ("batch", 3, 12), "seed": 0},
    "numbers of another type": {"kind": 7},
}


@pytest.mark.parametrize("parts", SHAPES.values(), ids=SHAPES)
def test_a_graph_of_something_else_is_refused(written, parts):
    """The advice says what to export."""
    with pytest.raises(InputError, match=r"expected an (encoder of images|ONNX file)"):
        onnx_encoder(written(onnx_files.encoder(**parts)))


def test_more_features_than_images_have_are_refused(written):
    """Their number is known from one image, before any other is encoded."""
    with pytest.raises(InputError, match="expected at most 16,384 features of an image by an encoder, found 16,385"):
        onnx_encoder(written(onnx_files.encoder(outputs=(1 << 14) + 1)))


def test_a_file_of_too_many_bytes_is_not_read(written):
    """A sparse file of two gigabytes takes no memory."""
    path = written(b"")
    os.truncate(path, 1 << 31)
    with pytest.raises(InputError, match=r"expected an ONNX file of at most 1,073,741,824 bytes, found none"):
        onnx_encoder(path)
