"""Bounds of one run by trade-off curves: never above the truth, near it where the curve is all there is, and honest."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from labeldp.audit.pipelines._trade_off import (
    _right_beyond,
    allows,
    approximate_curve,
    approximate_lower,
    gaussian_curve,
    gaussian_lower,
    least_epsilon,
    separate_gaussian_lower,
)
from labeldp.privacy.accounting import GaussianNoise

RNG = np.random.default_rng()
#: Standard deviations of noise of one step: epsilon is 2 at delta 1e-6 for about this ratio.
NOISE_OF_TWO = GaussianNoise(10_000, 4_480**2)


def random_law():
    """Output probabilities for each vector of coins, shape (2^m, k), of a random mechanism with positive ones."""
    m, outputs = int(RNG.integers(2, 5)), int(RNG.integers(2, 7))
    if RNG.random() < 0.2:  # randomized response, alone or only in some runs, else nothing
        p, share = RNG.uniform(0.55, 0.95), RNG.choice([1.0, RNG.uniform(0.02, 0.5)])
        bits = np.array(list(itertools.product((0, 1), repeat=m)))
        same = (bits[:, None, :] == bits[None, :, :]).sum(axis=2)
        response = p**same * (1 - p) ** (m - same)
        return m, np.hstack([share * response, np.full((2**m, 1), 1 - share)]) + 1e-12
    law = RNG.dirichlet(np.full(outputs, 10 ** RNG.uniform(-0.5, 1.5)), size=2**m) + 1e-6
    return m, law / law.sum(axis=1, keepdims=True)


def neighbours(m, law):
    """Both orders of all pairs of distributions that differ in one coin."""
    for s, i in itertools.product(range(2**m), range(m)):
        yield law[s], law[s ^ (1 << i)]


def least_true_epsilon(m, law, delta):
    """The smallest epsilon at a delta, by the hockey-stick divergence of all neighbours."""
    pairs = list(neighbours(m, law))
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = (low + high) / 2
        worst = max(np.maximum(p - math.exp(middle) * q, 0.0).sum() for p, q in pairs)
        low, high = (low, middle) if worst <= delta else (middle, high)
    return high


def least_true_mu(m, law):
    """The smallest mu of a Gaussian curve that holds for all neighbours, at the events of Neyman and Pearson."""
    most = 0.0
    for p, q in neighbours(m, law):
        order = np.argsort(-p / q)[:-1]
        a, b = np.minimum(np.cumsum(p[order]), 1 - 1e-15), np.minimum(np.cumsum(q[order]), 1 - 1e-15)
        most = max(most, float((ndtri(a) - ndtri(b)).max(initial=0.0)))
    return most


def best_tail(m, law, guesses, hits):
    """The largest probability of so many right guesses, over all functions of the output that guess so many coins."""
    coins = np.array([[(s >> i) & 1 for i in range(m)] for s in range(2**m)])
    ways = [
        law[(coins[:, list(chosen)] == np.array(values)).sum(axis=1) >= hits].sum(axis=0)
        for chosen in itertools.combinations(range(m), guesses)
        for values in itertools.product((0, 1), repeat=guesses)
    ]
    return float(np.max(ways, axis=0).sum() / 2**m)


def test_no_finite_mechanism_shows_more_than_its_truth():
    """For the best attack on each of 1 000 random laws the bounds at the level of its tail are at most the truth.

    Some reach 99 % of it.
    """
    nearest = 0.0
    for _ in range(1_000):
        m, law = random_law()
        mu, guesses = least_true_mu(m, law), int(RNG.integers(1, m + 1))
        delta = float(RNG.choice([0.0, 1e-3, 0.02]))
        epsilon = least_true_epsilon(m, law, delta)
        for hits in range(1, guesses + 1):
            tail = best_tail(m, law, guesses, hits)
            shown = approximate_lower(m, guesses, hits, delta, tail)
            assert max(shown, least_epsilon("any", m, guesses, hits, delta, tail)) <= epsilon + 1e-6
            assert allows(gaussian_curve(mu + 1e-7), m, guesses, hits, tail)
            nearest = max(nearest, shown / epsilon if epsilon > 0.1 else 0.0)
    assert nearest > 0.99


def largest_tail(canaries, guesses, hits, epsilon, delta):
    """The largest probability of so many right guesses that the curve's inequalities allow, by linear programming."""
    t, grow = np.arange(guesses + 1), math.exp(epsilon)
    rows, limits = [], []
    for j in range(1, hits + 1):
        right, wrong = (t >= j) * t / canaries, (t >= j - 1) * (guesses - t) / canaries
        rows += [right - grow * wrong, right - wrong / grow]
        limits += [delta, 1 - (1 - delta) / grow]
    found = linprog(-1.0 * (t >= hits), rows, limits, np.ones((1, guesses + 1)), [1.0])
    return -found.fun


