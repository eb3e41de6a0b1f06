"""Exact bounds of a probability from counts."""

import math

import numpy as np
import pytest
from scipy.special import betainc, betaincc
from scipy.stats import binom

from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper, log_odds


@pytest.mark.parametrize("trials", [1, 7, 40, 100_000])
@pytest.mark.parametrize("level", [0.3, 0.01, 1e-12])
def test_bounds_are_the_tightest_that_are_right(trials, level):
    """At the bound the binomial tail is the level, and not above it: Clopper and Pearson from both sides."""
    counts = np.unique(np.linspace(0, trials, 9).astype(int))
    low, high = (bound(counts, trials, level) for bound in (clopper_pearson_lower, clopper_pearson_upper))
    assert (low <= counts / trials).all()
    assert (high >= counts / trials).all()
    assert low[0] == 0.0
    assert high[-1] == 1.0
    np.testing.assert_allclose(binom.sf(counts[1:] - 1, trials, low[1:]), level, rtol=0.02)
    np.testing.assert_allclose(binom.cdf(counts[:-1], trials, high[:-1]), level, rtol=0.02)
    assert (binom.sf(counts[1:] - 1, trials, low[1:]) <= level).all()
    assert (binom.cdf(counts[:-1], trials, high[:-1]) <= level).all()


@pytest.mark.parametrize("trials", [1e8, 2e8, 1e10, 2.0**47])
@pytest.mark.parametrize("level", [0.01, 1e-9])
def test_bounds_of_many_trials_are_right_too(trials, level):
    """Bounds grow with the count, and keep their level, also where the inverse that they start from is wrong."""
    counts = np.array([1.0, 998, 999, 1000, 1001, 5000, 0.3 * trials // 1])
    low, high = (bound(counts, trials, level) for bound in (clopper_pearson_lower, clopper_pearson_upper))
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()
    assert (betainc(counts, trials - counts + 1, low) <= level).all()
    assert (betaincc(counts + 1, trials - counts, high) <= level).all()
    assert (low < counts / trials).all()
    assert (high > counts / trials).all()
    around = 7 * np.sqrt(counts) + 25
    assert (trials * low > counts - around).all()
    assert (trials * high < counts + around).all()


def test_log_odds_reach_their_ends():
    """Log odds of 0 and 1 are infinite."""
    assert log_odds(0.0) == -math.inf
    assert log_odds(1.0) == math.inf
    assert log_odds(0.75) == pytest.approx(math.log(3))
