"""Cells of rows by their public features: boxes of a grid, or of a tree that gives each as many rows.

A curator answers cell by cell (``NoisyMean``, ``NoisyQuantile``, ``NoisyHistogram``, ``NoisyArgmax``), and what it
says of a cell is what a table of cells predicts (``CellRegressor``, ``CellClassifier``). Features are public, so cells
cost nothing. Nothing here takes a label, and nothing is random: the same features give the same cells.
``labeldp.learning.cells`` finds groups that are no boxes, for features in many dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from labeldp import _checks
from labeldp._smoothing import averaged_rows, cell_bias, clip_level
from labeldp.errors import InputError
from labeldp.learning.features import finite_points

#: A grid has at most so many cells.
_MOST_CELLS = 1 << 20
#: The spread of a cell's columns is judged from at most about so many of its rows.
_JUDGED_ROWS = 1024
_INSTEAD = "use tree_cells, whose cells all have as many rows, or clusters of labeldp.learning.cells"
#: What ``class_cells`` takes for granted: how far the first class of a cell leads, and how often it may lose.
_LEAD, _MISTAKEN = 0.5, 0.01


@dataclass(frozen=True, eq=False)
class GridCells:
    """Boxes of equal widths.

    Attributes:
        numbers: The cell of each row, from 0; what queries take as ``cells``.
        bins: How many parts each column is cut into.
        low: Where the first part of each column begins.
        high: Where the last one ends.
    """

    numbers: Int[np.ndarray, "n"]
    bins: tuple[int, ...]
    low: Float[np.ndarray, "d"]
    high: Float[np.ndarray, "d"]

    def __post_init__(self) -> None:
        _keep(self, numbers=np.int64, low=np.float64, high=np.float64)

    @property
    def count(self) -> int:
        """The number of cells, those without rows included; what queries take as ``cell_count``."""
        return math.prod(self.bins)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The cells of new rows; what lies beyond the range is in the cell at its end.

        Args:
            features: Features like those that the cells were found in, shape (m, d).
        """
        return _boxes(finite_points(features, len(self.bins), "cells"), self.bins, self.low, self.high)

    def __repr__(self) -> str:
        return f"<{self.count} cells of {len(self.numbers)} rows in a grid>"


