"""Learning curves: expected error by rows and noise, with conventional constants.

``LinearCurve`` is for numeric labels that are released one by one: the mean of all labels, and a linear model of d
directions, both from numbers with noise. V is the variance of a label that features do not explain, W that of the noise
on a released number, g the variance that the model explains without privacy. The mean errs by ``(V + W) / n``. Least
squares with p = 2 d coefficients (a slope and a curvature for each direction) errs by ``e = p (V + W) / n``, and shrunk
towards the mean by at most ``g e / (g + e) + 2 (V + W) / n``: the best shrinkage, and the price of estimating it.
Without features the mean alone remains. The estimates of mean and shrinkage err by no more than the range allows.

``CellCurve`` is for averages in cells of m rows, by a curator or of classes: the mean squared error is ``C (m/N)^(2b/d)
+ V/m + W/m^2`` (``_smoothing``), at the best m, in either trust model; nearest neighbours have the same powers. W is
the variance of noise on a sum. Features explain g through a function that changes evenly: then ``L^2 = 12 g``.

Classification is the same for the difference of two classes' probabilities, whose variance without noise is 1 for each
row, and which changes by 1 over the unit cube. If the difference is known up to a normal error of standard deviation D,
and gaps have density ``g t^(g-1)`` near 0 (margin g), then the excess risk is ``integral of t g t^(g-1) P(Z > t/D)``,
which is ``g/(g+1) D^(g+1) E max(Z, 0)^(g+1)``; for g = 1 that is ``D^2 / 4``.

References:
    Zhao et al. 2025, theorems 2, 4, 6 and 8, for the powers of cells. James and Stein 1961, and Efron and Morris 1973,
    for the error of a shrunk estimate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from labeldp import _smoothing


class LearningCurve(ABC):
    """Expected error as a function of rows and noise.

    Attributes:
        variance: V, the variance of a row without noise.
        most: The error of the trivial predictor.
    """

    variance: float
    most: float

    @abstractmethod
    def error(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Expected error with noise of variance ``each`` on every row, and ``total`` on the sum of each cell."""

    @abstractmethod
    def effective_rows(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Number of rows without noise that are as informative."""


@dataclass(frozen=True)
class LinearCurve(LearningCurve):
    """Error of a shrunk linear model on released numbers: a root mean square in the units of labels.

    Attributes:
        dimension: d; 0 without features.
        variance: V.
        explained: g; 0 without features.
        furthest: The largest error of the middle of the range as a guess of the mean.
        most: The error of the trivial predictor.
    """

    dimension: float
    variance: float
    explained: float
    furthest: float
    most: float

    def error(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Expected error of the predicted conditional mean; there are no sums with noise."""
        del total
        of_one = (self.variance + each) / rows
        fitted, best = 2 * self.dimension * of_one, self.explained
        shrunk, estimates = (best * fitted / (best + fitted), 3) if best else (0.0, 1)
        return math.sqrt(shrunk + min(estimates * of_one, self.furthest**2))

    def effective_rows(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Rows without noise that give a mean of all labels with the same error, as for a release of these labels."""
        del total
        spread = self.variance + self.explained
        return rows * spread / (spread + each)


@dataclass(frozen=True)
class CellCurve(LearningCurve):
    """Error of averages in cells.

    Attributes:
        dimension: d; 0 without features: one mean, or one class, of all rows.
        variance: V of a row without noise.
        lipschitz: L of the estimated function.
        smoothness: b.
        most: The error of the trivial predictor, which caps all others.
        margin: g of classes; None for regression, whose error is a root mean square in the units of labels.
    """

    dimension: float
    variance: float
    lipschitz: float
    smoothness: float
    most: float
    margin: float | None = None

    def error(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Expected error with noise of variance ``each`` on every row, and ``total`` on the sum of each cell."""
        squared = self._squared(rows, self.variance + each, total)
        return min(self.most, math.sqrt(squared) if self.margin is None else excess_risk(squared, self.margin))

    def effective_rows(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """Number of rows without noise that give the same error; for noise on rows, the same ``N / V``."""
        if total == 0:
            return rows * self.variance / (self.variance + each)
        squared_error = self._squared(rows, self.variance + each, total)
        return bisect_threshold(lambda n: self._squared(n, self.variance, 0.0) <= squared_error, 1.0, rows)

    def _squared(self, rows: float, variance: float, total: float) -> float:
        if self.dimension == 0:
            return variance / rows + total / rows**2
        bias = _smoothing.cell_bias(self.dimension, self.smoothness, self.lipschitz)
        cell_rows = _smoothing.averaged_rows(rows, rows, self.dimension, bias, variance, total, self.smoothness)
        return _smoothing.mean_squared_error(cell_rows, rows, self.dimension, bias, variance, total, self.smoothness)


def excess_risk(squared: float, margin: float) -> float:
    """Excess risk ``g/(g+1) D^(g+1) E max(Z, 0)^(g+1)`` for a squared error D^2 of the gap between two classes."""
    power = margin + 1
    half_moment = math.pow(2, power / 2) * math.gamma((power + 1) / 2) / (2 * math.sqrt(math.pi))
    return margin / power * math.pow(squared, power / 2) * half_moment


def noisy_area(area: float, share: float, added: float) -> float:
    """The area under the ROC of scores whose noise adds some log loss.

    Scores of both classes are taken for normal, of one variance (Green and Swets 1966): areas of ``Phi(z)`` are those
    of log odds of variance ``2 z^2`` in each class. Noise of variance v adds ``share (1 - share) v / 2`` to the log
    loss, to second order.
    """
    normal = NormalDist()
    separation = normal.inv_cdf(area)
    gain = share * (1.0 - share) * separation**2
    return normal.cdf(separation / math.sqrt(1.0 + added / gain))


def bisect_threshold(holds: Callable[[float], bool], low: float, high: float, closeness: float = 1e-6) -> float:
    """Smallest number between two from which on a condition holds, up to a relative closeness; ``high`` if none is."""
    if holds(low):
        return low
    while high > low * (1 + closeness):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
