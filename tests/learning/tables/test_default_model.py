"""The model that ``learn`` makes when none is named: a mean of models of several families, and of the mean label."""

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, Interval, PriorResponse, release_table
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import AutoClassifier, AutoRegressor
from labeldp.learning.tables import learn, open_model
from labeldp.learning.tables._model import units_in
from labeldp.release import Release, public_columns

SPACE = Classes(["grave", "mild", "none"])
NUMBERS = Interval(0.0, 100.0, 1.0)
pytestmark = pytest.mark.usefixtures("as_users_call")


def patients(rows=300):
    """Columns that decide the class of a row but for noise, one of them of text, and the codes of the classes."""
    random = np.random.default_rng(5)
    codes = random.integers(0, 3, rows)
    person, age = np.arange(rows) // 3, 20.0 * codes + random.normal(size=rows)
    city = np.array(["Rome", "Oslo", "Bonn"], dtype=object)[codes]
    return pd.DataFrame({"person": person, "age": age, "city": city}), codes


def labels_in(space):
    """The label of each patient in a space."""
    codes = patients()[1]
    return np.array(SPACE.points)[codes] if space is SPACE else 30.0 * codes + 20.0


def shared(folder, table, labels, request):
    """A release in a folder."""
    space, asked = request
    Curator(labels, space).randomize(**asked).save(folder, table, keep="all", label="label")
    return folder


@functools.cache
def learned(base, space):
    """A release folder, and what is learned from it by default."""
    folder = base / type(space).__name__
    shared(folder, patients()[0][["age", "city"]], labels_in(space), (space, {"epsilon": 4.0}))
    return folder, learn(folder)


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A folder for what is made once."""
    return tmp_path_factory.mktemp("default")


@pytest.mark.parametrize("space", [SPACE, NUMBERS], ids=["classes", "numbers"])
def test_the_default_is_a_mean_of_models(base, space):
    """It is named auto, says what weighs how much, is scored on held-out rows, and is near most labels."""
    folder, learner = learned(base, space)
    kind, opening = (AutoClassifier, "a mean of ") if space is SPACE else (AutoRegressor, "a combination of ")
    assert learner.model.model == "auto"
    assert isinstance(learner.model.estimator, kind)
    assert learner.setting.startswith(opening)
    assert all(name in learner.setting for name in ("linear", "kernels", "boosting", "clusters"))
    assert learner.scores.rows == 300
    assert (learner.scores.better if space is SPACE else learner.scores.gain).low > 0.0
    predicted, labels = learner.model.predict(public_columns(folder)), labels_in(space)
    if space is SPACE:
        assert (predicted == labels).mean() > 0.9
    else:
        assert np.mean((predicted - labels) ** 2) < 0.2 * np.var(labels)


@pytest.mark.parametrize("space", [SPACE, NUMBERS], ids=["classes", "numbers"])
def test_without_time_the_setting_says_what_is_missing(base, space):
    """With no minutes, class shares or the mean label are learned, and each family is named with the reason."""
    learner = learn(learned(base, space)[0], minutes=0)
    assert learner.setting.startswith("class shares" if space is SPACE else "the mean label; without linear")
    assert learner.setting.count("no time left") == 4


def test_an_index_of_neighbours_in_a_file_is_built_anew(base, tmp_path):
    """A forged search structure of the graph is not used: opening fits it to the rows that the file holds."""
    folder, found = learned(base, SPACE)
    forged = open_model(found.model.save(tmp_path / "model.safetensors"))
    for tree in forged.estimator.members_["clusters"][-1].trees:
        if tree.finder.embedding is not None:
            tree.finder.embedding.search.n_samples_fit_ = 1
    opened = open_model(forged.save(tmp_path / "forged.safetensors"))
    trees = opened.estimator.members_["clusters"][-1].trees
    assert {tree.finder.embedding.search.n_samples_fit_ for tree in trees if tree.finder.embedding} == {300}
    np.testing.assert_array_equal(
        opened.predict_proba(public_columns(folder)), found.model.predict_proba(public_columns(folder))
    )


def test_held_out_predictions_are_of_every_row_in_declared_order(base):
    """Attacks get probabilities of each row by models that were not fitted on it."""
    folder, found = learned(base, SPACE)
    held = found.model.held_out_proba(Release.load(folder), public_columns(folder))
    assert held.shape == (300, 3)
    assert (held.argmax(axis=1) == patients()[1]).mean() > 0.8
    assert (held != found.model.predict_proba(public_columns(folder))).any()


def test_units_are_the_groups_of_folds(tmp_path, monkeypatch):
    """Where the unit's column was kept, its rows share folds."""
    table, labels = patients()[0], labels_in(SPACE)
    table.assign(kind=labels).to_csv(tmp_path / "patients.csv", index=False)
    kept = list(table.columns)
    release_table(tmp_path / "patients.csv", "kind", SPACE, 6.0, tmp_path / "shared", keep=kept, unit="person")
    groups, real = [], AutoClassifier.fit

    def fit(self, features, release, given, **more):
        groups.append(given.numbers)
        return real(self, features, release, given, **more)

    monkeypatch.setattr(AutoClassifier, "fit", fit)
    learn(tmp_path / "shared")
    assert len(np.unique(groups[0])) == 100
    assert (pd.Series(groups[0]).groupby(table["person"]).nunique() == 1).all()


