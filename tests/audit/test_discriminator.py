"""The divergence that a classifier estimates, where it is known."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from labeldp.audit import estimate_divergence
from labeldp.audit.pipelines import divergence_of_log_odds, held_out_log_odds
from labeldp.errors import InputError


@pytest.mark.parametrize("alpha", [1.01, 2.0, 7.0])
def test_true_log_odds_give_the_divergence(alpha):
    """Of two finite laws, with rows in their exact proportions, it is the divergence; a constant changes nothing."""
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 50, (2, 6))
    p, q = counts / counts.sum(axis=1, keepdims=True)
    odds = np.log(p / q)
    found = divergence_of_log_odds(np.repeat(odds, counts[0]) + 3.0, np.repeat(odds, counts[1]) + 3.0, alpha)
    assert found.value == pytest.approx(math.log(np.sum(p**alpha * q ** (1 - alpha))) / (alpha - 1))
    assert found.low <= found.value <= found.high
    assert found.estimate
    assert "not a guarantee" in str(found)


def test_gaussians_with_other_means():
    """A logistic model finds alpha/2 times the squared distance of the means, on the held-out half of 40 000 rows.

    The standard deviation of the estimate is about 0.012 here, and its tails are heavier than normal: one row alone
    moves it by 0.1 with a chance of about 1e-11. So a false alarm is below 1e-10.
    """
    rng = np.random.default_rng()
    first, second = rng.normal(size=(2, 40_000, 2))
    first[:, 0] += 0.5
    found = estimate_divergence(first, second, LogisticRegression(), 2.0)
    assert found.value == pytest.approx(0.25, abs=0.1)
    assert found.rows == 40_000
    same = estimate_divergence(rng.normal(size=(5_000, 2)), second[:5_000], LogisticRegression(), 2.0)
    assert same.value < 0.05


def test_nothing_overflows():
    """Odds beyond what a float can raise to a power still give a finite estimate."""
    found = divergence_of_log_odds(np.array([1e5, -1e5]), np.array([-1e5, -2e5]), 50.0)
    assert math.isfinite(found.value)
    assert found.value > 1e5


class Sure:
    """A classifier that is certain, and wrong about nothing that it saw."""

    def fit(self, X, y):  # noqa: N803
        """Nothing to learn."""
        assert set(y) == {0, 1}
        assert len(X) == len(y) == 100

    def predict_proba(self, X):  # noqa: N803
        """Chances of 0 and 1."""
        one = (X[:, 0] > 0).astype(float)
        return np.stack([1 - one, one], axis=1)


def test_a_classifier_that_is_too_sure_gives_finite_odds():
    """Chances of 0 and 1 are cut at one row more; half of the rows of each side are held out."""
    rng = np.random.default_rng(3)
    first, second = held_out_log_odds(rng.normal(size=(100, 1)), rng.normal(size=(100, 1)), Sure())
    assert len(first) == len(second) == 50
    assert np.allclose(np.abs(np.concatenate([first, second])), math.log(101))


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: estimate_divergence(rows[:5], rows, Sure(), 2.0),
        lambda rows: estimate_divergence(rows[:, 0], rows, Sure(), 2.0),
        lambda rows: estimate_divergence(rows, np.ones((100, 2)), Sure(), 2.0),
        lambda rows: divergence_of_log_odds(rows[:, 0], rows[:, 0], 1.0),
        lambda rows: divergence_of_log_odds(rows[:, 0], rows[:, 0], math.inf),
        lambda rows: divergence_of_log_odds(rows[:, 0], rows[:0, 0], 2.0),
        lambda rows: divergence_of_log_odds(rows[:, 0], np.array([math.nan]), 2.0),
        lambda rows: divergence_of_log_odds(rows[:, 0], rows[:, 0], 2.0, confidence=1.0),
    ],
)
def test_bad_input_is_refused(make):
    """Too few rows, other columns, an order of 1 or infinity, and odds that are not finite."""
    with pytest.raises(InputError, match=r"expected .* found"):
        make(np.ones((100, 1)))
