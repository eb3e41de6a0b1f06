"""Projected stochastic gradient descent over linear scores: one step for each row, and the mean of all points.

At step t the parameters are W_t, a row x has the scores ``W_t^T x``, and ``x f_t^T``, whose mean is the gradient of the
row's loss, moves them: ``W_(t+1) = P(W_t - eta_t (x f_t^T + l2 W_t))``, P the nearest point of a region. With the
second moment of the moves at most G^2, and R the largest distance of a point of the region from the first one:

* eta = R / (G sqrt(n)): the mean of W_1 .. W_n is at most ``R G / sqrt(n)`` worse than the best point (Bubeck 2015,
  section 6.1; from points before each step, where the gradients were taken).
* eta_t = sqrt(2) R / (G sqrt(t)), for a stream of unknown length: at most ``2 sqrt(2) R G / sqrt(n)`` (Zinkevich 2003).
* eta_t = sqrt(2) R over the root of the sum of squared moves so far: the same, with that sum for ``n G^2`` (Streeter
  and McMahan 2010). It is computed from released labels alone.
* with l2 > 0 and no region, eta_t = 2 / (l2 (t + 1)) and weights t in the mean: at most ``8 G^2 / (l2 (n + 1))``
  (Lacoste-Julien, Schmidt and Bach 2012).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse

from labeldp._documented import documented_in
from labeldp.errors import InputError
from labeldp.learning.convex._losses import Loss
from labeldp.learning.convex._regions import Ball, Box, Region, Unconstrained

#: With fewer rows than this share of what a useful bound takes, all steps together lead nowhere.
_LOST = 1e-4


@dataclass(frozen=True)
class Setting:
    """What the length of steps may depend on; all of it public.

    Attributes:
        reach: R, the largest distance of a point of the region from where descent begins.
        lipschitz: L, of the loss of one row in the parameters.
        moment: G^2, a bound of the second moment of a move.
        labels: K, how many labels a row may have.
        epsilon: Of each label; infinite where labels are public.
        told: Whether a curator tells gradients.
        l2: Of a region without limit; 0 of others.
        rows: All rows that will be seen, counted as often as they are; None of a stream.
    """

    reach: float
    lipschitz: float
    moment: float
    labels: int
    epsilon: float
    told: bool
    l2: float
    rows: int | None


@documented_in("labeldp.learning.convex")
@dataclass(frozen=True)
class Steps:
    """How long steps are, and how much each point counts in the mean.

    Attributes:
        length: Step t is ``length / (t + shift) ** decay`` long.
        decay: See there.
        shift: See there.
        pace: If above 0, steps are this over the root of the sum of squared moves so far instead.
        growing: Whether the point before step t counts t times, and not once.
    """

    length: float
    decay: float = 0.0
    shift: float = 0.0
    pace: float = 0.0
    growing: bool = False

    def rate(self, numbers: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """Lengths of the steps with these numbers, from 1."""
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

    For released labels ``G = 6 K L / epsilon``; for gradients that are told, it is that of their noise.
    """
    moment = 6 * setting.labels * setting.lipschitz / setting.epsilon
    first = 2 * setting.reach / (math.sqrt(setting.moment) if setting.told else moment)
    return Steps(first, decay=0.5)


#: How long steps are, by name.
STEPS: Mapping[str, Callable[[Setting], Steps]] = MappingProxyType(
    {"bound": _by_bound, "adaptive": _adaptive, "chua": _as_chua, "ghazi": _as_ghazi}
)
#: Those of papers, which are for private labels in a bounded region.
_OF_PAPERS = ("chua", "ghazi")


def steps_of(steps: object, setting: Setting) -> Steps:
    """The steps of a name, or constant ones.

    Raises:
        InputError: There is no such name, a length is not above 0, or the name is for another setting.
    """
    if isinstance(steps, int | float | np.number) and not isinstance(steps, bool) and 0 < steps < math.inf:
        return Steps(float(steps))
    if not isinstance(steps, str) or steps not in STEPS:
        raise InputError(f"expected steps among {', '.join(STEPS)}, or a length above 0, found {steps!r}")
    if steps in _OF_PAPERS and not (math.isfinite(setting.epsilon) and math.isfinite(setting.reach)):
        raise InputError(
            f"expected private labels and a bounded region for the steps of {steps}, found others; use steps='bound'"
        )
    return STEPS[steps](setting)


