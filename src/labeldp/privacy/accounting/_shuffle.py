"""Accounting for shuffled cells: each label is randomized alone, and the labels of each public cell are shuffled.

Each of the n labels of a cell is randomized by randomized response of k classes: the true class with probability p, and
each other one with probability q = (1 - p) / (k - 1) <= p. Only their counts are seen. ``delta(epsilon)`` is the
largest hockey-stick divergence between the counts for any labels of the other rows and any two labels of one row.

**Larger cells never reveal more.** The counts of n + 1 rows are those of n rows and a further label that is randomized
without looking at the changed one, so anybody could add it. So the smallest cell decides, and a cell may be
accounted for as if it had fewer rows (``_MOST_ROWS``).

**Two classes.** The counts are the whole urn of the cell (``_urn``): the account is exact, but for floats and cuts.

**More classes.** Randomized response is the following: with probability g = k q the label is a *blank*, uniform over
all classes, and otherwise the true class. Tell the observer the labels of all other rows that are no blanks: they are
true labels, which the worst observer knows. Then the row hides among M ~ Bin(n - 1, g) blanks, and M does not depend on
its label. Let U be the counts of m = M + 1 uniform labels. The counts of the row together with the blanks have, for the
true class a, the density

    k/m (q m + (p - q) U_a) = k (p - q)/m (c + U_a),    c = q m / (p - q),

against those of m uniform labels: any of the m may be the row's. So for classes a and b

    delta(epsilon) <= E over M of k (p - q)/m E[(c + U_a - exp(epsilon) (c + U_b))_+].

T = U_a + U_b is Bin(m, 2/k), and given T, U_a is Bin(T, 1/2). All directions are alike. A further blank can be added
by anybody, so M is rounded down to a few values. Floats err as in ``_urn``. The density is at most k p <= k, so what is
cut off of T and U_a counts k times.

The other labels may be of a third class, so that hardly anything is lost by telling which of them are blanks. The
tests compare the bound with the exact divergence for such labels.

References:
    Cheu et al. 2019 for the shuffle model; Balle et al. 2019, section 3, for the blanks (their *privacy blanket*).
    Esfandiari et al. 2022, section 5.1, leave the account of shuffled cells open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy._rounding import least_float, log_above
from labeldp.privacy._work import spend_work
from labeldp.privacy.accounting import _urn
from labeldp.privacy.accounting._urn import Piece, Urn, around, binomial, exp_below, relative_error

_WORD = 1 << 64
#: Rows of a cell that are counted, for two classes and for more.
_MOST_ROWS = (1 << 17, 1 << 15)
#: Numbers of blanks that are distinguished: this many, or ``_EFFORT / n`` if that is more.
_BLANKS = 24
_EFFORT = 1 << 15
#: Relative accuracy of epsilon.
_TIGHT = 2.0**-20
#: Sums after which the rest is bounded.
_STEP = 16


@dataclass(frozen=True)
class ShuffleLaw:
    """The integer weights of a label's randomized response, out of ``2**64``, before its cell is shuffled.

    Attributes:
        classes: The number of classes.
        keep: The weight of the true class.
        other: The weight of each other class.
    """

    classes: int
    keep: int
    other: int

    def __post_init__(self) -> None:
        total = self.keep + (self.classes - 1) * self.other
        if not (self.classes >= 2 and self.keep >= self.other >= 1 and total == _WORD):
            raise ValueError("expected keep >= other >= 1 that use every word once")

    @property
    def alone(self) -> float:
        """The pure epsilon of a label before it is shuffled, log(keep / other), rounded up: nothing reveals more."""
        return log_above(Fraction(self.keep, self.other))

    def delta(self, epsilon: float, sizes: Iterable[int]) -> float:
        """The delta at an epsilon, rounded up."""
        return 0.0 if epsilon >= self.alone else self._cell(min(sizes)).delta(epsilon)

    def epsilon(self, delta: float, sizes: Iterable[int]) -> float:
        """The epsilon at a delta, rounded up."""
        cell = self._cell(min(sizes))
        if self.alone == 0.0 or cell.within(0.0, delta):
            return 0.0
        return least_float(lambda epsilon: cell.within(epsilon, delta), 0.0, self.alone, _TIGHT)

    def with_one_row(self, delta: float, sizes: Iterable[int]) -> float:
        """The epsilon at a delta against who knows the randomized label of another row of the cell, rounded up."""
        smallest = min(sizes) - 1
        return self.epsilon(delta, [smallest]) if smallest else self.alone

    def keeps(self, epsilon: float, delta: float, sizes: Iterable[int]) -> bool:
        """True if the shuffled cells are proven (epsilon, delta)-DP."""
        return epsilon >= self.alone or self._cell(min(sizes)).within(epsilon, delta)

    def _cell(self, rows: int) -> Urn | _Blanks:
        """The account of a cell of so many rows, or of fewer."""
        if self.classes == 2:
            rows = min(rows, _MOST_ROWS[0])
            return Urn(self.other, rows, rows, lambda _, sums, __: [(1.0, sums)])
        return _Blanks(self, min(rows, _MOST_ROWS[1]))


@dataclass(frozen=True)
class _Blanks:
    """The account of one cell of more than two classes."""

    law: ShuffleLaw
    rows: int

    def within(self, epsilon: float, delta: float) -> bool:
        """True if the delta at an epsilon is proven to be at most ``delta``."""
        return self.delta(epsilon) <= delta

    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon, rounded up.

        For each m and T it sums over U_a = h, h + 1, ..., from the first h whose density is larger for a, and the
        probability of each is a ratio of whole numbers times that before. The ratios fall, so the last sums are bounded
        by the first of them.
        """
        if self.law.keep == self.law.other:
            return 0.0
        (c, t, chances), factor = self._pairs, exp_below(epsilon)
        up, down = 1.0 + 2.0**-40, factor * (1.0 - 2.0**-40)
        reach = around(0.0, 0.0, float(t.max()) / 4.0, _WORD)[1]
        first = np.ceil((down * (c + t) - up * c) / (up + down) - 1.0)
        h = np.clip(first, np.maximum(np.floor(t / 2.0 - reach), 0.0), t)
        steps = math.ceil(float((np.minimum(t, t / 2.0 + reach) - h).max())) + 1
        spend_work(t.size * (steps + 8.0))
        chance, total = chances * _even_binomial(t, h), 0.0
        gain, rise = up * (c + h) - down * (c + t - h), up + down
        for left in range(steps, 0, -1):
            total += float(chance @ np.maximum(gain, 0.0))
            chance *= np.maximum(t - h, 0.0) / (h + 1.0)
            h += 1.0
            gain += rise
            if left % _STEP == 0 and (rest := left * float(chance @ (up * (c + t)))) < total * 2.0**-40:
                total += rest
                break
        cut = self._blanks.cut + (2.0 * self.law.classes + 1.0) * _urn._CUT
        return min(1.0, total * (1.0 + 2.0 * relative_error(self.rows)) + cut)

    @cached_property
    def _pairs(self) -> tuple[Float[np.ndarray, "s"], Float[np.ndarray, "s"], Float[np.ndarray, "s"]]:
        """c, T, and their probability times k (p - q) / m, for all m and T."""
        law, parts = self.law, []
        for blank, weight in enumerate(self._blanks.mass, self._blanks.start):
            if weight:
                m, pairs = blank + 1, binomial(blank + 1, 2, law.classes)
                shift = float(Fraction(law.other * m, law.keep - law.other))
                scale = float(Fraction(law.classes * (law.keep - law.other), m * _WORD)) * float(weight)
                t = np.arange(pairs.start, pairs.start + pairs.mass.size, dtype=np.float64)
                parts.append((np.full(t.size, shift), t, scale * pairs.mass))
        first, second, third = (np.concatenate(part) for part in zip(*parts, strict=True))
        return first, second, third

    @cached_property
    def _blanks(self) -> Piece:
        """The distribution of the number of blanks, rounded down to a few values."""
        exact = binomial(self.rows - 1, self.law.classes * self.law.other)
        last, values = exact.mass.size - 1, max(_BLANKS, _EFFORT // self.rows)
        if last < values:
            return exact
        numbers = np.arange(last + 1)
        mean = float(exact.mass @ numbers)
        near = mean + np.linspace(-7.0, 7.0, values) * math.sqrt(float(exact.mass @ (numbers - mean) ** 2))
        edges = np.unique(np.rint(np.concatenate([near, np.linspace(0, last, 9)])).clip(0, last).astype(np.int64))
        mass = np.zeros(last + 1)
        mass[edges] = np.add.reduceat(exact.mass, edges)
        return Piece(exact.start, mass, exact.cut)


def _even_binomial(t: Float[np.ndarray, "s"], h: Float[np.ndarray, "s"]) -> Float[np.ndarray, "s"]:
    """The probability that Bin(t, 1/2) is h."""
    from scipy.special import gammaln  # noqa: PLC0415 (the package is imported without it)

    return np.asarray(np.exp(gammaln(t + 1.0) - gammaln(h + 1.0) - gammaln(t - h + 1.0) - t * math.log(2.0)))
