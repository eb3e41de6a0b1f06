"""Limits of Busa-Fekete et al. 2023 and Esfandiari et al. 2022, against finite laws written out."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from labeldp import RenyiGuarantee
from labeldp.bounds import (
    attack_limit,
    conditional_attack_limit,
    features_divergence,
    label_divergence_lower,
    pure_attack_limit,
)
from labeldp.bounds.theorems import LabelTails, Regularity, cluster_precision, regression_upper
from labeldp.bounds.theorems._chua2025 import convex_local_lower
from labeldp.bounds.theorems._convex_problem import ConvexProblem
from labeldp.bounds.theorems._esfandiari2022 import ClusterRandomization, cluster_response_risk, cluster_risk, peer_risk
from labeldp.errors import InputError
from labeldp.mechanisms.queries import NoisyMean
from labeldp.privacy import Interval


def divergence(first, second, alpha):
    """The Renyi divergence of two finite laws, which are positive where it matters."""
    if math.isinf(alpha):
        return float(np.log(np.max(first[first > 0] / second[first > 0])))
    return float(np.log(np.sum(first**alpha * second ** (1 - alpha))) / (alpha - 1))


def worst(laws, alpha):
    """The largest divergence between two of a few laws."""
    return max(divergence(laws[a], laws[b], alpha) for a, b in itertools.permutations(range(len(laws)), 2))


def random_case(rng):
    """An order, a noise level, true features of each class, and a model's; some laws nearly concentrated."""
    k, points = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    peak = float(rng.choice([0.05, 0.3, 1.0]))
    true = np.maximum(rng.dirichlet(np.full(points, peak), k), 1e-9)
    modelled = np.maximum(rng.dirichlet(np.full(points, 1.0), k), 1e-9)
    alpha = float(rng.choice([1.1, 1.5, 2.0, 4.0, 16.0, math.inf]))
    true, modelled = (each / each.sum(axis=1, keepdims=True) for each in (true, modelled))
    return alpha, float(rng.uniform(0.02, 0.98)), true, modelled


def test_released_features_diverge_by_no_more_than_theorem_7_1_says():
    """Over 4000 random finite laws the mended bound is never passed, and somewhere reached to within two per cent."""
    rng = np.random.default_rng(7)
    ratios = []
    for _ in range(4000):
        alpha, noise, true, modelled = random_case(rng)
        k, mixed = len(true), modelled.mean(axis=0)
        apart = max(divergence(each, mixed, alpha) for each in true)
        found = features_divergence(alpha, k, noise, max(0.0, apart))
        labels = (1 - noise) * np.eye(k) + noise / k
        features = (1 - noise) * true + noise * mixed
        joint = np.einsum("yl,yx->ylx", labels, features).reshape(k, -1)
        exact = worst(joint, alpha)
        assert worst(labels, alpha) == pytest.approx(found.size("label"), abs=1e-9)
        assert label_divergence_lower(alpha, k, noise).value <= found.size("label") + 1e-12
        assert exact <= found.value * (1 + 1e-9) + 1e-12
        assert found.size("features") <= found.size("printed")
        ratios.append(exact / found.value)
    assert max(ratios) > 0.98


def test_what_is_printed_is_larger():
    """The mended bound is below the printed one for every order and noise, and at infinity its parts are logarithms."""
    for alpha, noise in itertools.product((1.2, 3.0, math.inf), (0.05, 0.5, 0.99)):
        found = features_divergence(alpha, 5, noise, 0.3 + math.log(5))
        assert found.value < found.size("printed")
    found = features_divergence(math.inf, 5, 0.5, 0.3)
    assert found.size("label") == pytest.approx(math.log(6))
    assert found.size("features") == pytest.approx(math.log(1 + math.exp(0.3)))
    assert features_divergence(2.0, 5, 1.0, 9.0).value == pytest.approx(0.0, abs=1e-12)


def best_attack(laws, prior, loss=None):
    """One minus the expected loss of the best answer to each outcome."""
    loss = 1 - np.eye(len(laws)) if loss is None else loss
    return 1 - (loss.T @ (prior[:, None] * laws)).min(axis=0).sum()


