"""Sums over rows from which Bayesian regression in kernels follows, exact where inputs are rounded to a grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labeldp._shapes import Float
from labeldp._threads import ENTRIES, blocks
from labeldp.learning.heads._kernels import Kernels, squared_distances

#: Binary digits of the largest value on a grid, and most rows whose products are added up at once: the sums are whole
#: numbers below 2^53.
_DIGITS, _MOST_ROWS = 18, 1 << 15


@dataclass(eq=False)
class ExactSum:
    """A sum of arrays in two parts, of which the second holds what the first rounds off.

    Whole numbers that are exact in floats have an exact sum, whatever their order.

    References:
        Knuth 1997, section 4.2.2, theorem B.
    """

    high: Float[np.ndarray, "*shape"]
    low: Float[np.ndarray, "*shape"]

    @classmethod
    def of(cls, *shape: int) -> Self:
        """The sum of no arrays."""
        return cls(np.zeros(shape), np.zeros(shape))

    def add(self, values: Float[np.ndarray, "*shape"]) -> None:
        """Add an array."""
        total = self.high + values
        added = total - self.high
        self.low += (self.high - (total - added)) + (values - added)
        self.high = total

    def merge(self, other: ExactSum) -> None:
        """Add another sum."""
        self.add(other.high)
        self.add(other.low)

    @property
    def value(self) -> Float[np.ndarray, "*shape"]:
        """The sum, rounded once."""
        return np.asarray(self.high + self.low)


@dataclass(frozen=True, eq=False)
class Grid:
    """Kernels, and how rows are read in them: where targets are counted from, and what values are rounded to.

    Attributes:
        kernels: The kernels.
        origin: The numbers that targets are counted from, shape (k,).
        steps: For each kernel the steps, powers of two, of a constant, its inputs and the targets; None of what is not
            rounded.
    """

    kernels: Kernels
    origin: Float[np.ndarray, "k"]
    steps: tuple[Float[np.ndarray, "c1k"], ...] | None = None

    @classmethod
    def like(cls, kernels: Kernels, features: Any, targets: Float[np.ndarray, "n k"], weights: np.ndarray) -> Self:
        """The grid for rows like some public ones; sums of rows with far larger values are correct, but rounded."""
        origin = np.average(targets, axis=0, weights=weights)
        plain = cls(kernels, origin)
        largest = [np.zeros(1)] * len(kernels.each)
        for _, place, found in plain.columns(features, targets, weights):
            largest[place] = np.maximum(largest[place], np.abs(found).max(axis=0))
        steps = (np.exp2(np.ceil(np.log2(np.where(most > 0.0, most, 1.0))) - _DIGITS) for most in largest)
        return cls(kernels, origin, tuple(steps))

    def only(self, places: Sequence[int]) -> Grid:
        """The grid of some of the kernels, the linear one first."""
        kernels = Kernels(self.kernels.landmarks, tuple(self.kernels.each[place] for place in places))
        return Grid(kernels, self.origin, None if self.steps is None else tuple(self.steps[place] for place in places))

    def rounded(self, targets: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n k1"]:
        """A constant and the targets, times the root of the row's weight, rounded."""
        found = np.sqrt(weights)[:, None] * np.hstack([np.ones((len(targets), 1)), targets - self.origin])
        if self.steps is None:
            return np.asarray(found)
        steps = self.steps[0][[0, *range(-targets.shape[1], 0)]]
        return np.asarray(np.rint(found / steps) * steps)

    def columns(
        self, features: Any, targets: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]
    ) -> Iterator[tuple[slice, int, Float[np.ndarray, "m c1k"]]]:
        """Blocks of rows in each kernel: a constant, inputs and targets, times the root of the row's weight."""
        offsets, roots = targets - self.origin, np.sqrt(weights)[:, None]
        width = max(len(each.map) for each in self.kernels.each) + targets.shape[1] + 1
        for part in blocks(len(targets), width, min(ENTRIES, _MOST_ROWS * width)):
            rows = features[part]
            distances = squared_distances(rows, self.kernels.landmarks)
            for place, kernel in enumerate(self.kernels.each):
                found = np.hstack([np.ones((len(distances), 1)), kernel.inputs(rows, distances), offsets[part]])
                found *= roots[part]
                if self.steps is not None:
                    found /= self.steps[place]
                    np.rint(found, out=found)
                yield part, place, found


