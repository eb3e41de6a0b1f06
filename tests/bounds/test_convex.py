"""Limits of convex optimization: what proofs rest on, against laws written out; and the bounds against each other."""

import itertools
import math

import numpy as np
import pytest

from labeldp import BitResponse, Classes, RandomizedResponse, TopKResponse, gradient_response
from labeldp.bounds import convex_rate
from labeldp.bounds.theorems import (
    ConvexProblem,
    convex_channel_upper,
    convex_local_upper,
    convex_sequential_lower,
    convex_subset_upper,
    convex_vector_upper,
)
from labeldp.bounds.theorems._chua2025 import convex_local_lower
from labeldp.bounds.theorems._ghazi2021 import (
    convex_candidates_upper,
    convex_empirical_lower,
    convex_gaussian_upper,
    convex_population_lower,
    convex_response_upper,
    prior_generalization,
)
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.queries import gradient_error
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel, estimation_size


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
    most = convex_local_upper(ConvexProblem(1000, epsilon), classes).size("second moment")
    found = [second_moments(channel, gradients) for gradients in gradient_sets(classes)]
    assert max(each.max() for each in found) <= most * (1 + 1e-6)
    np.testing.assert_allclose(found[0], most, rtol=1e-6)


@pytest.mark.parametrize("classes", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_gradients_from_responses_are_as_small_as_theorem_9_says(classes, epsilon):
    """No gradients have a larger second moment than Ghazi's ``(6 K / epsilon)^2``, nor than a ninth of it."""
    channel = RandomizedResponse(Classes(range(classes)), epsilon).channel()
    most = convex_response_upper(ConvexProblem(1000, epsilon), classes).size("second moment")
    found = max(second_moments(channel, gradients).max() for gradients in gradient_sets(classes))
    assert found <= most / 9 * (1 + 1e-6)


def test_values_worked_out():
    """Each bound at numbers small enough to work out by hand, scaled by the diameter and the Lipschitz constant."""
    e, n = math.e, 10**9
    assert convex_response_upper(ConvexProblem(n, 0.5), 3).value == pytest.approx(
        12 * 3 * (2 + math.log(n)) / (0.5 * n**0.5)
    )
    assert convex_candidates_upper(ConvexProblem(n, 0.5), 3, 0.01).value == pytest.approx(
        convex_response_upper(ConvexProblem(n, 0.5), 3).value + 0.02
    )
    assert convex_local_lower(ConvexProblem(n, 1.0), 10).value == pytest.approx(math.sqrt(10 * e / (e - 1) ** 2 / n))
    assert convex_local_lower(ConvexProblem(n, 9.0), 10).value == pytest.approx(n**-0.5)
    step = math.sqrt((e - 1) ** 2 / (2 * n * (10 + e) * e))
    moment = 1 + ((e + 1) ** 2 + 4 * 9 * e) / (e - 1) ** 2
    found = convex_local_upper(ConvexProblem(n, 1.0), 10)
    assert found.size("step") == pytest.approx(step)
    assert found.value == pytest.approx(1 / (2 * step * n) + step * moment / 2)
    scaled = convex_local_upper(ConvexProblem(n, 1.0, diameter=3.0, lipschitz=5.0), 10)
    assert scaled.value == pytest.approx(15 * found.value)
    for bound in (convex_local_upper, convex_local_lower, convex_response_upper):
        assert bound(ConvexProblem(1, 0.9, diameter=2.0, lipschitz=3.0), 50).value <= 6.0


def test_noise_in_proposition_11_keeps_its_promise():
    """The deviation is the least whose delta, by the formula of Balle and Wang, is at most what was asked for."""
    epsilon, delta = 0.7, 1e-5
    deviation = convex_gaussian_upper(ConvexProblem(10**9, epsilon), delta, 4).size("deviation")

    def tail(x):
        return math.erfc(x / math.sqrt(2)) / 2

    def failing(sigma):
        a = 2 / sigma
        return tail(epsilon / a - a / 2) - math.exp(epsilon) * tail(epsilon / a + a / 2)

    assert failing(deviation) <= delta < failing(0.999 * deviation)
    bounds = [convex_gaussian_upper(ConvexProblem(10**9, e), delta, 4).value for e in (0.2, 0.5, 1.0, 5.0)]
    assert bounds == sorted(bounds, reverse=True)


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
        assert excess.max() >= convex_empirical_lower(ConvexProblem(n, epsilon)).value - 1e-12


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 600.0])
def test_the_empirical_limit_allows_for_delta(delta, epsilon):
    """A mechanism that publishes a sign with probability delta, and else flips it, loses at least what the limit says.

    It recovers a sign with probability ``(e^epsilon + delta) / (e^epsilon + 1)``, as often as any; each sign of n rows
    that is wrong costs ``1 / n`` of ``sqrt(n)``. Of k copies, group privacy takes delta to fact 14's.
    """
    wrong = (1 - delta) / (1 + math.exp(epsilon))
    for n in (1, 10, 400):
        limit = convex_empirical_lower(ConvexProblem(n, epsilon), delta).value
        assert 0 <= limit <= wrong / math.sqrt(n) + 1e-12
        assert limit <= convex_empirical_lower(ConvexProblem(n, epsilon)).value
        copies, best = range(1, n + 1), 0.0
        for k in copies if epsilon < 1 else [1]:
            odds, shared = (
                math.exp(min(k * epsilon, 700)),
                sum(delta * math.exp(min(i * epsilon, 700)) for i in range(k)),
            )
            best = max(best, k * math.sqrt(n // k) * (1 - math.sqrt(min(1.0, (odds + shared) / (odds + 1)))) / (2 * n))
        assert limit <= best + 1e-12
        assert limit >= 0.7 * best - 1e-12
    with pytest.raises(InputError, match="delta"):
        convex_empirical_lower(ConvexProblem(10, epsilon), 1.1)


def recovery(rows, features, epsilon, delta):
    """How often a sign is recovered at the most, if n rows are drawn from m: the mean over a binomial law, summed."""
    chance = 1 / features
    law = [math.comb(rows, k) * chance**k * (1 - chance) ** (rows - k) for k in range(rows + 1)]
    found = []
    for copies in range(rows + 1):
        shared = sum(delta * math.exp(i * epsilon) for i in range(copies))
        odds = math.exp(copies * epsilon)
        found.append(min(1.0, (odds + shared) / (odds + 1)))
    return sum(map(math.prod, zip(law, found, strict=True)))


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.05])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0, 3.0])
def test_the_limit_for_new_rows_is_near_the_best_of_its_proof(epsilon, delta):
    """The limit is at most that of the exact mean over how often each row is drawn, and at least 0.7 of it."""
    for n in (1, 7, 60):
        found = convex_population_lower(ConvexProblem(n, epsilon), delta)
        exact = {m: (1 - math.sqrt(recovery(n, m, epsilon, delta))) / (2 * math.sqrt(m)) for m in range(1, 4 * n + 2)}
        assert found.value <= exact[found.size("different rows")] + 1e-12
        assert 0.7 * max(exact.values()) <= found.value <= max(exact.values()) + 1e-12
        assert found.value <= convex_population_lower(ConvexProblem(n, epsilon)).value


