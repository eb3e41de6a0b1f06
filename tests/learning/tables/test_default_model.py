"""The model that ``learn`` makes when none is named: a mean of models of several families."""

import functools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, RandomizedResponse, release_table
from labeldp.errors import InputError
from labeldp.learning.choice import folds_of
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import AutoClassifier, BoostingClassifier
from labeldp.learning.tables import learn, open_model
from labeldp.learning.tables._folds import units_in
from labeldp.release import Release, public_columns

SPACE = Classes(["grave", "mild", "none"])
pytestmark = pytest.mark.usefixtures("as_users_call")


def patients(rows=300):
    """Columns that decide the class of a row but for noise, one of them of text, and the classes."""
    random = np.random.default_rng(5)
    codes = random.integers(0, 3, rows)
    table = pd.DataFrame(
        {
            "person": np.arange(rows) // 3,
            "age": 20.0 * codes + random.normal(size=rows),
            "city": np.array(["Rome", "Oslo", "Bonn"], dtype=object)[codes],
        }
    )
    return table, np.array(SPACE.points)[codes]


@functools.cache
def learned(base):
    """A release folder, and what is learned from it by default."""
    table, labels = patients()
    folder = base / "shared"
    curator = Curator(labels, SPACE)
    curator.randomize(RandomizedResponse(SPACE, 4.0)).save(folder, table[["age", "city"]], keep="all", label="kind")
    return folder, learn(folder)


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A folder for what is made once."""
    return tmp_path_factory.mktemp("default")


def test_the_default_is_a_mean_of_models(base):
    """It is named auto, says what weighs how much, is scored on held-out rows, and is right for nearly all rows."""
    folder, found = learned(base)
    assert (found.model.model, found.model.method) == ("auto", "likelihood")
    assert isinstance(found.model.estimator, AutoClassifier)
    assert found.setting.startswith("a mean of ")
    assert all(name in found.setting for name in ("linear", "kernels", "boosting", "clusters"))
    assert found.scores.rows == 300
    assert found.scores.accuracy.value > 0.8
    assert found.scores.better.low > 0.0
    assert (found.model.predict(public_columns(folder)) == patients()[1]).mean() > 0.9


def test_a_file_gives_the_same_predictions(base, tmp_path):
    """What is opened from a file predicts what was saved."""
    folder, found = learned(base)
    opened = open_model(found.model.save(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(
        opened.predict_proba(public_columns(folder)), found.model.predict_proba(public_columns(folder))
    )


def test_an_index_of_neighbours_in_a_file_is_built_anew(base, tmp_path):
    """A forged search structure of the graph is not used: opening fits it to the rows that the file holds."""
    folder, found = learned(base)
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
    folder, found = learned(base)
    held = found.model.held_out_proba(Release.load(folder), public_columns(folder))
    assert held.shape == (300, 3)
    assert (np.array(SPACE.points)[held.argmax(axis=1)] == patients()[1]).mean() > 0.8
    assert (held != found.model.predict_proba(public_columns(folder))).any()


def test_units_are_the_groups_of_folds(tmp_path, monkeypatch):
    """Where the unit's column was kept, its rows share folds."""
    table, labels = patients()
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


def test_without_time_the_setting_says_what_is_missing(base):
    """With no minutes, class shares are learned, and each family is named with the reason."""
    found = learn(learned(base)[0], minutes=0)
    assert found.setting.startswith("class shares")
    assert found.setting.count("no time left") == 4


def test_a_choice_is_respected(base):
    """A method alone means the linear model, and a name that model."""
    folder = learned(base)[0]
    assert learn(folder, method="unbiased").model.model == "softmax"
    boosted = learn(folder, model="boosting")
    assert isinstance(boosted.model.estimator[-1], BoostingClassifier)
    assert "trees for a class" in boosted.setting
    assert learn(folder, model="boosting", method="plain", features=["age"]).model.method == "plain"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"model": "softmax", "minutes": 1.0},
            "with the model auto alone, found one with softmax",
        ),
        ({"minutes": -1.0}, "minutes"),
        ({"model": "auto", "method": "em"}, "a method of auto"),
    ],
)
def test_what_does_not_go_together_is_refused(base, options, message):
    """Time limits are for the default model, which has one method."""
    with pytest.raises(InputError, match=message):
        learn(learned(base)[0], **options)
