"""Limits of convex optimization: what proofs rest on, against laws written out; and the bounds against each other."""

import itertools
import math

import numpy as np
import pytest

from labeldp import Classes
from labeldp.bounds import (
    convex_candidates_upper,
    convex_empirical_lower,
    convex_gaussian_upper,
    convex_local_lower,
    convex_local_upper,
    convex_population_lower,
    convex_response_upper,
    prior_generalization,
)
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms import BitResponse, RandomizedResponse


def second_moments(channel, gradients):
    """E |g|^2 of the unbiased gradient given each true class, over all outcomes."""
    table = channel.table()
    steps = channel.unbiased(table.outcomes) @ gradients
    np.testing.assert_allclose(table.matrix @ steps, gradients, atol=1e-9)
    return table.matrix @ (steps**2).sum(axis=1)


def gradient_sets(classes):
    """Gradients of length at most 1: at right angles, opposed, equal, and at random."""
    rng = np.random.default_rng(classes)
    yield np.eye(classes)
    yield np.array([[(-1.0) ** i] for i in range(classes)])
    yield np.ones((classes, 1))
    for _ in range(20):
        drawn = rng.normal(size=(classes, 3))
        yield drawn / np.maximum(1, np.linalg.norm(drawn, axis=1))[:, None]


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_gradients_from_bits_are_as_large_as_theorem_1_says(classes, epsilon):
    """No gradients have a larger second moment than Chua's, and those at right angles have just that."""
    channel = BitResponse(Classes(range(classes)), epsilon).channel()
    most = convex_local_upper(1000, epsilon, classes).size("second moment")
    found = [second_moments(channel, gradients) for gradients in gradient_sets(classes)]
    assert max(each.max() for each in found) <= most * (1 + 1e-6)
    np.testing.assert_allclose(found[0], most, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_gradients_from_responses_are_as_small_as_theorem_9_says(classes, epsilon):
    """No gradients have a larger second moment than Ghazi's ``(6 K / epsilon)^2``, nor than a ninth of it."""
    channel = RandomizedResponse(Classes(range(classes)), epsilon).channel()
    most = convex_response_upper(1000, epsilon, classes).size("second moment")
    found = max(second_moments(channel, gradients).max() for gradients in gradient_sets(classes))
    assert found <= most / 9 * (1 + 1e-6)


def test_values_worked_out():
    """Each bound at numbers small enough to work out by hand, scaled by the diameter and the Lipschitz constant."""
    e, n = math.e, 10**9
    assert convex_response_upper(n, 0.5, 3).value == pytest.approx(12 * 3 * (2 + math.log(n)) / (0.5 * n**0.5))
    assert convex_candidates_upper(n, 0.5, 3, 0.01).value == pytest.approx(
        convex_response_upper(n, 0.5, 3).value + 0.02
    )
    assert convex_local_lower(n, 1.0, 10).value == pytest.approx(math.sqrt(10 * e / (e - 1) ** 2 / n))
    assert convex_local_lower(n, 9.0, 10).value == pytest.approx(n**-0.5)
    assert convex_population_lower(n, 0.25).value == pytest.approx(2 * n**-0.5)
    step = math.sqrt((e - 1) ** 2 / (2 * n * (10 + e) * e))
    moment = 1 + ((e + 1) ** 2 + 4 * 9 * e) / (e - 1) ** 2
    found = convex_local_upper(n, 1.0, 10)
    assert found.size("step") == pytest.approx(step)
    assert found.value == pytest.approx(1 / (2 * step * n) + step * moment / 2)
    scaled = convex_local_upper(n, 1.0, 10, diameter=3.0, lipschitz=5.0)
    assert scaled.value == pytest.approx(15 * found.value)
    for bound in (convex_local_upper, convex_local_lower, convex_response_upper):
        assert bound(1, 0.9, 50, diameter=2.0, lipschitz=3.0).value <= 6.0


def test_noise_in_proposition_11_keeps_its_promise():
    """The deviation is the least whose delta, by the formula of Balle and Wang, is at most what was asked for."""
    epsilon, delta = 0.7, 1e-5
    deviation = convex_gaussian_upper(10**9, epsilon, delta, 4).size("deviation")

    def tail(x):
        return math.erfc(x / math.sqrt(2)) / 2

    def failing(sigma):
        a = 2 / sigma
        return tail(epsilon / a - a / 2) - math.exp(epsilon) * tail(epsilon / a + a / 2)

    assert failing(deviation) <= delta < failing(0.999 * deviation)
    bounds = [convex_gaussian_upper(10**9, e, delta, 4).value for e in (0.2, 0.5, 1.0, 5.0)]
    assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [1, 7, 1000, 10**6])