def test_the_limit_for_new_rows_is_met_by_no_learner():
    """A curator who publishes each sign as often right as privacy allows loses more on new rows than the limit says.

    Signs of m features are recovered from n rows drawn from them; each that is wrong costs ``1 / m`` of ``sqrt(m)``.
    Privacy is exact: all copies of a sign are told by one bit, with odds of ``exp(k epsilon)`` for k copies.
    """
    for n, epsilon in itertools.product((1, 5, 40), (0.1, 1.0, 4.0)):
        limit = convex_population_lower(ConvexProblem(n, epsilon))
        m = round(limit.size("different rows"))
        assert 0 < limit.value <= (1 - recovery(n, m, epsilon, 0.0)) / math.sqrt(m)


@pytest.mark.parametrize("n", [10**3, 10**9, 10**18])
def test_the_limit_for_new_rows_has_the_orders_of_proposition_12(n):
    """It falls as the root of epsilon n, then as that of n; the paper's own route, lemma 16, never says more."""
    values = {e: convex_population_lower(ConvexProblem(n, e)).value for e in (0.01, 0.1, 1.0, 100.0)}
    assert values[0.01] * math.sqrt(0.01 * n) == pytest.approx(0.0764, rel=0.2 if n == 10**3 else 0.01)
    assert values[100.0] * math.sqrt(n) == pytest.approx(0.0584, rel=0.01)
    for epsilon, each in values.items():
        for failing in (0.4, 0.1, 1e-3, 1e-6):
            of_fit = ConvexProblem(n, min(700.0, 4 * math.log(2 / failing) * epsilon))
            assert convex_empirical_lower(of_fit, failing).value <= each


