"""Noisy gradients: a sensitivity that is counted in whole steps, a bit whose odds are enumerated, and no bias.

The statistical tests draw with secure words, and Bernstein's and Hoeffding's inequalities give them a chance of a false
alarm of at most 1e-9 each.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp import Classes, NoisyGradients
from labeldp._random_words import SecureWords, TapeWords, Words
from labeldp.errors import EpsilonError, InputError, LabelError
from labeldp.mechanisms.queries import DeltaWarning, _gradients, gradient_error, promise_of
from labeldp.mechanisms.queries import _gradient_vectors as _class_vectors
from labeldp.mechanisms.queries._gradient_vectors import AnyVectors, RightAngledVectors, class_vectors
from labeldp.mechanisms.queries._gradients import gradient_law
from labeldp.privacy import exp_below
from labeldp.privacy.accounting import BitNoise, GaussianNoise

WORD = 1 << 64
REACH = 1 << 24
SPACE = Classes(["a", "b", "c"])
LAWS = {"gaussian": (1.0, 1e-6), "one bit": (1.0, 0.0)}
RANDOM = np.random.default_rng(0)
#: Vectors of three classes: opposed, in general position, nearly the same far from zero, in one line, at right angles.
VECTORS = {
    "opposed": np.array([[3.0, 4.0], [-3.0, -4.0], [0.0, 0.0]]),
    "general": RANDOM.normal(size=(3, 5)),
    "far away": 1e6 + RANDOM.normal(size=(3, 4)) * 1e-3,
    "huge": RANDOM.normal(size=(3, 2)) * 1e99,
    "tiny": RANDOM.normal(size=(3, 2)) * 1e-150,
    "numbers": np.array([[-1.0], [1.0], [0.25]]),
    "in one line": np.outer([1.0, -2.0, 4.0], [0.6, 0.0, 0.8]),
    "right angles": np.array([2.0, 1.0, 0.5]),
    "equal lengths": np.ones(3),
    "one without length": np.array([2.0, 0.0, 1.0]),
    "one with length": np.array([0.0, 0.0, 3.0]),
}


class Fixed:
    """An asker that always asks the same, and remembers what it was told."""

    def __init__(self, vectors):
        self.vectors, self.told = vectors, []

    def ask(self, row):
        """The same for every row."""
        assert row == len(self.told)
        return self.vectors

    def tell(self, row, vector):
        """One more, in order."""
        assert row == len(self.told)
        self.told.append(vector)


class Recorded(Words):
    """A stream that remembers which of its places were read."""

    private = False

    def __init__(self, words):
        self.words, self.places = words, []

    def block(self, start, count):
        """Words of the other stream."""
        self.places.append((start, start + count))
        return self.words.block(start, count)


def posed(vectors):
    """Vectors of three classes as they were asked for."""
    array = np.asarray(vectors)
    return class_vectors(array, 0, 3, array.shape[-1])


def full(vectors):
    """The same vectors, one in each line."""
    return np.diag(vectors) if np.ndim(vectors) == 1 else np.asarray(vectors)


def weight_of(law, vectors, code, normals):
    """The number of words for which the first of two things is told: found from what is told alone."""
    first = law.reply(vectors, code, normals, 0)
    low, high = 0, WORD
    while high - low > 1:
        middle = (low + high) // 2
        same = np.array_equal(law.reply(vectors, code, normals, middle), first)
        low, high = (middle, high) if same else (low, middle)
    return high


def steps_told(vectors, monkeypatch):
    """The whole steps that Gaussian noise is added to, of all classes."""
    law, seen = gradient_law(1.0, 1e-6), []
    for kind in (AnyVectors, RightAngledVectors):
        with monkeypatch.context() as patch:
            original = kind.of_class
            patch.setattr(kind, "of_class", lambda *a, original=original: seen.append(original(*a)) or seen[-1])
            if isinstance(posed(vectors), kind):
                for code in range(3):
                    law.reply(posed(vectors), code, np.zeros(full(vectors).shape[1], dtype=np.int64), 0)
    return [[int(step) for step in vector] for vector in seen]


def most_apart(steps):
    """The largest squared distance of two vectors of whole numbers, exactly."""
    return max(sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(steps, 2))


class Lent:
    """What gives its own memory where it is asked for a copy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        """Its own array."""
        return self.array


