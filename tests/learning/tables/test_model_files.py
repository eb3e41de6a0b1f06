"""Files of models of tables: what they hold, and what a forged one is refused for."""

import dataclasses
import gzip
import importlib
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from labeldp import Classes, Curator, RandomizedResponse
from labeldp.errors import InputError
from labeldp.learning.choice import Fitted, folds_of
from labeldp.learning.files import TYPES
from labeldp.learning.files._arrays import read_arrays, write_arrays
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import held_out_classes
from labeldp.learning.tables import ModelChoice, learn, open_model
from labeldp.learning.tables._model import _TRUSTED
from labeldp.release import Release, public_columns, release_table

GOLDEN = Path(__file__).parents[2] / "golden" / "command"
EARLIER = GOLDEN.parent / "models" / "softmax.skops.gz"
#: The version of scikit-learn that the earlier file is of: another may not read it.
KEPT_BY = json.loads((GOLDEN.parent / "models" / "expected.json").read_text("utf-8"))["made with"]["scikit-learn"]


@pytest.mark.parametrize("name", TYPES)
def test_a_type_of_a_file_is_that_of_the_thing_itself(name):
    """Each name that files may hold can be imported, and is that of a class which its package documents."""
    found = getattr(importlib.import_module(TYPES[name]), name)
    assert found.__name__ == name
    if TYPES[name].startswith("labeldp."):
        assert found.__module__ == TYPES[name]


def test_boosting_does_not_load_pytorch(tmp_path):
    """A process that learns, saves and opens a model of boosting loads neither PyTorch nor what earlier files need."""
    pytest.importorskip("torch", reason="nothing would be loaded without it")
    code = f"""
import sys
from labeldp.learning.tables import learn, open_model
path = learn({str(GOLDEN / "randomized-response")!r}, model="boosting").model.save({str(tmp_path / "m")!r})
open_model(path)
print(*sorted({{"skops", "torch"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


#: A program that counts the files of the package with a function that a command calls, imports apart.
ENTERED = """
import sys
from labeldp.cli import app

command, entered, importing = app(sys.argv[1:2]), set(), 0


def watch(frame, event, _):
    global importing
    code = frame.f_code
    if code.co_name == "_find_and_load":
        importing += {"call": 1, "return": -1}.get(event, 0)
    elif event == "call" and not importing and "/labeldp/" in code.co_filename:
        entered.add(code.co_filename.rpartition("/labeldp/")[2])


sys.setprofile(watch)
try:
    command(sys.argv[1:])
except SystemExit as done:
    sys.setprofile(None)
    assert not done.code