@pytest.mark.parametrize("failing", [0.3, 0.01, 1e-5])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_rows_drawn_again_cost_what_lemma_16_says(epsilon, failing):
    """Randomized response of rows that are drawn with replacement keeps the (epsilon, delta) of the lemma.

    A label may be drawn k times, of which j copies agree. The exact delta is the mean over k of what weighs more than
    the odds of epsilon.
    """
    inner = epsilon / (4 * math.log(2 / failing))
    yes, no = (1 / (1 + math.exp(sign * inner)) for sign in (-1, 1))
    for n in (2, 30, 400):
        found = 0.0
        for k in range(n + 1):
            law = math.comb(n, k) * (1 / n) ** k * (1 - 1 / n) ** (n - k)
            pairs = ((yes**j * no ** (k - j), yes ** (k - j) * no**j, math.comb(k, j)) for j in range(k + 1))
            beyond = sum(count * max(0.0, one - math.exp(epsilon) * other) for one, other, count in pairs)
            found += law * (beyond if law > 1e-30 else 1.0)
        assert found <= failing


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


@pytest.mark.parametrize("classes", [2, 3, 6, 40])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_descent_with_any_channel(classes, epsilon):
    """``R G / sqrt(n)`` at the channel's own step; with bits it is below theorem 1, at the best size below bits."""
    n, scale = 10**9, {"diameter": 3.0, "lipschitz": 2.0}
    chosen = convex_channel_upper(n, gradient_response(Classes(range(classes)), epsilon).channel(), **scale)
    moment, step = chosen.size("second moment"), chosen.size("step")
    assert chosen.value == pytest.approx(3 * math.sqrt(moment / n))
    assert chosen.value == pytest.approx(9 / (2 * step * n) + step * moment / 2)
    bits = convex_channel_upper(n, BitChannel.independent(classes, epsilon), **scale, right_angled=2.0)
    assert bits.value < convex_local_upper(ConvexProblem(n, epsilon, **scale), classes).value
    best = convex_channel_upper(
        n, SubsetChannel.at(classes, estimation_size(classes, epsilon), epsilon), **scale, right_angled=2.0
    )
    assert best.value <= bits.value * (1 + 1e-9)
    assert best.value <= chosen.value
    shown = convex_channel_upper(n, ResponseChannel.nearly_certain(classes), **scale)
    assert shown.value == pytest.approx(6 / math.sqrt(n))
    candidates = TopKResponse(Classes(range(3)), epsilon, np.full((4, 3), 1 / 3), 2).channel()
    assert any("candidates" in each for each in convex_channel_upper(n, candidates).assumptions)


