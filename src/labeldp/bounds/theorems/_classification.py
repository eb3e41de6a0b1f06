"""Zhao et al. 2025, theorems 1 to 4: classification from private labels, local and central."""

from __future__ import annotations

import math
from collections.abc import Callable

from labeldp import _checks
from labeldp._smoothing import golden_section_minimizer
from labeldp.bounds._checks import check_classes, check_probability, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._rates import rate
from labeldp.bounds.theorems._regularity import Regularity
from labeldp.errors import InputError

_PAPER = "Zhao et al. 2025"
_EXCESS = "the excess risk over the best classifier"
_EVEN = "every cell holds as many rows as the density implies"


def local_classification_lower(rows: int, epsilon: float, regularity: Regularity) -> Bound:
    """Theorem 1: lower bound on the excess risk, for any way to randomize each label and to learn from them.

    ``(N min(epsilon^2, 1))^(-beta (gamma + 1) / (2 beta + d))``, with constant 1.

    Args:
        rows: N.
        epsilon: Of each label.
        regularity: Assumptions on the function; the construction requires ``beta gamma <= d``.

    References:
        Zhao et al. 2025, theorem 1, equation (10), which our copy of the paper lacks. Derived afresh: in m cells of
        side h the probabilities move by ``+-h^beta``, the margin allows ``m h^d <= h^(beta gamma)``, and they stay
        hidden while ``N h^d min(epsilon^2, 1) h^(2 beta) <= 1``.
    """
    _check_regularity_exists(regularity)
    value = _at_most_one(_rate("local", rows, epsilon, regularity))
    return Bound(
        value=value,
        kind="lower",
        theorem=f"{_PAPER}, theorem 1",
        statement=f"{_EXCESS} is at least this for some distribution, for any randomization of labels and any learner",
        constants="conventional",
        assumptions=_assumptions(regularity),
    )


def local_classification_upper(
    rows: int,
    epsilon: float,
    classes: int,
    regularity: Regularity,
    failure: float = 0.1,
    sides: int | None = None,
    rows_in_cell: int | None = None,
) -> Bound:
    """Theorem 2 with its constants: symmetric bits are summed in cells, and the largest sum names the class.

    With probability at least ``1 - failure`` over the labels and their noise, in every cell of n rows every estimated
    probability is off by at most ``Delta = L (sqrt(d) h)^beta + coth(epsilon / 4) sqrt(ln(2 K G / failure) / (2 n))``
    (Hoeffding's inequality over G cells and K classes; a bit shifts by ``tanh(epsilon / 4)`` with the class). A wrong
    class is named only if its probability is within ``2 Delta`` of the best: so the excess risk is at most ``C (2
    Delta)^(gamma + 1)``.

    Args:
        rows: N.
        epsilon: Of each label.
        classes: K.
        regularity: Assumptions on the function.
        failure: Probability that the bound fails.
        sides: Number of parts of each axis; by default the one with the smallest Delta.
        rows_in_cell: The fewest rows of a cell, a public number. By default as many as the density implies; then the
            constants are conventional.

    References:
        Zhao et al. 2025, equations (11) to (14). The paper prints ``(N min(epsilon^2, 1) / ln K)^(-b (g+1) / (2b+d))``,
        without constants.
    """
    classes, rows, e, delta = _check_arguments(classes, rows, epsilon, failure)
    scale = 1 / math.tanh(e / 4)

    def error(cells: float, held: float) -> float:
        return scale * math.sqrt(math.log(2 * classes * cells / delta) / (2 * held))

    return _upper(2, rows, regularity, error, sides, rows_in_cell, "symmetric bits, summed in cells,")


def central_classification_lower(rows: int, epsilon: float, regularity: Regularity) -> Bound:
    """Theorem 3: lower bound on the excess risk, whatever a trusted curator computes.

    The larger of ``N^(-beta (gamma + 1) / (2 beta + d))`` and ``(epsilon N)^(-beta (gamma + 1) / (beta + d))``, with
    constant 1.

    Args:
        rows: N.
        epsilon: Of everything published.
        regularity: Assumptions on the function; the construction requires ``beta gamma <= d``.

    References:
        Zhao et al. 2025, theorem 3, equation (16), which prints the sum of the two. Derived afresh: two distributions
        of a cell's labels can be coupled so that about ``N h^d h^beta`` labels differ, and group privacy hides that
        many while ``epsilon N h^(d + beta) <= 1``.
    """
    _check_regularity_exists(regularity)
    return Bound(
        value=_at_most_one(_rate("central", rows, epsilon, regularity)),
        kind="lower",
        theorem=f"{_PAPER}, theorem 3",
        statement=f"{_EXCESS} is at least this for some distribution, whatever a trusted curator publishes",
        constants="conventional",
        assumptions=_assumptions(regularity),
    )


