"""Bayesian regression in kernels, averaged by marginal likelihood, and the classifier that it makes."""

import numpy as np
from scipy.sparse import csr_matrix
from scipy.stats import multivariate_normal

from labeldp import Classes, Curator, Interval
from labeldp.learning.sklearn import EvidenceRidge, KernelClassifier, ReleasedLabelRegressor
from labeldp.learning.sklearn._kernel import _EXPLAINED
from labeldp.release import Release


def rows(count=60, columns=3, seed=0):
    """Features, targets that follow the first of them with noise, and the generator."""
    chance = np.random.default_rng(seed)
    features = chance.normal(size=(count, columns))
    return features, features[:, 0] + chance.normal(size=count), chance


def test_the_average_is_that_of_written_out_likelihoods():
    """A linear model averages ridge fits in proportion to normal densities of all targets at the likeliest noise."""
    features, targets, _ = rows()
    model = EvidenceRidge((), signal=0.6).fit(features, targets)
    around, offsets, count = features - features.mean(axis=0), targets - targets.mean(), len(targets)
    around = around / np.sqrt((around**2).sum() / count)
    logs, fits = [], []
    for explained in 0.6 * _EXPLAINED:
        covariance = np.eye(count) + explained / (1.0 - explained) * around @ around.T
        noise = offsets @ np.linalg.solve(covariance, offsets) / count
        logs.append(multivariate_normal(np.zeros(count), noise * covariance).logpdf(offsets))
        fits.append(around @ around.T @ np.linalg.solve(covariance, offsets) * explained / (1.0 - explained))
    weights = np.exp(np.array(logs) - max(logs))
    expected = targets.mean() + np.average(fits, axis=0, weights=weights)
    np.testing.assert_allclose(model.predict(features), expected, rtol=1e-6)


def test_curved_targets_are_followed():
    """Gaussian kernels explain what no line does."""
    features, _, chance = rows(800)
    targets = np.abs(features[:, 0]) + 0.1 * chance.normal(size=800)
    line, curve = (EvidenceRidge(*widths).fit(features, targets) for widths in (((),), ()))
    errors = [np.mean((model.predict(features) - targets) ** 2) for model in (line, curve)]
    assert errors[1] < 0.2 * errors[0]


def test_alike_rows_of_a_unit_count_once():
    """Five copies of each row in one unit say what one of them does; as rows of their own they say more."""
    features, targets, _ = rows(40)
    once = EvidenceRidge(()).fit(features, targets).predict(features)
    many, unit = (np.repeat(features, 5, axis=0), np.repeat(targets, 5)), np.repeat(np.arange(40), 5)
    np.testing.assert_allclose(EvidenceRidge(()).fit(*many, groups=unit).predict(features), once, rtol=1e-6)
    assert np.abs(EvidenceRidge(()).fit(*many).predict(features) - once).max() > 0.01


def test_weights_are_copies_of_rows():
    """A row that weighs three times is three rows."""
    features, targets, chance = rows(50)
    weights = chance.integers(1, 4, 50)
    weighed = EvidenceRidge(()).fit(features, targets, sample_weight=weights)
    copied = EvidenceRidge(()).fit(np.repeat(features, weights, axis=0), np.repeat(targets, weights))
    np.testing.assert_allclose(weighed.predict(features), copied.predict(features), rtol=1e-6)


def test_sparse_features_are_those_of_an_array():
    """Compressed rows give the same predictions, also of many columns."""
    for columns in (5, 400):
        features, targets, chance = rows(120, columns)
        features[chance.random(features.shape) < 0.7] = 0.0
        dense, sparse = (EvidenceRidge().fit(form(features), targets) for form in (np.asarray, csr_matrix))
        np.testing.assert_allclose(sparse.predict(csr_matrix(features)), dense.predict(features), atol=1e-6)


def test_a_regressor_tells_it_the_noise():
    """Of numbers with much noise the share that is not noise is small, and of public ones all of it."""
    chance = np.random.default_rng(0)
    features, labels = chance.normal(size=(1000, 2)), chance.integers(0, 101, 1000).astype(float)
    release = Curator(labels, Interval(0.0, 100.0, 1.0)).randomize(epsilon=0.5)
    model = ReleasedLabelRegressor(EvidenceRidge(())).fit(features, release)
    assert 0.0 < model.estimator_.signal < 0.1


def test_a_curved_boundary_is_learned_from_released_labels():
    """The classifier follows a ring that no linear model sees."""
    chance = np.random.default_rng(0)
    features = chance.normal(size=(4000, 2))
    labels = np.where((features**2).sum(axis=1) < 1.4, "in", "out")
    release = Curator(labels, Classes(["in", "out"])).randomize(epsilon=1.0)
    assert np.mean(KernelClassifier().fit(features, release).predict(features) == labels) > 0.85


def test_probabilities_of_few_rows_are_cautious():
    """Ten released labels leave every class possible, where the sums of vectors alone would exclude some."""
    chance = np.random.default_rng(0)
    features = chance.normal(size=(30, 2))
    release = Curator(np.array(["a", "b", "c"])[np.arange(30) % 3], Classes(["a", "b", "c"])).randomize(epsilon=0.5)
    found = KernelClassifier().fit(features, release).predict_proba(features)
    assert found.min() > 0.05
    public = Release.public(np.where(features[:, 0] > 0, "a", "b"), Classes(["a", "b"]))
    sure = KernelClassifier().fit(features, public).predict_proba(features)
    assert np.mean(sure.max(axis=1)) > 0.8
