"""The channel of subsets of a fixed size: the true class is in with a chosen probability, the others are uniform."""

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
from labeldp.privacy.channels._bitsets import pack
from labeldp.privacy.channels._calibration import accept, subset_weight
from labeldp.privacy.channels._channel import Columns, Membership, TransitionTable, require_words
from labeldp.privacy.channels._class_channel import ClassSetChannel, ExchangeableChannel
from labeldp.privacy.channels._kernels import draw_listed_subset, draw_subset
from labeldp.privacy.channels._utility import subset_chances

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
