"""Zhao et al. 2025, theorems 5 to 12: regression with bounded and with heavy-tailed labels.

All upper bounds balance the same four errors of an average of m rows, at the m with the smallest sum::

    bias      C (m / (N f v))^(2 b / d)
    sampling  V / m
    noise     of m labels with noise each: w T^2 / m; of one draw on their sum: w T^2 / m^2
    clipping  (c M T^(1-p))^2, where labels have p moments and are clipped at T

The constants C, of even densities and functions that change evenly, are conventional; the powers are the theorems'.
"""

from __future__ import annotations

import math

from labeldp import _checks, _smoothing
from labeldp.bounds._checks import check_moments, check_positive, check_rows
from labeldp.bounds.theorems._bound import Bound
from labeldp.bounds.theorems._rates import rate
from labeldp.bounds.theorems._regularity import Regularity

_PAPER = "Zhao et al. 2025"
_ERROR = "the mean squared error of the estimated function"
_BEST = {
    "local": "for every way to randomize labels and to learn from them",
    "central": "whatever a trusted curator publishes",
}
_LAPLACE = 8.0  # the variance of Lap(2T/epsilon) is 8 T^2 / epsilon^2


def local_regression_lower(rows: int, epsilon: float, regularity: Regularity, bound: float = 1.0) -> Bound:
    """Theorem 5: ``T^2 (N min(epsilon^2, 1))^(-2 beta / (2 beta + d))`` with constant 1, for labels in [-T, T].

    Args:
        rows: N.
        epsilon: Of each label.
        regularity: Assumptions on the function.
        bound: T.

    References:
        Zhao et al. 2025, theorem 5, equation (19); its exponent is derived as that of theorem 1.
    """
    return _lower_bound(5, "local", "regression", rows, epsilon, regularity, check_positive(bound, "bound"))


def local_regression_upper(
    rows: int,
    epsilon: float,
    regularity: Regularity,
    bound: float = 1.0,
    label_variance: float | None = None,
    noise_variance: float | None = None,
) -> Bound:
    """Theorem 6: each label gets noise of its own, and the k nearest neighbours are averaged.

    ``C (k / (N f v))^(2 b / d) + V / k`` at its smallest, ``k = (d V / (2 b C))^(d/(2b+d)) (N f v)^(2b/(2b+d))``; V
    is the variance of a label and its noise.

    Args:
        rows: N.
        epsilon: Of each label.
        regularity: Assumptions on the function.
        bound: T, of labels in [-T, T].
        label_variance: Of a label given its features; by default ``T^2``, the largest.
        noise_variance: Of the noise on one label; by default ``8 T^2 / epsilon^2`` of the paper's Laplace noise. Other
            randomizers have less (``labeldp.best_number_response``).

    References:
        Zhao et al. 2025, theorem 6, equations (20) and (21): ``k ~ N^(2b/(2b+d)) min(epsilon, 1)^(-2d/(2b+d))``. The
        constants are those of nearest neighbours at even density.

    Example:
        >>> from labeldp.bounds.theorems import Regularity, local_regression_upper
        >>> bound = local_regression_upper(10_000, 1.0, Regularity(dimension=2))
        >>> round(bound.value, 4), bound.size("neighbours")
        (0.0226, 798.0)
    """
    bound, e = check_positive(bound, "bound"), _checks.epsilon(epsilon)
    rows = check_rows(rows)
    noise = _LAPLACE * bound**2 / e**2 if noise_variance is None else check_positive(noise_variance, "noise_variance")
    variance = noise + (bound**2 if label_variance is None else check_positive(label_variance, "label_variance"))
    k, value = _best_neighbours(rows, regularity, variance)
    return _upper_bound(6, "with noise on each label and nearest neighbours", value, regularity, (("neighbours", k),))


def central_regression_lower(rows: int, epsilon: float, regularity: Regularity, bound: float = 1.0) -> Bound:
    """Theorem 7: ``T^2`` times the larger of ``N^(-2 beta / (2 beta + d))`` and ``(epsilon N)^(-2 beta / (beta + d))``.

    Args:
        rows: N.
        epsilon: Of everything published.
        regularity: Assumptions on the function.
        bound: T, of labels in [-T, T].

    References:
        Zhao et al. 2025, theorem 7, equation (22), which prints the sum of the two, without constants.
    """
    return _lower_bound(7, "central", "regression", rows, epsilon, regularity, check_positive(bound, "bound"))


