"""Boosting of imbalanced classes starts from the class shares, and keeps the mean probability there."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from labeldp import Classes, Curator
from labeldp.errors import InputError
from labeldp.learning.boosting import lightgbm_dataset, lightgbm_metric, lightgbm_objective, start_scores
from labeldp.learning.losses import class_shares
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


def test_a_rare_class_is_ranked_and_as_common_as_it_is():
    """As the guide does it, one positive in a hundred: near the true ranking, and log loss below that of the rate."""
    chance = np.random.default_rng(0)
    features = chance.normal(size=(60_000, 4))
    rate = expit(-5.5 + 1.2 * features[:, 0] + np.abs(features[:, 1]))
    release = Curator(np.where(chance.random(60_000) < rate, "yes", "no"), Classes(["no", "yes"])).randomize(
        epsilon=4.0
    )
    fit, held, start = slice(0, 48_000), slice(48_000, 60_000), start_scores(release)
    data = lightgbm_dataset(features[fit], release[fit], start=start)
    settings = {"num_leaves": 8, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 10.0, "lambda_l2": 10.0}
    model = lightgbm.train(
        {"objective": lightgbm_objective(release[fit]), "metric": "None", "verbose": -1, "num_threads": 1, **settings},
        data,
        60,
        valid_sets=[lightgbm_dataset(features[held], release[held], start=start, reference=data)],
        feval=lightgbm_metric(release[held]),
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    raw = model.predict(features, raw_score=True)
    found = expit(raw + start_scores(release, raw))
    mean, other = rate.mean(), lambda values: -np.mean(rate * np.log(values) + (1.0 - rate) * np.log1p(-values))
    assert found.mean() / class_shares(release)[1] == pytest.approx(1.0, abs=0.01)
    assert np.corrcoef(np.argsort(np.argsort(found)), np.argsort(np.argsort(rate)))[0, 1] > 0.6
    assert other(found) < other(np.full(60_000, mean))
