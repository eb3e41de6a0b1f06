"""Queries: noise that follows its law exactly, and is as large as what one unit's labels can move.

The statistical tests draw with secure words and compare exact binomial tails with a chance of a false alarm of at
most 1e-9 each.
"""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, Interval, NoisyArgmax, NoisyHistogram, NoisyMean
from labeldp._random_words import SecureWords, TapeWords
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries import _argmax, _histogram, _mean, _noise, _query, promise_of
from labeldp.mechanisms.queries._noise import PARTS, discrete_laplace, epsilon_of, noisy_best, rate_below

ALARM = 1e-9
SPACE = Classes(["a", "b", "c"])
GRID = Interval(0.0, 2.0, 0.5)
QUERIES = {
    "histogram": lambda epsilon, cells: NoisyHistogram(SPACE, epsilon, cells),
    "argmax": lambda epsilon, cells: NoisyArgmax(SPACE, epsilon, cells),
    "exponential": lambda epsilon, cells: NoisyArgmax(SPACE, epsilon, cells, method="exponential"),
    "mean": lambda epsilon, cells: NoisyMean(GRID, epsilon, cells),
    "clipped mean": lambda epsilon, cells: NoisyMean(GRID, epsilon, cells, clip=(0.5, 1.5)),
}
every_query = pytest.mark.parametrize("name", QUERIES)


def tape(seed, count=1 << 16):
    """Words of a seed."""
    return TapeWords(np.random.default_rng(seed).integers(0, 2**64, count, dtype=np.uint64))


def check_counts(counts, chances):
    """Counts of outcomes are those of chances, by exact tails."""
    total = sum(counts)
    for count, chance in zip(counts, chances, strict=True):
        tail = min(binom.cdf(count, total, chance), binom.sf(count - 1, total, chance))
        assert tail > ALARM / len(counts), (count / total, chance)


