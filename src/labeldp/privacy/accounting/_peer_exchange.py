"""Exact accounting for the peer exchange: noise on each label, then labels drawn from a cluster's urn.

In a cluster of n rows each label is flipped with probability a, and the released label of a row is the flipped
label of a uniformly random member, with replacement (Esfandiari et al. 2022, algorithm 2). Given the number N of
flipped ones, the m released labels are independent Bernoulli(N/n), so their sum is sufficient: it is a view of the
cluster's urn (``_urn``). A random m is observed and independent of labels, so the divergence is averaged over it. Fewer
released labels never reveal more, so many possible values of m are rounded up to a few.

**Exact probabilities.** Peers are drawn exactly uniformly, and the flip and sampling probabilities here are the
integers, out of 2**64, that words are compared with (``labeldp.mechanisms.queries.exchange``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy._rounding import least_float, log_above
from labeldp.privacy._work import spend_work
from labeldp.privacy.accounting._urn import Piece, Urn, around, binomial, exp_below

_WORD = 1 << 64
#: Numbers of released labels that are distinguished: this many, or ``_EFFORT / n`` if that is more.
_COUNTS = 24
_EFFORT = 1 << 17
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
        return max(self._urn(size).delta(epsilon) for size in set(sizes))

    def epsilon(self, delta: float, sizes: Iterable[int]) -> float:
        """The epsilon at a delta, the largest over clusters, rounded up."""
        return self._largest(sizes, lambda size: partial(self._urn(size).within, delta=delta))

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
        return epsilon >= self.alone or all(self._urn(size).within(epsilon, delta) for size in sorted(set(sizes)))

    def _urn(self, size: int, members: int = 0) -> Urn:
        """The urn of a cluster, of which the flipped labels of ``members`` are unknown; those of all by default."""
        counts = self._counts(size)

        def view(start: int, sums: Float[np.ndarray, "2 j"], members: int) -> Iterator[tuple[float, np.ndarray]]:
            for count, weight in enumerate(counts.mass, counts.start):
                if weight:
                    yield float(weight), _released_law(start, sums, members, count)

        return Urn(self.flip, size, members or size, view, counts.cut)

    def _counts(self, size: int) -> Piece:
        """The distribution of the number of released rows, rounded up to a few values."""
        if self.fixed or self.sample == _WORD:
            return Piece(self.released(size), np.ones(1), 0.0)
        exact = binomial(size, self.sample)
        last, values = exact.mass.size - 1, max(_COUNTS, _EFFORT // size)
        if last < values:
            return exact
        mean, share = size * self.sample / _WORD - exact.start, self.sample / _WORD
        near = mean + np.linspace(-4.0, 4.0, values) * math.sqrt(size * share * (1.0 - share))
        edges = np.unique(np.rint(np.concatenate([near, np.linspace(0, last, 9)])).clip(0, last).astype(np.int64))
        mass = np.zeros(last + 1)
        mass[edges] = np.add.reduceat(exact.mass, np.concatenate([[0], edges[:-1] + 1]))
        return Piece(exact.start, mass, exact.cut)

    def _within_collusion(self, delta: float, size: int) -> Callable[[float], bool]:
        if size < 3:
            return lambda _: False
        others, chance = self._urn(size, size - 2), self.flip / _WORD

        def within(epsilon: float) -> bool:
            direct = (max(0.0, (1.0 - chance) - exp_below(epsilon) * chance) + 2.0**-50) / size
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
    low, high = around(count * share[0], count * share[-1], count * float((share * (1.0 - share)).max()), count)
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
