"""Errata of the papers that a few lines show; docs/papers.md lists all."""

import math

import numpy as np
import pytest
from scipy import stats

from labeldp.bounds.theorems import LabelTails, Regularity, regression_upper
from labeldp.bounds.theorems._chua2025 import convex_local_lower
from labeldp.bounds.theorems._convex_problem import ConvexProblem
from labeldp.mechanisms.queries import NoisyMean
from labeldp.privacy import Interval


@pytest.mark.parametrize("bound", [1.0, 2.0, 5.0])
def test_the_noise_of_equation_23_costs_more_than_epsilon(bound):
    """A mean of labels in [-T, T] moves by 2T/n: Laplace noise of scale 2/(n epsilon) costs T epsilon."""
    rows, epsilon = 50, 0.7
    printed = stats.laplace(scale=2 / (rows * epsilon))
    assert printed.logpdf(0.0) - printed.logpdf(2 * bound / rows) == pytest.approx(bound * epsilon)
    _, variance = NoisyMean.forecast(Interval(-bound, bound, 0.5), epsilon)
    assert math.sqrt(variance) == pytest.approx(bound * rows * printed.std(), rel=0.02)


def test_labels_clipped_at_one_side_move_a_sum_without_limit():
    """A very small label moves the sum of min(Y, T) by any number, and the sum of clipped ones by 2T at most."""
    labels, replaced, most = np.zeros(10), np.zeros(10), 3.0
    replaced[4] = -1e9
    assert np.minimum(labels, most).sum() - np.minimum(replaced, most).sum() == 1e9
    assert labels.clip(-most, most).sum() - replaced.clip(-most, most).sum() == most


def test_the_epsilon_of_section_8_1_is_larger():
    """Labels drawn anew with probability 0.01 are flipped with 0.005: epsilon is ln(199), and not 5.19."""
    assert math.log(0.995 / 0.005) == pytest.approx(5.293, abs=5e-4)
    assert math.log(0.9995 / 0.0005) == pytest.approx(7.6, abs=5e-3)


def test_no_noisy_count_of_a_small_cluster_may_be_positive():
    """Ten classes of one row each at epsilon 0.025: some draws have no positive count, and line 4(c) divides by 0."""
    random, counts = np.random.default_rng(1), np.ones(10)
    keep = math.exp(-0.025 / 2)
    noise = random.geometric(1 - keep, (20_000, 10)) - random.geometric(1 - keep, (20_000, 10))
    none = np.mean((counts + noise).max(axis=1) <= 0)
    assert none == pytest.approx(0.5**10, abs=1e-3)
    assert none > 0


@pytest.mark.parametrize("epsilon", [0.1, 0.3])
def test_the_neighbours_of_theorem_10_lack_a_factor(epsilon):
    """From n and epsilon to n and epsilon/2 the best number of neighbours grows, where the printed one falls."""
    rows, p, d = 10**8, 3.0, 1.0
    sizes = [
        regression_upper("local", rows, e, Regularity(d), LabelTails(1.0, p)).size("neighbours")
        for e in (epsilon, epsilon / 2)
    ]
    power = 2 * p / (2 * p + d * (p - 1))
    printed = [(rows * e**2) ** power for e in (epsilon, epsilon / 2)]
    assert printed[1] < printed[0]
    assert sizes[1] / sizes[0] == pytest.approx(4 * printed[1] / printed[0], rel=0.05)


def test_the_order_of_chuas_abstract_is_below_its_theorem_2():
    """At small epsilon the abstract's order falls below the lower bound of theorem 2, by a factor without limit."""
    ratios = []
    for epsilon in (0.1, 0.01, 0.001):
        rows = 10**12
        lower = convex_local_lower(ConvexProblem(rows, epsilon), 10).value
        ratios.append(lower / math.sqrt(10 / (epsilon * rows)))
    assert ratios[0] > 1
    assert ratios[1] / ratios[0] == pytest.approx(math.sqrt(10), rel=0.1)
    assert ratios[2] / ratios[1] == pytest.approx(math.sqrt(10), rel=0.1)
