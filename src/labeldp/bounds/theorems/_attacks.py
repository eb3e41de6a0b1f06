"""What an attack on labels can gain, where features change with the label: Busa-Fekete et al. 2023, and sharper.

Here ``P_y`` is the law of all that is released of a row whose label is y, and what is bounded is its divergence from
that of any other label. Features that anybody knows beforehand, such as static ones, are not covered: if they tell the
label, no epsilon of the label alone bounds an attack (Wu et al. 2022; Busa-Fekete et al. 2023, theorem 5.1).

A guess is a function of what was released. So it has a law ``q_y`` over the classes, whose divergences are no larger,
and the success of an attack is ``sum_y pi_y q_y(y)`` for the chances pi of the classes. Conversely such laws are a
mechanism, whose best attack gains at least that sum. The largest sum is convex in pi, so that among all pi without a
chance above p it is largest at an extreme one: as many chances of p as there is room for, one chance for the rest, and
then zeros.

These numbers are floats, for planning: no certificate rests on them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from labeldp.bounds._checks import chance, classes_of, not_negative, order_of
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
    """The most that an attack can gain, 1 minus the expected loss of what it says of true labels.

    The smaller of two bounds. Theorem 5.2: ``1 - (exp(-epsilon) delta^(1/(alpha-1)) (1 - p) - (k-1) delta) l``, for the
    best delta if none is given. And a direct one, ``1 - (1 - S) l``, where S is at least the chance of a right guess.
    It is that chance exactly, for the worst mechanism, if p is 1/m for a whole m, or at least 1/2, or the order is
    infinite (``pure_attack_limit``); so it is the smaller one there.

    Proof. See the module for guesses ``q_y`` and extreme chances. *If p = 1/m*, m classes are alike. The mean of the
    laws of guesses over all ways to rename them has the same success, and no larger divergence, since ``exp((alpha-1)
    D_alpha)`` is an f-divergence, hence convex in both laws. In it a right guess has one chance a and each wrong one
    ``(1-a)/(m-1)``: it is randomized response, whose a is found from its divergence, which grows with a. *If p > 1/2*,
    there are two classes, and guesses with ``q_1(2) = w, q_2(2) = u`` succeed with ``p (1-w) + (1-p) u``, where the
    largest u for each w is concave in w (by the same convexity), so that the best w lies between the neighbours of the
    best point of a grid, and then of finer ones. *In between*, for ``1/(m+1) < p < 1/m``, the extreme chances are a
    mixture of those for 1/m and 1/(m+1), and what is convex is at most the mixture of its values there.

    Args:
        epsilon: The Renyi divergence of order alpha between any two labels, features drawn anew.
        alpha: The order, above 1; infinity for pure label privacy.
        classes: k.
        commonest: p, the probability of the most common class.
        delta: Of theorem 5.2, between 0 and 1; every one gives a bound.
        least_loss: l, the least loss of a wrong answer; losses lie in [0, 1].

    Returns:
        Among the sizes, ``printed`` is theorem 5.2 at ``delta``, and ``direct`` the other bound.

    References:
        Busa-Fekete et al. 2023, theorem 5.2; the best delta solves ``exp(-epsilon) (1-p) s delta^(s-1) = k-1`` for
        ``s = 1/(alpha-1)``, where s is below 1. Van Erven and Harremoes 2014, theorem 13, for the convexity.

    Example:
        >>> from labeldp.bounds import attack_limit
        >>> found = attack_limit(0.5, 8.0, classes=2, commonest=0.6)
        >>> round(found.value, 3), round(found.size("printed"), 3)
        (0.637, 0.881)
    """
    a, k, p = order_of(alpha), classes_of(classes), _commonest(commonest, classes)
    e, worth = not_negative(epsilon, "epsilon"), chance(least_loss, "least_loss")
    power = 0.0 if math.isinf(a) else 1 / (a - 1)
    share = math.exp(-e) * (1 - p)
    chosen = _best_delta(share, power, k) if delta is None else chance(delta, "delta", zero=power == 0)
    kept = share * (math.pow(chosen, power) if power else 1.0) - (k - 1) * chosen
    printed = 1 - max(0.0, kept) * worth
    direct = 1 - (1 - _success(e, a, k, p)) * worth
    theorem = f"{_PAPER}, theorem 5.2" + (", sharpened" if direct < printed else "")
    return _bound(min(printed, direct), theorem, p, (("delta", chosen), ("printed", printed), ("direct", direct)))


def pure_attack_limit(epsilon: float, classes: int, commonest: float, least_loss: float = 1.0) -> Bound:
    """The most that an attack can gain on what is released with a pure epsilon: no mechanism's best attack gains more.

    ``max_m e/(e + m - 1) min(1, m p)`` over ``m = 1..k``, with ``e = exp(epsilon)``: the chance of a right guess, if no
    class has a chance above p. It is reached, by randomized response on the m likeliest classes.

    Proof. Let ``d_y = q_y(y)`` for laws q of guesses (see the module). Whatever y is, the class j is guessed with a
    chance of at least ``d_j / e``, so ``1 >= d_y + sum_(j != y) d_j / e = d_y (1 - 1/e) + D / e`` for ``D = sum_j
    d_j``: no ``d_y`` is above ``c(D) = (e - D)/(e - 1)``. For a given D, ``sum_y pi_y d_y`` is at most what comes of
    ``d_y = c(D)`` for the likeliest classes, as many as D has room for, and the rest of D for the next one. Between two
    values of D at which that is a whole number m of classes it is a straight line in D, so it is largest at such a
    value, ``m c(D) = D``: there ``d_y = e/(e + m - 1)`` for the m likeliest classes, whose chances sum to at most
    ``min(1, m p)``.

    The posterior odds of a class change by a factor of e at most, so that no posterior is above ``e p/(e p + 1 - p)``.
    That bounds the success too, and is larger unless p = 1/k.

    Args:
        epsilon: The pure epsilon of all that is released of a row, features drawn anew; or of the released label, if
            nobody knows the features.
        classes: k.
        commonest: p, the probability of the most common class.
        least_loss: The least loss of a wrong answer; losses lie in [0, 1].

    References:
        Ghazi et al. 2021, theorem 3, where the same sum is what RRWithPrior keeps of a known prior.

    Example:
        >>> from labeldp.bounds import pure_attack_limit
        >>> round(pure_attack_limit(1.0, classes=2, commonest=0.5).value, 3)
        0.731
        >>> round(pure_attack_limit(0.5, classes=2, commonest=0.7).value, 3)  # always the most common class
        0.7
    """
    e, k, p = not_negative(epsilon, "epsilon"), classes_of(classes), _commonest(commonest, classes)
    worth = chance(least_loss, "least_loss")
    return _bound(1 - (1 - _pure_success(e, k, p)) * worth, "direct, with Ghazi et al. 2021, theorem 3", p, ())


def conditional_attack_limit(
    promised: Iterable[RenyiGuarantee], classes: int, commonest: float, least_loss: float = 1.0
) -> Bound:
    """The most that an attack can gain under several guarantees of one release: the least of their limits.

    Args:
        promised: Guarantees with conditional features, such as ``RowRelease.conditional``: one for each order. One with
            static features limits no attack on features that tell of the label, and is refused.
        classes: k.
        commonest: p, the probability of the most common class.
        least_loss: The least loss of a wrong answer; losses lie in [0, 1].

    Returns:
        The limit of the best order; ``alpha`` among its sizes is that order.

    References:
        Busa-Fekete et al. 2023, theorem 5.2, which holds for every order; see ``attack_limit``.

    Example:
        >>> from labeldp.bounds import conditional_attack_limit
        >>> from labeldp import RenyiGuarantee
        >>> promised = [RenyiGuarantee(alpha, 0.05 * alpha, "conditional", "anyone") for alpha in (2.0, 8.0)]
        >>> found = conditional_attack_limit(promised, classes=2, commonest=0.5)
        >>> round(found.value, 3), found.size("alpha")
        (0.58, 2.0)

    Raises:
        InputError: There is none, or one has static features.
    """
    given = list(promised)
    if not given or any(each.features != "conditional" for each in given):
        raise InputError(
            "expected guarantees with conditional features, found none, or one with static features, which limits no "
            "attack that knows the features"
        )
    limits = [attack_limit(each.epsilon, each.alpha, classes, commonest, least_loss=least_loss) for each in given]
    best = min(range(len(given)), key=lambda i: limits[i].value)
    assumed = dict.fromkeys((*limits[best].assumptions, *given[best].assumptions))
    sizes = (("alpha", given[best].alpha), *limits[best].sizes)
    return dataclasses.replace(limits[best], assumptions=tuple(assumed), sizes=sizes)


def _bound(value: float, theorem: str, commonest: float, sizes: tuple[tuple[str, float], ...]) -> Bound:
    assumed = (_DRAWN, f"no class is more likely than {commonest:g}")
    return Bound(value, "upper", theorem, _STATEMENT, "proven", assumed, sizes)


def _commonest(value: float, classes: int) -> float:
    """The chance of the most common of so many classes."""
    p, k = chance(value, "commonest"), classes_of(classes)
    if p < 1 / k:
        raise InputError(f"expected the most common class to have at least one in {k}, found {p:g}")
    return p


def _best_delta(share: float, power: float, classes: int) -> float:
    """The delta with the smallest bound; none is better than 0 where the order is at most 2."""
    if power == 0 or power >= 1 or share == 0:
        return 0.0
    return min(1.0, math.pow(share * power / (classes - 1), 1 / (1 - power)))


def _success(epsilon: float, alpha: float, classes: int, commonest: float) -> float:
    """At least the chance of a right guess; see ``attack_limit``."""
    if epsilon == 0 or commonest == 1:
        return commonest
    if math.isinf(alpha):
        return _pure_success(epsilon, classes, commonest)
    if commonest > 0.5:
        return _success_of_two(epsilon, alpha, commonest)
    m = min(int(1 / commonest), classes - 1)
    share = min(1.0, max(0.0, (commonest - 1 / (m + 1)) * m * (m + 1)))  # of the extreme chances for 1/m
    return share * _even_success(epsilon, alpha, m) + (1 - share) * _even_success(epsilon, alpha, m + 1)


def _pure_success(epsilon: float, classes: int, commonest: float) -> float:
    """The maximum rises up to the last m with ``m p <= 1`` and falls from the next one on."""
    near = int(1 / commonest)
    sizes = range(max(1, near - 1), min(classes, near + 2) + 1)
    return max(min(1.0, m * commonest) / (1 + (m - 1) * math.exp(-epsilon)) for m in sizes)


def _even_success(epsilon: float, alpha: float, m: int) -> float:
    """The chance a that randomized response of m classes keeps a label, at its divergence; ``c = (1-a)/(m-1)``.

    ``exp((alpha-1) D) = a^alpha c^(1-alpha) + c^alpha a^(1-alpha) + (m-2) c``, found from ``t = ln(a/c)``, which lies
    between D and ``D + ln(m)/(alpha-1)``.
    """
    if m == 1:
        return 1.0
    low, high = epsilon, epsilon + math.log(m) / (alpha - 1)
    for _ in range(_HALVINGS):
        t = (low + high) / 2
        kept = -math.log1p((m - 1) * math.exp(-t))
        parts = [kept + (alpha - 1) * t, kept - alpha * t] + ([kept - t + math.log(m - 2)] if m > 2 else [])
        low, high = (low, t) if _log_sum(parts) >= (alpha - 1) * epsilon else (t, high)
    return 1 / (1 + (m - 1) * math.exp(-high))


def _success_of_two(epsilon: float, alpha: float, commonest: float) -> float:
    """The largest ``p (1-w) + (1-p) u``, over the chances w and u to guess the rarer class of two."""
    low, high = _LEAST_LOGARITHM, -_LEAST_SHARE
    for _ in range(_ZOOMS):
        logarithms = np.linspace(low, high, _POINTS)
        found = (1 - commonest) * np.exp(_farthest(logarithms, epsilon, alpha)) - commonest * np.exp(logarithms)
        best = int(np.argmax(found))
        low, high = logarithms[max(best - 1, 0)], logarithms[min(best + 1, _POINTS - 1)]
    return commonest + max(0.0, float(found[best]))


def _farthest(logarithms: Float[np.ndarray, "m"], epsilon: float, alpha: float) -> Float[np.ndarray, "m"]:
    """The logarithm of the largest u whose coin is within the divergence of that of each w, both ways."""
    low, high = logarithms, np.full_like(logarithms, -_LEAST_SHARE)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        apart = np.maximum(_coins(middle, logarithms, alpha), _coins(logarithms, middle, alpha))
        beyond = apart >= (alpha - 1) * epsilon
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return high


def _coins(first: Float[np.ndarray, "m"], second: Float[np.ndarray, "m"], alpha: float) -> Float[np.ndarray, "m"]:
    """``alpha - 1`` times the divergence of two coins, from the logarithms of their chances of heads."""
    tails, others = np.log(-np.expm1(first)), np.log(-np.expm1(second))
    return np.asarray(np.logaddexp(alpha * first + (1 - alpha) * second, alpha * tails + (1 - alpha) * others))


def _log_sum(logarithms: list[float]) -> float:
    """The logarithm of a sum of exponentials."""
    most = max(logarithms)
    return most + math.log(math.fsum(math.exp(each - most) for each in logarithms))
