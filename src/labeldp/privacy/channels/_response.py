"""The channel of randomized response: the true class, or any other class, with two integer weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Float, Int, UInt64
from labeldp.privacy.channels._calibration import accept, response_weights
from labeldp.privacy.channels._channel import Columns, Membership, TransitionTable
from labeldp.privacy.channels._class_channel import ExchangeableChannel, SingleClassChannel
from labeldp.privacy.channels._kernels import draw_response


@dataclass(frozen=True, eq=False)
class ResponseChannel(SingleClassChannel, ExchangeableChannel):
    """The true class with weight ``keep``, each other class with weight ``other``, out of ``2**bits``.

    References:
        Warner 1965; Kairouz et al. 2014 for k classes.
    """

    keep: int
    other: int

    kind: ClassVar[str] = "response"
    words_per_row: ClassVar[int] = 1  # which decides everything

    def __post_init__(self) -> None:
        total = self.keep + (self.classes - 1) * self.other
        if not (self.classes >= 2 and self.keep >= self.other >= 1 and total == self.word):
            raise ValueError("expected keep >= other >= 1 that use every word once")

    @classmethod
    def at(cls, classes: int, epsilon: float, bits: int = 64) -> Self:
        """The channel with the largest epsilon that integers reach within the requested one."""
        keep, other = response_weights(classes, epsilon, bits)
        accept(Fraction(keep, other) if other else Fraction(1), epsilon, bits)
        return cls(classes, keep, other, bits=bits)

    @classmethod
    def nearly_certain(cls, classes: int) -> Self:
        """The channel that changes a label in ``classes - 1`` of ``2**64`` words, for public labels."""
        return cls(classes, (1 << 64) - (classes - 1), 1)

    @property
    def certain(self) -> bool:
        """True for the channel of public labels."""
        return self.bits == 64 and self.other == 1

    @property
    def odds(self) -> Fraction:
        """``keep / other``."""
        return Fraction(self.keep, self.other)

    @property
    def detail(self) -> str:
        """One class."""
        return f"one of {self.classes} classes"

    def columns(self) -> Columns:
        """A class from itself, and from another one."""
        yield "an output equal to the true class", (self.keep, self.other)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The class of the other label is released with weight ``other``."""
        return ((self.odds, Fraction(self.other, self.word)),)

    @cached_property
    def membership(self) -> Membership:
        """``keep / W`` and ``other / W``; one class is released, so the two events exclude each other."""
        true, other = (Fraction(weight, self.word) for weight in (self.keep, self.other))
        return Membership.of(true, other, true + other)

    @property
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """One class is released."""
        return np.zeros(())

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released class codes."""
        draw_response(codes, words, self.classes, self.keep, self.other, out)

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every class as an outcome."""
        chance = self.membership
        matrix = np.full((self.classes, self.classes), float(chance.other))
        np.fill_diagonal(matrix, float(chance.true))
        return TransitionTable(np.arange(self.classes, dtype=np.int32), matrix)
