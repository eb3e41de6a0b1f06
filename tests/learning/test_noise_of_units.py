"""Labels that are noise, and constant within people of several near-alike rows: no way in finds anything in them."""

import functools
import math

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, Interval, release_table
from labeldp.learning.sklearn import (
    AutoClassifier,
    AutoRegressor,
    ClusterLeaves,
    ReleasedLabelRegressor,
    SoftmaxRegression,
    TreeClassifier,
    TreeRegressor,
)
from labeldp.learning.tables import learn
from labeldp.learning.tables._scores import class_scores

PEOPLE, EACH, FRESH = 600, 5, 4_000


@functools.cache
def people(epsilon):
    """Features and the person of each row, releases of classes and of numbers by person, and fresh features."""
    rng = np.random.default_rng(int(epsilon))
    person = np.repeat(np.arange(PEOPLE), EACH)
    features = rng.normal(size=(PEOPLE, 4))[person] + 0.05 * rng.normal(size=(len(person), 4))
    of_classes, of_numbers = (
        Curator(labels[person], space, units=person, budget=epsilon).randomize(epsilon=epsilon)
        for labels, space in (
            (np.where(rng.random(PEOPLE) < 0.6, "yes", "no"), Classes(["no", "yes"])),
            (rng.integers(0, 101, PEOPLE).astype(float), Interval(0.0, 100.0, 1.0)),
        )
    )
    return features, person, of_classes, of_numbers, rng.normal(size=(FRESH, 4))


def loss_of(probabilities):
    """The expected log loss of probabilities of fresh rows, of which a share of 0.6 has the second class."""
    return -float((np.log(np.maximum(probabilities, 1e-9)) @ [0.4, 0.6]).mean())


@pytest.mark.parametrize("epsilon", [5.0, 20.0])
def test_classes_of_people_are_not_learned_from_noise(epsilon):
    """Of fresh people its log loss is at most that of class shares and a hundredth, and its own scores show no gain."""
    features, person, release, _, fresh = people(epsilon)
    constant = SoftmaxRegression(l2=math.inf).fit(features, release, groups=person)
    model = AutoClassifier().fit(features, release, groups=person)
    assert loss_of(model.predict_proba(fresh)) <= loss_of(constant.predict_proba(fresh)) + 0.01
    rows = model.held_out_rows_
    scores = class_scores(release[rows], model.held_out_, model.held_out_folds_, person[rows])
    assert scores.better.low <= 0.0 <= scores.better.high
    assert scores.log_loss_gain.low <= 0.0


@pytest.mark.parametrize("epsilon", [5.0, 20.0])
def test_numbers_of_people_are_not_learned_from_noise(epsilon):
    """Predictions of fresh people vary by less than a fifth of what labels do, so that they err by 4 % more at most."""
    features, person, _, release, fresh = people(epsilon)
    predicted = AutoRegressor().fit(features, release, groups=person).predict(fresh)
    assert np.sqrt(np.mean((predicted - predicted.mean()) ** 2)) < 5.8


@pytest.mark.parametrize("epsilon", [5.0, 20.0])
def test_trees_count_alike_rows_of_a_person_once(epsilon):
    """Leaves of one person each are no evidence: log loss is that of class shares, and numbers do not vary."""
    features, person, of_classes, of_numbers, fresh = people(epsilon)
    encoder = ClusterLeaves()
    leaves, others = encoder.fit_transform(features), encoder.transform(fresh)
    constant = SoftmaxRegression(l2=math.inf).fit(features, of_classes, groups=person)
    model = TreeClassifier(encoder.trees_).fit(leaves, of_classes, groups=person)
    assert loss_of(model.predict_proba(others)) <= loss_of(constant.predict_proba(fresh)) + 0.01
    numbers = TreeRegressor(encoder.trees_).fit(leaves, of_numbers, groups=person)
    assert numbers.predict(others).std() < 5.8


@pytest.mark.parametrize(("kept", "model"), [(True, "auto"), (False, "auto"), (True, "softmax"), (False, "boosting")])
def test_a_folder_is_learned_by_person(tmp_path, kept, model):
    """With the column of people scores show no gain; without it there are none, and the model is no worse."""
    rng = np.random.default_rng(0)
    features, person, *_, fresh = people(20.0)
    frame = pd.DataFrame(features, columns=list("abcd")).assign(
        person=person, y=np.where(rng.random(PEOPLE) < 0.6, "yes", "no")[person]
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    columns = ["a", "b", "c", "d", *(["person"] if kept else [])]
    release_table(
        tmp_path / "table.csv", "y", Classes(["no", "yes"]), 20.0, tmp_path / "shared", keep=columns, unit="person",
        ledger=tmp_path / "ledger", budget=20.0,
    )  # fmt: skip
    learned = learn(tmp_path / "shared", model=model)
    predicted = learned.model.predict_proba(pd.DataFrame(fresh, columns=list("abcd")))
    assert loss_of(predicted) <= loss_of(np.array([[0.4, 0.6]])) + 0.015
    assert learned.mixed is not kept
    if kept:
        assert learned.scores.better.low <= 0.0 <= learned.scores.better.high
    else:
        assert learned.scores is None
        assert "Nothing shows how good this model is" in learned.remarks[0]


def test_noisy_rows_of_a_few_people_do_not_flatten_what_others_show():
    """Of 1,600 people a hundred have twenty rows, with far more noise: the slope that features have is still learned.

    The mean of six slopes was 0.99 with a standard error of 0.04, and 0.69 where noise was that of the mean row.
    """
    rng, slopes = np.random.default_rng(0), []
    person = np.concatenate([np.arange(1500), np.repeat(np.arange(1500, 1600), 20)])
    for _ in range(6):
        feature = rng.normal(size=(len(person), 1))
        labels = np.clip(np.round(50.0 + 12.0 * feature[:, 0] + 5.0 * rng.normal(size=len(person))), 0.0, 100.0)
        release = Curator(labels, Interval(0.0, 100.0, 1.0), units=person, budget=2.0).randomize(epsilon=2.0)
        model = ReleasedLabelRegressor().fit(feature, release, groups=person)
        slopes.append(float(np.diff(model.predict(np.array([[-1.0], [1.0]])))[0]) / 24.0)
    assert np.mean(slopes) > 0.84
