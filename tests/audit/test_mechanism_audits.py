"""Audits of anything that can be called: broken mechanisms are caught, sound ones are not accused."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from labeldp import Classes, Interval, LaplaceResponse, OneBitResponse, RandomizedResponse, SubsetResponse
from labeldp.audit import audit_mechanism
from labeldp.audit.mechanisms._partition import choose_partitions
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy.channels import BitChannel, ResponseChannel

RNG = np.random.default_rng()
#: The chance that a test fails by bad luck: each audit is wrong with at most this probability.
SURE = 1 - 1e-9
WORDS = 16


def response(epsilon, classes, rng=RNG):
    """Randomized response in floats."""
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)

    def draw(label, n):
        kept = rng.random(n) < keep
        return np.where(kept, label, (label + rng.integers(1, classes, n)) % classes)

    return draw


def drawn(channel):
    """The draw of a channel of one law, with words of numpy."""

    def draw(code, n):
        words = RNG.integers(0, 2**64 - 1, (n, channel.words_per_row), dtype=np.uint64, endpoint=True)
        return channel.draw(np.full(n, code, dtype=np.int32), words)

    return draw


# The mutants of docs/failure-modes.md that change a law: each is given the claim that it breaks.


def small_words(strict):
    """Randomized response with words of four bits: 11 words keep one of two labels, or 12 by mistake."""

    def draw(label, n):
        words = RNG.integers(0, WORDS, n)
        return np.where(words < 11 if strict else words <= 11, label, 1 - label)

    return draw


def one_class_too_few(label, n):
    """The last of three other classes is never drawn."""
    kept = RNG.random(n) < math.e / (math.e + 3)
    return np.where(kept, label, (label + RNG.integers(1, 3, n)) % 4)


def last_row_raw(label, n):
    """All rows are randomized but the last."""
    released = response(1.0, 3)(label, n)
    released[-1] = label
    return released


def constant_seed(label, n):
    """The same noise at each call."""
    return response(1.0, 2, np.random.default_rng(7))(label, n)


def narrow_codes(label, n):
    """Codes of 200 classes in eight bits: those that wrap are no class, and are passed on as they are."""
    code = int(np.array(label).astype(np.int8))
    return response(1.0, 200)(code, n) if code >= 0 else np.full(n, code)


def missing_passed_on(label, n):
    """A missing label is released as it is, half of the time."""
    randomized = [bool(flip) for flip in response(1.0, 2)(int(bool(label)), n)]
    return [None if label is None and raw else flip for flip, raw in zip(randomized, RNG.random(n) < 0.5, strict=True)]


def prior_from_labels(labels, n):
    """The candidates of all rows are the two most common true labels."""
    values, times = np.unique(labels, return_counts=True)
    candidates = np.sort(values[np.argsort(-times, kind="stable")][:2])
    flips = RNG.random((n, len(labels))) > math.e / (1 + math.e)
    places = np.where(np.isin(labels, candidates), np.searchsorted(candidates, labels) % 2, 0)
    return candidates[np.where(flips, 1 - places, places)]


def histogram(scale):
    """Counts of three classes with Laplace noise."""
    return lambda labels, n: np.bincount(labels, minlength=3) + RNG.laplace(0, scale, (n, 3))


def clipped(low):
    """A label with Laplace noise for the range -1 to 1."""
    return lambda label, n: np.round(min(max(label, low), 1.0) + RNG.laplace(0, 2.0, n), 3)


BROKEN = {
    "one word more is kept": (small_words(strict=False), [0, 1], math.log(11 / 5)),
    "one class too few": (one_class_too_few, range(4), 1.0),
    "last row raw": (last_row_raw, range(3), 1.0),
    "constant seed": (constant_seed, range(2), 1.0),
    "epsilon doubled": (response(2.0, 10), range(10), 1.0),
    "narrow codes": (narrow_codes, [3, 100, 150], 1.0),
    "missing passed on": (missing_passed_on, [False, True, None], 1.0),
    "prior from raw labels": (prior_from_labels, [(0, 0, 1, 1, 2), (0, 0, 1, 2, 2)], 1.0),
    "scale without the 2": (histogram(1.0), [(0, 0, 1, 2), (0, 1, 1, 2)], 1.0),
    "clipped on one side": (clipped(-math.inf), [-3.0, 1.0], 1.0),
    "low bits": (lambda label, n: label + RNG.laplace(0, 1, n), [0.0, 1.0], 1.0),
    "told by its type": (lambda label, n: [bool(x) if label else int(x) for x in RNG.integers(0, 2, n)], [0, 1], 1.0),
}
SOUND = {
    "words of four bits": (small_words(strict=True), [0, 1], math.log(11 / 5)),
    "counts": (histogram(2.0), [(0, 0, 1, 2), (0, 1, 1, 2)], 1.0),
    "clipped on both sides": (clipped(-1.0), [-3.0, 1.0], 1.0),
    "a subset": (drawn(SubsetResponse(Classes(range(10)), 1.0).channel()), [0, 4, 9], 1.0),
    "bits": (drawn(BitChannel.independent(12, 1.0)), [0, 11], 1.0),
    "randomized response": (drawn(RandomizedResponse(Classes(range(10)), 1.0).channel()), range(10), 1.0),
    "Laplace on a grid": (drawn(LaplaceResponse(Interval(0, 1, 0.25), 1.0).channel()), range(5), 1.0),
    "one bit": (drawn(OneBitResponse(Interval(0, 1, 0.25), 1.0).channel()), range(5), 1.0),
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_mechanism_is_caught(case):
    """Every mutant of the failure modes that changes a law is shown to give away more than it claims."""
    mechanism, inputs, claim = BROKEN[case]
    found = audit_mechanism(mechanism, inputs, claim, draws=30_000, confidence=SURE)
    assert not found.holds
    assert found.worst in found.sentence()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("case", SOUND)
def test_a_sound_mechanism_is_not_accused_and_much_of_it_is_shown(case):
    """Sound mechanisms hold (false alarm 1e-9), with a lower bound of more than half of the claim."""
    mechanism, inputs, claim = SOUND[case]
    found = audit_mechanism(mechanism, inputs, claim, draws=100_000, confidence=SURE)
    assert found.holds
    assert found.lower > 0.5 * claim
    assert found.upper is None or found.upper >= claim * (1 - 1e-9)


def many_outcomes(_, n):
    """One of 300 outputs, whatever the label is."""
    return RNG.integers(0, 300, n)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("mechanism", "claim", "audits"),
    [
        (drawn(ResponseChannel.at(2, 1.0)), ResponseChannel.at(2, 1.0).epsilon, 80),
        (drawn(BitChannel.independent(3, 0.5)), BitChannel.independent(3, 0.5).epsilon, 40),
        (many_outcomes, 0.02, 120),
        (lambda label, n: np.round(label + RNG.laplace(0, 1, n), 3), 1.0, 60),
    ],
    ids=["response", "bits", "many outcomes", "laplace"],
)
def test_sound_mechanisms_are_accused_no_more_often_than_stated(mechanism, claim, audits):
    """Of some 240 audits at confidence 0.9, in four groups, fewer are wrong than a rate of 0.05 allows (chance 1e-9).

    Claims are as large as epsilon is, so that there is no room for error; events are chosen among many.
    """
    accused = sum(
        not audit_mechanism(mechanism, [0, 1], claim, draws=1_600, confidence=0.9).holds for _ in range(audits)
    )
    assert accused <= binom.isf(1e-9, audits, 0.05)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("truth", "draws"), [(1.2, 100_000), (1.05, 2_000_000)])
@pytest.mark.parametrize("classes", [2, 10])
def test_an_excess_is_detected(truth, draws, classes):
    """A true 1.2 is told from a claim of 1 with 100 000 draws of each label, and 1.05 with two million."""
    found = audit_mechanism(response(truth, classes), range(classes), 1.0, draws=draws, confidence=0.999_999)
    assert not found.holds
    assert found.lower <= truth * (1 + 1e-3)


def test_a_mechanism_that_is_far_too_weak_is_noticed():
    """Twice the noise that a claim needs is called wasteful, and the right noise is not."""
    half = audit_mechanism(response(0.5, 3), range(3), 1.0, draws=100_000, confidence=SURE)
    right = audit_mechanism(response(1.0, 3), range(3), 1.0, draws=100_000, confidence=SURE)
    assert half.holds
    assert half.wasteful
    assert half.lower < 0.5 < half.upper
    assert not right.wasteful
    assert right.lower < 1.0 < right.upper


def test_no_upper_bound_is_claimed_of_floats():
    """Floats that are equal may differ in their bits, so that nothing is said of what they give away at most."""
    zero = audit_mechanism(lambda label, n: np.full(n, -0.0 if label else 0.0), [0, 1], 1.0, draws=10_000)
    assert zero.upper is None
    assert not zero.wasteful


def test_larger_inputs_are_not_shown():
    """A data set that was given as an input is named by its number: its labels stay where they are."""
    found = audit_mechanism(lambda data, n: [data[0]] * n, [("zq-1", "x"), ("zq-2", "x")], 1.0, draws=2_000)
    assert not found.holds
    assert "from input" in found.worst


@pytest.mark.usefixtures("as_users_call")
def test_upper_bounds_are_as_sure_as_stated():
    """Of 60 upper bounds at confidence 0.9, few are below the truth (at 0.05 each, more are with a chance of 1e-9)."""
    found = [audit_mechanism(response(1.0, 3), range(3), 2.0, draws=2_400, confidence=0.9) for _ in range(60)]
    assert sum(audit.upper is not None for audit in found) == 60
    assert sum(audit.upper < 1.0 for audit in found) <= binom.isf(1e-9, 60, 0.05)
    assert np.mean([audit.upper for audit in found]) < 1.6


def gaussian_delta(epsilon, deviation):
    """The delta of a Gaussian shift by 1 (Balle and Wang 2018, theorem 8)."""
    from scipy.special import ndtr  # noqa: PLC0415

    half, gap = 1 / (2 * deviation), epsilon * deviation
    return float(ndtr(half - gap) - math.exp(epsilon) * ndtr(-half - gap))


def test_claims_with_a_delta_are_judged_at_that_delta():
    """Gaussian noise is sound at its own (epsilon, delta), and is not at half of the delta or at delta 0."""
    delta, noise = gaussian_delta(1.0, 1.0), lambda shift, n: np.round(shift + RNG.standard_normal(n), 3)
    sound = audit_mechanism(noise, [0.0, 1.0], 1.0, delta=delta, draws=400_000, confidence=SURE)
    assert sound.holds
    assert sound.lower > 0.8
    assert not audit_mechanism(noise, [0.0, 1.0], 1.0, delta=delta / 2, draws=400_000, confidence=SURE).holds
    assert not audit_mechanism(noise, [0.0, 1.0], 1.0, draws=400_000, confidence=SURE).holds


OUTPUTS = {
    "texts": lambda code: ("no", "yes")[code],
    "sets": lambda code: {code},
    "booleans": bool,
    "numbers and nothing": lambda code: None if code else 1.5,
    "tuples": lambda code: (code, "a"),
    "arrays": lambda code: np.array([code, 1]),
    "not a number": lambda code: math.nan if code else 0.5,
    "big numbers": lambda code: 10**30 + code,
    "lists of different lengths": lambda code: [1] * (code + 1),
    "dictionaries": lambda code: {"a": code},
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("many", [True, False])
def test_outputs_may_be_anything(kind, many):
    """Whatever outputs are, randomized response on them is not accused at its epsilon, and is at 0.6 of it."""
    draw, form = response(1.0, 2), OUTPUTS[kind]

    def several(label, n):
        return [form(int(code)) for code in draw(label, n)]

    def single(label):
        return form(int(draw(label, 1)[0]))

    mechanism = several if many else single
    assert audit_mechanism(mechanism, [0, 1], 1.001, draws=1_000, confidence=SURE).holds
    assert not audit_mechanism(mechanism, [0, 1], 0.6, draws=6_000, confidence=SURE).holds


def test_lines_of_numbers_are_told_apart():
    """Lines have cells of their own, each one, so that upper bounds are those of whole lines; not where ints are large.

    Ints of 64 bits that floats cannot hold may share a line, and nothing is said of what they give away at most.
    """
    lines = (np.arange(1 << 10)[:, None] >> np.arange(10)) & 1
    for whole in (lines.astype(np.float64), lines.astype(np.float64) - 1, lines.astype(np.int64) << 60):
        found = choose_partitions([np.repeat(whole, 8, axis=0)] * 2)[0]
        assert found.single == (np.abs(whole).max() < 2**53)
        assert found.size - found.rest == 1 << 10
        assert (found.count(whole)[: 1 << 10] == 1).all()


def rarely(other, form=list, share=1.5e-4, width=()):
    """One of two outputs, whatever the label is, and rarely another, that may change the type of the whole batch."""

    def draw(_, n):
        rare = RNG.random(n) < share
        found = RNG.integers(0, 2, (n, *width))
        if form is np.array:
            return np.where(rare.reshape(n, *(1 for _ in width)), other, found) if rare.any() else found
        return [other if each else one for each, one in zip(rare.tolist(), found.tolist(), strict=True)]

    return draw


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    "mechanism",
    [
        rarely(math.nan, np.array),
        rarely(0.5),
        rarely(None),
        rarely(math.nan, lambda array: array.tolist()),
        rarely(math.nan, np.array, width=(3,)),
        rarely(None, width=(3,)),
    ],
    ids=["array with NaN", "list with a float", "list with None", "list with NaN", "lines with NaN", "lists with None"],
)
def test_a_rare_output_of_another_type_accuses_no_one(mechanism):
    """A mechanism that ignores its input is not accused if one output makes a batch floats (false alarm 1e-8)."""
    for _ in range(4):
        assert audit_mechanism(mechanism, [0, 1], 1.0, draws=10_000, confidence=SURE).holds


RARE = [0, 1.0, 2, 1, -1]
FORMS = {
    "numbers": (
        [np.arange(400) % 3] * 2,
        [np.array([0, 1, 2, 1, -1]), np.array(RARE), RARE, [*RARE, None, "1", 9**99]],
    ),
    "fractions": (
        [RNG.random(400)] * 2,
        [np.array([0, 1, 2]), np.array([0.5, 0.25, 3]), [0.5, None, np.float32(0.25)]],
    ),
    "anything": (
        [[None, 1, "a", 0] * 100, [1, True] * 200],
        [
            np.array([1, 0, 7]),
            np.array([1, 0, np.nan]),
            np.array([True, False]),
            [1, None, "b", np.int8(1), 1j],
            [1 + 0j],
        ],
    ),
    "lines": (
        [(np.arange(400)[:, None] >> np.arange(2)) & 1] * 2,
        [np.array([[0, 1], [1, 1]]), np.array([[0, 1], [1, np.nan]]), [[0, 1], [1.0, None]], [(0, 1), None, "ab"]],
    ),
    "lines and nothing": (
        [[None, [1, 2]] * 200, [(1, 2)] * 400],
        [np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4.5]]), [[1, 2], None], [np.array([1.0, 2])]],
    ),
    "sets": ([[{k, k + 1} for k in range(400)]] * 2, [[{1, 2}, {2.0, 3.0}, None], [frozenset({1, 2}), {2, 3}]]),
}


@pytest.mark.parametrize("form", FORMS)
def test_cells_are_functions_of_one_output(form):
    """An output is in the same cell alone, in any batch, in a list or an array, and of any type that has its value."""
    pilot, batches = FORMS[form]
    for view in choose_partitions(pilot):
        for batch in batches:
            alone = [view.count(batch[place : place + 1]) for place in range(len(batch))]
            assert (view.count(batch) == np.sum(alone, axis=0)).all()
            if isinstance(batch, np.ndarray):
                assert (view.count(batch.tolist()) == view.count(batch)).all()
                assert (view.count(batch.astype(np.float64)) == view.count(batch)).all()


@pytest.mark.parametrize(
    "form",
    [
        lambda label, found: found.astype([np.int64, np.float64][label]),
        lambda label, found: found.astype([bool, np.uint8][label]),
        lambda label, found: found.tolist() if label else found,
        lambda label, found: [None if one else (0, 0.0)[label] for one in found.tolist()],
    ],
    ids=["floats", "booleans", "lists", "among other outputs"],
)
def test_no_upper_bound_is_claimed_where_types_differ(form):
    """Outputs that are equal and of other types share a cell: nothing is said of what they give away at most."""
    found = audit_mechanism(lambda label, n: form(label, RNG.integers(0, 2, n)), [0, 1], 5.0, draws=2_000)
    assert found.upper is None


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("kind", ["texts", "booleans", "sets"])
def test_upper_bounds_are_given_of_few_outputs_of_any_kind(kind):
    """Few outputs of one type also get an upper bound."""
    draw, form = response(1.0, 2), OUTPUTS[kind]
    found = audit_mechanism(lambda label, n: [form(int(code)) for code in draw(label, n)], [0, 1], 2.0, draws=8_000)
    assert found.lower < 1.0 < found.upper < 1.5


@pytest.mark.usefixtures("as_users_call")
def test_sets_of_too_many_kinds_are_told_apart():
    """Sets of which nearly none comes twice are judged by what they hold."""

    def bits(label):
        chances = np.where(np.arange(60) == label, 0.5, 1 / (math.exp(3) + 1))
        return {*np.flatnonzero(RNG.random(60) < chances).tolist(), 100 + int(RNG.integers(0, 100_000))}

    assert not audit_mechanism(bits, [3, 40], 1.5, draws=4_000, confidence=0.999).holds


def test_outputs_are_counted_in_bounded_pieces():
    """No call asks for more outputs than fit in memory, all that were asked for are counted, and progress is told."""
    asked, told = [], []

    def draw(_, n):
        asked.append(n)
        return np.zeros(n, dtype=np.int64)

    found = audit_mechanism(
        draw, [0, 1], 1.0, draws=1_000_000, progress=lambda name, done, total: told.append((name, done, total))
    )
    assert max(asked) <= 1 << 18
    assert sum(asked) == found.draws >= 2_000_000
    assert told[-1] == ("audit", 2_000_000, 2_000_000)
    assert found.lower == 0
    assert found.holds


def test_early_stop_saves_draws():
    """A claim that is refuted early takes few draws."""
    assert audit_mechanism(lambda label, n: np.full(n, label), [0, 1], 1.0, draws=10_000_000).draws < 50_000


def boom(label, n):
    """A mechanism that fails and says its label."""
    raise ValueError(f"secret {label} {n}")


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("mechanism", "inputs", "claim", "words"),
    [
        (boom, ["zq-1", "zq-2"], 1.0, "raised ValueError"),
        (lambda label, n: [label] * (n - 1), [0, 1], 1.0, "outputs, found"),
        (lambda label, n: label, [0, 1], 1.0, "found one int"),  # noqa: ARG005
        (lambda label, n: "text", [0, 1], 1.0, "found one str"),  # noqa: ARG005
        (response(1.0, 2), [0], 1.0, "at least two different inputs, found 1"),
        (response(1.0, 2), [], 1.0, "at least two different inputs, found 0"),
        (response(1.0, 2), ["a", "a"], 1.0, "at least two different inputs"),
        (7, [0, 1], 1.0, "can be called"),
        (response(1.0, 2), [0, 1], 0.0, "above 0"),
        (response(1.0, 2), [0, 1], -1.0, "above 0"),
        (response(1.0, 2), [0, 1], math.nan, "found nan"),
        (response(1.0, 2), [0, 1], math.inf, "above 0"),
    ],
)
def test_what_cannot_be_audited_is_refused(mechanism, inputs, claim, words):
    """Invalid inputs get a clear error, which contains no label."""
    with pytest.raises(InputError, match=words) as refused:
        audit_mechanism(mechanism, inputs, claim, draws=1_000)
    assert "zq" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("wrong", [{"delta": 1.0}, {"delta": -0.1}, {"confidence": 1.0}, {"confidence": 0.2}])
def test_a_wrong_delta_or_confidence_is_refused(wrong):
    """A delta or a confidence that none can be is refused."""
    with pytest.raises(EpsilonError):
        audit_mechanism(response(1.0, 2), [0, 1], 1.0, draws=1_000, **wrong)


def test_too_few_draws_are_refused():
    """Fewer than a hundred draws show nothing."""
    with pytest.raises(InputError, match="draws"):
        audit_mechanism(response(1.0, 2), [0, 1], 1.0, draws=10)
