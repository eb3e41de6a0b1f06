"""The exchange between peers: its draw by counting and by samples, its guarantee, and what it refuses.

Statistical tests compare exact binomial tails with ``ALARM`` divided by the number of comparisons, so each raises a
false alarm with a probability of at most 1e-9, and all fail on both sides.
"""

import itertools
import math
import time
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import CellShuffle, Classes, Guarantee, PeerExchange
from labeldp._random_words import SecureWords, TapeWords
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries import DeltaWarning, exchange

ALARM = 1e-9
WORD = 1 << 64
STEP = WORD >> 2


def tape(words):
    """Words that were written down."""
    return TapeWords(np.array(words, dtype=np.uint64))


# ------------------------------------------------------------------------------------------------- the draw, counted


def law_of_two(labels, flip, sample):
    """The probability of all that a cluster of two releases: by every flip, choice of peers and sample."""
    found = Counter()
    for flips, peers, mask in itertools.product(itertools.product((0, 1), repeat=2), repeat=3):
        noisy = [label ^ bit for label, bit in zip(labels, flips, strict=True)]
        seen = tuple(noisy[peer] if bit else -1 for peer, bit in zip(peers, mask, strict=True))
        chance = math.prod(flip if bit else 1 - flip for bit in flips)
        found[seen] += chance * math.prod(sample if bit else 1 - sample for bit in mask) / 4
    return {seen: chance for seen, chance in found.items() if chance}