def central_regression_upper(
    rows: int, epsilon: float, regularity: Regularity, bound: float = 1.0, label_variance: float | None = None
) -> Bound:
    """Theorem 8: noise on the sum of each cell's labels; smallest ``C h^(2b) + V / n + 8 T^2 / (epsilon n)^2``.

    n is ``N f h^d``. The noise on a cell's mean is ``Lap(2T / (n epsilon))``.

    Args:
        rows: N.
        epsilon: Of everything published.
        regularity: Assumptions on the function.
        bound: T, of labels in [-T, T].
        label_variance: Of a label given its features; by default ``T^2``.

    References:
        Zhao et al. 2025, theorem 8, equations (23) and (24). Equation (23) prints ``Lap(2 / (n epsilon))``, which is
        too little noise if T is above 1: a replaced label moves a mean by 2T / n.
    """
    bound, e = check_positive(bound, "bound"), _checks.epsilon(epsilon)
    rows = check_rows(rows)
    variance = bound**2 if label_variance is None else check_positive(label_variance, "label_variance")
    held, value = _best_cells(rows, regularity, variance, _LAPLACE * bound**2 / e**2)
    return _upper_bound(8, "with noise on the sum of each cell", value, regularity, _cell_sizes(rows, regularity, held))


def local_heavy_lower(rows: int, epsilon: float, regularity: Regularity, moments: float) -> Bound:
    """Theorem 9: ``(N (e^epsilon - 1)^2)^(-2b(p-1)/(2pb + d(p-1)))``, or ``N^(-2b/(2b+d))`` if that is larger.

    For small epsilon, labels whose p-th moments are at most 1, and with constant 1. It falls more slowly than the rate
    without privacy for every finite p.

    Args:
        rows: N.
        epsilon: Of each label.
        regularity: Assumptions on the function.
        moments: p, at least 2.

    References:
        Zhao et al. 2025, theorem 9, equation (25).
    """
    return _lower_bound(
        9, "local", "heavy-tailed", rows, math.expm1(_checks.epsilon(epsilon)), regularity, 1.0, moments
    )


def local_heavy_upper(
    rows: int,
    epsilon: float,
    regularity: Regularity,
    moments: float,
    moment: float = 1.0,
    label_variance: float | None = None,
    unit_noise: float | None = None,
) -> Bound:
    """Theorem 10: labels are clipped to [-T, T] and get noise of their own; the k nearest neighbours are averaged.

    ``C (k / (N f v))^(2b/d) + V / k + w T^2 / k + (c M T^(1-p))^2`` at its smallest in k and T; the best T for k is
    ``((p-1) c^2 M^2 k / w)^(1/(2p))``.

    Args:
        rows: N.
        epsilon: Of each label.
        regularity: Assumptions on the function.
        moments: p, at least 2.
        moment: M, a bound of ``E[|Y|^p | X]``.
        label_variance: V, of a label given its features; by default ``M^(2/p)``, the largest.
        unit_noise: w, the variance of the noise for T = 1; by default ``8 / epsilon^2`` of the paper's Laplace noise.

    References:
        Zhao et al. 2025, theorem 10, equation (26). Its ``k ~ (N epsilon^2)^(2pb/D) v N^(2b/(2b+d))``,
        ``D = 2pb + d(p-1)``, lacks a factor: the balance asks for ``epsilon^-2 (N epsilon^2)^(2pb/D)``.
    """
    rows, e, p = check_rows(rows), _checks.epsilon(epsilon), check_moments(moments)
    moment = check_positive(moment, "moment")
    noise = _LAPLACE / e**2 if unit_noise is None else check_positive(unit_noise, "unit_noise")
    variance = _label_variance(label_variance, moment, p)

    def error(k: float) -> float:
        return _error_of_neighbours(rows, regularity, variance, k) + _clipping_error(p, moment, noise / k)

    k = float(math.ceil(_smoothing.golden_section_minimizer(error, 1.0, rows)))
    sizes = (("neighbours", k), ("clip", _smoothing.clip_level(p, moment, noise / k)))
    return _upper_bound(10, "with clipped labels, noise on each, and nearest neighbours", error(k), regularity, sizes)


def central_heavy_lower(rows: int, epsilon: float, regularity: Regularity, moments: float) -> Bound:
    """Theorem 11: the larger of ``N^(-2b/(2b+d))`` and ``(epsilon N)^(-2b(p-1)/(pb + d(p-1)))``, with constant 1.

    Two moments cost a constant factor at most; more cost nothing in the end.

    Args:
        rows: N.
        epsilon: Of everything published.
        regularity: Assumptions on the function.
        moments: p, at least 2; labels whose p-th moments are at most 1.

    References:
        Zhao et al. 2025, theorem 11, equation (27), which prints the sum of the two.
    """
    return _lower_bound(11, "central", "heavy-tailed", rows, _checks.epsilon(epsilon), regularity, 1.0, moments)