learners = [name for name in sys.modules if name.startswith("labeldp.learning.") and name.count(".") > 2]
print(len(entered), *learners)
"""
#: Modules of learners that a linear model does not need.
OTHERS = ("boosting", "cells", "convex", "generators", "images", "ratings", "stages", "torch")
OTHER_LEARNERS = {"_auto", "_boosting", "_neighbors", "_tree", "_calibrated", "_resampled", "_families", "_network"}


def test_a_prediction_enters_few_files(softmax_file, tmp_path):
    """Those of a linear model are fewer than sixty files with a function that is called, and no other learner's."""
    rows = GOLDEN.parent / "public.csv"
    command = [sys.executable, "-c", ENTERED, "predict", softmax_file, rows, "--output", tmp_path / "p.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, *modules = done.stdout.splitlines()[-1].split()
    assert 20 < int(count) < 60
    packages = {name.split(".")[2] for name in modules}
    assert packages.isdisjoint(OTHERS)
    assert {name.rpartition(".")[2] for name in modules}.isdisjoint(OTHER_LEARNERS | {"_learn"})
    assert "labeldp.learning.sklearn._softmax" in modules


def test_images_need_no_pytorch(tmp_path):
    """The default model of images is learned, saved, opened and predicts where PyTorch and Pillow are missing."""
    pixels = np.random.default_rng(0).integers(0, 256, (80, 8, 8), dtype=np.uint8)
    (tmp_path / "images-idx3-ubyte").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, *pixels.shape) + pixels.tobytes())
    code = f"""
import sys
class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("torch", "skops", "safetensors", "PIL"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from labeldp.cli import main
for command in ("learn {GOLDEN / "images"} --output {tmp_path}/m", "predict {tmp_path}/m --output {tmp_path}/p.csv"):
    assert main([*command.split(), "--images", "{tmp_path}/images-idx3-ubyte"]) in (None, 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 81


def mixed_table(path, rows=200):
    """A CSV file with flags and codes that readers other than ours take for booleans and numbers."""
    chance = np.random.default_rng(0)
    ill = chance.random(rows) < 0.5
    table = pd.DataFrame({"smoker": ill, "code": np.where(chance.random(rows) < 0.5, "01000", "02000")})
    table.assign(age=chance.integers(18, 90, rows), label=np.where(ill, "ill", "well")).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["auto", "softmax", "boosting", "torch:mlp"])
def test_a_model_predicts_the_same_however_a_file_is_read(name, tmp_path):
    """Types of pandas, all texts, and texts with empty ones for gaps: as evaluate reads it."""
    source = mixed_table(tmp_path / "table.csv")
    folder = tmp_path / "shared"
    release_table(source, "label", Classes(["ill", "well"]), 8.0, folder, keep=["smoker", "code", "age"], unit="row")
    if name.startswith("torch:"):
        pytest.importorskip("torch")
        from labeldp.learning.tables import learn_network  # noqa: PLC0415 (PyTorch is an extra of its own)

        model = learn_network(folder, ModelChoice(name, training={"epochs": 2})).model
    else:
        model = learn(folder, model=name).model
    assert model.columns == {"smoker": "category", "code": "category", "age": "number"}
    expected = model.predict_proba(public_columns(folder))
    for given in ({}, {"dtype": str}, {"dtype": str, "keep_default_na": False}):
        np.testing.assert_allclose(model.predict_proba(pd.read_csv(source, **given)), expected)


def test_a_search_tree_in_a_file_is_not_used(tmp_path):
    """Neighbours are searched in a tree that is built when the file is opened, whatever tree the file holds."""
    folder = GOLDEN / "laplace"
    model = learn(folder, model="neighbours", features=["age"]).model
    expected = model.predict(public_columns(folder))
    index = model.estimator[-1].index_
    state = list(index._tree.__getstate__())
    state[1] = np.zeros_like(state[1])  # all rows are taken for the first
    index._tree.__setstate__(tuple(state))
    assert not np.allclose(model.predict(public_columns(folder)), expected)
    opened = open_model(model.save(tmp_path / "forged"))
    np.testing.assert_array_equal(opened.predict(public_columns(folder)), expected)


def rewritten(path, change):
    """A copy of a model's file, with a change of its description or its arrays."""
    with path.open("rb") as file:
        text, held = read_arrays(file)
        arrays, about = dict(held), json.loads(text)
    change(about, arrays)
    write_arrays(path.with_name("forged"), json.dumps(about), arrays)
    return path.with_name("forged")


def objects(about, kind):
    """The objects of a type in a description, of which there are some."""
    found = [each for each in about["estimator"]["objects"] if each["type"] == kind]
    assert found, kind
    return found


def of_type(kind, other):
    """A change of the type of all objects of one."""
    return lambda about, _: [each.update(type=other) for each in objects(about, kind)]


def without(kind, name):
    """A change that takes an attribute from all objects of a type."""
    return lambda about, _: [each["state"]["dict"].pop(name) for each in objects(about, kind)]


def with_fewer_coefficients(about, arrays):
    """The parts are those of a model, and do not fit together."""
    (model,) = objects(about, "SoftmaxRegression")
    (name,) = model["state"]["dict"]["coef_"].values()
    arrays[name] = arrays[name][:0]


def with_value(name, value):
    """A change of an entry of a description."""
    return lambda about, _: about.update({name: value})


