"""Quantiles: the law that is stated, drawn exactly, and what a replaced label does to it."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from labeldp import Classes, Curator, Interval, NoisyQuantile
from labeldp._random_words import SecureWords, TapeWords, Words
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries import promise_of
from labeldp.mechanisms.queries._noise import PARTS
from labeldp.mechanisms.queries._quantile import Decay, rank_of

WORD = 1 << 64


def missed(codes, rank, size):
    """By how many ranks each point of the grid misses, by counting."""
    codes = np.asarray(codes)
    below, at_most = (
        np.array([np.count_nonzero(where(codes, v)) for v in range(size)]) for where in (np.less, np.less_equal)
    )
    return np.maximum(0, np.maximum(below - (rank - 1), rank - at_most))


def stated(codes, rank, size, rate):
    """The stated law: probabilities of all points, in a thousand bits."""
    weights = [mpmath.exp(-mpmath.mpf(rate) / PARTS * int(m)) for m in missed(codes, rank, size)]
    total = mpmath.fsum(weights)
    return [weight / total for weight in weights]


@pytest.fixture(autouse=True)
def digits():
    """Numbers of a thousand bits."""
    with mpmath.workprec(1000):
        yield


def query_for(size, rank, rows, epsilon, **options):
    """The query that asks for a rank among so many rows."""
    query = NoisyQuantile(Interval(0, size - 1, 1), epsilon, (rank - 0.5) / rows, **options)
    assert rank_of(query.level, rows) == rank
    return query


def cuts(codes, rank, size, rate):
    """Where a uniform number passes from level to level, and the points of each level from low to high."""
    found, law, levels = mpmath.mpf(0), stated(codes, rank, size, rate), missed(codes, rank, size)
    for level in range(levels.max() + 1):
        points = np.flatnonzero(levels == level).tolist()
        found += mpmath.fsum(law[v] for v in points)
        yield found, points


def answered(query, codes, chosen, place):
    """The code that words give for a number in [0, 1) that chooses a level and a word that chooses among its points."""
    digits = int(mpmath.floor(chosen * mpmath.mpf(2) ** 384))
    words = [digits >> 64 * (5 - i) & (WORD - 1) for i in range(6)]
    tape = np.array([*words[:3], place, *words[3:], 0], dtype=np.uint64)
    return int(query.answer(np.array(codes, dtype=np.int32), 1, TapeWords(tape))[0])


@pytest.mark.parametrize(
    ("codes", "rank", "size"),
    [
        ([3, 3, 4, 7, 7, 9], 3, 12),
        ([0, 0, 0], 2, 5),
        ([4, 4], 2, 5),
        ([1], 1, 2),
        ([1, 5, 8, 8], 4, 11),
        ([0, 9], 1, 10),
    ],
)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_a_number_gives_the_point_where_the_stated_law_has_it(codes, rank, size, epsilon):
    """At random, and so close to where the law passes on to the next level that more than three words must decide."""
    query = query_for(size, rank, len(codes), epsilon)
    law = list(cuts(codes, rank, size, query.rate(1)))
    rng = np.random.default_rng(0)
    tried = [mpmath.mpf(float(u)) for u in rng.random(20)]
    near = mpmath.mpf(2) ** -370
    tried += [cut + sign * near for cut, _ in law[:-1] for sign in (-1, 1)]
    for chosen in tried:
        points = next(points for cut, points in law if chosen < cut)
        place = int(rng.integers(0, WORD, dtype=np.uint64))
        assert answered(query, codes, chosen, place) == points[place * len(points) >> 64]


@pytest.mark.parametrize("unit", [1, 2])
def test_replaced_labels_change_no_probability_by_more_than_epsilon(unit):
    """Over all labels and all replacements of one unit's: the largest log-ratio of the law at the rate of the query."""
    size, rows = 4, 3
    for rank in (1, 2, 3):
        query = query_for(size, rank, rows, 1.0)
        laws = {
            codes: [float(p) for p in stated(codes, rank, size, query.rate(unit))]
            for codes in itertools.product(range(size), repeat=rows)
        }
        for codes, law in laws.items():
            for labels in itertools.product(range(size), repeat=unit):
                other = laws[(*labels, *codes[unit:])]
                assert max(abs(math.log(p / q)) for p, q in zip(law, other, strict=True)) <= 1.0


def test_a_replaced_label_costs_all_but_epsilon_where_most_points_are_beyond():
    """The factor of two in the sensitivity is needed: half of it would cost nearly twice what is promised."""
    query = query_for(3000, 1, 2, 1.0)
    one, other = (stated(codes, 1, 3000, query.rate(1)) for codes in ([0, 1], [2999, 1]))
    assert 0.98 < max(abs(float(mpmath.log(p / q))) for p, q in zip(one, other, strict=True)) <= 1.0