def test_no_attack_gains_more_than_theorem_5_2_says():
    """Over 400 random mechanisms no attack passes what is printed, and the sharper bound is never above it."""
    rng = np.random.default_rng(52)
    ratios = []
    for _ in range(400):
        k, outcomes = int(rng.integers(2, 5)), int(rng.integers(2, 6))
        mixed = float(rng.choice([0.1, 0.6, 0.95]))
        laws = (1 - mixed) * rng.dirichlet(np.ones(outcomes), k) + mixed / outcomes
        prior = rng.dirichlet(np.full(k, float(rng.choice([2.0, 50.0]))))
        alpha = float(rng.choice([1.05, 1.5, 3.0, 10.0, 100.0, math.inf]))
        loss = rng.uniform(0.5, 1.0, (k, k)) * (1 - np.eye(k))
        least = (loss + 9 * np.eye(k)).min()
        chosen = None if rng.random() < 0.5 or math.isinf(alpha) else float(rng.uniform(1e-6, 1.0))
        limit = attack_limit(worst(laws, alpha), alpha, k, prior.max(), chosen, least)
        gained = best_attack(laws, prior, loss)
        right = 1 - (1 - limit.size("direct")) / least  # the chance that it allows of a right guess
        assert gained <= limit.size("printed") + 1e-9
        assert gained <= limit.value + 1e-9
        assert limit.value <= limit.size("printed")
        assert best_attack(laws, prior) <= right + 1e-9
        ratios.append(gained / limit.value)
    assert max(ratios) > 0.98


@pytest.mark.parametrize("alpha", [1.05, 2.0, 30.0, math.inf])
@pytest.mark.parametrize(("classes", "keep"), [(2, 0.6), (3, 0.5), (7, 0.9)])
def test_of_even_classes_the_worst_is_randomized_response(classes, keep, alpha):
    """If all classes are equally likely its best attack gains exactly the direct bound, at every order."""
    laws = np.full((classes, classes), (1 - keep) / (classes - 1))
    np.fill_diagonal(laws, keep)
    found = attack_limit(worst(laws, alpha), alpha, classes, 1 / classes)
    assert found.value == pytest.approx(keep, abs=1e-9)
    assert found.value < found.size("printed") - 0.01


@pytest.mark.parametrize("alpha", [1.2, 2.0, 8.0])
@pytest.mark.parametrize("commonest", [0.5, 0.6, 0.75])
def test_of_two_uneven_classes_the_direct_bound_is_reached(commonest, alpha):
    """On a grid of all mechanisms with two outcomes the best attack comes within 0.001 of it, and not above it."""
    epsilon = 0.8
    grid = np.linspace(0.0005, 0.9995, 1000)
    w, u = np.meshgrid(grid, grid)

    def apart(first, second):
        return np.log(first**alpha * second ** (1 - alpha) + (1 - first) ** alpha * (1 - second) ** (1 - alpha))

    allowed = np.maximum(apart(w, u), apart(u, w)) <= (alpha - 1) * epsilon
    best = np.max((commonest * (1 - w) + (1 - commonest) * u)[allowed])
    found = attack_limit(epsilon, alpha, 2, commonest).value
    assert best <= found < best + 1e-3


def test_pure_attacks_are_at_most_and_sometimes_as_good_as_the_limit():
    """No random pure mechanism passes it; response among the likeliest classes reaches it; odds alone say less."""
    rng = np.random.default_rng(3)
    for _ in range(1000):
        k, outcomes = int(rng.integers(2, 6)), int(rng.integers(2, 6))
        laws = rng.uniform(0.2, 1.0, (k, outcomes)) if rng.random() < 0.5 else rng.choice([0.2, 1.0], (k, outcomes))
        laws = laws / laws.sum(axis=1, keepdims=True)
        prior = rng.dirichlet(np.full(k, 5.0))
        limit = pure_attack_limit(worst(laws, math.inf), k, prior.max()).value
        assert best_attack(laws, prior) <= limit + 1e-9
        assert limit <= attack_limit(worst(laws, math.inf), math.inf, k, prior.max()).size("printed") + 1e-12
    for epsilon, k, p in itertools.product((0.1, 1.0, 3.0), (2, 5), (0.2, 0.3, 0.45, 0.5, 0.9)):
        if p < 1 / k:
            continue
        prior = np.minimum(p, np.maximum(0.0, 1 - p * np.arange(k)))
        reached = max(
            np.sort(prior)[::-1][:m].sum() * math.exp(epsilon) / (math.exp(epsilon) + m - 1) for m in range(1, k + 1)
        )
        odds = math.exp(epsilon) * p / (math.exp(epsilon) * p + 1 - p)
        limit = pure_attack_limit(epsilon, k, p)
        assert limit.value == pytest.approx(reached)
        assert limit.value <= odds + 1e-12
        assert attack_limit(epsilon, 1e6, k, p).value == pytest.approx(limit.value, abs=0.06)
    assert pure_attack_limit(0.0, 3, 0.4).value == pytest.approx(0.4)
    assert pure_attack_limit(1e3, 3, 0.4, least_loss=0.5).value == 1
    assert pure_attack_limit(1.0, 2, 0.5, least_loss=0.5).value == pytest.approx(1 - 0.5 / (1 + math.e))