@dataclass(frozen=True, eq=False)
class TreeCells:
    """Boxes that all have as many rows, up to one: the leaves of a k-d tree.

    A row is left of a cut if it comes before it, or at it, in the order of the cut's column; rows that are equal there
    are in the order of all columns, from the first one on.

    Attributes:
        numbers: The cell of each row, from 0; what queries take as ``cells``.
        count: The number of cells; what queries take as ``cell_count``.
        columns: The column of each cut.
        cuts: The last row to the left of each cut, shape (count - 1, d).
        children: What is to the left and to the right of each cut: another cut, or of cell c the number -1 - c.
    """

    numbers: Int[np.ndarray, "n"]
    count: int
    columns: Int[np.ndarray, "cuts"]
    cuts: Float[np.ndarray, "cuts d"]
    children: Int[np.ndarray, "cuts 2"]

    def __post_init__(self) -> None:
        _keep(self, numbers=np.int64, columns=np.int64, cuts=np.float64, children=np.int64)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The cells of new rows.

        Where rows that the cells were found in are the same in every feature, a cut may lie between them; a new row of
        these features is in the first cell that they are in.

        Args:
            features: Features like those that the cells were found in, shape (m, d).
        """
        points = finite_points(features, self.cuts.shape[1], "cells").astype(np.float64, copy=False)
        place = np.full(len(points), -1 if self.count == 1 else 0, dtype=np.int64)
        moving = np.flatnonzero(place >= 0)
        while moving.size:
            at = place[moving]
            columns, found = self.columns[at], points[moving]
            mine, theirs = found[np.arange(len(at)), columns], self.cuts[at, columns]
            right = mine > theirs
            tied = np.flatnonzero(mine == theirs)
            right[tied] = _after(found[tied], self.cuts[at[tied]])
            place[moving] = self.children[at, right.astype(np.int64)]
            moving = moving[place[moving] >= 0]
        return -1 - place

    def __repr__(self) -> str:
        return f"<{self.count} cells of {len(self.numbers)} rows in a tree>"


def grid_cells(features: Any, bins: int | Sequence[int], *, low: object = None, high: object = None) -> GridCells:
    """Put rows into boxes of equal widths.

    Args:
        features: Public features, shape (n, d), dense and finite.
        bins: How many parts each column is cut into: one number for all, or one for each; 1 leaves a column out.
        low: Where the first part of each column begins: a number, or one for each column; by default the least that is
            found in the features. Rows beyond are in the first part.
        high: Where the last one ends; by default the largest.

    Guarantee:
        Which row is in which cell is a function of public features and these arguments, and no label goes into it:
        that of ``labeldp.learning.cells.cluster``. The range of public features is public.

    References:
        Zhao et al. 2025, the bins of equations (13), (17) and (23).

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import grid_cells
        >>> cells = grid_cells(np.array([[0.0, 0.0], [1.0, 0.2], [0.9, 1.0], [0.1, 0.9]]), bins=2)
        >>> cells.numbers.tolist(), cells.count, cells.predict([[7.0, -7.0]]).tolist()
        ([0, 2, 3, 1], 4, [2])

    Raises:
        InputError: Features that are no finite numbers in rows and columns, a range that is empty, more cells than
            about a million, or more cells than rows: in many dimensions nearly all cells of a grid are empty.
    """
    points = finite_points(features)
    rows, width = points.shape
    given = [bins] * width if isinstance(bins, int | np.integer) else list(bins)
    if len(given) != width:
        raise InputError(f"expected bins as one whole number, or one for each of {width} columns, found {len(given)}")
    parts = tuple(_checks.whole(each, "bins", 1, _MOST_CELLS) for each in given)
    count = math.prod(parts)
    if count > min(rows, _MOST_CELLS):
        raise InputError(
            f"expected at most {_MOST_CELLS} cells and one for each of the {rows} rows, found a grid of {count:.6g} "
            f"cells in {width} columns, most of them without rows; ask for fewer bins, leave columns out with 1, or "
            f"{_INSTEAD}"
        )
    start = _ends(low, points.min(axis=0), "low")
    stop = _ends(high, points.max(axis=0), "high")
    if (start > stop).any() or not np.isfinite(stop - start).all():
        raise InputError("expected low below high in every column, found a column where it is not")
    return GridCells(_boxes(points, parts, start, stop), parts, start, stop)


def tree_cells(features: Any, cells: int) -> TreeCells:
    """Put rows into boxes that all have as many of them, up to one.

    All rows are cut in two at the median of the column in which they spread the most, in units of its spread over all
    rows, and so on. Where the number of cells is odd, a cut leaves one more to the right, and rows in proportion. The
    spread is judged from about a thousand rows at even distances; rows that are equal in a column go by the other
    columns, and rows that are equal in all of them by their order.

    Args:
        features: Public features, shape (n, d), dense and finite. Columns may have different units.
        cells: The number of cells, at most one for each row, fixed without a look at labels; ``mean_cells`` and
            ``class_cells`` have one.

    Guarantee:
        Which row is in which cell is a function of public features, of their order and of the number of cells, and no
        label goes into it: that of ``labeldp.learning.cells.cluster``.

    References:
        Bentley 1975; Friedman, Bentley and Finkel 1977, for cutting where the spread is largest.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import tree_cells
        >>> cells = tree_cells(np.arange(10.0)[:, None], cells=4)
        >>> np.bincount(cells.numbers).tolist(), cells.predict([[-1.0], [99.0]]).tolist()
        ([3, 3, 2, 2], [0, 3])

    Raises:
        InputError: Features that are no finite numbers in rows and columns, or more cells than rows.
    """
    points = finite_points(features).astype(np.float64, copy=False)
    count = _checks.whole(cells, "cells", 1, 1 << 31)
    if count > len(points):
        raise InputError(f"expected at most one cell for each of the {len(points)} rows, found {count}; ask for fewer")
    numbers = np.empty(len(points), dtype=np.int64)
    columns, lasts = np.empty(count - 1, dtype=np.int64), np.empty(count - 1, dtype=np.int64)
    children = np.empty((count - 1, 2), dtype=np.int64)
    scale = _scale(points)
    waiting, first, cuts = [(np.arange(len(points)), count, -1, 0)], 0, 0
    while waiting:
        rows, share, parent, side = waiting.pop()
        if share == 1:
            numbers[rows], node = first, -1 - first
            first += 1
        else:
            node, cuts = cuts, cuts + 1
            columns[node] = column = _widest(points, rows, scale)
            fewer, rest = divmod(len(rows), share)
            half = share // 2
            left, right = _halves(points, rows, column, half * fewer + min(half, rest))
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
    """How many cells a curator's means are best asked of, from public numbers alone.

    A mean of m rows errs by the function's change within its cell, by labels that differ and by noise. In units of the
    range of labels, and for rows that are spread evenly over a cube of side 1, the mean squared error is about
    ``slope^2 / 12 (m / rows)^(2 / dimension) + spread^2 / m + 2 / (m epsilon)^2``. This is the number of cells that
    makes it least.

    Args:
        rows: The number of rows.
        epsilon: The epsilon of the request for the means.
        dimension: The dimension of the features, best the effective one; it need not be whole.
        spread: The standard deviation of labels around their mean given the features, as a share of their range.
        slope: By how much of its range the mean changes from one side of the features to the other.

    Guarantee:
        Computed from what is public before any label is seen. To try several numbers of cells and to keep the best is
        to look at labels, unless it is charged for.

    References:
        Zhao et al. 2025, theorem 8; with noise of scale (hi - lo) / (m epsilon), which its sensitivity asks for.

    Example:
        >>> from labeldp.learning.cells import mean_cells
        >>> [mean_cells(100_000, epsilon, dimension=2) for epsilon in (0.01, 0.1, 1.0)]
        [27, 122, 331]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    dimension, spread, slope = (
        _positive(value, name) for name, value in (("dimension", dimension), ("spread", spread), ("slope", slope))
    )
    noise = 2.0 / _checks.epsilon(epsilon) ** 2
    held = averaged_rows(rows, rows, dimension, cell_bias(dimension, lipschitz=slope), spread**2, noise)
    return max(1, min(rows, int(rows / held)))


