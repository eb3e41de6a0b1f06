"""Tight composition, against laws written out in full, exact sums of integers, and formulas from papers."""

import dataclasses
import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Charge, Guarantee, compose
from labeldp.errors import BudgetError, EpsilonError, InputError
from labeldp.privacy.accounting import Composition, PrivacyLoss, RowRanges
from labeldp.privacy.accounting import _composition as composition
from labeldp.privacy.channels import (
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    ClusterChannel,
    GroupedChannel,
    ResponseChannel,
    SubsetChannel,
    pack,
)

EPSILONS = (0.0, 0.1, 0.5, 1.0, 1.7, 2.5, 3.9)
ALL = RowRanges.all(5)


def candidate_subsets(epsilon, classes, *rows, bits=64):
    """Subsets of the candidates of each row."""
    return CandidateSubsetChannel.at(classes, epsilon, candidates(epsilon, classes, *rows).candidates, bits)


def candidates(epsilon, classes, *rows, bits=64):
    """RRTop-k where each row has the classes that are named."""
    mask = np.zeros((len(rows), classes), dtype=np.bool_)
    for row, names in zip(mask, rows, strict=True):
        row[list(names)] = True
    return CandidateChannel.at(classes, epsilon, pack(mask), bits)


def clusters(epsilon, *distributions, bits=64):
    """Cluster response with one row in each cluster."""
    return ClusterChannel.at(np.array(distributions), epsilon, np.arange(len(distributions)), bits)


SCHEDULES = {
    "one response": [ResponseChannel.at(4, 1.0)],
    "responses": [ResponseChannel.at(4, 0.7)] * 4,
    "few words": [ResponseChannel.at(4, 0.7, 16)] * 3,
    "two classes": [ResponseChannel.at(2, 1.0)] * 4,
    "subsets": [SubsetChannel.at(4, 2, 1.0)] * 4,
    "large subsets": [SubsetChannel.at(4, 3, 0.8, 16)] * 3,
    "independent bits": [BitChannel.independent(4, 1.3)] * 3,
    "symmetric bits": [BitChannel.symmetric(4, 1.3)] * 3,
    "two candidates": [candidates(0.9, 4, [1, 3])] * 4,
    "three candidates": [candidates(0.9, 4, [0, 1, 3])] * 4,
    "two candidates of subsets": [candidate_subsets(0.9, 6, [1, 3])] * 3,
    "five candidates of subsets": [candidate_subsets(0.9, 6, [0, 1, 3, 4, 5])] * 3,
    "all candidates": [candidates(0.9, 4, range(4), bits=16)] * 4,
    "other candidates": [candidates(0.9, 4, [1, 3]), candidates(0.5, 4, [0, 1, 3]), candidates(0.5, 4, [1, 2, 3])],
    "a cluster": [clusters(0.9, [0.1, 0.5, 0.1, 0.3])] * 4,
    "mixed": [
        ResponseChannel.at(4, 0.7),
        SubsetChannel.at(4, 2, 1.0),
        BitChannel.independent(4, 0.4),
        candidates(0.9, 4, [0, 2]),
    ],
}
every_schedule = pytest.mark.parametrize("name", SCHEDULES)


def charge(epsilon, rows=ALL, delta=0.0, **more):
    """A charge to all rows, or to some."""
    return Charge(Guarantee(epsilon, delta, **more), rows)


def composed(channels, rows=ALL):
    """The composition of draws from channels, all of the same rows."""
    return Composition.of((charge(channel.epsilon, rows), channel) for channel in channels)


def products(channels, pair):
    """The probabilities of every outcome of all draws together, given either label of a pair."""
    one, other = np.ones(1), np.ones(1)
    for channel in channels:
        matrix = channel.matrix()
        one = np.multiply.outer(one, matrix[pair[0]]).ravel()
        other = np.multiply.outer(other, matrix[pair[1]]).ravel()
    return one, other


def by_hand(channels, epsilon):
    """Delta from all outcomes of all draws, of the worst pair of labels in the worse direction."""
    pairs = itertools.permutations(range(channels[0].classes), 2)
    laws = (products(channels, pair) for pair in pairs)
    return max(float(np.maximum(one - math.exp(epsilon) * other, 0).sum()) for one, other in laws)


@every_schedule
def test_delta_is_that_of_all_outcomes(name):
    """Delta is what enumeration finds over all pairs and both directions, neither less nor more."""
    channels = SCHEDULES[name]
    found = composed(channels)
    for epsilon in EPSILONS:
        hand = by_hand(channels, epsilon)
        assert hand - 1e-15 <= found.delta_at(epsilon) <= hand + 1e-12


