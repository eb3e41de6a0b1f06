"""Zhao et al. 2025, theorems 1 to 12: classification and regression from private labels, local and central.

All upper bounds of regression balance the same four errors of an average of n rows, at the n with the smallest sum::

    bias      C (n / (N f))^(2 b / d), for N f rows in a unit of volume
    sampling  V / n
    noise     of n labels with noise each: w T^2 / n; of one draw on their sum: w T^2 / n^2
    clipping  (c M T^(1-p))^2, where labels have p moments and are clipped at T

The constants C, of even densities and functions that change evenly, are conventional; the powers are the theorems'.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

from labeldp import _checks, _smoothing
from labeldp.bounds._checks import check_classes, check_moments, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._rates import rate
from labeldp.bounds.theorems._regularity import Regularity
from labeldp.errors import InputError

Sizes = tuple[tuple[str, float], ...]

_PAPER = "Zhao et al. 2025"
_EXCESS, _ERROR = "the excess risk over the best classifier", "the mean squared error of the estimated function"
_EVEN = "every cell holds as many rows as the density implies"
_BEST = {
    "local": "for every way to randomize labels and to learn from them",
    "central": "whatever a trusted curator publishes",
}
#: The theorem of each lower bound, by setting and problem of Table 1.
_LOWER = {
    ("local", "classification"): 1,
    ("central", "classification"): 3,
    ("local", "regression"): 5,
    ("central", "regression"): 7,
    ("local", "heavy-tailed"): 9,
    ("central", "heavy-tailed"): 11,
}
#: The theorem and the mechanism of each upper bound.
_UPPER = {
    ("local", "classification"): (2, "symmetric bits, summed in cells,"),
    ("central", "classification"): (4, "the exponential mechanism in each cell"),
    ("local", "regression"): (6, "noise on each label and nearest neighbours"),
    ("central", "regression"): (8, "noise on the sum of each cell"),
    ("local", "heavy-tailed"): (10, "clipped labels, noise on each, and nearest neighbours"),
    ("central", "heavy-tailed"): (12, "clipped labels and noise on the sum of each cell"),
}
_LAPLACE = 8.0  # the variance of Lap(2T/epsilon) is 8 T^2 / epsilon^2


@dataclass(frozen=True)
class LabelTails:
    """Bound of numeric labels, or of their moments, given the features.

    Args:
        bound: T, of labels in [-T, T]; or M, of ``E[|Y|^p | X]`` for finitely many moments.
        moments: p, at least 2; infinite for bounded labels.
        variance: V, of a label given its features; by default the largest, ``T^2`` or ``M^(2/p)`` (Jensen).

    Raises:
        InputError: A number is out of range.
    """

    bound: float = 1.0
    moments: float = math.inf
    variance: float | None = None

    def __post_init__(self) -> None:
        _checks.positive(self.bound, "bound")
        if self.heavy:
            check_moments(self.moments)
        if self.variance is not None:
            _checks.positive(self.variance, "variance")

    @property
    def heavy(self) -> bool:
        """True if only some moments are bounded."""
        return self.moments != math.inf

    @property
    def largest_variance(self) -> float:
        """The variance, or its bound."""
        power = 2 / self.moments if self.heavy else 2.0
        return math.pow(self.bound, power) if self.variance is None else self.variance

    def clip(self, noise: float) -> float:
        """The best T for noise of variance ``noise T^2``: ``((p-1) c^2 M^2 / noise)^(1/(2p))`` for heavy tails."""
        return _smoothing.clip_level(self.moments, self.bound, noise) if self.heavy else self.bound

    def noise_error(self, noise: float) -> float:
        """Error of noise and of clipping at the best T."""
        bound, p = self.clip(noise), self.moments
        lost = _smoothing.clip_constant(p) * self.bound * math.pow(bound, 1 - p) if self.heavy else 0.0
        return noise * bound**2 + lost**2


#: Labels in [-1, 1].
UNIT_LABELS = LabelTails()


def classification_lower(setting: str, rows: int, epsilon: float, regularity: Regularity) -> Bound:
    """Theorems 1 and 3: lower bounds on the excess risk.

    *Local*, for any way to randomize each label and to learn from them: ``(N min(epsilon^2, 1))^(-beta (gamma + 1) / (2
    beta + d))``. *Central*, whatever a trusted curator computes: the larger of ``N^(-beta (gamma + 1) / (2 beta + d))``
    and ``(epsilon N)^(-beta (gamma + 1) / (beta + d))``. Both with constant 1.

    Args:
        setting: ``"local"`` or ``"central"``.
        rows: N.
        epsilon: Of each label, or of everything published.
        regularity: Assumptions on the function; the construction requires ``beta gamma <= d``.

    References:
        Zhao et al. 2025, theorem 1, equation (10), which our copy of the paper lacks. Derived afresh: in m cells of
        side h the probabilities move by ``+-h^beta``, the margin allows ``m h^d <= h^(beta gamma)``, and they stay
        hidden while ``N h^d min(epsilon^2, 1) h^(2 beta) <= 1``. Theorem 3, equation (16), which prints the sum of the
        two. Derived afresh: two distributions of a cell's labels can be coupled so that about ``N h^d h^beta`` labels
        differ, and group privacy hides that many while ``epsilon N h^(d + beta) <= 1``.
    """
    if regularity.smoothness * regularity.margin > regularity.dimension:
        raise InputError(
            f"expected smoothness times margin of at most the dimension {regularity.dimension:g}, found "
            f"{regularity.smoothness * regularity.margin:g}: no distribution is that regular, and the bound is empty"
        )
    return _lower(setting, "classification", rows, _checks.epsilon(epsilon), regularity)


def classification_upper(
    setting: str,
    rows: int,
    epsilon: float,
    classes: int,
    regularity: Regularity,
    failure: float = 0.1,
    sides: int | None = None,
    rows_in_cell: int | None = None,
) -> Bound:
    """Theorems 2 and 4 with their constants: classes are named in G cells of side h.

    With probability at least ``1 - failure`` over the labels and the noise, every estimated share of a class in a cell
    of n rows is off by at most Delta. A wrong class is named only if its probability is within ``2 Delta`` of the best:
    so the excess risk is at most ``C (2 Delta)^(gamma + 1)``.

    *Local*: symmetric bits are summed in cells, and the largest sum names the class. ``Delta = L (sqrt(d) h)^beta +
    coth(epsilon / 4) sqrt(ln(2 K G / failure) / (2 n))`` (Hoeffding's inequality over G cells and K classes; a bit
    shifts by ``tanh(epsilon / 4)`` with the class).

    *Central*: the exponential mechanism names the class of each cell from true counts. Shares are off by at most
    ``sqrt(ln(4 K G / failure) / (2 n))``, and the named class has at most ``(2 / epsilon) ln(2 K G / failure)`` rows
    fewer than the most common one. So ``Delta = L (sqrt(d) h)^beta + sqrt(ln(4 K G / failure) / (2 n)) + ln(2 K G /
    failure) / (epsilon n)``.

    Args:
        setting: ``"local"`` or ``"central"``.
        rows: N.
        epsilon: Of each label, or of everything published.
        classes: K.
        regularity: Assumptions on the function.
        failure: Probability that the bound fails.
        sides: Number of parts of each axis; by default the one with the smallest Delta.
        rows_in_cell: The fewest rows of a cell, a public number. By default as many as the density implies; then the
            constants are conventional.

    References:
        Zhao et al. 2025, equations (11) to (14), (17) and (18). The paper prints ``(N min(epsilon^2, 1) / ln K)^(-b
        (g+1) / (2b+d))`` for theorem 2, and both without constants. McSherry and Talwar 2007 for the mechanism.
    """
    (classes, rows, e, failing), local = _check_arguments(classes, rows, epsilon, failure), _is_local(setting)
    held = None if rows_in_cell is None else _checks.whole(rows_in_cell, "rows_in_cell", 1, rows)

    def delta(parts: float) -> float:
        cells = math.pow(parts, regularity.dimension)
        n = max(1.0, rows * regularity.density / cells) if held is None else held
        bias = regularity.lipschitz * math.pow(math.sqrt(regularity.dimension) / parts, regularity.smoothness)
        one = math.log(2 * classes * cells / failing)
        if local:
            return bias + math.sqrt(one / (2 * n)) / math.tanh(e / 4)
        return bias + math.sqrt((one + math.log(2)) / (2 * n)) + one / (e * n)

    parts = _best_sides(rows, regularity, delta) if sides is None else _checks.whole(sides, "sides", 1, 1 << 32)
    value = min(1.0, regularity.margin_constant * math.pow(2 * delta(parts), regularity.margin + 1))
    sizes = (("sides", parts), ("cells", math.pow(parts, regularity.dimension)), ("delta", delta(parts)))
    bound = _upper(setting, "classification", value, regularity, sizes)
    if held is None:
        return dataclasses.replace(bound, assumptions=(*bound.assumptions, _EVEN))
    return dataclasses.replace(bound, constants="proven")


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
    apart = _checks.share(gap, "gap", "(]")
    private = 2 * math.log((classes - 1) / delta) / (e * apart)
    return math.ceil(private), math.ceil(8 * math.log(classes / delta) / apart**2)


def regression_lower(
    setting: str, rows: int, epsilon: float, regularity: Regularity, labels: LabelTails = UNIT_LABELS
) -> Bound:
    """Theorems 5, 7, 9 and 11: lower bounds on the mean squared error, with constant 1.

    *Bounded labels*: ``T^2 (N min(epsilon^2, 1))^(-2 beta / (2 beta + d))`` if local, and ``T^2`` times the larger of
    ``N^(-2 beta / (2 beta + d))`` and ``(epsilon N)^(-2 beta / (beta + d))`` if central.

    *Heavy tails*, for p-th moments of at most 1: ``(N (e^epsilon - 1)^2)^(-2b(p-1)/(2pb + d(p-1)))`` if local, for
    small epsilon, and ``(epsilon N)^(-2b(p-1)/(pb + d(p-1)))`` if central, or ``N^(-2b/(2b+d))`` if that is larger. The
    first falls more slowly than the rate without privacy for every finite p. In the second, two moments cost a constant
    factor at most; more cost nothing in the end.

    Args:
        setting: ``"local"`` or ``"central"``.
        rows: N.
        epsilon: Of each label, or of everything published.
        regularity: Assumptions on the function.
        labels: Bound of the labels, or of their moments.

    References:
        Zhao et al. 2025, theorem 5, equation (19), whose exponent is derived as that of theorem 1; theorems 7 and 11,
        equations (22) and (27), which print the sum of the two; theorem 9, equation (25).
    """
    e = _checks.epsilon(epsilon)
    if not labels.heavy:
        return _lower(setting, "regression", rows, e, regularity, scale=labels.bound**2)
    return _lower(setting, "heavy-tailed", rows, math.expm1(e) if _is_local(setting) else e, regularity, labels.moments)


def regression_upper(
    setting: str,
    rows: int,
    epsilon: float,
    regularity: Regularity,
    labels: LabelTails = UNIT_LABELS,
    noise_variance: float | None = None,
) -> Bound:
    """Theorems 6, 8, 10 and 12: averages of labels with noise, at the best number of rows (see the module).

    *Local*: each label gets noise of its own, and the n nearest neighbours are averaged. Of bounded labels the best
    number is ``n = (d V / (2 b C))^(d/(2b+d)) (N f)^(2b/(2b+d))``, V the variance of a label and its noise.
    *Central*: the sum of each cell's labels gets noise, so that its mean has ``Lap(2T / (n epsilon))``.

    Args:
        setting: ``"local"`` or ``"central"``.
        rows: N.
        epsilon: Of each label, or of everything published.
        regularity: Assumptions on the function.
        labels: Bound of the labels, or of their moments: then they are clipped to [-T, T] at the best T.
        noise_variance: w, of the noise for T = 1; by default ``8 / epsilon^2`` of the paper's Laplace noise. Other
            randomizers have less (``labeldp.best_number_response``).

    References:
        Zhao et al. 2025, theorem 6, equations (20) and (21): ``k ~ N^(2b/(2b+d)) min(epsilon, 1)^(-2d/(2b+d))``. The
        constants are those of nearest neighbours at even density. Theorem 8, equations (23) and (24): (23) prints
        ``Lap(2 / (n epsilon))``, which is too little noise if T is above 1, as a replaced label moves a mean by 2T / n.
        Theorem 10, equation (26): its ``k ~ (N epsilon^2)^(2pb/D) v N^(2b/(2b+d))``, ``D = 2pb + d(p-1)``, lacks a
        factor: the balance asks for ``epsilon^-2 (N epsilon^2)^(2pb/D)``. Theorem 12, equations (28) and (29): (28)
        clips at one side, ``min(Y, T)``: very small labels then move the sum without limit, so both sides are clipped.

    Example:
        >>> from labeldp.bounds.theorems import Regularity, regression_upper
        >>> bound = regression_upper("local", 10_000, 1.0, Regularity(dimension=2))
        >>> round(bound.value, 4), bound.size("neighbours")
        (0.0226, 798.0)
    """
    rows, e, local = check_rows(rows), _checks.epsilon(epsilon), _is_local(setting)
    unit = _LAPLACE / e**2 if noise_variance is None else _checks.positive(noise_variance, "noise_variance")
    d, b, variance = regularity.dimension, regularity.smoothness, labels.largest_variance
    spread = rows * regularity.density
    bias = (_smoothing.neighbour_bias if local else _smoothing.cell_bias)(d, b, regularity.lipschitz)

    def noise(n: float) -> float:
        return unit / n if local else unit / n**2

    def error(n: float) -> float:
        return _smoothing.mean_squared_error(n, spread, d, bias, variance, 0.0, b) + labels.noise_error(noise(n))

    if local and not labels.heavy:
        total = variance + unit * labels.bound**2
        n = float(_smoothing.neighbour_count(rows, d, total, b, regularity.lipschitz, regularity.density))
    else:
        n = _smoothing.golden_section_minimizer(error, 1.0, rows)
        n = float(math.ceil(n)) if local else n
    width = math.pow(n / spread, 1 / d)
    sizes: Sizes = (("neighbours", n),) if local else (("rows in a cell", n), ("width", width))
    clip: Sizes = (("clip", labels.clip(noise(n))),) if labels.heavy else ()
    return _upper(setting, "heavy-tailed" if labels.heavy else "regression", error(n), regularity, (*sizes, *clip))


def _lower(
    setting: str,
    problem: str,
    rows: int,
    epsilon: float,
    regularity: Regularity,
    moments: float = math.inf,
    scale: float = 1.0,
) -> Bound:
    """A lower bound at its rate of Table 1."""
    _is_local(setting)
    entry = rate(setting, problem, regularity.smoothness, regularity.margin, regularity.dimension, moments)
    value = scale * entry.at(check_rows(rows), epsilon)
    of_classes = problem == "classification"
    return Bound(
        value=min(1.0, value) if of_classes else value,
        kind="lower",
        theorem=f"{_PAPER}, theorem {_LOWER[setting, problem]}",
        statement=f"{_EXCESS if of_classes else _ERROR} is at least this for some distribution, {_BEST[setting]}",
        constants="conventional",
        assumptions=_assumptions(problem, regularity),
    )


def _upper(setting: str, problem: str, value: float, regularity: Regularity, sizes: Sizes) -> Bound:
    """An upper bound with conventional constants."""
    theorem, mechanism = _UPPER[setting, problem]
    return Bound(
        value=value,
        kind="upper",
        theorem=f"{_PAPER}, theorem {theorem}",
        statement=f"{_EXCESS if problem == 'classification' else _ERROR} is at most this with {mechanism}",
        constants="conventional",
        assumptions=_assumptions(problem, regularity),
        sizes=sizes,
    )


def _assumptions(problem: str, regularity: Regularity) -> tuple[str, ...]:
    return (*regularity.assumed, *((regularity.assumed_margin,) if problem == "classification" else ()))


def _best_sides(rows: int, regularity: Regularity, delta: Callable[[float], float]) -> int:
    """The whole number of parts of an axis with the smallest Delta, at most one cell for each row, and 2^32."""
    most = math.pow(2.0, min(32.0, math.log2(rows) / regularity.dimension))
    near = _smoothing.golden_section_minimizer(delta, 1.0, most)
    return min((math.floor(near), min(math.ceil(near), math.floor(most))), key=delta)


def _is_local(setting: str) -> bool:
    if setting not in _BEST:
        raise InputError(f"expected a setting among {', '.join(_BEST)}, found {setting!r}")
    return setting == "local"


def _check_arguments(classes: int, rows: int, epsilon: float, failure: float) -> tuple[int, int, float, float]:
    delta = _checks.share(failure, "the probability of failure", "()")
    return check_classes(classes), check_rows(rows), _checks.epsilon(epsilon), delta
