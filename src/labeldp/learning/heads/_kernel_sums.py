"""Sums over rows from which Bayesian regression in kernels follows, exact where inputs are rounded to a grid.

The kernels are linear and Gaussian ones of rows, approximated from landmarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse

from labeldp import _checks
from labeldp._shapes import Float
from labeldp._threads import ENTRIES, blocks

#: Rows that serve as landmarks, and most columns of which a linear kernel needs none.
_LANDMARKS, _FEW_COLUMNS = 100, 300
#: Directions of landmarks with less of the largest variance are left out.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Kernel:
    """Features of rows in a kernel: products of what is linear or near in a row with the columns of a map.

    Attributes:
        width: Squared width of a Gaussian kernel, of which nearness to landmarks is taken; infinite for a linear one.
        map: Coefficients of the features, shape (c, f), of the c inputs.
        columns: Coefficients of the inputs of a linear kernel of many columns, shape (d, c); None for the columns.
    """

    width: float
    map: Float[np.ndarray, "c f"]
    columns: Float[np.ndarray, "d c"] | None = None

    def inputs(self, rows: Any, distances: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n c"]:
        """The inputs of rows with some squared distances to the landmarks."""
        if self.columns is not None:
            return np.asarray(rows @ self.columns)
        near = nearness(rows, distances, self.width)
        return near.toarray() if issparse(near) else np.asarray(near)

    def of_columns(self, coefficients: Float[np.ndarray, "f k"]) -> Float[np.ndarray, "d k"]:
        """Coefficients of features as those of columns, or of nearness to landmarks."""
        inner = self.map @ coefficients
        return np.asarray(inner if self.columns is None else self.columns @ inner)


@dataclass(frozen=True, eq=False)
class Kernels:
    """A linear kernel and Gaussian ones, with their landmarks.

    Attributes:
        landmarks: Rows that serve as landmarks, shape (l, d).
        each: The kernels, the linear one first.
    """

    landmarks: Float[np.ndarray, "l d"]
    each: tuple[Kernel, ...]

    @classmethod
    def of(cls, features: Any, widths: Sequence[float]) -> Self:
        """The kernels of rows, with widths over the median squared distance of two landmarks."""
        landmarks = _landmarks(features)
        return cls(landmarks, tuple(_kernels(landmarks, features.shape[1], widths)))

    def likely(self, best: float) -> list[int]:
        """The places of the kernels that more rows may favour: the linear one, the best of few rows, the next narrower.

        More rows show finer structure.

        Args:
            best: The squared width of the kernel that few rows favour.
        """
        narrow = [place for place, each in enumerate(self.each) if place and each.width <= best]
        return [0, *sorted(narrow, key=lambda place: -self.each[place].width)[:2]]


def _kernels(landmarks: Float[np.ndarray, "l d"], columns: int, widths: Sequence[float]) -> Iterator[Kernel]:
    distances = squared_distances(landmarks, landmarks)
    far = distances[distances > 0.0]
    if columns <= _FEW_COLUMNS:
        yield Kernel(np.inf, np.eye(columns))
    else:
        yield Kernel(np.inf, _whitening(landmarks @ landmarks.T), landmarks.T)
    for width in widths if len(far) else ():
        size = _checks.positive(width, "widths") * float(np.median(far))
        yield Kernel(size, _whitening(nearness(landmarks, distances, size)))


def _landmarks(features: Any) -> Float[np.ndarray, "l d"]:
    """Some rows, by public chance."""
    rows = features.shape[0]
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:_LANDMARKS])  # of public rows
    return np.asarray(features[chosen].toarray() if issparse(features) else features[chosen])


def squared_distances(rows: Any, landmarks: Float[np.ndarray, "l d"]) -> Float[np.ndarray, "n l"]:
    """Squared distances of rows and landmarks."""
    own = rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("nd,nd->n", rows, rows)
    products = np.asarray(rows @ landmarks.T)
    found = np.asarray(own).reshape(-1, 1) + np.einsum("ld,ld->l", landmarks, landmarks) - 2.0 * products
    return np.asarray(np.maximum(found, 0.0))


def nearness(rows: Any, distances: Float[np.ndarray, "n l"], width: float) -> Any:
    """The nearness of rows to landmarks in a Gaussian kernel; in a linear one the rows themselves."""
    return rows if np.isinf(width) else np.exp(-distances / (2.0 * width))


def _whitening(kernel: Float[np.ndarray, "l l"]) -> Float[np.ndarray, "l f"]:
    """The map from nearness to landmarks to features whose products are about those of the kernel."""
    values, vectors = np.linalg.eigh(kernel + 1e-8 * np.eye(len(kernel)))
    some = values > _LEAST_VARIANCE * values.max()
    return np.asarray(vectors[:, some] / np.sqrt(values[some]))


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
