"""Choosing a penalty by released labels: in doubt the usual one, and none that depends on the scale of features."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import truncnorm
from sklearn.exceptions import ConvergenceWarning

from labeldp import Curator, Interval
from labeldp.learning.choice import Gains, Held, in_folds
from labeldp.learning.losses import decoded_numbers, expected_mean
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import SoftmaxRegression

PENALTIES = (10.0, 1.0, 0.1)


def judged(gains, groups=None, units=None, **more):
    """Gains of rows under each setting."""
    rows = gains.shape[1]
    groups = np.zeros(rows, dtype=np.int64) if groups is None else groups
    return Gains.of(gains, Held(None, None, groups, int(groups.max()) + 1, Units.of(units, rows)), **more)


def choose(gains):
    """The choice for given gains of 100 rows under each penalty."""
    return PENALTIES[judged(gains, usual=1).best()]


def test_units_of_several_rows_are_no_clearer_than_units():
    """A gain that rows show clearly is in doubt if each row stands there ten times, as one unit."""
    noise = np.random.default_rng(2).normal(size=20)
    gains = np.repeat(np.stack([noise * 0.0, (noise - noise.mean()) + 0.15]), 10, axis=1)
    assert judged(gains, usual=0).best() == 1
    assert judged(gains, units=np.repeat(np.arange(20), 10), usual=0).best() == 0


@pytest.mark.parametrize(("rows", "units"), [(1000, None), (20_000, None), (1000, np.arange(1000) // 4)])
def test_no_unit_judges_a_model_that_was_fitted_on_it(rows, units):
    """All folds of a few rows, one of many; together the held-out folds of a few rows are all rows, in whole units."""
    parts = in_folds(Units.of(units, rows), 5)
    assert len(parts) == (5 if rows < 20_000 else 1)
    for fit, held in parts:
        assert sorted([*fit, *held]) == list(range(rows))
        assert len(held) == rows // 5
        assert units is None or not set(units[fit]) & set(units[held])


def test_a_single_unit_judges_nothing():
    """There are no folds of one unit, and as many as units of few."""
    assert in_folds(Units.of(["a"] * 9, 9), 5) == []
    assert len(in_folds(Units.of(["a", "b", "c"] * 3, 9), 5)) == 3


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
    assert (np.inf, *PENALTIES)[judged(gains, usual=2, constant=0).best()] == chosen


def test_members_of_a_combination_vary():
    """A combination shrinks by itself, so a member keeps its best setting though class shares gain more."""
    gains = np.stack([np.zeros(100), np.full(100, -0.5), np.full(100, -0.1)])
    found = judged(gains, constant=0)
    assert found.best() == 0
    assert found.best(combined=True) == 2


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
    first, second = (
        Gains.of(gains[:, rows], Held(None, None, groups[rows], 3, Units.of(None, int(rows.sum()))))
        for rows in (groups < 1, groups > 0)
    )
    both = first + second
    np.testing.assert_array_equal(both.units, [10, 10, 10])
    assert [both.best(), both.best(without=0), both.best(without=1), both.best(without=2)] == [1, 2, 1, 1]


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


# The expected mean label: a normal number cut to the range, from numbers however many and however noisy.


def numbers_of(mean, deviation, rows=4):
    """Numbers whose mean and its standard error are given."""
    offsets = np.tile([-1.0, 1.0], rows // 2)
    return mean + offsets * deviation * np.sqrt(rows), np.ones(rows)


@pytest.mark.parametrize("mean", [-30.0, 0.0, 20.0, 50.0, 99.0, 140.0])
@pytest.mark.parametrize("deviation", [5.0, 20.0, 90.0])
def test_it_is_the_mean_of_a_normal_number_cut_to_the_range(mean, deviation):
    """It agrees with scipy's truncated normal distribution."""
    found = expected_mean(*numbers_of(mean, deviation), 0.0, 100.0)
    assert found == pytest.approx(
        truncnorm.mean(-mean / deviation, (100 - mean) / deviation, mean, deviation), abs=1e-6
    )


@pytest.mark.parametrize(
    ("mean", "deviation", "expected"),
    [
        (20.0, 0.0, 20.0),
        (20.0, 1e-9, 20.0),
        (-1.0, 0.0, 0.0),
        (-50.0, 1e-6, 0.0),
        (200.0, 3.0, 100.0),
        (30.0, 1e9, 50.0),
    ],
)
def test_it_is_within_the_range_whatever_the_numbers(mean, deviation, expected):
    """Exact numbers give their mean, numbers beyond the range its end, and hopeless ones its middle."""
    assert expected_mean(*numbers_of(mean, deviation), 0.0, 100.0) == pytest.approx(expected, abs=1e-4)


def test_few_noisy_numbers_err_less_than_their_clipped_mean():
    """Of 100 labels at epsilon 0.25 it errs less over mean labels all over the range (3 standard errors)."""
    rows, weights, means = 100, np.ones(100), np.linspace(5, 95, 1_000).round()
    release = Curator(np.repeat(means, rows), Interval(0.0, 100.0, 1.0)).randomize(epsilon=0.25)
    numbers = decoded_numbers(release).reshape(-1, rows)
    expected = np.array([expected_mean(each, weights, 0.0, 100.0) for each in numbers])
    less = (np.clip(numbers.mean(axis=1), 0.0, 100.0) - means) ** 2 - (expected - means) ** 2
    assert less.mean() > 3 * less.std() / np.sqrt(len(means))