@pytest.mark.parametrize("labels", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("subsample", [0.25, 0.75, 1.0])
def test_the_counted_law_of_a_cluster_of_two(labels, subsample):
    """With each word one of four equally far apart, counting all 4**6 cases gives the law exactly.

    Remainders by two are told apart by the lowest bit, which is written into the words of peers.
    """
    grid, peers = [k * STEP for k in range(4)], [k * STEP + (k & 1) for k in range(4)]
    cases = list(itertools.product(grid, peers, grid, grid, peers, grid))
    clusters = np.repeat(np.arange(len(cases)), 2)
    codes = np.tile(labels, len(cases))
    words = tape(np.array(cases, dtype=np.uint64).ravel())
    released, sampled = exchange(codes, clusters, PeerExchange(0.25, subsample), words)
    assert (sampled == (released >= 0)).all()
    counted = Counter(map(tuple, released.reshape(-1, 2).tolist()))
    law = {seen: Fraction(count, len(cases)) for seen, count in counted.items()}
    assert law == law_of_two(labels, Fraction(1, 4), Fraction(subsample))


def test_the_edges_of_words():
    """A label is flipped, and a row released, by words strictly below the integers of the account."""
    peers = PeerExchange(flip=0.3, subsample=0.7)
    flip, sample = peers.law.flip, peers.law.sample
    assert (Fraction(flip, WORD), Fraction(sample, WORD)) == (Fraction(0.3), Fraction(0.7))
    words = tape([flip - 1, 0, sample - 1, flip, 0, sample - 1, flip - 1, 0, sample, 0, 0, 0, WORD - 1, 0, 0])
    released, sampled = exchange(np.zeros(5, dtype=np.int64), np.arange(5), peers, words)
    assert released.tolist() == [1, 0, -1, 1, 0]
    assert sampled.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize("size", [3, 5, 6, 7, 1000])
def test_peers_are_exactly_uniform(size):
    """Words of the last, incomplete, round are replaced by spare words; all others are taken by their remainder."""
    whole = WORD // size * size
    first = [0, 1, size - 1, size, whole - 1, whole, WORD - 1, 2**63]
    rows = len(first)
    words = [[WORD - 1, word, 0] for word in first]  # no label is flipped
    spares = [7 + row for row in range(rows)]
    padding = size - rows % size
    filler = [[WORD - 1, 0, 0]] * padding
    codes = np.zeros(rows + padding, dtype=np.int64)
    clusters = np.arange(rows + padding) // size
    for marked in range(size):  # which member of each cluster holds a one
        codes[:] = np.arange(codes.size) % size == marked
        stream = tape(np.array(words + filler, dtype=np.uint64).ravel().tolist() + spares + [0] * padding)
        released, _ = exchange(codes, clusters, PeerExchange(0.25), stream)
        expected = [(word if word < whole else spare) % size for word, spare in zip(first, spares, strict=True)]
        assert released[:rows].tolist() == [int(peer == marked) for peer in expected]
        if size == 1000 and marked > 20:
            break


def test_a_spare_word_may_be_refused_too():
    """Spare words follow until one is taken, and each belongs to its row."""
    words = tape([WORD - 1, WORD - 1, 0] * 3 + [WORD - 1, WORD - 1, 2] + [1, WORD - 1, 5] + [9, 2, 9])
    released, _ = exchange(np.array([0, 1, 0]), np.zeros(3, dtype=np.int64), PeerExchange(0.25), words)
    assert released.tolist() == [1, 0, 0]  # peers 1, 2 and 2


def test_a_fixed_sample_has_its_size_in_every_cluster():
    """Each cluster releases its share of rows, rounded, at least one; which rows follows from words alone."""
    sizes = [1, 2, 3, 10, 101]
    clusters = np.random.default_rng(0).permutation(np.repeat(np.array([5, -3, 8, 0, 2]), sizes))
    for share, expected in [(0.25, [1, 1, 1, 3, 25]), (0.5, [1, 1, 2, 5, 51]), (1.0, sizes), (1e-9, [1] * 5)]:
        peers = PeerExchange(0.1, share, sampling="fixed")
        _, sampled = exchange(np.zeros(clusters.size, dtype=np.int64), clusters, peers, SecureWords())
        assert [sampled[clusters == name].sum() for name in (5, -3, 8, 0, 2)] == expected
        assert [peers.law.released(size) for size in sizes] == expected


# ------------------------------------------------------------------------------------------------ the draw, sampled


@pytest.mark.parametrize("sampling", ["random", "fixed"])
def test_every_row_is_randomized(sampling):
    """At every position the released label is a one at the rate of its cluster, and the row is released at its rate.

    Clusters hold no ones, a third of ones, or ones only; 300 draws, exact two-sided tails at each of 303 rows.
    """
    clusters = np.random.default_rng(3).permutation(np.repeat([10, 20, 30], 101))
    codes = np.zeros(303, dtype=np.int8)
    codes[clusters == 30] = 1
    codes[np.flatnonzero(clusters == 20)[:34]] = 1
    peers, repeats = PeerExchange(0.125, 0.5, sampling), 300
    ones, rows = np.zeros(303, dtype=np.int64), np.zeros(303, dtype=np.int64)
    for _ in range(repeats):
        released, sampled = exchange(codes, clusters, peers, SecureWords())
        assert released.dtype == np.int8
        assert (released[~sampled] == -1).all()
        ones += released == 1
        rows += sampled
    share = np.array([codes[clusters == name].mean() for name in clusters])
    truth = 0.125 + 0.75 * share
    odds = np.minimum(binom.cdf(ones, rows, truth), binom.sf(ones - 1, rows, truth))
    part = 51 / 101 if sampling == "fixed" else 0.5
    chosen = np.minimum(binom.cdf(rows, repeats, part), binom.sf(rows - 1, repeats, part))
    assert min(odds.min(), chosen.min()) > ALARM / (4 * 303)
    assert rows.min() > 0


def test_labels_cross_no_cluster_and_change_no_sample():
    """With the same words a changed label changes only rows of its cluster that asked it, and never the mask."""
    rng = np.random.default_rng(5)
    clusters, codes = rng.integers(0, 20, 2000), rng.integers(0, 2, 2000)
    words = tape(rng.integers(0, 2**64, 6000, dtype=np.uint64))
    peers = PeerExchange(0.2, 0.5)
    released, sampled = exchange(codes, clusters, peers, words)
    for row in (0, 999, 1999):
        other = codes.copy()
        other[row] ^= 1
        found, mask = exchange(other, clusters, peers, words)
        assert (mask == sampled).all()
        assert (clusters[np.flatnonzero(found != released)] == clusters[row]).all()


def test_names_and_types_of_clusters_do_not_matter():
    """Clusters are told apart only; codes and clusters may be of any whole type."""
    words = tape(np.random.default_rng(6).integers(0, 2**64, 301, dtype=np.uint64))
    codes, clusters = np.arange(90) % 2, np.arange(90) // 30
    first = exchange(codes, clusters, PeerExchange(0.2, 0.5), words)
    for kind in (np.int8, np.uint64, np.int64):
        found = exchange(codes.astype(kind), (clusters * 7 + 1).astype(kind), PeerExchange(0.2, 0.5), words)
        assert all((a == b).all() for a, b in zip(first, found, strict=True))


# ------------------------------------------------------------------------------------------------------- guarantees


def test_the_guarantee_says_what_is_assumed():
    """Its trust is in peers, and it prints the epsilon with a colluding peer, and that of one peer, beside its own."""
    peers = PeerExchange(flip=0.05)
    found = peers.guarantee([2000], delta=1 / 2000**2)
    assert isinstance(found, Guarantee)
    assert (found.trust, found.unit, found.delta) == ("peer", "row", 1 / 2000**2)
    assert found.epsilon == pytest.approx(0.301, abs=6e-4)
    assert peers.delta_at(found.epsilon, [2000]) <= found.delta
    collusion, routing, clusters = found.assumptions
    assert "no peer colludes" in collusion
    assert float(collusion.split()[-1]) >= peers.collusion([2000], found.delta) > 2.943
    assert "who asked whom" in routing
    assert f"{peers.view_of_one_peer:.5f}"[:-1] in routing
    assert peers.view_of_one_peer == pytest.approx(math.log(19), rel=1e-12)
    assert "public" in clusters
    assert "Peers exchanged" in str(found)


def test_each_size_is_computed_once():
    """Ten thousand clusters of three sizes cost as much as three clusters."""
    sizes = [300, 400, 500] * 3334
    start = time.perf_counter()
    found = PeerExchange(0.05).guarantee(np.array(sizes), delta=1e-6)
    assert time.perf_counter() - start < 10
    assert found.epsilon == PeerExchange(0.05).guarantee((300, 400, 500), delta=1e-6).epsilon


@pytest.mark.parametrize("subsample", [1.0, 0.5])
@pytest.mark.parametrize("sampling", ["random", "fixed"])
@pytest.mark.parametrize("epsilon", [0.2, 0.8, 3.0])
def test_calibration_keeps_its_target_and_is_tight(epsilon, sampling, subsample):
    """The guarantee is at most the target, and two parts in ten thousand less flip would break it."""
    sizes, delta = [20, 35], 1e-4
    peers = PeerExchange.calibrate(epsilon, delta, sizes, subsample=subsample, sampling=sampling)
    assert (peers.subsample, peers.sampling) == (subsample, sampling)
    assert peers.guarantee(sizes, delta).epsilon <= epsilon
    assert peers.delta_at(epsilon, sizes) <= delta
    less = PeerExchange(peers.flip * (1 - 2e-4), subsample, sampling)
    assert less.guarantee(sizes, delta).epsilon > epsilon


def test_calibration_of_a_user_alone_is_randomized_response():
    """A cluster of one has flipping alone, so the least flip is that of randomized response, less what delta allows."""
    peers = PeerExchange.calibrate(1.0, 1e-9, [1])
    assert peers.flip == pytest.approx(1 / (1 + math.e), rel=2e-4)
    assert peers.guarantee([1], 1e-9).epsilon <= 1.0


# --------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("bad", [0.0, -0.1, 0.500001, 1.0, math.nan, math.inf, "0.1", None, True])
def test_a_flip_out_of_range_is_refused(bad):
    """A flip is above 0 and at most one half."""
    with pytest.raises(EpsilonError, match="expected flip"):
        PeerExchange(flip=bad)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.0000001, 1e-300, math.nan, "1", None, True])
