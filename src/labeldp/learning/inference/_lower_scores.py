"""Scores of released numbers whose mean is at most the probability that an interval holds the true one.

Let P be the matrix of a channel of numbers, of grid points by outcomes. For a set S of grid points, a function g of
the outcome with ``(P g)(y) <= 1[y in S]`` for every y has a mean of at most ``P(y in S)``, whatever the distribution of
true numbers. If outcomes identify the indicator, g is unbiased for it; one bit identifies means alone, and its g is a
line below the indicator. The best g depends on where numbers are and how many rows there are, and is the solution of a
linear program: the largest mean of g, less a part of the mean of |g|, under a guess of the distribution around each
prediction, with a bound on |g| that grows with the number of rows. Every guess gives a function
below the indicator; guess and bound decide how narrow intervals get. One number of the guess, the variance of labels,
is estimated from the released labels themselves. It errs, so the guess is wider, and a part of it lies anywhere: where
numbers were taken for unlikely, a function far below the indicator would count as good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.special import ndtr

from labeldp._shapes import Bool, Float, Int
from labeldp.errors import InputError
from labeldp.learning.losses import is_unbiased, label_variance, plain_numbers, unbiased_numbers
from labeldp.release import Release

#: Most entries of a matrix.
_MOST_ENTRIES = 1 << 17
#: Bins of even width of predictions, whose rows share their sets: most, and fewest, where a matrix has many entries.
_BINS, _FEWEST_BINS, _FEW_ENTRIES = 48, 16, 1 << 12
#: Least share of the variance of labels that predictions leave.
_LEAST_LEFT = 0.05
#: The guess of a distribution: how much wider it is than the estimated spread, and the part of it that lies anywhere.
_WIDER, _ANYWHERE = 1.5, 0.2
#: Distances of intervals that are tried.
_REACHES = 64
#: The part of the mean of |g|; and the bound on |g| as a share of the root of the number of rows, and its ends.
_OF_SIZE, _OF_ROOT, _SIZES = 0.03, 0.05, (2.0, 30.0)
_FINE = "released numbers on so fine a grid do not tell how often intervals hold them; declare a larger step"
_MIXED = "released labels of rows with candidates or clusters do not tell how often intervals hold the true number"


@dataclass(frozen=True, eq=False)
class GridLaws:
    """Released numbers with the matrix of each distribution among the rows.

    Attributes:
        release: The release.
        points: The grid points.
        matrices: Their probabilities of each outcome, for each distribution.
        laws: The distribution of each row.
    """

    release: Release
    points: Float[np.ndarray, "k"]
    matrices: tuple[Float[np.ndarray, "k m"], ...]
    laws: Int[np.ndarray, "n"]

    @classmethod
    def of(cls, release: Release) -> GridLaws | str:
        """Those of a release; or why its numbers do not tell how often labels are in a set."""
        points, laws = np.array(release.space.points, dtype=np.float64), release.channel.law_numbers(len(release))
        if release.is_public:
            return cls(release, points, (), laws)
        if not is_unbiased(release):
            return _MIXED
        try:
            firsts = [int(np.argmax(laws == law)) for law in range(int(laws.max(initial=0)) + 1)]
            matrices = tuple(release.channel.table(row).matrix for row in firsts)
        except InputError:
            return _FINE
        return _FINE if max(each.size for each in matrices) > _MOST_ENTRIES else cls(release, points, matrices, laws)

    @property
    def step(self) -> float:
        """Distance of neighbouring grid points."""
        return float(self.points[1] - self.points[0]) if len(self.points) > 1 else 1.0

    def scores(
        self, rows: Int[np.ndarray, "m"], inside: Bool[np.ndarray, "k"], guess: Float[np.ndarray, "k"], count: int
    ) -> Float[np.ndarray, "m"]:
        """Scores of rows, in the mean at most the probability that their true label is in a set.

        Args:
            rows: The rows.
            inside: The grid points in the set.
            guess: A guess of the distribution of their labels.
            count: Number of rows whose scores are averaged.
        """
        codes, found = self.release.codes[rows], np.zeros(len(rows))
        if not self.matrices:
            return np.asarray(inside[codes], dtype=np.float64)
        for law, matrix in enumerate(self.matrices):
            its = self.laws[rows] == law
            if its.any():
                found[its] = _best_below(matrix, inside, guess, count)[codes[its]]
        return found

    def extremes(self, count: int) -> tuple[float, float]:
        """Between what the scores of so many rows lie, whether below or above an indicator."""
        return (-_largest(count), 1.0 + _largest(count)) if self.matrices else (0.0, 1.0)

    def distribution(
        self, rows: Int[np.ndarray, "m"], tried: Int[np.ndarray, "t"]
    ) -> tuple[Float[np.ndarray, "m t"], Float[np.ndarray, "m t"]]:
        """Scores of rows below and above the indicator that their label is at most a grid point, for each of some."""
        guess, places = np.full(len(self.points), 1.0 / len(self.points)), np.arange(len(self.points))
        below = [self.scores(rows, places <= point, guess, len(rows)) for point in tried]
        above = [1.0 - self.scores(rows, places > point, guess, len(rows)) for point in tried]
        return np.stack(below, axis=1), np.stack(above, axis=1)


class LowerScores:
    """Scores of the rows of a release of numbers, for intervals around predictions.

    Attributes:
        problem: Why there are none; empty if there are.
    """

    def __init__(self, release: Release, predicted: Float[np.ndarray, "n"]) -> None:
        found = GridLaws.of(release)
        self.problem = found if isinstance(found, str) else ""
        if isinstance(found, str):
            return
        self._grid, self._predicted = found, predicted
        entries = max((each.size for each in found.matrices), default=1)
        count = int(np.clip(_BINS * math.sqrt(_FEW_ENTRIES / entries), _FEWEST_BINS, _BINS))
        limits = np.linspace(predicted.min(), predicted.max(), count + 1)[1:-1]
        self._bins = np.searchsorted(limits, predicted, side="right")
        self._spread = self._left_spread()

    @property
    def reaches(self) -> list[float]:
        """Distances from predictions, in even ratios from the whole range to half a step."""
        widest = float(self._grid.points[-1] - self._grid.points[0])
        return [float(each) for each in np.geomspace(widest, self._grid.step / 2.0, _REACHES)[1:]]

    def __call__(self, reach: float, rows: Int[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        """Scores of rows, for intervals of this reach around their predictions."""
        grid, found = self._grid, np.zeros(len(rows))
        if not grid.matrices:
            apart = np.abs(grid.points[grid.release.codes[rows]] - self._predicted[rows])
            return np.asarray(apart <= reach, dtype=np.float64)
        for name in range(int(self._bins.max(initial=0)) + 1):
            its = np.flatnonzero(self._bins[rows] == name)
            if len(its):
                inside, guess = self._set(rows[its], reach)
                found[its] = grid.scores(rows[its], inside, guess, len(rows))
        return found

    def _set(self, rows: Int[np.ndarray, "m"], reach: float) -> tuple[Bool[np.ndarray, "k"], Float[np.ndarray, "k"]]:
        """The grid points in the intervals of all these rows, and the guess of their distribution."""
        points = self._grid.points
        least, most = float(self._predicted[rows].min()), float(self._predicted[rows].max())
        inside = (points >= most - reach) & (points <= least + reach)
        edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2.0, [np.inf]])
        near = np.diff(ndtr((edges - (least + most) / 2.0) / (_WIDER * self._spread)))
        return inside, (1.0 - _ANYWHERE) * near + _ANYWHERE / len(points)

    def _left_spread(self) -> float:
        """A guess of the standard deviation of true numbers around predictions."""
        release = self._grid.release
        numbers = plain_numbers(release) if release.is_public else unbiased_numbers(release)
        variance = label_variance(release, numbers)
        left = max(variance - float(np.var(self._predicted)), _LEAST_LEFT * variance)
        return max(math.sqrt(left), self._grid.step / 4.0)


def _best_below(
    matrix: Float[np.ndarray, "k m"], inside: Bool[np.ndarray, "k"], guess: Float[np.ndarray, "k"], rows: int
) -> Float[np.ndarray, "m"]:
    """The function of outcomes below the indicator of a set, with the largest mean less a part of its size."""
    if inside.all() or not inside.any():
        return np.full(matrix.shape[1], float(inside.all()))
    chances = guess @ matrix
    cost = np.concatenate([-(1.0 - _OF_SIZE) * chances, (1.0 + _OF_SIZE) * chances])
    bounds = (0.0, _largest(rows))
    solved = linprog(cost, np.hstack([matrix, -matrix]), inside.astype(np.float64), bounds=bounds, method="highs")
    if solved.status != 0:
        return np.zeros(matrix.shape[1])
    return _lowered(solved.x[: len(chances)] - solved.x[len(chances) :], matrix, inside)


def _largest(rows: int) -> float:
    """The bound on |g|."""
    return float(np.clip(_OF_ROOT * math.sqrt(rows), *_SIZES))


def _lowered(
    score: Float[np.ndarray, "m"], matrix: Float[np.ndarray, "k m"], inside: Bool[np.ndarray, "k"]
) -> Float[np.ndarray, "m"]:
    """The function, less what the solver's rounding left of it above the indicator: rows of a channel sum to one."""
    return np.asarray(score - max(float((matrix @ score - inside).max()), 0.0))
