"""Exact bounds of a probability from counts."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp.audit import _intervals


@pytest.mark.parametrize("trials", [1, 7, 40, 100_000])
@pytest.mark.parametrize("level", [0.3, 0.01, 1e-12])
def test_bounds_are_the_tightest_that_are_right(trials, level):
    """At the bound the binomial tail is the level, and not above it: Clopper and Pearson from both sides."""
    counts = np.unique(np.linspace(0, trials, 9).astype(int))
    low, high = (bound(counts, trials, level) for bound in (_intervals.share_above, _intervals.share_below))
    assert (low <= counts / trials).all()
    assert (high >= counts / trials).all()
    assert low[0] == 0.0
    assert high[-1] == 1.0
    near = 1e-3 if level > 1e-9 or trials > 40 else 1.0  # bounds are moved outward by 1e-9
    np.testing.assert_allclose(binom.sf(counts[1:] - 1, trials, low[1:]), level, rtol=near)
    np.testing.assert_allclose(binom.cdf(counts[:-1], trials, high[:-1]), level, rtol=near)
    assert (binom.sf(counts[1:] - 1, trials, low[1:]) <= level).all()
    assert (binom.cdf(counts[:-1], trials, high[:-1]) <= level).all()


def test_log_odds_reach_their_ends():
    """Log odds of 0 and 1 are infinite."""
    assert _intervals.log_odds(0.0) == -math.inf
    assert _intervals.log_odds(1.0) == math.inf
    assert _intervals.log_odds(0.75) == pytest.approx(math.log(3))
