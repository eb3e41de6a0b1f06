"""Exponentials and logarithms with directed rounding, so that every doubt claims less privacy.

``decimal`` rounds ``exp`` and ``ln`` correctly (half-even) at any precision, so one step down or up from its
result is a proven bound. A float epsilon stands both for its binary value and for the decimal that it prints
(0.3 prints as 0.3 and is a little less): bounds hold for both, so that sums of printed epsilons are exact too.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

_DOWN = Context(prec=80, rounding=ROUND_FLOOR)
_UP = Context(prec=80, rounding=ROUND_CEILING)


@lru_cache
def exp_below(epsilon: float, parts: int = 1) -> Fraction:
    """A rational number at most ``exp(epsilon / parts)``, and within 1e-78 of it relatively."""
    smaller = min(Decimal(epsilon), Decimal(repr(epsilon)))
    return Fraction(_DOWN.next_minus(_DOWN.exp(_DOWN.divide(smaller, Decimal(parts)))))


def log_above(ratio: Fraction) -> float:
    """The smallest printable float that is at least ``log(ratio)``, for a ratio of at least one."""
    if ratio < 1:
        raise ValueError("a largest ratio of probabilities is at least one")
    if ratio == 1:
        return 0.0
    quotient = _UP.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return float_above(_UP.next_plus(_UP.ln(quotient)))


def float_above(value: Decimal) -> float:
    """The smallest float that is at least ``value``, both in binary and as the decimal that it prints."""
    number = float(value)
    while Decimal(number) < value or Decimal(repr(number)) < value:
        number = math.nextafter(number, math.inf)
    return number


def sum_above(epsilons: list[float]) -> float:
    """The sum of printed epsilons, exact in decimals and rounded up once."""
    exact = Context(prec=400)
    total = Decimal(0)
    for epsilon in epsilons:
        total = exact.add(total, Decimal(repr(epsilon)))
    return float_above(total)