def test_a_subsample_out_of_range_is_refused(bad):
    """A share of rows is above 0, within what words express, and at most 1."""
    with pytest.raises(EpsilonError, match="expected subsample"):
        PeerExchange(0.1, bad)


def test_an_unknown_sampling_is_refused():
    """Rows are sampled at random, or in a fixed number."""
    with pytest.raises(InputError, match="expected sampling to be 'random' or 'fixed'"):
        PeerExchange(0.1, 0.5, "poisson")


def test_more_than_two_classes_are_refused_with_the_reason():
    """The paper and the proof are binary, so a third class is refused, in a space and in codes, without showing it."""
    PeerExchange.check(Classes(["no", "yes"]))
    with pytest.raises(LabelError, match="its proof are for two classes"):
        PeerExchange.check(Classes(["a", "b", "c"]))
    for codes in ([0, 1, 2], [0, -1, 1]):
        with pytest.raises(InputError, match=r"^expected codes 0 and 1, found another: .* two classes; use"):
            exchange(np.array(codes), np.zeros(3, dtype=np.int64), PeerExchange(0.1), SecureWords())


def test_arrays_that_do_not_belong_together_are_refused():
    """There is one code and one cluster for each row, and both are whole numbers."""
    rows = np.zeros(3, dtype=np.int64)
    for codes, clusters in [(rows, rows[:2]), (rows[:0], rows)]:
        with pytest.raises(InputError, match="expected a cluster for each"):
            exchange(codes, clusters, PeerExchange(0.1), SecureWords())


