"""Shuffled cells: their draw by words and by samples, their guarantee, and what they refuse.

The statistical test compares exact binomial tails with 1e-9 divided by the number of comparisons, on both sides.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import CellShuffle, Classes, Guarantee, PeerExchange, ShuffledLabels
from labeldp._random_words import SecureWords, TapeWords
from labeldp.errors import EpsilonError, InputError, LabelError

WORD = 1 << 64
TWO, THREE = Classes(["no", "yes"]), Classes(["a", "b", "c"])


def tape(words):
    """Words that were written down."""
    return TapeWords(np.array(words, dtype=np.uint64))


def shuffled(codes, clusters, words, space=TWO, epsilon=1.0):
    """The released labels."""
    query = ShuffledLabels(space, CellShuffle(epsilon, space.size), np.asarray(clusters), 1e-6)
    return query.answer(np.asarray(codes), 1, words)


# ------------------------------------------------------------------------------------------------------------ the draw


def test_the_edge_of_words():
    """A label is kept by words strictly below the integer of the account, and by no other."""
    keep = CellShuffle(1.0).law.keep
    words = [keep - 1, keep, 0, WORD - 1, 0, 0, 0, 0]
    assert shuffled([0, 0, 1, 1], [5, 6, 7, 8], tape(words)).tolist() == [0, 1, 1, 0]


def test_each_row_of_a_cell_has_one_label_of_the_cell():
    """Released labels are the randomized ones of the same cell, each once, in the order of words."""
    rng = np.random.default_rng(1)
    clusters, codes = rng.integers(-3, 9, 500), rng.integers(0, 3, 500)
    words = rng.integers(0, 2**64, 1000, dtype=np.uint64)
    released = shuffled(codes, clusters, tape(words), THREE)
    randomized = CellShuffle(1.0, 3).channel.empty(500)
    CellShuffle(1.0, 3).channel.draw_into(randomized, codes, words[:500, None])
    for cell in np.unique(clusters):
        rows = np.flatnonzero(clusters == cell)
        in_order = released[rows[np.argsort(words[500 + rows])]]
        assert in_order.tolist() == sorted(randomized[rows].tolist())


def test_only_counts_of_a_cell_are_used():
    """With the same words, two labels of one cell that change places change nothing, if their words are alike."""
    words = [7] * 6 + [3, 1, 2, 5, 4, 6]
    one = shuffled([0, 1, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1], tape(words))
    other = shuffled([1, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1], tape(words))
    assert one.tolist() == other.tolist() == [1, 0, 1, 0, 0, 1]


def test_the_law_of_counts_is_that_of_the_account():
    """With each word one of eight equally far apart, counting all cases of a cell of three gives the law exactly."""
    shuffle = CellShuffle(math.log(3.0))
    grid = [(2 * k + 1) * (WORD >> 4) for k in range(8)]
    cases = list(itertools.product(grid, repeat=3))
    clusters, codes = np.repeat(np.arange(len(cases)), 3), np.tile([1, 0, 1], len(cases))
    words = np.concatenate([np.array(cases, dtype=np.uint64).ravel(), np.zeros(codes.size, dtype=np.uint64)])
    released = ShuffledLabels(TWO, shuffle, clusters, 1e-6).answer(codes, 1, tape(words))
    counted = Counter(released.reshape(-1, 3).sum(axis=1).tolist())
    kept, expected = Fraction(3, 4), Counter()
    for bits in itertools.product((0, 1), repeat=3):
        ones = sum(code if bit else 1 - code for bit, code in zip(bits, (1, 0, 1), strict=True))
        expected[ones] += math.prod(kept if bit else 1 - kept for bit in bits)
    assert {ones: Fraction(count, len(cases)) for ones, count in counted.items()} == expected


def test_every_row_gets_every_label():
    """At every row the released label is a one at the rate of its cell's randomized labels, over 400 draws."""
    codes, clusters = np.tile([0, 0, 1, 0, 1], 20), np.repeat(np.arange(20), 5)
    ones = sum(shuffled(codes, clusters, SecureWords()) for _ in range(400))
    flip = CellShuffle(1.0).law.other / WORD
    rate = flip + (1 - 2 * flip) * 0.4
    odds = np.minimum(binom.cdf(ones, 400, rate), binom.sf(ones - 1, 400, rate))
    assert odds.min() > 1e-9 / 200


