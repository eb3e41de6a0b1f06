"""The model that ``learn`` makes of numeric labels when none is named: a mean of models and of the mean label."""

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Curator, Interval, PriorResponse, Release
from labeldp.errors import InputError
from labeldp.learning.sklearn import AutoRegressor
from labeldp.learning.tables import learn, open_model
from labeldp.release import public_columns

SPACE = Interval(0.0, 100.0, 1.0)
pytestmark = pytest.mark.usefixtures("as_users_call")


def patients(rows=300):
    """Columns that decide a number but for noise, one of them of text, and the number of each row."""
    random = np.random.default_rng(5)
    group = random.integers(0, 3, rows)
    table = pd.DataFrame(
        {
            "person": np.arange(rows) // 3,
            "age": 20.0 * group + random.normal(size=rows),
            "city": np.array(["Rome", "Oslo", "Bonn"], dtype=object)[group],
        }
    )
    return table, 30.0 * group + 20.0


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A folder for what is made once."""
    return tmp_path_factory.mktemp("default")


def shared(folder, table, labels, epsilon=4.0, randomizer=None):
    """A release in a folder."""
    curator = Curator(labels, SPACE)
    release = curator.randomize(epsilon=epsilon) if randomizer is None else curator.randomize(randomizer)
    release.save(folder, table, keep="all", label="cost")
    return folder


@functools.cache
def learned(base):
    """A release folder, and what is learned from it by default."""
    table, labels = patients()
    folder = shared(base / "shared", table[["age", "city"]], labels)
    return folder, learn(folder)


def test_the_default_is_a_mean_of_models(base):
    """It is named auto, says what weighs how much, is scored on held-out rows, and is near most labels."""
    folder, found = learned(base)
    assert (found.model.model, found.model.method) == ("auto", "auto")
    assert isinstance(found.model.estimator, AutoRegressor)
    assert found.setting.startswith("a combination of ")
    assert all(name in found.setting for name in ("linear", "kernels", "boosting", "clusters"))
    assert found.scores.rows == 300
    assert found.scores.gain.low > 0.0
    predicted, labels = found.model.predict(public_columns(folder)), patients()[1]
    assert np.mean((predicted - labels) ** 2) < 0.2 * np.var(labels)


def test_a_file_gives_the_same_predictions(base, tmp_path):
    """What is opened from a file predicts what was saved."""
    folder, found = learned(base)
    opened = open_model(found.model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(opened.predict(public_columns(folder)), found.model.predict(public_columns(folder)))
    assert not hasattr(opened.estimator, "held_out_")
    with pytest.raises(InputError, match="use predict"):
        opened.predict_proba(public_columns(folder))


def test_without_time_the_mean_is_learned(base):
    """With no minutes, the mean label is predicted, and each family is named with the reason."""
    folder = learned(base)[0]
    found = learn(folder, minutes=0)
    assert found.setting.startswith("the mean label; without linear")
    assert found.setting.count("no time left") == 4
    assert np.ptp(found.model.predict(public_columns(folder))) == 0.0
    assert found.scores.gain.value == pytest.approx(0.0, abs=1e-6)


def test_a_choice_is_respected(base):
    """A method alone means the linear model, and a name that model, each of which shrinks towards the mean."""
    folder = learned(base)[0]
    assert (learn(folder, method="unbiased").model.model, learn(folder, model="boosting").model.model) == (
        "ridge",
        "boosting",
    )
    with pytest.raises(InputError, match="a method of auto"):
        learn(folder, model="auto", method="likelihood")
    with pytest.raises(InputError, match="with the model auto alone, found one with boosting"):
        learn(folder, model="boosting", minutes=1.0)


def test_labels_without_numbers_are_learned_as_classes(tmp_path):
    """Of candidates, which do not identify the mean label, the default is softmax; auto says what to do."""
    table, labels = patients()
    few = Interval(0.0, 100.0, 20.0)
    release = Curator(labels, few).randomize(PriorResponse(few, 4.0, np.full((300, 6), 1 / 6)))
    release.save(tmp_path / "shared", table[["age"]], keep="all", label="cost")
    assert learn(tmp_path / "shared").model.model == "softmax"
    with pytest.raises(InputError, match="identify the mean label, found candidates"):
        learn(tmp_path / "shared", model="auto")


@pytest.mark.parametrize("model", ["neighbours", "convex", "ridge", "boosting"])
def test_every_model_predicts_the_mean_where_features_say_nothing(model, tmp_path):
    """On noise, which nobody can learn from, most predictions hardly differ.

    In about one draw of ten they are further from the mean than a third of its own squared error; more than three of
    six are with a probability of about 0.001.
    """
    random, flat = np.random.default_rng(3), 0
    for draw in range(6):
        table = pd.DataFrame(random.normal(size=(200, 3)), columns=list("abc"))
        folder = shared(tmp_path / f"shared-{draw}", table, random.uniform(0.0, 100.0, 200), 1.0)
        found = learn(folder, model=model)
        assert "shrinkage towards the mean" in found.setting
        flat += found.model.predict(public_columns(folder)).var() < Release.load(folder).numbers().var() / 600
    assert flat >= 3


@pytest.mark.parametrize("model", ["neighbours", "convex"])
def test_shrinkage_is_part_of_a_model(base, tmp_path, model):
    """The file keeps the shrinkage towards the mean, and predictions have it; another one is refused."""
    folder, rows = learned(base)[0], public_columns(learned(base)[0])
    model = learn(folder, model=model, features=["age"]).model
    assert 0.5 < model.calibrator.weights[0] < 1.5
    opened = open_model(model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(opened.predict(rows), model.predict(rows))
    plain = replace(model, calibrator=None)
    halved = replace(model, calibrator=replace(model.calibrator, weights=np.array([0.5])))
    middle = float(model.calibrator.constant)
    np.testing.assert_allclose(halved.predict(rows), middle + 0.5 * (plain.predict(rows) - middle))
    forged = replace(model, calibrator=replace(model.calibrator, weights=np.array([0.5, 0.5])))
    with pytest.raises(InputError, match="expected a model made by 'labeldp learn'"):
        open_model(forged.save(tmp_path / "forged.safetensors"))


def test_new_rows_may_have_unknown_texts(base):
    """Texts that were not seen before, and gaps, are predicted."""
    found = learned(base)[1].model
    rows = pa.table({"age": pa.array([None, 20.0], pa.float64()), "city": ["Paris", None]})
    assert np.isfinite(found.predict(rows)).all()