def test_spellings_of_a_unit_share_a_fold():
    """Rows of one unit are on one side of every fold, as they share one epsilon, however its name is spelled."""
    spelled = [["p1", "P1 ", "p2", "p3", "P3", "p4", "p5", "p6"][i % 8] for i in range(80)]
    units = units_in(pa.table({"person": spelled}), "person")
    assert len(np.unique(units)) == 6
    for fit, held in folds_of(Units.of(units, 80), 5):
        assert not {spelled[i].strip().lower() for i in fit} & {spelled[i].strip().lower() for i in held}


def test_a_choice_is_respected(base):
    """A method alone means the linear model, and a name that model."""
    folder = learned(base, NUMBERS)[0]
    assert learn(folder, method="unbiased").model.model == "ridge"
    assert learn(folder, model="boosting", features=["age"]).model.model == "boosting"
    folder = learned(base, SPACE)[0]
    assert learn(folder, method="plain", features=["age"]).model.method == "plain"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "softmax", "minutes": 1.0}, "with the model auto alone, found one with softmax"),
        ({"minutes": -1.0}, "minutes"),
        ({"model": "auto", "method": "em"}, "a method of auto"),
    ],
)
def test_what_does_not_go_together_is_refused(base, options, message):
    """Time limits are for the default model, which has one method."""
    with pytest.raises(InputError, match=message):
        learn(learned(base, SPACE)[0], **options)


def test_labels_without_numbers_are_learned_as_classes(tmp_path):
    """Of candidates, which do not identify the mean label, the default is softmax; auto says what to do."""
    few = Interval(0.0, 100.0, 20.0)
    asked = {"randomizer": PriorResponse(few, 4.0, np.full((300, 6), 1 / 6))}
    shared(tmp_path / "shared", patients()[0][["age"]], labels_in(NUMBERS), (few, asked))
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
        folder = tmp_path / f"shared-{draw}"
        shared(folder, table, random.uniform(0.0, 100.0, 200), (NUMBERS, {"epsilon": 1.0}))
        found = learn(folder, model=model)
        assert "shrinkage towards the mean" in found.setting
        flat += found.model.predict(public_columns(folder)).var() < Release.load(folder).numbers().var() / 600
    assert flat >= 3


@pytest.mark.parametrize("model", ["neighbours", "convex"])
def test_shrinkage_is_part_of_a_model(base, tmp_path, model):
    """The file keeps the shrinkage towards the mean, and predictions have it; another one is refused."""
    folder = learned(base, NUMBERS)[0]
    rows = public_columns(folder)
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
    found = learned(base, NUMBERS)[1].model
    rows = pa.table({"age": pa.array([None, 20.0], pa.float64()), "city": ["Paris", None]})
    assert np.isfinite(found.predict(rows)).all()


@pytest.mark.parametrize("space", [SPACE, NUMBERS], ids=["classes", "numbers"])
def test_a_model_of_texts_with_gaps_fits_in_a_file(space, tmp_path):
    """A column of texts without one in each row is learned from, and the file of the model predicts what it does."""
    table = patients()[0][["age", "city"]].assign(city=lambda frame: frame["city"].where(frame.index % 5 > 0, ""))
    folder = shared(tmp_path / "gaps", table, labels_in(space), (space, {"epsilon": 4.0}))
    model = learn(folder).model
    opened = open_model(model.save(tmp_path / "model.safetensors"))
    rows = public_columns(folder)
    np.testing.assert_array_equal(opened.predict(rows), model.predict(rows))