def central_classification_upper(
    rows: int,
    epsilon: float,
    classes: int,
    regularity: Regularity,
    failure: float = 0.1,
    sides: int | None = None,
    rows_in_cell: int | None = None,
) -> Bound:
    """Theorem 4 with its constants: the exponential mechanism names the class of each cell from true counts.

    With probability at least ``1 - failure``, in every cell of n rows shares are off by at most ``sqrt(ln(4 K G /
    failure) / (2 n))``, and the named class has at most ``(2 / epsilon) ln(2 K G / failure)`` rows fewer than the most
    common one. So ``Delta = L (sqrt(d) h)^beta + sqrt(ln(4 K G / failure) / (2 n)) + ln(2 K G / failure) / (epsilon
    n)``, and the excess risk is at most ``C (2 Delta)^(gamma + 1)``.

    Args:
        rows: N.
        epsilon: Of everything published.
        classes: K.
        regularity: Assumptions on the function.
        failure: Probability that the bound fails.
        sides: Number of parts of each axis; by default the one with the smallest Delta.
        rows_in_cell: The fewest rows of a cell, a public number; by default as many as the density implies.

    References:
        Zhao et al. 2025, equations (17) and (18), without constants; McSherry and Talwar 2007 for the mechanism.
    """
    classes, rows, e, delta = _check_arguments(classes, rows, epsilon, failure)

    def error(cells: float, held: float) -> float:
        sampling = math.sqrt(math.log(4 * classes * cells / delta) / (2 * held))
        return sampling + math.log(2 * classes * cells / delta) / (e * held)

    return _upper(4, rows, regularity, error, sides, rows_in_cell, "the exponential mechanism in each cell")


def rows_to_name(classes: int, epsilon: float, gap: float, failure: float = 0.01) -> tuple[int, int]:
    """Rows that a cell needs so that its most common class is named: for privacy, and for sampling.

    ``2 ln((K - 1) / failure) / (epsilon gap)`` for the exponential mechanism, on counts with that gap, and ``8 ln(K /
    failure) / gap^2`` for counts to keep half of the gap; each fails with probability at most ``failure``.

    Args:
        classes: K.
        epsilon: Of everything published.
        gap: Difference of the probabilities of the most common class and the next.
        failure: Probability of a wrong class.

    Example:
        >>> from labeldp.bounds import rows_to_name
        >>> rows_to_name(10, epsilon=0.1, gap=0.5)
        (273, 222)

    References:
        Zhao et al. 2025, theorem 4, for one cell.
    """
    classes, _, e, delta = _check_arguments(classes, 1, epsilon, failure)
    apart = check_probability(gap, "gap", zero=False)
    private = 2 * math.log((classes - 1) / delta) / (e * apart)
    return math.ceil(private), math.ceil(8 * math.log(classes / delta) / apart**2)


def _upper(
    theorem: int,
    rows: int,
    regularity: Regularity,
    error: Callable[[float, float], float],
    sides: int | None,
    rows_in_cell: int | None,
    mechanism: str,
) -> Bound:
    """``C (2 Delta)^(gamma + 1)`` for given cells, or those with the smallest Delta; at most 1.

    Delta is the bias of a cell plus ``error``, a function of the number of cells and the rows of each.
    """

    def delta(parts: float, held: float | None = None) -> float:
        bias = regularity.lipschitz * math.pow(math.sqrt(regularity.dimension) / parts, regularity.smoothness)
        cells = math.pow(parts, regularity.dimension)
        return bias + error(cells, _rows_in_even_cell(rows, cells, regularity) if held is None else held)

    requested = _checks.whole(sides, "sides", 1, 1 << 32) if sides is not None else None
    parts = _best_sides(rows, regularity, delta) if requested is None else requested
    held = None if rows_in_cell is None else _checks.whole(rows_in_cell, "rows_in_cell", 1, rows)
    delta_value = delta(parts, held)
    value = regularity.margin_constant * math.pow(2 * delta_value, regularity.margin + 1)
    return Bound(
        value=_at_most_one(value),
        kind="upper",
        theorem=f"{_PAPER}, theorem {theorem}",
        statement=f"{_EXCESS} is at most this with {mechanism}",
        constants="conventional" if held is None else "proven",
        assumptions=(*_assumptions(regularity), *((_EVEN,) if held is None else ())),
        sizes=(("sides", parts), ("cells", math.pow(parts, regularity.dimension)), ("delta", delta_value)),
    )


def _best_sides(rows: int, regularity: Regularity, delta: Callable[[float], float]) -> int:
    """The whole number of parts of an axis with the smallest Delta, at most one cell for each row."""
    most = max(1.0, math.pow(rows, 1 / regularity.dimension))
    near = golden_section_minimizer(delta, 1.0, most)
    return min((math.floor(near), min(math.ceil(near), math.floor(most))), key=delta)


def _rows_in_even_cell(rows: int, cells: float, regularity: Regularity) -> float:
    """Rows of a cell of the least density, one at least."""
    return max(1.0, rows * regularity.density / cells)


def _rate(setting: str, rows: int, epsilon: float, regularity: Regularity) -> float:
    rows, e = check_rows(rows), _checks.epsilon(epsilon)
    exponents = rate(setting, "classification", regularity.smoothness, regularity.margin, regularity.dimension)
    return exponents.at(rows, e)


def _assumptions(regularity: Regularity) -> tuple[str, ...]:
    return (*regularity.assumed, regularity.assumed_margin)


def _check_regularity_exists(regularity: Regularity) -> None:
    if regularity.smoothness * regularity.margin > regularity.dimension:
        raise InputError(
            f"expected smoothness times margin of at most the dimension {regularity.dimension:g}, found "
            f"{regularity.smoothness * regularity.margin:g}: no distribution is that regular, and the bound is empty"
        )


def _check_arguments(classes: int, rows: int, epsilon: float, failure: float) -> tuple[int, int, float, float]:
    delta = check_probability(failure, "the probability of failure", zero=False, one=False)
    return check_classes(classes), check_rows(rows), _checks.epsilon(epsilon), delta


def _at_most_one(value: float) -> float:
    """Cap a risk at 1, as a probability."""
    return min(1.0, value)
