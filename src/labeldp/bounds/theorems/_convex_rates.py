"""Orders of convex optimization in all privacy regimes (Chua et al. 2025, section 1), and proven factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from labeldp import _checks
from labeldp.bounds._checks import check_classes
from labeldp.bounds.theorems._convex_lower import convex_sequential_lower
from labeldp.bounds.theorems._convex_problem import ConvexProblem
from labeldp.privacy.channels import SubsetChannel, estimation_size, gradient_noise

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
