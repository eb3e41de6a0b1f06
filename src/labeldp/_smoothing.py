"""Numbers of rows to average, and clipping levels, that balance bias, sampling and noise.

Pure formulas of public numbers, with which the learners tune themselves and the planner predicts; no label is read. The
mean squared error of an average of m rows near a point has three terms::

    bias      C (m / (N f))^(2 b / d)   the function changes within the neighbourhood
    sampling  V / m                     labels differ from their mean; with local noise, V holds its variance
    noise     W / m^2                   one draw of noise for the sum, in the central model alone

N rows of density f in d dimensions, a function with |eta(x) - eta(x')| <= L |x - x'|^b. The constants C are those of a
function that changes evenly, and densities are taken as even: sizes to start from, which cross-validation on released
labels refines at no cost, and no guarantee rests on them.

References:
    Zhao et al. 2025, theorems 6, 8, 10 and 12, which give the same sizes up to constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from labeldp._shapes import Float

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def participation(covariance: Float[np.ndarray, "d d"]) -> float:
    """Participation ratio: (sum of eigenvalues)^2 / sum of squared eigenvalues.

    It is d for d directions of equal variance, and 1 for a line. It is computed as squared trace over sum of squared
    entries, without eigenvalues.

    Args:
        covariance: Covariance of columns, not zero; or the Gram matrix of centred rows, which has the same nonzero
            eigenvalues.
    """
    scaled = covariance / np.trace(covariance)
    return float(1.0 / (scaled**2).sum())


def neighbour_bias(dimension: float, smoothness: float = 1.0, lipschitz: float = 1.0) -> float:
    """C of nearest neighbours: the i-th lies at (i / (N f v))^(1/d), so its power b has mean d/(d+b) of the last.

    The volume v of the unit ball, of a dimension that need not be whole, is no float in hundreds of dimensions.
    """
    log_volume = dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2 + 1)
    scale = math.exp(-smoothness * log_volume / dimension)
    return (lipschitz * scale * dimension / (dimension + smoothness)) ** 2


def cell_bias(dimension: float, smoothness: float = 1.0, lipschitz: float = 1.0) -> float:
    """C of a cube of side h, as a factor of h^(2b): L^2/12 where the function is smooth, L^2 d^b at the worst."""
    return lipschitz**2 / 12.0 if smoothness == 1.0 else lipschitz**2 * dimension**smoothness


def mean_squared_error(
    averaged: float,
    spread: float,
    dimension: float,
    bias: float,
    variance: float,
    noise: float = 0.0,
    smoothness: float = 1.0,
) -> float:
    """Mean squared error of an average of ``averaged`` rows: the three terms of the module.

    Args:
        averaged: m, the number of rows averaged.
        spread: N f, the number of rows in a unit of volume.
        dimension: d.
        bias: C, as of ``neighbour_bias`` or ``cell_bias``.
        variance: V, of one row's released label given its features.
        noise: W, the variance of the noise on the sum.
        smoothness: b, above 0 and at most 1.
    """
    uneven = bias * math.pow(averaged / spread, 2 * smoothness / dimension)
    return uneven + variance / averaged + noise / averaged**2


def averaged_rows(
    rows: float,
    spread: float,
    dimension: float,
    bias: float,
    variance: float,
    noise: float = 0.0,
    smoothness: float = 1.0,
) -> float:
    """The m between 1 and ``rows`` that minimizes ``mean_squared_error``.

    Each term is exp of a linear function of log m, so the sum is convex in log m, and its slope there,
    ``(2 b / d) C (m / (N f))^(2 b / d) - V / m - 2 W / m^2``, changes its sign once.
    """
    power = 2 * smoothness / dimension
    low, high = 0.0, math.log(max(1.0, rows))
    if noise == 0:
        balance = math.log(variance / (power * bias)) + power * math.log(spread)
        return math.exp(min(high, max(low, balance / (1 + power))))
    while high - low > 1e-9:
        log = (low + high) / 2
        slope = power * bias * math.exp(power * (log - math.log(spread))) - variance * math.exp(-log)
        low, high = (log, high) if slope < 2 * noise * math.exp(-2 * log) else (low, log)
    return math.exp((low + high) / 2)


def neighbour_count(
    rows: int, dimension: float, variance: float, smoothness: float = 1.0, lipschitz: float = 1.0, density: float = 1.0
) -> int:
    """Number k of nearest neighbours: (d V / (2 b C))^(d/(2b+d)) (N f)^(2b/(2b+d)), between 1 and ``rows``.

    The derivative of C (k / (N f))^(2b/d) + V / k vanishes there; C is that of ``neighbour_bias``.

    Args:
        rows: N.
        dimension: d, preferably the effective dimension of the features.
        variance: V, of one row's released label given its features: variance of the label plus that of the noise.
        smoothness: b, above 0 and at most 1.
        lipschitz: L, the Hoelder constant: the most that the label's mean changes over a distance of 1.
        density: f, rows in a unit of volume as a share of all rows: 1 for features that fill the unit cube.

    Example:
        >>> from labeldp._smoothing import neighbour_count
        >>> neighbour_count(10_000, dimension=2, variance=1.0), neighbour_count(10_000, dimension=2, variance=9.0)
        (266, 798)

    References:
        Zhao et al. 2025, theorem 6; theory of nearest neighbours for the constant.
    """
    bias = neighbour_bias(dimension, smoothness, lipschitz)
    optimum = averaged_rows(rows, rows * density, dimension, bias, variance, 0.0, smoothness)
    return max(1, min(rows, math.ceil(optimum * (1 - 1e-12))))


def clip_constant(power: float) -> float:
    """The c with E max(|Y| - T, 0) <= c E|Y|^p T^(1-p): the largest (y - T) y^-p T^(p-1), at y = T p / (p - 1)."""
    return math.exp((power - 1) * math.log(power - 1) - power * math.log(power))


def clip_level(power: float, moment: float, noise: float) -> float:
    """Clipping level T that balances its bias with the noise it needs: ((p-1) c^2 M^2 / w)^(1/(2p)).

    It minimizes w T^2 + (c M T^(1-p))^2.

    Args:
        power: p, at least 2.
        moment: M, a bound of E[|Y|^p | X].
        noise: w, the variance of the averaged noise for T = 1: 8 / (k epsilon^2) for k labels with Laplace noise each,
            8 / (n epsilon)^2 for one draw on the sum of n labels.

    Example:
        >>> from labeldp._smoothing import clip_level
        >>> round(clip_level(3, 1.0, 8 / 500), 2), round(clip_level(3, 1.0, 8 / 500**2), 2)
        (1.18, 3.33)

    References:
        Zhao et al. 2025, theorems 10 and 12: T ~ (k epsilon^2)^(1/(2p)) and (epsilon n)^(1/p).
    """
    return float(((power - 1) * (clip_constant(power) * moment) ** 2 / noise) ** (1 / (2 * power)))


def golden_section_minimizer(function: Callable[[float], float], low: float, high: float) -> float:
    """Minimizer between two numbers, by golden section, of a function that falls and then rises in log m."""
    left, right = math.log(low), math.log(high)
    while right - left > 1e-7:
        first, second = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
        if function(math.exp(first)) <= function(math.exp(second)):
            right = second
        else:
            left = first
    return math.exp((left + right) / 2)
