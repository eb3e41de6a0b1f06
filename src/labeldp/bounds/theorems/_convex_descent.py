"""Upper bounds for descent with any channel: each label used once, at its own step, through an unbiased gradient.

With gradients of mean squared length at most ``G^2`` and the step ``R / (G sqrt(n))``, the mean of the points at which
they were taken is off by at most ``R G / sqrt(n)`` (Bubeck 2015, section 6.1), R the largest distance between the first
point and the best one. So a mechanism enters only through G.
"""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.bounds._checks import check_classes
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._convex_problem import ConvexProblem, Sizes
from labeldp.privacy.channels import ClassChannel, SubsetChannel, candidate_sizes, gradient_noise

_CHUA = "Chua et al. 2025"
_AMONG = "the true class of each row is one of its candidates"


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