def test_upper_bounds_are_above_lower_ones(n, epsilon):
    """What is proven to be reached is above what is proven to be out of reach, and above the usual lower bounds."""
    least = convex_empirical_lower(n, epsilon).value
    assert 0 < least < 1
    uppers = [convex_local_upper(n, epsilon, k).value for k in (2, 10)]
    if epsilon <= 1:
        uppers += [convex_response_upper(n, epsilon, k).value for k in (2, 10)]
    assert min(uppers) > least
    assert convex_local_upper(n, epsilon, 10).value >= convex_local_lower(n, epsilon, 10).value


def test_the_empirical_limit_is_met_by_no_learner():
    """Two rows of two signs: every table of answers that is private loses at least what the limit says.

    Answers are the best parameters for each guess of the signs, which are drawn independently with the probability
    that privacy allows (the best mechanism for each sign alone), or never right more often than that.
    """
    for n, epsilon in itertools.product((1, 2, 3), (0.3, 1.0, 2.0)):
        right = 1 / (1 + math.exp(-epsilon))
        signs = np.array(list(itertools.product((-1, 1), repeat=n)))
        guessed = signs / math.sqrt(n) / 2
        loss = -(guessed @ signs.T) / n  # of each guess for each truth, diameter 1
        agree = (signs[:, None] == signs).sum(axis=2)
        law = right**agree * (1 - right) ** (n - agree)
        excess = (law * loss).sum(axis=0) - loss.min(axis=0)
        assert excess.max() >= convex_empirical_lower(n, epsilon).value - 1e-12


def test_the_generalization_bound_holds_where_the_printed_one_fails():
    """One function, two candidates, epsilon 0.1: released data that break the printed bound are common, ours rare.

    A released loss is one of two numbers, so that its mean over n rows is counted exactly; the complexity is 0.
    """
    n, epsilon, failure, k = 40, 0.1, 0.1, 2
    p = 1 / (math.exp(epsilon) + k - 1)
    high, low = (1 - p) / (1 - k * p), -p / (1 - k * p)  # losses 1 and 0 of the two classes, corrected
    found = prior_generalization(n, epsilon, k, 0.0, failure=failure)
    assert found.size("range") == pytest.approx(high - low)
    keep = math.exp(epsilon) * p  # the true class has loss 1
    failing = {"printed": 0.0, "ours": 0.0}
    for i in range(n + 1):
        mass = math.comb(n, i) * keep**i * (1 - keep) ** (n - i)
        off = abs((i * high + (n - i) * low) / n - 1.0)
        failing["printed"] += mass * (off > math.sqrt(math.log(2 / failure) / (2 * n)))
        failing["ours"] += mass * (off > found.value)
    assert failing["printed"] > 0.8
    assert failing["ours"] <= failure
    assert prior_generalization(n, epsilon, 1, 0.1).size("range") == 1


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: convex_response_upper(10, 1.1, 3), EpsilonError),
        (lambda: convex_population_lower(10, 2.0), EpsilonError),
        (lambda: convex_gaussian_upper(10, 1.0, 0.0, 3), InputError),
        (lambda: convex_candidates_upper(10, 1.0, 3, 1.5), InputError),
        (lambda: convex_local_upper(10, 1.0, 1), InputError),
        (lambda: convex_local_upper(10, 1.0, 3, diameter=0.0), InputError),
        (lambda: prior_generalization(10, 1.0, 3, -1.0), InputError),
    ],
)
def test_numbers_outside_the_theorems(make, error):
    """What a theorem does not cover is refused, in words."""
    with pytest.raises(error, match=r"expected .* found"):
        make()