def test_the_best_delta_is_the_best():
    """No other delta gives a smaller printed bound, at orders above 2; up to there none says anything."""
    for alpha in (2.5, 10.0, 300.0):
        best = attack_limit(0.3, alpha, 3, 0.4)
        assert 0 < best.size("delta") < 1
        others = [attack_limit(0.3, alpha, 3, 0.4, d).size("printed") for d in np.geomspace(1e-9, 1, 200)]
        assert min(others) >= best.size("printed")
    assert attack_limit(0.3, 1.5, 3, 0.4).size("printed") == 1
    assert attack_limit(0.0, math.inf, 3, 0.4).value == pytest.approx(0.4)
    at = attack_limit(math.log(2), 3.0, 2, 0.5, delta=0.01)
    assert at.size("printed") == pytest.approx(1 - (0.25 * 0.1 - 0.01))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("classes", [3, 6])
def test_single_rows_are_listed_as_precisely_as_theorem_5_allows(classes, epsilon):
    """For clusters of one row, randomized response has just that precision, and no random mechanism a better one."""
    limit = cluster_precision(1, classes, epsilon).value
    assert math.exp(epsilon) / (math.exp(epsilon) + classes - 1) == pytest.approx(limit)
    rng = np.random.default_rng(classes)
    for _ in range(200):
        laws = rng.uniform(1, math.exp(epsilon), (classes, 1 << classes))
        laws = laws / laws.sum(axis=1, keepdims=True)
        if worst(laws, math.inf) > epsilon:
            continue
        listed = (np.arange(1 << classes)[:, None] >> np.arange(classes)) & 1
        expected = laws @ listed
        assert np.trace(expected) / expected.sum() <= limit


def test_risks_worked_out():
    """The formulas of theorems 2 and 4 and of corollary 2 at numbers worked out by hand."""
    spread = math.sqrt(10 * math.log(20) / 10**6)
    found = cluster_risk(10**6, 3, 10, 0.02, ClusterRandomization(500, 0.5, corrected=0.25, scale=2.0, threshold=0.01))
    assert found.value == pytest.approx(4 * spread + 3 * 0.25 / 0.75 * (0.02 + 3 * 2 / 500 + 0.03))
    unbiased = cluster_risk(
        10**6, 3, 10, 0.02, ClusterRandomization(500, 0.5, corrected=0.5, scale=2.0, threshold=0.01)
    )
    assert unbiased.value == pytest.approx(6 * spread)
    found = cluster_response_risk(10**6, 3.0, 3, 10, 0.05)
    assert found.value == pytest.approx(3 * spread + 9 * 0.05 / (1 + (math.e - 1) * 0.05))
    assert found.size("scale") == pytest.approx(1.0)
    lam = found.size("resampled")
    assert math.log(1 + (1 - lam) / (lam * 0.05)) == pytest.approx(1.0)
    assert 2 / found.size("scale") + 1.0 == pytest.approx(3.0)  # what both steps cost, all in all
    assert peer_risk(10**6, 10, 0.02, 0.05, 0.25).value == pytest.approx(2 * spread + 0.07)
    assert peer_risk(1, 10, 0.02, 0.05).value == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: attack_limit(1.0, 1.0, 2, 0.5),
        lambda: attack_limit(1.0, 2.0, 2, 0.4),
        lambda: attack_limit(-1.0, 2.0, 2, 0.5),
        lambda: attack_limit(1.0, 2.0, 2, 0.5, delta=0.0),
        lambda: pure_attack_limit(1.0, 2, 0.4),
        lambda: pure_attack_limit(math.inf, 2, 0.5),
        lambda: features_divergence(2.0, 2, 0.0, 0.1),
        lambda: features_divergence(2.0, 2, 0.5, math.inf),
        lambda: label_divergence_lower(0.5, 2, 0.5),
        lambda: cluster_precision(5, 5, 1.0),
        lambda: cluster_response_risk(10, 1.0, 2, 1.0, 0.0),
        lambda: cluster_risk(10, 4, 1.0, 0.1, ClusterRandomization(5, 0.5, 0.5, 1.0, 0.3)),
        lambda: ClusterRandomization(5, 0.5, 1.0, 1.0, 0.2),
        lambda: peer_risk(10, 1.0, 0.1, 0.1, 0.0),
    ],
)
def test_numbers_outside_the_theorems(make):
    """Parameters outside a theorem's assumptions are refused with a message."""
    with pytest.raises(InputError, match=r"expected .* found"):
        make()


def test_the_best_order_limits_an_attack():
    """Of several orders the least limit counts, and a guarantee with static features limits nothing."""
    promised = [RenyiGuarantee(alpha, epsilon, "conditional", "anyone") for alpha, epsilon in ((2.0, 0.3), (8.0, 0.9))]
    found = conditional_attack_limit(promised, 3, 0.5)
    assert found.value == min(attack_limit(each.epsilon, each.alpha, 3, 0.5).value for each in promised)
    for wrong in ([], [*promised, RenyiGuarantee(2.0, 0.01)]):
        with pytest.raises(InputError, match="conditional features"):
            conditional_attack_limit(wrong, 3, 0.5)


# Errata of the papers that a few lines show; docs/papers.md lists all.


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
