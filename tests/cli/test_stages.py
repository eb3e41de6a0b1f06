"""Releasing in stages on the command line: one release, one charge and a model, all of them or nothing."""

import gzip
import re
import shutil
import struct
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from labeldp import Classes, Release
from labeldp.cli._options import ImageOptions, TrainingOptions
from labeldp.cli._stages import ModelOptions
from labeldp.errors import InputError
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.tables import ModelChoice, StagePlan, learn_in_stages, open_model

CLASSES = ("zq-secret-7", "zq-secret-8", "zq-secret-9")
ROWS = 300


def patients(rows=ROWS, seed=0):
    """Two numbers and a town, the class that the numbers tell, and a prior."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(rows, 3))
    codes = np.argmax(points + 0.2 * random.normal(size=points.shape), axis=1)
    frame = pd.DataFrame(points.round(3), columns=["a", "b", "c"])
    return frame.assign(town=random.choice(["north", "south"], rows), y=np.array(CLASSES)[codes])


@pytest.fixture
def folder(tmp_path):
    """A table to release, and one to test on."""
    patients().to_csv(tmp_path / "t.csv", index=False)
    patients(seed=1).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


@pytest.fixture
def stages(run, folder):
    """Run the command: options that work and are quick, replaced by those given, left out where one is None."""

    def running(**options):
        chosen = {
            "model": "softmax",
            "label": "y",
            "classes": ",".join(CLASSES),
            "epsilon": 3.0,
            "keep": "all",
            "output": folder / "out",
        }
        typed = [(f"--{name.replace('_', '-')}", value) for name, value in (chosen | options).items()]
        source = [value for name, value in typed if name == "--source"] or [folder / "t.csv"]
        given = [part for name, value in typed if value is not None and name != "--source" for part in (name, value)]
        return run("stages", source[0], *given)

    return running


@pytest.mark.parametrize("model", ["softmax", "boosting", "torch:mlp"])
def test_a_table_becomes_a_release_and_a_model(stages, run, folder, states, model):
    """The folder verifies, accounts and can be learned from; the model is beside it, and knows most labels.

    At epsilon 3, 300 rows give each of these models more than 60 percent; one in three is chance.
    """
    ending = "safetensors" if model.startswith("torch:") else "skops"
    trained = {"epochs": 20} if model.startswith("torch:") else {}
    done = stages(model=model, **trained)
    assert done.code == 0, done.err
    assert "zq-secret" not in done.out + done.err
    assert run("verify", folder / "out").code == 0
    account = run("account", folder / "out")
    assert account.code == 0
    assert "epsilon 3 per row in total" in account.out
    assert states(folder / "t.csv.labeldp-ledger") == ["released"]
    assert pq.read_schema(folder / "out" / "data.parquet").names == [
        "a",
        "b",
        "c",
        "town",
        "y_released",
        "y_candidates",
    ]
    kept = open_model(folder / f"out.{ending}")
    assert kept.certificate == Release.load(folder / "out").certificate
    test = patients(seed=1)
    assert np.mean(kept.predict(test) == test["y"]) > 0.6
    judged = run("evaluate", folder / f"out.{ending}", folder / "test.csv", "--label", "y", "--labels-are-public")
    assert judged.code == 0, judged.err


def test_a_prior_comes_from_a_file_or_from_clusters(stages, folder):
    """One row for all, a row for each, or noisy counts of clusters, which are charged within epsilon."""
    prior = pd.DataFrame({"zq-secret-9": [0.1], "zq-secret-7": [0.8], "zq-secret-8": [0.1]})
    prior.to_csv(folder / "one.csv", index=False)
    pd.concat([prior] * ROWS).to_parquet(folder / "each.parquet")
    for number, given in enumerate((folder / "one.csv", folder / "each.parquet")):
        done = stages(prior=given, output=folder / f"out-{number}", budget=9)
        assert done.code == 0, done.err
        assert any("prior" in each for each in Release.load(folder / f"out-{number}").certificate.assumptions)
    done = stages(prior="clusters", clusters=6, output=folder / "clusters", budget=9)
    assert done.code == 0, done.err
    certificate = Release.load(folder / "clusters").certificate
    assert [draw.mechanism for draw in certificate.draws] == ["noisy-histogram", "prior-subset", "prior-subset"]
    assert certificate.guarantee.epsilon <= 3.0
    assert "6 of 9" in done.out or "9 of 9" in done.out


def idx(values):
    """The bytes of an IDX file."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.astype(np.uint8).tobytes()


