"""Networks in files: what is kept comes back, and a file that holds anything else runs nothing and is refused."""

import dataclasses
import json
import struct
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402 (PyTorch is an extra)
from safetensors.torch import save_file  # noqa: E402

from labeldp import Classes, Curator, RandomizedResponse, Release  # noqa: E402
from labeldp.errors import InputError, OutputError  # noqa: E402
from labeldp.learning.features import Images  # noqa: E402
from labeldp.learning.tables import ModelChoice, NetworkModel, evaluate, learn_network, open_model  # noqa: E402
from labeldp.learning.tables._network import learner_of, network_of, trained_model  # noqa: E402

torch.set_num_threads(1)
#: Networks of few rows, to be quick.
pytestmark = pytest.mark.filterwarnings("ignore::labeldp.learning.torch.UnguardedFitWarning")

SPACE = Classes(["no", "yes"])
ROWS = 40


def pixels(rows=ROWS, channels=1, seed=0, side=8):
    """Random images."""
    return np.random.default_rng(seed).integers(0, 256, (rows, channels, side, side), dtype=np.uint8)


def columns(rows=ROWS):
    """A table of a number with gaps, a text, and two columns that make a pair."""
    random = np.random.default_rng(1)
    ages = [None if i % 7 == 0 else float(age) for i, age in enumerate(random.normal(40, 9, rows))]
    return pa.table(
        {
            "age": ages,
            "town": random.choice(["n", "s"], rows),
            "who": np.arange(rows) % 9,
            "it": ["a", "b"] * (rows // 2),
        }
    )


#: For each network: its images, and the columns that it takes.
KINDS = {
    "torch:convolutional": (Images(pixels()), None),
    "torch:inception": (Images(pixels()), None),
    "torch:resnet18": (Images(pixels(channels=3)), None),
    "torch:whitened": (Images(pixels(channels=3, side=9)), None),
    "torch:mlp": (None, ["age", "town"]),
    "torch:ratings": (None, ["who", "it"]),
}


def trained(kind):
    """A network of a kind, trained for a moment."""
    images, features = KINDS[kind]
    release = Curator(["no", "yes"] * (ROWS // 2), SPACE).randomize(RandomizedResponse(SPACE, 3.0))
    training = {"epochs": 1, "batch_size": 20, "device": "cpu"}
    choice = ModelChoice(kind, features=features, images=images, training=training)
    network, given, _ = network_of(choice, 2, columns())
    learner = learner_of(network, choice).fit(given, release)
    return trained_model(network, learner, release.certificate), learner, given


@pytest.fixture(scope="module")
def small():
    """A small network of columns, of which files are made."""
    return trained("torch:mlp")[0]


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_predicts_the_same(kind, tmp_path):
    """A model in its file gives what the learner gives, and says what it is."""
    model, learner, given = trained(kind)
    images = None if KINDS[kind][0] is None else KINDS[kind][0].pixels
    found = model.predict_proba(columns(), images)
    np.testing.assert_allclose(found, learner.predict_proba(given), atol=1e-6)
    kept = open_model(model.save(tmp_path / "m.safetensors"))
    assert isinstance(kept, NetworkModel)
    np.testing.assert_allclose(kept.predict_proba(columns(), images), found, atol=1e-6)  # weights lie in other order
    np.testing.assert_array_equal(kept.predict(columns(), images), np.where(np.argmax(found, axis=1), "yes", "no"))
    assert (kept.model, kept.method, kept.inputs, kept.space) == (kind, "likelihood", model.inputs, SPACE)
    assert kept.certificate == model.certificate
    assert not any(parameter.requires_grad for parameter in kept.predictor.module.parameters())
    assert not kept.predictor.module.training


def test_images_may_be_handed_over_in_any_form():
    """Alone or beside a table, as they were read or as an array; those of a folder need the names of the rows."""
    model = trained("torch:convolutional")[0]
    read, names = Images(pixels()), tuple(f"{i:02}.png" for i in range(ROWS))
    expected = model.predict_proba(None, read.pixels)
    for given in ((read,), (read.pixels,), (None, read), (columns(), read), (Images(pixels(), names),)):
        np.testing.assert_array_equal(model.predict_proba(*given), expected)
        np.testing.assert_array_equal(model.predict(*given), model.classes_[np.argmax(expected, axis=1)])
    bad = {
        "pass images.of_rows": (columns(), Images(pixels(), names)),
        "an image for each of the 40 rows": (columns(), Images(pixels(ROWS - 1))),
        "none; pass what read_images read": (columns(),),
    }
    for message, given in bad.items():
        with pytest.raises(InputError, match=message):
            model.predict(*given)


def test_a_file_is_whole_and_new(small, tmp_path):
    """It is never written over, and nothing is left where it cannot be written."""
    small.save(tmp_path / "m")
    for path in (tmp_path / "m", tmp_path / "none" / "m"):
        with pytest.raises(OutputError):
            small.save(path)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def written_as(small, path, about=None, weights=None):
    """A file like that of the small network, with something changed; where a change is None, a part is left out."""
    small.save(path / "good")
    with safe_open(path / "good", framework="pt") as opened:
        told = json.loads(opened.metadata()["labeldp"])
        found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (it is no mapping)
    for place, value in (about or {}).items():
        part, names = told, place.split("/")
        for name in names[:-1]:
            part = part[int(name) if isinstance(part, list) else name]
        if value is None:
            del part[names[-1]]
        else:
            part[names[-1]] = value
    for name, value in (weights or {}).items():
        found[name] = value
        if value is None:
            del found[name]
    save_file(found, path / "bad", {"labeldp": json.dumps(told)})
    return path / "bad"


COLUMN = "network/takes/columns/0/"
OTHER = {"kind": "images", "channels": 1, "height": 2, "width": 2, "mean": [0.0], "deviation": [1.0]}
#: What is changed in a file, and which weights.
FORGED = {
    "another schema": ({"schema": "labeldp/network/2"}, {}),
    "another network": ({"network/name": "resnet18"}, {}),
    "no network": ({"network/name": "os.system"}, {}),
    "a network that is none of these": ({"network/name": "__class__"}, {}),
    "more classes": ({"network/classes": 3}, {}),
    "a class less": ({"network/classes": 1}, {}),
    "a size": ({"network/sizes": {"width": 64}}, {}),
    "a size that is not whole": ({"network/sizes": {"width": 128.0}}, {}),
    "a size without end": ({"network/sizes": {"width": 2**31 - 1}}, {}),
    "an enormous size": ({"network/sizes": {"width": 10**30}}, {}),
    "a negative size": ({"network/sizes": {"width": -128}}, {}),
    "a size of another network": ({"network/sizes": {"channels": 1}}, {}),
    "a size that follows from the columns": ({"network/sizes": {"features": 5}}, {}),
    "another method": ({"method": "magic"}, {}),
    "no method": ({"method": None}, {}),
    "no certificate": ({"certificate": None}, {}),
    "another certificate": ({"certificate/guarantee/epsilon": 0.1}, {}),
    "other classes": ({"certificate/label/space/points": ["no", "yes", "perhaps"]}, {}),
    "a part more": ({"network/more": 1}, {}),
    "another encoder": ({"network/takes": OTHER}, {}),
    "a column less": ({"network/takes/columns": [{"name": "town", "kind": "category", "texts": ["n", "s"]}]}, {}),
    "a scale that divides by nothing": ({COLUMN + "deviation": 0.0}, {}),
    "a scale that is text": ({COLUMN + "mean": "0"}, {}),
    "weights of another name": ({}, {"strange": torch.zeros(1)}),
    "weights that are missing": ({}, {"0.weight": None}),
    "weights of another shape": ({}, {"0.bias": torch.zeros(127)}),
    "weights of another kind": ({}, {"0.bias": torch.zeros(128, dtype=torch.float64)}),
    "weights that are whole": ({}, {"0.bias": torch.zeros(128, dtype=torch.int32)}),
    "weights without end": ({}, {"0.bias": torch.full((128,), float("inf"))}),
    "weights that are none": ({}, {"0.bias": torch.full((128,), float("nan"))}),
}  # fmt: skip


@pytest.mark.parametrize("case", FORGED)
def test_a_file_that_was_never_written_here_is_refused(case, small, tmp_path):
    """In one sentence that says what was expected, before any of its weights are used."""
    about, weights = FORGED[case]
    path = written_as(small, tmp_path, about, weights)
    with pytest.raises(InputError, match=r"^expected a model"):
        open_model(path)
    assert isinstance(open_model(tmp_path / "good"), NetworkModel)


def test_a_certificate_whose_law_costs_more_is_refused(small, tmp_path):
    """A smaller epsilon of a charge, with all that follows from it: the law beside it says otherwise."""
    (draw,) = small.certificate.draws
    cheap = dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, epsilon=0.01))
    forged = dataclasses.replace(small.certificate, draws=(cheap,))
    path = written_as(small, tmp_path, {"certificate": json.loads(forged.to_json())})
    with pytest.raises(InputError, match=r"found expected epsilon .*, found epsilon 0\.01"):
        open_model(path)


def test_predictions_that_are_no_numbers_are_refused(small, tmp_path):
    """Weights that are finite and too large name no class."""
    large = torch.full_like(small.predictor.module[0].weight, 3e38)
    model = open_model(written_as(small, tmp_path, weights={"0.weight": large}))
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(InputError, match="expected finite predictions, found others at position 0"):
            predict(columns())


def test_an_enormous_network_takes_no_memory_before_it_is_refused(small, tmp_path):
    """A header that asks for terabytes is refused by the shapes of what the file holds."""
    path = written_as(small, tmp_path, {"network/sizes": {"width": 1 << 24}})
    with pytest.raises(InputError, match="something else"):
        open_model(path)


def header(text, size=None):
    """The beginning of a file of safetensors: the length of a header, and the header."""
    return struct.pack("<Q", len(text) if size is None else size) + text


@pytest.mark.parametrize(
    "data",
    [
        header(b"{}"),
        header(b'{"__metadata__":{"labeldp":"{}"}}'),
        header(b'{"__metadata__":{"labeldp":"[]"}}'),
        header(b'{"__metadata__":{"labeldp":"nonsense"}}'),
        header(b'{"__metadata__":{"labeldp":"' + b"[" * 100_000 + b'"}}'),
        header(b'{"__metadata__":{"other":"{}"}}'),
        header(b"{}", size=2**63),
        header(b"{", size=1),
        header(b'{"a":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4000000000]}}'),
    ],
)
def test_any_other_file_of_this_form_is_refused(data, tmp_path):
    """Whatever its header says."""
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(tmp_path / "m")


def test_a_damaged_file_is_refused(small, tmp_path):
    """Cut off anywhere, or with bytes of its header changed, it is refused or says the same."""
    whole = small.save(tmp_path / "m").read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    random = np.random.default_rng(0)
    cut = [whole[:length] for length in (9, 100, size, size + 8, len(whole) - 1)]
    changed = []
    for place in random.integers(8, size + 8, 100):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        changed.append(bytes(damaged))
    refused = 0
    for data in [*cut, *changed]:
        (tmp_path / "bad").write_bytes(data)
        try:
            assert open_model(tmp_path / "bad").space.size == 2
        except InputError:
            refused += 1
    assert refused >= 75


def test_a_file_of_something_else_is_no_model(tmp_path):
    """A table, or no file, is refused in words that say what was expected."""
    (tmp_path / "m").write_text("age,town\n")
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(tmp_path / "m")
    with pytest.raises(InputError, match="there is no "):
        open_model(tmp_path / "none")


def test_a_network_is_opened_where_it_is_installed_alone(small, tmp_path, monkeypatch):
    """Without PyTorch, the message names what to install."""
    small.save(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("labeldp.learning.torch")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="pip install"):
        open_model(tmp_path / "m")


REFUSED = {
    "no such network": ({"model": "torch:transformer"}, "expected a model among patches, encoder, torch:ensemble, "),
    "no network": ({"model": "softmax"}, "expected a model among patches, encoder, torch:ensemble, "),
    "no images": ({"model": "torch:inception"}, "expected images for a model of images"),
    "images for columns": ({"model": "torch:mlp", "images": Images(pixels())}, "expected images for a model of images"),
    "too few images": ({"model": "torch:inception", "images": Images(pixels(3))}, "each of the 40 rows, found 3"),
    "features beside images": (
        {"model": "torch:inception", "images": Images(pixels()), "features": ["age"]},
        "no features besides images",
    ),
    "a pair of none": ({"model": "torch:ratings"}, "two columns for ratings"),
    "a pair of one": ({"model": "torch:ratings", "features": ["who"]}, "two columns for ratings"),
    "an unknown column": ({"model": "torch:mlp", "features": ["height"]}, "found 'height'"),
    "no column of names": (
        {"model": "torch:inception", "images": Images(pixels(), tuple("ab" * 20)), "image_column": "file"},
        "the names of images in a public column 'file'",
    ),
    "a column of names, and no images": ({"model": "torch:mlp", "image_column": "town"}, "the column 'town' names"),
    "an unknown method": ({"model": "torch:mlp", "method": "em"}, "a method of networks among likelihood"),
}


def test_what_does_not_fit_a_model_is_not_judged(small, tmp_path):
    """Images for a model of columns, or a column that names images which are not there."""
    pq.write_table(columns().append_column("y", pa.array(["no", "yes"] * (ROWS // 2))), tmp_path / "t.parquet")
    assert evaluate(small, tmp_path / "t.parquet", "y", public=True).rows == ROWS
    for given, message in (({"images": Images(pixels())}, "no images"), ({"image_column": "town"}, "found none")):
        with pytest.raises(InputError, match=message):
            evaluate(small, tmp_path / "t.parquet", "y", public=True, **given)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The folder of a release."""
    release = Curator(["no", "yes"] * (ROWS // 2), SPACE).randomize(RandomizedResponse(SPACE, 3.0))
    return release.save(tmp_path_factory.mktemp("release") / "shared", columns(), keep="all")


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_before_training(case, shared):
    """In words that say what was expected."""
    given, message = REFUSED[case]
    with pytest.raises(InputError, match="expected") as caught:
        learn_network(shared, ModelChoice(**given))
    assert message in str(caught.value)


def test_a_tenth_of_the_rows_judges(shared):
    """The scores are of as many rows as were not fitted on, and say so; settings are those that were given."""
    told = []
    done = learn_network(shared, ModelChoice("torch:mlp", training={"epochs": 3}), lambda *each: told.append(each))
    assert done.scores.rows == ROWS // 10
    assert "a tenth of the rows" in done.judged_by
    assert done.setting == "3 epochs"
    assert told[-1] == ("epoch", 3, 3)


def test_the_rows_that_judge_are_not_fitted_on(shared, monkeypatch):
    """A learner that is scored gets the pairs of other rows, and the one that is saved those of all."""
    from labeldp.learning.torch import TorchClassifier  # noqa: PLC0415 (its method is watched)

    seen, real = [], TorchClassifier.fit

    def fit(self, rows, release, **given):
        seen.append((rows, release))
        return real(self, rows, release, **given)

    monkeypatch.setattr(TorchClassifier, "fit", fit)
    whole = Release.load(shared)
    done = learn_network(shared, ModelChoice("torch:ratings", "plain", ["who", "it"], training={"epochs": 1}))
    assert [len(rows) for rows, _ in seen] == [ROWS - done.scores.rows, ROWS]
    for rows, release in seen:
        assert len(release) == len(rows)
        assert set(release.codes) <= set(whole.codes)
        assert rows.dtype == np.int64
    np.testing.assert_array_equal(seen[1][1].codes, whole.codes)


def test_a_network_of_noise_predicts_class_shares(tmp_path):
    """Where held-out released labels do not show that a network helps, its file predicts the same for every row.

    They show it by chance in one of forty releases; three in a row have a chance below 2e-5.
    """
    random, space = np.random.default_rng(0), Classes(["no", "yes"])
    table = pa.table({"x": random.normal(size=600), "y": random.normal(size=600)})
    for attempt in range(3):
        labels = np.where(random.random(600) < 0.25, "yes", "no")
        release = Curator(labels, space).randomize(RandomizedResponse(space, 2.0))
        folder = release.save(tmp_path / f"shared-{attempt}", table.to_pandas(), keep="all", label="ill")
        learned = learn_network(folder, ModelChoice("torch:mlp", training={"epochs": 2}))
        if learned.model.calibrator.is_constant:
            break
    else:
        pytest.fail("expected class shares, found a network")
    assert "replaced by class shares" in learned.setting
    opened = open_model(learned.model.save(tmp_path / "m"))
    found = opened.predict_proba(table)
    assert np.ptp(found, axis=0).max() == 0.0
    assert found[0, 1] < 0.6
    np.testing.assert_array_equal(found, learned.model.predict_proba(table))