def class_cells(rows: int, classes: int, epsilon: float, *, lead: float = _LEAD) -> int:
    """How many cells a curator can give the right class, from public numbers alone.

    In a cell of m rows whose first class leads each other by ``lead m``, the exponential mechanism and permute-and-flip
    take another with probability at most (classes - 1) exp(-epsilon lead m / 2). Rows that were drawn with such a lead
    show less than half of it with probability at most classes exp(-lead^2 m / 8). Here both are one in a hundred.

    Args:
        rows: The number of rows.
        classes: The number of declared classes, at least 2.
        epsilon: The epsilon of the request for the classes.
        lead: By how much of a cell's rows its first class leads each other.

    Guarantee:
        That of ``mean_cells``.

    References:
        Zhao et al. 2025, theorem 4; McKenna and Sheldon 2020, for permute-and-flip.

    Example:
        >>> from labeldp.learning.cells import class_cells
        >>> [class_cells(60_000, 10, epsilon) for epsilon in (0.01, 0.1, 1.0)]
        [22, 220, 271]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    classes = _checks.whole(classes, "classes", 2, 1 << 31)
    lead = _positive(lead, "lead")
    by_noise = 2.0 * math.log((classes - 1) / _MISTAKEN) / (_checks.epsilon(epsilon) * lead)
    by_rows = 8.0 * math.log(classes / _MISTAKEN) / lead**2
    return max(1, min(rows, int(rows / max(by_noise, by_rows))))


def clip_for(rows_per_cell: float, epsilon: float, p: float, moment: float) -> float:
    """What to clip labels to, from below and from above, before their means are asked for, if a moment is known.

    Clipping to [-T, T] moves a mean by at most ``c M T^(1-p)``, with ``c = (p-1)^(p-1) / p^p``, and its noise has
    variance ``8 T^2 / (n epsilon)^2``. This T makes the sum of the square of the one and the other least. Put -T and T
    on the grid, as ``clip`` of ``NoisyMean``; ``labeldp.learning.sklearn.mean_in_cells`` finds two such ends where no
    moment is known.

    Args:
        rows_per_cell: n, the number of rows of a cell.
        epsilon: The epsilon of the request for the means.
        p: Which moment, at least 2.
        moment: M, the largest that E|Y|^p can be, whatever the features.

    Guarantee:
        That of ``mean_cells``: the moment must be publicly known.

    References:
        Zhao et al. 2025, theorem 12: T ~ (epsilon n)^(1/p).

    Example:
        >>> from labeldp.learning.cells import clip_for
        >>> [round(clip_for(1000, epsilon, p=3, moment=1.0), 2) for epsilon in (0.1, 1.0)]
        [1.95, 4.2]

    Raises:
        InputError: A moment below the second, whose bias no clipping level bounds well enough, or other bad numbers.
    """
    rows, moment, power = (
        _positive(value, name) for name, value in (("rows_per_cell", rows_per_cell), ("moment", moment), ("p", p))
    )
    if power < 2.0:
        raise InputError(f"expected the moment p to be at least 2, found {power!r}; labels without one need a range")
    return clip_level(power, moment, 8.0 / (rows * _checks.epsilon(epsilon)) ** 2)


def _keep(cells: Any, **kinds: Any) -> None:
    """Copy arrays of cells, so that nobody changes them."""
    for name, kind in kinds.items():
        array = np.array(getattr(cells, name), dtype=kind)
        array.flags.writeable = False
        object.__setattr__(cells, name, array)


def _positive(value: object, name: str) -> float:
    """A finite number above zero."""
    found = _checks.number(value, name)
    if not 0.0 < found < math.inf:
        raise InputError(f"expected {name} to be a finite number above 0, found {found!r}")
    return found


def _ends(given: object, found: np.ndarray, name: str) -> Float[np.ndarray, "d"]:
    """An end of each column, as declared or as found."""
    if given is None:
        return np.asarray(found, dtype=np.float64)
    ends = np.asarray(given, dtype=np.float64)
    if ends.shape not in ((), found.shape) or not np.isfinite(ends).all():
        raise InputError(f"expected {name} as one finite number, or one for each of {len(found)} columns, found others")
    return np.array(np.broadcast_to(ends, found.shape))


def _boxes(
    points: np.ndarray, bins: tuple[int, ...], low: Float[np.ndarray, "d"], high: Float[np.ndarray, "d"]
) -> Int[np.ndarray, "n"]:
    """The box of each row, column by column."""
    numbers = np.zeros(len(points), dtype=np.int64)
    for column, parts in enumerate(bins):
        width = high[column] - low[column]
        scaled = (points[:, column].astype(np.float64) - low[column]) * (parts / width if width > 0 else 0.0)
        numbers = numbers * parts + np.clip(np.floor(scaled), 0, parts - 1).astype(np.int64)
    return numbers


def _scale(points: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d"]:
    """One over the standard deviation of each column; 0 where it is the same everywhere."""
    spread = _judged(points, np.arange(len(points))).std(axis=0)
    return np.asarray(np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0))


def _judged(points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"]) -> Float[np.ndarray, "few d"]:
    """Some of the rows, at even distances."""
    return np.asarray(points[rows[:: max(1, len(rows) // _JUDGED_ROWS)]])


def _widest(points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"], scale: Float[np.ndarray, "d"]) -> int:
    """The column in which rows spread the most beside all rows, the first of several."""
    return int(np.argmax(_judged(points, rows).std(axis=0) * scale))


def _halves(
    points: Float[np.ndarray, "n d"], rows: Int[np.ndarray, "m"], column: int, count: int
) -> tuple[tuple[Int[np.ndarray, "left"], int], Int[np.ndarray, "right"]]:
    """So many rows that come first in the order of a cut, with the last of them, and the other rows."""
    values = points[rows, column]
    middle = np.partition(values, count - 1)[count - 1]
    is_left = values < middle
    tied = np.flatnonzero(values == middle)
    order = np.lexsort(points[rows[tied]].T[::-1]) if len(tied) > 1 else np.zeros(1, dtype=np.int64)
    chosen = tied[order[: count - np.count_nonzero(is_left)]]
    is_left[chosen] = True
    return (rows[is_left], int(rows[chosen[-1]])), rows[~is_left]


def _after(points: Float[np.ndarray, "m d"], others: Float[np.ndarray, "m d"]) -> Bool[np.ndarray, "m"]:
    """Whether each row comes after another one, by the first column in which they differ."""
    differs = points != others
    first = np.argmax(differs, axis=1)
    rows = np.arange(len(points))
    return np.asarray(points[rows, first] > others[rows, first])
