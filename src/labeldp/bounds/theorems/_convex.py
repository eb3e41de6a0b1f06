"""Convex optimization from private labels: Chua et al. 2025, theorems 1 and 2; Ghazi et al. 2021, 9 to 17.

The loss is convex and L-Lipschitz in parameters from a convex set of diameter R. Each label is used once, at its own
step, through an unbiased gradient, so that all follows from a bound ``G^2`` of its second moment: averaged iterates of
constant steps are off by ``R^2 / (2 eta n) + eta G^2 / 2`` (Bubeck 2015, section 6.1), the last iterate of steps ``R /
(G sqrt(t))`` by ``2 R G (2 + ln n) / sqrt(n)`` (Shamir and Zhang 2013, theorem 2). No error is above ``R L``.
"""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.bounds._checks import check_classes, check_not_negative, check_positive, check_probability, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._convex_problem import EXCESS, ConvexProblem
from labeldp.errors import EpsilonError
from labeldp.privacy.accounting import least_deviation

_CHUA, _GHAZI = "Chua et al. 2025", "Ghazi et al. 2021"
_STEPS_OF_NOISE = 1 << 20
_MOST_NOISE = 1 << 60


def convex_local_upper(rows: int, epsilon: float, classes: int, diameter: float = 1.0, lipschitz: float = 1.0) -> Bound:
    """Chua 2025, theorem 1, with its constants: independent bits, and one step of descent for each label.

    With ``G^2 = L^2 (1 + ((e+1)^2 + 4 (K-1) e) / (e-1)^2)``, e for exp(epsilon), and the step of line 7,
    ``eta = (R / L) (e-1) / sqrt(2 n (K + e) e)``: at most ``R^2 / (2 eta n) + eta G^2 / 2``.

    Args:
        rows: n.
        epsilon: Of each label.
        classes: K.
        diameter: R.
        lipschitz: L.

    References:
        Chua et al. 2025, theorem 1, with the first line of its display for G, which is an equality where all gradients
        have length L, since bits are independent. The display after it writes R where R^2 is meant. Line 12
        averages the points after each step; the analysis covers those before, from which gradients are taken.

    Example:
        >>> from labeldp.bounds.theorems import convex_local_upper
        >>> [round(convex_local_upper(100_000, epsilon, 10).value, 4) for epsilon in (0.5, 1.0, 4.0)]
        [0.0414, 0.0203, 0.0053]
    """
    problem, k = ConvexProblem(rows, epsilon, diameter, lipschitz), check_classes(classes)
    moment, step = _bit_moment(k, problem.epsilon), _bit_step(problem.rows, k, problem.epsilon)
    return problem.bound(
        "upper",
        1 / (2 * step * problem.rows) + step * moment / 2,
        f"{_CHUA}, theorem 1",
        f"{EXCESS} is at most this with independent bits and one step for each label",
        sizes=(("step", problem.diameter / problem.lipschitz * step), ("second moment", problem.lipschitz**2 * moment)),
    )


def convex_local_lower(rows: int, epsilon: float, classes: int, diameter: float = 1.0, lipschitz: float = 1.0) -> Bound:
    """Chua 2025, theorem 2: ``sqrt(max(K e / (e-1)^2, 1)) R L / sqrt(n)``, with constant 1, e for exp(epsilon).

    Args:
        rows: n, at least of the order of ``K^2 e / (e-1)^2``.
        epsilon: Of each label.
        classes: K.
        diameter: R.
        lipschitz: L.

    References:
        Chua et al. 2025, theorem 2, for interactive protocols as well; its constant comes from Acharya et al. 2023.
        ``convex_sequential_lower`` has a proven one, where each label is randomized once.
    """
    problem, k = ConvexProblem(rows, epsilon, diameter, lipschitz), check_classes(classes)
    return problem.bound(
        "lower",
        math.sqrt(max(k * _gap_factor(problem.epsilon), 1.0) / problem.rows),
        f"{_CHUA}, theorem 2",
        f"{EXCESS} is at least this for some distribution, for every protocol that randomizes labels",
        constants="conventional",
        assumptions=("there are many more rows than K^2 e / (e-1)^2",),
    )


def convex_response_upper(
    rows: int, epsilon: float, classes: int, diameter: float = 1.0, lipschitz: float = 1.0
) -> Bound:
    """Ghazi 2021, theorem 9, with its constants: randomized response, and the unbiased gradients of equation (7).

    ``12 D L K (2 + ln n) / (epsilon sqrt(n))``, from ``G = 6 K L / epsilon``.

    Args:
        rows: n.
        epsilon: Of each label, at most 1.
        classes: K.
        diameter: D.
        lipschitz: L.

    References:
        Ghazi et al. 2021, theorem 9, which leaves the constant open. Its display bounds the gradient's error by
        ``36 K^2 L^2 / epsilon^2`` and uses that for the gradient itself, which is right too: the length of the gradient
        is at most ``L (e + 2K - 3) / (e - 1)``, and so at most ``2 K L / epsilon`` for epsilon up to 1.
    """
    problem, k = ConvexProblem(rows, epsilon, diameter, lipschitz), check_classes(classes)
    value, moment = _response_error(problem.rows, k, _check_at_most_one(problem.epsilon))
    return problem.bound(
        "upper",
        value,
        f"{_GHAZI}, theorem 9",
        f"{EXCESS} is at most this with randomized response and one step for each label",
        sizes=(("second moment", problem.lipschitz**2 * moment),),
    )