@pytest.mark.parametrize(("classes", "epsilon"), [(3, 0.2), (6, 0.5), (6, 1.0), (12, 2.0), (12, 0.7)])
def test_gradients_from_subsets_are_as_small_as_the_appendix_says(classes, epsilon):
    """No gradients have a larger second moment than the exact one, which is below the Appendix's, for every size."""
    for size in (None, *range(1, classes)):
        found = convex_subset_upper(ConvexProblem(10**6, epsilon), classes, size)
        d = int(found.size("subset size"))
        assert size in (None, d)
        assert size is not None or d == math.ceil(classes / (2 * math.exp(epsilon)))
        e = math.exp(epsilon)
        gamma = 1 / (1 + (classes - d) / (d * e))
        assert found.size("printed second moment") == pytest.approx(
            2 * (1 + d) / (gamma - (d - gamma) / (classes - 1)) ** 2
        )
        assert found.size("second moment") <= found.size("printed second moment")
        if classes <= 6:
            moments = [
                second_moments(SubsetChannel.at(classes, d, epsilon), gradients).max()
                for gradients in gradient_sets(classes)
            ]
            assert max(moments) <= found.size("second moment") * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_directions_have_the_mean_and_length_that_corollary_1_needs(epsilon):
    """In two dimensions, averaged over a fine circle of directions, what is told has the mean v and the length B."""
    bound = convex_vector_upper(ConvexProblem(10**9, epsilon, lipschitz=1.5), 2)
    length = math.sqrt(bound.size("second moment"))
    angles = (np.arange(100_000) + 0.5) * 2 * np.pi / 100_000
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    odds = math.exp(epsilon)
    for v in (np.array([1.5, 0.0]), np.array([-0.3, 0.7])):
        leaning = (odds - 1) / (odds + 1) * np.linalg.norm(v) / 1.5 * np.sign(directions @ v)
        assert np.abs(1 + leaning).max() / np.abs(1 - leaning).min() <= odds * (1 + 1e-9)
        np.testing.assert_allclose((length * leaning[:, None] * directions).mean(axis=0), v, atol=1e-4)
    # E|U_1| is 1/2 on the sphere in three dimensions
    assert convex_vector_upper(ConvexProblem(10**9, epsilon), 3).size("second moment") == pytest.approx(
        4 * ((odds + 1) / (odds - 1)) ** 2
    )


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_directions_between_gradients_at_right_angles_are_shorter(classes):
    """Measured from the mean of the gradients, the second moment is at most what the bound says, and met by some."""
    epsilon, rng, s = 1.0, np.random.default_rng(2), 0.5
    coth = (math.e + 1) / (math.e - 1)
    inverse = {1: 1.0, 2: np.pi / 2, 3: 2.0}[classes - 1]  # one over E|U_1|
    found = []
    for shift in (np.zeros(classes), np.full(classes, -s / classes), rng.normal(size=classes)):
        gradients = shift + s * np.eye(classes)
        longest = np.linalg.norm(gradients, axis=1).max()
        centre = gradients.mean(axis=0)
        square = (s * math.sqrt(1 - 1 / classes) * coth * inverse) ** 2
        told = (centre**2).sum() + 2 * (gradients - centre) @ centre + square
        most = convex_vector_upper(ConvexProblem(10**9, epsilon, lipschitz=longest), classes, right_angled=s).size(
            "second moment"
        )
        found.append(told.max() / most)
    assert max(found) <= 1 + 1e-9
    assert found[0] == pytest.approx(1)
    error = gradient_error(epsilon, classes=classes, dimension=classes, spread=1, radius=math.sqrt(1 - 1 / classes))
    whole = convex_vector_upper(ConvexProblem(10**9, epsilon), classes, right_angled=1.0).size("second moment")
    assert whole == pytest.approx(1 + error - (1 - 1 / classes))  # what the mechanism says of itself
    hard = math.sqrt(1 - 1 / classes) / 2
    plain = convex_vector_upper(ConvexProblem(10**9, epsilon, lipschitz=hard), classes).size("second moment")
    assert (
        convex_vector_upper(ConvexProblem(10**9, epsilon, lipschitz=hard), classes, right_angled=0.5).size(
            "second moment"
        )
        < plain
    )


