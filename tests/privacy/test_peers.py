"""The account of the exchange between peers, against full enumeration and against sums without any shortcut."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from labeldp.privacy.accounting import PeerLaw, _urn
from labeldp.privacy.accounting import _peer_exchange as _peers

WORD = 1 << 64


def law(flip, subsample=1.0, fixed=False):
    """The law at probabilities that are floats."""
    return PeerLaw(int(flip * WORD), int(subsample * WORD), fixed)


# ------------------------------------------------------------------------------------------------- enumeration


def enumerated(labels, flip, subsample, fixed_count=None):
    """The probability of everything a cluster can release, by every flip, every choice of peers, every sample."""
    n, found = len(labels), {}
    for flips in itertools.product((0, 1), repeat=n):
        chance = math.prod(flip if bit else 1 - flip for bit in flips)
        noisy = [label ^ bit for label, bit in zip(labels, flips, strict=True)]
        for peers in itertools.product(range(n), repeat=n):
            exchanged = tuple(noisy[peer] for peer in peers)
            found[exchanged] = found.get(exchanged, 0) + chance * Fraction(1, n**n)
    sampled = {}
    for mask in itertools.product((0, 1), repeat=n):
        if fixed_count is None:
            chance = math.prod(subsample if bit else 1 - subsample for bit in mask)
        else:
            chance = Fraction(sum(mask) == fixed_count, math.comb(n, fixed_count))
        for exchanged, weight in found.items():
            seen = tuple(value if bit else None for value, bit in zip(exchanged, mask, strict=True))
            sampled[seen] = sampled.get(seen, 0) + chance * weight
    return sampled


def brute_force(n, flip, subsample, epsilons, fixed_count=None):
    """The largest hockey-stick divergence over all neighbours of all data sets, in fractions, at each epsilon."""
    outcomes = {
        labels: enumerated(labels, flip, subsample, fixed_count) for labels in itertools.product((0, 1), repeat=n)
    }
    worst = [0.0] * len(epsilons)
    for labels, row in itertools.product(outcomes, range(n)):
        other = outcomes[(*labels[:row], 1 - labels[row], *labels[row + 1 :])]
        for place, epsilon in enumerate(epsilons):
            factor = Fraction(math.exp(epsilon))
            divergence = sum(max(Fraction(0), p - factor * other[seen]) for seen, p in outcomes[labels].items())
            worst[place] = max(worst[place], float(divergence))
    return worst


@pytest.mark.parametrize("flip", [Fraction(1, 16), Fraction(3, 8)])
@pytest.mark.parametrize(
    ("n", "subsample", "fixed"),
    [(1, 1, False), (1, 0.5, False), (2, 1, False), (2, 0.75, False), (3, 0.5, False), (3, 0.75, True), (4, 1, False)],
)
def test_the_account_is_the_enumeration(n, subsample, fixed, flip):
    """In small clusters delta is what full enumeration gives, to 1e-8, and never below it."""
    epsilons = (0.0, 0.2, 0.5, 1.0, 2.0)
    subsample = Fraction(subsample)
    made = PeerLaw(int(flip * WORD), int(subsample * WORD), fixed)
    expected = brute_force(n, flip, subsample, epsilons, made.released(n) if fixed else None)
    found = [made.delta(epsilon, [n]) for epsilon in epsilons]
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-15)
    assert all(a >= b for a, b in zip(found, expected, strict=True))


def test_a_sampled_cluster_of_four_is_the_enumeration():
    """With rows sampled by chance too, a cluster of four is accounted as enumeration says."""
    flip, half = Fraction(1, 8), Fraction(1, 2)
    (expected,) = brute_force(4, flip, half, [0.3])
    found = PeerLaw(WORD // 8, WORD // 2, False).delta(0.3, [4])
    assert expected <= found == pytest.approx(expected, rel=1e-8)


# -------------------------------------------------------------------------------------------- without shortcuts


def plainly(n, flip, subsample, epsilon, fixed_count=None):
    """Both divergences at every number of ones, shape (n, 2): sums over all outcomes, with SciPy's binomials."""
    ones, outcomes = np.arange(n + 1), np.arange(n + 1)
    urn = np.array(
        [
            np.convolve(binom.pmf(np.arange(c + 1), c, 1 - flip), binom.pmf(np.arange(n - c + 1), n - c, flip))
            for c in ones
        ]
    )
    found = np.zeros((n, 2))
    for count in outcomes:
        weight = binom.pmf(count, n, subsample) if fixed_count is None else float(count == fixed_count)
        if weight > 0.0:
            sums = urn @ binom.pmf(np.arange(count + 1), count, ones[:, None] / n)
            found[:, 0] += weight * np.maximum(sums[1:] - math.exp(epsilon) * sums[:-1], 0).sum(axis=1)
            found[:, 1] += weight * np.maximum(sums[:-1] - math.exp(epsilon) * sums[1:], 0).sum(axis=1)
    return found