def with_mapping(about, _):
    """Categories of which the first alone has a place: the row without values meets none."""
    for each in objects(about, "OneHotCategories"):
        each["state"]["dict"]["_default_to_infrequent_mappings"] = [[0]]


def with_object(entry):
    """A change that puts another object before all."""
    return lambda about, _: about["estimator"]["objects"].insert(0, entry)


#: What is done to a file, and what is said of it.
FORGED = {
    "code": (of_type("StandardScaler", "os.system"), "something else"),
    "a reader of files": (of_type("OneHotCategories", "HashingVectorizer"), "something else"),
    "a type of pandas": (of_type("StandardScaler", "Timestamp"), "something else"),
    "another learner": (of_type("SoftmaxRegression", "EvidenceRidge"), "something else"),
    "no pipeline": (of_type("Pipeline", "StandardScaler"), "something else"),
    "fewer coefficients": (with_fewer_coefficients, "something else"),
    "no intercepts": (without("SoftmaxRegression", "intercept_"), "something else"),
    "a later object": (with_object({"type": "Pipeline", "state": {"object": 1}}), "something else"),
    "an unknown kind of value": (with_object({"type": "Pipeline", "state": {"pickle": "x"}}), "something else"),
    "numbers of another type": (with_object({"type": "Pipeline", "state": {"type": "O"}}), "something else"),
    "no array": (lambda _, arrays: arrays.clear(), "something else"),
    "a later schema": (with_value("schema", "labeldp/model/9"), "found 'labeldp/model/9'; make one with"),
    "a network": (with_value("schema", "labeldp/network/1"), "something else"),
    "another library": (with_value("made_with", {"scikit-learn": "1.0.2"}), "found 1.0.2; install that version"),
    "no certificate": (with_value("certificate", {}), "expected a model made by"),
    "a name that is none": (with_value("model", "<b>"), "something else"),
    "a column less": (with_value("columns", []), "something else"),
    "texts that numbers stay within": (with_value("seen", {"age": "x"}), "something else"),
    "categories without a place": (with_mapping, "something else"),
}


@pytest.fixture(scope="module")
def softmax_file(tmp_path_factory):
    """The file of a linear model."""
    model = learn(GOLDEN / "randomized-response", model="softmax", features=["age", "town"]).model
    return model.save(tmp_path_factory.mktemp("softmax") / "m.safetensors")


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_refused_when_it_is_opened(name, softmax_file, tmp_path):
    """Other types are refused before they are made, and so are parts that do not fit: no traceback at predictions."""
    change, message = FORGED[name]
    path = Path(shutil.copy(softmax_file, tmp_path))
    with pytest.raises(InputError, match=message):
        open_model(rewritten(path, change))
    assert open_model(path).space.size == 3


def test_a_part_that_no_file_holds_is_not_saved(tmp_path):
    """A function in a learner is an error when it is written, not when it is opened."""
    model = learn(GOLDEN / "randomized-response", model="softmax", features=["age"]).model
    model.estimator[-1].other = os.system
    with pytest.raises(TypeError, match="found builtin_function_or_method"):
        model.save(tmp_path / "m")
    assert not [*tmp_path.iterdir()]


#: An estimator in a file of an earlier version, and what is said of it.
FOREIGN = {
    "code": (FunctionTransformer(os.mkdir), "found other types in it"),
    "a type of pandas": (pd.Timestamp, "found other types in it"),
    "a reader of files": (make_pipeline(HashingVectorizer(input="filename")), "expected a model made by"),
    "another learner": (make_pipeline(DummyClassifier()), "expected a model made by"),
    "no pipeline": (HashingVectorizer(), "expected a model made by"),
}


