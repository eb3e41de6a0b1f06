"""The unbiased randomizer of numbers with the least variance, by column generation for a linear programme.

An outcome is a number z with a probability for each knot y. It satisfies epsilon if no two of these probabilities
differ by more than the factor ``e = exp(epsilon)``; such vectors form a cone, whose extreme rays have entries 1 and e
alone. So a randomizer is a set of columns (S, z) with masses ``theta``: knots in the set S have the outcome z with
probability ``e theta``, others with ``theta``. With ``c(y) = e`` in S and 1 elsewhere, the programme is::

    minimise    sum theta sum_y p(y) c(y) (z - y)**2
    such that   sum theta c(y) = 1   and   sum theta c(y) (z - y) = 0   for every knot y.

Given the duals ``lambda`` and ``mu`` of the rows, a column has the reduced cost ``sum_y c(y) g(y, z)`` with
``g(y, z) = p(y) (z - y)**2 - mu(y) (z - y) - lambda(y)``. For each z the best set is ``{y: g(y, z) < 0}``, out of all
subsets. It changes only at roots of ``g``, and between two of them the reduced cost is a parabola in z: so the best
column of all is among at most ``2 knots + 1``, which are all computed. As the masses sum to at most one, ``sum lambda``
plus the least reduced cost is a lower bound on the variance: the search stops when the value is close to it.

For the worst knot instead of the mean, the programme minimises an upper bound t on the variances of all knots; ``p`` is
then the weight of each knot in the duals. A twentieth of the mean is added to the objective, to select a solution with
a small mean among the optimal ones.

If the prior is symmetric, so is the programme: each column stands for itself and its mirror image with half the mass
each, one half of the knots needs rows, and the duals of the other half are those of the mirror image.

References:
    Badanidiyuru et al. 2023 for the programme on a grid of numbers; Kairouz et al. 2016, section 3, for the columns;
    Wentges 1997 for duals between the best known and the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from labeldp._shapes import Bool, Float
from labeldp.privacy.channels import window_width

#: Pieces of the coarsest grid, on which the search begins.
_COARSE = 8
#: The accepted relative gap to the least variance, and the largest number of rounds.
_GAP, _ROUNDS = 1e-3, 200
#: Weight of the mean beside the worst knot.
_MEAN_SHARE = 0.05
#: Unused columns that stay after pruning, and the number of columns that triggers it, in multiples of the knots.
_KEPT, _MOST = 2, 6
_NONE = 1e-12
#: Farthest number of a column, in standard deviations of a good solution: a knot of a probability near zero has roots
#: beyond all bounds, which would spoil the scale of the programme.
_REACH = 1e6


@dataclass(frozen=True)
class RestrictedProgramme:
    """The restricted linear programme: its columns, each a set of knots with a number, and their masses.

    Attributes:
        numbers: The number of each column, in half ranges from the middle of the range.
        inside: Mask of the knots in the set of each column.
        masses: Probability of each column for knots outside its set; zeros before there is a solution.
    """

    numbers: Float[np.ndarray, "m"]
    inside: Bool[np.ndarray, "knots m"]
    masses: Float[np.ndarray, "m"]

    def take(self, columns: np.ndarray) -> RestrictedProgramme:
        """The programme of a subset of its columns."""
        return RestrictedProgramme(self.numbers[columns], self.inside[:, columns], self.masses[columns])

    def with_images(self) -> RestrictedProgramme:
        """The columns and their mirror images, with half the mass each."""
        return _combined(
            RestrictedProgramme(self.numbers, self.inside, self.masses / 2),
            RestrictedProgramme(-self.numbers, self.inside[::-1], self.masses / 2),
        )


def least_variance(prior: Float[np.ndarray, "knots"], epsilon: float, worst: bool) -> RestrictedProgramme | None:
    """The columns of least variance, solved from coarse grids to fine ones; None if the solver fails.

    Duals of a coarse grid, interpolated to a finer one, give columns there that are nearly the best.

    Args:
        prior: Probabilities of the knots.
        epsilon: Natural logarithm of the allowed ratio.
        worst: Minimise the largest variance over knots instead of the mean.
    """
    sizes = [len(prior) - 1]
    while sizes[-1] > _COARSE:
        sizes.append(sizes[-1] // 2)
    duals, columns = None, None
    for pieces in reversed(sizes):
        programme = _Programme(projected(prior, pieces), epsilon, worst)
        solution = programme.solve(None if duals is None else _interpolated(duals, pieces))
        if solution is None:
            return None
        columns, duals = solution
    return columns


def projected(prior: Float[np.ndarray, "k"], pieces: int) -> Float[np.ndarray, "knots"]:
    """A prior over grid points as probabilities of knots: points between two knots are split in proportion."""
    places = np.linspace(0.0, pieces, len(prior))
    lower = np.minimum(places.astype(np.int64), pieces - 1)
    share = places - lower
    shares = np.bincount(lower, prior * (1 - share), pieces + 1) + np.bincount(lower + 1, prior * share, pieces + 1)
    return np.asarray(shares)


def even(pieces: int) -> Float[np.ndarray, "knots"]:
    """Probabilities of knots for uniform labels: each end has half the probability of a knot inside."""
    shares = np.full(pieces + 1, 1.0 / pieces)
    shares[[0, -1]] /= 2
    return shares


def _interpolated(duals: Float[np.ndarray, "3 coarse"], pieces: int) -> Float[np.ndarray, "3 knots"]:
    """Duals on a finer grid, interpolated as densities."""
    coarse = duals.shape[1] - 1
    source, target = np.linspace(-1, 1, coarse + 1), np.linspace(-1, 1, pieces + 1)
    return np.asarray(np.array([np.interp(target, source, row / even(coarse)) for row in duals]) * even(pieces))


@dataclass(frozen=True)
class _Programme:
    """One linear programme: a prior over knots, an epsilon, and the objective.

    Duals are three rows: the weight of each knot, lambda, and mu.
    """

    prior: Float[np.ndarray, "knots"]
    epsilon: float
    worst: bool

    @cached_property
    def places(self) -> Float[np.ndarray, "knots"]:
        """Positions of the knots, in half ranges from the middle."""
        return np.linspace(-1.0, 1.0, len(self.prior))

    @cached_property
    def scale(self) -> float:
        """Approximate standard deviation of a good solution, which scales the programme's numbers to about one."""
        return float(min(1 / np.tanh(self.epsilon / 2), 4.0 * np.exp(-self.epsilon / 3)))

    @cached_property
    def symmetric(self) -> bool:
        """True if the prior is symmetric."""
        return bool(np.abs(self.prior - self.prior[::-1]).max() <= _NONE)

    def folded(self, rows: Float[np.ndarray, "knots m"], sign: int = 1) -> Float[np.ndarray, "rows m"]:
        """Rows of one half of the knots, for columns with their mirror images; all rows for asymmetric priors."""
        return (rows + sign * rows[::-1])[len(rows) // 2 :] / 2 if self.symmetric else rows

    def unfolded(self, duals: Float[np.ndarray, "rows"], sign: int = 1) -> Float[np.ndarray, "knots"]:
        """Duals of all knots."""
        if not self.symmetric:
            return duals
        full = np.concatenate([np.zeros(len(self.prior) - len(duals)), duals])
        return np.asarray((full + sign * full[::-1]) / 2)

    def factors(self, inside: Bool[np.ndarray, "knots m"]) -> Float[np.ndarray, "knots m"]:
        """The ratio of each entry to the smallest one of its column."""
        return np.where(inside, np.exp(self.epsilon), 1.0)

    def solve(self, duals: np.ndarray | None) -> tuple[RestrictedProgramme, np.ndarray] | None:
        """The best columns and their duals; None if the solver fails."""
        columns = _combined(self.thresholds(), self.windows())
        if duals is not None:
            columns = _combined(columns, self.priced(duals)[0])
        best, bound = duals, -np.inf
        for _ in range(_ROUNDS):
            solution = self._solve_restricted(columns)
            if solution is None:
                return None
            value, columns, last = solution
            added, at, at_bound = self._new_columns(last, best)
            if at_bound > bound:
                best, bound = at, at_bound
            if best is None or value - bound <= _GAP * value or not added.numbers.size:
                break
            columns = _combined(self._pruned(columns, last), added)
        used = columns.take(columns.masses > _NONE * columns.masses.max())
        return used.with_images() if self.symmetric else used, last

    def _new_columns(self, last: np.ndarray, best: np.ndarray | None) -> tuple[RestrictedProgramme, np.ndarray, float]:
        """Columns of negative reduced cost, from duals between the last and the best ones; and a lower bound."""
        for share in (0.5, 0.25, 0.125, 0.0) if best is not None else (0.0,):
            at = last if best is None or not share else share * best + (1 - share) * last
            columns, costs = self.priced(at)
            better = self.costs(columns, last) < -_NONE * self.scale**2
            if better.any():
                break
        return columns.take(better), at, float(at[1].sum() + min(costs.min(), 0.0))

    def _pruned(self, columns: RestrictedProgramme, duals: np.ndarray) -> RestrictedProgramme:
        """The columns in use, and the cheapest of the others if there are many."""
        knots = len(self.prior)
        if columns.numbers.size <= _MOST * knots:
            return columns
        costs = self.costs(columns, duals)
        return columns.take((columns.masses > 0) | (costs <= np.partition(costs, _KEPT * knots)[_KEPT * knots]))

    def _solve_restricted(self, columns: RestrictedProgramme) -> tuple[float, RestrictedProgramme, np.ndarray] | None:
        """Solve the programme with these columns alone: its value, the columns with their masses, and the duals."""
        from scipy.optimize import linprog  # noqa: PLC0415 (the package is imported without it)

        square = self.scale**2
        factors = self.factors(columns.inside) / np.exp(self.epsilon)
        away = (columns.numbers - self.places[:, None]) / self.scale
        squares = factors * away**2
        rows = np.concatenate([self.folded(factors), self.folded(factors * away, -1)])
        half = len(rows) // 2
        share = _MEAN_SHARE if self.worst else 1.0
        programme: dict[str, Any] = {
            "c": share * self.prior @ squares,
            "A_eq": rows,
            "b_eq": np.repeat([1.0, 0.0], half),
        }
        if self.worst:
            programme["c"] = np.append(programme["c"], 1 - share)
            programme["A_eq"] = np.column_stack([rows, np.zeros(2 * half)])
            programme |= {"A_ub": np.column_stack([self.folded(squares), -np.ones(half)]), "b_ub": np.zeros(half)}
        solved = linprog(**programme, bounds=(0, None), method="highs-ds")
        if solved.status != 0:
            return None
        weights = share * self.prior - (self.unfolded(solved.ineqlin.marginals) if self.worst else 0.0)
        sums, means = solved.eqlin.marginals.reshape(2, half)
        duals = np.array([weights, self.unfolded(sums) * square, self.unfolded(means, -1) * self.scale])
        masses = solved.x[: columns.numbers.size] / np.exp(self.epsilon)
        return solved.fun * square, RestrictedProgramme(columns.numbers, columns.inside, masses), duals

    def costs(self, columns: RestrictedProgramme, duals: np.ndarray) -> Float[np.ndarray, "m"]:
        """The reduced costs of columns."""
        weights, sums, means = duals[:, :, None]
        away = columns.numbers - self.places[:, None]
        return np.asarray(((weights * away**2 - means * away - sums) * self.factors(columns.inside)).sum(axis=0))

    def priced(self, duals: np.ndarray) -> tuple[RestrictedProgramme, Float[np.ndarray, "m"]]:
        """The best set between any two changes of it, with its best number, and the reduced costs."""
        weights, sums, means = duals[:, :, None]
        changes = self._changes(*duals)
        middles = np.concatenate([[changes[0] - 1], (changes[1:] + changes[:-1]) / 2, [changes[-1] + 1]])
        away = middles - self.places[:, None]
        inside = weights * away**2 - means * away - sums < 0
        factors = self.factors(inside)
        square, line = duals[0] @ factors, (2 * duals[0] * self.places + duals[2]) @ factors
        numbers = np.divide(line, 2 * square, out=middles.copy(), where=square > 0)
        numbers = np.clip(numbers, np.append(-np.inf, changes), np.append(changes, np.inf))
        columns = RestrictedProgramme(numbers, inside, np.zeros(numbers.size))
        return columns, self.costs(columns, duals)

    def _changes(self, weights: np.ndarray, sums: np.ndarray, means: np.ndarray) -> Float[np.ndarray, "r"]:
        """The positions of the roots of ``weights d**2 - means d - sums`` in d, by the stable formula."""
        spread = means**2 + 4 * weights * sums
        root = np.sqrt(np.maximum(spread, 0.0))
        larger = (means + np.copysign(root, means)) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = np.concatenate([self.places + larger / weights, self.places - sums / larger])
        roots = np.unique(roots[(np.abs(roots) <= _REACH * self.scale) & np.tile(spread > 0, 2)])
        return roots if roots.size else np.zeros(1)

    def thresholds(self) -> RestrictedProgramme:
        """The one-bit mechanism at each threshold: a feasible solution for every epsilon."""
        reach, knots = 1 / np.tanh(self.epsilon / 2), len(self.prior)
        above = np.arange(knots)[:, None] >= np.arange(1, knots)
        numbers = np.repeat([reach, -reach], knots - 1)
        return RestrictedProgramme(numbers, np.concatenate([above, ~above], axis=1), np.zeros(numbers.size))

    def windows(self) -> RestrictedProgramme:
        """The columns of the piecewise mechanism."""
        pieces = len(self.prior) - 1
        width = window_width(pieces, self.epsilon)
        low = 1 / (pieces + width * np.exp(self.epsilon))
        gain, outcomes = low * np.expm1(self.epsilon), np.arange(pieces + width)
        start = low * (outcomes.size * (outcomes.size - 1)) / 2 + gain * width * (width - 1) / 2
        numbers = (outcomes - start) / (gain * width) * 2 / pieces - 1
        first = np.arange(pieces + 1)[:, None]
        return RestrictedProgramme(numbers, (first <= outcomes) & (outcomes < first + width), np.zeros(outcomes.size))


def _combined(first: RestrictedProgramme, second: RestrictedProgramme) -> RestrictedProgramme:
    """The columns of both programmes."""
    return RestrictedProgramme(
        np.concatenate([first.numbers, second.numbers]),
        np.concatenate([first.inside, second.inside], axis=1),
        np.concatenate([first.masses, second.masses]),
    )
