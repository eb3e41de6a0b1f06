"""Cells of rows by their public features: boxes of a grid, or of a k-d tree with equally many rows in each.

A curator answers cell by cell (``NoisyMean``, ``NoisyQuantile``, ``NoisyHistogram``, ``NoisyArgmax``), and its answer
for a cell is the prediction of ``CellRegressor`` or ``CellClassifier`` there. Features are public, so cells cost
nothing. No function here takes a label, and none is random: the same features give the same cells. For features in
many dimensions use ``cluster``, whose groups are not boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Bool, Float, Int
from labeldp._smoothing import averaged_rows, cell_bias, clip_level
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.features import finite_points

#: Most cells of a grid.
_MOST_CELLS = 1 << 20
#: About the most rows of a cell that its standard deviations are computed from.
_SAMPLED_ROWS = 1024
_ALTERNATIVE = "use tree_cells, whose cells have equally many rows, or cluster"
#: Assumptions of ``class_cells``: the lead of a cell's first class, and the probability of a wrong class.
_LEAD, _FAILURE_PROBABILITY = 0.5, 0.01


@dataclass(frozen=True, eq=False)
class GridCells:
    """Boxes of equal widths.

    Attributes:
        numbers: The cell of each row, from 0; the ``cells`` of queries.
        bins: Number of bins of each column.
        low: Lower end of the first bin of each column.
        high: Upper end of the last bin.
    """

    numbers: Int[np.ndarray, "n"]
    bins: tuple[int, ...]
    low: Float[np.ndarray, "d"]
    high: Float[np.ndarray, "d"]

    def __post_init__(self) -> None:
        freeze_arrays(self, numbers=np.int64, low=np.float64, high=np.float64)

    @property
    def count(self) -> int:
        """Number of cells, including those without rows; the ``cell_count`` of queries."""
        return math.prod(self.bins)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The cells of new rows; values beyond the range are in the cell at its end.

        Args:
            features: Features like those that the cells were made from, shape (m, d).
        """
        return _box_numbers(finite_points(features, len(self.bins), "cells"), self.bins, self.low, self.high)

    def __repr__(self) -> str:
        return f"<{self.count} cells of {len(self.numbers)} rows in a grid>"