def strokes(rows, seed):
    """Images of 8 x 8 points with a bright line, which lies or stands, and which it is."""
    random = np.random.default_rng(seed)
    codes = np.arange(rows) % 2
    images = random.integers(0, 60, (rows, 8, 8))
    for image, code, place in zip(images, codes, random.integers(0, 8, rows), strict=True):
        image[(place, slice(None)) if code else (slice(None), place)] = 255
    return images, codes


@pytest.mark.slow  # images by their names stay
def test_images_in_the_order_of_rows(stages, run, folder):
    """A file of images and a file of labels, from release to evaluation, in stages and without."""
    for name, seed in (("train", 0), ("test", 1)):
        images, codes = strokes(120, seed)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(codes)))
    network = {
        "model": "torch:convolutional",
        "images": folder / "train-images-idx3-ubyte",
        "epochs": 8,
        "batch_size": 20,
    }
    source = {"source": folder / "train-labels-idx1-ubyte.gz", "label": "label", "classes": "0,1", "keep": "none"}
    done = stages(epsilon=8, budget=16, **source, **network)
    assert done.code == 0, done.err
    assert "the images of the rows are public" in Release.load(folder / "out").certificate.assumptions
    assert run("verify", folder / "out").code == 0
    given = ["--label", "label", "--classes", "0,1", "--keep", "none", "--epsilon", "8", "--output", folder / "shared"]
    assert run("release", source["source"], *given).code == 0
    typed = [part for name, value in network.items() for part in (f"--{name.replace('_', '-')}", value)]
    learned = run("learn", folder / "shared", *typed, "--output", folder / "m.safetensors")
    assert learned.code == 0, learned.err
    assert "12 rows, by released labels of a tenth" in learned.out
    assert "images of 8 x 8 pixels, 1 channel" in learned.out
    assert learned.out.endswith("m.safetensors ANOTHER_RELEASE --released --images ITS_IMAGES\n")
    test = [folder / "test-labels-idx1-ubyte.gz", "--label", "label", "--labels-are-public"]
    for model in (folder / "out.safetensors", folder / "m.safetensors"):
        judged = run("evaluate", model, *test, "--images", folder / "test-images-idx3-ubyte")
        assert judged.code == 0, judged.err
        assert float(re.search(r"accuracy +│ +([\d.]+)%", judged.out)[1]) > 75
        without = run("evaluate", model, *test)
        assert without.code == 1
        assert "expected images for a model of images, found none" in without.err
    own = folder / "own"  # a table of other people's labels
    own.mkdir()
    shutil.copy(folder / "test-labels-idx1-ubyte.gz", own)
    assert run("release", own / "test-labels-idx1-ubyte.gz", *given[:-1], own / "other").code == 0
    pictures = ("--images", folder / "test-images-idx3-ubyte")
    audited = run("audit", own / "other", "--model", folder / "m.safetensors", *pictures)
    assert audited.code == 0, audited.err
    assert "features and the released label" in audited.out
    done = run("predict", folder / "m.safetensors", *pictures, "--output", folder / "p.csv")
    assert done.code == 0, done.err
    assert done.out.endswith("m.safetensors ANOTHER_RELEASE --released --images ITS_IMAGES\n")
    found = pd.read_csv(folder / "p.csv")
    assert list(found) == ["label_predicted", "label_probability_0", "label_probability_1"]
    assert (found["label_predicted"] == strokes(120, 1)[1]).mean() > 0.75
    extra = run("predict", folder / "m.safetensors", folder / "test.csv", *pictures, "--output", folder / "q.csv")
    assert (extra.code, "expected no table for images in their own order, found one" in extra.err) == (1, True)
    alone = run("audit", own / "other", *pictures)
    assert (alone.code, "expected --images together with --model" in alone.err) == (2, True)


