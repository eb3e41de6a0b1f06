"""Projected stochastic gradient descent over linear scores: one step for each row, and the mean of all points.

At step t the parameters are W_t, a row x has the scores ``W_t^T x``, and ``x f_t^T``, whose mean is the gradient of the
row's loss, moves them: ``W_(t+1) = P(W_t - eta_t (x f_t^T + l2 W_t))``, P the nearest point of a region. With the
second moment of the stochastic gradients at most G^2, and R the largest distance of a point of the region from
zero, where descent starts:

* eta = R / (G sqrt(n)): the mean of W_1 .. W_n is at most ``R G / sqrt(n)`` worse than the best point (Bubeck 2015,
  section 6.1; from points before each step, where the gradients were taken).
* eta_t = sqrt(2) R / (G sqrt(t)), for a stream of unknown length: at most ``2 sqrt(2) R G / sqrt(n)`` (Zinkevich 2003).
* eta_t = sqrt(2) R over the root of the sum of squared gradients so far: the same, with that sum for ``n G^2``
  (Streeter and McMahan 2010). It is computed from released labels alone.
* with l2 > 0 and no region, eta_t = 2 / (l2 (t + 1)) and weights t in the mean: at most ``8 G^2 / (l2 (n + 1))``
  (Lacoste-Julien, Schmidt and Bach 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.convex._kernels import descend
from labeldp.learning.convex._losses import Loss

#: Below this share of the rows that a useful bound needs, all steps together lead nowhere.
_LOST = 1e-4


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class Ball:
    """Points at most ``radius`` from zero.

    Args:
        radius: Above 0.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.convex import Ball
        >>> Ball(2.5).project(np.array([[3.0], [4.0]])).tolist()
        [[1.5], [2.0]]
    """

    l2: ClassVar[float] = 0.0

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _checks.positive(self.radius, "the radius of a ball"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The nearest point of the ball: the point itself, or shortened to the radius."""
        length = float(np.linalg.norm(parameters))
        return parameters * (1.0 if length <= self.radius else self.radius / length)