@every_schedule
def test_a_grid_costs_little_and_never_too_little(name, monkeypatch):
    """Where losses are put on a grid, delta is at least that of all outcomes, and close."""
    monkeypatch.setattr(composition, "_MOST_VALUES", 0)
    channels = SCHEDULES[name]
    hands = [by_hand(channels, epsilon) for epsilon in EPSILONS]
    for points, most in ((1 << 15, 1e-5), (64, 1e-2)):
        monkeypatch.setattr(composition, "_POINTS", points)
        found = composed(channels)
        for epsilon, hand in zip(EPSILONS, hands, strict=True):
            assert hand * (1 - 1e-13) - 1e-16 <= found.delta_at(epsilon) <= hand + most


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(
    "make",
    [
        lambda e: ResponseChannel.at(5, e),
        lambda e: SubsetChannel.at(5, 2, e),
        lambda e: SubsetChannel.at(5, 4, e),
        lambda e: BitChannel.independent(5, e),
        lambda e: BitChannel.symmetric(5, e),
        lambda e: candidates(e, 5, range(5)),
    ],
)
def test_the_loss_is_that_of_the_table(make, epsilon):
    """For every pair of labels, the table's log ratios take the three values with the three probabilities."""
    channel = make(epsilon)
    loss, matrix = PrivacyLoss.of(channel), channel.matrix()
    size = math.log(loss.odds)
    for one, other in itertools.permutations(range(5), 2):
        ratios = np.log(matrix[one] / matrix[other])
        for value, mass in ((size, loss.odds * loss.least), (-size, loss.least)):
            assert matrix[one][np.isclose(ratios, value, rtol=1e-6)].sum() == pytest.approx(float(mass), rel=1e-9)
        assert (np.isclose(abs(ratios), size, rtol=1e-6) | (abs(ratios) < 1e-6)).all()


def test_candidates_count_at_the_fewest_that_a_row_has():
    """Fewer candidates say more: rows with two decide, a single candidate says nothing, unknown rows are the worst."""
    two, three, one = candidates(1.0, 4, [0, 1]), candidates(1.0, 4, [0, 1, 2]), candidates(1.0, 4, [3])
    both = candidates(1.0, 4, [0, 1, 2], [3], [2, 3])
    unknown = CandidateChannel(4, two.keep, two.other, np.empty((0, 1), dtype=np.uint8))
    least = {name: PrivacyLoss.of(channel).least for name, channel in locals().items()}
    assert least["one"] == 0 < least["three"] < least["two"] == least["both"]
    assert least["unknown"] >= least["two"]
    assert composed([one] * 9).delta_at(0.0) == 0.0


def test_subsets_of_candidates_count_at_the_worst_number_that_a_row_has():
    """The loss is that of subsets of as many classes; one candidate says nothing, unknown rows are the worst."""
    two, four = candidate_subsets(1.0, 6, [0, 1]), candidate_subsets(1.0, 6, [0, 1, 2, 5])
    like = PrivacyLoss.of(SubsetChannel(4, four.size[4], four.member[4]))
    assert (PrivacyLoss.of(four).odds, PrivacyLoss.of(four).least) == (like.odds, like.least)
    both, one = candidate_subsets(1.0, 6, [0, 1], [0, 1, 2, 5], [3]), candidate_subsets(1.0, 6, [3])
    assert PrivacyLoss.of(both).odds == max(PrivacyLoss.of(two).odds, like.odds)
    assert PrivacyLoss.of(both).least >= max(PrivacyLoss.of(two).least, like.least) * (1 - Fraction(1, 10**15))
    unknown = dataclasses.replace(two, candidates=np.empty((0, 1), dtype=np.uint8))
    assert PrivacyLoss.of(unknown).least >= PrivacyLoss.of(both).least * (1 - Fraction(1, 10**15))
    assert composed([one] * 9).delta_at(0.0) == 0.0


def test_labels_outside_the_candidates_are_bounded_by_those_inside():
    """No pair of labels, inside or outside, at the last candidate or not, exceeds the loss, at any epsilon."""
    for make, bits, epsilon in itertools.product((candidates, candidate_subsets), (16, 64), (0.1, 1.0, 4.0)):
        channel = make(epsilon, 6, [0, 2, 3], [1, 5], [0, 1, 2, 3, 4], bits=bits)
        for row in range(3):
            twice = [channel.take(np.array([row]))] * 2
            found = composed(twice)
            for asked in np.linspace(0, 2 * epsilon, 9):
                assert by_hand(twice, asked) <= found.delta_at(asked) * (1 + 1e-12) + 1e-15


