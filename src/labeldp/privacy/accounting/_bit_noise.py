"""Exact accounting for single random bits whose probabilities depend on labels within limits."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

from labeldp import _checks
from labeldp.privacy._rounding import log_above, power_above
from labeldp.privacy.channels import accept, bit_weight

_BITS = 64


@dataclass(frozen=True)
class BitNoise:
    """One random bit per label, whose probability is an integer out of 2^64, from ``least`` to ``2^64 - least``.

    The probability may depend on all earlier bits.

    Attributes:
        least: The smallest weight of either value of a bit.
        labels_of_a_unit: The largest number of labels, and so of bits, of one privacy unit.

    Guarantee:
        Both values of a bit have weights in [least, 2^64 - least] for every label, whatever came before, so their
        ratio for two labels is at most ``(2^64 - least) / least``. Replacing the labels of a unit changes the
        probability of all bits by a product of such ratios, one for each of its labels. ``epsilon`` is the logarithm of
        that product's bound, rounded up.

    Example:
        >>> BitNoise.of(1.0, 2).epsilon
        1.0
    """

    least: int
    labels_of_a_unit: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.least < 1 << (_BITS - 1) or self.labels_of_a_unit < 1:
            raise ValueError("expected a weight of a bit below one half, and units with labels, found others")

    @classmethod
    def of(cls, epsilon: float, labels_of_a_unit: int = 1) -> Self:
        """The least noise that keeps an epsilon: ``least = ceil(2^64 / (exp(epsilon / labels) + 1))``.

        Raises:
            EpsilonError: 64 bits cannot express it.
        """
        least = bit_weight(_checks.epsilon(epsilon), labels_of_a_unit, _BITS)
        odds = Fraction((1 << _BITS) - least, least)
        accept(power_above(odds, labels_of_a_unit) if odds > 1 else odds, epsilon, _BITS)
        return cls(least, labels_of_a_unit)

    @property
    def half(self) -> int:
        """The largest distance of a weight from one half."""
        return (1 << (_BITS - 1)) - self.least

    @cached_property
    def epsilon(self) -> float:
        """The epsilon of all bits of a unit together."""
        return log_above(power_above(Fraction((1 << _BITS) - self.least, self.least), self.labels_of_a_unit))