def test_names_and_types_of_cells_do_not_matter():
    """Cells are told apart only; they may be of any whole type, and no rows at all are nothing."""
    words = np.random.default_rng(6).integers(0, 2**64, 180, dtype=np.uint64)
    codes, clusters = np.arange(90) % 2, np.arange(90) // 30
    first = shuffled(codes, clusters, tape(words))
    for kind in (np.int8, np.uint64, np.int64):
        assert (shuffled(codes, (clusters * 7 + 1).astype(kind), tape(words)) == first).all()


# ---------------------------------------------------------------------------------------------------- the guarantee


def test_the_guarantee_says_what_is_assumed():
    """Its trust is in shuffling, and it prints the epsilon with a row that tells, and of each label, beside its own."""
    shuffle = CellShuffle(1.0)
    found = shuffle.guarantee([2_000, 900], delta=1e-6)
    assert isinstance(found, Guarantee)
    assert (found.trust, found.unit, found.delta) == ("shuffle", "row", 1e-6)
    assert shuffle.delta_at(found.epsilon, [900, 2_000]) <= 1e-6
    assert found.epsilon == shuffle.guarantee([900], 1e-6).epsilon
    shuffler, row, cells = found.assumptions
    assert "against whoever shuffles, epsilon is 1 and delta 0" in shuffler
    assert float(row.split()[-1]) >= shuffle.with_one_row([900], 1e-6) > found.epsilon
    assert "public" in cells
    assert "were shuffled: whatever else someone knows, but for which row sent which label" in str(found)
    assert "not which row sent which label" in found.posterior_sentence()


def test_several_trust_models_leave_all_of_their_unknowns_out():
    """A sentence about releases of several trust models names what none of them lets someone know."""
    told = Guarantee(1.0, 1e-6, "central").posterior_sentence(others=["shuffle", "peer"])
    assert "not who asked whom and what peers tell; not which row sent which label" in told


@pytest.mark.parametrize("classes", [2, 3, 12])
@pytest.mark.parametrize("epsilon", [0.1, 0.8, 3.0])
def test_calibration_keeps_its_target_and_is_tight(epsilon, classes):
    """The guarantee is at most the target, and three parts in ten thousand more of each label would break it."""
    sizes, delta = [200, 350], 1e-5
    shuffle = CellShuffle.calibrate(epsilon, delta, sizes, classes)
    assert shuffle.classes == classes
    assert shuffle.guarantee(sizes, delta).epsilon <= epsilon < shuffle.epsilon
    assert CellShuffle(shuffle.epsilon * (1 + 3e-4), classes).guarantee(sizes, delta).epsilon > epsilon


def test_calibration_of_a_label_alone_is_randomized_response():
    """A cell of one row has the randomization alone."""
    shuffle = CellShuffle.calibrate(1.0, 1e-9, [1])
    assert shuffle.epsilon == pytest.approx(1.0, rel=2e-4)
    assert shuffle.guarantee([1], 1e-9).epsilon <= 1.0


def test_one_peer_hears_one_label_of_its_cluster():
    """What one peer hears is (0, (1 - 2 flip)/n)-DP: the total variation of one flipped label in n, rounded up."""
    peers = PeerExchange(0.1)
    exact = Fraction(WORD - 2 * peers.law.flip, WORD) / 300
    assert exact <= Fraction(peers.delta_of_one_peer([300, 900])) <= exact * (1 + Fraction(1, 2**50))
    assert PeerExchange(0.5).delta_of_one_peer([7]) == 0.0
    with pytest.raises(InputError, match="at least one cluster"):
        peers.delta_of_one_peer([])


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize("bad", [0.0, -0.1, 60.0, math.nan, math.inf, "1", None, True])
def test_an_epsilon_out_of_range_is_refused(bad):
    """The epsilon of each label is above 0, and one that integers express."""
    with pytest.raises(EpsilonError, match="expected"):
        CellShuffle(bad)


def test_other_classes_rows_and_units_are_refused():
    """A shuffle is for the classes of its labels and a cell for each row, and no unit has several labels."""
    with pytest.raises(LabelError, match="a shuffle for 3 classes, found one for 2"):
        ShuffledLabels(THREE, CellShuffle(1.0), np.zeros(3, dtype=int), 1e-6)
    query = ShuffledLabels(TWO, CellShuffle(1.0), np.zeros(3, dtype=int), 1e-3)
    with pytest.raises(InputError, match="a cluster for each of the 4 rows, found 3"):
        query.check_rows(4)
    with pytest.raises(InputError, match="units of one row for shuffled cells, found one of 2 rows"):
        query.promise(2)