def test_the_recursion_is_a_linear_program():
    """The largest tail that the recursion allows is that of a linear program over all numbers of right guesses."""
    for _ in range(100):
        canaries = int(RNG.integers(1, 30))
        guesses = int(RNG.integers(1, canaries + 1))
        hits, epsilon = int(RNG.integers(1, guesses + 1)), RNG.uniform(0.0, 3.0)
        delta = float(RNG.choice([0.0, 1e-4, 0.01, 0.1]))
        curve, low, high = approximate_curve(epsilon, delta), 0.0, 1.0
        if allows(curve, canaries, guesses, hits, 1.0):
            low = 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if allows(curve, canaries, guesses, hits, middle) else (low, middle)
        assert low == pytest.approx(largest_tail(canaries, guesses, hits, epsilon, delta), rel=1e-5, abs=1e-7)


def gaussian_run(canaries, guesses, ratio):
    """Right guesses among the largest of values that Gaussian noise of their own hides."""
    values = ratio / 2 + RNG.normal(size=canaries)  # every coin is 1, by symmetry
    chosen = values[np.argsort(-np.abs(values))[:guesses]]
    return int((chosen > 0).sum())


def wrong_runs(bound, hits, truth, runs=300):
    """The number of runs whose bound is above the truth, and the median of the bounds."""
    bound = cache(bound)  # few numbers of hits come up
    found = [bound(hits()) for _ in range(runs)]
    return sum(each > truth for each in found), float(np.median(found))


@pytest.mark.parametrize(
    ("bound", "guesses", "seen"),
    [(separate_gaussian_lower, 2_000, 0.7), (separate_gaussian_lower, 400, 0.7), (gaussian_lower, 400, 0.35)],
)
def test_bounds_on_gaussian_noise_cover_the_truth(bound, guesses, seen):
    """Of 300 runs at level 0.1 no more are wrong than that allows (1e-6), and half of the bounds show what is stated.

    Separate noise, all of whose canaries are guessed, is wrong in at least 2 % of the runs: its bound is no looser.
    """
    epsilon, ratio = NOISE_OF_TWO.epsilon(1e-6), float(NOISE_OF_TWO.ratio)

    def shown(hits):
        return bound(2_000, guesses, hits, 1e-6, 0.1)

    wrong, median = wrong_runs(shown, lambda: gaussian_run(2_000, guesses, ratio), epsilon)
    assert wrong <= binom.isf(1e-6, 300, 0.1)
    assert median > seen * epsilon
    if guesses == 2_000:
        assert wrong >= 6


def test_bounds_at_a_delta_cover_the_truth():
    """Of 300 runs of randomized response at epsilon 1, no more than 10 % exceed it, and half show 90 % of it."""
    p = math.e / (1 + math.e)
    wrong, median = wrong_runs(
        lambda hits: least_epsilon("any", 5_000, 5_000, hits, 1e-6, 0.1), lambda: int(RNG.binomial(5_000, p)), 1.0
    )
    assert wrong <= binom.isf(1e-6, 300, 0.1)
    assert median > 0.9


