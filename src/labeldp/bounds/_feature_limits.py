"""Busa-Fekete et al. 2023: what is promised where features are drawn anew with the label, and what an attack can gain.

Here a neighbour is another label with features drawn anew from ``P(X | y')``, and what is bounded is a Renyi
divergence of order alpha. These numbers are floats, for planning: no certificate rests on them.
"""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.bounds._arguments import chance, classes_of, not_negative
from labeldp.bounds._bound import Bound
from labeldp.errors import InputError

_PAPER = "Busa-Fekete et al. 2023"
_DRAWN = "a neighbour has another label, and features drawn anew from the law of that label's features"


def attack_limit(
    epsilon: float, alpha: float, classes: int, commonest: float, delta: float | None = None, least_loss: float = 1.0
) -> Bound:
    """Theorem 5.2: the most that an attack can gain, 1 minus the expected loss of what it says of true labels.

    ``1 - (exp(-epsilon) delta^(1/(alpha-1)) (1 - p) - (k-1) delta) l``, for the best delta if none is given.

    Args:
        epsilon: The Renyi divergence of order alpha between any two labels, features drawn anew.
        alpha: The order, above 1; infinity for pure label privacy.
        classes: k.
        commonest: p, the probability of the most common class.
        delta: Between 0 and 1; every one gives a bound.
        least_loss: l, the least loss of a wrong answer; losses lie in [0, 1].

    References:
        Busa-Fekete et al. 2023, theorem 5.2, as printed; the best delta solves ``exp(-epsilon) (1-p) s delta^(s-1) =
        k-1`` for ``s = 1/(alpha-1)``, where s is below 1.

    Example:
        >>> import math
        >>> from labeldp.bounds import attack_limit
        >>> round(attack_limit(0.5, math.inf, classes=2, commonest=0.7).value, 3)
        0.818
    """
    a, k, p = _order(alpha), classes_of(classes), chance(commonest, "commonest")
    e, worth = not_negative(epsilon, "epsilon"), chance(least_loss, "least_loss")
    if p < 1 / k:
        raise InputError(f"expected the most common class to have at least one in {k}, found {p:g}")
    power = 0.0 if math.isinf(a) else 1 / (a - 1)
    share = math.exp(-e) * (1 - p)
    chosen = _best_delta(share, power, k) if delta is None else chance(delta, "delta", zero=power == 0)
    kept = share * (math.pow(chosen, power) if power else 1.0) - (k - 1) * chosen
    return Bound(
        value=1 - max(0.0, kept) * worth,
        kind="upper",
        theorem=f"{_PAPER}, theorem 5.2",
        statement="1 minus the expected loss of any attack on the labels is at most this",
        constants="proven",
        assumptions=(_DRAWN, f"no class is more likely than {p:g}"),
        sizes=(("delta", chosen),),
    )