@dataclass(frozen=True)
class Unconstrained:
    """All points, with a penalty of ``l2 / 2`` times the squared length of the parameters added to the loss.

    Args:
        l2: Above 0.
    """

    radius: ClassVar[float] = math.inf

    l2: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "l2", _checks.positive(self.l2, "l2, the penalty of unconstrained parameters,"))

    def project(self, parameters: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """The point itself."""
        return parameters.copy()


#: A feasible set: ``radius`` is the largest distance of a point from zero, ``l2`` the penalty.
Region = Ball | Unconstrained


@dataclass(frozen=True)
class Setting:
    """Public facts that the length of steps may depend on.

    Attributes:
        reach: R, the largest distance of a point of the region from zero, where descent starts.
        lipschitz: L, the Lipschitz constant of the loss of one row in the parameters.
        moment: G^2, a bound on the second moment of a stochastic gradient.
        labels: K, the number of possible labels of a row.
        epsilon: Epsilon of each label; infinite for public labels.
        interactive: Whether a curator answers with gradients.
        l2: Penalty of an unconstrained region; 0 for others.
        rows: Number of steps to be made; None for a stream.
    """

    reach: float
    lipschitz: float
    moment: float
    labels: int
    epsilon: float
    interactive: bool
    l2: float
    rows: int | None


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class Steps:
    """The lengths of steps, and the weight of each point in the mean.

    Attributes:
        length: Step t is ``length / (t + shift) ** decay`` long.
        decay: Exponent of the length.
        shift: Shift of the step number.
        pace: If above 0, steps are this over the root of the sum of squared gradients so far instead.
        growing: Whether the point before step t counts t times, and not once.
    """

    length: float
    decay: float = 0.0
    shift: float = 0.0
    pace: float = 0.0
    growing: bool = False

    def rate(self, numbers: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """Lengths of the steps with these numbers, counted from 1."""
        return np.asarray(self.length / (numbers + self.shift) ** self.decay)


def _by_bound(setting: Setting) -> Steps:
    if setting.l2 > 0:
        return Steps(2.0 / setting.l2, decay=1.0, shift=1.0, growing=True)
    length = setting.reach / math.sqrt(setting.moment)
    if setting.rows is None:
        return Steps(math.sqrt(2.0) * length, decay=0.5)
    return Steps(length / math.sqrt(setting.rows))


def _adaptive(setting: Setting) -> Steps:
    if setting.l2 > 0:
        return _by_bound(setting)
    return Steps(0.0, pace=math.sqrt(2.0) * setting.reach)


def _as_chua(setting: Setting) -> Steps:
    """Chua et al. 2025, Algorithm 1, line 7: ``(R / L) sqrt((e-1)^2 / (2 n (K + e) e))``, R the diameter."""
    if setting.rows is None:
        raise InputError("expected all rows at once for the steps of Chua et al., found a stream; use steps='bound'")
    spread = 2 * setting.rows * (1 + setting.labels * math.exp(-setting.epsilon))
    return Steps(2 * setting.reach / setting.lipschitz * -math.expm1(-setting.epsilon) / math.sqrt(spread))


def _as_ghazi(setting: Setting) -> Steps:
    """Ghazi et al. 2021, Theorem 9 and Proposition 11: ``D / (G sqrt(t))``, D the diameter.

    For released labels ``G = 6 K L / epsilon``; for interactive gradients, G^2 is the second moment with their noise.
    """
    moment = 6 * setting.labels * setting.lipschitz / setting.epsilon
    first = 2 * setting.reach / (math.sqrt(setting.moment) if setting.interactive else moment)
    return Steps(first, decay=0.5)


#: Rules for the length of steps, by name.
STEPS: Mapping[str, Callable[[Setting], Steps]] = MappingProxyType(
    {"bound": _by_bound, "adaptive": _adaptive, "chua": _as_chua, "ghazi": _as_ghazi}
)
#: Rules from papers, for private labels in a bounded region.
_OF_PAPERS = ("chua", "ghazi")


def steps_of(steps: object, setting: Setting) -> Steps:
    """The steps of a rule, or constant steps of a given length.

    Raises:
        InputError: The rule is unknown, the length is not above 0, or the rule is for another setting.
    """
    if isinstance(steps, int | float | np.number) and not isinstance(steps, bool) and 0 < steps < math.inf:
        return Steps(float(steps))
    if not isinstance(steps, str) or steps not in STEPS:
        raise InputError(f"expected steps among {', '.join(STEPS)}, or a length above 0, found {steps!r}")
    if steps in _OF_PAPERS and not (math.isfinite(setting.epsilon) and math.isfinite(setting.reach)):
        raise InputError(
            f"expected private labels and a bounded region for the steps of {steps}, found public labels or an "
            "unbounded region; use steps='bound'"
        )
    return STEPS[steps](setting)


@dataclass(frozen=True)
class DescentRows:
    """Rows of features, with a constant appended to each for the intercept.

    Attributes:
        indptr: Start of each row in ``data``, and the end of the last.
        indices: Column of each entry, if rows are sparse.
        sparse: Whether rows are sparse.
        data: Entries.
        end: The appended constant; 0 for no intercepts.
        columns: Number of entries of a row, including the constant.
        squares: Squared length of each row, including the constant.
    """

    indptr: Int[np.ndarray, "o"]
    indices: Int[np.ndarray, "i"]
    sparse: bool
    data: Float[np.ndarray, "m"]
    end: float
    columns: int
    squares: Float[np.ndarray, "n"]

    @classmethod
    def of(cls, features: Any, end: float) -> Self:
        """Rows of an array or a CSR matrix of floats, shape (n, d), without a copy of their data."""
        n, d = features.shape
        if issparse(features):
            starts, indices = (np.asarray(each, dtype=np.int64) for each in (features.indptr, features.indices))
            data = features.data
        else:
            starts, indices, data = d * np.arange(n + 1), np.empty(0, dtype=np.int64), np.ravel(features)
        return cls(starts, indices, issparse(features), data, end, d + (end != 0.0), squared_lengths(features) + end**2)

    def row(self, number: int) -> Float[np.ndarray, "p"]:
        """A row as a dense vector."""
        entries = slice(self.indptr[number], self.indptr[number + 1])
        row = np.zeros(self.columns)
        row[self.indices[entries] if self.sparse else slice(self.columns - (self.end != 0.0))] = self.data[entries]
        if self.end:
            row[-1] = self.end
        return row


def squared_lengths(features: Any) -> Float[np.ndarray, "n"]:
    """The squared length of each row of an array or a CSR matrix."""
    if issparse(features):
        return np.ravel(features.multiply(features).sum(axis=1))
    return np.asarray(np.einsum("ij,ij->i", features, features))


@documented_in("labeldp.learning.convex")
class Descent:
    """The state of a descent.

    Attributes:
        core: With ``scale``, the parameters: shape (columns, scores).
        done: Number of steps made.

    Args:
        loss: Loss of a row.
        region: Feasible set of the parameters.
        columns: Number of entries of a row.
        points: Possible labels on the scale of the scores.
        steps: Lengths of steps.
    """

    def __init__(self, loss: Loss, region: Region, columns: int, points: Float[np.ndarray, "k"], steps: Steps) -> None:
        self.loss, self.region, self.points, self.steps = loss, region, points, steps
        self.core = np.zeros((columns, len(points) if loss.of_classes else 1))
        self.rest = np.zeros_like(self.core)
        self.state = np.array([1.0, 0.0, 0.0, 0.0])
        self.done, self.counted = 0, 0.0

    @property
    def last(self) -> Float[np.ndarray, "p s"]:
        """The parameters after the last step."""
        return np.asarray(self.state[0] * self.core)

    @property
    def mean(self) -> Float[np.ndarray, "p s"]:
        """The weighted mean of the parameters before each step; the starting point before the first."""
        return (self.state[1] * self.core + self.rest) / self.counted if self.done else self.last

    def run(self, rows: DescentRows, part: Int[np.ndarray, "m"], weights: Float[np.ndarray, "m k"]) -> None:
        """Make one step for each of some rows.

        Args:
            rows: All rows.
            part: Numbers of the rows to visit, in order.
            weights: Unbiased vector of the released label of each visited row.
        """
        rates, shares = self._next(len(part))
        descend(
            rows.indptr,
            rows.indices,
            rows.sparse,
            rows.data,
            rows.end,
            part,
            self.loss.number,
            weights,
            self.points,
            rates,
            shares,
            self.steps.pace,
            self.region.radius,
            self.region.l2,
            self.core,
            self.rest,
            self.state,
            np.empty((2, self.core.shape[1])),
        )
        self.state[2] = self.state[0] ** 2 * float(np.vdot(self.core, self.core))  # without what rounding added

    def move(self, row: Float[np.ndarray, "p"], gradient: Float[np.ndarray, "s"]) -> None:
        """Make one step, from one row and its gradient in the scores, without the compiled loop."""
        (rate,), (share,) = self._next(1)
        self.core = self.state[0] * self.core
        self.rest += self.state[1] * self.core / self.state[0]
        self.state[:2] = 1.0, 0.0
        self.rest += share * self.core
        self.state[3] += float(gradient @ gradient) * float(row @ row)
        if self.steps.pace > 0:
            rate = self.steps.pace / math.sqrt(self.state[3]) if self.state[3] > 0 else 0.0
        self.core = self.region.project(self.core * (1.0 - rate * self.region.l2) - rate * np.outer(row, gradient))
        self.state[2] = float(np.vdot(self.core, self.core))

    def _next(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the next steps and weights of the points before them; counts these steps as made."""
        numbers = np.arange(self.done + 1, self.done + count + 1, dtype=np.float64)
        shares = numbers if self.steps.growing else np.ones(count)
        self.done += count
        self.counted += float(shares.sum())
        return self.steps.rate(numbers), shares


class FewRowsWarning(UserWarning):
    """There are too few rows for the noise on their labels."""


def check_rows(needed: float, rows: int) -> str | None:
    """The warning if there are too few rows for the noise on their labels, else None.

    Args:
        needed: ``(G / L)^2``: with more rows the bound of descent, ``R G / sqrt(n)``, is below ``R L``, the most by
            which the starting point is worse than the best.
        rows: Number of rows.

    Raises:
        InputError: There are so few rows that descent stays at the starting point.
    """
    if rows >= needed:
        return None
    problem = f"expected at least {math.ceil(needed):,} rows for so much noise on labels, found {rows:,}"
    if rows < _LOST * needed:
        raise InputError(f"{problem}; steps this small make no progress: use a larger epsilon or more rows")
    return f"{problem}; use a larger epsilon, more rows or fewer classes"