@pytest.mark.skipif(sklearn.__version__.split(".")[:2] != KEPT_BY.split(".")[:2], reason=f"kept by {KEPT_BY}")
@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_of_an_earlier_version_is_not_opened(name, tmp_path):
    """Other types, though scikit-learn's own, are refused before they predict."""
    import skops.io  # noqa: PLC0415 (it loads all of scikit-learn)

    estimator, message = FOREIGN[name]
    path = tmp_path / "m.skops"
    path.write_bytes(gzip.decompress(EARLIER.read_bytes()))
    assert open_model(path).space.size == 3
    held = skops.io.load(path, trusted=list(_TRUSTED))
    skops.io.dump(held | {"estimator": estimator}, path)
    with pytest.raises(InputError, match=message):
        open_model(path)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """A release of three classes, not declared in sorted order, and a calibrated model of it."""
    random = np.random.default_rng(0)
    codes = random.integers(0, 3, 600)
    table = pd.DataFrame(np.eye(3)[codes] + random.normal(size=(600, 3)), columns=["x", "y", "z"])
    labels, space = np.array(["c", "a", "b"])[codes], Classes(["c", "a", "b"])
    folder = tmp_path_factory.mktemp("calibrated") / "shared"
    Curator(labels, space).randomize(RandomizedResponse(space, 4.0)).save(folder, table, keep="all", label="kind")
    return folder, learn(folder, model="convex")


def test_a_calibration_is_part_of_a_model(calibrated, tmp_path):
    """The file keeps it, predictions have it, and one without is uncalibrated."""
    folder, learned = calibrated
    model, rows = learned.model, public_columns(folder)
    assert not model.calibrator.is_constant
    opened = open_model(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(opened.predict_proba(rows), model.predict_proba(rows))
    assert "calibrated on released labels (slope " in learned.setting
    plain = dataclasses.replace(model, calibrator=None)
    scaled = model.calibrator(plain.predict_proba(rows)[None][:, :, [2, 0, 1]])  # in declared order
    np.testing.assert_allclose(model.predict_proba(rows)[:, [2, 0, 1]], scaled)
    assert not np.allclose(scaled, plain.predict_proba(rows)[:, [2, 0, 1]])
    earlier = rewritten(tmp_path / "model.safetensors", lambda about, _: about.pop("calibrator"))
    np.testing.assert_array_equal(open_model(earlier).predict_proba(rows), plain.predict_proba(rows))


@pytest.mark.parametrize("body", [{"slope": 1.0, "shifts": [0.0]}, {"slope": -1.0, "shifts": [0.0] * 3}, {}, [], "x"])
def test_a_forged_calibration_is_refused(body, calibrated, tmp_path):
    """One of other classes, or of other numbers."""
    path = calibrated[1].model.save(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(rewritten(path, with_value("calibrator", body)))


def test_a_certificate_whose_law_costs_more_is_refused(calibrated, tmp_path):
    """A smaller epsilon of a charge, with all that follows from it: the law beside it says otherwise."""
    model = calibrated[1].model
    (draw,) = model.certificate.draws
    cheap = dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, epsilon=0.01))
    forged = dataclasses.replace(model, certificate=dataclasses.replace(model.certificate, draws=(cheap,)))
    with pytest.raises(InputError, match=r"found expected epsilon .*, found epsilon 0\.01"):
        open_model(forged.save(tmp_path / "forged"))


def test_held_out_predictions_are_calibrated_on_other_folds(calibrated):
    """They are what scores are computed from: no row is calibrated by its own label."""
    folder, learned = calibrated
    release = Release.load(folder)
    found = learned.model.held_out_proba(release, public_columns(folder))
    plain = dataclasses.replace(learned.model, calibrator=None).held_out_proba(release, public_columns(folder))
    units = Units.of(None, len(release))
    parts = folds_of(units, 5)
    fitted, rows = [Fitted(None, plain, True)], np.arange(len(release))
    problem = held_out_classes(release, fitted, rows, parts, units, doubt=True)
    np.testing.assert_allclose(found, problem.cross_fitted(parts))
    assert not np.allclose(found, problem.best()(plain[None]))
    of_all_rows = dataclasses.replace(learned.model, calibrator=None).predict_proba(public_columns(folder))
    assert not np.allclose(plain, of_all_rows[:, [2, 0, 1]]), "each row is predicted by a model of others"