def features_divergence(alpha: float, classes: int, noise: float, divergence: float) -> Bound:
    """Theorem 7.1, mended: labels and features are each kept with chance ``1 - lambda``, and else drawn from a model.

    The sum of two Renyi divergences of order a. That of the label is exact, ``ln(p^a q^(1-a) + q^a p^(1-a) + (k-2) q) /
    (a-1)``, with ``p = 1 - lambda + lambda / k`` and ``q = lambda / k``. That of the features is at most
    ``a/(a-1) ln(lambda^(1/a) + (1-lambda) lambda^(-(a-1)/a) exp((a-1)/a D))``, D the largest divergence of order a of
    the true features of a class from the model's features of all classes mixed.

    Proof. Let ``Q`` be that mixture. Features leave with density ``(1-lambda) P_y + lambda Q``, at least ``lambda Q``
    for every label, so that the divergence is at most that from the measure ``lambda Q``: the logarithm of a norm in
    ``L^a(lambda Q)``, which Minkowski's inequality splits into that of 1 and that of ``(1-lambda) P_y / (lambda Q)``.

    Args:
        alpha: The order a, above 1; infinity for pure privacy.
        classes: k.
        noise: lambda, above 0 and at most 1.
        divergence: D. It is an assumption, unless both densities are known; at most ``Delta + ln k`` for the paper's
            Delta, of each class from its own model.

    References:
        Busa-Fekete et al. 2023, theorem 7.1. It is true, and up to three times too large; its proof takes the logarithm
        of a sum apart (equation 17). ``printed`` among the sizes is what it prints, for ``Delta = D``.

    Example:
        >>> from labeldp.bounds import features_divergence
        >>> found = features_divergence(alpha=2, classes=2, noise=0.5, divergence=0.1)
        >>> round(found.value, 3), round(found.size("printed"), 3)
        (1.591, 2.297)
    """
    a, k, lam = _order(alpha), classes_of(classes), chance(noise, "noise", zero=False)
    apart = not_negative(divergence, "divergence")
    label, features = _label_divergence(a, k, lam), _feature_divergence(a, lam, apart)
    printed = 2 * math.log1p((1 - lam) * k / lam) + apart
    return Bound(
        value=label + features,
        kind="upper",
        theorem=f"{_PAPER}, theorem 7.1",
        statement=f"the divergence of order {a:g} between what two labels release, features included, is at most this",
        constants="proven",
        assumptions=(
            _DRAWN,
            f"true and modelled features diverge by at most {apart:g}",
            "the model saw no private rows",
        ),
        sizes=(("label", label), ("features", features), ("printed", printed)),
    )


def label_divergence_lower(alpha: float, classes: int, noise: float) -> Bound:
    """Theorem 7.2: the label alone, drawn evenly with chance lambda, diverges by at least this.

    ``a/(a-1) ln(1 + (1-lambda) k / lambda) - ln(k / lambda) / (a-1)``. The exact value is the ``label`` of
    ``features_divergence``; this is one of the terms of its sum.

    Args:
        alpha: The order a, above 1; infinity for pure privacy.
        classes: k.
        noise: lambda, above 0 and at most 1.

    References:
        Busa-Fekete et al. 2023, theorem 7.2.
    """
    a, k, lam = _order(alpha), classes_of(classes), chance(noise, "noise", zero=False)
    whole = math.log1p((1 - lam) * k / lam)
    value = whole if math.isinf(a) else (a * whole - math.log(k / lam)) / (a - 1)
    return Bound(
        value=max(0.0, value),
        kind="lower",
        theorem=f"{_PAPER}, theorem 7.2",
        statement=f"the divergence of order {a:g} between two labels' releases is at least this",
        constants="proven",
    )


def _label_divergence(a: float, k: int, lam: float) -> float:
    """Of randomized response, exactly: ``q ((p/q)^a + (q/p)^(a-1) + k - 2)`` has a sum of one where a is 1."""
    ratio, q = math.log1p((1 - lam) * k / lam), lam / k
    if math.isinf(a):
        return ratio
    largest = a * ratio + math.log(q)
    rest = math.exp((1 - a) * ratio) + k - 2
    return max(0.0, (largest + math.log1p(q * rest * math.exp(-largest))) / (a - 1))


def _feature_divergence(a: float, lam: float, apart: float) -> float:
    if lam == 1:
        return 0.0
    root = 0.0 if math.isinf(a) else 1 / a
    one, other = root * math.log(lam), math.log1p(-lam) - (1 - root) * math.log(lam) + (1 - root) * apart
    larger, smaller = max(one, other), min(one, other)
    return (larger + math.log1p(math.exp(smaller - larger))) / (1 - root)


def _best_delta(share: float, power: float, classes: int) -> float:
    """The delta with the smallest bound; none is better than 0 where the order is at most 2."""
    if power == 0 or power >= 1 or share == 0:
        return 0.0
    return min(1.0, math.pow(share * power / (classes - 1), 1 / (1 - power)))


def _order(alpha: float) -> float:
    found = _checks.number(alpha, "alpha")
    if not found > 1:
        raise InputError(f"expected an order above 1, found {found:g}")
    return found
