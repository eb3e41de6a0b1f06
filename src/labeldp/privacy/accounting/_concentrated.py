"""Zero-concentrated differential privacy: conversion of a total rho to (epsilon, delta), rounded up.

A mechanism is rho-zCDP if for all neighbours, in both orders, and for every order alpha > 1 its Rényi divergence is at
most ``rho * alpha``, that is ``E[exp((alpha - 1) L)] <= exp((alpha - 1) alpha rho)`` for its privacy loss L. Rhos
add up, also for adaptively chosen mechanisms (Bun and Steinke 2016, lemma 1.7).

**Conversion.** For every alpha > 1 and real y, with a = alpha - 1,

    (1 - exp(-y))+ <= c exp(a y),    c = (a / alpha)^a / alpha,

since u^a (1 - u) for u in [0, 1] is largest at u = a / alpha. Its mean at ``y = L - epsilon`` is the hockey-stick
divergence at epsilon, so that is at most ``c exp(a (alpha rho - epsilon))``, for every real epsilon (Canonne, Kamath
and Steinke 2020, proposition 12 and corollary 13). Each alpha is sound: floats search for a good one, and the result
for that one is rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy._rounding import DOWN, EXACT, UP, float_above, least_float

#: Far above the relative error of the few roundings in a formula.
_SLACK = 2.0**-46
_STEPS = 8
#: Larger rhos are cut to this in the search for the best order.
_MOST = 1e200


@dataclass(frozen=True)
class ConcentratedLoss:
    """The privacy loss of a mechanism that is rho-zCDP and otherwise unknown.

    Attributes:
        rho: The exact parameter.
    """

    rho: Decimal

    def __post_init__(self) -> None:
        if not (self.rho.is_finite() and self.rho >= 0):
            raise ValueError("expected a finite rho of at least 0")


def pure_rho(epsilon: float) -> Decimal:
    """The rho of any pure mechanism with an epsilon, read as the decimal that it prints as: half its square.

    References:
        Bun and Steinke 2016, proposition 1.4.
    """
    printed = Decimal(repr(epsilon))
    return EXACT.multiply(EXACT.multiply(printed, printed), Decimal("0.5"))


def rho_above(epsilon: float, parts: int) -> float:
    """The rho of ``parts`` independent pure mechanisms with an equal part of epsilon each, rounded up."""
    return float_above(UP.divide(pure_rho(epsilon), Decimal(parts)))


@lru_cache(maxsize=1 << 12)
def concentrated_epsilon(rho: Decimal, delta: Decimal) -> Decimal:
    """The smallest known epsilon at a delta for every rho-zCDP mechanism, rounded up.

    With a = alpha - 1, the conversion says ``epsilon = alpha rho + (log(1/delta) - log(alpha) - a log(alpha/a)) / a``.
    Its derivative in a is ``rho + (log(1 + a) - log(1/delta)) / a^2``, so the best a is where
    ``rho a^2 + log(1 + a) = log(1/delta)``, and it lies below ``sqrt(log(1/delta) / rho)``.
    """
    if not rho:
        return Decimal(0)
    if not delta:
        return Decimal("Infinity")
    a = Decimal(_best_excess(min(float(rho), _MOST), -float(DOWN.ln(delta))))
    return max(Decimal(0), UP.add(UP.multiply(UP.add(1, a), rho), order_cost(a, delta)))


def order_cost(a: Decimal, delta: Decimal) -> Decimal:
    """The additional epsilon for a delta, given a divergence of order ``1 + a``, rounded up; it may be below zero.

    It is ``(log(1/delta) - log(alpha) - a log(alpha/a)) / a``, from the conversion above.
    """
    alpha_below = DOWN.add(1, a)
    logarithm = DOWN.next_minus(DOWN.ln(alpha_below))
    ratio = DOWN.next_minus(DOWN.ln(DOWN.divide(alpha_below, a)))
    saved = DOWN.add(logarithm, DOWN.multiply(a, ratio))
    doubt = UP.minus(DOWN.next_minus(DOWN.ln(DOWN.plus(delta))))
    return UP.divide(UP.subtract(doubt, saved), a)


def concentrated_delta(rho: float, epsilons: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The delta at each epsilon, of any sign, for every rho-zCDP mechanism; rounded up.

    Below 0 the hockey-stick divergence H follows from that of the neighbours in the other order, which are rho-zCDP
    too: ``H(x; P, Q) = 1 - exp(x) + exp(x) H(-x; Q, P)``, by adding and taking away the mean of ``1 - exp(x) Q/P``.
    """
    size = np.abs(epsilons)
    with np.errstate(over="ignore", invalid="ignore"):
        a = _best_excesses(rho, size)
        gain, doubt = a * ((a + 1) * rho), a * size
        saved = np.log1p(a) + a * np.log1p(1 / a)
        exponent = gain - doubt - saved + _SLACK * (gain + doubt + saved + 1)
        deltas = np.exp(np.minimum(exponent, 0.0))
        mirrored = -np.expm1(-size) + np.exp(-size) * deltas
        # an overflow gives NaN, for which fmin claims a delta of 1
        return np.asarray(np.fmin(1.0, np.where(epsilons >= 0, deltas, mirrored) * (1 + _SLACK)))


def _best_excess(rho: float, doubt: float) -> float:
    """Approximate root a > 0 of ``rho a^2 + log(1 + a) = doubt``."""
    high = math.sqrt(doubt / max(rho, 1e-200))
    return least_float(lambda a: rho * a * a + math.log1p(a) >= doubt, 0.0, high)


def _best_excesses(rho: float, epsilons: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Approximate minimiser a > 0 of ``a (alpha rho - epsilon) + log(c)``.

    It solves ``(2a + 1) rho - epsilon = log(1 + 1/a)``. Newton's method approaches it from below: the difference of
    the sides is concave in a, and log(1 + 1/a) > 1/(a + 1).
    """
    middle = 3 * rho - epsilons
    root = np.sqrt(middle * middle + 8 * rho * np.maximum(1 + epsilons - rho, 0.0))
    a = np.clip((root - middle) / (4 * rho), 1e-6, 1e12)
    for _ in range(_STEPS):
        a = np.clip(a - ((2 * a + 1) * rho - epsilons - np.log1p(1 / a)) / (2 * rho + 1 / (a * (a + 1))), 1e-6, 1e12)
    return np.asarray(a)
