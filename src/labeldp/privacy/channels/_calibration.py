"""Integer weights for an epsilon: one rule for each family of channels.

A word is a uniform integer below ``W = 2**bits``, and a distribution is a few integers that cut ``[0, W)``. Each rule
takes ``e``, a rational number at most ``exp(epsilon)``, and returns integers whose worst ratio of probabilities is at
most ``e``. The certified epsilon is the logarithm of that ratio, rounded up: it may be a little less than the
requested one, never more.
"""

from __future__ import annotations

import math
from fractions import Fraction

from labeldp.errors import EpsilonError
from labeldp.privacy._rounding import exp_below, log_above

#: A word can express an epsilon if its integers reach this share of it.
_SHARE = 0.99


def response_weights(classes: int, epsilon: float, bits: int) -> tuple[int, int]:
    """Weights ``(keep, other)`` of randomized response, with ``keep + (classes - 1) * other == W``.

    With ``other = ceil(W / (e + classes - 1))``: ``W <= other * (e + classes - 1)``, so
    ``keep = W - (classes - 1) * other <= e * other``.
    """
    word = 1 << bits
    other = math.ceil(word / (exp_below(epsilon) + classes - 1))
    return word - (classes - 1) * other, other


def subset_weight(classes: int, size: int, epsilon: float, bits: int) -> int:
    """Weight of "the true class is in the subset" for subsets of a fixed size.

    A subset with the true class has probability ``(A/W) / C(classes-1, size-1)``, one without it
    ``((W-A)/W) / C(classes-1, size)``; the ratio is ``A (classes-size) / ((W-A) size)``, which is at most ``e``
    for ``A = floor(W e size / (classes - size + e size))``.
    """
    odds = exp_below(epsilon) * size
    return math.floor((odds / (classes - size + odds)) * (1 << bits))


def bit_weight(epsilon: float, parts: int, bits: int) -> int:
    """Weight of a false bit set to one, ``ceil(W / (exp(epsilon / parts) + 1))``: at most e**(eps/parts) to one."""
    return math.ceil((1 << bits) / (exp_below(epsilon, parts) + 1))


def cluster_weights(distribution: list[float], epsilon: float, bits: int) -> tuple[int, tuple[int, ...]]:
    """Weights ``(keep, weights)`` of the response towards a distribution ``q`` of classes; they sum to ``W``.

    With ``lambda = 1 / (1 + (e - 1) q_min)`` and ``weights = ceil(lambda q W)`` the least weight is at least
    ``lambda q_min W``, so ``keep = W - sum(weights) <= (1 - lambda) W = (e - 1) lambda q_min W <= (e - 1) least``.
    """
    word, gain = 1 << bits, exp_below(epsilon) - 1
    shares = _integer_shares(distribution)
    whole = sum(shares) * gain.denominator + gain.numerator * min(shares)  # lambda q = share * denominator / whole
    weights = tuple(max(1, -(-share * gain.denominator * word // whole)) for share in shares)
    if sum(weights) >= word:
        accept(Fraction(1), epsilon, bits)
    return word - sum(weights), weights


def resampled_weights(
    distribution: list[float], floor: float, redrawn: float, bits: int
) -> tuple[int, tuple[int, ...]]:
    """Weights ``(keep, weights)`` of the response towards ``q`` that resamples a label with a given probability.

    With ``weights = max(least, ceil(lambda q W))`` and ``least`` as in ``bounds_resampled``.
    """
    word, chance = 1 << bits, Fraction(redrawn)
    shares = _integer_shares(distribution)
    least, whole = bounds_resampled(len(shares), floor, redrawn, bits)[1], sum(shares) * chance.denominator
    weights = tuple(max(least, -(-share * chance.numerator * word // whole)) for share in shares)
    return word - sum(weights), weights


def bounds_resampled(classes: int, floor: float, redrawn: float, bits: int) -> tuple[int, int]:
    """The largest ``keep`` and the smallest weight that ``resampled_weights`` can return, over all ``q``.

    ``least = ceil(lambda floor W)``. The weights sum to at least ``lambda W``, since ``q`` sums to one, and to at least
    ``classes * least``, so ``keep`` is at most W less the larger of the two.
    """
    word, chance = 1 << bits, Fraction(redrawn)
    least = max(1, math.ceil(chance * Fraction(floor) * word))
    return min(math.floor((1 - chance) * word), word - classes * least), least


def _integer_shares(distribution: list[float]) -> list[int]:
    """A distribution as integers, in steps of 2**-80; weights are computed for the shares of these integers."""
    return [int(chance * 2.0**80) for chance in distribution]


def accept(odds: Fraction, epsilon: float, bits: int) -> None:
    """Raise EpsilonError if integers cannot express the requested epsilon."""
    certified = log_above(odds) if odds >= 1 else 0.0
    if not _SHARE * epsilon <= certified <= epsilon:
        raise EpsilonError(
            f"expected an epsilon that the integers of a {bits}-bit word can express, found {epsilon!r}, for which "
            f"they give {certified:.6g}; choose a "
            + ("smaller" if epsilon > 1.0 else "larger")
            + " epsilon, or another mechanism"
        )
