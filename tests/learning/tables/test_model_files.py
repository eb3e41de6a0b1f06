"""Files of models: the types they may hold, and what is loaded to save and to open them."""

import dataclasses
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from labeldp import Classes, Curator, RandomizedResponse
from labeldp.errors import InputError
from labeldp.learning.choice import Fitted, folds_of
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import held_out_classes
from labeldp.learning.tables import ModelChoice, learn, open_model
from labeldp.learning.tables._files import _TRUSTED
from labeldp.release import Release, public_columns, release_table

GOLDEN = Path(__file__).parents[2] / "golden" / "command"


@pytest.mark.parametrize("name", _TRUSTED)
def test_a_trusted_name_is_that_of_the_thing_itself(name):
    """Each name that files may hold can be imported, and is what skops writes of the imported thing."""
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    assert f"{found.__module__}.{found.__qualname__}" == name
    assert "._" not in name or not name.startswith("labeldp.")


def test_boosting_does_not_load_pytorch(tmp_path):
    """A new process that learns, saves and opens a model of boosting has not loaded PyTorch, which takes seconds."""
    pytest.importorskip("torch", reason="nothing would be loaded without it")
    code = f"""
import sys
from labeldp.learning.tables import learn, open_model
path = learn({str(GOLDEN / "randomized-response")!r}, model="boosting").model.save({str(tmp_path / "model.skops")!r})
open_model(path)
print(*sorted({{"skops", "torch", "sklearn.externals.array_api_compat.torch"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["skops"]


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
    opened = open_model(model.save(tmp_path / "forged.skops"))
    np.testing.assert_array_equal(opened.predict(public_columns(folder)), expected)


def with_fitted_encoder(estimator):
    """The encoder that was declared stays; the fitted one reads files, though it is scikit-learn's own."""
    ((name, _, columns), *rest) = estimator[0].transformers_
    estimator[0].transformers_ = [(name, HashingVectorizer(input="filename"), columns), *rest]


def with_fitted_learner(estimator):
    """The learner inside is another one, which predicts."""
    estimator[-1].estimator_ = DummyClassifier().fit(np.zeros((3, 1)), [0, 1, 2])


def with_fewer_coefficients(estimator):
    """The parts are those of a model, and do not fit together."""
    estimator[-1].coef_ = estimator[-1].coef_[:, :0]


def without_intercepts(estimator):
    """A part of what was fitted is missing."""
    del estimator[-1].intercept_


FORGED = {
    "a fitted encoder": ("softmax", None, with_fitted_encoder),
    "a fitted learner": ("boosting", "plain", with_fitted_learner),
    "coefficients": ("softmax", None, with_fewer_coefficients),
    "no intercepts": ("softmax", None, without_intercepts),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_model_is_refused_when_it_is_opened(name, tmp_path):
    """Parts of trusted types in the wrong place, or that do not fit: not a traceback once it predicts."""
    model, method, forge = FORGED[name]
    learned = learn(GOLDEN / "randomized-response", model=model, method=method, features=["age"]).model
    forge(learned.estimator)
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(learned.save(tmp_path / "forged.skops"))


def torn():
    """A pipeline whose steps are none."""
    pipeline = make_pipeline(HashingVectorizer())
    pipeline.steps = ["x"]
    return pipeline


#: A change of what a file says of its model, or another estimator in it, and what is said of the file.
FOREIGN = {
    "code": ({}, FunctionTransformer(os.mkdir), "found other types in it"),
    "a type of pandas": ({}, pd.Timestamp, "found other types in it"),
    "a reader of files": ({}, make_pipeline(HashingVectorizer(input="filename")), "expected a model made by"),
    "no pipeline": ({}, HashingVectorizer(), "expected a model made by"),
    "no steps": ({}, torn(), "expected a model made by"),
    "a later schema": ({"schema": "labeldp/model/2"}, None, "schema labeldp/model/1, found 'labeldp/model/2'"),
    "another library": ({"made_with": {"scikit-learn": "1.0.2"}}, None, "found 1.0.2; install that version"),
    "no certificate": ({"certificate": {}}, None, "expected a model made by"),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_not_opened(name, tmp_path):
    """Other types, though scikit-learn's own, are refused before anything is called; other versions are named."""
    change, estimator, message = FOREIGN[name]
    path = learn(GOLDEN / "randomized-response", model="softmax", features=["age"]).model.save(tmp_path / "m.skops")
    held = skops.io.load(path, trusted=_TRUSTED)
    forged = {"about": json.dumps(json.loads(held["about"]) | change), "estimator": estimator or held["estimator"]}
    skops.io.dump(forged, path)
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
    """The file keeps it, predictions have it, and a file of an earlier version, which has none, is uncalibrated."""
    folder, learned = calibrated
    model, rows = learned.model, public_columns(folder)
    assert not model.calibrator.is_constant
    opened = open_model(model.save(tmp_path / "model.skops"))
    np.testing.assert_array_equal(opened.predict_proba(rows), model.predict_proba(rows))
    assert "calibrated on released labels (slope " in learned.setting
    plain = dataclasses.replace(model, calibrator=None)
    scaled = model.calibrator(plain.predict_proba(rows)[None][:, :, [2, 0, 1]])  # in declared order
    np.testing.assert_allclose(model.predict_proba(rows)[:, [2, 0, 1]], scaled)
    assert not np.allclose(scaled, plain.predict_proba(rows)[:, [2, 0, 1]])
    held = skops.io.load(tmp_path / "model.skops", trusted=_TRUSTED)
    about = json.loads(held["about"])
    del about["calibrator"]
    skops.io.dump(held | {"about": json.dumps(about)}, tmp_path / "earlier.skops")
    np.testing.assert_array_equal(open_model(tmp_path / "earlier.skops").predict_proba(rows), plain.predict_proba(rows))


@pytest.mark.parametrize("body", [{"slope": 1.0, "shifts": [0.0]}, {"slope": -1.0, "shifts": [0.0] * 3}, {}, [], "x"])
def test_a_forged_calibration_is_refused(body, calibrated, tmp_path):
    """One of other classes, or of other numbers."""
    path = calibrated[1].model.save(tmp_path / "model.skops")
    held = skops.io.load(path, trusted=_TRUSTED)
    forged = json.loads(held["about"]) | {"calibrator": body}
    skops.io.dump(held | {"about": json.dumps(forged)}, tmp_path / "forged.skops")
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(tmp_path / "forged.skops")


def test_a_certificate_whose_law_costs_more_is_refused(calibrated, tmp_path):
    """A smaller epsilon of a charge, with all that follows from it: the law beside it says otherwise."""
    model = calibrated[1].model
    (draw,) = model.certificate.draws
    cheap = dataclasses.replace(draw, guarantee=dataclasses.replace(draw.guarantee, epsilon=0.01))
    forged = dataclasses.replace(model, certificate=dataclasses.replace(model.certificate, draws=(cheap,)))
    with pytest.raises(InputError, match=r"found expected epsilon .*, found epsilon 0\.01"):
        open_model(forged.save(tmp_path / "forged.skops"))


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
