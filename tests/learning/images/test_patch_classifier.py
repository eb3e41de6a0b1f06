"""The linear model of features of patches: an average over heads that released labels weigh."""

import numpy as np
import pytest
from scipy.special import softmax

from labeldp import Classes, Curator, Release
from labeldp.learning.images import PatchClassifier
from labeldp.learning.losses import gain
from labeldp.learning.sklearn import SoftmaxRegression, group_folds

SPACE = Classes(["b", "a"])


def rows(count, columns=8, seed=0):
    """Features of which the first says the class, and labels."""
    features = np.random.default_rng(seed).normal(size=(count, columns))
    return features, np.where(features[:, 0] > 0, "a", "b")


def test_heads_weigh_as_held_out_labels_are_likely():
    """Coefficients are the weighted mean of fits one by one, whose weights are likelihoods of a held-out fifth."""
    features, labels = rows(400)
    release = Curator(labels, SPACE).randomize(epsilon=0.3)
    fit, held = group_folds(400, 5, None)[0]
    settings = [(count, place) for count in (1, 8) for place in range(11)]
    gains, heads = [], []
    for count, place in settings:
        head = SoftmaxRegression(tol=1e-3).fit_setting(place, features[fit, :count], release[fit])
        gains.append(head.score(features[held, :count], release[held]) * len(held))
        heads.append(SoftmaxRegression(tol=1e-3).fit_setting(place, features[:, :count], release))
    weights = softmax(gains)
    expected = sum(
        weight * np.pad(head.coef_, [(0, 0), (0, 8 - head.coef_.shape[1])])
        for weight, head in zip(weights, heads, strict=True)
    )
    model = PatchClassifier((8, 1)).fit_head(features, release)
    np.testing.assert_allclose(model.coef_, expected, atol=0.2 * np.abs(expected).max())
    for count in (1, 8):
        share = sum(weight for weight, (each, _) in zip(weights, settings, strict=True) if each == count)
        assert model.weights_[count] == pytest.approx(share, abs=0.1)


def test_labels_that_say_much_choose_and_labels_that_say_little_do_not():
    """One head decides where it is clearly likelier, and all count where labels are noise."""
    features, labels = rows(2_000)
    chosen = PatchClassifier((1, 8)).fit_head(features[:, ::-1], Release.public(labels, SPACE))
    assert chosen.weights_[8] > 0.99  # the last of eight columns says the class
    assert (chosen.predict_features(features[:, ::-1]) == labels).mean() > 0.95
    mixed = PatchClassifier((1, 8)).fit_head(features, Curator(labels, SPACE).randomize(epsilon=0.01))
    assert min(mixed.weights_.values()) > 0.1


def test_rows_that_heads_were_fitted_on_do_not_weigh_them():
    """Labels that are noise teach next to nothing; judged by rows of their own fit, heads without a penalty win."""
    features, _ = rows(600, columns=100)
    labels = np.where(np.random.default_rng(1).random(600) < 0.5, "a", "b")
    model = PatchClassifier((100,)).fit_head(features[:300], Release.public(labels[:300], SPACE))
    scores = model._feature_scores(features[300:])[:, SPACE.sorted_codes]
    assert gain(Release.public(labels[300:], SPACE), softmax(scores, axis=1)).mean() > -0.1


def test_rows_of_one_unit_are_on_one_side():
    """Copies of a row that are one unit do not vouch for each other: what tells rows apart says nothing of others."""
    random = np.random.default_rng(2)
    features = np.repeat(random.normal(size=(60, 100)), 10, axis=0)
    labels = np.repeat(np.where(random.random(60) < 0.5, "a", "b"), 10)
    release = Release.public(labels, SPACE)
    alone, together = (
        PatchClassifier((100,)).fit_head(features, release, groups) for groups in (None, np.repeat(np.arange(60), 10))
    )
    assert np.abs(together.coef_).sum() < 0.5 * np.abs(alone.coef_).sum()
