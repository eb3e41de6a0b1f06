"""Label moments: exact sums, the sensitivity that neighbours show, and noise that is exactly a rounded normal.

The statistical tests draw with secure words and compare exact tails with a chance of a false alarm of at most 1e-9
each.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom, norm

from labeldp import Classes, LabelMoments
from labeldp._random_words import SecureWords, TapeWords, Words
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries import DeltaWarning, _moments, _noise, promise_of
from labeldp.mechanisms.queries._moments import FeatureGrid
from labeldp.mechanisms.queries._noise import LARGEST_DEVIATION, rounded_normal
from labeldp.mechanisms.queries._noise_kernels import inside
from labeldp.privacy.accounting import GaussianNoise

ALARM = 1e-9
SPACE = Classes(["a", "b", "c"])
WHOLE = np.array([[3.0, 4.0], [0.0, -1.0], [-4.0, 3.0], [2.0, 2.0], [0.0, 0.0], [5.0, 0.0]])
CODES = np.array([0, 1, 2, 0, 1, 2])
FORMS = {"dense": np.asarray, "csr": sparse.csr_array, "coo": sparse.coo_matrix}


class ClassIndicators(Words):
    """A tape that remembers how far it was asked for."""

    private = False

    def __init__(self, seed):
        self.tape = TapeWords(np.random.default_rng(seed).integers(0, 2**64, 1 << 16, dtype=np.uint64))
        self.asked = []

    def block(self, start, count):
        """Words of the tape."""
        self.asked.append((start, count))
        return self.tape.block(start, count)


def moments(features=WHOLE, epsilon=1.0, delta=1e-6, **more):
    """Moments of a few features."""
    return LabelMoments(SPACE, epsilon, delta, features, **more)


def check_counts(counts, chances):
    """Counts of outcomes are those of chances, by exact tails."""
    total = sum(counts)
    for count, chance in zip(counts, chances, strict=True):
        tail = min(binom.cdf(count, total, chance), binom.sf(count - 1, total, chance))
        assert tail > ALARM / len(counts), (count / total, chance)


@pytest.mark.parametrize("deviation", [1, 2, 7])
def test_noise_follows_the_rounded_normal_law(deviation):
    """Each integer near zero, and both tails."""
    found = rounded_normal(300_000, deviation, SecureWords())
    inner = range(-3 * deviation, 3 * deviation + 1)
    edges = norm.cdf([(z - 0.5) / deviation for z in (*inner, inner[-1] + 1)])
    counts = [np.count_nonzero(found < inner[0]), *(np.count_nonzero(found == z) for z in inner)]
    counts.append(np.count_nonzero(found > inner[-1]))
    check_counts(counts, [edges[0], *np.diff(edges), edges[0]])


@pytest.mark.parametrize("deviation", [3**20, 1 << 40, LARGEST_DEVIATION])
def test_wide_noise_follows_the_normal_law(deviation):
    """As many draws fall between quantiles as should, and their last bits are uniform."""
    found = rounded_normal(200_000, deviation, SecureWords())
    places = np.searchsorted(norm.ppf(np.arange(1, 50) / 50), found / deviation)
    check_counts(np.bincount(places, minlength=50).tolist(), [1 / 50] * 50)
    check_counts(np.bincount(found & 15, minlength=16).tolist(), [1 / 16] * 16)


def test_neighbouring_draws_are_independent():
    """The correlation of each draw with the next, and of their squares, is that of independent normals."""
    found = rounded_normal(400_000, 1 << 30, SecureWords()) / float(1 << 30)
    bound = norm.isf(ALARM / 2) * math.sqrt(200_000)
    assert abs(found[::2] @ found[1::2]) < bound
    assert abs((found[::2] ** 2 - 1) @ (found[1::2] ** 2 - 1)) < 2 * bound


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([1], 1),  # another whole part
        ([3], 0),
        ([2, 4], 1),  # the same, and a first digit that decides
        ([2, 6], 0),
        ([2, 5, 9, 3], 1),  # that too: the next digit is drawn, and compared
        ([2, 5, 9, 9, 1, 7], 0),
        ([2, 5, 9], None),  # words ran out
        ([2], None),
        ([], None),
    ],
)
def test_numbers_are_compared_as_far_as_they_agree(words, expected):
    """A uniform number against (2 + 0.5...) / 4, digit by digit, where a digit is a word."""
    tape, used = np.array(words, dtype=np.uint64), np.zeros(1, dtype=np.int64)
    digits = np.full(tape.size + 2, 5, dtype=np.uint64)
    result = inside(tape, 4, 2, digits, used)
    assert result == (-1 if expected is None else expected)
    assert used[0] > tape.size if expected is None else used[0] == tape.size


def test_running_out_of_words_changes_nothing(monkeypatch):
    """A draw that is begun anew with more words, and draws in parts, read the same words."""
    whole = rounded_normal(500, 12345, ClassIndicators(1).tape)
    for name, value in (("_AT_ONCE", 3), ("_WORDS_FOR_ONE", 1)):
        monkeypatch.setattr(_noise, name, value)
        assert np.array_equal(rounded_normal(500, 12345, ClassIndicators(1).tape), whole)


def silent(monkeypatch):
    """Moments without noise."""
    monkeypatch.setattr(_moments, "rounded_normal", lambda count, *_: np.zeros(count, dtype=np.int64))


@pytest.mark.parametrize("unit", [1, 2, 3])
def test_the_sensitivity_is_what_neighbours_show(unit, monkeypatch):
    """Over all replacements of a unit's labels the sums move by so much in Euclidean length, and no more."""
    silent(monkeypatch)
    features = np.concatenate([WHOLE, WHOLE[[0, 0]]])
    codes = np.array([*CODES, 0, 0])
    query = moments(features)
    step = Fraction(2) ** -query.grid.bits
    allowed = query.noise(unit).sensitivity_squared * step**2
    most = 0
    for rows in itertools.combinations(range(len(features)), unit):
        for labels in itertools.product(range(3), repeat=unit):
            other = codes.copy()
            other[list(rows)] = labels
            moved = query.answer(other, unit, ClassIndicators(0)) - query.answer(codes, unit, ClassIndicators(0))
            most = max(most, Fraction((moved**2).sum()))
    assert most == allowed == 2 * unit**2 * 25


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bound", [None, 1.7, 1e9])
@pytest.mark.parametrize("scale", [1.0, 1e-40, 2.5e37])
def test_the_grid_is_never_longer_and_all_but_exact(form, bound, scale):
    """Entries are cut toward zero by less than a step, rows to the norm, and the longest row's length is exact."""
    features = np.random.default_rng(0).normal(size=(40, 7)) * scale
    features[3] = 0
    grid = FeatureGrid.of(FORMS[form](features), None if bound is None else bound * scale)
    steps = grid.steps.toarray() if form != "dense" else grid.steps
    lengths = np.linalg.norm(features, axis=1)
    shares = [1.0 if bound is None or length <= bound * scale else bound * scale / length for length in lengths]
    cut = features * np.array(shares)[:, None]
    exact = cut * 2.0**grid.bits
    assert (np.abs(steps) <= np.abs(exact) * (1 + 1e-12)).all()
    assert np.abs(steps - exact).max() < 1.001
    squares = [sum(int(entry) ** 2 for entry in row) for row in steps]
    assert grid.longest_squared == max(squares)
    assert 2**57 < grid.longest_squared < 2**60 * (1 + 1e-9)


