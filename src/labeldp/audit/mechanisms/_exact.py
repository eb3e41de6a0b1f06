"""Exact audits of a written-out output distribution, of a channel's integers, and of its draws from given words."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._shapes import Int, UInt64
from labeldp.audit._audit import Audit, check_claim, check_confidence
from labeldp.audit.mechanisms._sampled import audit_mechanism
from labeldp.errors import InputError
from labeldp.privacy import log_above, printed_above
from labeldp.privacy.channels import Channel, row_arrays

_WORDS = 1 << 16
_TOP = (1 << 64) - 1
_MOST_ROWS, _MOST_CLASSES = 16, 256
#: Tolerance on epsilon from a table of floats.
_ROUNDING = 1e-9
#: Maximum number of ranges that the words of one outcome form for one label (``Channel.draw``).
_RANGES = 2
_LN = Context(prec=60)


def audit_matrix(matrix: Sequence[Sequence[Any]], claim: float, *, delta: float = 0.0, rounding: float = 0.0) -> Audit:
    """Compute the epsilon of a mechanism from its matrix: a row for each input, a probability for each outcome.

    Args:
        matrix: Probabilities, as fractions, whole numbers or floats (taken as the binary numbers that they are), shape
            (inputs, outcomes).
        claim: The claimed epsilon, in nats.
        delta: The claimed failure probability.
        rounding: Largest error of each entry. With it, ``lower`` and ``upper`` bracket the truth; without it they are
            equal.

    Returns:
        An exact audit; ``lower`` is infinite if an outcome is possible for one input and impossible for another.

    Raises:
        EpsilonError: The claim or delta is out of range.
        InputError: There are fewer than two lines, or they have different lengths or are not distributions.

    Guarantee:
        Exact: the least epsilon for which ``P(E | a) <= exp(epsilon) P(E | b) + delta`` for all events and inputs is
        ``log max (P(E | a) - delta) / P(E | b)``. By the Neyman-Pearson lemma the largest event takes the outcomes in
        decreasing order of their ratios, up to some place; all places are tried, with fractions.

    References:
        Dwork et al. 2006; Neyman and Pearson 1933.

    Example:
        >>> audit_matrix([[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]], claim=1.0).holds
        False
    """
    claim, delta = check_claim(claim), _checks.delta(delta)
    error = Fraction(_checks.number(rounding, "rounding"))
    if error < 0:
        raise InputError(f"expected a rounding of at least 0, found {rounding!r}")
    lines = _check_distributions(matrix, error)
    least = min(Fraction(delta), Fraction(repr(delta)))
    pairs = list(itertools.permutations(range(len(lines)), 2))
    lower_odds: list[tuple[Any, int, int]] = [
        (_largest_odds(lines[a], lines[b], least, error)[0], a, b) for a, b in pairs
    ]
    worst_odds, a, b = max(lower_odds)
    upper_odds: list[Any] = [_largest_odds(lines[a], lines[b], least, -error)[0] for a, b in pairs]
    lower, upper = _log_odds(worst_odds, up=not error), _log_odds(max(upper_odds), up=True)
    event = _largest_odds(lines[a], lines[b], least, error)[1]
    worst = f"{len(event)} outcome(s), number {event[0]} among them, from input {a} against input {b}"
    return Audit(claim, delta, lower, upper if not error or upper < math.inf else None, 1.0, 0, "exact", worst)


def audit_channel(channel: Channel, claim: float | None = None) -> Audit:
    """Compute the epsilon of a channel from its integers, by the columns of its outcomes and apart from its odds.

    Args:
        channel: Any channel of labeldp.
        claim: The claimed epsilon, in nats; by default the channel's own, which a certificate prints.

    Returns:
        An exact audit: the largest ratio of two weights of one outcome, over all labels and all rows of the channel,
        rounded up. If the channel's table is small, the table's ratios count too.

    Raises:
        EpsilonError: The claim is out of range.

    Example:
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> audit_channel(ResponseChannel.at(10, 1.0)).holds
        True
    """
    claimed = check_claim((channel.epsilon or math.ulp(0.0)) if claim is None else claim)
    lower, worst = _epsilon_of_integers(channel)
    tabled = _epsilon_of_tables(channel)
    if tabled > lower:
        lower, worst = tabled, "the channel's table, which disagrees with its integers"
    return Audit(claimed, 0.0, lower, lower, 1.0, 0, "exact", worst)


def audit_drawing(channel: Channel, *, confidence: float = 0.999_999) -> Audit:
    """Audit a channel's ``draw`` on given words: does it keep the epsilon of its integers?

    If one word decides a row, the audit draws with 65 536 evenly spaced words for each label. With words of 16 bits
    these are all words, and outcomes are counted exactly. With words of 64 bits each probability is known up to 2 of
    these words, since the words of an outcome form at most two ranges for one label (``Channel.draw``).
    If several words decide a row, the audit draws with random words and is a sampled one (``audit_mechanism``).

    Args:
        channel: Any channel of labeldp; its own epsilon is the claim.
        confidence: For a sampled audit, one minus the probability of failing a sound draw.

    Returns:
        An audit of the draw, for up to 16 different rows and 256 labels; 4 rows and 16 labels if it is sampled.
    """
    claimed = check_claim(channel.epsilon or math.ulp(0.0))
    if channel.words_per_row == 1:
        rows, codes = _distinct_rows(channel, _MOST_ROWS), _spread_codes(channel, _MOST_CLASSES)
        audits = [_audit_even_words(channel, row, codes, claimed) for row in rows]
    else:
        rows, codes = _distinct_rows(channel, _MOST_ROWS // 4), _spread_codes(channel, _MOST_CLASSES // 16)
        level = 1.0 - (1.0 - check_confidence(confidence)) / max(1, len(rows))
        audits = [
            audit_mechanism(_row_mechanism(channel, row), codes, claimed, draws=_WORDS, confidence=level)
            for row in rows
        ]
    if not audits:
        raise InputError("expected a channel with rows, found none; give the channel of a non-empty release")
    worst = max(audits, key=lambda audit: audit.lower)
    return dataclasses.replace(worst, confidence=confidence) if worst.method == "sampled" else worst


def _check_distributions(matrix: Sequence[Sequence[Any]], off: Fraction) -> list[list[Fraction]]:
    """Lines of exact probabilities."""
    try:
        lines: list[list[Fraction]] = [[Fraction(_plain_number(entry)) for entry in line] for line in matrix]
    except (TypeError, ValueError, OverflowError):
        raise InputError("expected probabilities as finite numbers, found something else") from None
    if len(lines) < 2 or len({len(line) for line in lines}) != 1:
        raise InputError(
            f"expected a row of probabilities for each of at least two inputs, all of one length, found {len(lines)} "
            "rows, or several lengths"
        )
    for number, line in enumerate(lines):
        total = sum(line, Fraction(0))
        if any(entry < 0 for entry in line) or abs(total - 1) > off * len(line):
            raise InputError(
                f"expected probabilities that sum to 1 at position {number}, found a sum of {float(total):.17g} or a "
                "negative entry; give fractions, or state the rounding of each entry (rounding=1e-12)"
            )
    return lines


def _plain_number(entry: Any) -> Any:
    """A number of a type that fractions accept."""
    return entry.item() if isinstance(entry, np.generic) else entry


def _largest_odds(
    one: Sequence[Fraction], other: Sequence[Fraction], delta: Fraction, off: Fraction
) -> tuple[Fraction | float, list[int]]:
    """The largest ``(P(E | one) - delta) / P(E | other)`` and its event, if each entry may be off by ``off``."""
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


def _log_odds(odds: Fraction | float, up: bool) -> float:
    """Logarithm of odds, rounded up, or slightly down; 0 for odds below 1."""
    if odds == math.inf:
        return math.inf
    exact = Fraction(odds)
    if exact <= 1:
        return 0.0
    return log_above(exact) if up else log_above(exact) * (1.0 - 1e-12)


def _epsilon_of_integers(channel: Channel) -> tuple[float, str]:
    """The epsilon of a privacy unit, rounded up, and its worst outcome."""
    return max(_epsilon_of_group(rows, repeats) for rows, repeats in channel.units)


def _epsilon_of_group(channel: Channel, repeats: int) -> tuple[float, str]:
    """The epsilon of a unit of several rows, all of whose labels may be replaced."""
    odds, worst = _worst_outcome(channel)
    if repeats == 1 or odds == math.inf:
        return _log_odds(odds, up=True), worst
    exact = Fraction(odds)
    log = _LN.ln(_LN.divide(Decimal(exact.numerator), Decimal(exact.denominator)))
    return printed_above(_LN.multiply(log, Decimal(repeats))), f"{worst}, in each of {repeats} rows"


def _worst_outcome(channel: Channel) -> tuple[Fraction | float, str]:
    """The largest ratio of two weights of one outcome, and the outcome's name."""
    ratios = [(_weight_ratio(weights), name) for name, weights in channel.columns()]
    return max(ratios, default=(Fraction(1), "no outcome"))


