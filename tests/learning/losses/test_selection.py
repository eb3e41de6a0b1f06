"""Choosing a penalty by released labels: in doubt the usual one, and none that depends on the scale of features."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from labeldp.learning.losses import Gains, best_penalty, splits
from labeldp.learning.sklearn import SoftmaxRegression, _softmax

PENALTIES = (10.0, 1.0, 0.1)


def choose(gains):
    """The choice for given gains of 100 rows under each penalty."""
    return best_penalty(PENALTIES, 1.0, gains.shape[1], 5, lambda _, held: gains[:, held])


def test_a_penalty_that_is_clearly_better_is_taken():
    """Its gain over the usual one is more than the error of that gain."""
    noise = np.random.default_rng(0).normal(size=100)
    assert choose(np.stack([noise - 1, noise, noise + 0.5 + 0.1 * noise[::-1]])) == 0.1
    assert choose(np.stack([noise + 1, noise, noise])) == 10.0


def test_in_doubt_the_usual_penalty_stays():
    """A better mean within its own error changes nothing."""
    noise = np.random.default_rng(0).normal(size=(3, 100))
    noise -= noise.mean(axis=1, keepdims=True)
    assert choose(noise + np.array([[-1.0], [0.0], [0.05]])) == 1.0


@pytest.mark.parametrize(("mean", "chosen"), [(0.5, 1.0), (0.05, 1.0), (-0.05, np.inf), (-0.5, np.inf)])
def test_class_shares_stay_unless_features_help(mean, chosen):
    """The usual penalty, or a clearly better one, must have a larger mean gain than class shares."""
    noise = np.random.default_rng(1).normal(size=100)
    noise -= noise.mean()
    gains = np.stack([np.zeros(100), noise + mean - 1.0, noise + mean, noise + mean - 1.0])
    found = best_penalty((np.inf, *PENALTIES), 1.0, 100, 5, lambda _, held: gains[:, held], fallback=np.inf)
    assert found == chosen


def test_noise_is_not_fitted(make_channel, randomized):
    """Without signal, class shares are predicted in most of 12 releases; a fit of noise in 16 % at most by design.

    More than 6 have a chance below 1e-3 at 16 %. The words have seeds, so it passes always or never.
    """
    random, fits = np.random.default_rng(6), []
    for seed in range(12):
        features, codes = random.normal(size=(300, 6)), random.integers(0, 2, 300)
        release = randomized(codes, make_channel("response", 2, 300, 1.0), seed)
        fits.append(SoftmaxRegression().fit(features, release))
    assert sum(np.isfinite(fit.l2_) for fit in fits) <= 6
    for fit in fits:
        if np.isinf(fit.l2_):
            assert not fit.coef_.any()
            assert np.ptp(fit.predict_proba(np.eye(6)), axis=0).max() == 0.0


def test_softmax_has_class_shares_to_fall_back_on(make_channel, randomized, monkeypatch):
    """They are the candidate that stays in doubt, judged with the others."""
    asked = {}
    monkeypatch.setattr(_softmax, "best_penalty", lambda *given, **more: asked.update(given=given, **more) or given[1])
    release = randomized(np.arange(60) % 2, make_channel("response", 2, 60, 1.0), 1)
    SoftmaxRegression().fit(np.ones((60, 1)), release)
    assert asked["fallback"] == asked["given"][0][0] == np.inf


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
@pytest.mark.parametrize("method", ["likelihood", "unbiased", "plain"])
def test_class_shares_can_be_asked_for(wrap, method, make_channel, randomized):
    """An infinite penalty leaves intercepts alone, whatever the form of features and the loss."""
    features, codes = np.random.default_rng(7).normal(size=(400, 3)), np.repeat([0, 1], [300, 100])
    release = randomized(codes, make_channel("response", 2, 400, 4.0), 1)
    found = SoftmaxRegression(method=method, l2=np.inf).fit(wrap(features), release)
    assert found.coef_.shape == (2, 3)
    np.testing.assert_allclose(found.predict_proba(features[:1]), [[0.75, 0.25]], atol=0.03)


def test_a_penalty_that_was_given_up_is_not_taken():
    """Minus infinity stands for penalties that were not tried, in one fold or in all."""
    gains = np.zeros((3, 100))
    gains[2, :20] = -np.inf
    gains[2, 20:] = 5.0
    assert choose(gains) == 1.0


def test_a_group_can_be_left_out_of_the_choice():
    """Its rows play no part, and the gains of two sets of rows add up."""
    gains = np.repeat([[0.0, 0.0, 0.0], [9.0, -1.0, -1.0], [0.5, 0.6, 0.7]], [10, 10, 10], axis=1)
    groups = np.repeat([0, 1, 2], 10)
    first, second = (Gains.of(gains[:, rows], groups[rows], 3) for rows in (groups < 1, groups > 0))
    both = first + second
    np.testing.assert_array_equal(both.rows, [10, 10, 10])
    assert [both.best(), both.best(without=0), both.best(without=1), both.best(without=2)] == [1, 2, 1, 1]


@pytest.mark.parametrize("rows", [1000, 20_000])
def test_no_row_judges_a_model_that_was_fitted_on_it(rows):
    """All folds of a few rows, one of many; together the held-out folds of a few rows are all rows."""
    parts = list(splits(rows, 5))
    assert len(parts) == (5 if rows < 20_000 else 1)
    for fit, held in parts:
        assert sorted([*fit, *held]) == list(range(rows))
        assert len(held) == rows // 5


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("method", ["likelihood", "unbiased", "plain"])
def test_the_scale_of_features_does_not_change_what_is_learned(method, make_channel, randomized):
    """The range of penalties follows the variance of features, so their unit does not matter."""
    random = np.random.default_rng(3)
    features = random.normal([0.0, 3.0, 0.0], size=(300, 3))
    labels = (features[:, 0] > 0).astype(np.int32)
    release = randomized(labels, make_channel("subset", 2, 300, 1.0), seed=1)
    one = SoftmaxRegression(method=method, tol=1e-6).fit(features, release)
    other = SoftmaxRegression(method=method, tol=1e-6).fit(features / 64, release)
    sparse = SoftmaxRegression(method=method, tol=1e-6).fit(csr_array(features), release)
    assert other.l2_ == pytest.approx(one.l2_ / 64**2, rel=1e-6, abs=0)
    assert sparse.l2_ == pytest.approx(one.l2_, rel=1e-6, abs=0)
    assert (one.predict(features) == other.predict(features / 64)).mean() > 0.99


def test_few_clean_rows_are_penalised_more_by_methods_with_more_noise(make_channel, randomized):
    """The usual penalty of the unbiased loss is that of the likelihood over what a row is worth."""
    channel, found = make_channel("subset", 8, 50, 0.5), {}
    release = randomized(np.arange(50) % 8, channel, seed=1)
    for method in ("likelihood", "unbiased", "plain"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_softmax, "best_penalty", lambda _, usual, *__, **___: usual)
            found[method] = SoftmaxRegression(method=method).fit(np.zeros((50, 2)), release).l2_
    assert found["likelihood"] == pytest.approx(1 / (4 * 50))
    assert found["unbiased"] == found["plain"] > 5 * found["likelihood"]


def test_the_unbiased_loss_has_a_minimum(make_channel, randomized):
    """If the noise makes the share of a class negative, its intercept stays finite and small enough to use."""
    release = randomized(np.arange(60) % 2, make_channel("response", 8, 60, 0.5), seed=2)
    assert (release.unbiased().sum(axis=0) < 0).any()
    model = SoftmaxRegression(method="unbiased").fit(np.zeros((60, 1)), release)
    assert np.abs(model.intercept_).max() < 1e4
    assert model.n_iter_ < model.max_iter


def test_a_fit_that_was_cut_off_says_so(make_channel, randomized):
    """With what to do about it."""
    release = randomized(np.arange(60) % 2, make_channel("response", 2, 60, 3.0), seed=2)
    with pytest.warns(ConvergenceWarning, match="scale the features, or raise max_iter"):
        SoftmaxRegression(l2=1e-6, max_iter=1).fit(np.arange(60.0)[:, None], release)