@dataclass(eq=False)
class KernelSums:
    """Sums of products over rows, in each kernel, of a constant and inputs with these and with targets.

    Attributes:
        grid: The kernels, and how rows are read in them.
        products: The sums of products of each kernel, shape (1 + c, 1 + c + k), in steps of the grid.
        squares: Sums of squares of the targets, shape (k,), in such steps.
    """

    grid: Grid
    products: list[ExactSum]
    squares: ExactSum

    @classmethod
    def of(cls, grid: Grid, parts: Iterable[KernelSums] = ()) -> Self:
        """The sums over the rows of some parts, whatever their order; of none by default."""
        targets = len(grid.origin)
        sizes = [1 + len(kernel.map) for kernel in grid.kernels.each]
        found = cls(grid, [ExactSum.of(size, size + targets) for size in sizes], ExactSum.of(targets))
        for part in parts:
            found.merge(part)
        return found

    def add(self, features: Any, targets: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> Self:
        """Add rows with their targets and weights."""
        count = targets.shape[1]
        for _, place, found in self.grid.columns(features, targets, weights):
            inputs = found.shape[1] - count
            if count <= inputs:  # one matrix with itself takes half the time
                both = found.T @ found
                self.products[place].add(both[:inputs])
                squares = np.diagonal(both)[inputs:]
            else:
                self.products[place].add(found[:, :inputs].T @ found)
                squares = np.einsum("nk,nk->k", found[:, inputs:], found[:, inputs:])
            if place == 0:
                self.squares.add(squares)
        return self

    def linear(self) -> KernelSums:
        """The sums of the linear kernel alone."""
        return KernelSums(self.grid.only([0]), self.products[:1], self.squares)

    def merge(self, other: KernelSums) -> None:
        """Add the sums over other rows."""
        for mine, theirs in zip([*self.products, self.squares], [*other.products, other.squares], strict=True):
            mine.merge(theirs)

    def evidence(self, share: float = 1.0) -> list[Evidence]:
        """The evidence of the sums in each kernel, with a weight of each row."""
        return [self._evidence(place, share) for place in range(len(self.products))]

    def _evidence(self, place: int, share: float) -> Evidence:
        kernel, sums = self.grid.kernels.each[place], share * self.products[place].value
        squares, inputs = share * self.squares.value, 1 + len(self.grid.kernels.each[place].map)
        if self.grid.steps is not None:
            steps = self.grid.steps[place]
            sums, squares = sums * np.outer(steps[:inputs], steps), squares * self.grid.steps[0][-len(squares) :] ** 2
        rows, means = float(sums[0, 0]), sums[0, 1:] / sums[0, 0]
        around = sums[1:, 1:] - rows * np.outer(means[: inputs - 1], means)
        gram = kernel.map.T @ around[:, : inputs - 1] @ kernel.map
        moved = means[inputs - 1 :]
        scale = float(np.sqrt(max(np.trace(gram), 0.0) / rows)) if np.isinf(kernel.width) else 1.0
        scale = scale or 1.0
        return Evidence(
            rows,
            self.grid.origin + moved,
            np.maximum(squares - rows * moved**2, 0.0),
            means[: inputs - 1] @ kernel.map,
            gram / scale**2,
            kernel.map.T @ around[:, inputs - 1 :] / scale,
            scale,
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over rows that a linear model in the features of a kernel needs.

    Attributes:
        rows: Effective number of rows.
        mean: Mean target, shape (k,).
        squares: Sum of squared targets around it, shape (k,).
        centre: Mean of the features, shape (f,).
        gram: Sums of products of features around it, over their scale squared.
        moments: Sums of products of these and of targets, over their scale.
        scale: Root of the mean square of a row of a linear kernel; 1 in others, whose rows have one of at most 1.
    """

    rows: float
    mean: Float[np.ndarray, "k"]
    squares: Float[np.ndarray, "k"]
    centre: Float[np.ndarray, "f"]
    gram: Float[np.ndarray, "f f"]
    moments: Float[np.ndarray, "f k"]
    scale: float

    def posteriors(
        self, ratios: Float[np.ndarray, "r"]
    ) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r f k"], Float[np.ndarray, "r k"]]:
        """Log marginal likelihood under each ratio of variances, and means of what follows from the targets.

        These are coefficients, and the variance of predictions as a mean over rows. With eigenvalues l of the Gram
        matrix, projections q of the moments on its eigenvectors and a ratio t, the squares that noise has to explain
        are ``s = squares - sum t q^2 / (1 + t l)``, and the likelihood at the likeliest noise is ``-1/2 (n log s + sum
        log(1 + t l))``. Of k targets that sum to one, k - 1 count.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values, projected = np.maximum(values, 0.0), vectors.T @ self.moments
        shrunk = ratios[:, None] / (1.0 + ratios[:, None] * values)
        left = np.maximum(self.squares - shrunk @ projected**2, 1e-12 * np.maximum(self.squares, 1e-300))
        count = len(self.mean)
        free = (count - 1) / count if count > 1 else 1.0
        sizes = self.rows * np.log(left).sum(axis=1) + count * np.log1p(ratios[:, None] * values).sum(axis=1)
        degrees = 1.0 + shrunk @ values
        variances = left / self.rows * degrees[:, None] / self.rows
        return -0.5 * free * sizes, vectors @ (shrunk[:, :, None] * projected) / self.scale, variances