CASES = [
    (2, 0.1, 1.0, False),
    (5, 0.3, 0.4, False),
    (30, 0.02, 0.5, False),
    (60, 0.01, 1.0, False),
    (80, 0.45, 0.3, False),
    (100, 0.05, 1.0, False),
    (150, 0.1, 0.2, True),
    (400, 0.4, 1.0, False),
]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize(("n", "flip", "subsample", "fixed"), CASES)
def test_the_search_finds_the_largest_of_all_counts(n, flip, subsample, fixed, epsilon):
    """Halving ranges of counts gives the maximum over every n1 and both directions, and never less."""
    made = law(flip, subsample, fixed)
    exact = plainly(n, flip, subsample, epsilon, made.released(n) if fixed else None).max()
    found = made.delta(epsilon, [n])
    assert found >= exact * (1 - 1e-12)
    assert found <= exact * (1 + 1e-4) + 1e-28


def test_neither_no_ones_nor_one_direction_is_the_worst():
    """At n = 100 and flip 0.05 the worst count is not 0, and each count below the middle is worse one way round."""
    found = plainly(100, 0.05, 1.0, 0.9050)
    delta = law(0.05).delta(0.9050, [100])
    assert delta == pytest.approx(found.max(), rel=1e-5)
    assert found[0].max() < 0.99 * delta
    for epsilon in (0.5, 0.8):
        both = plainly(100, 0.05, 1.0, epsilon)[:50].max(axis=0)
        assert abs(both[0] - both[1]) > 0.01 * both.max()
        assert law(0.05).delta(epsilon, [100]) == pytest.approx(both.max(), rel=1e-5)


