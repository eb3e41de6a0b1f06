"""Lower bounds on epsilon from the right guesses of one run, by the trade-off curve of the claim.

*Curve.* Let P and Q be the distributions of the output w for the two labels of one canary, all other labels fixed. A
curve bounds ``P(E) <= F(Q(E))`` and ``Q(E) <= F(P(E))`` for every event E, with F concave and increasing. Its inverse
G, the least probability of an event that has probability a under the other label, is what is computed here.

*Recursion.* Of m canaries with fair coins, exactly r are guessed, chosen by w; T guesses are right, p_t = P(T = t), and

    R_j = sum_{t >= j} t p_t / m,    H_j = sum_{t >= j} (r - t) p_t / m,    so R_j + H_j = r P(T >= j) / m.

Then ``G(R_j) <= H_{j-1}`` for every j. Proof: for canary i, with coins s of which all but s_i are fixed, let E be the
event that i is guessed as s_i, and at least j - 1 others are guessed right: a set of outputs w. Drawn with s_i, E says
that i is guessed right and T >= j. Drawn with the other coin, it says that i is guessed wrong and T >= j - 1. The curve
bounds the first probability by F of the second. Averaged over all coins and over i, the first is R_j, the second
H_{j-1}, and F is concave (Jensen). If a label is one of k, evenly, E is drawn with each of the k - 1 others in turn;
averaged over these too, the second is ``H_{j-1} / (k - 1)``: G is replaced by (k - 1) G, and the rest stays.

*Tail.* Let ``P(T >= c) = tau``. Start with ``R = tau c / m``, ``H = tau (r - c) / m``, and for j = c down to 1 raise H
to G(R) if it is below, and R by ``(j - 1) / (r - j + 1)`` times as much (guesses of which j - 1 are right). If R + H
ends above r / m, no mechanism under the curve has this tail. Proof: write R', H' for these numbers, and R, H for a
mechanism's. At each j: (i) ``R >= R'``, (ii) ``R - a H >= R' - a H'`` for ``a = (j - 1) / (r - j + 1)``, (iii) ``R + H
>= R' + H'``. They hold at j = c, where the sums are equal and R >= R'. From j to j - 1, R - a H and R' - a H' stay. If
H' is raised, it is to ``G(R') <= G(R)``, at most the new H, so R >= R' by (ii), and (iii); (ii) for the next a, which
is smaller, adds a multiple of H - H' >= 0. If H' stays, so does R', and R and R + H only grow; for (ii) H >= H' is as
before, and otherwise (i) suffices. At the end ``R + H = r P(T >= 0) / m = r / m``. The end grows with tau, by the same
comparison, and so it shows ``P(T >= c) < tau`` for all larger tails too.

*Limit.* This test cannot approach epsilon for every curve, however many canaries there are: a mechanism that is
randomized response of a larger epsilon in a share of its runs, just above the level, obeys the curve of Gaussian noise
and shows as much as that epsilon in these runs. ``separate_gaussian_lower`` assumes that there is no such common cause.

References:
    Mahloujifar, Melis and Chaudhuri 2025, "Auditing f-differential privacy in one run", for the recursion; the proof
    here is for coins between two labels. Xiang et al. 2025, "Tight privacy audit in one run", for the order statistics
    of separate noise. Dong, Roth and Su 2022 for Gaussian curves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from scipy.special import ndtr, ndtri

from labeldp._confidence_intervals import clopper_pearson_lower, log_odds
from labeldp.privacy.accounting import delta_above

Noise = Literal["any", "gaussian", "separate gaussian"]
Curve = Callable[[float], float]

#: Relative size by which computed probabilities are lowered, for rounding.
_ROUNDING = 1e-9
_HALVINGS = 40
#: No audit shows more than this.
_MOST_EPSILON, _MOST_MU = 60.0, 40.0


def approximate_curve(epsilon: float, delta: float) -> Curve:
    """The curve of (epsilon, delta)-privacy: the least probability of an event under the other label."""
    grow = math.exp(epsilon)

    def least(share: float) -> float:
        return max(0.0, (share - delta) / grow, 1.0 - delta - grow * (1.0 - share))

    return least


def gaussian_curve(mu: float) -> Curve:
    """The curve of Gaussian noise whose mean differs by ``mu`` standard deviations between neighbours."""

    def least(share: float) -> float:
        return float(ndtr(ndtri(share) - mu))

    return least


def uniform_curve(epsilon: float, delta: float, classes: int) -> Curve:
    """``approximate_curve`` for labels drawn evenly from so many classes: the sum over all other labels."""
    curve = approximate_curve(epsilon, delta)
    return lambda share: (classes - 1) * curve(share)


def largest_tail(curve: Curve, canaries: int, hits: int) -> float:
    """Upper bound on the probability of so many right guesses or more, if all canaries are guessed."""
    if allows(curve, canaries, canaries, hits, 1.0):
        return 1.0
    return _halved(lambda level: allows(curve, canaries, canaries, hits, level), 1.0)[1]


def allows(curve: Curve, canaries: int, guesses: int, hits: int, level: float) -> bool:
    """False if no mechanism under the curve has so many right guesses with a probability of ``level`` or more."""
    whole = guesses / canaries
    right, wrong = level * hits / canaries, level * (guesses - hits) / canaries
    for j in range(hits, 0, -1):
        more = curve(min(right, 1.0)) * (1.0 - _ROUNDING) - wrong
        if more <= 0.0:  # and so for every smaller j
            break
        right, wrong = right + more * (j - 1) / (guesses - j + 1), wrong + more
        if right + wrong > whole * (1.0 + _ROUNDING):
            return False
    return True


def least_epsilon(noise: Noise, canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """Lower bound on epsilon at a delta, wrong with a probability of at most ``level``; 0 if nothing is shown.

    Args:
        noise: The assumption on the pipeline.
        canaries: Number of canaries.
        guesses: Number of guesses; for delta above 0 it must not depend on the output.
        hits: Number of right guesses.
        delta: The failure probability.
        level: The error probability.
    """
    return max(0.0, NOISE[noise][1](canaries, guesses, hits, delta, level)) if guesses else 0.0


def _binomial_lower(canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """The bound by a binomial count, of which the failures that delta allows are taken off; for few canaries.

    For delta 0 the proof is that of ``audit_pipeline``. For delta above 0 let P and Q be the two distributions of w
    given s_<i; neither exceeds e^epsilon times the other by more than delta on any event, since averages over later
    coins keep this. With ``p = e^epsilon / (1 + e^epsilon)``, the probability that a guess is right exceeds p by at
    most ``max(P, Q) / (P + Q) - p``, where that is positive; its mean over w, which is drawn from (P + Q) / 2, is ``(1
    - p) / 2`` times the integrals of the positive parts of ``P - e^epsilon Q`` and ``Q - e^epsilon P``, so at most ``(1
    - p) delta <= delta / 2``. Couple each guess with a coin of its own that shows heads with probability p: it is right
    without heads with no more than that mean. So but for a probability of ``m delta / 2`` no right guess lacks heads,
    and the count is at most binomial.
    """
    rest = level - canaries * delta / 2.0
    return log_odds(float(clopper_pearson_lower(hits, guesses, rest))) if rest > 0.0 else 0.0


def _general_lower(canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """The larger of two bounds on the tail of one count, which therefore share one level."""
    counted = _binomial_lower(canaries, guesses, hits, delta, level)
    return max(counted, approximate_lower(canaries, guesses, hits, delta, level)) if delta else counted


def approximate_lower(canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """The bound for any mechanism that is (epsilon, delta)-private, by its curve."""
    return _largest_refused(
        lambda epsilon: allows(approximate_curve(epsilon, delta), canaries, guesses, hits, level), _MOST_EPSILON
    )


def gaussian_lower(canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """The bound for a mechanism that has the curve of Gaussian noise, whatever else it is."""
    mu = _largest_refused(lambda mu: allows(gaussian_curve(mu), canaries, guesses, hits, level), _MOST_MU)
    return _gaussian_epsilon(mu, delta)


def separate_gaussian_lower(canaries: int, guesses: int, hits: int, delta: float, level: float) -> float:
    """The bound for Gaussian noise that is each canary's own: the output depends on each coin through its own draw.

    With the curve of Gaussian noise, an output for a coin is no more than a function of ``x = s mu / 2 + N(0, 1)``, s =
    1 or -1 (Blackwell's theorem), and the x of canaries are independent. Given all x, a guess of a canary is right with
    probability at most ``1 / (1 + exp(-mu |x|))``, independently, so T is largest if the r largest |x| are guessed. Let
    a be a number, and K that of canaries with ``|x| > a``: of these each is guessed right with probability ``q = P(x >
    a | s = 1) / P(|x| > a)``, and all others with less. So if K is at most r, T is stochastically at most binomial (r,
    q). Half of the level is the probability that K exceeds r, which decides a; the other half is the tail of the
    binomial. If all canaries are guessed, a is 0 and the whole level is the binomial's.
    """
    every = guesses == canaries
    part = level if every else level / 2
    beyond = 1.0 if every else float(clopper_pearson_lower(guesses + 1, canaries, part))
    share = float(clopper_pearson_lower(hits, guesses, part))
    return _gaussian_epsilon(_largest_refused(lambda mu: _right_beyond(mu, beyond) > share, _MOST_MU), delta)


def _right_beyond(mu: float, beyond: float) -> float:
    """The share of right guesses of the coins of ``N(s mu / 2, 1)``, among the share of draws that lie farthest out."""
    edge = _halved(lambda size: bool(ndtr(mu / 2 - size) + ndtr(-mu / 2 - size) > beyond), mu / 2 + 40.0)[1]
    right = float(ndtr(mu / 2 - edge))
    return right / (right + float(ndtr(-mu / 2 - edge))) * (1.0 + _ROUNDING)


def _largest_refused(allowed: Callable[[float], bool], most: float) -> float:
    """A number that is not allowed, just below the least that is; 0 if 0 is."""
    return 0.0 if allowed(0.0) else _halved(lambda number: not allowed(number), most)[0]


def _halved(holds: Callable[[float], bool], most: float) -> tuple[float, float]:
    """Numbers close to each other, from 0 to the most: one at which a property holds, and one at which it does not."""
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon at a delta of Gaussian noise, rounded down."""
    if not mu:
        return 0.0
    bound, ratio = Decimal(delta), Decimal(mu)
    return _largest_refused(lambda epsilon: delta_above(Decimal(epsilon), ratio) <= bound, _MOST_EPSILON)


#: For each assumption on a pipeline: the assumption as a sentence, and the bound that it allows.
NOISE: Mapping[Noise, tuple[str, Callable[[int, int, int, float, float], float]]] = MappingProxyType(
    {
        "any": ("", _general_lower),
        "gaussian": ("the pipeline has the trade-off curve of Gaussian noise", gaussian_lower),
        "separate gaussian": (
            "the pipeline has the trade-off curve of Gaussian noise, drawn separately for each canary",
            separate_gaussian_lower,
        ),
    }
)