def central_heavy_upper(
    rows: int,
    epsilon: float,
    regularity: Regularity,
    moments: float,
    moment: float = 1.0,
    label_variance: float | None = None,
) -> Bound:
    """Theorem 12: labels are clipped to [-T, T], and the sum of each cell gets noise.

    ``C h^(2b) + V / n + 8 T^2 / (epsilon n)^2 + (c M T^(1-p))^2`` at its smallest in n and T; the best T for n is
    ``((p-1) c^2 M^2 (epsilon n)^2 / 8)^(1/(2p))``.

    Args:
        rows: N.
        epsilon: Of everything published.
        regularity: Assumptions on the function.
        moments: p, at least 2.
        moment: M, a bound of ``E[|Y|^p | X]``.
        label_variance: V, of a label given its features; by default ``M^(2/p)``.

    References:
        Zhao et al. 2025, theorem 12, equations (28) and (29). Equation (28) clips at one side, ``min(Y, T)``: very
        small labels then move the sum without limit, so both sides are clipped.
    """
    rows, e, p = check_rows(rows), _checks.epsilon(epsilon), check_moments(moments)
    moment = check_positive(moment, "moment")
    variance = _label_variance(label_variance, moment, p)

    def error(n: float) -> float:
        return _error_of_cells(rows, regularity, variance, n) + _clipping_error(p, moment, _LAPLACE / (e * n) ** 2)

    held = _smoothing.golden_section_minimizer(error, 1.0, rows)
    sizes = (
        *_cell_sizes(rows, regularity, held),
        ("clip", _smoothing.clip_level(p, moment, _LAPLACE / (e * held) ** 2)),
    )
    return _upper_bound(12, "with clipped labels and noise on the sum of each cell", error(held), regularity, sizes)


def _best_neighbours(rows: int, regularity: Regularity, variance: float) -> tuple[float, float]:
    """The best k of nearest neighbours, and the error with it."""
    k = _smoothing.neighbour_count(
        rows, regularity.dimension, variance, regularity.smoothness, regularity.lipschitz, regularity.density
    )
    return float(k), _error_of_neighbours(rows, regularity, variance, k)


def _error_of_neighbours(rows: int, regularity: Regularity, variance: float, k: float) -> float:
    """Bias and variance of k nearest neighbours."""
    d, b = regularity.dimension, regularity.smoothness
    spread = rows * regularity.density * _smoothing.ball_volume(d)
    bias = _smoothing.neighbour_bias(d, b, regularity.lipschitz)
    return _smoothing.mean_squared_error(k, spread, d, bias, variance, 0.0, b)


def _error_of_cells(rows: int, regularity: Regularity, variance: float, held: float, noise: float = 0.0) -> float:
    """Bias, variance and noise of cells of so many rows."""
    d, b = regularity.dimension, regularity.smoothness
    bias = _smoothing.cell_bias(d, b, regularity.lipschitz)
    return _smoothing.mean_squared_error(held, rows * regularity.density, d, bias, variance, noise, b)


def _best_cells(rows: int, regularity: Regularity, variance: float, noise: float) -> tuple[float, float]:
    """The best number of rows of a cell, and the error with it."""
    held = _smoothing.golden_section_minimizer(
        lambda n: _error_of_cells(rows, regularity, variance, n, noise), 1.0, rows
    )
    return held, _error_of_cells(rows, regularity, variance, held, noise)


def _cell_sizes(rows: int, regularity: Regularity, held: float) -> tuple[tuple[str, float], ...]:
    width = math.pow(held / (rows * regularity.density), 1 / regularity.dimension)
    return (("rows in a cell", held), ("width", width))


def _clipping_error(power: float, moment: float, noise: float) -> float:
    """``w T^2 + (c M T^(1-p))^2`` at the best T."""
    bound = _smoothing.clip_level(power, moment, noise)
    return noise * bound**2 + (_smoothing.clip_constant(power) * moment * math.pow(bound, 1 - power)) ** 2


def _lower_bound(
    theorem: int,
    setting: str,
    problem: str,
    rows: int,
    epsilon: float,
    regularity: Regularity,
    bound: float,
    moments: float = math.inf,
) -> Bound:
    rows = check_rows(rows)
    entry = rate(setting, problem, regularity.smoothness, regularity.margin, regularity.dimension, moments)
    return Bound(
        value=bound**2 * entry.at(rows, epsilon),
        kind="lower",
        theorem=f"{_PAPER}, theorem {theorem}",
        statement=f"{_ERROR} is at least this for some distribution, {_BEST[setting]}",
        constants="conventional",
        assumptions=regularity.assumed,
    )


def _upper_bound(
    theorem: int, how: str, value: float, regularity: Regularity, sizes: tuple[tuple[str, float], ...]
) -> Bound:
    return Bound(
        value=value,
        kind="upper",
        theorem=f"{_PAPER}, theorem {theorem}",
        statement=f"{_ERROR} is at most this {how}",
        constants="conventional",
        assumptions=regularity.assumed,
        sizes=sizes,
    )


def _label_variance(variance: float | None, moment: float, power: float) -> float:
    """Variance of a label: at most its second moment, which is at most ``M^(2/p)`` (Jensen)."""
    return math.pow(moment, 2 / power) if variance is None else check_positive(variance, "label_variance")
