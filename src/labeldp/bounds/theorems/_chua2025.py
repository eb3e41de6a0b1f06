"""Convex optimization from private labels: Chua et al. 2025, theorems 1 and 2, Appendix A and corollary 1.

Each label is used once, at its own step, through an unbiased gradient. With gradients of mean squared length at most
``G^2`` and the step ``R / (G sqrt(n))``, the mean of the points at which they were taken is off by at most ``R G /
sqrt(n)`` (Bubeck 2015, section 6.1), R the largest distance between the first point and the best one. So a mechanism
enters only through G. The lower bound with constants holds for labels that are each randomized once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeldp import _checks
from labeldp.bounds._checks import check_classes
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._convex_problem import ConvexProblem, Sizes
from labeldp.privacy.channels import (
    ClassChannel,
    SubsetChannel,
    candidate_sizes,
    estimation_size,
    gradient_noise,
)

_CHUA = "Chua et al. 2025"
_AMONG = "the true class of each row is one of its candidates"
_ONCE = "each label is randomized once, by a channel that may depend on earlier outputs"
_MANY_ROWS = 1 << 60


@dataclass(frozen=True)
class ConvexRate:
    """Cost of private labels in convex optimization: the excess over ``R L / sqrt(n)``, for many rows.

    Attributes:
        regime: ``"high"`` privacy for epsilon up to 1, ``"medium"`` up to ln K, and ``"low"``.
        response: The order of Ghazi 2021 with randomized response, ``max(K / (e-1), 1)``, e for exp(epsilon): in the
            three regimes K/epsilon, K/e and 1.
        vector: The order of Chua 2025, corollary 1: ``sqrt(K) / min(epsilon, 1)``.
        subset: The order of Chua 2025, theorems 1 and 2: ``sqrt(max(K e / (e-1)^2, 1))``: in the three regimes
            sqrt(K)/epsilon, sqrt(K/e) and 1.
        reached: Proven upper bound: ``mechanisms.gradient_response`` reaches it with any gradients
            (``convex_channel_upper``).
        needed: Proven lower bound for protocols that randomize each label once (``convex_sequential_lower``).
    """

    regime: Literal["high", "medium", "low"]
    response: float
    vector: float
    subset: float
    reached: float
    needed: float


def convex_local_upper(problem: ConvexProblem, classes: int) -> Bound:
    """Chua 2025, theorem 1, with its constants: independent bits, and one step of descent for each label.

    With ``G^2 = L^2 (1 + ((e+1)^2 + 4 (K-1) e) / (e-1)^2)``, e for exp(epsilon), and the step of line 7,
    ``eta = (R / L) (e-1) / sqrt(2 n (K + e) e)``: at most ``R^2 / (2 eta n) + eta G^2 / 2``.

    Args:
        problem: n, epsilon of each label, R and L.
        classes: K.

    References:
        Chua et al. 2025, theorem 1, with the first line of its display for G, which is an equality where all gradients
        have length L, since bits are independent. The display after it writes R where R^2 is meant. Line 12
        averages the points after each step; the analysis covers those before, from which gradients are taken.

    Example:
        >>> from labeldp.bounds.theorems import ConvexProblem, convex_local_upper
        >>> [round(convex_local_upper(ConvexProblem(100_000, epsilon), 10).value, 4) for epsilon in (0.5, 1.0, 4.0)]
        [0.0414, 0.0203, 0.0053]
    """
    k = check_classes(classes)
    moment, step = _bit_moment(k, problem.epsilon), _bit_step(problem.rows, k, problem.epsilon)
    value = 1 / (2 * step * problem.rows) + step * moment / 2
    sizes = (("step", problem.diameter / problem.lipschitz * step), ("second moment", problem.lipschitz**2 * moment))
    return problem.upper(value, f"{_CHUA}, theorem 1", "independent bits and one step for each label", sizes=sizes)


def convex_local_lower(problem: ConvexProblem, classes: int) -> Bound:
    """Chua 2025, theorem 2: ``sqrt(max(K e / (e-1)^2, 1)) R L / sqrt(n)``, with constant 1, e for exp(epsilon).

    Args:
        problem: n, at least of the order of ``K^2 e / (e-1)^2``, epsilon of each label, R and L.
        classes: K.

    References:
        Chua et al. 2025, theorem 2, for interactive protocols as well; its constant comes from Acharya et al. 2023.
        ``convex_sequential_lower`` has a proven one, where each label is randomized once.
    """
    k = check_classes(classes)
    value = math.sqrt(max(k * _gap_factor(problem.epsilon), 1.0) / problem.rows)
    assumed = ("there are many more rows than K^2 e / (e-1)^2",)
    scope = ", for every protocol that randomizes labels"
    return problem.lower(value, f"{_CHUA}, theorem 2", scope, "conventional", assumed)


def convex_channel_upper(
    rows: int,
    channel: ClassChannel,
    diameter: float = 1.0,
    lipschitz: float = 1.0,
    *,
    right_angled: float | None = None,
) -> Bound:
    """Descent from labels that any channel released, at its own step: at most ``R G / sqrt(n)``.

    ``G^2`` is ``privacy.gradient_noise(channel).second_moment(...)``, averaged over rows if the channel differs by row.

    Args:
        rows: n.
        channel: The channel of the released labels.
        diameter: R, or the largest distance from the starting point of descent.
        lipschitz: L.
        right_angled: s, if the gradients of the classes are ``c + u_j`` with orthogonal ``u_j`` of length at most s,
            like those of softmax.

    References:
        Chua et al. 2025, theorem 1, for another unbiased vector than that of independent bits; Bubeck 2015.

    Example:
        >>> from labeldp import Classes
        >>> from labeldp.bounds.theorems import ConvexProblem, convex_channel_upper, convex_local_upper
        >>> from labeldp import gradient_response
        >>> channel = gradient_response(Classes(range(10)), 1.0).channel()
        >>> bits = convex_local_upper(ConvexProblem(100_000, 1.0), 10)
        >>> round(convex_channel_upper(100_000, channel).value, 4), round(bits.value, 4)
        (0.0183, 0.0203)
    """
    problem = ConvexProblem(rows, channel.epsilon, diameter, lipschitz)
    length = None if right_angled is None else _checks.positive(right_angled, "right_angled")
    return _descent(
        problem,
        gradient_noise(channel).second_moment(problem.lipschitz, length),
        "Bubeck 2015, section 6.1",
        "labels from this channel and one step for each",
        assumptions=() if candidate_sizes(channel) is None else (_AMONG,),
    )


def convex_subset_upper(problem: ConvexProblem, classes: int, size: int | None = None) -> Bound:
    """Chua 2025, Appendix A, with its constants: subsets of a fixed size, and one step of descent for each label.

    The Appendix derives ``G^2 <= 2 (1 + d) L^2 / (gamma - zeta)^2`` on the way to its order, gamma and zeta the
    probabilities that a subset contains the true class and another one. The value is at the exact G,
    ``privacy.gradient_noise``, which is smaller.

    Args:
        problem: n, epsilon of each label, R and L.
        classes: K.
        size: d; by default that of the Appendix, ``ceil(K / (2 e))`` with e for exp(epsilon).

    References:
        Chua et al. 2025, Appendix A: equations (4) and (5) and the display before "Combining". Its size is not the one
        with the least noise, which is ``privacy.estimation_size`` (``mechanisms.gradient_response``).

    Example:
        >>> from labeldp.bounds.theorems import ConvexProblem, convex_subset_upper
        >>> bound = convex_subset_upper(ConvexProblem(100_000, 1.0), 1000)
        >>> bound.size("subset size"), round(bound.size("second moment")), round(bound.size("printed second moment"))
        (184.0, 3904, 9611)
    """
    k = check_classes(classes)
    usual = max(1, math.ceil(k * math.exp(-problem.epsilon) / 2))
    d = min(usual, k - 1) if size is None else _checks.whole(size, "size", 1, k - 1)
    channel = SubsetChannel.at(k, d, problem.epsilon)
    membership = channel.membership
    printed = problem.lipschitz**2 * 2 * (1 + d) / float(membership.true - membership.other) ** 2
    return _descent(
        problem,
        gradient_noise(channel).second_moment(problem.lipschitz),
        f"{_CHUA}, Appendix A",
        "subsets of this size and one step for each label",
        sizes=(("subset size", float(d)), ("printed second moment", printed)),
    )


def convex_vector_upper(problem: ConvexProblem, classes: int, *, right_angled: float | None = None) -> Bound:
    """Chua 2025, corollary 1, with its constants: a random direction in the span of the K gradients, and one bit.

    A vector v of length at most M in r dimensions is released as ``B b U``: U is uniform on the unit sphere, and the
    bit b is 1 or -1 with mean ``(e-1)/(e+1) |v|/M sign<v, U>``, e for exp(epsilon). Since ``E[sign<v, U> U]`` is
    ``E|U_1| v/|v|``, the mean is v for ``B = M (e+1)/(e-1) / E|U_1|``, where ``1 / E|U_1| = sqrt(pi) Gamma((r+1)/2) /
    Gamma(r/2)``. The released vector always has the length B. So ``G^2 = B^2`` at ``M = L``, ``r = K``: about ``pi/2 K
    L^2 ((e+1)/(e-1))^2``, which stays in the order of K however large epsilon is.

    If gradients are ``c + u_j`` with orthogonal ``u_j`` of length s, their mean is used as it is, and only the rest is
    randomized, ``|v_j|^2 = s^2 (1 - 1/K)`` in ``K - 1`` dimensions: ``G^2 <= L^2 - |v_j|^2 + B^2``.

    Args:
        problem: n, epsilon of each label, R and L.
        classes: K.
        right_angled: s, if gradients have that form; 1 for those of softmax, 1/2 for those of Chua's hard loss.

    References:
        Chua et al. 2025, corollary 1 and theorem 4, which is Duchi et al. 2013 (the uniform distribution on a half
        sphere is U with the bit). It is interactive: a label is queried at its step (``mechanisms.NoisyGradients``).

    Example:
        >>> from labeldp.bounds.theorems import ConvexProblem, convex_channel_upper, convex_vector_upper
        >>> [round(convex_vector_upper(ConvexProblem(100_000, epsilon), 10).value, 4) for epsilon in (0.5, 1.0, 4.0)]
        [0.0499, 0.0265, 0.0127]
    """
    k = check_classes(classes)
    if right_angled is None:
        moment = problem.lipschitz**2 * _direction_moment(k, problem.epsilon)
    else:
        rest = _checks.positive(right_angled, "right_angled") ** 2 * (1 - 1 / k)
        moment = problem.lipschitz**2 + rest * (_direction_moment(k - 1, problem.epsilon) - 1)
    return _descent(problem, moment, f"{_CHUA}, corollary 1", "a direction and a bit for each label, at its step")


def convex_sequential_lower(problem: ConvexProblem, classes: int) -> Bound:
    """Chua 2025, theorem 2, with a proven constant: lower bound if each label is randomized once.

    Each label goes through a channel of that epsilon, which may depend on earlier outputs and on public randomness.
    With e for exp(epsilon): for every even K and every t between 0 and 1, some distribution of the labels has an excess
    of at least ``R L c / (2 sqrt(K-1)) (1 - sqrt((1+t)/2))``, with c the larger one of

    * ``2 / (1 + sqrt(1 + 4 / q))``, ``q = t^2 K^3 / (4 n S)``, ``S = max_j j (K (e-1) / (K + j (e-1)))^2`` over
      ``j = 1 .. K/2``, where ``S <= K (e-1)^2 / (2 e)``;
    * ``sqrt(T / (2 + T))``, ``T = t^2 K / n``, which holds without privacy too.

    The value is the largest over t, and over even numbers of classes up to K, the others having probability 0. For even
    K and n from ``K^2 e / (4 (e-1)^2)`` on it is at least ``R L / 64 sqrt(K e / ((e-1)^2 n))``.

    Proof. *The distributions.* All rows have the same features. For signs v_i, ``i = 1 .. K/2``, a label is ``2i-1``
    with probability ``(1 + c v_i) / K``, and ``2i`` with probability ``(1 - c v_i) / K``. Parameters are vectors w of
    at most ``R/2`` in K dimensions, and the loss of w and a label y is ``-L <w, e_y - 1/K> / sqrt(1 - 1/K)``: linear,
    and L-Lipschitz since ``|e_y - 1/K|^2 = 1 - 1/K``. With ``u = 2w/R`` and ``b = (v_1, -v_1, v_2, ...) / sqrt(K)``, a
    unit vector, ``E[e_y] - 1/K = c b / sqrt(K)``. So the excess of w is ``R L c / (2 sqrt(K-1)) (1 - <u, b>)``.

    *Signs.* Let ``y_i = (u_(2i-1) - u_(2i)) / sqrt(2)``; then ``|y| <= |u| <= 1`` and ``<u, b> = sum_i v_i y_i /
    sqrt(K/2)``. If H of the signs of y are not those of v, the others add up to at most ``sqrt(K/2 - H)`` by Cauchy and
    Schwarz: ``<u, b> <= sqrt(1 - H/(K/2))``. By Jensen the mean of that is at most its value at the mean of H.

    *Assouad.* For random signs, ``E H >= sum_i (1 - E TV_i) / 2``, TV_i the total variation between all outputs under v
    and under v with its i-th sign flipped. By Jensen and Pinsker, ``TV^2 <= KL/2``, the mean of TV_i over i and v is at
    most ``sqrt(E sum_i KL_i / K)``. By the chain rule ``sum_i KL_i <= n I`` if one released label has ``sum_i KL_i <=
    I`` through every channel. So if ``n I / K <= t^2``, then ``E H / (K/2) >= (1-t)/2``, which is the excess above.

    *One label, by privacy.* Let a_y be the probability of an outcome given y, m its mean over y. Under p its
    probability is at least ``(1-c) m``, and flipping v_i changes it by ``2c (a_(2i-1) - a_(2i)) / K`` up to sign. KL is
    at most the chi-squared divergence, ``4c^2 / (K^2 (1-c)) sum_i (a_(2i-1) - a_(2i))^2 / m`` summed over outcomes.
    With ``D`` the root of that sum over i, D is a norm, so ``D / m`` is largest at an extreme point of the set that
    epsilon allows, up to scale: j entries e and the others 1. At most j pairs differ and at most ``K/2``; further
    entries e would only raise m: ``(D/m)^2 <= S``. The m sum to 1 over outcomes: ``I <= 4 c^2 S / (K^2 (1-c))``, which
    is ``t^2 K / n`` for the first c. For S: ``(K + j (e-1))^2 >= 4 K j (e-1)`` gives ``S <= K (e-1) / 4``, which is at
    most ``K (e-1)^2 / (2e)`` for e from 2 on; for e below 3 the largest is at ``j = K/2``, ``2 K ((e-1)/(e+1))^2``, and
    ``(e+1)^2 >= 4e``.

    *One label, without privacy.* By data processing the output is at most as informative as the label: ``I <= 2 c
    artanh(c) <= 2 c^2 / (1 - c^2)``, which is T for the second c.

    *The constant.* At ``t = 1/2`` and ``c = K sqrt(e) / (4 sqrt(n) (e-1)) <= 1/2``: ``I <= 2 c^2 (e-1)^2 / (K e (1-c))
    <= 4 c^2 (e-1)^2 / (K e) = K / (4n)``, as asked for. With ``1 - sqrt(3/4) > 1/8`` the excess is above
    ``R L c / (16 sqrt(K))``, which is the 64th part of the root above.

    Args:
        problem: n, epsilon of each label, R and L.
        classes: K.

    References:
        Chua et al. 2025, theorem 2: its loss and its reduction. It rests on Acharya et al. 2023 for fully interactive
        protocols, with an unspecified constant: ``convex_local_lower``. Signs: Assouad 1983; Tsybakov 2009.

    Example:
        >>> from labeldp.bounds.theorems import ConvexProblem, convex_local_upper, convex_sequential_lower
        >>> bound = convex_sequential_lower(ConvexProblem(1_000_000, 1.0), 100)
        >>> round(bound.value, 5), round(convex_local_upper(ConvexProblem(1_000_000, 1.0), 100).value, 5)
        (0.00025, 0.02034)
    """
    most = check_classes(classes) // 2
    halves = {max(1, round(most * 2 ** (-step / 4))) for step in range(4 * most.bit_length() + 1)}
    value, c, k = max(_excess(problem, 2 * half) for half in sorted(halves))
    assumed = (_ONCE, "parameters have as many dimensions as there are classes")
    bound = problem.lower(value, "Chua et al. 2025, theorem 2, with constants", "", "proven", assumed)
    return dataclasses.replace(bound, sizes=(("classes", float(k)), ("shift", c)))


def convex_rate(epsilon: float, classes: int) -> ConvexRate:
    """Privacy regime of an epsilon, the papers' orders in it, and proven factors.

    Args:
        epsilon: Of each label.
        classes: K.

    References:
        Chua et al. 2025, section 1: the three regimes; theorem 1, theorem 2 and corollary 1. Ghazi et al. 2021, theorem
        9, extended to all regimes by Chua et al.

    Example:
        >>> from labeldp.bounds import convex_rate
        >>> for epsilon in (0.5, 3.0, 8.0):
        ...     costs = convex_rate(epsilon, 1000)
        ...     print(costs.regime, round(costs.response), round(costs.subset, 1), round(costs.reached, 1))
        high 1541 62.6 125.1
        medium 52 7.4 14.8
        low 1 1.0 1.5
    """
    e, k = _checks.epsilon(epsilon), check_classes(classes)
    channel = SubsetChannel.at(k, estimation_size(k, e), e)
    return ConvexRate(
        regime="high" if e <= 1 else "medium" if e <= math.log(k) else "low",
        response=max(k / math.expm1(e), 1.0),
        vector=math.sqrt(k) / min(e, 1.0),
        subset=max(math.sqrt(k) / (2 * math.sinh(e / 2)), 1.0),
        reached=math.sqrt(gradient_noise(channel).second_moment()),
        needed=convex_sequential_lower(ConvexProblem(_MANY_ROWS, e), k).value * math.sqrt(_MANY_ROWS),
    )


def _gap_factor(epsilon: float) -> float:
    """``e / (e-1)^2`` for e = exp(epsilon), without overflow."""
    return 1 / (4 * math.sinh(epsilon / 2) ** 2)


def _bit_moment(classes: int, epsilon: float) -> float:
    """G^2 for L = 1: 1, the variance of the true class's bit, ``((e+1)/(e-1))^2``, and ``4e/(e-1)^2`` of each other."""
    return 1 + 1 / math.tanh(epsilon / 2) ** 2 + 4 * (classes - 1) * _gap_factor(epsilon)


