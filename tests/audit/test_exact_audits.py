"""Exact audits: of written-out laws, of channels' integers, and of what their draw does with given words."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp.audit import Audit, audit_channel, audit_drawing, audit_matrix
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy import log_above
from labeldp.privacy.channels import (
    BinChannel,
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    ClusterChannel,
    GroupedChannel,
    ResponseChannel,
    SubsetChannel,
    laplace_channel,
    one_bit_channel,
    pack,
)

EVERY_SIZE = pack(np.tril(np.ones((6, 6), dtype=np.bool_)))
SHARES = np.array([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]])
CHANNELS = {
    "response": lambda bits: ResponseChannel.at(7, 1.0, bits),
    "candidates": lambda bits: CandidateChannel.at(6, 1.0, EVERY_SIZE, bits),
    "subsets of candidates": lambda bits: CandidateSubsetChannel.at(6, 1.0, EVERY_SIZE, bits),
    "subsets": lambda bits: SubsetChannel.at(6, 2, 1.0, bits),
    "bits": lambda bits: BitChannel.symmetric(5, 1.0, bits),
    "clusters": lambda bits: ClusterChannel.at(SHARES, 1.0, np.array([0, 1, 1], dtype=np.int32), bits),
    "groups": lambda bits: GroupedChannel(
        3, (ResponseChannel.at(3, 0.6, bits), ResponseChannel.at(3, 0.3, bits)), (1, 3), np.array([0, 1]), bits=bits
    ),
}
NUMBERS = {
    "one bit": lambda: one_bit_channel(9, 1.0),
    "laplace": lambda: laplace_channel(9, 1.0),
    "bins": lambda: BinChannel(5, (0, 1 << 33), *_bin_weights(), (0, 2)),
}


def _bin_weights():
    response = ResponseChannel.at(2, 1.0)
    return response.keep, response.other


@pytest.mark.parametrize("case", [*CHANNELS, *NUMBERS])
def test_the_law_is_what_the_channel_claims(case):
    """From integers written out a second time, each channel has the epsilon that it claims, and no other."""
    channel = CHANNELS[case](64) if case in CHANNELS else NUMBERS[case]()
    found = audit_channel(channel)
    assert found.holds
    assert found.lower == found.upper
    assert channel.epsilon * (1 - 1e-12) <= found.lower <= channel.epsilon
    assert not audit_channel(channel, math.nextafter(found.lower, 0.0)).holds


@pytest.mark.parametrize("case", CHANNELS)
def test_a_channel_that_claims_less_is_caught(case, monkeypatch):
    """Odds that a channel understates do not follow from its integers."""
    channel = CHANNELS[case](64)
    vars(channel).pop("odds", None)  # what was computed already
    monkeypatch.setattr(type(channel), "odds", Fraction(2))
    found = audit_channel(channel)
    assert found.claim == log_above(Fraction(2))
    assert not found.holds


def test_a_table_that_disagrees_with_the_integers_is_caught(monkeypatch):
    """The epsilon of a table counts if it exceeds that of the integers."""
    channel = ResponseChannel.at(3, 1.0)
    table = dataclasses.replace(channel.table(), matrix=np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))
    monkeypatch.setattr(ResponseChannel, "table", lambda *_: table)
    found = audit_channel(channel)
    assert not found.holds
    assert found.lower == pytest.approx(math.log(8))
    assert "table" in found.worst


@pytest.mark.parametrize("case", ["response", "candidates", "clusters"])
def test_the_drawing_is_counted_where_words_are_short(case):
    """With words of 16 bits all words are drawn with, and what is counted is the epsilon of the integers."""
    channel = CHANNELS[case](16)
    found = audit_drawing(channel)
    assert (found.method, found.holds) == ("exact", True)
    rows = [channel.take(np.array([row])) for row in range(len(channel.clusters))] if case == "clusters" else []
    assert found.lower <= channel.epsilon
    assert rows or found.lower == channel.epsilon


@pytest.mark.parametrize("case", CHANNELS)
def test_the_drawing_of_long_words_is_bounded(case):
    """With words of 64 bits each drawing keeps its epsilon (false alarm 1e-6), and much of it is shown."""
    found = audit_drawing(CHANNELS[case](64))
    assert found.holds
    assert found.lower > (0.8 if case != "groups" else 0.5)


class OneWordMore(ResponseChannel):
    """At most for below."""

    def draw(self, codes, words):
        """Keep with one word more."""
        others = (words[:, 0] - np.uint64(self.keep)) // np.uint64(self.other)
        other = (others.astype(np.int64) + 1 + codes) % self.classes
        return np.where(words[:, 0] <= self.keep, codes, other).astype(np.int32)


class DoubledEpsilon(ResponseChannel):
    """Drawn with another law than the one that is claimed."""

    def draw(self, codes, words):
        """Twice the epsilon."""
        return ResponseChannel.at(self.classes, 2.0).draw(codes, words)


def test_a_drawing_that_keeps_one_word_more_is_caught():
    """One word too many out of 65 536 is counted."""
    right = ResponseChannel.at(3, 1.0, 16)
    found = audit_drawing(OneWordMore(3, right.keep, right.other, bits=16))
    assert not found.holds
    assert found.lower == pytest.approx(math.log((right.keep + 1) / (right.other - 1)))


def test_a_drawing_with_another_law_is_caught():
    """A draw with twice the epsilon of the integers is shown with long words too, without random ones."""
    right = ResponseChannel.at(5, 1.0)
    found = audit_drawing(DoubledEpsilon(5, right.keep, right.other))
    assert not found.holds
    assert 1.99 < found.lower <= 2.0


def brute_force(lines, delta):
    """The least odds at which all events and pairs of inputs keep the claim."""
    best = Fraction(0)
    for one, other in itertools.permutations(lines, 2):
        for event in itertools.product((0, 1), repeat=len(one)):
            p, q = (sum(x for x, inside in zip(line, event, strict=True) if inside) for line in (one, other))
            if p - delta > 0:
                best = max(best, (p - delta) / q if q else math.inf)
    return best


@pytest.mark.parametrize("delta", [0.0, 0.125, 0.5])
def test_a_written_out_law_is_judged_exactly(delta):
    """On random laws in fractions, epsilon at delta is what the enumeration of all events gives."""
    rng = np.random.default_rng(4)
    for _ in range(20):
        weights = rng.integers(0, 6, (3, 5)) + (np.arange(5) == rng.integers(5))
        lines = [[Fraction(int(w), int(line.sum())) for w in line] for line in weights]
        expected, found = brute_force(lines, Fraction(delta)), audit_matrix(lines, 1.0, delta=delta)
        assert found.lower == found.upper
        assert found.lower == (math.inf if expected == math.inf else log_above(max(expected, Fraction(1))))


def test_a_rounded_law_is_bounded_from_both_sides():
    """If entries are rounded, the truth lies between the bounds, and a claim inside them is not refuted."""
    truth = [[Fraction(2, 3), Fraction(1, 3)], [Fraction(1, 3), Fraction(2, 3)]]
    found = audit_matrix([[round(float(x), 4) for x in line] for line in truth], math.log(2), rounding=1e-4)
    assert found.lower < math.log(2) < found.upper
    assert found.holds
    assert found.upper - found.lower < 1e-3


@pytest.mark.parametrize(
    ("matrix", "options", "words"),
    [
        ([[0.5, 0.5]], {}, "at least two inputs"),
        ([[0.5, 0.5], [1.0]], {}, "all of one length"),
        ([[0.5, 0.4], [0.5, 0.5]], {}, "sum to 1 at position 0"),
        ([[1.5, -0.5], [0.5, 0.5]], {}, "negative"),
        ([[math.nan, 0.5], [0.5, 0.5]], {}, "finite numbers"),
        ([["a", 0.5], [0.5, 0.5]], {}, "finite numbers"),
        ([[0.5, 0.5], [0.5, 0.5]], {"rounding": -1.0}, "at least 0"),
        ([[0.5, 0.5], [0.5, 0.5]], {"claim": 0.0}, "above 0"),
        ([[0.5, 0.5], [0.5, 0.5]], {"delta": 1.0}, "below 1"),
    ],
)
def test_what_is_no_law_is_refused(matrix, options, words):
    """Matrices that are not distributions, and invalid claims, get a clear error."""
    with pytest.raises((InputError, EpsilonError), match=words):
        audit_matrix(matrix, **({"claim": 1.0} | options))


@pytest.mark.parametrize(
    ("audit", "sentence"),
    [
        (Audit(1.0, 0.0, 1.0, 1.0, 1.0, 0, "exact", "x"), "The claim of epsilon 1 holds: epsilon is 1."),
        (
            Audit(1.0, 0.0, 0.4, 0.45, 1.0, 0, "exact", "x"),
            "The claim of epsilon 1 was not refuted: epsilon is between 0.4 and 0.45. "
            "The mechanism is wasteful: it adds more noise than the claim requires.",
        ),
        (
            Audit(1.0, 1e-6, 0.5, None, 0.99, 10, "sampled", "x"),
            "The claim of epsilon 1, delta 1e-06, was not refuted: the lower bound is 0.5, with confidence 0.99.",
        ),
        (
            Audit(1.0, 0.0, math.nextafter(1.0, 2.0), None, 0.99, 10, "one run", "x"),
            "The claim of epsilon 1 is wrong: epsilon is at least 1.0000000000000002, with confidence 0.99, by x.",
        ),
        (
            Audit(1.0, 0.0, math.inf, math.inf, 1.0, 0, "exact", "x"),
            "The claim of epsilon 1 is wrong: epsilon is infinity, by x.",
        ),
        (
            Audit(1.0, 0.0, 0.5, None, 0.99, 10, "estimate", "x"),
            "The claim of epsilon 1 is compared with an estimate of 0.5, which proves nothing.",
        ),
    ],
)
def test_a_verdict_is_one_sentence_with_its_numbers(audit, sentence):
    """The sentence says what was claimed, what was shown, how sure it is, and no more."""
    assert str(audit) == sentence


def test_an_audit_refuses_bounds_that_none_can_be():
    """An audit with a negative or missing bound is not made."""
    for lower, upper in ((-1.0, None), (math.nan, None), (0.5, math.nan)):
        with pytest.raises(ValueError, match="bounds of at least 0"):
            Audit(1.0, 0.0, lower, upper, 0.99, 10, "sampled", "x")