def _weight_ratio(weights: Sequence[int | Fraction]) -> Fraction | float:
    low, high = min(weights), max(weights)
    return Fraction(high) / Fraction(low) if low > 0 else math.inf


def _epsilon_of_tables(channel: Channel) -> float:
    """Epsilon of the channel's tables for single rows, less the tolerance for floats; 0 without tables."""
    if any(repeats > 1 for _, repeats in channel.units):
        return 0.0  # a unit has several rows
    epsilons = [0.0]
    for row in _distinct_rows(channel, _MOST_ROWS):
        try:
            matrix = channel.matrix(row)
        except (ValueError, MemoryError):  # the table is too large
            continue
        low, high = matrix.min(axis=0), matrix.max(axis=0)
        known = high > 1e-12
        worst = float((high[known] / np.maximum(low[known], 1e-300)).max()) if known.any() else 1.0
        epsilons.append(max(0.0, math.log(worst) - _ROUNDING))
    return max(epsilons)


def _distinct_rows(channel: Channel, most: int) -> list[int]:
    """A few rows whose output distributions differ."""
    arrays = [np.atleast_2d(values.T).T for values in row_arrays(channel).values()]
    if not arrays:
        return [0]
    if not len(arrays[0]):
        return []
    _, first = np.unique(np.hstack(arrays), axis=0, return_index=True)
    return [int(row) for row in first[:most]]


