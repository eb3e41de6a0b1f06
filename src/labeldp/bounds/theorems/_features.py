"""Busa-Fekete et al. 2023: divergences if features are drawn anew with the label.

A neighbour has another label, with features drawn anew from ``P(X | y')``; bounds are on a Renyi divergence of order
alpha. These numbers are floats, for planning: no certificate rests on them.
"""

from __future__ import annotations

import math

from labeldp.bounds._checks import check_classes, check_not_negative, check_order, check_probability
from labeldp.bounds.theorems._bound import Bound

_PAPER = "Busa-Fekete et al. 2023"
_DRAWN = "a neighbour has another label, and features drawn anew from the law of that label's features"


def features_divergence(alpha: float, classes: int, noise: float, divergence: float) -> Bound:
    """Theorem 7.1, corrected: label and features are each kept with probability ``1 - lambda``, else resampled.

    The model draws what is not kept. The bound is the sum of two Renyi divergences of order a. That of the label is
    exact, ``ln(p^a q^(1-a) + q^a p^(1-a) + (k-2) q) / (a-1)``, with ``p = 1 - lambda + lambda / k`` and ``q = lambda /
    k``. That of the features is at most ``a/(a-1) ln(lambda^(1/a) + (1-lambda) lambda^(-(a-1)/a) exp((a-1)/a D))``, D
    the largest divergence of order a of the true features of a class from the model's features, all classes mixed.

    Proof. Let ``Q`` be that mixture. Features are released with density ``(1-lambda) P_y + lambda Q``, at least
    ``lambda Q`` for every label, so that the divergence is at most that from the measure ``lambda Q``: the logarithm of
    a norm in ``L^a(lambda Q)``, which Minkowski's inequality splits into that of 1 and that of ``(1-lambda) P_y /
    (lambda Q)``.

    Args:
        alpha: The order a, above 1; infinity for pure privacy.
        classes: k.
        noise: lambda, above 0 and at most 1.
        divergence: D. It is an assumption, unless both densities are known; at most ``Delta + ln k`` for the paper's
            Delta, of each class from its own model.

    References:
        Busa-Fekete et al. 2023, theorem 7.1. It is true, and up to three times too large; its proof splits the
        logarithm of a sum (equation 17). The size ``printed`` is the printed bound, for ``Delta = D``.

    Example:
        >>> from labeldp.bounds import features_divergence
        >>> bound = features_divergence(alpha=2, classes=2, noise=0.5, divergence=0.1)
        >>> round(bound.value, 3), round(bound.size("printed"), 3)
        (1.591, 2.297)
    """
    a, k, lam = check_order(alpha), check_classes(classes), check_probability(noise, "noise", zero=False)
    apart = check_not_negative(divergence, "divergence")
    label, features = _label_divergence(a, k, lam), _feature_divergence(a, lam, apart)
    printed = 2 * math.log1p((1 - lam) * k / lam) + apart
    return Bound(
        value=label + features,
        kind="upper",
        theorem=f"{_PAPER}, theorem 7.1",
        statement=f"the divergence of order {a:g} between two labels' releases, features included, is at most this",
        constants="proven",
        assumptions=(
            _DRAWN,
            f"true and modelled features diverge by at most {apart:g}",
            "the model saw no private rows",
        ),
        sizes=(("label", label), ("features", features), ("printed", printed)),
    )


def label_divergence_lower(alpha: float, classes: int, noise: float) -> Bound:
    """Theorem 7.2: lower bound on the divergence of the label alone, drawn uniformly with probability lambda.

    ``a/(a-1) ln(1 + (1-lambda) k / lambda) - ln(k / lambda) / (a-1)``. The exact value is the ``label`` of
    ``features_divergence``; this is one of the terms of its sum.

    Args:
        alpha: The order a, above 1; infinity for pure privacy.
        classes: k.
        noise: lambda, above 0 and at most 1.

    References:
        Busa-Fekete et al. 2023, theorem 7.2.
    """
    a, k, lam = check_order(alpha), check_classes(classes), check_probability(noise, "noise", zero=False)
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
    """Divergence of randomized response: ``q ((p/q)^a + (q/p)^(a-1) + k - 2)`` has a sum of one at a = 1."""
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