# What holds of all that mixes labels in public clusters: the exchange between peers, and shuffled cells.


PEERS, SHUFFLE = PeerExchange(0.05), CellShuffle(1.0)
#: Each mechanism, and its account against the receiver who knows what one row sent.
MIXINGS = [pytest.param(PEERS, PEERS.collusion, id="peers"), pytest.param(SHUFFLE, SHUFFLE.with_one_row, id="shuffle")]
every_mixing = pytest.mark.parametrize(("mixing", "together"), MIXINGS)


@every_mixing
def test_a_delta_above_one_over_n_is_warned_of(mixing, together):
    """From one over the smallest cluster's size on, delta allows a label to be published, and a warning says so."""
    with pytest.warns(DeltaWarning, match="expected delta below 1/100"):
        mixing.guarantee([5000, 100], delta=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mixing.guarantee([5000, 100], delta=0.0099).epsilon < together([100], 0.0099)


@every_mixing
@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-9, 2.0, math.nan])
def test_a_delta_that_says_nothing_is_refused(mixing, together, bad):
    """A delta is above 0 and below 1, wherever one is asked for."""
    for call in (mixing.guarantee, together):
        with pytest.raises(EpsilonError, match="expected delta"):
            call([10], delta=bad)
    with pytest.raises(EpsilonError, match="expected delta"):
        mixing.calibrate(1.0, bad, [10])


@every_mixing
@pytest.mark.parametrize("bad", [[], [0], [-1], [2.0], ["3"], [True], [3, None], [2**24 + 1]])
def test_bad_cluster_sizes_are_refused(mixing, together, bad):
    """Sizes are whole numbers of at least one row, and there is at least one."""
    for call in (
        lambda: mixing.guarantee(bad, 1e-3),
        lambda: mixing.delta_at(1.0, bad),
        lambda: together(bad, 1e-3),
        lambda: mixing.calibrate(1.0, 1e-3, bad),
    ):
        with pytest.raises(InputError, match="expected"):
            call()


@every_mixing
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_bad_epsilon_is_refused(mixing, together, bad):
    """Delta is given at finite epsilons of at least 0, and nothing is calibrated to less than something."""
    del together
    with pytest.raises(EpsilonError, match="expected epsilon"):
        mixing.delta_at(bad, [10])
    with pytest.raises(EpsilonError, match="expected epsilon"):
        mixing.calibrate(bad, 1e-3, [10])