def test_integers_too_coarse_for_the_proof_take_the_worst_odds():
    """With words of four bits the last candidate is rarer for labels outside than for those inside."""
    keep, other = (16, 16, 9, 6, 4), (1, 1, 7, 5, 4)
    channel = CandidateChannel(4, keep, other, pack(np.array([[True, True, True, False]])), bits=4)
    assert PrivacyLoss.of(channel) == PrivacyLoss.within(channel.odds)
    for epsilon in (0.0, 0.1, 0.3):
        assert by_hand([channel] * 3, epsilon) <= composed([channel] * 3).delta_at(epsilon) + 1e-15


def test_clusters_count_by_their_rarest_class():
    """No pair of labels in any cluster exceeds the loss, and the pair of the two rarest comes close."""
    channel = clusters(1.0, [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [0.25] * 4, bits=16)
    found, worst = composed([channel] * 2), Composition.of([(charge(channel.epsilon), None)] * 2)
    for epsilon in (0.0, 0.3, 0.9, 1.5):
        hands = [by_hand([channel.take(np.array([row]))] * 2, epsilon) for row in range(3)]
        assert max(hands) <= found.delta_at(epsilon) + 1e-15
        assert found.delta_at(epsilon) <= max(hands) * 1.01
        assert found.delta_at(epsilon) < worst.delta_at(epsilon)


def exact_delta(loss, times, epsilon):
    """Delta of one loss added to itself, in integers and 60 digits."""
    with mpmath.workdps(60):
        word = math.lcm(loss.least.denominator, (loss.odds * loss.least).denominator)
        low, high = int(loss.least * word), int(loss.odds * loss.least * word)
        middle, size = word - low - high, mpmath.log(mpmath.mpf(loss.odds.numerator) / loss.odds.denominator)
        total = mpmath.mpf(0)
        for ups in range(times + 1):
            for downs in range(min(ups, times - ups) + 1):
                gap = (ups - downs) * size - mpmath.mpf(epsilon)
                if gap > 0:
                    ways = math.comb(times, ups) * math.comb(times - ups, downs)
                    mass = ways * high**ups * low**downs * middle ** (times - ups - downs)
                    total += mpmath.mpf(mass) / mpmath.mpf(word) ** times * -mpmath.expm1(-gap)
        return total


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_floating_error_is_added(classes, epsilon):
    """Over many draws delta is never below its exact value, and above it by rounding alone."""
    channel = ResponseChannel.at(classes, epsilon)
    found, loss = composed([channel] * 40), PrivacyLoss.of(channel)
    for asked in np.linspace(0, 39 * epsilon, 21):
        exact = exact_delta(loss, 40, float(asked))
        assert exact <= found.delta_at(float(asked)) <= exact * (1 + mpmath.mpf(2e-11))


@pytest.mark.parametrize("times", [1, 2, 3, 100])
@pytest.mark.parametrize(
    "channel", [candidates(0.3, 3, [0, 1]), SubsetChannel.at(9, 4, 2.7), ResponseChannel.at(2, 36)]
)
def test_losses_are_rounded_up(channel, times):
    """Every value of a sum of losses is at least the exact one, below zero too, and next to it."""
    loss = PrivacyLoss.of(channel)
    with mpmath.workdps(60):
        size = mpmath.log(mpmath.mpf(loss.odds.numerator) / loss.odds.denominator)
        for count, found in zip(range(-times, times + 1), composition._repeated(loss, times).losses, strict=True):
            exact = count * size
            assert exact <= mpmath.mpf(float(found)) <= exact + abs(exact) * mpmath.mpf(1e-14) + mpmath.mpf(1e-300)


def test_a_hundred_draws():
    """A hundred draws of ten-class randomized response at epsilon 1 cost 39.9 at delta 1e-6, where sums say 100."""
    found = composed([ResponseChannel.at(10, 1.0)] * 100)
    assert found.epsilon == 100.0
    assert found.epsilon_at(1e-6) == pytest.approx(39.902, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 7), (0.5, 6), (1.0, 12)])
