"""The channels of random subsets of a fixed size: of all classes, or of a row's public candidates.

The true class is in with a chosen probability, and the others are uniform.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Self

import numpy as np

from labeldp._arrays import read_only
from labeldp._shapes import Bool, Float, Int, UInt8, UInt64
from labeldp._threads import over_chunks
from labeldp.privacy.channels._bitsets import pack, unpack
from labeldp.privacy.channels._calibration import accept, subset_weight
from labeldp.privacy.channels._candidates import ENTRIES_PER_CHUNK, CandidateRows
from labeldp.privacy.channels._channel import (
    Columns,
    Levels,
    Membership,
    TransitionTable,
    candidate_numbers,
    require_words,
)
from labeldp.privacy.channels._class_channel import ClassSetChannel, ExchangeableChannel
from labeldp.privacy.channels._kernels import best_subsets, draw_candidate_subset, draw_listed_subset, draw_subset
from labeldp.privacy.channels._utility import subset_chances, training_sizes

#: A row runs out of words with a probability below 2**-_LOST; the draw then stops and nothing is released.
_LOST = 128
#: Bytes of the lists of all classes: that of each has every set.
_LARGEST_LISTS = 1 << 20
#: Larger tables are not written out.
LARGEST_TABLE = 1 << 22


@dataclass(frozen=True, eq=False)
class SubsetChannel(ClassSetChannel, ExchangeableChannel):
    """A subset of ``size`` classes that holds the true class with weight ``member`` out of ``2**bits``.

    References:
        Ye and Barg 2018; Wang et al. 2016; Chua et al. 2025, Appendix A.
    """

    size: int
    member: int

    kind: ClassVar[str] = "subset"
    whole_words: ClassVar[int] = 1  # the one for membership

    def __post_init__(self) -> None:
        if not (1 <= self.size < self.classes and 0 < self.member < self.word and self.odds >= 1):
            raise ValueError("expected a subset of some but not all classes that favours the true one")

    @classmethod
    def at(cls, classes: int, size: int, epsilon: float, bits: int = 64) -> Self:
        """The channel with the largest weight whose epsilon is within the requested one."""
        member = subset_weight(classes, size, epsilon, bits)
        accept(subset_odds(classes, size, member, 1 << bits), epsilon, bits)
        return cls(classes, size, member, bits=bits)

    @property
    def odds(self) -> Fraction:
        """``A (classes - size) / ((W - A) size)``: the ratio of a subset with the true class to one without it."""
        return subset_odds(self.classes, self.size, self.member, self.word)

    @property
    def detail(self) -> str:
        """A set of fixed size."""
        return f"sets of {self.size} of {self.classes} classes"

    @cached_property
    def listed(self) -> bool:
        """True if the sets are so few that one word picks from a list of them."""
        return math.comb(self.classes, self.size) * self.classes * ((self.classes + 7) // 8) <= _LARGEST_LISTS

    @cached_property
    def words_per_row(self) -> int:
        """One word for membership; halves of words for the rest, and spare ones for rejections."""
        return words_for_picks(*((1, math.comb(self.classes, self.size)) if self.listed else (self.size, self.classes)))

    @property
    def usual_words(self) -> int:
        """The first word decides a set in a list; it hardly ever is one of those left over."""
        return 1 if self.listed else self.words_per_row

    def columns(self) -> Columns:
        """A subset from a class in it, and from one outside."""
        inside = Fraction(self.member, math.comb(self.classes - 1, self.size - 1))
        without = Fraction(self.word - self.member, math.comb(self.classes - 1, self.size))
        yield "a subset that contains the true class", (inside, without)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The true class is out, and the other label among ``size`` of the other classes."""
        out = 1 - Fraction(self.member, self.word)
        return ((self.odds, out * Fraction(self.size, self.classes - 1)),)

    @cached_property
    def membership(self) -> Membership:
        """``A / W`` for the true class; the other classes share the other places."""
        true = Fraction(self.member, self.word)
        return Membership.of(*subset_chances(true, Fraction(self.size), self.classes))

    @property
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """All pairs of other classes are equally likely."""
        true, d, pairs = float(self.membership.true), self.size, max(1, (self.classes - 1) * (self.classes - 2))
        return np.array((true * (d - 1) * (d - 2) + (1 - true) * d * (d - 1)) / pairs)

    def draw_into(
        self, out: UInt8[np.ndarray, "n b"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released subsets as packed bits."""
        if self.listed:
            weights = self.member, self.word - self.member, math.comb(self.classes - 1, self.size - 1)
            require_words(draw_listed_subset(codes, words, *weights, lists_of(self.classes, self.size), out))
        else:
            require_words(draw_subset(codes, words, self.classes, self.size, self.member, out))

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Every set of that size."""
        return np.asarray(np.count_nonzero(self.mask(released), axis=1) == self.size)

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every subset of that size, if there are few."""
        count = math.comb(self.classes, self.size)
        if count * self.classes > LARGEST_TABLE:
            raise ValueError(f"expected few outcomes, found {count} for {self.classes} classes; use levels")
        mask = np.zeros((count, self.classes), dtype=np.bool_)
        for outcome, subset in zip(mask, itertools.combinations(range(self.classes), self.size), strict=True):
            outcome[list(subset)] = True
        true = Fraction(self.member, self.word)
        inside = float(true / math.comb(self.classes - 1, self.size - 1))
        outside = float((1 - true) / math.comb(self.classes - 1, self.size))
        return TransitionTable(pack(mask), np.where(mask.T, inside, outside))


@lru_cache(maxsize=8)
def lists_of(classes: int, size: int) -> UInt8[np.ndarray, "k m b"]:
    """All packed sets of a size in a list for each class, those with it first.

    The others in a set, by their ranks among all other classes, are the same ones in every list. Read as the bits of a
    number they increase, among the sets with the class and among those without.
    """
    every = (itertools.combinations(range(classes - 1), count) for count in (size - 1, size))
    ranks = [sorted(sum(1 << j for j in chosen) for chosen in sets) for sets in every]
    bits = np.array(
        [[number >> j & 1 for j in range(classes - 1)] for part in ranks for number in part], dtype=np.bool_
    )
    holds = np.arange(len(bits)) < len(ranks[0])
    return read_only(np.array([pack(np.insert(bits, y, holds, axis=1)) for y in range(classes)]))


def words_for_picks(picks: int, classes: int) -> int:
    """Number of words: one, and halves of words for picks below ``classes``, with spare ones for rejections.

    A half is rejected with probability below ``classes / 2**32``, so ``r`` or more rejections among the picks have
    probability below ``(picks * classes / 2**32)**r``.
    """
    doubt = 32 - math.log2(picks * classes + 1)
    spare = math.ceil(_LOST / doubt) if doubt > 1 else _LOST + picks
    return 1 + math.ceil((picks + spare) / 2)


def subset_odds(classes: int, size: int, member: int, word: int) -> Fraction:
    """The ratio of a subset with the true class to one without it; 0 for a weight that is none."""
    if not 0 < member < word:
        return Fraction(0)
    return Fraction(member * (classes - size), (word - member) * size)


@dataclass(frozen=True, eq=False)
class CandidateSubsetChannel(ClassSetChannel, CandidateRows):
    """A subset of ``size[m]`` of a row's m candidates, which holds a true candidate with weight ``member[m]``.

    A label outside the candidates is first replaced by a uniform candidate, so its subset is uniform. Every row draws
    such a stand-in, and ignores it where the label is a candidate: the number of words used, and whether they suffice,
    depends on the words and on m alone.

    With d = size[m], A = member[m] and C = binomial(m, d), a subset of the candidates has

    * ``a = (A / W) (m / d) / C`` if it holds the true class,
    * ``b = ((W - A) / W) (m / (m - d)) / C`` if the true class is another candidate,
    * ``1 / C`` if the true class is outside: d stand-ins of m are in the subset, and ``(d a + (m - d) b) / m = 1 / C``.

    The last is a mean of the others, so it lies between them, and the worst ratio is ``a / b``: that of subsets among
    m classes. With m = 1 the only candidate is released whatever the label is. With d = 1 the channel is randomized
    response on the candidates, like ``CandidateChannel``.

    Attributes:
        size: Size of the released subset of m candidates, for ``m = 0 .. classes``; 1 at 0 and 1.
        member: Weight of the event that a true class among m candidates is in the subset; W at 0 and 1.
        candidates: The candidate set of each row, as packed bits in class order.

    References:
        Ye and Barg 2018 for subsets; Ghazi et al. 2021, Algorithm 1, for candidates.
    """

    size: tuple[int, ...]
    member: tuple[int, ...]
    candidates: UInt8[np.ndarray, "n b"]

    kind: ClassVar[str] = "candidate-subset"
    whole_words: ClassVar[int] = 1  # the one for membership

    def __post_init__(self) -> None:
        if not len(self.size) == len(self.member) == self.classes + 1:
            raise ValueError("expected one size and one weight for each number of candidates")
        _worst(self.size, self.member, self.word)
        self.check_candidates()

    @classmethod
    def at(cls, classes: int, epsilon: float, candidates: UInt8[np.ndarray, "n b"], bits: int = 64) -> Self:
        """The channel for these candidates at the requested epsilon, rounded down, with subset sizes for training."""
        return cls(classes, *_subset_weights(classes, epsilon, bits), candidates, bits=bits)

    @cached_property
    def odds(self) -> Fraction:
        """The largest ratio over all possible numbers of candidates, labels outside them included."""
        return _worst(self.size, self.member, self.word)

    @property
    def detail(self) -> str:
        """A set among the candidates."""
        return f"sets of up to {max(self.size)} of a row's candidates"

    @cached_property
    def words_per_row(self) -> int:
        """One word for membership; halves of words for the stand-in and the rest, and spare ones for rejections."""
        return words_for_picks(1 + max(self.size), self.classes)

    def columns(self) -> Columns:
        """A subset from a class in it, from another candidate, and from a label outside, a random candidate's."""
        for m in range(2, self.classes + 1):
            [(_, (inside, without))] = self._among(m).columns()
            mean = (self.size[m] * inside + (m - self.size[m]) * without) / Fraction(m)
            yield f"a subset of {m} candidates with the true class", (inside, without, mean)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """One pair for each number of candidates of the rows; for all numbers for a channel of no rows.

        Two labels among m candidates have the loss of subsets of m classes. The distribution of a label outside is the
        mean of those of the candidates, so a pair with it is at most the worst of them (hockey-stick divergences are
        jointly convex).
        """
        return tuple(self._among(m).losses[0] for m in candidate_numbers(self.sizes, self.classes))

    @cached_property
    def membership(self) -> Membership:
        """For true classes among the candidates of each row; a row with one candidate discloses nothing."""
        alone = (1.0, 0.0, math.inf)  # no two classes to distinguish: such a row counts as no effective row
        several = (self._among(m).membership for m in range(2, self.classes + 1))
        chances = np.array([alone, alone, *((each.true, each.other, each.apart) for each in several)])
        return Membership(*chances[self.sizes].T)

    @property
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """All pairs of other candidates are equally likely."""
        pairs = [0.0, 0.0, *(self._among(m).pair_of_others for m in range(2, self.classes + 1))]
        return np.asarray(np.array(pairs)[self.sizes])

    def draw_into(
        self, out: UInt8[np.ndarray, "n b"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released subsets as packed bits."""
        self.check_rows(codes, words)
        member = np.array([weight % self.word for weight in self.member], dtype=np.uint64)  # 0 is not used
        room = np.empty(8 * self.candidates.shape[1], dtype=np.int64)
        weights = np.array(self.size), member
        require_words(draw_candidate_subset(codes, words, self.candidates, *weights, room, out))

    def levels(self, released: np.ndarray) -> Levels:
        """The odds of m for classes in the subset, one for other candidates, ``1 / (b C)`` for classes outside."""
        levels = np.array([self._levels(m) for m in range(self.classes + 1)])
        high, outside = levels[self.sizes].T
        return Levels(self.mask(released), high, self.support(), outside)

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Every subset of the candidates of that size."""
        mask, inside = self.mask(released), self.support()
        right = np.count_nonzero(mask, axis=1) == np.array(self.size)[self.sizes]
        return np.asarray(right & ~(mask & ~inside).any(axis=1))

    def table(self, row: int = 0) -> TransitionTable:
        """Every subset of the candidates of one row, if there are few."""
        support = self.support(slice(row, row + 1))[0]
        members = np.flatnonzero(support)
        if members.size == 1:
            return TransitionTable(pack(support[None]), np.ones((self.classes, 1)))
        inner = self._among(members.size).table()
        mask = np.zeros((len(inner.outcomes), self.classes), dtype=np.bool_)
        mask[:, members] = unpack(inner.outcomes, members.size)
        law = np.full((self.classes, len(mask)), 1 / len(mask))
        law[members] = inner.matrix
        return TransitionTable(pack(mask), law)

    def _among(self, m: int) -> SubsetChannel:
        """The channel of subsets of m candidates, from two on, if these were all classes."""
        return SubsetChannel(m, self.size[m], self.member[m], bits=self.bits)

    def _levels(self, m: int) -> tuple[float, float]:
        """Likelihoods of a class in the subset and of a class outside the candidates, relative to another candidate."""
        if m < 2:
            return 1.0, 1.0
        word, size = self.word, self.size[m]
        return float(self._among(m).odds), float(Fraction(word * (m - size), (word - self.member[m]) * m))


def prior_subset_candidates(
    prior: Float[np.ndarray, "n k"], epsilon: float
) -> tuple[UInt8[np.ndarray, "n b"], Float[np.ndarray, "n"]]:
    """The candidates whose released subset distinguishes pairs of likely classes best, and their prior mass.

    They are the m most likely classes, m maximising ``pair_share(m) sum p_i p_j`` over the ordered pairs i, j of
    different candidates: the effective rows of a released subset for a pair of classes, times the prior probability
    that two draws of the class give that pair. For a set of m classes the sum, ``(sum p)**2 - sum p**2``, is largest
    for the most likely ones. A prior that is sure of a class gives one candidate.
    """
    values = _pair_values(prior.shape[1], epsilon)
    ahead = np.maximum.accumulate(values[::-1])[::-1]
    packed = np.empty((len(prior), (prior.shape[1] + 7) // 8), dtype=np.uint8)
    mass = np.empty(len(prior))

    def choose(part: slice) -> None:
        best_subsets(prior[part], values, ahead, np.empty((2, prior.shape[1])), packed[part], mass[part])

    over_chunks(choose, len(prior), max(1, ENTRIES_PER_CHUNK // prior.shape[1]))
    return packed, mass


@lru_cache
def _pair_values(classes: int, epsilon: float) -> Float[np.ndarray, "k"]:
    """Effective rows of a subset for a pair of classes at every number of candidates from 1 on, up to a factor.

    ``pair_share`` of subsets of size d of m classes is ``(e - 1)**2 / (e + 1)`` times
    ``d (m - d) / ((m - 1) (m + (e - 1) d))``.
    """
    m, d = np.arange(2, classes + 1), training_sizes(classes, epsilon)[2:]
    with np.errstate(over="ignore"):
        return np.concatenate([[0.0], d * (m - d) / ((m - 1) * (m + np.expm1(epsilon) * d))])


@lru_cache
def _subset_weights(classes: int, epsilon: float, bits: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and weights at every number of candidates; with one candidate nothing depends on the label."""
    word = 1 << bits
    size = [int(d) for d in training_sizes(classes, epsilon)]
    member = [word, word, *(subset_weight(m, size[m], epsilon, bits) for m in range(2, classes + 1))]
    for m in range(2, classes + 1):
        accept(subset_odds(m, size[m], member[m], word), epsilon, bits)
    return tuple(size), tuple(member)


@lru_cache
def _worst(size: tuple[int, ...], member: tuple[int, ...], word: int) -> Fraction:
    """The largest odds of a channel; cached, since each part of a release has a channel of the same integers.

    Each weight is the largest whose odds are within an epsilon, so one more at any number of candidates would exceed
    the worst odds. Integers with a smaller weight have the same epsilon, but no release was drawn with them.
    """
    if (size[:2], member[:2]) != ((1, 1), (word, word)):
        raise ValueError("expected the only candidate of a row in every subset")
    odds = []
    for m in range(2, len(size)):
        if not (1 <= size[m] < m and 0 < member[m] < word and subset_odds(m, size[m], member[m], word) >= 1):
            raise ValueError("expected subsets of some but not all candidates that favour the true class")
        odds.append(subset_odds(m, size[m], member[m], word))
    worst = max(odds, default=Fraction(1))
    if any(member[m] + 1 < word and subset_odds(m, size[m], member[m] + 1, word) <= worst for m in range(2, len(size))):
        raise ValueError("expected each weight as large as the worst odds allow, so that a law has one form")
    return worst