def test_images_by_the_names_of_their_files(stages, run, folder):
    """A kept column joins rows with the files of a folder, in whatever order they are."""
    image = pytest.importorskip("PIL.Image")
    images, codes = strokes(60, 0)
    (folder / "png").mkdir()
    order = np.random.default_rng(0).permutation(60)
    for number in range(60):
        image.fromarray(images[number].astype(np.uint8)).save(folder / "png" / f"{number:03}.png")
    names = [f"{number:03}.png" for number in order]
    table = pd.DataFrame({"file": names, "y": np.array(["lies", "stands"])[codes[order]]})
    table.to_csv(folder / "t.csv", index=False)
    given = {"classes": "lies,stands", "epsilon": 9, "keep": "file", "images": folder / "png", "image_column": "file"}
    done = stages(model="torch:convolutional", epochs=10, batch_size=10, **given)
    assert done.code == 0, done.err
    named = ["--images", folder / "png", "--image-column", "file"]
    judged = run("evaluate", folder / "out.safetensors", folder / "t.csv", *named, "--labels-are-public")
    assert float(re.search(r"accuracy +│ +([\d.]+)%", judged.out)[1]) > 75
    for table, extra in (([folder / "t.csv"], named[2:]), ([], [])):
        output = folder / f"p{len(table)}.csv"
        done = run("predict", folder / "out.safetensors", *table, *named[:2], *extra, "--output", output)
        assert done.code == 0, done.err
    ordered, sorted_ = pd.read_csv(folder / "p1.csv"), pd.read_csv(folder / "p0.csv")
    named_ = ordered.assign(image=names)[list(sorted_)]
    pd.testing.assert_frame_equal(named_, sorted_.iloc[order].reset_index(drop=True))
    other = {"image_column": None, "output": folder / "two", "budget": 99}
    unnamed = stages(model="torch:convolutional", **(given | other))
    assert unnamed.code == 1
    assert "a folder of images needs --image-column COLUMN, the one with the file name of each row" in unnamed.err


@pytest.mark.parametrize(("images", "model"), [("images-idx3-ubyte", "torch:patches"), (None, "softmax")])
def test_the_model_that_is_taken_where_none_is_named(tmp_path, images, model):
    """With images it is that of ``learn``."""
    if images is not None:
        (tmp_path / images).write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, 2, 8, 8) + bytes(128))
        images = tmp_path / images
    options = ModelOptions(images=ImageOptions(images), training=TrainingOptions())
    assert options.choice().model == model


def test_a_factorization_of_ratings_is_learned_in_stages(stages, folder, monkeypatch):
    """By groups of ratings: each stage knows the users and items of all rows, and the file holds none of the rows.

    At epsilon 4 the mean rating of kind users is higher than that of others by more than a class.
    """
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"user": random.integers(0, 40, 400), "item": random.choice(list("abcdef"), 400)})
    frame["year"] = frame["item"].map(ord)
    frame["y"] = 1 + 3 * (frame["user"] % 2) + (frame["item"] < "d")
    frame.to_csv(folder / "t.csv", index=False)
    monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, "rounds", 40)
    monkeypatch.setitem(FactorizationClassifier.__init__.__kwdefaults__, "unused", 20)
    known, fit = [], FactorizationClassifier.fit

    def recorded(model, rows, release):
        fit(model, rows, release)
        known.append((len(rows), len(model.users_.names), len(model.items_.names)))
        return model

    monkeypatch.setattr(FactorizationClassifier, "fit", recorded)
    options = {"classes": "1,2,3,4,5", "features": "user,item,year", "response": "groups", "epsilon": 4, "unit": "row"}
    done = stages(model="factorization", **options)
    assert done.code == 0, done.err
    assert known[-2:] == [(240, 40, 6), (400, 40, 6)]
    assert [draw.mechanism for draw in Release.load(folder / "out").certificate.draws] == ["groups"] * 2
    kept = open_model(folder / "out.skops")
    assert kept.estimator[-1].public_rows is None
    new = pd.DataFrame({"user": [0, 1, 99, None], "item": ["a", "a", "a", "z"], "year": [97] * 4})
    means = kept.predict_proba(new) @ kept.classes_.astype(float)
    assert means[1] > means[0] + 1


#: What only the plan of a command refuses; other refusals are those of releases and of ``MultiStage``.
BAD = {
    "no classes that are declared": {"classes": "zq-1,zq-2"},
    "a model that may refuse a stage": {"model": "convex"},
    "no columns": {"keep": "none"},
    "a feature that is not kept": {"keep": "a", "features": "a,b"},
    "an epsilon that is too large": {"epsilon": 800},
    "more stages than rows": {"stages": 301},
    "an unknown response": {"response": "magic"},
    "an unknown network": {"model": "torch:forest"},
    "a network of images without any": {"model": "torch:inception"},
    "epochs of a model that has none": {"model": "softmax", "epochs": 3},
    "images of a model that takes none": {"model": "softmax", "images": "t.csv"},
    "images that are none": {"model": "torch:inception", "images": "t.csv"},
    "no epochs": {"model": "torch:mlp", "epochs": 0},
    "a prior that is the table": {"prior": "test.csv"},
    "clusters without their prior": {"clusters": "6"},
    "more clusters than rows": {"prior": "clusters", "clusters": 301},
    "clusters for a factorization": {"model": "factorization", "prior": "clusters", "features": "a,b"},
    "a factorization of no users and items": {"model": "factorization"},
    "a model that exists": {"model_file": "t.csv"},
    "no folder for the model": {"model_file": "none/m"},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(stages, folder, states, monkeypatch, case):
    """One line that says what was expected, no label, nothing left and nothing charged."""
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir())
    done = stages(**BAD[case])
    assert done.code == 1
    assert done.out == ""
    assert re.search(r"^error: (expected .*found|no .*column .*; columns: |budget exceeded: )", done.err), done.err
    assert done.err.count("\n") == 1
    assert "zq-secret" not in done.err
    locks = {"t.csv.labeldp-ledger", "t.csv.labeldp-ledger.lock", "t.csv.lock"}
    assert {path.name for path in folder.iterdir()} - locks == set(before)
    ledger = folder / "t.csv.labeldp-ledger"
    assert not ledger.exists() or set(states(ledger)) <= {"void"}


