"""Convex optimization and generalization from private labels: Ghazi et al. 2021, theorems 9 to 17.

The loss is convex and L-Lipschitz in parameters from a convex set of diameter D. Each label is used once, at its own
step, through an unbiased gradient. For a bound ``G^2`` of its second moment, the last iterate of steps ``D / (G
sqrt(t))`` is off by ``2 D G (2 + ln n) / sqrt(n)`` (Shamir and Zhang 2013, theorem 2). No error is above ``D L``.
"""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.bounds._checks import check_classes, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._convex_problem import ConvexProblem
from labeldp.errors import EpsilonError
from labeldp.privacy.accounting import least_deviation

_GHAZI = "Ghazi et al. 2021"
_STEPS_OF_NOISE = 1 << 20
_MOST_NOISE = 1 << 60
#: Copies of a label times epsilon, among which the best of a lower bound is.
_NEAR = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0)


def convex_response_upper(problem: ConvexProblem, classes: int) -> Bound:
    """Ghazi 2021, theorem 9, with its constants: randomized response, and the unbiased gradients of equation (7).

    ``12 D L K (2 + ln n) / (epsilon sqrt(n))``, from ``G = 6 K L / epsilon``.

    Args:
        problem: n, epsilon of each label, at most 1, D and L.
        classes: K.

    References:
        Ghazi et al. 2021, theorem 9, which leaves the constant open. Its display bounds the gradient's error by
        ``36 K^2 L^2 / epsilon^2`` and uses that for the gradient itself, which is right too: the length of the gradient
        is at most ``L (e + 2K - 3) / (e - 1)``, and so at most ``2 K L / epsilon`` for epsilon up to 1.
    """
    k = check_classes(classes)
    value, moment = _response_error(problem.rows, k, _check_at_most_one(problem.epsilon))
    sizes = (("second moment", problem.lipschitz**2 * moment),)
    return problem.upper(value, f"{_GHAZI}, theorem 9", "randomized response and one step for each label", sizes=sizes)


def convex_candidates_upper(problem: ConvexProblem, candidates: int, outside: float) -> Bound:
    """Ghazi 2021, corollary 10, with its constants: randomized response on each row's k likeliest classes.

    Theorem 9 for k classes, plus ``2 D L`` times the probability that the true class is not among them.

    Args:
        problem: n, epsilon of each label, at most 1, D and L.
        candidates: k.
        outside: Probability that the true class is not a candidate.

    References:
        Ghazi et al. 2021, corollary 10, equation (8). The proof ends with ``L(w*_P', P) <= L(w*_P, P')``, where both
        are meant at P'.
    """
    k = check_classes(candidates, 1)
    missed = _checks.share(outside, "the probability outside")
    value, _ = _response_error(problem.rows, k, _check_at_most_one(problem.epsilon))
    assumed = (f"the true class is outside the candidates with probability at most {missed:g}",)
    mechanism = "randomized response on each row's candidates"
    return problem.upper(value + 2 * missed, f"{_GHAZI}, corollary 10", mechanism, assumed)


def convex_gaussian_upper(problem: ConvexProblem, delta: float, classes: int) -> Bound:
    """Ghazi 2021, proposition 11, with its constants: Gaussian noise in the span of the classes' gradients.

    ``2 D G (2 + ln n) / sqrt(n)`` with ``G^2 = L^2 + K sigma^2``, sigma the least standard deviation that is (epsilon,
    delta) for vectors that a replaced label moves by at most 2L.

    Args:
        problem: n, epsilon of each label, D and L.
        delta: The failure probability, above 0.
        classes: K.

    References:
        Ghazi et al. 2021, proposition 11, with ``sigma = C L sqrt(log(1/delta)) / epsilon`` for an unspecified C; here
        sigma is that of Balle and Wang 2018. The proposition prints ``log(1/delta)`` and the risk of a sample S; its
        proof gives ``sqrt(log(1/delta))`` and the risk of the distribution.
    """
    k = check_classes(classes)
    e, failing = problem.epsilon, _checks.share(_checks.delta(delta), "delta", "(]")
    steps = least_deviation((2 * _STEPS_OF_NOISE) ** 2, e, failing, _MOST_NOISE)
    if steps is None:
        raise EpsilonError(f"expected an epsilon that Gaussian noise can meet, found {e:g}; choose a larger one")
    deviation = steps / _STEPS_OF_NOISE
    value, sizes = _last_iterate(problem.rows, 1 + k * deviation**2), (("deviation", problem.lipschitz * deviation),)
    mechanism = "Gaussian noise in the span of the classes' gradients"
    return problem.upper(value, f"{_GHAZI}, proposition 11", mechanism, sizes=sizes)


