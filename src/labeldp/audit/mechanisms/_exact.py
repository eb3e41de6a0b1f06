"""Exact audits: of a law that is written out, of a channel's integers, and of what its draw does with given words."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Int, UInt64

from labeldp import _checks
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.mechanisms._sampled import Progress, audit_mechanism
from labeldp.errors import InputError
from labeldp.privacy import log_above, printed_above
from labeldp.privacy.channels import (
    BinChannel,
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    Channel,
    ClusterChannel,
    GridChannel,
    GroupedChannel,
    GroupedNumberChannel,
    ResponseChannel,
    SubsetChannel,
    row_arrays,
)

#: Outcomes of a law in words, and their weights under the labels that it tells apart, up to a common factor.
Columns = Iterator[tuple[str, Sequence[int | Fraction]]]

_WORDS = 1 << 16
_TOP = (1 << 64) - 1
_MOST_ROWS, _MOST_CLASSES = 16, 256
#: A table of floats is not asked to be nearer than this to the integers.
_ROUNDING = 1e-9
#: Words that give one outcome for one label are in at most so many ranges: cluster response has two.
_RANGES = 2
_LN = Context(prec=60)


def audit_matrix(matrix: Sequence[Sequence[Any]], claim: float, *, delta: float = 0.0, rounding: float = 0.0) -> Audit:
    """The epsilon of a law that is written out: a line for each input, a probability for each outcome.

    Args:
        matrix: Probabilities, as fractions, whole numbers or floats (which are taken as the binary numbers that they
            are), shape (inputs, outcomes).
        claim: The epsilon that is claimed, in nats.
        delta: The failure probability that is claimed with it.
        rounding: How far each entry may be from the true one. Then ``lower`` and ``upper`` are on either side of the
            truth; without it they are equal.

    Returns:
        An exact audit; ``lower`` is infinite where one input alone can give an outcome.

    Raises:
        EpsilonError: A claim or delta that none can be.
        InputError: Lines that are no distributions, of different lengths, or fewer than two.

    Guarantee:
        Exact: the least epsilon for which ``P(E | a) <= exp(epsilon) P(E | b) + delta`` for all events and inputs is
        ``log max (P(E | a) - delta) / P(E | b)``. The maximum over events is that over the outcomes of the largest
        ratios, up to some place, by the lemma of Neyman and Pearson; all these are tried, with fractions.

    References:
        Dwork et al. 2006; Neyman and Pearson 1933.

    Example:
        >>> audit_matrix([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]], claim=1.0).holds
        False
    """
    claim, delta = check_claim(claim), _checks.delta(delta)
    off = Fraction(_checks.number(rounding, "rounding"))
    if off < 0:
        raise InputError(f"expected a rounding of at least 0, found {rounding!r}")
    lines = _distributions(matrix, off)
    least = min(Fraction(delta), Fraction(repr(delta)))
    pairs = list(itertools.permutations(range(len(lines)), 2))
    found: list[tuple[Any, int, int]] = [(_odds(lines[a], lines[b], least, off)[0], a, b) for a, b in pairs]
    low, a, b = max(found)
    most: list[Any] = [_odds(lines[a], lines[b], least, -off)[0] for a, b in pairs]
    lower, upper = _log(low, up=not off), _log(max(most), up=True)
    event = _odds(lines[a], lines[b], least, off)[1]
    worst = f"{len(event)} outcome(s), number {event[0]} among them, from input {a} against input {b}"
    return Audit(claim, delta, lower, upper if not off or upper < math.inf else None, 1.0, 0, "exact", worst)


def audit_channel(channel: Channel, claim: float | None = None) -> Audit:
    """The epsilon of a channel, from its integers, written out here a second time.

    Args:
        channel: Any channel of labeldp.
        claim: The epsilon that is claimed, in nats; by default the channel's own, which a certificate prints.

    Returns:
        An exact audit: the largest ratio of two weights of one outcome, over all labels and over all rows' laws that
        the channel declares, rounded up. Where its table is small, the table's ratios count too.

    Raises:
        EpsilonError: A claim that none can be.
        InputError: A channel of a kind that is not known here.

    Example:
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> audit_channel(ResponseChannel.at(10, 1.0)).holds
        True
    """
    claimed = check_claim((channel.epsilon or math.ulp(0.0)) if claim is None else claim)
    lower, worst = _of_integers(channel)
    tabled = _of_tables(channel)
    if tabled > lower:
        lower, worst = tabled, "the channel's table, which disagrees with its integers"
    return Audit(claimed, 0.0, lower, lower, 1.0, 0, "exact", worst)


def audit_drawing(
    channel: Channel,
    claim: float | None = None,
    *,
    confidence: float = 0.999_999,
    progress: Progress | None = None,
) -> Audit:
    """What a channel's ``draw`` does, from given words: whether it keeps the epsilon that its integers have.

    Where one word decides a row, 65 536 words that are spread evenly are drawn with, for each label. With words of 16
    bits these are all, and the law is counted. With words of 64 bits each probability is known to 2 words out of them,
    if an outcome is drawn on at most two ranges of words for one label, as it is for every channel here. Where more
    words decide, random words are drawn with, and the audit is a sampled one (``audit_mechanism``).

    Args:
        channel: Any channel of labeldp.
        claim: The epsilon that is claimed, in nats; by default the channel's own.
        confidence: Of a sampled audit, one minus the chance to accuse a sound draw.
        progress: Called with ("audit", done, total) from time to time.

    Returns:
        An audit of the drawing; for up to 16 different rows and 256 labels, or 4 and 16 if it is a sampled one.

    Raises:
        EpsilonError: A claim that none can be.
        InputError: A channel of no rows.
    """
    claimed = check_claim((channel.epsilon or math.ulp(0.0)) if claim is None else claim)
    if channel.words_per_row == 1:
        rows, codes = _rows(channel, _MOST_ROWS), _codes(channel, _MOST_CLASSES)
        found = [_drawn_evenly(channel, row, codes, claimed) for row in rows]
    else:
        rows, codes = _rows(channel, _MOST_ROWS // 4), _codes(channel, _MOST_CLASSES // 16)
        sure = 1.0 - (1.0 - check_confidence(confidence)) / max(1, len(rows))
        found = [
            audit_mechanism(_drawer(channel, row), codes, claimed, draws=_WORDS, confidence=sure, progress=progress)
            for row in rows
        ]
    if not found:
        raise InputError("expected a channel of some rows, found none; give the channel of a release that has rows")
    worst = max(found, key=lambda audit: audit.lower)
    return dataclasses.replace(worst, confidence=confidence) if worst.method == "sampled" else worst


def _distributions(matrix: Sequence[Sequence[Any]], off: Fraction) -> list[list[Fraction]]:
    """Lines of exact probabilities."""
    try:
        lines: list[list[Fraction]] = [[Fraction(_number(entry)) for entry in line] for line in matrix]
    except (TypeError, ValueError, OverflowError):
        raise InputError("expected probabilities as finite numbers, found something else") from None
    if len(lines) < 2 or len({len(line) for line in lines}) != 1:
        raise InputError(
            f"expected a line of probabilities for each of at least two inputs, all of one length, found {len(lines)}"
        )
    for number, line in enumerate(lines):
        total = sum(line, Fraction(0))
        if any(entry < 0 for entry in line) or abs(total - 1) > off * len(line):
            raise InputError(
                f"expected probabilities that sum to 1 in line {number}, found a sum of {float(total):.17g} or a "
                "negative entry; give fractions, or state the rounding of each entry (rounding=1e-12)"
            )
    return lines


def _number(entry: Any) -> Any:
    """A number as fractions take it."""
    return entry.item() if isinstance(entry, np.generic) else entry


def _odds(
    one: Sequence[Fraction], other: Sequence[Fraction], delta: Fraction, off: Fraction
) -> tuple[Fraction | float, list[int]]:
    """The largest ``(P(E | one) - delta) / P(E | other)`` and its event, if each entry is off by as much as said."""
    pairs = [(max(p - off, Fraction(0)), max(q + off, Fraction(0))) for p, q in zip(one, other, strict=True)]
    order = sorted(range(len(pairs)), key=lambda z: -(pairs[z][0] / pairs[z][1] if pairs[z][1] else math.inf))
    order = [z for z in order if pairs[z][0] or pairs[z][1]]
    best: tuple[Fraction | float, list[int]] = (Fraction(0), order[:1])
    p = q = Fraction(0)
    for place, z in enumerate(order):
        p, q = p + pairs[z][0], q + pairs[z][1]
        odds = (p - delta) / q if q else (math.inf if p > delta else Fraction(0))
        if odds > best[0]:
            best = odds, order[: place + 1]
    return best


def _log(odds: Fraction | float, up: bool) -> float:
    """The logarithm of odds, rounded up, or down by a little; 0 where they are below 1."""
    if odds == math.inf:
        return math.inf
    exact = Fraction(odds)
    if exact <= 1:
        return 0.0
    return log_above(exact) if up else log_above(exact) * (1.0 - 1e-12)


def _response(channel: ResponseChannel) -> Columns:
    yield "a class from itself", (channel.keep, channel.other)


def _bins(channel: BinChannel) -> Columns:
    yield "a bin from itself", (channel.keep, channel.other) if channel.other else (1, 1)


def _candidates(channel: CandidateChannel) -> Columns:
    """A label outside gives each candidate with the weight ceil(W / m), but the last with what is left."""
    word = 1 << channel.bits
    for m in range(2, channel.classes + 1):
        even = -(-word // m)
        outside = ((even,), (word - (m - 1) * even,)) if m < channel.classes else ((), ())
        for name, weights in zip(("a candidate", "the last candidate"), outside, strict=True):
            yield f"{name} of {m}", (channel.keep[m], channel.other[m], *weights)


def _candidate_subsets(channel: CandidateSubsetChannel) -> Columns:
    """A label outside stands in for each candidate equally often."""
    word = 1 << channel.bits
    for m in range(2, channel.classes + 1):
        d, member = channel.size[m], channel.member[m]
        inside = Fraction(member, math.comb(m - 1, d - 1))
        without = Fraction(word - member, math.comb(m - 1, d)) if d < m else inside
        yield f"a subset of {m} candidates from one in it", (inside, without, (d * inside + (m - d) * without) / m)


def _clusters(channel: ClusterChannel) -> Columns:
    for number, (keep, weights) in enumerate(zip(channel.keep, channel.weights, strict=True)):
        for z, weight in enumerate(weights):
            yield f"class number {z} in cluster {number} from itself", (keep + weight, weight)


def _subsets(channel: SubsetChannel) -> Columns:
    k, d = channel.classes, channel.size
    word = 1 << channel.bits
    inside = Fraction(channel.member, math.comb(k - 1, d - 1))
    yield "a subset from a class in it", (inside, Fraction(word - channel.member, math.comb(k - 1, d)))


def _bits(channel: BitChannel) -> Columns:
    """Two bits differ in law: those of the two labels."""
    p, q, word = channel.true, channel.false, 1 << channel.bits
    chances = [((word - p, p), (word - q, q)), ((word - q, q), (word - p, p))]
    for one, other in itertools.product((0, 1), repeat=2):
        weights = [first[one] * second[other] for first, second in chances]
        yield f"a set with bits {one} and {other} from the first of them", weights


def _grid(channel: GridChannel) -> Columns:
    """Between knots the law is a mixture of two of them."""
    for z, weights in enumerate(zip(*channel.weights, strict=True)):
        yield f"outcome {z} from the knot that makes it likeliest", weights


_COLUMNS: Mapping[type[Channel], Callable[[Any], Columns]] = {
    ResponseChannel: _response,
    BinChannel: _bins,
    CandidateChannel: _candidates,
    CandidateSubsetChannel: _candidate_subsets,
    ClusterChannel: _clusters,
    SubsetChannel: _subsets,
    BitChannel: _bits,
    GridChannel: _grid,
}


def _of_integers(channel: Channel) -> tuple[float, str]:
    """The epsilon of a unit, rounded up, and the outcome that shows it."""
    if isinstance(channel, GroupedChannel | GroupedNumberChannel):
        parts = [_of_group(part, repeats) for part, repeats in zip(channel.channels, channel.repeats, strict=True)]
        return max(parts)
    odds, worst = _worst(channel)
    return _log(odds, up=True), worst


def _of_group(channel: Channel, repeats: int) -> tuple[float, str]:
    """The epsilon of units of so many rows: all their labels may be replaced."""
    odds, worst = _worst(channel)
    if repeats == 1 or odds == math.inf:
        return _log(odds, up=True), worst
    exact = Fraction(odds)
    log = _LN.ln(_LN.divide(Decimal(exact.numerator), Decimal(exact.denominator)))
    return printed_above(_LN.multiply(log, Decimal(repeats))), f"{worst}, in each of {repeats} rows"


def _worst(channel: Channel) -> tuple[Fraction | float, str]:
    """The largest ratio of two weights of one outcome."""
    for kind, columns in _COLUMNS.items():
        if isinstance(channel, kind):
            ratios = [(_ratio(weights), name) for name, weights in columns(channel)]
            return max(ratios, default=(Fraction(1), "no outcome"))
    raise InputError(f"expected a channel of a known kind, found {type(channel).__name__}; use audit_matrix")


def _ratio(weights: Sequence[int | Fraction]) -> Fraction | float:
    low, high = min(weights), max(weights)
    return Fraction(high) / Fraction(low) if low > 0 else math.inf


def _of_tables(channel: Channel) -> float:
    """What the written-out tables of single rows show, less what floats may be off by; 0 where there are none."""
    if isinstance(channel, GroupedChannel | GroupedNumberChannel):
        return 0.0  # a unit has several rows
    found = [0.0]
    for row in _rows(channel, _MOST_ROWS):
        try:
            matrix = channel.matrix(row)
        except (ValueError, MemoryError):  # the law is too large to be written out
            continue
        low, high = matrix.min(axis=0), matrix.max(axis=0)
        known = high > 1e-12
        worst = float((high[known] / np.maximum(low[known], 1e-300)).max()) if known.any() else 1.0
        found.append(max(0.0, math.log(worst) - _ROUNDING))
    return max(found)


def _rows(channel: Channel, most: int) -> list[int]:
    """Rows of different laws, a few of them."""
    arrays = [np.atleast_2d(values.T).T for values in row_arrays(channel).values()]
    if not arrays:
        return [0]
    if not len(arrays[0]):
        return []
    _, first = np.unique(np.hstack(arrays), axis=0, return_index=True)
    return [int(row) for row in first[:most]]


def _codes(channel: Channel, most: int) -> list[int]:
    """Labels, or some that are spread over all of them."""
    count = min(channel.classes, most)
    return sorted({round(code) for code in np.linspace(0, channel.classes - 1, count).tolist()})


def _drawn_evenly(channel: Channel, row: int, codes: Sequence[int], claim: float) -> Audit:
    """Bounds from counts of words that are spread evenly."""
    exact = channel.bits == 16
    words = np.arange(_WORDS, dtype=np.uint64) << np.uint64(channel.bits - 16)
    tables = [_counts(channel, row, code, words[:, None]) for code in codes]
    counts = np.array([np.pad(table, (0, max(map(len, tables)) - len(table))) for table in tables])
    most, least = counts.max(axis=0), counts.min(axis=0)
    off = 0 if exact else _RANGES
    low, high = _largest(most - off, least + off), _largest(most + off, least - off)
    lower = _log(low, up=exact)
    z = int(np.argmax((most - off) / np.maximum(least + off, 0.5)))
    worst = f"outcome {z}: at most {most[z]:,} and at least {least[z]:,} of {_WORDS:,} words give it"
    upper = _log(high, up=True)
    return Audit(claim, 0.0, lower, upper if upper < math.inf else None, 1.0, len(codes) * _WORDS, "exact", worst)


def _largest(most: Int[np.ndarray, "m"], least: Int[np.ndarray, "m"]) -> Fraction | float:
    """The largest ratio of counts; infinite where the smaller may be none."""
    pairs = {(int(high), int(low)) for high, low in zip(most, least, strict=True) if high > 0}
    return max((Fraction(high, low) if low > 0 else math.inf for high, low in pairs), default=Fraction(1))


def _counts(channel: Channel, row: int, code: int, words: UInt64[np.ndarray, "n w"]) -> Int[np.ndarray, "m"]:
    """How many words give each outcome, for one label."""
    of_row = channel.take(np.full(len(words), row))
    return np.bincount(of_row.draw(np.full(len(words), code, dtype=np.int32), words))


def _drawer(channel: Channel, row: int) -> Callable[[int, int], np.ndarray]:
    """The draw of one row as a mechanism; words are the audit's own."""
    rng = np.random.default_rng()
    one = channel.channels[0] if isinstance(channel, GroupedChannel) else channel
    halves = isinstance(one, SubsetChannel | CandidateSubsetChannel)  # whose picks take halves of whole words

    def draw(code: int, count: int) -> np.ndarray:
        shape = (count, channel.words_per_row)
        words = rng.integers(0, _TOP, shape, dtype=np.uint64, endpoint=True)
        cut = words[:, :1] if halves else words
        cut >>= np.uint64(64 - channel.bits)
        return channel.take(np.full(count, row)).draw(np.full(count, code, dtype=np.int32), words)

    return draw