def convex_candidates_upper(
    rows: int, epsilon: float, candidates: int, outside: float, diameter: float = 1.0, lipschitz: float = 1.0
) -> Bound:
    """Ghazi 2021, corollary 10, with its constants: randomized response on each row's k likeliest classes.

    Theorem 9 for k classes, plus ``2 D L`` times the probability that the true class is not among them.

    Args:
        rows: n.
        epsilon: Of each label, at most 1.
        candidates: k.
        outside: Probability that the true class is not a candidate.
        diameter: D.
        lipschitz: L.

    References:
        Ghazi et al. 2021, corollary 10, equation (8). The proof ends with ``L(w*_P', P) <= L(w*_P, P')``, where both
        are meant at P'.
    """
    problem, k = ConvexProblem(rows, epsilon, diameter, lipschitz), check_classes(candidates, 1)
    missed = check_probability(outside, "the probability outside")
    value, _ = _response_error(problem.rows, k, _check_at_most_one(problem.epsilon))
    return problem.bound(
        "upper",
        value + 2 * missed,
        f"{_GHAZI}, corollary 10",
        f"{EXCESS} is at most this with randomized response on each row's candidates",
        assumptions=(f"the true class is outside the candidates with probability at most {missed:g}",),
    )


def convex_gaussian_upper(
    rows: int, epsilon: float, delta: float, classes: int, diameter: float = 1.0, lipschitz: float = 1.0
) -> Bound:
    """Ghazi 2021, proposition 11, with its constants: Gaussian noise in the span of the classes' gradients.

    ``2 D G (2 + ln n) / sqrt(n)`` with ``G^2 = L^2 + K sigma^2``, sigma the least standard deviation that is (epsilon,
    delta) for vectors that a replaced label moves by at most 2L.

    Args:
        rows: n.
        epsilon: Of each label.
        delta: The failure probability, above 0.
        classes: K.
        diameter: D.
        lipschitz: L.

    References:
        Ghazi et al. 2021, proposition 11, with ``sigma = C L sqrt(log(1/delta)) / epsilon`` for an unspecified C; here
        sigma is that of Balle and Wang 2018. The proposition prints ``log(1/delta)`` and the risk of a sample S; its
        proof gives ``sqrt(log(1/delta))`` and the risk of the distribution.
    """
    problem, k = ConvexProblem(rows, epsilon, diameter, lipschitz), check_classes(classes)
    e, failing = problem.epsilon, check_probability(_checks.delta(delta), "delta", zero=False)
    steps = least_deviation((2 * _STEPS_OF_NOISE) ** 2, e, failing, _MOST_NOISE)
    if steps is None:
        raise EpsilonError(f"expected an epsilon that Gaussian noise can meet, found {e:g}; choose a larger one")
    deviation = steps / _STEPS_OF_NOISE
    return problem.bound(
        "upper",
        _last_iterate(problem.rows, 1 + k * deviation**2),
        f"{_GHAZI}, proposition 11",
        f"{EXCESS} is at most this with Gaussian noise in the span of the classes' gradients",
        sizes=(("deviation", problem.lipschitz * deviation),),
    )