def convex_empirical_lower(problem: ConvexProblem, delta: float = 0.0) -> Bound:
    """Ghazi 2021, proposition 13 and lemma 15, with their constants: a lower bound for fitting given rows.

    For every k, with ``m = floor(n / k)`` different rows of k copies each: the loss on the rows is, for some labels, at
    least ``D L k sqrt(m) / (2 n) (1 - sqrt((e^(k epsilon) + delta_k) / (e^(k epsilon) + 1)))`` beyond the least, with
    ``delta_k = delta (e^(k epsilon) - 1) / (e^epsilon - 1)``, which is delta for k = 1. The value is the largest over
    k, about ``D L / sqrt(epsilon n)`` for small epsilon and delta 0.

    Proof. A learner recovers the sign of each of m coordinates, of labels that k copies share, with probability p at
    most ``(e^(k epsilon) + delta_k) / (e^(k epsilon) + 1)``: the two signs are k labels apart, so that ``p <=
    e^(k epsilon) (1 - p) + delta_k`` by group privacy (fact 14). If it recovers the coordinates I, the
    loss is at least ``-(L k / n) (D / 2) sqrt(|I|)`` by Cauchy and Schwarz; that of the best parameters is ``-(L k / n)
    (D / 2) sqrt(m)``; and ``E sqrt(|I|) <= sqrt(E |I|)``. Left-over rows have features 0, and no loss.

    Args:
        problem: n, epsilon of everything published, D and L; a trusted curator is allowed.
        delta: Failure probability of everything published, from 0 to 1.

    References:
        Ghazi et al. 2021, proposition 13, fact 14 and lemma 15 (which prints gamma and epsilon' where epsilon is
        meant).
    """
    n, e, failing = problem.rows, problem.epsilon, _checks.share(delta, "delta", "[]")
    copies = {1, *(max(1, math.floor(min(n, near / e))) for near in _NEAR)}
    value = max(k * math.sqrt(n // k) * (1 - math.sqrt(_recovered(k, e, failing))) for k in copies)
    theorem = f"{_GHAZI}, proposition 13 and lemma 15"
    statement = "the expected excess loss on given rows is at least this for some labels"
    assumed = ("parameters have as many dimensions as there are rows",)
    return problem.bound("lower", value / (2 * n), theorem, statement, "proven", assumed)


def _recovered(copies: float, epsilon: float, delta: float) -> float:
    """Largest probability to recover a sign that so many labels share."""
    shared = delta * math.exp(-epsilon) * math.expm1(-copies * epsilon) / math.expm1(-epsilon)
    return min(1.0, (1.0 + shared) / (1.0 + math.exp(-copies * epsilon)))  # both over e^(k epsilon)


def convex_population_lower(problem: ConvexProblem, delta: float = 0.0) -> Bound:
    """Ghazi 2021, proposition 12, with constants and without its logarithms: a lower bound for new rows.

    For every m: over n rows drawn evenly from m different ones, the loss on that distribution is, for some labels, at
    least ``D L / (2 sqrt(m)) (1 - sqrt(p))`` beyond the least. Here p is the smaller of ``(e^(k epsilon) + delta_k) /
    (e^(k epsilon) + 1)`` for ``k = n / m`` and ``1 - exp(-n / (m - 1)) / 2``. The value is the largest over m: about
    ``0.076 D L / sqrt(epsilon n)`` for small epsilon and delta 0, and at least ``0.058 D L / sqrt(n)`` for all.

    Proof. As for ``convex_empirical_lower``, with the reduction of lemma 16: the m rows have features at right angles,
    and a sign each, which is the label of all copies that are drawn. Which are drawn says nothing of signs. A sign
    drawn M times is recovered with probability at most ``r(M) = (e^(M epsilon) + delta_M) / (e^(M epsilon) + 1)``,
    which is a half if M is 0. In M this is concave (a logistic function and a hyperbolic tangent), so that its mean is
    at most ``r(n / m)``. It is also at most one less half the probability that M is 0, ``(1 - 1/m)^n >= exp(-n / (m -
    1))``. The paper bounds M by ``4 log(2 / delta)`` instead, which costs the logarithms.

    Args:
        problem: n, epsilon of everything published, D and L; a trusted curator is allowed.
        delta: Failure probability of everything published, from 0 to 1.

    References:
        Ghazi et al. 2021, proposition 12, equation (11), and lemma 16, after Bassily et al. 2019.
    """
    n, e, failing = problem.rows, problem.epsilon, _checks.share(delta, "delta", "[]")
    times = (0.4, 1.0, 2.0, 4.0, *(near / e for near in _NEAR))
    value, features = max(_population_value(n, max(1, math.ceil(n / each)), e, failing) for each in times)
    theorem, scope = f"{_GHAZI}, proposition 12 and lemma 16", ", whatever a trusted curator publishes"
    assumed = (f"parameters have {features:,} dimensions or more",)
    return problem.lower(value, theorem, scope, "proven", assumed, (("different rows", float(features)),))


def _population_value(rows: int, features: int, epsilon: float, delta: float) -> tuple[float, int]:
    """The bound for rows drawn from so many different ones, and their number."""
    absent = math.exp(-rows / (features - 1)) if features > 1 else 0.0
    right = min(_recovered(rows / features, epsilon, delta), 1 - absent / 2)
    return (1 - math.sqrt(right)) / (2 * math.sqrt(features)), features


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
    n, k, lipschitz = check_rows(rows), check_classes(candidates, 1), _checks.positive(lipschitz, "lipschitz")
    delta, missed = _checks.share(failure, "failure", "()"), _checks.share(outside, "the probability outside")
    rademacher = _checks.not_negative(complexity, "complexity")
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