@pytest.mark.parametrize("place", ["curator._drawing.draw", "jobs._job.finish"])
def test_whatever_stops_it_nothing_is_left(stages, folder, monkeypatch, states, place):
    """Ctrl-C: a message and no output; a charge stays if labels were drawn by then."""

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(f"labeldp.release.{place}", stop)
        done = stages()
    assert done.code == 130
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "zq-secret" not in done.err
    assert sorted(folder.glob("*out*")) + sorted(folder.glob(".*out*")) == []
    ledger = folder / "t.csv.labeldp-ledger"
    drawn = place == "jobs._job.finish"
    assert not drawn or "labeldp ledger shows what was charged" in done.err
    assert states(ledger) == ["drawn"] if drawn else not ledger.exists() or states(ledger) == ["void"]
    if not drawn:
        assert stages().code == 0
        assert states(ledger)[-1] == "released"


def test_a_learner_that_fails_on_what_was_drawn_is_paid_for(stages, folder, monkeypatch, states):
    """Its failure may depend on labels: no text of it is shown, nothing is written, and the charge stays."""

    def stop(learner, features, release, *_):
        assert len(features) == len(release)
        if not release.is_public:  # those of the trial before the draw are made up
            raise ZeroDivisionError("zq-secret-7")
        learner.classes_ = np.array(CLASSES)

    monkeypatch.setattr("labeldp.learning.sklearn._softmax.SoftmaxRegression.fit", stop)
    done = stages()
    assert done.code == 1
    assert "ZeroDivisionError" in done.err
    assert "the charge stays" in done.err
    assert "zq-secret" not in done.err
    assert sorted(folder.glob("*out*")) + sorted(folder.glob(".*out*")) == []
    assert states(folder / "t.csv.labeldp-ledger") == ["drawn"]


@pytest.mark.parametrize("setting", ["checkpoint", "report", "accelerator", "held_out", "patience", "magic"])
def test_nothing_of_a_training_is_kept_before_the_release_stands(folder, setting):
    """A checkpoint of a run that was killed would hold what labels say, and the charge would be void."""
    plan = StagePlan(ModelChoice("torch:mlp", training={setting: folder / "kept"}))
    with pytest.raises(InputError, match="could disclose something about labels"):
        learn_in_stages(folder / "t.csv", "y", Classes(list(CLASSES)), 1.0, folder / "out", plan, keep=["a", "b"])
    assert {path.name for path in folder.iterdir()} == {"t.csv", "test.csv"}


@pytest.mark.parametrize("command", ["learn", "stages"])
def test_without_pytorch_it_says_what_to_install(run, stages, folder, monkeypatch, command):
    """Before a label is drawn; models of scikit-learn do not need it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if re.match(r"labeldp\.learning\.(torch|tables)", name)]:
        monkeypatch.delitem(sys.modules, name)
    typed = ["--model", "torch:mlp", "--output", folder / "m"]
    done = stages(model="torch:mlp") if command == "stages" else run("learn", folder / "shared", *typed)
    assert done.code == 1
    assert "; pip install 'torch>=" in done.err


def test_a_column_that_gives_labels_away_is_noted_for_its_owner_alone(stages, folder):
    """Beside the ledger, and not in what is printed."""
    patients().assign(copy=lambda frame: frame["y"].str[-1]).to_csv(folder / "t.csv", index=False)
    done = stages(keep="a,copy")
    assert done.code == 0, done.err
    assert "determines the label" not in done.out + done.err
    assert "'copy' equals or determines the label" in (folder / "t.csv.labeldp-ledger.notes").read_text()
