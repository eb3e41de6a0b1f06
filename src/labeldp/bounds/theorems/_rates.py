"""Table 1 of Zhao et al. 2025: decay of the best possible error, for five settings and three problems.

All entries follow from three numbers for a setting. An error falls as ``n^(-r / (s b q + t d))``: the effective
number n of rows is ``N min(epsilon, 1)^2``, ``N epsilon^2`` or ``N epsilon``; r is ``b (gamma + 1)`` for classification
and ``2 b`` for regression; ``q = p / (p - 1)`` is 1 for bounded labels, and above 1 for labels with only p moments,
since the clipping level has to grow. The rate without privacy is a second term.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.bounds._checks import check_moments, check_rows
from labeldp.bounds.theorems._regularity import Regularity
from labeldp.errors import InputError

_PROBLEMS = ("classification", "regression", "heavy-tailed")


@dataclass(frozen=True)
class Term:
    """``N^-rows * epsilon^-epsilon``, with epsilon at most 1 if ``capped``."""

    rows: float
    epsilon: float
    capped: bool

    def at(self, rows: float, epsilon: float) -> float:
        """Value of the term."""
        counted = min(epsilon, 1.0) if self.capped else epsilon
        return math.pow(rows, -self.rows) * math.pow(counted, -self.epsilon)


@dataclass(frozen=True)
class Rate:
    """Decay of an error, up to a constant: the largest of a few terms.

    The table prints sums of terms in the central model; they differ from the largest by a factor of two at most.

    Attributes:
        setting: The trust model: ``"local"`` and ``"central"`` protect labels alone, ``"local-full"`` and
            ``"central-full"`` features as well.
        problem: The learning problem.
        terms: The terms; the first is the rate without privacy.
    """

    setting: str
    problem: str
    terms: tuple[Term, ...]

    @property
    def rows(self) -> float:
        """The exponent of N for many rows: that of the slowest term."""
        return min(term.rows for term in self.terms)

    def at(self, rows: float, epsilon: float) -> float:
        """The rate with constant 1."""
        return max(term.at(rows, epsilon) for term in self.terms)


@dataclass(frozen=True)
class _Setting:
    """``s`` and ``t`` of the exponent's denominator, the power of epsilon in n, and the cap of epsilon at 1."""

    smooth: int
    dimensions: int
    power: int
    capped: bool


_SETTINGS: dict[str, _Setting | None] = {
    "non-private": None,
    "local": _Setting(2, 1, 2, True),
    "central": _Setting(1, 1, 1, False),
    "local-full": _Setting(2, 2, 2, True),
    "central-full": _Setting(1, 1, 1, False),
}


def rate(
    setting: str,
    problem: str,
    beta: float = 1.0,
    gamma: float = 1.0,
    dimension: float = 1.0,
    moments: float = math.inf,
) -> Rate:
    """Look up one entry of Table 1.

    Args:
        setting: ``"non-private"``, ``"local"``, ``"central"``, or ``"local-full"`` and ``"central-full"`` (features
            are protected too).
        problem: ``"classification"``, ``"regression"`` (bounded labels) or ``"heavy-tailed"``.
        beta: Smoothness, above 0 and at most 1.
        gamma: Margin of the classes, at least 0.
        dimension: d.
        moments: p, at least 2; for ``"heavy-tailed"`` alone. Infinitely many for bounded labels.

    Raises:
        InputError: A number is out of range, or a name is unknown.

    Example:
        >>> from labeldp.bounds import rate
        >>> rate("local", "regression", dimension=2).rows, rate("local", "heavy-tailed", dimension=2, moments=3).rows
        (0.5, 0.4)

    References:
        Zhao et al. 2025, Table 1. Our copy of the paper lacks its exponents: they were derived afresh, and agree with
        every legible fragment. Upper bounds of classification have N / log K for N. The entries that protect features
        too are known for bounded labels and classes (Berrett and Butucea 2019; Berrett, Gyorfi and Walk 2021); the one
        for heavy tails is derived in the same way and not published. The central entries that protect features too are
        those of labels alone, and not in our copy: whoever protects features protects labels, so
        errors are at least as large, and noise on the counts of cells as well as on their sums costs a constant, since
        one row is in two cells of two tables and the error of a quotient is that of its sum and of its count.
    """
    regularity = Regularity(dimension, beta, margin=gamma)
    for name, choice, choices in (("setting", setting, _SETTINGS), ("problem", problem, _PROBLEMS)):
        if choice not in choices:
            raise InputError(f"expected a {name} among {', '.join(choices)}, found {choice!r}")
    rise = beta * (regularity.margin + 1) if problem == "classification" else 2 * beta
    plain = Term(rise / (2 * beta + dimension), 0.0, True)
    exponents, heavy = _SETTINGS[setting], problem == "heavy-tailed"
    if exponents is None:
        return Rate(setting, problem, (plain,))
    growth = _growth(moments) if heavy else 1.0
    exponent = rise / (exponents.smooth * beta * growth + exponents.dimensions * dimension)
    capped = exponents.capped and not (heavy and setting == "local")
    return Rate(setting, problem, (plain, Term(exponent, exponents.power * exponent, capped)))


def rate_table(
    beta: float = 1.0, gamma: float = 1.0, dimension: float = 1.0, moments: float = math.inf
) -> dict[tuple[str, str], Rate]:
    """All entries of Table 1, by setting and problem; see ``rate``."""
    return {
        (setting, problem): rate(setting, problem, beta, gamma, dimension, moments)
        for setting in _SETTINGS
        for problem in _PROBLEMS
    }


def free_epsilon(rows: int, dimension: float, beta: float = 1.0) -> float:
    """Epsilon above which privacy costs a trusted curator only a constant: ``N^(-beta / (2 beta + d))``.

    There the term of epsilon in Table 1 equals the rate without privacy, for classes and for bounded labels.

    Example:
        >>> from labeldp.bounds import free_epsilon
        >>> round(free_epsilon(1_000_000, dimension=1), 3), round(free_epsilon(50_000, dimension=10), 2)
        (0.01, 0.41)

    References:
        Zhao et al. 2025, theorems 3, 4, 7 and 8: ``(epsilon N)^(-1/(b+d)) <= N^(-1/(2b+d))``.
    """
    regularity = Regularity(dimension, beta)
    return math.pow(check_rows(rows), -beta / (2 * beta + regularity.dimension))


def _growth(moments: float) -> float:
    """``p / (p - 1)``."""
    return 1.0 if moments == math.inf else check_moments(moments) / (moments - 1)
