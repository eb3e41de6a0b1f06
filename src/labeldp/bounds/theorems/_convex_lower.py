"""Lower bound for convex optimization from labels that are each randomized once, with its constants."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from labeldp.bounds._checks import check_classes
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._convex_problem import ConvexProblem

_ONCE = "each label is randomized once, by a channel that may depend on earlier outputs"


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