@dataclass(frozen=True, eq=False)
class TreeCells:
    """Boxes whose numbers of rows differ by at most one: the leaves of a k-d tree.

    A row is left of a cut if it comes before it, or at it, in the order of the cut's column; rows that tie there are
    in the order of all columns, from the first one on.

    Attributes:
        numbers: The cell of each row, from 0; the ``cells`` of queries.
        count: Number of cells; the ``cell_count`` of queries.
        columns: Column of each cut.
        cuts: Last row to the left of each cut, shape (count - 1, d).
        children: Left and right child of each cut: the number of another cut, or -1 - c for cell c.
    """

    numbers: Int[np.ndarray, "n"]
    count: int
    columns: Int[np.ndarray, "cuts"]
    cuts: Float[np.ndarray, "cuts d"]
    children: Int[np.ndarray, "cuts 2"]

    def __post_init__(self) -> None:
        freeze_arrays(self, numbers=np.int64, columns=np.int64, cuts=np.float64, children=np.int64)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The cells of new rows.

        A cut may lie between rows with identical features; a new row with these features is in the first of their
        cells.

        Args:
            features: Features like those that the cells were made from, shape (m, d).
        """
        points = finite_points(features, self.cuts.shape[1], "cells").astype(np.float64, copy=False)
        place = np.full(len(points), -1 if self.count == 1 else 0, dtype=np.int64)
        moving = np.flatnonzero(place >= 0)
        while moving.size:
            at = place[moving]
            columns, rows = self.columns[at], points[moving]
            values, cuts = rows[np.arange(len(at)), columns], self.cuts[at, columns]
            right = values > cuts
            tied = np.flatnonzero(values == cuts)
            right[tied] = _comes_after(rows[tied], self.cuts[at[tied]])
            place[moving] = self.children[at, right.astype(np.int64)]
            moving = moving[place[moving] >= 0]
        return -1 - place

    def __repr__(self) -> str:
        return f"<{self.count} cells of {len(self.numbers)} rows in a tree>"


def grid_cells(features: Any, bins: int | Sequence[int], *, low: object = None, high: object = None) -> GridCells:
    """Put rows into boxes of equal widths.

    Args:
        features: Public features, shape (n, d), dense and finite.
        bins: Number of bins of each column: one number for all, or one for each; 1 leaves a column out.
        low: Lower end of the first bin: a number, or one for each column; by default the column's minimum. Values
            below are in the first bin.
        high: Upper end of the last bin; by default the column's maximum.

    Guarantee:
        The cell of each row is a function of public features and these arguments alone, without any label, as for
        ``cluster``. The range of public features is public.

    References:
        Zhao et al. 2025, the bins of equations (13), (17) and (23).

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import grid_cells
        >>> cells = grid_cells(np.array([[0.0, 0.0], [1.0, 0.2], [0.9, 1.0], [0.1, 0.9]]), bins=2)
        >>> cells.numbers.tolist(), cells.count, cells.predict([[7.0, -7.0]]).tolist()
        ([0, 2, 3, 1], 4, [2])

    Raises:
        InputError: Features that are not a matrix of finite numbers, an empty range, more cells than about a million,
            or more cells than rows: in many dimensions nearly all cells of a grid are empty.
    """
    points = finite_points(features)
    rows, width = points.shape
    per_column = [bins] * width if isinstance(bins, int | np.integer) else list(bins)
    if len(per_column) != width:
        raise InputError(
            f"expected bins as one whole number, or one for each of {width} columns, found {len(per_column)}"
        )
    parts = tuple(_checks.whole(each, "bins", 1, _MOST_CELLS) for each in per_column)
    count = math.prod(parts)
    if count > min(rows, _MOST_CELLS):
        raise InputError(
            f"expected at most {_MOST_CELLS} cells and one for each of the {rows} rows, found a grid of {count:.6g} "
            f"cells in {width} columns, most of them without rows; ask for fewer bins, leave columns out with 1, or "
            f"{_ALTERNATIVE}"
        )
    start = _column_ends(low, points.min(axis=0), "low")
    stop = _column_ends(high, points.max(axis=0), "high")
    if (start > stop).any() or not np.isfinite(stop - start).all():
        raise InputError("expected low below high in every column, found a column where it is not")
    return GridCells(_box_numbers(points, parts, start, stop), parts, start, stop)


def tree_cells(features: Any, cells: int) -> TreeCells:
    """Put rows into boxes whose numbers of rows differ by at most one.

    Rows are split recursively at the median of the column with the largest standard deviation relative to that over
    all rows. If the number of cells is odd, the right side gets one more, and rows in proportion. Standard deviations
    are computed from about a thousand equally spaced rows; ties in a column are broken by the other columns, and ties
    in all of them by the order of the rows.

    Args:
        features: Public features, shape (n, d), dense and finite. Columns may have different units.
        cells: Number of cells, at most one for each row, chosen without looking at labels; ``mean_cells`` and
            ``class_cells`` suggest one.

    Guarantee:
        The cell of each row is a function of public features, of their order and of the number of cells alone, without
        any label, as for ``cluster``.

    References:
        Bentley 1975; Friedman, Bentley and Finkel 1977, for splitting the column of the largest spread.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import tree_cells
        >>> cells = tree_cells(np.arange(10.0)[:, None], cells=4)
        >>> np.bincount(cells.numbers).tolist(), cells.predict([[-1.0], [99.0]]).tolist()
        ([3, 3, 2, 2], [0, 3])

    Raises:
        InputError: Features that are not a matrix of finite numbers, or more cells than rows.
    """
    points = finite_points(features).astype(np.float64, copy=False)
    count = _checks.whole(cells, "cells", 1, 1 << 31)
    if count > len(points):
        raise InputError(f"expected at most one cell for each of the {len(points)} rows, found {count}; ask for fewer")
    numbers = np.empty(len(points), dtype=np.int64)
    columns, lasts = np.empty(count - 1, dtype=np.int64), np.empty(count - 1, dtype=np.int64)
    children = np.empty((count - 1, 2), dtype=np.int64)
    scale = _inverse_deviations(points)
    waiting, first, cuts = [(np.arange(len(points)), count, -1, 0)], 0, 0
    while waiting:
        rows, share, parent, side = waiting.pop()
        if share == 1:
            numbers[rows], node = first, -1 - first
            first += 1
        else:
            node, cuts = cuts, cuts + 1
            columns[node] = column = _widest_column(points, rows, scale)
            fewer, rest = divmod(len(rows), share)
            half = share // 2
            left, right = _split_rows(points, rows, column, half * fewer + min(half, rest))
            lasts[node] = left[1]
            waiting += [(right, share - half, node, 1), (left[0], half, node, 0)]
        if parent >= 0:
            children[parent, side] = node
    return TreeCells(numbers, count, columns, points[lasts], children)


def mean_cells(
    rows: int,
    epsilon: float,
    dimension: float,
    *,
    spread: float = 0.25,
    slope: float = 1.0,
) -> int:
    """Suggested number of cells for a curator's means, from public numbers alone.

    The error of a mean of m rows has three parts: the change of the function within its cell, the variance of labels,
    and noise. In units of the range of labels, and for rows uniform over a cube of side 1, the mean squared error is
    about ``slope^2 / 12 (m / rows)^(2 / dimension) + spread^2 / m + 2 / (m epsilon)^2``. The suggested number of cells
    minimises it.

    Args:
        rows: Number of rows.
        epsilon: Epsilon of the request for the means.
        dimension: Dimension of the features, preferably the effective one; it need not be whole.
        spread: Standard deviation of labels around their mean given the features, as a share of their range.
        slope: Change of the mean from one side of the features to the other, as a share of the range.

    Guarantee:
        Computed from public numbers before any label is seen. Trying several numbers of cells and keeping the best
        looks at labels, and has to be charged for.

    References:
        Zhao et al. 2025, theorem 8, with noise of scale (hi - lo) / (m epsilon), as the sensitivity requires.

    Example:
        >>> from labeldp.learning.cells import mean_cells
        >>> [mean_cells(100_000, epsilon, dimension=2) for epsilon in (0.01, 0.1, 1.0)]
        [27, 122, 331]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    values = {"dimension": dimension, "spread": spread, "slope": slope}
    dimension, spread, slope = (_checks.positive(value, name) for name, value in values.items())
    noise = 2.0 / _checks.epsilon(epsilon) ** 2
    per_cell = averaged_rows(rows, rows, dimension, cell_bias(dimension, lipschitz=slope), spread**2, noise)
    return max(1, min(rows, int(rows / per_cell)))


