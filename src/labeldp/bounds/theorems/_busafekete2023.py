"""Busa-Fekete et al. 2023: limits on attacks if features change with the label, and the divergence of double response.

Here ``P_y`` is the distribution of everything released of a row whose label is y; its divergence from that of any other
label is bounded. Features that are known beforehand, such as static ones, are not covered: if they predict the label,
no epsilon of the label alone bounds an attack (Wu et al. 2022; Busa-Fekete et al. 2023, theorem 5.1).

A guess is a function of the release. So its distribution ``q_y`` over the classes has divergences that are no larger,
and the success of an attack is ``sum_y pi_y q_y(y)`` for the probabilities pi of the classes. Conversely such
distributions are a mechanism, whose best attack gains at least that sum. The largest sum is convex in pi, so that among
all pi without a probability above p it is largest at an extreme one: as many probabilities of p as fit, one for the
rest, and then zeros.

These numbers are floats, for planning: no certificate rests on them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.bounds._checks import check_classes, check_order
from labeldp.bounds.theorems._bound import Bound
from labeldp.errors import InputError
from labeldp.privacy.accounting import RenyiGuarantee

_PAPER = "Busa-Fekete et al. 2023"
_DRAWN = "a neighbour has another label, and features drawn anew from the law of that label's features"
_STATEMENT = "1 minus the expected loss of any attack on the labels is at most this"
_HALVINGS = 55
_POINTS, _ZOOMS = 129, 7
_LEAST_LOGARITHM, _LEAST_SHARE = -700.0, 1e-16


def attack_limit(
    epsilon: float, alpha: float, classes: int, commonest: float, delta: float | None = None, least_loss: float = 1.0
) -> Bound:
    """Upper bound on the utility of an attack, 1 minus the expected loss of its guesses of true labels.

    The smaller of two bounds. Theorem 5.2: ``1 - (exp(-epsilon) delta^(1/(alpha-1)) (1 - p) - (k-1) delta) l``, for the
    best delta if none is given. And a direct one, ``1 - (1 - S) l``, where S is at least the probability of a right
    guess. S equals that probability, for the worst mechanism, if p is 1/m for a whole m, or at least 1/2, or the order
    is infinite (``pure_attack_limit``); there it is the smaller bound.

    Proof. See the module for guesses ``q_y`` and extreme probabilities. *If p = 1/m*, m classes are alike. The mean of
    the distributions of guesses over all permutations of the classes has the same success, and no larger divergence,
    since ``exp((alpha-1) D_alpha)`` is an f-divergence, hence convex in both distributions. In it a right guess has one
    probability a and each wrong one ``(1-a)/(m-1)``: it is randomized response, whose a follows from its divergence,
    which increases with a. *If p > 1/2*, there are two classes, and guesses with ``q_1(2) = w, q_2(2) = u`` succeed
    with ``p (1-w) + (1-p) u``, where the largest u for each w is concave in w (by the same convexity), so that the best
    w lies between the neighbours of the best point of a grid, and then of finer ones. *In between*, for ``1/(m+1) < p <
    1/m``, the extreme probabilities are a mixture of those for 1/m and 1/(m+1), and a convex function is at most the
    mixture of its values there.

    Args:
        epsilon: The Renyi divergence of order alpha between any two labels, features drawn anew.
        alpha: The order, above 1; infinity for pure label privacy.
        classes: k.
        commonest: p, the probability of the most common class.
        delta: Parameter of theorem 5.2, between 0 and 1; every value gives a bound.
        least_loss: l, the smallest loss of a wrong answer; losses lie in [0, 1].

    Returns:
        A bound. Of its sizes, ``printed`` is theorem 5.2 at ``delta``, and ``direct`` the other bound.

    References:
        Busa-Fekete et al. 2023, theorem 5.2; the best delta solves ``exp(-epsilon) (1-p) s delta^(s-1) = k-1`` for
        ``s = 1/(alpha-1)``, where s is below 1. Van Erven and Harremoes 2014, theorem 13, for the convexity.

    Example:
        >>> from labeldp.bounds import attack_limit
        >>> bound = attack_limit(0.5, 8.0, classes=2, commonest=0.6)
        >>> round(bound.value, 3), round(bound.size("printed"), 3)
        (0.637, 0.881)
    """
    a, k, p = check_order(alpha), check_classes(classes), _check_commonest(commonest, classes)
    e, loss = _checks.not_negative(epsilon, "epsilon"), _checks.share(least_loss, "least_loss")
    power = 0.0 if math.isinf(a) else 1 / (a - 1)
    share = math.exp(-e) * (1 - p)
    best_delta = (
        _best_delta(share, power, k) if delta is None else _checks.share(delta, "delta", "(]" if power else "[]")
    )
    remaining = share * (math.pow(best_delta, power) if power else 1.0) - (k - 1) * best_delta
    printed = 1 - max(0.0, remaining) * loss
    direct = 1 - (1 - _success_bound(e, a, k, p)) * loss
    theorem = f"{_PAPER}, theorem 5.2" + (", sharpened" if direct < printed else "")
    return _attack_bound(
        min(printed, direct), theorem, p, (("delta", best_delta), ("printed", printed), ("direct", direct))
    )


def pure_attack_limit(epsilon: float, classes: int, commonest: float, least_loss: float = 1.0) -> Bound:
    """Upper bound on the utility of an attack on a release with a pure epsilon, tight for some mechanism.

    ``max_m e/(e + m - 1) min(1, m p)`` over ``m = 1..k``, with ``e = exp(epsilon)``: the probability of a right guess,
    if no class has a probability above p. Randomized response on the m likeliest classes reaches it.

    Proof. Let ``d_y = q_y(y)`` for distributions q of guesses (see the module). Whatever y is, the class j is guessed
    with a probability of at least ``d_j / e``, so ``1 >= d_y + sum_(j != y) d_j / e = d_y (1 - 1/e) + D / e`` for ``D =
    sum_j d_j``: no ``d_y`` is above ``c(D) = (e - D)/(e - 1)``. For a given D, ``sum_y pi_y d_y`` is at most its value
    for ``d_y = c(D)`` on the likeliest classes, as many as fit into D, and the rest of D on the next one. Between two
    values of D at which that is a whole number m of classes it is linear in D, so it is largest at such a value, ``m
    c(D) = D``: there ``d_y = e/(e + m - 1)`` for the m likeliest classes, whose probabilities sum to at most ``min(1, m
    p)``.

    The posterior odds of a class change by a factor of e at most, so that no posterior is above ``e p/(e p + 1 - p)``.
    That bounds the success too, and is larger unless p = 1/k.

    Args:
        epsilon: The pure epsilon of everything released of a row, features drawn anew; or of the released label, if the
            features are unknown to the attacker.
        classes: k.
        commonest: p, the probability of the most common class.
        least_loss: The smallest loss of a wrong answer; losses lie in [0, 1].

    References:
        Ghazi et al. 2021, theorem 3, where the same sum is the probability that RRWithPrior keeps a label under a known
        prior.

    Example:
        >>> from labeldp.bounds import pure_attack_limit
        >>> round(pure_attack_limit(1.0, classes=2, commonest=0.5).value, 3)
        0.731
        >>> round(pure_attack_limit(0.5, classes=2, commonest=0.7).value, 3)  # always the most common class
        0.7
    """
    e, k, p = _checks.not_negative(epsilon, "epsilon"), check_classes(classes), _check_commonest(commonest, classes)
    loss = _checks.share(least_loss, "least_loss")
    return _attack_bound(1 - (1 - _pure_success(e, k, p)) * loss, "direct, with Ghazi et al. 2021, theorem 3", p, ())


def conditional_attack_limit(
    promised: Iterable[RenyiGuarantee], classes: int, commonest: float, least_loss: float = 1.0
) -> Bound:
    """Upper bound on the utility of an attack under several guarantees of one release: their smallest limit.

    Args:
        promised: Guarantees with conditional features, such as ``RowRelease.conditional``: one for each order. One with
            static features limits no attack on features that predict the label, and is refused.
        classes: k.
        commonest: p, the probability of the most common class.
        least_loss: The smallest loss of a wrong answer; losses lie in [0, 1].

    Returns:
        The limit of the best order; the size ``alpha`` is that order.

    References:
        Busa-Fekete et al. 2023, theorem 5.2, which holds for every order; see ``attack_limit``.

    Example:
        >>> from labeldp.bounds import conditional_attack_limit
        >>> from labeldp import RenyiGuarantee
        >>> guarantees = [RenyiGuarantee(alpha, 0.05 * alpha, "conditional", "anyone") for alpha in (2.0, 8.0)]
        >>> bound = conditional_attack_limit(guarantees, classes=2, commonest=0.5)
        >>> round(bound.value, 3), bound.size("alpha")
        (0.58, 2.0)

    Raises:
        InputError: There are no guarantees, or one has static features.
    """
    guarantees = list(promised)
    if not guarantees or any(each.features != "conditional" for each in guarantees):
        raise InputError(
            "expected guarantees with conditional features, found none, or one with static features, which limits no "
            "attack that knows the features"
        )
    limits = [attack_limit(each.epsilon, each.alpha, classes, commonest, least_loss=least_loss) for each in guarantees]
    best = min(range(len(guarantees)), key=lambda i: limits[i].value)
    assumptions = dict.fromkeys((*limits[best].assumptions, *guarantees[best].assumptions))
    sizes = (("alpha", guarantees[best].alpha), *limits[best].sizes)
    return dataclasses.replace(limits[best], assumptions=tuple(assumptions), sizes=sizes)


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
    a, k, lam = check_order(alpha), check_classes(classes), _checks.share(noise, "noise", "(]")
    apart = _checks.not_negative(divergence, "divergence")
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
    a, k, lam = check_order(alpha), check_classes(classes), _checks.share(noise, "noise", "(]")
    whole = math.log1p((1 - lam) * k / lam)
    value = whole if math.isinf(a) else (a * whole - math.log(k / lam)) / (a - 1)
    return Bound(
        value=max(0.0, value),
        kind="lower",
        theorem=f"{_PAPER}, theorem 7.2",
        statement=f"the divergence of order {a:g} between two labels' releases is at least this",
        constants="proven",
    )


def _attack_bound(value: float, theorem: str, commonest: float, sizes: tuple[tuple[str, float], ...]) -> Bound:
    assumed = (_DRAWN, f"no class is more likely than {commonest:g}")
    return Bound(value, "upper", theorem, _STATEMENT, "proven", assumed, sizes)


def _check_commonest(value: float, classes: int) -> float:
    """Validate the probability of the most common of so many classes."""
    p, k = _checks.share(value, "commonest"), check_classes(classes)
    if p < 1 / k:
        raise InputError(f"expected the most common class to have a probability of at least 1/{k}, found {p:g}")
    return p


def _best_delta(share: float, power: float, classes: int) -> float:
    """The delta with the smallest bound; 0 if the order is at most 2."""
    if power == 0 or power >= 1 or share == 0:
        return 0.0
    return min(1.0, math.pow(share * power / (classes - 1), 1 / (1 - power)))


def _success_bound(epsilon: float, alpha: float, classes: int, commonest: float) -> float:
    """Upper bound on the probability of a right guess; see ``attack_limit``."""
    if epsilon == 0 or commonest == 1:
        return commonest
    if math.isinf(alpha):
        return _pure_success(epsilon, classes, commonest)
    if commonest > 0.5:
        return _two_class_success(epsilon, alpha, commonest)
    m = min(int(1 / commonest), classes - 1)
    share = min(1.0, max(0.0, (commonest - 1 / (m + 1)) * m * (m + 1)))  # weight of the extreme probabilities for 1/m
    return share * _even_success(epsilon, alpha, m) + (1 - share) * _even_success(epsilon, alpha, m + 1)


def _pure_success(epsilon: float, classes: int, commonest: float) -> float:
    """Maximum over m, which increases up to the last m with ``m p <= 1`` and decreases from the next one on."""
    near = int(1 / commonest)
    sizes = range(max(1, near - 1), min(classes, near + 2) + 1)
    return max(min(1.0, m * commonest) / (1 + (m - 1) * math.exp(-epsilon)) for m in sizes)


def _even_success(epsilon: float, alpha: float, m: int) -> float:
    """Probability a that randomized response of m classes keeps a label, at its divergence; ``c = (1-a)/(m-1)``.

    ``exp((alpha-1) D) = a^alpha c^(1-alpha) + c^alpha a^(1-alpha) + (m-2) c``, solved for ``t = ln(a/c)``, which lies
    between D and ``D + ln(m)/(alpha-1)``.
    """
    if m == 1:
        return 1.0
    low, high = epsilon, epsilon + math.log(m) / (alpha - 1)
    for _ in range(_HALVINGS):
        t = (low + high) / 2
        log_keep = -math.log1p((m - 1) * math.exp(-t))
        parts = [log_keep + (alpha - 1) * t, log_keep - alpha * t] + ([log_keep - t + math.log(m - 2)] if m > 2 else [])
        low, high = (low, t) if np.logaddexp.reduce(parts) >= (alpha - 1) * epsilon else (t, high)
    return 1 / (1 + (m - 1) * math.exp(-high))


def _two_class_success(epsilon: float, alpha: float, commonest: float) -> float:
    """The largest ``p (1-w) + (1-p) u``, over the probabilities w and u of guessing the rarer class of two."""
    low, high = _LEAST_LOGARITHM, -_LEAST_SHARE
    for _ in range(_ZOOMS):
        logarithms = np.linspace(low, high, _POINTS)
        gains = (1 - commonest) * np.exp(_largest_within(logarithms, epsilon, alpha)) - commonest * np.exp(logarithms)
        best = int(np.argmax(gains))
        low, high = logarithms[max(best - 1, 0)], logarithms[min(best + 1, _POINTS - 1)]
    return commonest + max(0.0, float(gains[best]))


def _largest_within(logarithms: Float[np.ndarray, "m"], epsilon: float, alpha: float) -> Float[np.ndarray, "m"]:
    """Logarithm of the largest u whose coin is within the divergence of that of each w, both ways."""
    low, high = logarithms, np.full_like(logarithms, -_LEAST_SHARE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        divergence = np.maximum(
            _coin_divergence(middle, logarithms, alpha), _coin_divergence(logarithms, middle, alpha)
        )
        beyond = divergence >= (alpha - 1) * epsilon
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high


def _coin_divergence(
    first: Float[np.ndarray, "m"], second: Float[np.ndarray, "m"], alpha: float
) -> Float[np.ndarray, "m"]:
    """``alpha - 1`` times the divergence of two coins, from the logarithms of their probabilities of heads."""
    tails, others = np.log(-np.expm1(first)), np.log(-np.expm1(second))
    return np.asarray(np.logaddexp(alpha * first + (1 - alpha) * second, alpha * tails + (1 - alpha) * others))


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
    return float(np.logaddexp(one, other)) / (1 - root)
