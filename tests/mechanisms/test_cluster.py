"""The paper's own parameters of cluster response: what they truly cost, and where Theorem 1 is wrong."""

import math

import mpmath
import numpy as np
import pytest

from labeldp import Classes, ClusterParameters, ClusterResponse, NoisyHistogram, RandomizedResponse
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.randomizers import truncated

SPACE = Classes(["a", "b", "c"])
TWO = Classes(["no", "yes"])


def chances(rate, most):
    """P(z) of discrete Laplace noise with a rate, for z from -most to most."""
    steps = mpmath.exp(-mpmath.mpf(rate))
    return {z: (1 - steps) / (1 + steps) * steps ** abs(z) for z in range(-most, most + 1)}


def at_the_floor(counts, floor, rate):
    """P(the first of two classes is at the floor) after noise and truncation: a sum over noise, to 200 steps of it."""
    law, rows = chances(rate, 200), sum(counts)
    noise = np.array(list(law))
    first, second = np.meshgrid(counts[0] + noise, counts[1] + noise, indexing="ij")
    found = truncated(np.stack([first.ravel(), second.ravel()], axis=1) / rows, floor)[:, 0].reshape(first.shape)
    lines = [mpmath.fsum(law[int(z)] for z in noise[row == floor]) for row in found]
    return mpmath.fsum(law[int(z)] * line for z, line in zip(noise, lines, strict=True))


def test_theorem_one_promises_half_of_what_its_noise_costs():
    """Two classes, ten rows, tau 0.1, sigma 1: the event "q~(0|c) = tau" has a log-ratio of 2, and 1.01 is promised."""
    parameters = ClusterParameters(TWO, tau=0.1, sigma=1.0, lam=0.999)
    promised = 1 / parameters.sigma + math.log(1 + (1 - parameters.lam) / (parameters.lam * parameters.tau))
    query = parameters.query(np.zeros(10, dtype=np.int64))
    rate = query.rate(1) / 2**40
    with mpmath.workdps(60):
        ratio = mpmath.log(at_the_floor((2, 8), 0.1, rate) / at_the_floor((3, 7), 0.1, rate))
        assert float(ratio) == pytest.approx(2.0, abs=1e-12)
    assert promised == pytest.approx(1.00996, abs=1e-5)
    assert promised < 1.1 < float(ratio) - 1e-12 <= parameters.histogram_epsilon <= parameters.epsilon


@pytest.mark.parametrize("sigma", [0.1, 1 / 3, 1.0, 7.7, 4000.0])
@pytest.mark.parametrize(("tau", "lam"), [(0.01, 0.5), (1 / 3, 0.9), (1e-4, 0.01), (0.2, 1 - 1e-6)])
def test_the_cost_is_the_sum_of_what_the_integers_say(sigma, tau, lam):
    """The noise costs its rate times two, the response its worst cluster; both agree with the formula, rounded up."""
    parameters = ClusterParameters(SPACE, tau, sigma, lam)
    with mpmath.workdps(50):
        noise = 2 * mpmath.mpf(parameters.query(None).rate(1)) / 2**40
        response = mpmath.log(1 + (1 - mpmath.mpf(lam)) / (mpmath.mpf(lam) * mpmath.mpf(tau)))
        assert noise <= parameters.histogram_epsilon <= noise * (1 + mpmath.mpf(2) ** -50)
        assert parameters.histogram_epsilon == pytest.approx(2 / sigma, rel=1e-8)
        assert parameters.response_epsilon == pytest.approx(float(response), rel=1e-6)
    assert parameters.epsilon == pytest.approx(parameters.histogram_epsilon + parameters.response_epsilon, rel=1e-15)