@pytest.mark.parametrize(("n", "flip", "subsample"), [(40, 0.05, 1.0), (41, 0.3, 0.5), (300, 0.02, 1.0)])
def test_a_range_is_bounded_by_what_stays_of_it(n, flip, subsample):
    """The bound of a range of counts is at least the divergence at each of its counts."""
    cluster = law(flip, subsample)._urn(n)
    for epsilon in (0.0, 0.05, 0.3):
        exact = plainly(n, flip, subsample, epsilon).max(axis=1)
        for low, high in [(0, (n - 1) // 2), (0, 3), (1, 9), (5, 15), (n // 4, (n - 1) // 2)]:
            assert cluster._bound(low, high, math.exp(epsilon)) >= exact[low : high + 1].max() * (1 - 1e-12)


def test_impatience_claims_less():
    """A search that stops early gives a larger delta, never a smaller one."""
    exact = law(0.45).delta(0.02, [700])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_urn, "_PATIENCE", 3)
        patch.setattr(_urn, "_EFFORT", 1)
        hasty = law(0.45).delta(0.02, [700])
    assert exact < hasty < 10 * exact


@pytest.mark.parametrize("cut", [1e-3, 1e-6])
def test_what_is_cut_off_is_added(monkeypatch, cut):
    """With large cuts delta is still at least the exact one, also where all of it was cut off, and near the cut."""
    cases = [(epsilon, plainly(300, 0.05, 1.0, epsilon).max()) for epsilon in (0.1, 0.5, 0.8, 1.1, 1.4)]
    monkeypatch.setattr(_urn, "_CUT", cut)
    assert cases[-1][1] > 0.0
    for epsilon, exact in cases:
        found = law(0.05).delta(epsilon, [300])
        assert exact <= found <= exact * 1.001 + 10 * cut


def test_rounding_the_number_of_rows_claims_a_little_less(monkeypatch):
    """With few numbers of released rows told apart, delta is larger, and by little."""
    exact = law(0.1, 0.5).delta(0.2, [250])
    monkeypatch.setattr(_peers, "_EFFORT", 1 << 12)
    rounded = law(0.1, 0.5).delta(0.2, [250])
    assert exact < rounded < 1.1 * exact


def test_the_error_of_floats_is_within_its_bound():
    """A binomial of 10000 rows, and a released sum, are right to their bound, by exact integers."""
    n, piece = 10_000, _urn.binomial(10_000, WORD // 16)
    bound = _urn.relative_error(n)
    for k in (500, 625, 800):
        exact = Fraction(math.comb(n, k) * 15 ** (n - k), 16**n)
        assert abs(Fraction(float(piece.mass[k - piece.start])) / exact - 1) < bound
    start, count = 37, 400
    laws = _peers._released_law(start, np.array([[0.25, 0.75], [0.5, 0.5]]), 1000, count)
    low = _urn.around(count * 0.037, count * 0.038, count * 0.038 * 0.962, count)[0]
    for k in (0, 15, 16, 40):
        parts = [Fraction(math.comb(count, k) * j**k * (1000 - j) ** (count - k), 1000**count) for j in (37, 38)]
        for place, weights in enumerate([(0.25, 0.75), (0.5, 0.5)]):
            exact = sum(Fraction(w) * part for w, part in zip(weights, parts, strict=True))
            assert abs(Fraction(float(laws[place, k - low])) / exact - 1) < _urn.relative_error(1000)


# ------------------------------------------------------------------------------------------- published and limits


@pytest.mark.parametrize(
    ("n", "flip", "epsilon", "together"),
    [(100, 0.05, 0.907, 2.934), (500, 0.05, 0.592, 2.942), (2000, 0.05, 0.301, 2.944), (2000, 0.02, 0.561, 3.891)],
)
def test_known_epsilons(n, flip, epsilon, together):
    """At delta 1/n**2 epsilon is the one found before by another program, and one peer takes nearly all of it away."""
    made, delta = law(flip), 1 / n**2
    found = made.epsilon(delta, [n])
    assert found == pytest.approx(epsilon, abs=6e-4)
    assert made.delta(found, [n]) <= delta
    assert made.delta(found * (1 - 1e-6), [n]) > delta
    with_one = made.collusion(delta, [n])
    lower = math.log((1 - flip - n * delta) / flip)
    assert lower <= with_one <= min(lower + 1e-6, made.alone)
    assert with_one == pytest.approx(together, abs=6e-4)


def test_a_cluster_of_one_is_flipping_alone():
    """A user alone in its cluster has randomized response: delta in closed form."""
    made = law(0.125)
    for epsilon in (0.0, 0.5, 1.5):
        assert made.delta(epsilon, [1]) == pytest.approx(0.875 - math.exp(epsilon) * 0.125, rel=1e-9)
    assert made.alone == pytest.approx(math.log(7))
    assert made.delta(made.alone, [1, 9]) == 0.0
    assert made.collusion(0.01, [1]) == made.collusion(0.01, [2]) == made.alone


def test_coins_promise_everything():
    """At a flip of one half nothing is said, and epsilon is 0."""
    made = law(0.5)
    assert made.alone == 0.0
    assert made.epsilon(1e-9, [10]) == made.collusion(1e-9, [10]) == made.delta(0.0, [10]) == 0.0


def test_the_smallest_flip_has_a_finite_account():
    """One word of 2**64 that flips is a probability that no float rounds away."""
    made = PeerLaw(1, WORD - 1, False)
    assert 44.3 < made.alone < 44.4
    assert made.delta(1.0, [5]) == pytest.approx(1.0, abs=0.7)
    assert made.epsilon(1e-3, [5]) == pytest.approx(made.alone, abs=3.0)


def test_more_flips_and_fewer_rows_never_cost_more():
    """Delta does not grow with the flip, and does not shrink with the share of released rows."""
    flips = [law(flip).delta(0.3, [60]) for flip in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)]
    assert flips == sorted(flips, reverse=True)
    for fixed in (False, True):
        rows = [law(0.05, share, fixed).delta(0.3, [60]) for share in (0.1, 0.25, 0.5, 0.75, 1.0)]
        assert rows == sorted(rows)


def test_the_largest_over_clusters_counts():
    """Several clusters cost what the worst of them costs, in any order and however often a size occurs."""
    made = law(0.05)
    alone = {n: made.epsilon(1e-6, [n]) for n in (50, 200, 1000)}
    assert made.epsilon(1e-6, [1000, 50, 200, 50]) == pytest.approx(max(alone.values()), rel=1e-8)
    assert made.delta(0.5, [1000, 50, 200]) == max(made.delta(0.5, [n]) for n in alone)
    assert made.keeps(max(alone.values()), 1e-6, alone)
    assert not made.keeps(sorted(alone.values())[1], 1e-6, alone)


@pytest.mark.parametrize("n", [10_000, 100_000])
def test_a_large_cluster_is_accounted(n):
    """In seconds delta of a large cluster is that of SciPy's sums at the counts that are the worst there, 0 to 3."""
    flip, epsilon, width = 0.05, 14.0 / math.sqrt(n), 11 * math.sqrt(n * 0.0475)
    ones = np.arange(max(0, int(n * flip - width)), int(n * flip + width))
    sums = np.arange(max(0, int(n * flip - 1.5 * width)), int(n * flip + 1.5 * width))
    table = binom.pmf(sums, n, ones[:, None] / n)
    urn = [np.convolve(binom.pmf(np.arange(c + 1), c, 1 - flip), binom.pmf(ones, n - c, flip)) for c in range(5)]
    laws = np.array([mass[: ones.size] for mass in urn]) @ table
    divergences = [
        np.maximum(a - math.exp(epsilon) * b, 0).sum() for x, y in itertools.pairwise(laws) for a, b in ((x, y), (y, x))
    ]
    assert law(flip).delta(epsilon, [n]) == pytest.approx(max(divergences), rel=2e-3)


@pytest.mark.parametrize(("flip", "sample"), [(0, WORD), (WORD // 2 + 1, WORD), (-1, WORD), (1, 0), (1, WORD + 1)])
def test_integers_that_are_no_exchange_are_refused(flip, sample):
    """A law that flips nothing, or more than half, or releases nothing, is none."""
    with pytest.raises(ValueError, match="expected integers"):
        PeerLaw(flip, sample, False)
