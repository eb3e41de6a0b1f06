"""Rényi guarantees for released labels, with static features or with features that are released too.

Two definitions share a formula and differ in their neighbours. With *static* features a neighbour has another label and
the same features, which are public: all other guarantees of this package are of this kind. With *conditional* features
(Busa-Fekete et al. 2023, definition 4.3) nobody knows the features beforehand: a neighbour has another label y', and
features drawn anew from ``P(X | y')``, the distribution of the features given that label. It counts the disclosure by
features, and it rests on declarations about that distribution.

An order is the decimal that its float prints as. All numbers are rounded up, in decimals of 80 digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import Literal, Self

from labeldp import _checks
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import DOWN, UP, exp_above, float_above, quotient, shown_above
from labeldp.privacy.accounting._composition import PrivacyLoss
from labeldp.privacy.accounting._concentrated import order_cost
from labeldp.privacy.channels import ClassChannel

Features = Literal["static", "conditional"]

#: Larger orders and divergences are refused: they are of no more use than smaller ones.
LARGEST_ORDER, LARGEST_DIVERGENCE = 1e6, 700.0

_ONE = Decimal(1)


@dataclass(frozen=True)
class RenyiGuarantee:
    """A bound on the Rényi divergence between the outputs for any two labels of one row.

    Attributes:
        alpha: The order, above 1; infinity is the pure guarantee.
        epsilon: The divergence in nats, rounded up.
        features: ``"static"``: features are public and stay when the label changes. ``"conditional"``: they are not
            known beforehand, and change with the label.
        population: With conditional features: the population whose features these are, in words.
        assumptions: Declared, unchecked assumptions.
        unit: The privacy unit.

    Guarantee:
        For every two labels y and y': ``D_alpha(M(y) || M(y')) <= epsilon``, where ``M(y)`` is the whole output for a
        row with the label y, and ``D_alpha(P || Q) = log E_Q[(P / Q)^alpha] / (alpha - 1)``.

    References:
        Mironov 2017, definition 4; Busa-Fekete et al. 2023, definitions 4.2 (static) and 4.3 (conditional).

    Example:
        >>> from labeldp import Guarantee, RenyiGuarantee
        >>> found = RenyiGuarantee.of(Guarantee(epsilon=1.0), alpha=2.0)
        >>> found.epsilon < 1.0, found.features
        (True, 'static')

    Raises:
        InputError: The order is not above 1, or there is a population with static features, or none with conditional.
    """

    alpha: float
    epsilon: float
    features: Features = "static"
    population: str | None = None
    assumptions: tuple[str, ...] = ()
    unit: str = "row"

    def __post_init__(self) -> None:
        order(self.alpha)
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise EpsilonError(f"expected a finite divergence of at least 0, found {self.epsilon!r}")
        if self.features not in ("static", "conditional"):
            raise InputError("expected features that are 'static' or 'conditional', found something else")
        if (self.features == "conditional") != bool(self.population):
            found = "none" if not self.population else "one"
            raise InputError(
                f"expected a population with conditional features and no other, found {found} with "
                f"{self.features!r}; describe in words whose features they are"
            )

    @classmethod
    def of(cls, guarantee: Guarantee, alpha: float) -> Self:
        """The Rényi guarantee of an order that follows from a guarantee with static features.

        A pure guarantee is a post-processing of binary randomized response (Kairouz et al. 2015), whose divergence is
        exact; zero-concentrated privacy has ``alpha rho`` (Bun and Steinke 2016). The smaller of the two counts.

        Raises:
            InputError: It has a delta and no rho, which bounds no Rényi divergence.
        """
        if guarantee.delta and guarantee.rho is None:
            raise InputError(
                f"expected a pure guarantee, or one with a rho, found delta {guarantee.delta!r}, which bounds no "
                "Rényi divergence"
            )
        bounds = [] if guarantee.delta else [_pure_divergence(guarantee.epsilon, order(alpha))]
        if guarantee.rho is not None and not math.isinf(alpha):
            bounds.append(UP.multiply(order(alpha), Decimal(repr(guarantee.rho))))
        if not bounds:
            raise InputError("expected a finite order for a guarantee with a delta, found infinity")
        return cls(alpha, float_above(min(bounds)), "static", None, guarantee.assumptions, guarantee.unit)

    def at_delta(self, delta: float) -> float:
        """The epsilon at a failure probability, rounded up; for the pure guarantee, its epsilon.

        The notion of neighbours stays: with conditional features it is not a usual guarantee of label privacy.

        Args:
            delta: Above 0 and below 1; with an infinite order 0 is allowed.

        References:
            Canonne, Kamath and Steinke 2020, proposition 12, which is never above Mironov's 2017, proposition 3.
        """
        chance = _checks.delta(delta)
        if math.isinf(self.alpha):
            return self.epsilon
        if not chance:
            raise EpsilonError("expected a delta above 0 for a finite order, found 0; use the order infinity")
        cost = order_cost(DOWN.subtract(order(self.alpha), _ONE), Decimal(repr(chance)))
        return float_above(max(Decimal(0), UP.add(Decimal(repr(self.epsilon)), cost)))

    def sentence(self) -> str:
        """The guarantee in one plain sentence, its numbers rounded up; then its assumptions, line by line."""
        labels = "one row's label" if self.unit == "row" else f"all labels of one {_checks.printable(self.unit)}"
        divergence = shown_above(self.epsilon, 7)
        if math.isinf(self.alpha):
            factor = shown_above(exp_above(self.epsilon), 5)
            change = (
                f"the probability of anything in this release by a factor of at most {factor} (epsilon {divergence})"
            )
        else:
            change = f"the law of this release by a Rényi divergence of order {self.alpha:g} of at most {divergence}"
        if self.features == "static":
            return (
                f"Static features: to someone who knows all features, replacing {labels} changes {change}; what "
                "features tell of labels is not counted."
            )
        population = _checks.printable(self.population or "")
        assumptions = "".join(f"\n- {_checks.printable(each)}" for each in self.assumptions)
        return (
            f"Conditional features: to someone who knew none of these features beforehand, replacing {labels}, and "
            f"with it the features of the row by others drawn from {population}, changes {change}; what released "
            f"features tell of labels is counted.{' This rests on:' * bool(assumptions)}{assumptions}"
        )

    def __str__(self) -> str:
        return self.sentence()


def order(alpha: object) -> Decimal:
    """An order as the decimal that its float prints as.

    Raises:
        InputError: It is not a number above 1, or above a million and not infinite.
    """
    number = _checks.number(alpha, "alpha")
    if not (1 < number <= LARGEST_ORDER or math.isinf(number)):
        raise InputError(
            f"expected an order alpha above 1 and at most {LARGEST_ORDER:g}, found {number:g}; give infinity for a "
            "pure guarantee"
        )
    return Decimal(repr(number))


def checked_divergence(divergence: object) -> Decimal:
    """A divergence as the decimal that its float prints as.

    Raises:
        InputError: It is below 0, or so large that nothing follows from it.
    """
    number = _checks.number(divergence, "divergence")
    if not 0 <= number <= LARGEST_DIVERGENCE:
        raise InputError(f"expected a divergence from 0 to {LARGEST_DIVERGENCE:g}, in nats, found {number!r}")
    return Decimal(repr(number))


def label_divergence(channel: ClassChannel, alpha: float) -> float:
    """The largest Rényi divergence between the released labels of two true labels, rounded up.

    The privacy loss of a channel has three values (``PrivacyLoss``): outcomes distinguish two labels with the ratio e,
    one way or the other, with a total probability u, which is ``u e / (e + 1)`` for those that favour the first label
    given the first and ``u / (e + 1)`` given the second, and not at all otherwise. So the divergence is

        log(1 - u + u (e^alpha + e^(1 - alpha)) / (e + 1)) / (alpha - 1).

    It grows with u, and u = 1, binary randomized response, bounds every channel with the ratio e (Kairouz et al. 2015,
    theorem 2.5 for two inputs: every mechanism with the ratio e is a post-processing of it).

    Args:
        channel: A channel of released classes.
        alpha: The order, above 1; infinity gives the certified epsilon.

    References:
        Mironov 2017, proposition 5, for two classes.
    """
    loss = PrivacyLoss.of(channel)
    return float_above(_divergence(loss.odds, loss.least * (1 + loss.odds), order(alpha)))


def replaced_divergence(alpha: float, replaced: Fraction, divergence: float) -> float:
    """A bound on the Rényi divergence between two labels' features, if features are resampled with some probability.

    Features are released unchanged with probability ``1 - r``, and else drawn from a generator's distribution Q,
    whatever the label: their distribution is ``(1 - r) P_y + r Q``. With D at least the divergence of order a of
    ``P_y`` from Q for every label y, the bound is

        a / (a - 1) * log(r^(1/a) + (1 - r) r^(-(a-1)/a) exp(D (a-1)/a)).

    Proof. The distribution of the other label is at least the measure ``rQ``, so ``log E[...]`` is at most the
    logarithm of the a-th power of the norm of ``1 + (1 - r) P_y / (r Q)`` in ``L^a(rQ)``, over ``a - 1``. By
    Minkowski's inequality that
    norm is at most the sum of the norms, ``r^(1/a)`` and ``(1 - r) / r * (r E_Q[(P_y / Q)^a])^(1/a)``, which is at most
    ``(1 - r) r^(-(a-1)/a) exp(D (a-1)/a)``. For a to infinity it is ``log(1 + (1 - r)/r exp(D))``.

    Args:
        alpha: The order a, above 1.
        replaced: r, above 0 and at most 1, exactly.
        divergence: D, in nats, at least 0.

    References:
        Busa-Fekete et al. 2023, theorem 7.1, whose bound is looser and whose proof splits the logarithm of a sum.
    """
    if not 0 < replaced <= 1:
        raise InputError("expected a resampling probability of features above 0 and at most 1, found another")
    apart = Decimal(repr(_checks.number(divergence, "divergence")))
    if not 0 <= apart < Decimal("Infinity"):
        raise InputError(f"expected a finite divergence of at least 0, found {divergence!r}")
    if replaced == 1:
        return 0.0
    a = order(alpha)
    root = Decimal(0) if a.is_infinite() else DOWN.divide(_ONE, a)  # 1/a, of a logarithm below zero
    rest = _ONE if a.is_infinite() else UP.divide(UP.subtract(a, _ONE), a)  # (a-1)/a
    one = _exp(UP.multiply(root, _log(replaced, UP)))
    tilt = UP.multiply(rest, UP.add(UP.minus(_log(replaced, DOWN)), apart))
    other = UP.multiply(quotient(1 - replaced, UP), _exp(tilt))
    whole = UP.next_plus(UP.ln(UP.add(one, other)))
    scale = _ONE if a.is_infinite() else UP.divide(a, DOWN.subtract(a, _ONE))
    return float_above(max(Decimal(0), UP.multiply(scale, whole)))


def divergence_sum(*parts: float) -> float:
    """The sum of divergences of independent parts, rounded up."""
    total = Decimal(0)
    for part in parts:
        total = UP.add(total, Decimal(repr(part)))
    return float_above(total)


def _pure_divergence(epsilon: float, alpha: Decimal) -> Decimal:
    """The largest Rényi divergence of any mechanism with a pure epsilon: that of binary randomized response."""
    if not epsilon:
        return Decimal(0)
    return min(Decimal(repr(epsilon)), _divergence(Fraction(exp_above(epsilon)), Fraction(1), alpha))


def _divergence(odds: Fraction, apart: Fraction, alpha: Decimal) -> Decimal:
    """The divergence of two labels that outcomes distinguish with a probability, at the ratio ``odds``; rounded up."""
    if odds == 1:
        return Decimal(0)
    logarithm = _log(odds, UP)
    if alpha.is_infinite():
        return logarithm
    excess = UP.subtract(alpha, _ONE)
    high = _exp(UP.multiply(alpha, logarithm))
    low = _exp(UP.minus(DOWN.multiply(excess, _log(odds, DOWN))))
    distinct = UP.multiply(quotient(apart / (odds + 1), UP), UP.add(high, low))
    # distinct is at least u, since e^a + e^(1-a) >= e + 1, so the sum is at least one
    total = UP.add(quotient(1 - apart, UP), distinct)
    divergence = UP.divide(UP.next_plus(UP.ln(total)), DOWN.subtract(alpha, _ONE))
    return max(Decimal(0), min(logarithm, divergence))


def _log(value: Fraction, context: Context) -> Decimal:
    """A logarithm in the rounding direction of the context; ``ln`` itself rounds to nearest."""
    logarithm = context.ln(quotient(value, context))
    return context.next_plus(logarithm) if context is UP else context.next_minus(logarithm)


def _exp(value: Decimal) -> Decimal:
    return UP.next_plus(UP.exp(value))