def _spread_codes(channel: Channel, most: int) -> list[int]:
    """All labels, or some spread evenly over them."""
    count = min(channel.classes, most)
    return sorted({round(code) for code in np.linspace(0, channel.classes - 1, count).tolist()})


def _audit_even_words(channel: Channel, row: int, codes: Sequence[int], claim: float) -> Audit:
    """Bounds from counts of evenly spaced words."""
    exact = channel.bits == 16
    words = np.arange(_WORDS, dtype=np.uint64) << np.uint64(channel.bits - 16)
    counts = _word_counts(channel, row, codes, words[:, None])
    most, least = counts.max(axis=0), counts.min(axis=0)
    off = 0 if exact else _RANGES
    low, high = _largest_ratio(most - off, least + off), _largest_ratio(most + off, least - off)
    lower = _log_odds(low, up=exact)
    z = int(np.argmax((most - off) / np.maximum(least + off, 0.5)))
    worst = f"outcome {z}: at most {most[z]:,} and at least {least[z]:,} of {_WORDS:,} words give it"
    upper = _log_odds(high, up=True)
    return Audit(claim, 0.0, lower, upper if upper < math.inf else None, 1.0, len(codes) * _WORDS, "exact", worst)


def _largest_ratio(most: Int[np.ndarray, "m"], least: Int[np.ndarray, "m"]) -> Fraction | float:
    """The largest ratio of counts; infinite if the smaller one may be zero."""
    pairs = {(int(high), int(low)) for high, low in zip(most, least, strict=True) if high > 0}
    return max((Fraction(high, low) if low > 0 else math.inf for high, low in pairs), default=Fraction(1))


def _word_counts(
    channel: Channel, row: int, codes: Sequence[int], words: UInt64[np.ndarray, "n w"]
) -> Int[np.ndarray, "k m"]:
    """Number of words that yield each outcome, for each label."""
    of_row = channel.take(np.full(len(words), row))
    released = [of_row.draw(np.full(len(words), code, dtype=np.int32), words) for code in codes]
    outcomes = np.array(released)
    if outcomes.ndim > 2:  # sets
        outcomes = np.unique(np.concatenate(released), axis=0, return_inverse=True)[1].reshape(len(codes), -1)
    return np.array([np.bincount(line, minlength=int(outcomes.max()) + 1) for line in outcomes])


def _row_mechanism(channel: Channel, row: int) -> Callable[[int, int], np.ndarray]:
    """The draw of one row as a mechanism, with random words of the audit's own."""
    rng = np.random.default_rng()

    def draw(code: int, count: int) -> np.ndarray:
        shape = (count, channel.words_per_row)
        words = rng.integers(0, _TOP, shape, dtype=np.uint64, endpoint=True)
        words[:, : channel.whole_words] >>= np.uint64(64 - channel.bits)
        return channel.take(np.full(count, row)).draw(np.full(count, code, dtype=np.int32), words)

    return draw