def test_whole_features_stay_as_they_are():
    """A step is a power of two, so pixels and counts are on the grid."""
    features = np.random.default_rng(1).integers(0, 17, (50, 6))
    grid = FeatureGrid.of(features, None)
    assert np.array_equal(grid.steps * 2.0**-grid.bits, features)


@pytest.mark.parametrize("form", FORMS)
def test_sums_are_exact(form, monkeypatch):
    """As sums of whole numbers of any size, also in blocks of few rows."""
    random = np.random.default_rng(2)
    features, codes = random.normal(size=(300, 5)), random.integers(0, 3, 300)
    grid = FeatureGrid.of(FORMS[form](features), None)
    steps = grid.steps.toarray() if form != "dense" else grid.steps
    exact = [
        [sum(int(row[i]) for row, code in zip(steps, codes, strict=True) if code == j) for j in range(3)]
        for i in range(5)
    ]
    assert grid.sums(codes, 3).tolist() == exact
    monkeypatch.setattr(_moments, "_AT_ONCE", 17)
    again = FeatureGrid.of(FORMS[form](features), None)
    assert again.sums(codes, 3).tolist() == exact
    assert again.longest_squared == grid.longest_squared


def test_wide_sparse_features_are_not_written_out(monkeypatch):
    """Blocks of sparse features have as many rows as blocks of one column."""
    features = sparse.csr_array(([3.0, 4.0, 1.0], ([0, 0, 2], [7, 999_999, 5])), shape=(3, 1_000_000))
    monkeypatch.setattr(_moments, "_AT_ONCE", 9)
    grid = FeatureGrid.of(features, None)
    assert [block.shape[0] for block in _moments._blocks(grid.steps, 3)] == [3]
    sums = grid.sums(np.array([1, 0, 2]), 3) * 2.0**-grid.bits
    assert sums[[7, 999_999, 5]].tolist() == [[0, 3, 0], [0, 4, 0], [0, 0, 1]]
    assert grid.longest_squared == 25 * 4**grid.bits