@pytest.mark.parametrize("rate", [PARTS // 200, PARTS // 2, PARTS, 3 * PARTS, 2 * PARTS // 3])
def test_noise_follows_the_discrete_laplace_law(rate):
    """Each integer near zero, and both tails."""
    found = discrete_laplace(200_000, rate, SecureWords())
    q = math.exp(-rate / PARTS)
    inside = [(1 - q) / (1 + q) * q ** abs(z) for z in range(-3, 4)]
    tail = q**4 / (1 + q)
    counts = [np.count_nonzero(found == z) for z in range(-3, 4)]
    check_counts([np.count_nonzero(found < -3), *counts, np.count_nonzero(found > 3)], [tail, *inside, tail])


def permute_and_flip(scores, rate):
    """The law of permute-and-flip, over all orders in which entries can be visited."""
    chance = [math.exp(-(max(scores) - score) * rate / PARTS) for score in scores]
    law = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        left = 1 / math.factorial(len(scores))
        for entry in order:
            law[entry] += left * chance[entry]
            left *= 1 - chance[entry]
    return law


def exponential(scores, rate):
    """The law of the exponential mechanism."""
    weights = [math.exp((score - max(scores)) * rate / PARTS) for score in scores]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.parametrize("scores", [[5, 3, 4], [0, 0, 0, 0], [10, 10, 1], [-2, 7], [1]])
@pytest.mark.parametrize("law", [permute_and_flip, exponential])
def test_choices_follow_their_law(scores, law):
    """Both ways of choosing, also among equal and single entries, and at a rate above one."""
    for rate in (PARTS // 2, 5 * PARTS // 4):
        found = noisy_best(np.tile(scores, (100_000, 1)), rate, SecureWords(), again=law is exponential)
        check_counts(np.bincount(found, minlength=len(scores)).tolist(), law(scores, rate))


def test_a_score_far_below_is_refused_at_once():
    """The work does not grow with the distance."""
    found = noisy_best(np.array([[0, 10**12, 10**12 - 1]] * 1000), PARTS, SecureWords(), again=True)
    assert set(found) <= {1, 2}


@pytest.mark.parametrize("again", [True, False])
def test_running_out_of_words_changes_nothing(again, monkeypatch):
    """A draw that is begun anew with more words reads the same words again."""
    scores = np.random.default_rng(0).integers(0, 9, (50, 4))
    whole = noisy_best(scores, PARTS // 3, tape(1), again=again), discrete_laplace(50, PARTS // 3, tape(2))
    monkeypatch.setattr(_noise, "_WORDS_FOR_ONE", 1)
    parts = noisy_best(scores, PARTS // 3, tape(1), again=again), discrete_laplace(50, PARTS // 3, tape(2))
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


def neighbours(codes, classes, unit):
    """All ways to replace the labels of one unit, here rows that follow one another."""
    for first in range(0, len(codes), unit):
        for labels in itertools.product(range(classes), repeat=unit):
            other = codes.copy()
            other[first : first + unit] = labels
            yield other


@every_query
@pytest.mark.parametrize("unit", [1, 2])
def test_the_sensitivity_is_what_neighbours_show(name, unit, monkeypatch):
    """Over all replacements of one unit's labels in two cells: what noise is added to moves by so much, and no more."""
    cells = np.array([0, 1, 1, 1, 0, 0])
    query = QUERIES[name](1.0, cells)
    k = query.space.size
    codes = np.full(6, k - 1) if "mean" in name else np.array([0, 0, 2, 0, 1, 1])  # sums far from where means are cut
    seen = []
    for file in (_histogram, _mean):
        monkeypatch.setattr(file, "discrete_laplace", lambda count, *_: np.zeros(count, dtype=np.int64))
    monkeypatch.setattr(_argmax, "noisy_best", lambda counts, *_, again: seen.append((counts, again)) or counts[:, 0])

    def moved_by(other):
        """The largest log-ratio over outcomes, in rates: by the laws of the noise that was asked for."""
        one, two = (query.answer(each, unit, tape(0)) for each in (codes, other))
        if name == "histogram":
            return np.abs(one - two).sum()
        if "mean" in name:  # in steps of the grid
            rows = np.bincount(cells)
            return np.abs((one - two) * rows / GRID.step).sum()
        laws = [[(exponential if again else permute_and_flip)(c, PARTS) for c in counts] for counts, again in seen[-2:]]
        return sum(max(abs(math.log(p / q)) for p, q in zip(a, b, strict=True)) for a, b in zip(*laws, strict=True))

    moves = [moved_by(other) for other in neighbours(codes, k, unit)]
    allowed = query.sensitivity * unit
    assert max(moves) <= allowed * (1 + 1e-9)
    if name in ("histogram", "mean", "clipped mean"):
        assert max(moves) == pytest.approx(allowed)
    else:
        assert max(moves) > 0.5 * allowed


@every_query
def test_the_certified_epsilon_is_that_of_the_noise(name):
    """Never more than was asked for, within one part of a rate, and as the law states it."""
    for unit in (1, 3):
        for epsilon in (0.1, 1.0, 3.7, 12.0):
            query = QUERIES[name](epsilon, None)
            law = query.law(unit)
            exact = Fraction(law["rate"]) * Fraction(law["sensitivity"]) * unit / PARTS
            assert exact <= Fraction(query.certified(unit)) * (1 + Fraction(1, 10**15))
            assert query.certified(unit) <= epsilon
            assert query.certified(unit) >= epsilon - query.sensitivity * unit / PARTS - 1e-12
            assert law["kind"] == query.name


def test_means_are_not_cut_and_empty_cells_have_none():
    """Noise goes beyond the ends on both sides, and by halves; a cell without rows has no mean, and says so."""
    found = [NoisyMean(GRID, 0.1, np.array([0, 2])).answer(np.array([4, 0]), 1, SecureWords()) for _ in range(200)]
    assert np.isnan([means[1] for means in found]).all()
    ends = np.array([means[[0, 2]] for means in found])
    assert ends.min() < 0.0
    assert ends.max() > 2.0
    assert (ends * 2 % 1 == 0).all()


def test_a_label_far_below_is_clipped_as_one_far_above():
    """Half of the labels lie far off on one side: they pull as far as the clip lets them, on either side."""
    codes = np.concatenate([np.full(5000, 2), np.full(5000, 0)])
    below = NoisyMean(GRID, 5.0, clip=(0.5, 1.5)).answer(codes, 1, SecureWords())
    above = NoisyMean(GRID, 5.0, clip=(0.5, 1.5)).answer(4 - codes, 1, SecureWords())
    np.testing.assert_allclose([below[0], above[0]], [0.75, 1.25], atol=0.005)


def test_a_narrow_range_needs_less_noise():
    """The scale of noise on sums is the clipped range over epsilon, and the law names its ends unless they are all."""
    space = Interval(-50.0, 50.0, 0.25)
    wide, narrow = NoisyMean(space, 1.0), NoisyMean(space, 1.0, clip=(-1.0, 2.0))
    assert (wide.sensitivity, narrow.sensitivity) == (400, 12)
    assert (wide.rate(1), narrow.rate(1)) == (PARTS // 400, PARTS // 12)
    assert {name: narrow.law(1)[name] for name in ("lowest", "highest")} == {"lowest": "196", "highest": "208"}
    assert NoisyMean(space, 1.0, clip=(-50.0, 50.0)).law(1) == wide.law(1)
    assert NoisyMean.sum_deviation(narrow.law(1), space) == pytest.approx(math.sqrt(2) * 3.0, rel=1e-2)


@pytest.mark.parametrize(
    "forged",
    [
        {"lowest": "1", "highest": "2"},
        {"lowest": "0", "highest": "4", "sensitivity": "4"},
        {"lowest": "3", "highest": "5"},
        {"lowest": "1"},
        {"lowest": "3", "highest": "1"},
        {"lowest": "1", "highest": "5"},
        {"sensitivity": "1"},
    ],
)
def test_a_law_of_other_ends_promises_nothing(forged):
    """The sensitivity follows from the ends: two points of the grid in order, written only if labels are cut."""
    law = NoisyMean(GRID, 1.0, clip=(0.5, 1.5)).law(1)
    assert promise_of(law, GRID).epsilon == 1.0
    kept = {name: value for name, value in law.items() if name != "highest" or "highest" in forged or len(forged) > 1}
    with pytest.raises(ValueError, match=r"expected|invalid"):
        promise_of({**(kept if set(forged) == {"lowest"} else law), **forged}, GRID)


BAD = {
    "a clip of one end": (lambda: NoisyMean(GRID, 1.0, clip=1.0), "two points of the grid"),
    "a clip in disorder": (lambda: NoisyMean(GRID, 1.0, clip=(1.5, 0.5)), "the lower one first"),
    "a clip of nothing": (lambda: NoisyMean(GRID, 1.0, clip=(1.5, 1.5)), "the lower one first"),
    "a clip beyond": (lambda: NoisyMean(GRID, 1.0, clip=(0.5, 2.5)), "from 0.0 to 2.0 in steps of 0.5"),
    "a clip off the grid": (lambda: NoisyMean(GRID, 1.0, clip=(0.5, 1.4)), "two points of the grid"),
    "a clip of NaN": (lambda: NoisyMean(GRID, 1.0, clip=(math.nan, 1.0)), "clip to be a number", EpsilonError),
    "no space": (lambda: NoisyHistogram(["a"], 1.0), "declared label space", LabelError),
    "no epsilon": (lambda: NoisyHistogram(SPACE, 0.0), "epsilon", EpsilonError),
    "too small": (lambda: NoisyMean(GRID, 1e-12).rate(1), "sensitivity of 4", EpsilonError),
    "classes for a mean": (lambda: NoisyMean(SPACE, 1.0), "on an Interval", LabelError),
    "an unknown method": (lambda: NoisyArgmax(SPACE, 1.0, method="laplace"), "permute-and-flip"),
    "floats for cells": (lambda: NoisyHistogram(SPACE, 1.0, np.array([0.0])), "as integers"),
    "missing cells": (lambda: NoisyHistogram(SPACE, 1.0, np.array([0, -1])), "numbered from 0"),
    "names for cells": (lambda: NoisyHistogram(SPACE, 1.0, np.array(["x"])), "as integers"),
    "a hash for a cell": (lambda: NoisyHistogram(SPACE, 1.0, np.array([0, 2**40])), "large gaps"),
    "no rows": (lambda: NoisyHistogram(SPACE, 1.0, np.array([], dtype=int)), "as integers"),
    "other rows": (
        lambda: NoisyHistogram(SPACE, 1.0, np.array([0])).answer(np.array([0, 1]), 1, tape(0)),
        "each of the 2 rows, found 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_bad_queries_are_refused(case):
    """By what was expected and found."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()


def test_rates_round_towards_more_noise():
    """An epsilon that no rate expresses gets the next smaller one."""
    assert rate_below(0.3, 2) == int(Fraction(3, 20) * PARTS)
    assert epsilon_of(rate_below(0.3, 2), 2) <= 0.3
    assert epsilon_of(PARTS // 2, 2) == 1.0


def test_a_wide_gap_at_a_small_rate_follows_its_law():
    """A gap of millions is not walked label by label, and its product with the rate does not overflow."""
    for gap, rate in ((3_000_000, PARTS // 3_000_000), (1 << 40, 1), (5, PARTS // 4)):
        found = noisy_best(np.tile([gap, 0], (20_000, 1)), rate, SecureWords(), again=True)
        check_counts(np.bincount(found, minlength=2).tolist(), exponential([gap, 0], rate))


def test_the_ambient_precision_of_decimals_changes_nothing():
    """A process that computes with three digits gets the same certificate."""
    exact = NoisyHistogram(SPACE, 1.2345).certified(1)
    with decimal.localcontext(prec=3):
        assert NoisyHistogram(SPACE, 1.2345).certified(1) == exact


@pytest.mark.parametrize("block", [1, 7, 40, 1 << 18])
@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, None])
def test_counts_do_not_depend_on_blocks(block, kind, monkeypatch):
    """Every row is counted once in its cell, whatever the rows that are counted at a time and the type of cells."""
    for file in (_query, _mean):
        monkeypatch.setattr(file, "_BLOCK", block)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 100).astype(np.int32)
    cells = None if kind is None else rng.integers(0, 4, 100).astype(kind)
    query = NoisyHistogram(Classes(range(3)), 1.0, cells, 5)
    expected = np.zeros((5, 3), dtype=np.int64)
    for cell, code in zip(np.zeros(100, dtype=int) if cells is None else cells, codes, strict=True):
        expected[cell, code] += 1
    monkeypatch.setattr(_histogram, "discrete_laplace", lambda count, *_: np.zeros(count, dtype=np.int64))
    assert (query.answer(codes, 1, TapeWords(np.zeros(1, dtype=np.uint64))) == expected).all()