@dataclass(frozen=True)
class Rows:
    """Rows of features, as they are, with one number at the end of each if there are intercepts.

    Attributes:
        indptr: Where each row begins in ``data``, and where the last ends.
        indices: The column of each entry, where rows are sparse.
        sparse: Whether they are.
        data: The entries.
        end: The number that each row ends with, of intercepts; 0 for none.
        columns: Entries of a row, its end among them.
        squares: The squared length of each row, its end among it.
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
        """The rows of an array or a CSR matrix of floats, shape (n, d), which are not copied."""
        n, d = features.shape
        if issparse(features):
            starts, indices, data = features.indptr, features.indices, features.data
        else:
            starts, indices, data = d * np.arange(n + 1), np.empty(0, dtype=np.int32), np.ravel(features)
        return cls(starts, indices, issparse(features), data, end, d + (end != 0.0), squared_lengths(features) + end**2)

    def row(self, number: int) -> Float[np.ndarray, "p"]:
        """A row, written out."""
        original = slice(self.indptr[number], self.indptr[number + 1])
        found = np.zeros(self.columns)
        found[self.indices[original] if self.sparse else slice(self.columns - (self.end != 0.0))] = self.data[original]
        if self.end:
            found[-1] = self.end
        return found


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
        done: Steps that were made.

    Args:
        loss: The loss of a row.
        region: Where parameters stay.
        columns: Entries of a row.
        points: What labels may be, on the scale of the scores.
        steps: How long steps are.
    """

    def __init__(self, loss: Loss, region: Region, columns: int, points: Float[np.ndarray, "k"], steps: Steps) -> None:
        self.loss, self.region, self.points, self.steps = loss, region, points, steps
        self.core = np.array(region.start((columns, len(points) if loss.of_classes else 1)))
        self.rest = np.zeros_like(self.core)
        self.state = np.array([1.0, 0.0, float(np.vdot(self.core, self.core)), 0.0])
        self.done, self.counted = 0, 0.0

    @property
    def last(self) -> Float[np.ndarray, "p s"]:
        """The parameters after the last step."""
        return np.asarray(self.state[0] * self.core)

    @property
    def mean(self) -> Float[np.ndarray, "p s"]:
        """The mean of the parameters before each step; the start before the first."""
        return (self.state[1] * self.core + self.rest) / self.counted if self.done else self.last

    @property
    def compiled(self) -> bool:
        """Whether the loop is compiled for this loss and region."""
        return self.loss.number >= 0 and type(self.region) in (Ball, Box, Unconstrained)

    def run(self, rows: Rows, part: Int[np.ndarray, "m"], weights: Float[np.ndarray, "m k"]) -> None:
        """One step for each of some rows.

        Args:
            rows: All rows.
            part: Numbers of rows, in the order in which they are taken.
            weights: The unbiased vector of each one's released label.
        """
        if not self.compiled:
            for number, vector in zip(part.tolist(), weights, strict=True):
                row = rows.row(number)
                self.move(row, vector @ self.loss.gradients(row @ self.core, self.points))
            return
        from labeldp.learning.convex._kernels import descend  # noqa: PLC0415 (the compiler loads at the first fit)

        rates, shares = self._next(len(part))
        region = self.region
        descend(
            (rows.indptr, rows.indices, rows.sparse, rows.data, rows.end),
            part,
            self.loss.number,
            self.loss.width,
            np.ascontiguousarray(weights, dtype=np.float64),
            self.points,
            rates,
            shares,
            self.steps.pace,
            region.radius if isinstance(region, Ball) else 0.0,
            region.half_width if isinstance(region, Box) else 0.0,
            region.l2 if isinstance(region, Unconstrained) else 0.0,
            self.core,
            self.rest,
            self.state,
        )
        self.state[2] = self.state[0] ** 2 * float(np.vdot(self.core, self.core))  # without what rounding added

    def move(self, row: Float[np.ndarray, "p"], pull: Float[np.ndarray, "s"]) -> None:
        """One step, for one row and what its label pulls with, without the compiler."""
        (rate,), (share,) = self._next(1)
        self.core = self.state[0] * self.core
        self.rest += self.state[1] * self.core / self.state[0]
        self.state[:2] = 1.0, 0.0
        self.rest += share * self.core
        self.state[3] += float(pull @ pull) * float(row @ row)
        if self.steps.pace > 0:
            rate = self.steps.pace / math.sqrt(self.state[3]) if self.state[3] > 0 else 0.0
        l2 = self.region.l2 if isinstance(self.region, Unconstrained) else 0.0
        self.core = self.region.project(self.core * (1.0 - rate * l2) - rate * np.outer(row, pull))
        self.state[2] = float(np.vdot(self.core, self.core))

    def _next(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the next steps, and the weights of the points before them; they are counted as made."""
        numbers = np.arange(self.done + 1, self.done + count + 1, dtype=np.float64)
        shares = numbers if self.steps.growing else np.ones(count)
        self.done += count
        self.counted += float(shares.sum())
        return self.steps.rate(numbers), shares


class FewRowsWarning(UserWarning):
    """There are too few rows for the noise on their labels."""


def check_rows(needed: float, rows: int) -> str | None:
    """What to say where there are too few rows for the noise on their labels.

    Args:
        needed: ``(G / L)^2``: from so many rows on the bound of descent, ``R G / sqrt(n)``, is below ``R L``, by which
            the start is worse than the best at most.
        rows: How many there are.

    Raises:
        InputError: There are so few that all steps together lead nowhere.
    """
    if rows >= needed:
        return None
    told = (
        f"expected at least {math.ceil(needed):,} rows for so much noise on labels, from where on the bound of descent "
        f"says more than nothing, found {rows:,}"
    )
    if rows < _LOST * needed:
        raise InputError(f"{told}; steps this small lead nowhere: ask for a larger epsilon, or give more rows")
    return f"{told}; a larger epsilon, more rows or fewer classes would help"