@pytest.mark.parametrize("rate", [1, PARTS // 3, PARTS, 7 * PARTS, 700 * PARTS])
@pytest.mark.parametrize("bits", [192, 384])
def test_powers_are_below_and_close(rate, bits):
    """They never exceed the power that they stand for, lack at most three steps a factor, and are zero at last."""
    found = Decay(rate).below(bits, 60)
    assert found[0] == 1 << bits
    for m in range(60):
        lacks = mpmath.exp(-mpmath.mpf(rate) / PARTS * m) * mpmath.mpf(2) ** bits - (found[m] if m < len(found) else 0)
        assert 0 <= lacks <= 3 * m


class CountedWords(Words):
    """Secure words that remember which were asked for."""

    private = True

    def __init__(self):
        self.asked, self._words = [], SecureWords()

    def block(self, start, count):
        """The words, noted."""
        self.asked.append((start, count))
        return self._words.block(start, count)


def test_the_words_do_not_depend_on_labels():
    """All labels on one point, far apart, or at the ends: the same words are asked for."""
    cells, asked = np.repeat([0, 1, 3], [50, 7, 1]), []
    rng = np.random.default_rng(1)
    for codes in (np.full(58, 500), rng.integers(0, 1001, 58), rng.choice([0, 1000], 58)):
        words = CountedWords()
        query_for(1001, 25, 50, 0.5, cells=cells).answer(codes.astype(np.int32), 1, words)
        asked.append(words.asked)
    assert asked == [[(0, 16)]] * 3


def test_ranks_are_those_of_the_printed_level():
    """The 0.7 quantile of ten labels is the seventh, though seven tenths of ten floats round up to eight."""
    assert [rank_of(level, 10) for level in (0.0, 0.05, 0.1, 0.7, 0.71, 1.0)] == [1, 1, 1, 7, 8, 10]
    assert rank_of(0.999, 1000) == 999


def test_quantiles_of_cells_come_close_and_empty_cells_have_none():
    """With many labels they are those of the labels, cell by cell; a cell without rows has none, and says so."""
    rng = np.random.default_rng(2)
    space, cells = Interval(0, 2000, 1), np.repeat([0, 2], 20_000)
    labels = np.where(cells == 0, 1.0, 3.0) * rng.gamma(4.0, 60.0, 40_000)
    found = Curator(labels, space).answer(NoisyQuantile(space, 1.0, 0.9, cells)).value
    assert math.isnan(found[1])
    expected = [np.quantile(labels[cells == cell], 0.9) for cell in (0, 2)]
    np.testing.assert_allclose(found[[0, 2]], expected, rtol=0.02)


@pytest.mark.parametrize("around", [0, 2, 5, 9])
def test_a_quantile_of_distances_is_that_of_labels_moved_there(around):
    """With the same words it is the quantile of the distances, on a grid that reaches as far as the farther end."""
    codes = np.array([0, 1, 1, 4, 6, 9, 9], dtype=np.int32)
    space, tape = Interval(-3, 6, 1), np.random.default_rng(4).integers(0, WORD, 64, dtype=np.uint64)
    query = NoisyQuantile(space, 0.7, 0.6, np.zeros(7, dtype=int), around=around - 3)
    plain = NoisyQuantile(Interval(0, max(around, 9 - around), 1), 0.7, 0.6, np.zeros(7, dtype=int))
    found, expected = query.answer(codes, 1, TapeWords(tape)), plain.answer(abs(codes - around), 1, TapeWords(tape))
    assert found.tolist() == expected.tolist()
    assert query.law(1) == plain.law(1) | {"around": str(around)}
    assert promise_of(query.law(1), space) == promise_of(plain.law(1), space)
    with pytest.raises(ValueError, match="from a point of the grid"):
        promise_of(query.law(1) | {"around": "10"}, space)


BAD = {
    "a point off the grid": (
        lambda: NoisyQuantile(Interval(0, 1, 1), 1.0, 0.5, around=0.5),
        "around= to be a point of the grid from 0 to 1",
    ),
    "classes": (lambda: NoisyQuantile(Classes(["a", "b"]), 1.0, 0.5), "on an Interval for a quantile", LabelError),
    "a level beyond": (lambda: NoisyQuantile(Interval(0, 1, 1), 1.0, 1.5), "level between 0 and 1"),
    "a level of NaN": (lambda: NoisyQuantile(Interval(0, 1, 1), 1.0, math.nan), "level to be a number", EpsilonError),
    "no epsilon": (lambda: NoisyQuantile(Interval(0, 1, 1), 0.0, 0.5), "epsilon", EpsilonError),
    "other rows": (
        lambda: NoisyQuantile(Interval(0, 1, 1), 1.0, 0.5, np.array([0])).answer(np.array([0, 1]), 1, SecureWords()),
        "each of the 2 rows, found 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_bad_quantiles_are_refused(case):
    """By what was expected and found."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()
