"""Exact accounting for the peer exchange: noise on each label, then labels drawn from a cluster's urn.

In a cluster of n rows each label is flipped with probability a, and the released label of a row is the flipped
label of a uniformly random member, with replacement (Esfandiari et al. 2022, algorithm 2). If n1 of the labels are
ones, the number N of flipped ones is Bin(n1, 1-a) + Bin(n-n1, a); given N the m released labels are independent
Bernoulli(N/n), so their sum is sufficient. ``delta(epsilon)`` is the largest hockey-stick divergence between the
distributions of that sum for n1 and n1 + 1, in both directions, over all n1; a random m is observed and independent of
labels, so the divergence is averaged over it.

**Half of the counts.** If 0 and 1 are swapped, the pair (n1, n1 + 1) becomes (n - n1, n - 1 - n1): the two directions
at n1 are the two at n - 1 - n1, swapped. So n1 = 0 .. (n-1)/2 in both directions is enough.

**Removing members.** Members whose flipped labels do not depend on the changed label can be added by post-processing:
replace each released label with probability w/n by the flipped label of a random one of w such members. This turns m
labels from a cluster of n - w members into m labels from n members. Post-processing does not increase the divergence,
so it is at most the one without those members, at the same m.

**A range of counts at once.** Take n1 in [low, high] and w = high - low members of unspecified labels. Each flipped
label is a fair coin with probability 2a, whatever the label, and the label itself otherwise; the choice of the two is
independent of labels. Except with a small probability, which is added to delta, at least c of them are coins, and the
others are removed as above. So every n1 of the range has at most the divergence of ``low`` ones, ``n - 1 - high`` zeros
and c
coins beside the label that changes, at m released labels. The largest divergence is found by taking the range with
the largest bound and halving it, until it is a single count. Up to 2048 members that is the exact maximum. In larger
clusters the search may stop earlier (``_PATIENCE``), with the largest bound, which is still an upper bound; only flips
near one half take so many ranges, and there the excess is below one part in 200 of epsilon.

**Floating-point error.** All sums are of positive terms, so their errors are relative: each probability is right up to
a factor ``exp(error)`` either way, and the error, bounded in ``_relative_error``, is counted against privacy. Truncated
mass of a distribution is bounded by Bernstein's inequality and added to delta. Fewer released labels never reveal more,
so many possible values of m are rounded up to a few.

**Exact probabilities.** Peers are drawn exactly uniformly, and the flip and sampling probabilities here are the
integers, out of 2**64, that words are compared with (``labeldp.mechanisms.queries.exchange``).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy._rounding import least_float, log_above
from labeldp.privacy._work import spend_work

_WORD = 1 << 64
#: The largest mass that one truncation removes.
_CUT = 1e-30
#: Ranges that a search halves before it returns its bound: this many, or ``_EFFORT / n`` if that is more.
_PATIENCE = 64
_EFFORT = 1 << 21
#: Numbers of released labels that are distinguished.
_COUNTS = 24
#: Sums that are computed from one power of the odds; the proof in ``_released_law`` needs at most 16.
_STEP = 16
#: Entries of a matrix in memory at a time.
_BLOCK = 1 << 20
#: Terms that take as long as one call for few terms does.
_TERMS_OF_A_CALL = 2000
#: The largest cluster; the same proof needs at most 2**24.
LARGEST_CLUSTER = 1 << 24


@dataclass(frozen=True)
class PeerLaw:
    """The integer parameters of the peer exchange.

    Attributes:
        flip: Number of words, out of ``2**64``, that flip a label: at least 1 and at most half of them.
        sample: Number of words, out of ``2**64``, that release a row.
        fixed: True if each cluster releases a fixed share of its rows, at least one, instead of each row at random.

    References:
        Esfandiari et al. 2022, algorithm 2. Their theorem 3 is not used: its constants are vacuous at realistic sizes.
    """

    flip: int
    sample: int
    fixed: bool

    def __post_init__(self) -> None:
        if not (1 <= self.flip <= _WORD // 2 and 1 <= self.sample <= _WORD):
            raise ValueError("expected integers that flip at most half of the labels and release some")

    @property
    def alone(self) -> float:
        """The pure epsilon of flipping alone, log((1 - flip) / flip), rounded up: nothing reveals more."""
        return log_above(Fraction(_WORD - self.flip, self.flip))

    def released(self, size: int) -> int:
        """Number of rows that a cluster releases under fixed sampling."""
        return max(1, (2 * size * self.sample + _WORD) // (2 * _WORD))

    def delta(self, epsilon: float, sizes: Iterable[int]) -> float:
        """The delta at an epsilon, the largest over clusters, rounded up."""
        if epsilon >= self.alone:
            return 0.0
        return max(_Cluster(self, size).delta(epsilon) for size in set(sizes))

    def epsilon(self, delta: float, sizes: Iterable[int]) -> float:
        """The epsilon at a delta, the largest over clusters, rounded up."""
        return self._largest(sizes, lambda size: partial(_Cluster(self, size).within, delta=delta))

    def collusion(self, delta: float, sizes: Iterable[int]) -> float:
        """The epsilon at a delta against the learner colluding with one peer, rounded up.

        The peer knows its own flipped label, the peer that it asked and the answer, and possibly who asked it. It asked
        the changed row with probability 1/n, and then holds that row's flipped label. Otherwise it knows two flipped
        labels that are independent of the changed one, and removing those two members bounds the rest. So

            delta(epsilon) <= ((1 - a) - exp(epsilon) a) / n + (1 - 1/n) delta of n - 2 members at the same m.

        The first term is a lower bound too.
        """
        return self._largest(sizes, partial(self._within_collusion, delta))

    def keeps(self, epsilon: float, delta: float, sizes: Iterable[int]) -> bool:
        """True if the exchange is proven (epsilon, delta)-DP in all clusters."""
        return epsilon >= self.alone or all(_Cluster(self, size).within(epsilon, delta) for size in sorted(set(sizes)))

    def _within_collusion(self, delta: float, size: int) -> Callable[[float], bool]:
        if size < 3:
            return lambda _: False
        others, chance = _Cluster(self, size, size - 2), self.flip / _WORD

        def within(epsilon: float) -> bool:
            direct = (max(0.0, (1.0 - chance) - _exp_below(epsilon) * chance) + 2.0**-50) / size
            return delta > direct and others.within(epsilon, delta - direct)

        return within

    def _largest(self, sizes: Iterable[int], account: Callable[[int], Callable[[float], bool]]) -> float:
        """The least epsilon over all clusters; small clusters come first, since they are usually the worst."""
        epsilon = 0.0
        for size in sorted(set(sizes)):
            within = account(size)
            if epsilon < self.alone and not within(epsilon):
                epsilon = least_float(within, epsilon, self.alone, 2.0**-34)
        return epsilon


@dataclass(frozen=True)
class _Piece:
    """A distribution on the integers ``start ..``, and its truncated mass."""

    start: int
    mass: Float[np.ndarray, "k"]
    cut: float


@dataclass(frozen=True)
class _Pair:
    """Two distributions of the released sum, their weight, and the error of their entries."""

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


@dataclass
class _Cluster:
    """Accounting for one cluster of ``size`` rows, of which ``members`` are unknown; caches pairs of distributions."""

    law: PeerLaw
    size: int
    members: int = 0
    pairs: dict[tuple[int, int], list[_Pair]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.members = self.members or self.size

    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon, rounded up."""
        return min(1.0, self._worst(epsilon, 0.0))

    def within(self, epsilon: float, delta: float) -> bool:
        """True if the delta at an epsilon is proven to be at most ``delta``."""
        return self._worst(epsilon, delta) <= delta

    def _worst(self, epsilon: float, enough: float) -> float:
        """The largest divergence over all counts, or an upper bound that is at most ``enough``."""
        factor, last = _exp_below(epsilon), (self.members - 1) // 2
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
        return float(total.max()) + self._counts.cut + _CUT

    def _laws(self, low: int, high: int) -> list[_Pair]:
        """Distributions of the sum for ``low`` ones among the others and for one more, per number of released rows."""
        flip, open_ = self.law.flip, high - low
        coins = _window(open_, 2 * flip)[0]
        members = self.members - open_ + coins
        others = _sum_of_binomials((low, _WORD - flip), (self.members - 1 - high, flip), (coins, _WORD // 2))
        empty = np.zeros(1)
        zero, one = np.concatenate([others.mass, empty]), np.concatenate([empty, others.mass])
        flipped, unflipped = flip / _WORD, (_WORD - flip) / _WORD
        sums = np.stack([unflipped * zero + flipped * one, flipped * zero + unflipped * one])
        error, cut = _relative_error(self.size), others.cut + 2.0 * _CUT
        pairs = []
        for count, weight in enumerate(self._counts.mass, self._counts.start):
            if weight:
                laws = _released_law(others.start, sums, members, count)
                pairs.append(_Pair(float(weight), laws[0], laws[1], cut, error))
        return pairs

    @cached_property
    def _counts(self) -> _Piece:
        """The distribution of the number of released rows, rounded up to a few values."""
        if self.law.fixed or self.law.sample == _WORD:
            return _Piece(self.law.released(self.size), np.ones(1), 0.0)
        exact = _binomial(self.size, self.law.sample)
        last, values = exact.mass.size - 1, max(_COUNTS, _EFFORT // (16 * self.size))
        if last < values:
            return exact
        mean, share = self.size * self.law.sample / _WORD - exact.start, self.law.sample / _WORD
        near = mean + np.linspace(-4.0, 4.0, values) * math.sqrt(self.size * share * (1.0 - share))
        edges = np.unique(np.rint(np.concatenate([near, np.linspace(0, last, 9)])).clip(0, last).astype(np.int64))
        mass = np.zeros(last + 1)
        mass[edges] = np.add.reduceat(exact.mass, np.concatenate([[0], edges[:-1] + 1]))
        return _Piece(exact.start, mass, exact.cut)


def _window(count: int, weight: int) -> tuple[int, int]:
    """A range that contains a binomial variable except with probability ``_CUT``.

    Bernstein's inequality: ``P(|X - mean| >= t) <= 2 exp(-t**2 / (2 (variance + t / 3)))``.
    """
    chance = weight / _WORD
    return _around(count * chance, count * chance, count * chance * (1.0 - chance), count)


def _around(low: float, high: float, variance: float, last: int) -> tuple[int, int]:
    """Integers in 0 .. last within Bernstein's bound of a mean between ``low`` and ``high``."""
    steps = math.log(2.0 / _CUT) / 3.0
    reach = steps + math.sqrt(steps * steps + 6.0 * steps * variance) + 1.0
    return max(0, math.floor(low - reach)), min(last, math.ceil(high + reach))


def _binomial(count: int, weight: int) -> _Piece:
    """The distribution ``Bin(count, weight / 2**64)``; by its complement above one half, so that no float is 1."""
    from scipy.special import gammaln  # noqa: PLC0415 (the package is imported without it)

    if weight > _WORD // 2:
        rest = _binomial(count, _WORD - weight)
        return _Piece(count - rest.start - rest.mass.size + 1, rest.mass[::-1], rest.cut)
    low, high = _window(count, weight)
    k, chance = np.arange(low, high + 1, dtype=np.float64), weight / _WORD
    ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
    return _Piece(low, np.exp(ways + k * math.log(chance) + (count - k) * math.log1p(-chance)), _CUT)


def _sum_of_binomials(*groups: tuple[int, int]) -> _Piece:
    """The distribution of the sum of independent binomials, each a count and a weight."""
    start, mass, cut = 0, np.ones(1), 0.0
    for count, weight in groups:
        if count:
            piece = _binomial(count, weight)
            spend_work(mass.size * piece.mass.size / 16)
            start, mass, cut = start + piece.start, np.convolve(mass, piece.mass), cut + piece.cut
    return _Piece(start, mass, cut)


def _released_law(start: int, sums: Float[np.ndarray, "2 j"], members: int, count: int) -> Float[np.ndarray, "2 k"]:
    """Distributions of the sum of ``count`` released labels, for two distributions of the number of ones in the urn.

    Entry k is the sum over j of ``sums[j] Bin(count, j / members)(k)``. With odds o_j = j / (members - j),

        Bin(count, p)(k + i) = Bin(count, p)(k) o_j**i C(count, k + i) / C(count, k),

    so one exponential serves ``_STEP`` values of k, and the rest is a product of matrices. Where the exponential
    underflows, below e**-708, the other 15 values are at most (count members)**15 times as large: below e**-209 for
    up to 2**24 members, which is within the ``_CUT`` that the account adds for it.
    """
    from scipy.special import gammaln  # noqa: PLC0415

    j = np.arange(start, start + sums.shape[1], dtype=np.float64)
    share = j / members
    low, high = _around(count * share[0], count * share[-1], count * float((share * (1.0 - share)).max()), count)
    inner = (j > 0) & (j < members)
    base, odds = np.log((members - j[inner]) / members), np.log(j[inner]) - np.log(members - j[inner])
    firsts, steps = np.arange(low, high + 1, _STEP, dtype=np.float64), np.arange(_STEP, dtype=np.float64)
    k = firsts[:, None] + steps
    spend_work(_TERMS_OF_A_CALL + firsts.size * odds.size + _STEP * odds.size)
    ways = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
    powers = (sums[:, None, inner] * np.exp(steps[:, None] * odds)).reshape(2 * _STEP, -1).T
    products = np.empty((firsts.size, 2 * _STEP))
    block = max(1, _BLOCK // max(1, odds.size))
    for at in range(0, firsts.size, block):
        rows = slice(at, at + block)
        products[rows] = np.exp(firsts[rows, None] * odds + count * base + ways[rows, :1]) @ powers
    laws: np.ndarray = products.reshape(-1, 2, _STEP) * np.exp(ways - ways[:, :1])[:, None]
    laws = laws.transpose(1, 0, 2).reshape(2, -1)
    if start == 0:
        laws[:, 0] += sums[:, 0]
    if j[-1] == members:
        laws[:, count - low] += sums[:, -1]
    return laws


def _relative_error(size: int) -> float:
    """A bound on the logarithm of an entry's relative error, for clusters of ``size``.

    An entry is a sum of products of at most five binomial probabilities. Each is the exponential of five terms of at
    most A = (size + 1) (log(size + 2) + 45) in size, where 45 is above log(2**64). With logarithms, gamma functions
    and exponentials right to 8 units in the last place, u = 2**-53, the sum of the terms is right to 64 u A. Sums of
    positive terms add less than u A. So 5 * 64 + 1 < 512 units of u A are enough: 2**-44 A.
    """
    return 2.0**-44 * (size + 1) * (math.log(size + 2) + 45.0)


def _exp_below(epsilon: float) -> float:
    """A lower bound on ``exp(epsilon)``, for the binary value and for the decimal that it prints as."""
    return math.exp(epsilon) * (1.0 - 2.0**-45)