def test_no_distribution_costs_more_than_what_was_promised():
    """Whatever the noise said, the response costs what was known before, and each cluster what its q says."""
    rng, parameters = np.random.default_rng(0), ClusterParameters(SPACE, tau=0.05, sigma=2.0, lam=0.6)
    for _ in range(20):
        noisy = truncated(rng.normal(0.3, 0.5, (8, 3)), 0.05)
        response = parameters.response(noisy, np.arange(8))
        assert response.channel().epsilon == response.epsilon == parameters.response_epsilon
        *costs, worst = response.channel().epsilons
        assert worst == parameters.response_epsilon
        exact = np.log(1 + 0.4 / (0.6 * response.distributions.min(axis=1)))
        assert costs == pytest.approx(exact, rel=1e-9)
        assert max(costs) <= worst


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("tau", [1e-3, 0.05, 1 / 3])
def test_corollary_two_lands_on_the_epsilon_that_was_asked_for(epsilon, tau):
    """At most epsilon and within 1e-9 of it; the paper's parameters for that epsilon cost three times as much."""
    parameters = ClusterParameters.cluster_rr(SPACE, epsilon, tau)
    assert epsilon * (1 - 1e-9) <= parameters.epsilon <= epsilon
    assert parameters.histogram_epsilon == pytest.approx(2 * epsilon / 3, rel=1e-9)
    printed = ClusterParameters(SPACE, tau, 1 / epsilon, 1 / (1 + math.expm1(epsilon) * tau))
    assert printed.epsilon == pytest.approx(3 * epsilon, rel=1e-9)


def test_the_uniform_parameters_of_corollary_one_cost_what_randomized_response_costs():
    """Tau = 1/k and lam = k / (k - 1 + e): no noise is needed, and the response costs epsilon."""
    parameters = ClusterParameters(SPACE, tau=1 / 3, sigma=1.0, lam=3 / (2 + math.e))
    assert parameters.response_epsilon == pytest.approx(1.0, rel=1e-12)
    even = parameters.response(np.full((1, 3), 1 / 3), [0, 0]).channel().matrix()
    assert even == pytest.approx(RandomizedResponse(SPACE, 1.0).channel().matrix(), rel=1e-9)


def as_printed(frequencies, tau):
    """Lines 5 to 19 of Algorithm 1 for one cluster, as they are printed."""
    q = [max(tau, min(1.0, p)) for p in frequencies]
    delta = 1.0 - sum(q)
    xi = [y - tau if delta < 0 else 1.0 - y for y in q]
    return [y + (x / sum(xi) * delta if sum(xi) else 0.0) for y, x in zip(q, xi, strict=True)]


@pytest.mark.parametrize("tau", [0.0, 0.01, 0.2, 0.25])
def test_truncation_is_that_of_the_paper(tau):
    """Line by line, for noise of any size; the result is a distribution within [tau, 1] (Theorem 6)."""
    rng = np.random.default_rng(2)
    noisy = np.concatenate([rng.normal(0.25, scale, (200, 4)) for scale in (0.05, 0.5, 5.0)])
    noisy = np.concatenate([noisy, [[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0], [-9, -9, -9, -9]]])
    found = truncated(noisy, tau)
    assert found == pytest.approx(np.array([as_printed(line.tolist(), tau) for line in noisy]), rel=1e-12, abs=1e-15)
    assert found.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert found.min() >= tau - 1e-15
    assert found.max() <= 1 + 1e-15
    assert truncated(found, tau) == pytest.approx(found, abs=1e-12)


def test_with_lambda_one_nothing_but_the_histogram_costs():
    """No label responds, so tau may be 0, and there is no response to ask for."""
    parameters = ClusterParameters(SPACE, tau=0, sigma=4.0, lam=1.0)
    assert (parameters.epsilon, parameters.histogram_epsilon, parameters.response_epsilon) == (0.5, 0.5, 0.0)
    with pytest.raises(InputError, match="lam below 1"):
        parameters.response(np.full((1, 3), 1 / 3), [0])