def _bit_step(rows: int, classes: int, epsilon: float) -> float:
    """Line 7 for R = L = 1: ``(e-1) / sqrt(2 n (K + e) e)``."""
    return -math.expm1(-epsilon) / math.sqrt(2 * rows * (1 + classes * math.exp(-epsilon)))


def _descent(
    problem: ConvexProblem,
    moment: float,
    theorem: str,
    mechanism: str,
    assumptions: tuple[str, ...] = (),
    sizes: Sizes = (),
) -> Bound:
    """``R G / sqrt(n)``, at the step ``R / (G sqrt(n))``."""
    slowness = math.sqrt(moment * problem.rows)
    sizes = (("step", problem.diameter / slowness), ("second moment", moment), *sizes)
    return problem.upper(slowness / (problem.lipschitz * problem.rows), theorem, mechanism, assumptions, sizes)


def _direction_moment(dimension: int, epsilon: float) -> float:
    """B^2 for M = 1."""
    gamma = math.exp(2 * (math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2)))
    return math.pi * gamma / math.tanh(epsilon / 2) ** 2


def _excess(problem: ConvexProblem, k: int) -> tuple[float, float, int]:
    """The largest excess for k classes over t, for ``R = L = 1``; c; and k."""
    t = np.arange(1, 100) / 100
    bits = t**2 * k / problem.rows
    quotient = bits / (4 * _largest_difference(k, problem.epsilon) / k**2)
    shift = np.maximum(2 / (1 + np.sqrt(1 + 4 / quotient)), np.sqrt(bits / (2 + bits)))
    excess = shift / (2 * math.sqrt(k - 1)) * (1 - np.sqrt((1 + t) / 2))
    best = int(excess.argmax())
    return float(excess[best]), float(shift[best]), k


def _largest_difference(k: int, epsilon: float) -> float:
    """S, whose maximizing j is next to ``K / (e-1)``."""
    low, gap = math.exp(-epsilon), -math.expm1(-epsilon)
    near = min(k * low / gap, k / 2)
    return max(j * (k * gap / (k * low + j * gap)) ** 2 for j in (max(1, math.floor(near)), max(1, math.ceil(near))))
