"""The flipped labels of a cell in an urn: bounds on what a view of them discloses, over all labels of the others.

In a cell of n rows each label is flipped with probability a. If n1 of the labels are ones, the number N of flipped ones
is Bin(n1, 1-a) + Bin(n-n1, a). A view is anything that depends on N and on chance alone: the whole urn, or labels that
are drawn from it with replacement. ``delta(epsilon)`` is the largest hockey-stick divergence between the views for n1
and n1 + 1, in both directions, over all n1.

**Half of the counts.** If 0 and 1 are swapped, the pair (n1, n1 + 1) becomes (n - n1, n - 1 - n1): the two directions
at n1 are the two at n - 1 - n1, swapped. So n1 = 0 .. (n-1)/2 in both directions is enough.

**Removing members.** Members whose flipped labels do not depend on the changed label can be added by post-processing:
to the whole urn by adding their flipped labels, and to m labels drawn with replacement by replacing each with
probability w/n by the flipped label of a random one of w such members. Post-processing does not increase the
divergence, so it is at most the one without those members, at the same m.

**A range of counts at once.** Take n1 in [low, high] and w = high - low members of unspecified labels. Each flipped
label is a fair coin with probability 2a, whatever the label, and the label itself otherwise; the choice of the two is
independent of labels. Except with a small probability, which is added to delta, at least c of them are coins, and the
others are removed as above. So every n1 of the range has at most the divergence of ``low`` ones, ``n - 1 - high`` zeros
and c
coins beside the label that changes. The largest divergence is found by taking the range with the largest bound and
halving it, until it is a single count. Up to 2048 members that is the exact maximum. In larger cells the search may
stop earlier (``_PATIENCE``), with the largest bound, which is still an upper bound; only flips near one half take so
many ranges, and there the excess is below one part in 200 of epsilon.

**Floating-point error.** All sums are of positive terms, so their errors are relative: each probability is right up to
a factor ``exp(error)`` either way, and the error, bounded in ``relative_error``, is counted against privacy. Truncated
mass of a distribution is bounded by Bernstein's inequality and added to delta.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy._work import spend_work

_WORD = 1 << 64
#: The largest mass that one truncation removes.
_CUT = 1e-30
#: Ranges that a search halves before it returns its bound: this many, or ``_EFFORT / n`` if that is more.
_PATIENCE = 64
_EFFORT = 1 << 21

#: The view of two urns: from the start of their distributions, these, and the number of members, to weights and the
#: distributions that are seen with them.
View = Callable[[int, Float[np.ndarray, "2 j"], int], Iterable[tuple[float, Float[np.ndarray, "2 k"]]]]


@dataclass(frozen=True)
class Piece:
    """A distribution on the integers ``start ..``, and its truncated mass."""

    start: int
    mass: Float[np.ndarray, "k"]
    cut: float


@dataclass(frozen=True)
class _Pair:
    """Two distributions of a view, their weight, and the error of their entries."""

    weight: float
    fewer: Float[np.ndarray, "k"]
    more: Float[np.ndarray, "k"]
    cut: float
    error: float

    def divergences(self, factor: float) -> Float[np.ndarray, "2"]:
        """Both weighted hockey-stick divergences: each distribution over ``factor`` times the other."""
        up, down = 1.0 + 2.0 * self.error, factor * (1.0 - 2.0 * self.error)
        one = np.maximum(up * self.more - down * self.fewer, 0.0).sum()
        other = np.maximum(up * self.fewer - down * self.more, 0.0).sum()
        return self.weight * (np.array([one, other]) + self.cut)


@dataclass(frozen=True)
class Urn:
    """Accounting for the urn of one cell; caches pairs of distributions.

    Attributes:
        flip: Number of words, out of ``2**64``, that flip a label: at least 1 and at most half of them.
        size: The number of rows of the cell.
        members: The number of those whose flipped labels are unknown.
        view: What is seen of the urn.
        cut: The mass that the view leaves out.
    """

    flip: int
    size: int
    members: int
    view: View
    cut: float = 0.0
    pairs: dict[tuple[int, int], list[_Pair]] = field(default_factory=dict, init=False)

    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon, rounded up."""
        return min(1.0, self._worst(epsilon, 0.0))

    def within(self, epsilon: float, delta: float) -> bool:
        """True if the delta at an epsilon is proven to be at most ``delta``."""
        return self._worst(epsilon, delta) <= delta

    def _worst(self, epsilon: float, enough: float) -> float:
        """The largest divergence over all counts, or an upper bound that is at most ``enough``."""
        factor, last = exp_below(epsilon), (self.members - 1) // 2
        ranges = [(-self._bound(0, last, factor), 0, last)]
        patience = max(_PATIENCE, _EFFORT // self.members)
        while True:
            bound, low, high = heapq.heappop(ranges)
            patience -= 1
            if -bound <= enough or low == high or not patience:
                return -bound
            middle = (low + high) // 2
            for part in ((low, middle), (middle + 1, high)):
                heapq.heappush(ranges, (max(bound, -self._bound(*part, factor)), *part))

    def _bound(self, low: int, high: int, factor: float) -> float:
        """A bound on the divergence of all counts in a range; the divergence itself for a single count."""
        if (low, high) not in self.pairs:
            self.pairs[low, high] = self._laws(low, high)
        total = np.sum([pair.divergences(factor) for pair in self.pairs[low, high]], axis=0)
        return float(total.max()) + self.cut + _CUT

    def _laws(self, low: int, high: int) -> list[_Pair]:
        """The views of the urns for ``low`` ones among the others and for one more."""
        flip, open_ = self.flip, high - low
        coins = window(open_, 2 * flip)[0]
        members = self.members - open_ + coins
        others = _sum_of_binomials((low, _WORD - flip), (self.members - 1 - high, flip), (coins, _WORD // 2))
        empty = np.zeros(1)
        zero, one = np.concatenate([others.mass, empty]), np.concatenate([empty, others.mass])
        flipped, unflipped = flip / _WORD, (_WORD - flip) / _WORD
        sums = np.stack([unflipped * zero + flipped * one, flipped * zero + unflipped * one])
        error, cut = relative_error(self.size), others.cut + 2.0 * _CUT
        return [_Pair(weight, seen[0], seen[1], cut, error) for weight, seen in self.view(others.start, sums, members)]


def window(count: int, weight: int, words: int = _WORD) -> tuple[int, int]:
    """A range that contains a binomial variable except with probability ``_CUT``.

    Bernstein's inequality: ``P(|X - mean| >= t) <= 2 exp(-t**2 / (2 (variance + t / 3)))``.
    """
    chance = weight / words
    return around(count * chance, count * chance, count * chance * (1.0 - chance), count)


def around(low: float, high: float, variance: float, last: int) -> tuple[int, int]:
    """Integers in 0 .. last within Bernstein's bound of a mean between ``low`` and ``high``."""
    steps = math.log(2.0 / _CUT) / 3.0
    reach = steps + math.sqrt(steps * steps + 6.0 * steps * variance) + 1.0
    return max(0, math.floor(low - reach)), min(last, math.ceil(high + reach))


def binomial(count: int, weight: int, words: int = _WORD) -> Piece:
    """The distribution ``Bin(count, weight / words)``; by its complement above one half, so that no float is 1."""
    from scipy.special import gammaln  # noqa: PLC0415 (the package is imported without it)

    if 2 * weight > words:
        rest = binomial(count, words - weight, words)
        return Piece(count - rest.start - rest.mass.size + 1, rest.mass[::-1], rest.cut)
    low, high = window(count, weight, words)
    k, chance = np.arange(low, high + 1, dtype=np.float64), weight / words
    ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
    return Piece(low, np.exp(ways + k * math.log(chance) + (count - k) * math.log1p(-chance)), _CUT)


def _sum_of_binomials(*groups: tuple[int, int]) -> Piece:
    """The distribution of the sum of independent binomials, each a count and a weight."""
    start, mass, cut = 0, np.ones(1), 0.0
    for count, weight in groups:
        if count:
            piece = binomial(count, weight)
            spend_work(mass.size * piece.mass.size / 16)
            start, mass, cut = start + piece.start, np.convolve(mass, piece.mass), cut + piece.cut
    return Piece(start, mass, cut)


def relative_error(size: int) -> float:
    """A bound on the logarithm of an entry's relative error, for clusters of ``size``.

    An entry is a sum of products of at most five binomial probabilities. Each is the exponential of five terms of at
    most A = (size + 1) (log(size + 2) + 45) in size, where 45 is above log(2**64). With logarithms, gamma functions
    and exponentials right to 8 units in the last place, u = 2**-53, the sum of the terms is right to 64 u A. Sums of
    positive terms add less than u A. So 5 * 64 + 1 < 512 units of u A are enough: 2**-44 A.
    """
    return 2.0**-44 * (size + 1) * (math.log(size + 2) + 45.0)


def exp_below(epsilon: float) -> float:
    """A lower bound on ``exp(epsilon)``, for the binary value and for the decimal that it prints as."""
    return math.exp(epsilon) * (1.0 - 2.0**-45)
