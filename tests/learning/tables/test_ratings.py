"""A factorization of ratings, learned from the folder of a release and saved to a file."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, GroupResponse
from labeldp.errors import InputError
from labeldp.learning.ratings import FactorizationClassifier
from labeldp.learning.tables import learn, open_model

STARS = Classes([1, 2, 3, 4, 5])

#: Each rating is a unit here, whoever has several.
pytestmark = pytest.mark.filterwarnings("ignore:expected rows of different people")


@pytest.fixture(scope="module")
def table():
    """Ratings that follow from the user's town and the item's year."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 40, 900), rng.integers(0, 30, 900)
    latent = 1.5 * (user % 2) + 0.1 * (item - 15) + rng.normal(size=900)
    columns = {"who": [f"u{each}" for each in user], "what": item, "year": 1990.0 + item}
    return pa.table(
        {**columns, "town": np.where(user % 2, "east", "west"), "stars": 3 + np.clip(latent, -2, 2).round()}
    )


FEATURES = ["who", "what", "year", "town"]


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    """A release of the ratings by groups, to learn from in few rounds."""
    labels = table["stars"].to_numpy().astype(int)
    release = Curator(labels, STARS, name="stars").randomize(GroupResponse(STARS, 3.0, groups=[[1, 2], [3], [4, 5]]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(FactorizationClassifier.__init__.__kwdefaults__, "rounds", 60)
        patched.setitem(FactorizationClassifier.__init__.__kwdefaults__, "unused", 20)
        yield release.save(tmp_path_factory.mktemp("ratings") / "shared", table.drop(["stars"]), keep=FEATURES)


@pytest.fixture(scope="module")
def learned(folder):
    """What is learned from that release."""
    return learn(folder, model="factorization", features=FEATURES)


def test_a_saved_factorization_predicts_the_same(table, learned, tmp_path):
    """It is scored on held-out rows, opens with the same probabilities, and predicts users that it has not seen."""
    assert learned.scores.likelihood_gain.low > 0
    assert learned.setting.startswith("12 factors, the mean of 40 draws from the posterior")
    opened = open_model(learned.model.save(tmp_path / "model.safetensors"))
    inputs = table.select(FEATURES)
    assert (opened.predict_proba(inputs) == learned.model.predict_proba(inputs)).all()
    unseen = pa.table(
        {"who": ["new", "new", None], "what": [14, 14, 14], "year": [2004.0] * 3, "town": ["east", "west", None]}
    )
    means = opened.predict_proba(unseen) @ np.arange(1, 6)
    assert means[0] > means[1] + 0.3


def test_classes_that_nothing_tells_apart_are_named(table, learned, tmp_path):
    """Those that are in one group in all rows, before the scores; not if a row tells them apart."""
    assert learned.merged == ((1, 2), (4, 5))
    assert "the same distribution in every row: 1 and 2; 4 and 5. " in learned.remarks[0]
    groups = [[[1, 2], [3], [4, 5]]] * (len(table) - 1) + [[[1], [2, 3, 4], [5]]]
    labels = table["stars"].to_numpy().astype(int)
    release = Curator(labels, STARS, name="stars").randomize(GroupResponse(STARS, 3.0, groups=groups))
    other = release.save(tmp_path / "other", table.drop(["stars"]), keep=FEATURES)
    learned = learn(other, model="factorization", features=FEATURES)
    assert (learned.merged, learned.remarks) == ((), ())


@pytest.mark.parametrize("features", [None, ["who"]])
def test_users_and_items_are_named(folder, features):
    """Without their columns the model is refused, and how to name them is said."""
    with pytest.raises(InputError, match=r"with the model factorization.*--features user,item"):
        learn(folder, model="factorization", features=features)


@pytest.mark.parametrize("part", ["users", "items", "cuts", "coefficients", "rates"])
def test_parameters_of_another_form_are_refused(learned, tmp_path, part):
    """A file whose parameters do not fit its users, items and classes is refused, not read beyond their end."""
    model = open_model(learned.model.save(tmp_path / "whole.safetensors"))
    fitted = model.estimator[-1]
    wrong = getattr(fitted.draws_[0], part)
    short = tuple(each[:-1] for each in wrong) if part in ("coefficients", "rates") else wrong[:-1]
    fitted.draws_ = (dataclasses.replace(fitted.draws_[0], **{part: short}), *fitted.draws_[1:])
    with pytest.raises(InputError, match="expected a model"):
        open_model(model.save(tmp_path / "model.safetensors"))
