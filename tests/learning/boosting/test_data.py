"""Boosting of imbalanced classes starts from the class shares, and keeps the mean probability there."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.boosting import (
    leaf_information,
    lightgbm_dataset,
    lightgbm_metric,
    lightgbm_objective,
    start_scores,
    xgboost_metric,
    xgboost_objective,
)
from labeldp.learning.losses import class_shares
from labeldp.privacy.channels import ResponseChannel
from labeldp.release import Release

lightgbm = pytest.importorskip("lightgbm")


def test_scores_start_from_the_class_shares():
    """They are log shares, or their difference for two classes; a class without rows is not impossible."""
    three = Release.public(["a"] * 60 + ["b"] * 30 + ["c"] * 10, Classes(["a", "b", "c"]))
    np.testing.assert_allclose(softmax(start_scores(three)), class_shares(three), rtol=1e-6)
    two = Release.public(["no"] * 90 + ["yes"] * 10, Classes(["no", "yes"]))
    assert expit(start_scores(two)[0]) == pytest.approx(class_shares(two)[1])
    none = Release.public(["no"] * 90, Classes(["no", "yes"]))
    assert -20.0 < start_scores(none)[0] < -3.0


@pytest.mark.parametrize("classes", [2, 4])
def test_raw_scores_are_moved_to_the_class_shares(classes):
    """With what is added, the mean probability of each class is its share."""
    chance = np.random.default_rng(0)
    space = Classes([f"c{place}" for place in range(classes)])
    labels = np.array(space.points)[
        chance.choice(classes, 3000, p=np.arange(1, classes + 1) ** 2 / sum(np.arange(1, classes + 1) ** 2))
    ]
    release = Curator(labels, space).randomize(epsilon=3.0)
    raw = chance.normal(0.0, 2.0, (3000, classes) if classes > 2 else 3000)
    found = raw + start_scores(release, raw)
    chances = softmax(found, axis=1) if classes > 2 else np.stack([1.0 - expit(found), expit(found)], axis=1)
    np.testing.assert_allclose(chances.mean(axis=0), class_shares(release), atol=1e-5)


def test_raw_scores_of_another_form_are_refused():
    """Probabilities of another number of classes are no raw scores."""
    release = Release.public(["a", "b", "c"] * 5, Classes(["a", "b", "c"]))
    with pytest.raises(InputError, match="3 classes"):
        start_scores(release, np.zeros((15, 2)))


def by_lightgbm(features, release, fit, held, start):
    """Raw scores of all rows, as the guide has them of LightGBM."""
    data, least = lightgbm_dataset(features[fit], release[fit], start=start), leaf_information(release[fit])
    leaves = {"num_leaves": 8, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": least, "lambda_l2": least}
    model = lightgbm.train(
        {"objective": lightgbm_objective(release[fit]), "metric": "None", "verbose": -1, "num_threads": 1, **leaves},
        data,
        200,
        valid_sets=[lightgbm_dataset(features[held], release[held], start=start, reference=data)],
        feval=lightgbm_metric(release[held]),
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    return model.predict(features, raw_score=True)


def by_xgboost(features, release, fit, held, start):
    """Raw scores of all rows, as the guide has them of XGBoost."""
    xgboost = pytest.importorskip("xgboost")
    parts = [(features[part], np.zeros(len(release[part])), np.full(len(release[part]), start)) for part in (fit, held)]
    rows, least = [xgboost.DMatrix(*part[:2], base_margin=part[2]) for part in parts], leaf_information(release[fit])
    leaves = {"max_depth": 3, "min_child_weight": least, "lambda": least}
    model = xgboost.train(
        {"base_score": 0.0, "disable_default_eval_metric": True, "nthread": 1, **leaves},
        rows[0],
        200,
        obj=xgboost_objective(release[fit]),
        evals=[(rows[1], "held")],
        custom_metric=xgboost_metric(release[held]),
        early_stopping_rounds=50,
        verbose_eval=False,
    )
    rounds = (0, model.best_iteration + 1)
    return model.predict(xgboost.DMatrix(features), output_margin=True, iteration_range=rounds)


@pytest.mark.parametrize("fitted", [by_lightgbm, by_xgboost])
def test_a_rare_class_is_ranked_and_as_common_as_it_is(fitted, randomized):
    """As the guide does it, one positive in a hundred: near the true ranking, and log loss below that of the rate."""
    chance = np.random.default_rng(0)
    features = chance.normal(size=(60_000, 4))
    rate = expit(-6.3 + 1.2 * features[:, 0] + np.abs(features[:, 1]))
    release = randomized(chance.random(60_000) < rate, ResponseChannel.at(2, 1.6), 1)
    fit, held, start = slice(0, 48_000), slice(48_000, 60_000), start_scores(release)
    raw = fitted(features, release, fit, held, start)
    found = expit(raw + start_scores(release, raw))
    mean, other = rate.mean(), lambda values: -np.mean(rate * np.log(values) + (1.0 - rate) * np.log1p(-values))
    assert mean == pytest.approx(0.01, abs=3e-4)
    assert found.mean() / class_shares(release)[1] == pytest.approx(1.0, abs=0.01)
    assert np.corrcoef(np.argsort(np.argsort(found)), np.argsort(np.argsort(rate)))[0, 1] > 0.4
    assert other(found) < other(np.full(60_000, mean))


def test_leaves_of_a_rare_class_have_room():
    """The least information is a sixteenth of that of all rows of the rarest class, and at most 10."""
    half = Curator(["no", "yes"] * 2000, Classes(["no", "yes"])).randomize(epsilon=3.0)
    assert leaf_information(half) == 10.0
    rare = Release.public(["a"] * 900 + ["b"] * 90 + ["c"] * 10, Classes(["a", "b", "c"]))
    assert leaf_information(rare) == pytest.approx(1000 * 0.01 * 0.99 / 16, rel=1e-3)