@pytest.mark.parametrize("name", ["opposed", "right angles"])
def test_what_is_checked_cannot_be_changed_afterwards(name):
    """Vectors are copied, whatever they come as."""
    mine = VECTORS[name].copy()
    for found in (mine, Lent(mine)):
        copied = class_vectors(found, 0, 3, mine.shape[-1])
        assert np.array_equal(copied.numbers if mine.ndim == 1 else copied.vectors, mine)
        assert not np.shares_memory(copied.numbers if mine.ndim == 1 else copied.vectors, mine)


@pytest.mark.parametrize("name", VECTORS)
def test_two_labels_are_at_most_so_many_steps_apart(name, monkeypatch):
    """In whole numbers, and hardly less: noise is for the largest distance of two vectors, not for the longest."""
    steps = steps_told(VECTORS[name], monkeypatch)
    law = NoisyGradients(SPACE, 1.0, 1e-6, client=Fixed(None), rows=1).law(1)
    assert 0.9999 * REACH**2 < most_apart(steps) <= int(law["sensitivity_squared"]) == REACH**2


def test_distances_are_those_of_all_pairs(monkeypatch):
    """Also where there are so many classes that their distances are computed block by block."""
    monkeypatch.setattr(_class_vectors, "_AT_ONCE", 3)
    for steps in RANDOM.integers(-REACH // 4, REACH // 4, size=(20, 8, 3)):
        exact = most_apart([[int(step) for step in vector] for vector in steps])
        assert AnyVectors.spread_squared(steps.astype(float)) == exact
        assert AnyVectors.spread_squared(steps[:, :1].astype(float)) == np.ptp(steps[:, 0]) ** 2
        assert RightAngledVectors.spread_squared(steps[:, 0].astype(float)) == most_apart(np.diag(steps[:, 0]).tolist())


@pytest.mark.parametrize("name", ["opposed", "general", "right angles"])
def test_floats_that_are_wrong_do_not_weaken_it(name, monkeypatch):
    """If vectors came out too far apart on the grid, a coarser one is taken."""
    monkeypatch.setattr(_gradients, "_distance_before_rounding", lambda _: 2.5 * REACH)
    assert REACH**2 / 16 < most_apart(steps_told(VECTORS[name], monkeypatch)) <= REACH**2


@pytest.mark.parametrize("name", VECTORS)
def test_gaussian_noise_is_told_in_steps_about_the_vector(name):
    """Without noise the vector itself is told, but for what the grid rounds off; noise is whole steps of one size."""
    law, vectors = gradient_law(1.0, 1e-6), VECTORS[name]
    classes, zeros = full(vectors), np.zeros(full(vectors).shape[1], dtype=np.int64)
    spread = max(math.dist(*pair) for pair in itertools.combinations(classes, 2))
    noise = np.arange(1, len(zeros) + 1) * 10**9
    for code, vector in enumerate(classes):
        quiet = law.reply(posed(vectors), code, zeros, 0)
        assert np.abs(quiet - vector).max() <= 0.51 * spread / REACH + 1e-15 * np.abs(classes).max()
        step = (law.reply(posed(vectors), code, noise, 0) - quiet) / noise
        assert step == pytest.approx(spread / REACH, rel=1e-3)


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("name", VECTORS)
def test_the_odds_of_the_bit_are_within_epsilon(name, epsilon, unit):
    """Whatever the direction, two things can be told, which do not depend on the label; their odds are enumerated."""
    law, vectors = gradient_law(epsilon, 0.0, unit), posed(VECTORS[name])
    allowed = exp_below(epsilon, unit)
    for normals in RANDOM.integers(-(10**9), 10**9, size=(2, vectors.dimension)):
        for word in (0, WORD - 1):
            assert len({law.reply(vectors, code, normals, word).tobytes() for code in range(3)}) == 1
        weights = [weight_of(law, vectors, code, normals) for code in range(3)]
        for one, other in itertools.permutations(weights, 2):
            assert Fraction(one, other) <= allowed
            assert Fraction(WORD - one, WORD - other) <= allowed


def test_the_odds_reach_epsilon_where_vectors_are_opposed():
    """Nothing is given away: the longest vectors use all that is allowed, shorter ones less."""
    for epsilon, unit in itertools.product((0.01, 1.0, 20.0), (1, 3)):
        law, normals = gradient_law(epsilon, 0.0, unit), np.array([10**6, 1])
        weights = [weight_of(law, posed(VECTORS["opposed"]), code, normals) for code in range(3)]
        assert weights[0] + weights[1] == WORD
        assert weights[2] == WORD // 2
        assert abs(math.log(Fraction(weights[0], weights[1]))) == pytest.approx(epsilon / unit, rel=1e-9)


def test_a_weight_is_never_beyond_the_least():
    """For every share of the way from one half, its ends above all."""
    law = gradient_law(0.7, 0.0)
    least, shares = law.noise.least, 1 << 53
    found = [law.weight(share) for share in (-shares, -shares + 1, -1, 0, 1, shares - 1, shares)]
    assert (found[0], found[3], found[-1]) == (least, WORD // 2, WORD - least)
    assert found == sorted(found)


def mean_told(law, vectors, code, normals):
    """What is told on average over the bit, for one direction."""
    first, last = (law.reply(vectors, code, normals, word) for word in (0, WORD - 1))
    low, high = 0, 1 << 16
    while high - low > 1:  # 16 digits of the chance are enough here
        middle = (low + high) // 2
        same = np.array_equal(law.reply(vectors, code, normals, middle << 48), first)
        low, high = (middle, high) if same else (low, middle)
    return last + high / (1 << 16) * (first - last)


def directions(vectors, count):
    """Normal integers along evenly spread directions of a plane or a line that vectors span."""
    if isinstance(vectors, AnyVectors):
        basis = np.eye(vectors.dimension)[:2]  # coordinates of the basis that was found
    else:
        used = vectors.numbers != 0
        away = np.where(used, 1 / np.where(used, vectors.numbers, 1), 0) if used.all() else ~used
        basis = np.linalg.svd(np.atleast_2d(away))[2][1:]
    angles = (np.arange(count) + 0.5) / count * 2 * np.pi
    return np.rint(1e12 * (np.cos(angles)[:, None] * basis[0] + np.sin(angles)[:, None] * basis[-1])).astype(np.int64)


@pytest.mark.parametrize("name", ["opposed", "numbers", "in one line", "huge", "tiny", *list(VECTORS)[7:10]])
def test_one_bit_is_unbiased(name):
    """Over all directions of a line or a plane, and both values of the bit, the mean is the vector of the label."""
    law, vectors = gradient_law(2.0, 0.0), posed(VECTORS[name])
    flat = name in ("opposed", "numbers", "in one line")  # spans a line: two directions are all
    normals = np.eye(2, vectors.dimension, dtype=np.int64)[[0, 0]] * [[5], [-5]] if flat else directions(vectors, 72)
    for code, vector in enumerate(full(VECTORS[name])):
        mean = np.mean([mean_told(law, vectors, code, each) for each in normals], axis=0)
        assert np.abs(mean - vector).max() <= (1e-4 if flat else 4e-2) * np.abs(vectors.lengths).max()


@pytest.mark.parametrize("name", VECTORS)
def test_directions_are_in_what_the_vectors_span(name):
    """The reply is the centre and a stretched unit vector, of which nothing sticks out, in so many dimensions."""
    vectors, classes = posed(VECTORS[name]), full(VECTORS[name])
    off = classes - classes.mean(axis=0)
    direction, dimension = vectors.direction(RANDOM.normal(size=vectors.dimension))
    inside = np.linalg.lstsq(off.T / np.abs(off).max(), direction, rcond=None)[0] @ (off / np.abs(off).max())
    assert np.linalg.norm(inside - direction) < 1e-8
    assert math.isclose(np.linalg.norm(direction), 1.0)
    assert dimension == np.linalg.matrix_rank(off / np.abs(off).max(), tol=1e-6)
    along = np.abs(vectors.along(direction) - (classes - vectors.centre) @ direction)
    assert along.max() <= 1e-9 * np.abs(classes).max()


@pytest.mark.parametrize("name", [*VECTORS, "one opposed to all"])
def test_what_is_told_is_no_longer_than_it_need_be(name):
    """From the centre no vector is farther than from their mean, nor than from zero, so corollary 1 holds."""
    opposed = np.array([[-2.0, 0.1, 0.0], [2.0, 0.0, 0.1], [2.0, 0.1, 0.1]])
    vectors = posed(VECTORS.get(name, opposed))
    classes = full(VECTORS.get(name, opposed))
    longest = [np.linalg.norm(classes - centre, axis=1).max() for centre in (0.0, classes.mean(axis=0))]
    assert vectors.lengths.max() <= min(longest) * (1 + 1e-7)
    assert vectors.lengths == pytest.approx(np.linalg.norm(classes - vectors.centre, axis=1), rel=1e-7)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("same", [np.full((3, 4), 0.1), np.zeros(3), np.full((3, 1), -7.3)])
def test_what_is_the_same_for_all_is_told_as_it_is(law, same):
    """There is no label in it, and nothing to hide."""
    found = [gradient_law(*LAWS[law]).reply(posed(same), code, np.full(same.shape[-1], 9), 0) for code in range(3)]
    assert all(np.array_equal(each, full(same)[0]) for each in found)


@pytest.mark.parametrize("unit", [1, 2])
@pytest.mark.parametrize("name", ["opposed", "general", "numbers", "right angles", "equal lengths"])
@pytest.mark.parametrize("law", LAWS)
def test_the_error_is_bounded(law, name, unit):
    """Exactly where noise is normal; for one bit, by the squared length of what is told about the centre."""
    found, vectors, classes = gradient_law(*LAWS[law], unit), posed(VECTORS[name]), full(VECTORS[name])
    spread = max(math.dist(*pair) for pair in itertools.combinations(classes, 2))
    shape = {"classes": 3, "dimension": vectors.dimension, "spread": spread, "labels_of_a_unit": unit}
    bound = gradient_error(*LAWS[law], **shape)
    if law == "gaussian":
        deviation = found.deviation * spread / REACH
        assert deviation**2 * vectors.dimension < bound < 1.00001 * deviation**2 * vectors.dimension
        return
    told = found.reply(vectors, 0, np.arange(1, vectors.dimension + 1), 0) - vectors.centre
    nearer = gradient_error(*LAWS[law], **shape, radius=float(vectors.lengths.max()))
    assert told @ told <= nearer * (1 + 1e-12)
    assert nearer <= bound * (1 + 1e-12)
    if name != "opposed":  # which spans less than it may
        assert nearer == pytest.approx(told @ told)


@pytest.mark.parametrize(("dimension", "mean"), [(1, 1.0), (2, 2 / math.pi), (3, 0.5), (4, 4 / (3 * math.pi))])
def test_the_mean_cosine_is_that_of_a_sphere(dimension, mean):
    """Of a point's first coordinate, in absolute value: on a circle, a ball's surface and so on."""
    assert _gradients._mean_cosine(dimension) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_neighbours_differ_in_their_row_alone(law):
    """With one tape a changed label changes what is told of its row; and a tell changes nothing of the answer."""
    codes, answers = np.array([0, 1, 2, 0, 1] * 4), []
    for changed in (codes, np.where(np.arange(20) == 7, 0, codes)):
        tape = TapeWords(np.random.default_rng(5).integers(0, WORD, 1 << 16, dtype=np.uint64))
        asker = Fixed(VECTORS["general"])
        answers.append(NoisyGradients(SPACE, *LAWS[law], client=asker, rows=20, dimension=5).answer(changed, 1, tape))
        assert np.array_equal(np.array(asker.told), answers[-1])
    different = (answers[0] != answers[1]).any(axis=1)
    assert set(np.flatnonzero(different)) <= {7}
    assert different.any() or law == "one bit"


@pytest.mark.parametrize("law", LAWS)
def test_no_word_is_used_twice(law, monkeypatch):
    """Neither by two blocks of rows nor by a direction and a bit; and no block repeats another's noise."""
    monkeypatch.setattr(_gradients, "_AT_ONCE", 20)
    words, asker = Recorded(SecureWords()), Fixed(VECTORS["right angles"])
    value = NoisyGradients(SPACE, *LAWS[law], client=asker, rows=20).answer(np.zeros(20, dtype=int), 1, words)
    assert len(np.unique(value, axis=0)) == 20
    bits = [place for place in words.places if place[1] <= 20]
    assert bits == [(0, 6), (6, 12), (12, 18), (18, 20)]
    parts = [start >> 40 for start, _ in words.places if start > 20]
    assert list(dict.fromkeys(parts)) == [1, 2, 3, 4]


def test_what_is_asked_follows_from_what_was_told():
    """An asker may change its vectors by earlier answers, and to what it gave or got nothing it does later matters."""

    class Follower(Fixed):
        def ask(self, row):
            self.vectors[...] = np.outer([1.0, -1.0, 0.0], np.sign(self.told[-1]) + 2.0) if row else 1.0
            return self.vectors

        def tell(self, row, vector):
            super().tell(row, vector.copy())
            vector[...] = self.vectors[...] = np.nan

    asker = Follower(np.empty((3, 2)))
    query = NoisyGradients(SPACE, 300.0, 1e-6, client=asker, rows=6, dimension=2)
    value = query.answer(np.arange(6) % 3, 1, SecureWords())
    assert np.array_equal(np.array(asker.told), value)
    noise = query.noise(1).deviation / REACH  # for a spread of 1; here it is up to 6 sqrt(2)
    expected = np.array([1.0, -1.0, 0.0])[np.arange(1, 6) % 3, None] * (np.sign(value[:-1]) + 2.0)
    assert value[0].tolist() == [1.0, 1.0]
    assert np.abs(value[1:] - expected).max() < 9 * 7 * noise  # nine deviations: below 1e-17 in ten entries


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_promise_follows_from_the_law(unit, epsilon, delta):
    """Never more than was asked for, all but that; each label's part adds up, or its square for normal noise."""
    query = NoisyGradients(SPACE, epsilon, delta, client=Fixed(None), rows=9, dimension=7)
    found, law = query.promise(unit), query.law(unit)
    assert epsilon * (1 - 1e-6) < found.epsilon <= epsilon
    assert (found.delta, found.trust, query.requested_epsilon(unit)) == (delta, "local", epsilon)
    assert "was computed from what was told before" in found.assumptions[0]
    assert promise_of(law, SPACE) == found
    if delta:
        together = GaussianNoise(int(law["deviation"]), unit * REACH**2)
        assert (together.epsilon(delta), together.rho) == (found.epsilon, found.rho)
        assert not GaussianNoise(int(law["deviation"]) - 1, unit * REACH**2).keeps(epsilon, delta)
    else:
        odds = Fraction(WORD - int(law["least"]), int(law["least"]))
        assert odds <= exp_below(epsilon, unit) < Fraction(WORD + 1 - int(law["least"]), int(law["least"]) - 1)
        assert found.rho is None


WRONG = {
    "gaussian": [
        {"deviation": "0"},
        {"deviation": str(1 << 57)},
        {"sensitivity_squared": str(REACH**2 // 2)},
        {"delta": "0.0"},
        {"least": "5"},
        {"parts": str(WORD)},
    ],
    "one bit": [
        {"least": "0"},
        {"least": str(WORD // 2)},
        {"parts": str(1 << 32)},
        {"delta": "1e-06"},
        {"deviation": "70"},
    ],
}
BOTH = [{"labels_of_a_unit": "0"}, {"dimension": "0"}, {"dimension": str(1 << 21)}, {"dimension": "07"}, {"x": "1"}]


@pytest.mark.parametrize(("law", "wrong"), [(law, wrong) for law in LAWS for wrong in [*WRONG[law], *BOTH]])
def test_integers_that_are_no_law_are_refused(law, wrong):
    """What a certificate may hold and no query gives; mixtures of both laws too."""
    query = NoisyGradients(SPACE, *LAWS[law], client=Fixed(None), rows=1)
    assert promise_of(query.law(1), SPACE).trust == "local"
    with pytest.raises(ValueError, match=r"."):
        promise_of(query.law(1) | wrong, SPACE)


def gradients(vectors=None, **more):
    """A query about three rows."""
    settings = {"epsilon": 1.0, "client": Fixed(vectors), "rows": 3, **more}
    return NoisyGradients(SPACE, **settings)


def answered(vectors, **more):
    """What three rows are told, for what was asked."""
    return gradients(vectors, **more).answer(np.arange(3), 1, SecureWords())


BAD = {
    "no space": (lambda: NoisyGradients(["a"], 1.0, client=Fixed(None), rows=1), "declared label space", LabelError),
    "no client": (lambda: gradients(client=np.ones(3)), "methods ask and tell, found ndarray"),
    "no rows": (lambda: gradients(rows=0), "rows"),
    "no epsilon": (lambda: gradients(epsilon=0.0), "epsilon", EpsilonError),
    "a delta of one": (lambda: gradients(delta=1.0), "below 1", EpsilonError),
    "too large a dimension": (lambda: gradients(dimension=1 << 21), "dimension"),
    "a bit that cannot say it": (lambda: gradients(epsilon=60.0).promise(1), "64-bit word", EpsilonError),
    "too little for a bit": (lambda: gradients(epsilon=1e-18).promise(1), "64-bit word", EpsilonError),
    "too little": (lambda: gradients(epsilon=1e-14, delta=1e-30).promise(1), "Gaussian noise can meet", EpsilonError),
    "other rows": (lambda: gradients().check_rows(5), "a request for 5 rows, as there are labels, found one for 3"),
    "another shape": (lambda: answered(np.ones((2, 3))), r"found shape \(2, 3\) at position 0"),
    "lengths of fewer": (lambda: answered(np.ones(3), dimension=2), r"found shape \(3,\) at position 0"),
    "a missing number": (lambda: answered([1.0, 2.0, np.nan]), "finite vectors"),
    "an infinite number": (lambda: answered([1.0, 2.0, np.inf]), "finite vectors"),
    "a huge number": (lambda: answered([1.0, 2.0, 1e101]), r"at most 1e\+100"),
    "texts": (lambda: answered(["a", "b", "c"]), "found something else at position 0"),
    "nothing": (lambda: answered(None), r"found shape \(\) at position 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_bad_questions_are_refused(case):
    """By what was expected and found."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()


def test_a_delta_that_could_publish_a_row_is_warned_of():
    """At one over the number of rows, and not below."""
    with pytest.warns(DeltaWarning, match="expected delta below 1/3, one over the number of rows"):
        gradients(delta=0.34)
    assert gradients(delta=0.33).delta == 0.33


def test_bits_of_a_unit_add_up():
    """The epsilon of all bits is at most what was asked for, and the next smaller weight would be above it."""
    for epsilon, labels in itertools.product((0.001, 0.3, 10.0), (1, 2, 1000)):
        noise = BitNoise.of(epsilon, labels)
        assert 0.999 * epsilon < noise.epsilon <= epsilon
        exact = labels * math.log(Fraction(WORD - noise.least, noise.least))
        assert noise.epsilon == pytest.approx(exact, rel=1e-9)
