"""Exact accounting for Gaussian noise on a query of known L2 sensitivity, and for single bits.

With s the sensitivity, d the standard deviation of the noise and t = s / d, the noise N(0, d^2) on each coordinate is
(epsilon, delta)-DP for exactly

    delta(epsilon) = Q(u) - exp(epsilon) Q(u + t),    u = epsilon / t - t / 2,

where Q is the upper tail of the standard normal distribution (Balle and Wang 2018, theorem 8, with Phi(x) = Q(-x)).

**Rounding.** ``upper_tail`` is right up to a factor of 1 +- 1e-70, proven there. Its argument has 120 digits; an error
of a share e in x moves Q(x) by a share of about x (x + 1) e at most, since its density is at most (x + 1) Q(x).
Sensitivities are at most 1e19, and u at most 40, so no x is beyond 1e20 and that is below 1e-70. So each of the two
terms is right up to 1e-60, and ``delta_above`` adds 1e-60 of the first and takes off 1e-60 of the second. It is above
the truth by at most 4e-60 Q(u).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

from labeldp import _checks
from labeldp._checks import LARGEST_EPSILON
from labeldp.privacy._rounding import UP, float_above, least_float, log_above, power_above, quotient
from labeldp.privacy.channels import accept, bit_weight

#: More digits than any proof here needs; underflow is not trapped and gives 0.
_WORK = Context(prec=120)
_PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798214808651"
)
_MARGIN = Decimal("1e-60")
#: The argument from which on the continued fraction replaces the series, and the depth of the fraction.
_FAR = 8
_DEPTH = 240
#: From here on a tail is below every float.
_BEYOND = 40
#: Far more than privacy units need.
_LARGEST = 10**38


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise, independent on each coordinate, with standard deviation and sensitivity in grid steps.

    Attributes:
        deviation: The standard deviation.
        sensitivity_squared: The squared L2 sensitivity of the query to the labels of one unit.

    Guarantee:
        ``delta`` is at least the true one at an epsilon, ``epsilon`` at least the true one at a delta, and both hold
        for the binary values of floats and for the decimals that they print as. All follow from the two integers by
        decimal arithmetic alone, and are the same on every machine.

    References:
        Balle and Wang 2018, theorem 8; Bun and Steinke 2016, proposition 1.6, for rho.

    Example:
        >>> noise = GaussianNoise(deviation=4, sensitivity_squared=2)
        >>> noise.rho, round(noise.epsilon(1e-6), 2)
        (0.0625, 1.54)
    """

    deviation: int
    sensitivity_squared: int

    def __post_init__(self) -> None:
        if self.deviation < 1 or not 1 <= self.sensitivity_squared <= _LARGEST:
            raise ValueError(
                "expected a standard deviation of at least one step, and a sensitivity of 1 to 1e19 steps, found others"
            )

    @cached_property
    def ratio(self) -> Decimal:
        """The sensitivity over the standard deviation."""
        return _WORK.divide(_WORK.sqrt(Decimal(self.sensitivity_squared)), Decimal(self.deviation))

    @cached_property
    def rho(self) -> float:
        """The parameter of zero-concentrated privacy, half the squared ratio, rounded up."""
        return float_above(quotient(Fraction(self.sensitivity_squared, 2 * self.deviation**2), UP))

    def delta(self, epsilon: float) -> float:
        """The delta at an epsilon of at least 0, rounded up."""
        return min(1.0, float_above(delta_above(_smaller(epsilon), self.ratio)))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at which delta is at most this, rounded up.

        Raises:
            ValueError: It is above the largest accepted epsilon.
        """
        return _epsilon(self, delta)

    def keeps(self, epsilon: float, delta: float) -> bool:
        """True if the noise is (epsilon, delta)-DP, for the binary values and for the decimals that they print as."""
        return delta_above(_smaller(epsilon), self.ratio) <= _smaller(delta)


@lru_cache(maxsize=256)
def least_deviation(sensitivity_squared: int, epsilon: float, delta: float, largest: int) -> int | None:
    """The smallest integer standard deviation that is (epsilon, delta)-DP; None if it is above ``largest``."""

    def keeps(deviation: int) -> bool:
        return GaussianNoise(deviation, sensitivity_squared).keeps(epsilon, delta)

    high = 1
    while not keeps(high):
        high *= 2
        if high > 2 * largest:
            return None
    first = high // 2 + 1
    least = first + bisect_left(range(first, high), True, key=keeps)
    return least if least <= largest else None


@lru_cache(maxsize=256)
def _epsilon(noise: GaussianNoise, delta: float) -> float:
    low, high = 0.0, LARGEST_EPSILON
    if noise.keeps(low, delta):
        return low
    if not noise.keeps(high, delta):
        raise ValueError(f"expected noise that meets an epsilon of at most {high:g}, found less noise")
    return least_float(lambda epsilon: noise.keeps(epsilon, delta), low, high)


def delta_above(epsilon: Decimal, ratio: Decimal) -> Decimal:
    """An upper bound on delta for a ratio of sensitivity to deviation, too large by at most 4e-60 of the first term.

    For u of at least 40, ``delta <= Q(40) <= 1e-349``, which is returned.
    """
    start = _WORK.subtract(_WORK.divide(epsilon, ratio), _WORK.divide(ratio, 2))
    if start >= _BEYOND:
        return Decimal("1e-349")
    near = _WORK.multiply(upper_tail(start), _WORK.add(1, _MARGIN))
    far = _WORK.multiply(upper_tail(_WORK.add(start, ratio)), _WORK.subtract(1, _MARGIN))
    return _WORK.subtract(near, _WORK.multiply(_WORK.exp(epsilon), far))


def upper_tail(x: Decimal) -> Decimal:
    """The probability Q(x) that a standard normal variable is above x, right up to a factor of 1 +- 1e-70.

    Up to x = 8 it is ``1/2 - phi(x) (x + x^3/3 + x^5/(3 5) + ...)``. All terms are positive; they are added until one
    is below 1e-95 while the ratio of the next ones is below 1/2, so that those left out are less than it. Q(8) is above
    6e-16, so the subtraction costs 16 digits of what is left of 107, those of pi, after fewer than 1000 roundings.

    Beyond, ``Q(x) = phi(x) / (x + 1/(x + 2/(x + 3/(x + ...))))``. Between two consecutive convergents lies the truth.
    At x = 8 those of depth 240 differ by less than 1e-80 of it, and by less for larger x.
    """
    if x < 0:
        return _WORK.subtract(1, upper_tail(_WORK.minus(x)))
    half_square = _WORK.divide(_WORK.multiply(x, x), 2)
    density = _WORK.divide(_WORK.exp(_WORK.minus(half_square)), _WORK.sqrt(_WORK.multiply(2, _PI)))
    if x < _FAR:
        return _WORK.subtract(Decimal("0.5"), _WORK.multiply(density, _series(x)))
    return _WORK.divide(density, _fraction(x))


def _series(x: Decimal) -> Decimal:
    """``x + x^3/3 + x^5/(3 5) + ...``."""
    square = _WORK.multiply(x, x)
    term = total = x
    odd = 1
    while term > Decimal("1e-95") or odd < 2 * square:
        odd += 2
        term = _WORK.divide(_WORK.multiply(term, square), odd)
        total = _WORK.add(total, term)
    return total


def _fraction(x: Decimal) -> Decimal:
    """``x + 1/(x + 2/(x + 3/(x + ...)))``."""
    below = x
    for numerator in range(_DEPTH, 0, -1):
        below = _WORK.add(x, _WORK.divide(numerator, below))
    return below


def _smaller(value: float) -> Decimal:
    """The smaller of a float and the decimal that it prints as."""
    return min(Decimal(value), Decimal(repr(value)))


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