def convex_empirical_lower(rows: int, epsilon: float, diameter: float = 1.0, lipschitz: float = 1.0) -> Bound:
    """Ghazi 2021, proposition 13 and lemma 15, with their constants: a lower bound for fitting given rows.

    For every k, with ``m = floor(n / k)`` different rows of k copies each: the loss on the rows is, for some labels, at
    least ``D L k sqrt(m) / (2 n) (1 - sqrt(e^(k epsilon) / (e^(k epsilon) + 1)))`` beyond the least. The value is the
    largest over k, about ``D L / sqrt(epsilon n)`` for small epsilon.

    Proof. A learner recovers the sign of each of m coordinates, of labels that k copies share, with probability at most
    ``e^(k epsilon) / (e^(k epsilon) + 1)``: the two signs are k labels apart. If it recovers the coordinates I, the
    loss is at least ``-(L k / n) (D / 2) sqrt(|I|)`` by Cauchy and Schwarz; that of the best parameters is ``-(L k / n)
    (D / 2) sqrt(m)``; and ``E sqrt(|I|) <= sqrt(E |I|)``. Left-over rows have features 0, and no loss.

    Args:
        rows: n.
        epsilon: Of everything published; a trusted curator is allowed.
        diameter: D.
        lipschitz: L.

    References:
        Ghazi et al. 2021, proposition 13 and lemma 15 (which prints gamma and epsilon' where epsilon is meant), for
        delta = 0.
    """
    problem = ConvexProblem(rows, epsilon, diameter, lipschitz)
    n, e = problem.rows, problem.epsilon
    copies = {max(1, math.floor(min(n, near / e))) for near in (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)}
    value = max(k * math.sqrt(n // k) * (1 - math.sqrt(1 / (1 + math.exp(-k * e)))) for k in copies)
    return problem.bound(
        "lower",
        value / (2 * n),
        f"{_GHAZI}, proposition 13 and lemma 15",
        "the expected excess loss on given rows is at least this for some labels",
        assumptions=("parameters have as many dimensions as there are rows",),
    )


def convex_population_lower(rows: int, epsilon: float, diameter: float = 1.0, lipschitz: float = 1.0) -> Bound:
    """Ghazi 2021, proposition 12: ``D L / sqrt(epsilon n)``, with constant 1 and without its logarithms.

    Args:
        rows: n, large.
        epsilon: Of everything published, at most 1; a trusted curator is allowed.
        diameter: D.
        lipschitz: L.

    References:
        Ghazi et al. 2021, proposition 12, equation (11).
    """
    problem = ConvexProblem(rows, epsilon, diameter, lipschitz)
    return problem.bound(
        "lower",
        1 / math.sqrt(_check_at_most_one(problem.epsilon) * problem.rows),
        f"{_GHAZI}, proposition 12",
        f"{EXCESS} is at least this for some distribution, whatever a trusted curator publishes",
        constants="conventional",
        assumptions=("there are very many rows",),
    )


def prior_generalization(
    rows: int,
    epsilon: float,
    candidates: int,
    complexity: float,
    outside: float = 0.0,
    failure: float = 0.05,
    lipschitz: float = 1.0,
) -> Bound:
    """Ghazi 2021, theorem 17, corrected: distance of the unbiased loss on released labels from the true risk.

    With probability at least ``1 - failure``, for all functions of a class at once, by at most
    ``W (2 L R + sqrt(ln(2 / failure) / (2 n))) + P(y outside)``, with ``W = (e + 2k - 3) / (e - 1)`` and e for
    exp(epsilon).

    The unbiased loss of a released label lies between ``-(k-1) p / (1 - k p)`` and ``(1 - p) / (1 - k p)``,
    ``p = 1 / (e + k - 1)``: a range of W, which is also its Lipschitz constant over L.

    Args:
        rows: n.
        epsilon: Of each label.
        candidates: k, of each row.
        complexity: R, the Rademacher complexity of the class of functions for n rows.
        outside: Probability that the true class is not a candidate.
        failure: Probability that the bound fails.
        lipschitz: L, of the loss in the function's value; losses lie in [0, 1].

    References:
        Ghazi et al. 2021, theorem 17, equation (18). It is false as printed: its square root lacks W, since the lemma
        it uses is for losses in [0, 1], and the unbiased loss has the range W. (For k = 2, epsilon = 0.1 and one
        function, W is 20, and the printed bound fails for most data.) Its Lipschitz constant, ``L (e + 2k - 1) / (e -
        1)``, is right, and somewhat too large.
    """
    n, k, lipschitz = check_rows(rows), check_classes(candidates, 1), check_positive(lipschitz, "lipschitz")
    delta, missed = (
        check_probability(failure, "failure", zero=False, one=False),
        check_probability(outside, "the probability outside"),
    )
    rademacher = check_not_negative(complexity, "complexity")
    width = 1 + 2 * (k - 1) / math.expm1(_checks.epsilon(epsilon))
    value = width * (2 * lipschitz * rademacher + math.sqrt(math.log(2 / delta) / (2 * n))) + missed
    return Bound(
        value=value,
        kind="upper",
        theorem=f"{_GHAZI}, theorem 17",
        statement="the unbiased loss on released labels is this close to the true risk, uniformly over all functions",
        constants="proven",
        assumptions=("losses lie between 0 and 1", f"the Rademacher complexity is at most {rademacher:g}"),
        sizes=(("range", width),),
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


def _response_error(rows: int, classes: int, epsilon: float) -> tuple[float, float]:
    """The error of the last iterate, and G^2, for D = L = 1."""
    moment = (6 * classes / epsilon) ** 2
    return _last_iterate(rows, moment), moment


def _last_iterate(rows: int, moment: float) -> float:
    """``2 G (2 + ln n) / sqrt(n)``, for a diameter of 1."""
    return 2 * math.sqrt(moment / rows) * (2 + math.log(rows))


def _check_at_most_one(epsilon: float) -> float:
    if epsilon > 1:
        raise EpsilonError(f"expected an epsilon of at most 1, where the theorem holds, found {epsilon:g}")
    return epsilon