def split(channel_of_labels, c):
    """The mean over signs of ``sum_i KL_i``: what one released label tells of the signs of the hard laws."""
    k = len(channel_of_labels)
    total = 0.0
    for signs in itertools.product((-1, 1), repeat=k // 2):
        law = (1 + c * np.repeat(signs, 2) * np.tile((1, -1), k // 2)) / k
        here = law @ channel_of_labels
        for i in range(k // 2):
            turned = law.copy()
            turned[2 * i : 2 * i + 2] = law[2 * i : 2 * i + 2][::-1]
            total += (here * np.log(here / (turned @ channel_of_labels))).sum()
    return total / 2 ** (k // 2)


def private_channels(k, epsilon, rng):
    """Channels of that epsilon: at random, response, subsets, bits, and those whose outcomes split pairs of classes."""
    e = math.exp(epsilon)
    for _ in range(5):
        drawn = rng.uniform(1, e, size=(k, 5)) * rng.uniform(size=5)
        drawn /= drawn.sum(axis=1).max() * (1 + 1e-12)
        # what is left of each class is an outcome too, and within the factor only where it is made so
        mixed = np.concatenate([drawn / 2, 1 - drawn.sum(axis=1, keepdims=True) / 2], axis=1)
        if (mixed[:, -1].max() / mixed[:, -1].min()) <= e:
            yield mixed
    for d in range(1, k):
        yield SubsetChannel.at(k, d, epsilon).matrix()
    yield BitChannel.symmetric(k, epsilon).matrix()
    for split_pairs in range(1, k // 2 + 1):
        outcomes = [
            [1 + (e - 1) * (y // 2 in pairs and y % 2 == side[y // 2]) for y in range(k)]
            for pairs in itertools.combinations(range(k // 2), split_pairs)
            for side in itertools.product((0, 1), repeat=k // 2)
        ]
        matrix = np.array(outcomes, dtype=float).T
        yield matrix / matrix.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("k", [2, 4, 6])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5, 5.0])
def test_no_label_tells_more_of_the_signs_than_the_proof_says(k, epsilon):
    """Through every channel ``sum_i KL_i`` is at most both bounds of the proof, and some comes close to the first.

    S, which the first is made of, is the largest over all corners of what privacy allows, and over points within.
    """
    e, rng = math.exp(epsilon), np.random.default_rng(k)
    largest = max(j * (k * (e - 1) / (k + j * (e - 1))) ** 2 for j in range(1, k // 2 + 1))
    points = np.concatenate([np.array(list(itertools.product((1.0, e), repeat=k))), rng.uniform(1, e, size=(2000, k))])
    found = ((points[:, ::2] - points[:, 1::2]) ** 2).sum(axis=1) / points.mean(axis=1) ** 2
    assert found.max() == pytest.approx(largest)
    assert largest <= k * (e - 1) ** 2 / (2 * e) * (1 + 1e-12)
    told = []
    for channel in private_channels(k, epsilon, rng):
        assert np.allclose(channel.sum(axis=1), 1)
        assert (channel.max(axis=0) <= channel.min(axis=0) * e * (1 + 1e-9)).all()
        for c in (0.02, 0.3, 0.9):
            information = split(channel, c)
            assert information <= min(4 * c**2 * largest / (k**2 * (1 - c)), 2 * c * math.atanh(c)) * (1 + 1e-9)
            assert 2 * c * math.atanh(c) <= 2 * c**2 / (1 - c**2)
            told.append(information / (4 * c**2 * largest / k**2))
    assert max(told) > 0.45  # the chi-squared divergence is twice that of Kullback and Leibler between near laws


def best_excess(protocol, n, k, c):
    """The least mean excess over all signs, of the best parameters for what n labels release; R and L are 1.

    The protocol gives the channel of the next label, from the outcomes so far.
    """
    signs = np.array(list(itertools.product((-1, 1), repeat=k // 2)))
    b = np.repeat(signs, 2, axis=1) * np.tile((1, -1), k // 2) / math.sqrt(k)
    laws = (1 + c * b * math.sqrt(k)) / k
    states = [((), np.full(len(signs), 1 / len(signs)))]
    for _ in range(n):
        states = [
            ((*seen, z), joint * (laws @ matrix[:, z]))
            for seen, joint in states
            for matrix in [protocol(seen)]
            for z in range(matrix.shape[1])
        ]
    aligned = sum(np.linalg.norm(joint @ b) for _, joint in states)
    return c / (2 * math.sqrt(k - 1)) * (1 - aligned)


@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 7), (4, 1), (4, 4)])
@pytest.mark.parametrize("epsilon", [0.5, 1.5, 4.0])
def test_no_protocol_is_below_the_limit(k, n, epsilon):
    """The best parameters from response, from subsets and from channels that follow earlier outcomes are above it."""
    limit = convex_sequential_lower(ConvexProblem(n, epsilon), k)
    width, c = int(limit.size("classes")), limit.size("shift")
    response = ResponseChannel.at(width, epsilon).matrix()
    pairs = SubsetChannel.at(width, width // 2, epsilon).matrix()
    protocols = (lambda _: response, lambda _: pairs, lambda seen: pairs if sum(seen) % 2 else response)
    excess = min(best_excess(protocol, n, width, c) for protocol in protocols)
    assert excess / 25 < limit.value <= excess
    assert 0 < limit.value <= convex_local_upper(ConvexProblem(n, epsilon), k).value


@pytest.mark.parametrize("n", [1, 30, 10**4, 10**9])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 12.0])
def test_the_limit_rests_on_a_shift_that_labels_hide(n, epsilon):
    """From the value and the shift c that it was computed at follows t, and n labels tell no more than t allows."""
    for classes in (2, 5, 40, 3000):
        limit = convex_sequential_lower(ConvexProblem(n, epsilon), classes)
        k, c = limit.size("classes"), limit.size("shift")
        t = 2 * (1 - 2 * limit.value * math.sqrt(k - 1) / c) ** 2 - 1
        gap = math.expm1(epsilon)
        largest = max(j * (k * gap / (k + j * gap)) ** 2 for j in range(1, int(k) // 2 + 1))
        told = min(4 * c**2 * largest / (k**2 * (1 - c)), 2 * c * math.atanh(c))
        assert k <= classes
        assert k % 2 == 0
        assert 0 < c < 1
        assert n * told / k <= t**2 * (1 + 1e-6)


@pytest.mark.parametrize("k", [2, 4, 10, 100, 1000])
def test_the_limit_has_the_constant_that_is_claimed(k):
    """At least 1/64 of theorem 2's root from the stated number of rows on, and scaled by R L; odd K lose one class."""
    for epsilon, more in itertools.product((0.01, 0.3, 1.0, 2.0, 4.0, 9.0), (1, 2, 50, 10**6)):
        e = math.exp(epsilon)
        n = max(1, math.ceil(more * k**2 * e / (4 * (e - 1) ** 2)))
        found = convex_sequential_lower(ConvexProblem(n, epsilon), k).value
        assert found >= math.sqrt(k * e / ((e - 1) ** 2 * n)) / 64
        assert convex_sequential_lower(ConvexProblem(n, epsilon, 2.0, 3.0), k).value == pytest.approx(6 * found)
        assert convex_sequential_lower(ConvexProblem(n, epsilon), k + 1).value == found
    assert convex_sequential_lower(ConvexProblem(1, 1e-3), k).value > 0.01


@pytest.mark.parametrize("classes", [2, 3, 10, 1000])
def test_regimes_have_the_orders_of_the_papers(classes):
    """Proven upper and lower bounds are within a factor of 85 everywhere, on either side of theorem 1's order."""
    found = {epsilon: convex_rate(epsilon, classes) for epsilon in (0.05, 0.5, 1.0, 1.5, 2.5, 4.0, 6.0, 10.0)}
    for epsilon, rate in found.items():
        assert rate.regime == ("high" if epsilon <= 1 else "medium" if epsilon <= math.log(classes) else "low")
        order = {"high": math.sqrt(classes) / epsilon, "medium": math.sqrt(classes / math.exp(epsilon)), "low": 1.0}
        assert rate.needed < rate.reached < 85 * rate.needed
        assert 0.7 < order[rate.regime] / rate.subset < 1.6
        assert rate.subset / 43 < rate.needed < rate.subset < rate.reached * (1 + 1e-9) < 2.3 * rate.subset
        assert rate.subset <= 1.2 * min(rate.response, rate.vector)
        channel = gradient_response(Classes(range(classes)), epsilon).channel()
        assert rate.reached == pytest.approx(convex_channel_upper(10**12, channel).value * 1e6)
    if classes == 1000:
        assert found[0.5].response / found[0.5].reached > 12
        assert found[6.0].vector / found[6.0].reached > 9


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: convex_response_upper(ConvexProblem(10, 1.1), 3), EpsilonError),
        (lambda: convex_population_lower(ConvexProblem(10, 2.0), -0.1), InputError),
        (lambda: convex_gaussian_upper(ConvexProblem(10, 1.0), 0.0, 3), InputError),
        (lambda: convex_candidates_upper(ConvexProblem(10, 1.0), 3, 1.5), InputError),
        (lambda: convex_local_upper(ConvexProblem(10, 1.0), 1), InputError),
        (lambda: convex_local_upper(ConvexProblem(10, 1.0, diameter=0.0), 3), InputError),
        (lambda: prior_generalization(10, 1.0, 3, -1.0), InputError),
        (lambda: convex_sequential_lower(ConvexProblem(10, 0.0), 3), EpsilonError),
        (lambda: convex_subset_upper(ConvexProblem(10, 1.0), 3, size=3), InputError),
        (lambda: convex_vector_upper(ConvexProblem(10, 1.0), 3, right_angled=0.0), InputError),
        (lambda: convex_channel_upper(10, ResponseChannel.at(3, 1.0), right_angled=math.inf), InputError),
        (lambda: convex_rate(1.0, 1), InputError),
    ],
)
def test_numbers_outside_the_theorems(make, error):
    """Parameters outside a theorem's assumptions are refused with a message."""
    with pytest.raises(error, match=r"expected .* found"):
        make()