def class_cells(rows: int, classes: int, epsilon: float, *, lead: float = _LEAD) -> int:
    """Suggested number of cells in which a curator can find the most common class, from public numbers alone.

    In a cell of m rows whose first class leads each other by ``lead m``, the exponential mechanism and permute-and-flip
    return another with probability at most (classes - 1) exp(-epsilon lead m / 2). Rows that were drawn with such a
    lead show less than half of it with probability at most classes exp(-lead^2 m / 8). Here both are one in a hundred.

    Args:
        rows: Number of rows.
        classes: Number of declared classes, at least 2.
        epsilon: Epsilon of the request for the classes.
        lead: Lead of a cell's first class over each other one, as a share of the cell's rows.

    Guarantee:
        As for ``mean_cells``.

    References:
        Zhao et al. 2025, theorem 4; McKenna and Sheldon 2020, for permute-and-flip.

    Example:
        >>> from labeldp.learning.cells import class_cells
        >>> [class_cells(60_000, 10, epsilon) for epsilon in (0.01, 0.1, 1.0)]
        [22, 220, 271]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    classes = _checks.whole(classes, "classes", 2, 1 << 31)
    lead = _checks.positive(lead, "lead")
    for_noise = 2.0 * math.log((classes - 1) / _FAILURE_PROBABILITY) / (_checks.epsilon(epsilon) * lead)
    for_sampling = 8.0 * math.log(classes / _FAILURE_PROBABILITY) / lead**2
    return max(1, min(rows, int(rows / max(for_noise, for_sampling))))


def clip_for(rows_per_cell: float, epsilon: float, p: float, moment: float) -> float:
    """Clipping level T for labels before their means are requested, if a moment of them is known.

    Clipping to [-T, T] moves a mean by at most ``c M T^(1-p)``, with ``c = (p-1)^(p-1) / p^p``, and its noise has
    variance ``8 T^2 / (n epsilon)^2``. This T minimises the squared bias plus the variance. Put -T and T on the grid,
    as ``clip`` of ``NoisyMean``; ``labeldp.learning.sklearn.mean_in_cells`` finds clipping bounds if no moment is
    known.

    Args:
        rows_per_cell: n, the number of rows of a cell.
        epsilon: Epsilon of the request for the means.
        p: Order of the moment, at least 2.
        moment: M, an upper bound on E|Y|^p for any features.

    Guarantee:
        As for ``mean_cells``; the moment must be publicly known.

    References:
        Zhao et al. 2025, theorem 12: T ~ (epsilon n)^(1/p).

    Example:
        >>> from labeldp.learning.cells import clip_for
        >>> [round(clip_for(1000, epsilon, p=3, moment=1.0), 2) for epsilon in (0.1, 1.0)]
        [1.95, 4.2]

    Raises:
        InputError: A moment below the second, for which no clipping level bounds the bias well enough, or an argument
            that is not a finite positive number.
    """
    values = {"rows_per_cell": rows_per_cell, "moment": moment, "p": p}
    rows, moment, power = (_checks.positive(value, name) for name, value in values.items())
    if power < 2.0:
        raise InputError(
            f"expected the order p of the moment to be at least 2, found {power!r}; declare a range instead"
        )
    return clip_level(power, moment, 8.0 / (rows * _checks.epsilon(epsilon)) ** 2)


def _column_ends(declared: object, default: np.ndarray, name: str) -> Float[np.ndarray, "d"]:
    """One end of the range of each column, as declared or by default."""
    if declared is None:
        return np.asarray(default, dtype=np.float64)
    ends = floats(declared, name)
    if ends.shape not in ((), default.shape) or not np.isfinite(ends).all():
        raise InputError(
            f"expected {name} as one finite number, or one for each of {len(default)} columns, found others"
        )
    return np.array(np.broadcast_to(ends, default.shape))


def _box_numbers(
    points: np.ndarray, bins: tuple[int, ...], low: Float[np.ndarray, "d"], high: Float[np.ndarray, "d"]
) -> Int[np.ndarray, "n"]:
    """The number of each row's box."""
    numbers = np.zeros(len(points), dtype=np.int64)
    for column, parts in enumerate(bins):
        width = high[column] - low[column]
        scaled = (points[:, column].astype(np.float64) - low[column]) * (parts / width if width > 0 else 0.0)
        numbers = numbers * parts + np.clip(np.floor(scaled), 0, parts - 1).astype(np.int64)
    return numbers


