"""Exponentials and logarithms with directed rounding, so that every rounding error claims less privacy.

``decimal`` rounds ``exp`` and ``ln`` correctly (half-even) at any precision, so one step down or up from its result is
a proven bound. A float epsilon stands both for its binary value and for the decimal that it prints as (0.3 is a little
less than the printed 0.3): bounds hold for both, so that sums of printed epsilons are exact too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache, reduce

#: 80 digits, rounded down or up, at any exponent.
DOWN = Context(prec=80, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
UP = Context(prec=80, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
#: Enough digits for exact sums, differences and squares of the decimals that floats print as.
EXACT = Context(prec=3000)
#: Powers beyond the exponential of this would take long to compute, and are of no use.
_LARGEST_LOGARITHM = 40_000


@lru_cache
def exp_below(epsilon: float, parts: int = 1) -> Fraction:
    """A rational lower bound on ``exp(epsilon / parts)``, of relative error at most 1e-78."""
    smaller = min(Decimal(epsilon), Decimal(repr(epsilon)))
    return Fraction(DOWN.next_minus(DOWN.exp(DOWN.divide(smaller, Decimal(parts)))))


def log_above(ratio: Fraction) -> float:
    """The smallest float that bounds ``log(ratio)`` from above, also as it prints, for a ratio of at least one."""
    if ratio < 1:
        raise ValueError("a largest ratio of probabilities is at least one")
    if ratio == 1:
        return 0.0
    return float_above(UP.next_plus(UP.ln(quotient(ratio, UP))))


def quotient(value: Fraction, context: Context) -> Decimal:
    """A rational number in the rounding direction of a context."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def float_above(value: Decimal) -> float:
    """The smallest float that is at least ``value``, both in binary and as the decimal that it prints as."""
    number = printed_above(value)
    while Decimal(number) < value:
        number = math.nextafter(number, math.inf)
    return number


def printed_above(value: Decimal) -> float:
    """The smallest float that prints as a decimal of at least ``value``."""
    number = float(value)
    while Decimal(repr(number)) < value:
        number = math.nextafter(number, math.inf)
    return number


def exact_sum(epsilons: Iterable[float]) -> Decimal:
    """The sum of epsilons as the decimals that they print as, without rounding."""
    return sum_of(Decimal(repr(epsilon)) for epsilon in epsilons)


def sum_of(values: Iterable[Decimal]) -> Decimal:
    """The exact sum of decimals."""
    return reduce(EXACT.add, values, Decimal(0))


def rest_of(total: float, part: float) -> float:
    """The remainder ``total - part``, rounded down so that the printed remainder and part sum to at most the total."""
    left = EXACT.subtract(Decimal(repr(total)), Decimal(repr(part)))
    rest = float(left)
    while Decimal(repr(rest)) > left:
        rest = math.nextafter(rest, -math.inf)
    return rest


def least_float(holds: Callable[[float], bool], low: float, high: float, accuracy: float = 0.0) -> float:
    """The least float from which on a property holds, by bisection; never less, if it holds at ``high``.

    Args:
        holds: The property, which does not hold at ``low``.
        low: The lower end of the search.
        high: The upper end.
        accuracy: The relative width of an interval whose upper end is accurate enough.
    """
    while high - low > accuracy * high and (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def power_above(ratio: Fraction, exponent: int) -> Fraction:
    """A rational upper bound on ``ratio ** exponent`` with a numerator of moderate length, by repeated squaring."""
    if math.log(ratio) * exponent > _LARGEST_LOGARITHM:
        raise OverflowError(f"expected an epsilon of at most {_LARGEST_LOGARITHM}, found more")
    result, square = Fraction(1), ratio
    while exponent:
        if exponent & 1:
            result = _shorter_above(result * square)
        square, exponent = _shorter_above(square * square), exponent >> 1
    return result


def shown_above(value: Decimal | float, digits: int) -> str:
    """A number as text for people, rounded up to some significant digits; a float counts as the decimal it prints as.

    A requested float means that decimal: 1.05 is shown as 1.05, though its binary value is a little more. A certified
    float is a bound as that decimal: ``printed_above`` and ``float_above`` return a float d only when
    ``Decimal(repr(d))`` is at least the true value; a result of bisection (``Composition.epsilon_at``,
    ``GaussianNoise.epsilon``, the epsilons of peers) is evaluated at a number no larger than that decimal, and delta
    falls as epsilon grows. Rounding an upper bound up leaves an upper bound.
    """
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(exact).normalize():f}"


def sure_above(probability: Decimal | float) -> str:
    """A probability in percent as text: rounded up to three digits, or to up to six where fewer would read 100."""
    exact = probability if isinstance(probability, Decimal) else Decimal(repr(float(probability)))
    percent = min(UP.multiply(100, exact), Decimal(100))
    return next((text for digits in range(3, 7) if (text := shown_above(percent, digits)) != "100"), "100")


def exp_above(epsilon: float) -> Decimal:
    """An upper bound on ``exp(epsilon)``."""
    larger = max(Decimal(epsilon), Decimal(repr(epsilon)))
    if not larger:
        return Decimal(1)
    return UP.next_plus(UP.exp(UP.plus(larger)))


def posterior_above(prior: float, epsilon: float) -> Decimal:
    """An upper bound on ``p e / (p e + 1 - p)`` for ``e = exp(epsilon)``: odds ``p / (1 - p)``, multiplied by e.

    Args:
        prior: p, which counts as the larger of its value and the decimal that it prints as.
        epsilon: At least 0.
    """
    p = max(Decimal(repr(prior)), Decimal(prior))
    rest = DOWN.subtract(Decimal(1), p)
    if not rest:
        return Decimal(1)
    odds = UP.divide(UP.multiply(p, exp_above(epsilon)), rest)
    return UP.subtract(Decimal(1), DOWN.divide(Decimal(1), UP.add(Decimal(1), odds)))


def _shorter_above(value: Fraction, bits: int = 1024) -> Fraction:
    """An upper bound on ``value`` of ``bits`` binary digits."""
    shift = bits - value.numerator.bit_length() + value.denominator.bit_length()
    return value if shift < 0 else Fraction(-((-value.numerator << shift) // value.denominator), 1 << shift)