BAD = {
    "tau of 0": ({"tau": 0.0}, InputError, "tau above 0"),
    "negative tau": ({"tau": -0.1}, InputError, "tau above 0"),
    "tau above 1/k": ({"tau": 0.34}, InputError, "at most 1/k = 0.333333"),
    "tau that is no number": ({"tau": math.nan}, EpsilonError, "expected tau to be a number"),
    "no noise": ({"sigma": 0.0}, InputError, "finite sigma above 0"),
    "negative noise": ({"sigma": -1.0}, InputError, "finite sigma above 0"),
    "infinite noise": ({"sigma": math.inf}, InputError, "ClusterResponse.uniform"),
    "too little noise": ({"sigma": 1e-4}, EpsilonError, "2 / sigma"),
    "noise in words": ({"sigma": "1"}, EpsilonError, "expected sigma to be a number"),
    "too much noise": ({"sigma": 1e14}, EpsilonError, "noise for a sensitivity"),
    "lam of 0": ({"lam": 0.0}, InputError, "lam above 0"),
    "negative lam": ({"lam": -0.5}, InputError, "lam above 0"),
    "lam above 1": ({"lam": 1.5}, InputError, "lam above 0 and at most 1"),
    "lam that is no number": ({"lam": None}, EpsilonError, "expected lam to be a number"),
    "lam that no word expresses": ({"lam": 1e-30}, EpsilonError, "can express"),
    "lam next to 1": ({"lam": 1 - 2**-53}, EpsilonError, "can express"),
    "no space": ({"space": ["a", "b"]}, LabelError, "declared label space"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_parameters_out_of_range_are_refused(case):
    """With the range in the message, before anything can be asked of labels."""
    wrong, error, message = BAD[case]
    with pytest.raises(error, match=message):
        ClusterParameters(**{"space": SPACE, "tau": 0.1, "sigma": 1.0, "lam": 0.5} | wrong)


def test_a_response_does_not_redraw_more_seldom_than_its_epsilon_allows():
    """At less than what one probability for all clusters costs it is refused, and at more it stays as it is."""
    response = ClusterParameters(SPACE, 0.1, 1.0, 0.5).response([[0.8, 0.1, 0.1]], [0, 0])
    assert response.at(5.0).channel().epsilon == response.channel().epsilon == pytest.approx(math.log(11))
    with pytest.raises(EpsilonError, match="the cost of resampling"):
        response.at(2.0)
    for wrong in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="expected redrawn, a probability"):
            ClusterResponse(SPACE, 1.0, [[0.8, 0.1, 0.1]], [0, 0], redrawn=wrong)


@pytest.mark.usefixtures("as_users_call")
def test_clusters_that_are_missing_are_refused():
    """A mask, none, a fraction, a negative number: none of them is quietly some cluster."""
    masked = np.ma.masked_array([0, 1, 2], mask=[False, True, False])
    for clusters in (masked, [0, None, 1], [0.0, 1.5], [0, -1], [math.nan, 0.0], [], ["a", "b"], [[0], [1]]):
        with pytest.raises(InputError, match="expected"):
            NoisyHistogram(SPACE, 1.0, clusters)
        with pytest.raises(InputError, match="expected"):
            ClusterResponse(SPACE, 1.0, np.full((3, 3), 1 / 3), clusters)


def test_a_distribution_for_each_row_is_mechanism_one():
    """Busa-Fekete et al. 2023: z is y with probability 1 - lambda, else drawn from the row's own distribution."""
    rows = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])
    distributions, numbers = np.unique(rows, axis=0, return_inverse=True)
    lam, floor = 0.4, 0.1
    epsilon = math.log(1 + (1 - lam) / (lam * floor)) + 1e-9
    response = ClusterResponse(SPACE, epsilon, distributions, numbers.ravel(), floor=floor, redrawn=lam)
    for row, line in enumerate(rows):
        printed = (1 - lam) * np.eye(3) + lam * line
        assert np.allclose(response.channel().table(row).matrix, printed, atol=1e-12)