def _inverse_deviations(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d"]:
    """One over the standard deviation of each column; 0 for constant columns."""
    deviation = _sample_rows(points, np.arange(len(points))).std(axis=0)
    return np.asarray(np.divide(1.0, deviation, out=np.zeros(len(deviation)), where=deviation > 0))


def _sample_rows(points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"]) -> Float[np.ndarray, "few d"]:
    """Equally spaced rows, about a thousand."""
    return np.asarray(points[rows[:: max(1, len(rows) // _SAMPLED_ROWS)]])


def _widest_column(points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"], scale: Float[np.ndarray, "d"]) -> int:
    """The column with the largest scaled standard deviation in some rows, the first of equal ones."""
    return int(np.argmax(_sample_rows(points, rows).std(axis=0) * scale))


def _split_rows(
    points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"], column: int, count: int
) -> tuple[tuple[Int[np.ndarray, "left"], int], Int[np.ndarray, "right"]]:
    """The first ``count`` rows in the order of a cut with the last of them, and the other rows."""
    values = points[rows, column]
    middle = np.partition(values, count - 1)[count - 1]
    is_left = values < middle
    tied = np.flatnonzero(values == middle)
    order = np.lexsort(points[rows[tied]].T[::-1]) if len(tied) > 1 else np.zeros(1, dtype=np.int64)
    chosen = tied[order[: count - np.count_nonzero(is_left)]]
    is_left[chosen] = True
    return (rows[is_left], int(rows[chosen[-1]])), rows[~is_left]


def _comes_after(points: Float[np.ndarray, "m d"], others: Float[np.ndarray, "m d"]) -> Bool[np.ndarray, "m"]:
    """Mask of the rows that come after their counterparts, by the first column in which they differ."""
    differs = points != others
    first = np.argmax(differs, axis=1)
    rows = np.arange(len(points))
    return np.asarray(points[rows, first] > others[rows, first])