@pytest.mark.parametrize("canaries", [1_000, 100_000, 1_000_000])
def test_many_canaries_are_no_loss_at_a_delta(canaries):
    """The right guesses that randomized response at epsilon 1 has on average show more of it the more there are."""
    hits = round(canaries * math.e / (1 + math.e))
    shown = least_epsilon("any", canaries, canaries, hits, 1e-6, 0.01 / 3)
    pure = least_epsilon("any", canaries, canaries, hits, 0.0, 0.01 / 3)
    assert pure - 0.02 < shown < pure <= 1.0


def test_separate_noise_shows_nearly_all():
    """Right guesses as they are expected of 100 000 canaries show at least nine tenths of epsilon 0.5 to 8."""
    for epsilon in (1.0, 2.0, 4.0, 8.0):
        mu = mu_of(epsilon)
        shown = []
        for guesses in (100_000, 25_000, 5_000):
            hits = int(guesses * _right_beyond(mu, guesses / 100_000))
            shown.append(separate_gaussian_lower(100_000, guesses, hits, 1e-6, 0.01 / 3))
        assert 0.9 * epsilon < max(shown) < epsilon


def mu_of(epsilon):
    """The ratio of sensitivity to deviation at which Gaussian noise has an epsilon at delta 1e-6."""
    low, high = 0.01, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        exceeded = ndtr(middle / 2 - epsilon / middle) - math.exp(epsilon) * ndtr(-epsilon / middle - middle / 2) > 1e-6
        low, high = (low, middle) if exceeded else (middle, high)
    return low


def test_the_outermost_draws_are_right_as_often_as_stated():
    """The share of right guesses among the outermost draws is that of a simulation, within 6 standard errors (1e-8)."""
    values = 0.4 + RNG.normal(size=200_000)
    chosen = values[np.argsort(-np.abs(values))[:20_000]]
    stated = _right_beyond(0.8, 0.1)
    assert (chosen > 0).mean() == pytest.approx(stated, abs=6 * math.sqrt(stated * (1 - stated) / 20_000))


def test_noise_in_few_runs_is_no_evidence():
    """A mechanism under a Gaussian curve may show more in 1 % of its runs, and only separate noise may not."""
    mu, share = mu_of(1.0), 0.01
    epsilons = np.linspace(0.0, 3.0, 301)
    curve = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-epsilons / mu - mu / 2)
    largest = max(
        each for each in epsilons if (share * (math.exp(each) - np.exp(epsilons)) / (1 + math.exp(each)) <= curve).all()
    )
    hits = round(10_000 / (1 + math.exp(-largest)))
    assert largest > 0.25
    assert gaussian_lower(10_000, 10_000, hits, 1e-6, share * 0.4) < 1.0
    assert separate_gaussian_lower(10_000, 10_000, hits, 1e-6, share * 0.4) > 1.0


@pytest.mark.parametrize("curve", [approximate_curve(1.0, 1e-3), gaussian_curve(0.7)])
def test_curves_are_inverses_of_concave_ones(curve):
    """A curve is convex and increasing, from 0 to 1, and nowhere above its argument."""
    shares = np.linspace(0.0, 1.0, 1001)
    least = np.array([curve(float(share)) for share in shares])
    assert (np.diff(least) >= 0).all()
    assert (np.diff(least, 2) >= -1e-12).all()
    assert (least <= shares + 1e-12).all()
    assert least[0] == 0.0
    assert 1.0 - 2e-3 <= least[-1] <= 1.0


def test_canaries_without_a_guess_count():
    """A mechanism that shows one of four canaries, whose number is random, is under its curve.

    It shows any one label in a quarter of all runs: that is a delta of 1/4, at which a right guess of that one in every
    run shows nothing. Without the three others the same guess would show much.
    """
    assert allows(approximate_curve(0.0, 0.25), 4, 1, 1, 1.0)
    assert least_epsilon("any", 4, 1, 1, 0.25, 0.9999) == 0.0
    assert approximate_lower(1, 1, 1, 0.25, 0.9999) > 3