@pytest.mark.parametrize("form", FORMS)
def test_what_was_asked_does_not_change_with_its_source(form):
    """The grid is a copy, and read-only: the sensitivity is that of what is summed."""
    source = FORMS[form](WHOLE.copy())
    grid = moments(source).grid
    before = grid.sums(CODES, 3)
    (source if form == "dense" else source.data)[...] = 1e6
    assert np.array_equal(grid.sums(CODES, 3), before)
    with pytest.raises(ValueError, match="read-only"):
        (grid.steps if form == "dense" else grid.steps.data)[...] = 1


def test_neighbours_differ_by_the_label_alone():
    """With one tape the answers differ by the row's features in two columns; words, law and promise are the same."""
    query = moments()
    other = CODES.copy()
    other[1] = 2
    tapes = ClassIndicators(5), ClassIndicators(5)
    one, two = (query.answer(codes, 1, tape) for codes, tape in zip((CODES, other), tapes, strict=True))
    assert np.allclose(two - one, [[0, 0, 0], [0, 1, -1]], rtol=0, atol=1e-6)
    assert tapes[0].asked == tapes[1].asked


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-6), (1.0, 1e-5), (30.0, 1e-9)])
def test_the_promise_follows_from_the_law(unit, epsilon, delta):
    """Never more than was asked for, all but that, and anyone can recompute it."""
    query = moments(epsilon=epsilon, delta=delta)
    found, law = query.promise(unit), query.law(unit)
    assert epsilon * (1 - 1e-6) < found.epsilon <= epsilon
    assert (found.delta, found.trust, query.requested_epsilon(unit)) == (delta, "central", epsilon)
    assert promise_of(law, SPACE) == found
    exact = Fraction(int(law["sensitivity_squared"]) * unit**2, 2 * int(law["deviation"]) ** 2)
    assert exact <= Fraction(found.rho) <= exact * (1 + Fraction(1, 10**15))
    less = GaussianNoise(int(law["deviation"]) - 1, int(law["sensitivity_squared"]) * unit**2)
    assert not less.keeps(epsilon, delta)


@pytest.mark.parametrize(
    "wrong",
    [
        {"deviation": "0"},
        {"sensitivity_squared": "7"},
        {"sensitivity_squared": "0"},
        {"labels_of_a_unit": "0"},
        {"columns": "0"},
        {"bits": "x"},
        {"delta": "0.0"},
        {"delta": "nan"},
        {"deviation": "1"},
    ],
)
def test_integers_that_are_no_law_are_refused(wrong):
    """What a certificate may hold and no query gives."""
    with pytest.raises(ValueError, match=r"."):
        promise_of(moments().law(1) | wrong, SPACE)


def test_a_delta_that_could_publish_a_row_is_warned_of():
    """At one over the number of rows, and not below."""
    with pytest.warns(DeltaWarning, match="expected delta below 1/6, one over the number of rows"):
        moments(delta=0.17)
    assert moments(delta=0.16).delta == 0.16


BAD = {
    "no space": (lambda: LabelMoments(["a"], 1.0, 1e-6, WHOLE), "declared label space", LabelError),
    "no epsilon": (lambda: moments(epsilon=0.0), "epsilon", EpsilonError),
    "no delta": (lambda: moments(delta=0.0), "has no pure guarantee", EpsilonError),
    "a delta of one": (lambda: moments(delta=1.0), "below 1", EpsilonError),
    "a missing number": (lambda: moments([[1.0], [np.nan]]), "finite features .* at position 1"),
    "an infinite number": (lambda: moments([[np.inf], [1.0]]), "finite features .* at position 0"),
    "a missing sparse number": (lambda: moments(sparse.csr_array([[1.0], [np.nan]])), "at position 1"),
    "a masked number": (lambda: moments(np.ma.masked_equal([[1.0], [2.0]], 2.0)), "without masked entries"),
    "a huge number": (lambda: moments([[1e300]]), "at most 1e[+]100"),
    "zeros": (lambda: moments(np.zeros((3, 2))), "found smaller ones"),
    "sparse zeros": (lambda: moments(sparse.csr_array((3, 2))), "found smaller ones"),
    "texts": (lambda: moments([["a"], ["b"]]), "as numbers of shape"),
    "one column": (lambda: moments([1.0, 2.0]), r"as numbers of shape .* \(2,\)"),
    "no columns": (lambda: moments(np.zeros((3, 0))), "as numbers of shape"),
    "complex numbers": (lambda: moments([[1j]]), "found complex128"),
    "no norm": (lambda: moments(norm=0.0), "a norm above 0"),
    "an infinite norm": (lambda: moments(norm=math.inf), "a norm above 0"),
    "a text for a norm": (lambda: moments(norm="1"), "norm to be a number"),
    "other rows": (lambda: moments().check_rows(5), "each of the 5 rows, found 6"),
    "too small": (lambda: moments(epsilon=1e-14, delta=1e-30).noise(1), "Gaussian noise can meet", EpsilonError),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_bad_moments_are_refused(case):
    """By what was expected and found."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()