def test_any_mechanism_costs_what_the_optimal_composition_says(epsilon, times):
    """Charges without a law cost the formula of Kairouz, Oh and Viswanath 2015, theorem 3.3."""
    found = Composition.of([(charge(epsilon), None)] * times)
    for i in range(times // 2 + 1):
        asked = (times - 2 * i) * epsilon
        terms = (
            math.comb(times, j) * (math.exp((times - j) * epsilon) - math.exp((times - 2 * i + j) * epsilon))
            for j in range(i)
        )
        assert found.delta_at(asked) == pytest.approx(sum(terms) / (1 + math.exp(epsilon)) ** times, abs=1e-12)


def test_failures_are_counted():
    """Charges with a delta fail together as often as any of them does, and cost what an enumeration finds."""
    found = Composition.of([(charge(0.5, delta=0.01), None)] * 3)
    e = math.exp(0.5)
    one = np.array([0.01, 0.99 * e / (1 + e), 0.99 / (1 + e), 0.0])
    draws = [np.multiply.outer(np.multiply.outer(law, law), law) for law in (one, one[::-1])]
    for epsilon in (0.0, 0.4, 0.9, 1.4):
        hand = np.maximum(draws[0] - math.exp(epsilon) * draws[1], 0).sum()
        assert hand - 1e-15 <= found.delta_at(epsilon) <= hand + 1e-12
    fails = 1 - 0.99**3
    assert found.delta_at(1.5) == pytest.approx(fails, rel=1e-12)
    assert found.delta == 0.03
    assert found.delta_at(50.0) <= 0.03
    assert found.epsilon_at(0.0) == found.epsilon_at(0.0297) == math.inf
    assert found.epsilon_at(0.0298) <= found.epsilon == 1.5
    assert Composition.of([(charge(0.5, delta=0.01), None), (charge(0.25), None)]).delta == 0.01


@every_schedule
def test_without_failures_it_is_the_sum(name):
    """At delta 0 the answer is the exact sum and nothing that was rounded, and from the sum on delta is 0."""
    channels = SCHEDULES[name]
    found = composed(channels)
    assert (found.epsilon, found.delta) == compose([charge(channel.epsilon) for channel in channels])
    assert found.epsilon_at(0.0) == found.epsilon
    assert found.delta_at(found.epsilon) == found.delta_at(found.epsilon + 1) == 0.0
    assert found.epsilon_at(1e-300) <= found.epsilon


@every_schedule
def test_epsilon_and_delta_are_inverse(name):
    """The epsilon at a delta keeps that delta, and no epsilon below it does."""
    for delta in (1e-12, 1e-6, 1e-3, 0.1, 0.9):
        found = composed(SCHEDULES[name])
        epsilon = found.epsilon_at(delta)
        assert found.delta_at(epsilon) <= delta
        if epsilon > 0:
            assert found.delta_at(epsilon * (1 - 1e-9)) > delta * (1 - 1e-6)
            assert found.delta_at(math.nextafter(epsilon, 0)) >= delta * (1 - 1e-9)


kinds = st.sampled_from([channels[0] for channels in SCHEDULES.values()])
row_sets = st.sets(st.integers(0, 6), min_size=1)


@given(st.lists(st.tuples(kinds, row_sets), min_size=1, max_size=6), st.tuples(kinds, row_sets), st.randoms())
@settings(derandomize=True, max_examples=60, deadline=None)
def test_more_never_costs_less_and_order_does_not_matter(requests, more, random):
    """One more request lowers neither delta nor epsilon, and a shuffled list costs the same."""

    def cost(requests):
        found = Composition.of(
            (charge(channel.epsilon, RowRanges.of(np.array(sorted(rows)))), channel) for channel, rows in requests
        )
        return np.array([*(found.delta_at(epsilon) for epsilon in EPSILONS), found.epsilon_at(1e-6)])

    shuffled = random.sample(requests, len(requests))
    np.testing.assert_allclose(cost(shuffled), cost(requests), rtol=1e-12)
    assert (cost([*requests, more]) >= cost(requests) * (1 - 1e-12)).all()


@given(st.lists(st.tuples(kinds, row_sets), min_size=1, max_size=6))
@settings(derandomize=True, max_examples=60, deadline=None)
def test_rows_cost_the_largest_of_their_own_draws(requests):
    """Delta is the largest over single rows of the composition of what covers the row."""
    found = Composition.of(
        (charge(channel.epsilon, RowRanges.of(np.array(sorted(rows)))), channel) for channel, rows in requests
    )
    singles = [composed([channel for channel, rows in requests if row in rows]) for row in range(7)]
    for epsilon in EPSILONS:
        assert found.delta_at(epsilon) == pytest.approx(max(one.delta_at(epsilon) for one in singles), rel=1e-12)


def test_very_scattered_requests_count_as_one_set(monkeypatch):
    """Where too many sets of charges meet, all that meet anywhere are composed: more, never less."""
    channel = ResponseChannel.at(3, 1.0)
    charges = [(charge(channel.epsilon, RowRanges.of(np.array([i, i + 1]))), channel) for i in range(6)]
    other = ResponseChannel.at(3, 0.5)
    charges += [(charge(other.epsilon, RowRanges.of(np.array([i]))), other) for i in (0, 9)]
    apart = Composition.of(charges)
    monkeypatch.setattr(composition, "_MOST_SETS", 1)
    concatenate = Composition.of(charges)
    assert concatenate.epsilon == apart.epsilon == 2.0
    assert concatenate.delta_at(0.5) == pytest.approx(composed([channel, channel, other]).delta_at(0.5), rel=1e-12)
    assert concatenate.delta_at(0.5) >= apart.delta_at(0.5)


def test_units_and_groups_count_as_the_worst_of_their_epsilon():
    """Where a unit has several rows, or a law differs by group, only the epsilon is used, and no row is apart."""
    channels = (ResponseChannel.at(3, 0.9), ResponseChannel.at(3, 0.45))
    grouped = GroupedChannel(3, channels, (1, 2), np.array([0, 1, 1]))
    far = [charge(grouped.epsilon, RowRanges.of(np.array([i])), unit="person") for i in range(3)]
    found = Composition.of([(each, grouped) for each in far])
    worst = Composition.of([(charge(grouped.epsilon), None)] * 3)
    assert found.epsilon == worst.epsilon
    for epsilon in EPSILONS:
        assert found.delta_at(epsilon) == pytest.approx(worst.delta_at(epsilon), rel=1e-12)
        one, other = (np.multiply.outer(*2 * [channels[1].matrix()[y]]).ravel() for y in (0, 1))
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum() <= worst.delta_at(epsilon) + 1e-15
    with pytest.raises(BudgetError, match="expected one privacy unit"):
        Composition.of([(far[0], grouped), (charge(1.0), None)]).epsilon_at(1e-6)


@pytest.mark.parametrize(
    "guarantee",
    [{"trust": "central"}, {"trust": "peer"}, {"trust": "shuffle"}, {"delta": 1e-9}, {"unit": "person"}],
    ids=["central", "peer", "shuffle", "delta", "unit"],
)
def test_a_law_counts_for_single_rows_alone(guarantee):
    """A charge that is not for a row, not local or not pure counts by its guarantee, whatever channel is named."""
    channel = ResponseChannel.at(5, 1.0)
    made = Composition.of([(charge(channel.epsilon, **guarantee), channel)])
    assert made.losses == (PrivacyLoss.promised(made.charges[0].guarantee),)
    assert made.losses[0].least > PrivacyLoss.of(channel).least


def test_nothing_costs_nothing():
    """No charge, a charge for no row and a law that says nothing cost neither epsilon nor delta."""
    fair = ResponseChannel(4, 1 << 62, 1 << 62)
    for found in (Composition.of([]), composed([ResponseChannel.at(3, 1.0)], RowRanges.all(0)), composed([fair] * 3)):
        assert (found.epsilon, found.delta, found.delta_at(0.0), found.epsilon_at(1e-9)) == (0.0, 0.0, 0.0, 0.0)


def test_what_cannot_be_composed_is_refused(monkeypatch):
    """A charge below its channel's cost, and an epsilon or delta that is none."""
    channel = ResponseChannel.at(3, 1.0)
    with pytest.raises(InputError, match="expected a charge of at least"):
        Composition.of([(charge(0.99), channel)])
    found = composed([channel])
    for bad in (-0.1, math.nan):
        with pytest.raises(EpsilonError):
            found.delta_at(bad)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(EpsilonError):
            found.epsilon_at(bad)
    for bad in ((Fraction(1, 2), Fraction(1, 9)), (Fraction(2), Fraction(1, 2)), (Fraction(2), Fraction(-1, 9))):
        with pytest.raises(ValueError, match="expected odds"):
            PrivacyLoss(*bad)
    monkeypatch.setattr(composition, "_MOST_DRAWS", 100)
    many = Composition.of([(charge(0.1), None)] * 101)
    with pytest.raises(InputError, match="use sums"):
        many.delta_at(1.0)


@given(st.floats(0.0, 4.0))
@settings(derandomize=True, max_examples=100, deadline=None)
def test_a_delta_is_a_bound_as_it_prints(epsilon):
    """The delta at an epsilon prints as a decimal that is no less than what was computed in binary."""
    found = composed([ResponseChannel.at(3, 0.5)] * 9)
    (laws,) = found._readings
    computed = max(law.delta_at(math.nextafter(epsilon, 0.0)) for law in laws)
    assert Fraction(repr(found.delta_at(epsilon))) >= Fraction(computed)
    assert found.delta_at(epsilon) == pytest.approx(computed, rel=1e-15)
