"""The channel of independent bits (unary encoding): each class is in the released set by its own coin."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt8, UInt64
from labeldp.privacy.channels._bitsets import pack
from labeldp.privacy.channels._calibration import accept, bit_weight
from labeldp.privacy.channels._channel import Columns, Membership, TransitionTable, require_words
from labeldp.privacy.channels._class_channel import ClassSetChannel, ExchangeableChannel
from labeldp.privacy.channels._kernels import draw_bits

_LARGEST_TABLE = 16  # classes


@dataclass(frozen=True, eq=False)
class BitChannel(ClassSetChannel, ExchangeableChannel):
    """A set of classes: the true class in with weight ``true``, every other with ``false``, out of ``2**bits``.

    Another true class changes the distribution of two bits, so the worst ratio is that of a set with one of the two
    classes and without the other: ``true (W - false) / ((W - true) false)``. With ``true = W/2`` that is
    ``(W - false) / false``, and with ``true = W - false`` its square.

    References:
        Chua et al. 2025, equation (1), for ``true = W/2`` (Wang et al. 2017, optimized unary encoding); Zhao et
        al. 2025, equation (11), for ``true = W - false`` (Erlingsson et al. 2014, RAPPOR).
    """

    true: int
    false: int

    kind: ClassVar[str] = "bits"
    detail: ClassVar[str] = "a set of classes, of any size"
    independent_members: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (self.classes >= 2 and 0 < self.false <= self.true < self.word):
            raise ValueError("expected 0 < false <= true below the number of words")

    @classmethod
    def independent(cls, classes: int, epsilon: float, bits: int = 64) -> Self:
        """Optimized unary encoding: the true bit is fair, each other bit is 1 with probability 1/(exp(epsilon) + 1)."""
        return cls._accepted(classes, 1 << (bits - 1), bit_weight(epsilon, 1, bits), epsilon, bits)

    @classmethod
    def symmetric(cls, classes: int, epsilon: float, bits: int = 64) -> Self:
        """RAPPOR: every bit of the one-hot label is flipped with probability ``1 / (exp(epsilon / 2) + 1)``."""
        false = bit_weight(epsilon, 2, bits)
        return cls._accepted(classes, (1 << bits) - false, false, epsilon, bits)

    @classmethod
    def _accepted(cls, classes: int, true: int, false: int, epsilon: float, bits: int) -> Self:
        accept(_bit_odds(true, false, 1 << bits), epsilon, bits)
        return cls(classes, true, false, bits=bits)

    @property
    def odds(self) -> Fraction:
        """``true (W - false) / ((W - true) false)``."""
        return _bit_odds(self.true, self.false, self.word)

    @property
    def words_per_row(self) -> int:
        """One word for each class, or one more: upper halves of two classes in each, then their lower halves."""
        return 2 * self.usual_words

    @property
    def usual_words(self) -> int:
        """Upper halves decide unless one is that of a weight."""
        return (self.classes + 1) // 2

    def columns(self) -> Columns:
        """The bits of the two labels, which alone differ in distribution."""
        p, q, word = self.true, self.false, self.word
        chances = [((word - p, p), (word - q, q)), ((word - q, q), (word - p, p))]
        for one, other in itertools.product((0, 1), repeat=2):
            weights = [first[one] * second[other] for first, second in chances]
            yield f"a set with bits {one} and {other} for the two labels", weights

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The bit of the true label is 0, and that of the other is 1."""
        return ((self.odds, Fraction((self.word - self.true) * self.false, self.word**2)),)

    @cached_property
    def membership(self) -> Membership:
        """The two weights; the bits are independent."""
        p, q = (Fraction(weight, self.word) for weight in (self.true, self.false))
        return Membership.of(p, q, p * (1 - q) + (1 - p) * q)

    @property
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """The square of a bit's probability, since bits are independent."""
        return np.asarray(self.membership.other**2)

    def draw_into(
        self, out: UInt8[np.ndarray, "n b"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released sets as packed bits."""
        weights = self.bits // 2, self.true, self.false
        require_words(draw_bits(codes, words, self.classes, *weights, out))

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Every set."""
        return np.ones(len(released), dtype=np.bool_)

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every set of classes, where there are few."""
        if self.classes > _LARGEST_TABLE:
            raise ValueError(f"expected at most {_LARGEST_TABLE} classes, found {self.classes}; use levels")
        mask = (np.arange(1 << self.classes)[:, None] >> np.arange(self.classes)) & 1 == 1
        p, q = float(self.membership.true), float(self.membership.other)
        chance = np.where(np.eye(self.classes, dtype=np.bool_), p, q)
        each = np.where(mask[None, :, :], chance[:, None, :], 1 - chance[:, None, :])
        return TransitionTable(pack(mask), each.prod(axis=2))


def _bit_odds(true: int, false: int, word: int) -> Fraction:
    if not 0 < false <= true < word:
        return Fraction(0)
    return Fraction(true * (word - false), (word - true) * false)
