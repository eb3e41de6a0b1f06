"""Cells of rows that differ in their shares of classes, found by trees on other rows' released labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from labeldp import _checks
from labeldp._arrays import freeze_arrays
from labeldp._shapes import Float, Int
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.release import Release, check_same_rows

#: Rows in the smallest leaf: fewer bound no share.
_FEWEST = 50
#: Most rows that a tree is fitted on.
_FITTED = 100_000
#: Leaves of each tree: one for so many effective rows, between these numbers.
_EFFECTIVE_ROWS, _LEAST, _MOST = 800.0, 4, 64


@dataclass(frozen=True, eq=False)
class HeldOutCells:
    """Cells of rows, each found without the released labels of the rows in it.

    Attributes:
        numbers: The cell of each row, from 0.
        count: Number of cells that were possible before any label was seen.
    """

    numbers: Int[np.ndarray, "n"]
    count: int

    def __post_init__(self) -> None:
        freeze_arrays(self, numbers=np.int64)


def held_out_cells(features: Any, release: Release, *, leaves: int | None = None) -> HeldOutCells:
    """Partition rows into cells whose released labels differ, each half of the rows by a tree of the other half.

    The rows are cut into two halves at random. A regression tree of unbiased indicators of the second class, from the
    released labels of one half, gives the cells of the other: no row's cell depends on the released labels of the rows
    in it. So counts of released labels in cells are sums of independent indicators, as
    ``labeldp.audit.bound_exposure`` needs.

    Args:
        features: Public features as numbers, shape (n, d); NaN where one is missing.
        release: Labels of these rows, of two classes.
        leaves: Largest number of leaves of each tree. More show finer differences, by fewer rows each. None: one for
            each 800 effective rows, between 4 and 64; a row counts as the square of the difference of the probabilities
            that it is released as the second class, if that is the true one and if not.

    Guarantee:
        It is computed from released labels, whose guarantee covers it at no further cost.

    Raises:
        InputError: Features are not numbers in as many rows as there are labels; there are not two classes.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Release
        >>> numbers = np.linspace(0.0, 1.0, 2000)[:, None]
        >>> release = Release.public(np.where(numbers[:, 0] > 0.5, "yes", "no"), Classes(["no", "yes"]))
        >>> cells = held_out_cells(numbers, release, leaves=2)
        >>> cells.count, np.unique(cells.numbers).tolist()
        (4, [0, 1, 2, 3])
    """
    points = floats(features, "features")
    if points.ndim != 2 or len(points) != len(release) or np.isinf(points).any():
        raise InputError(
            f"expected features as a matrix of numbers with {len(release)} rows, found shape {points.shape}, or "
            "infinite numbers; encode categories as numbers"
        )
    check_same_rows(features, release)
    channel = release.class_channel
    if channel.classes != 2:
        raise InputError(f"expected labels of two classes, found {channel.classes}; compare one class with all others")
    targets = channel.unbiased(release.codes)[:, 1]
    true, other = channel.holding(np.ones(len(release), dtype=np.int32))
    weights = np.broadcast_to((np.asarray(true) - np.asarray(other)) ** 2, len(points)).astype(np.float64)
    suggested = int(np.clip(weights.sum() // _EFFECTIVE_ROWS, _LEAST, _MOST))
    most = suggested if leaves is None else _checks.whole(leaves, "leaves", 2)
    halves = np.array_split(np.random.default_rng().permutation(len(points)), 2)
    cells = np.empty(len(points), dtype=np.int64)
    for side, (rows, others) in enumerate((halves, halves[::-1])):
        fitted = others[:_FITTED]
        leaves_of_rows = _leaves(points[fitted], targets[fitted], weights[fitted], points[rows], most)
        cells[rows] = side * most + leaves_of_rows
    return HeldOutCells(cells, 2 * most)


def _leaves(
    points: Float[np.ndarray, "m d"],
    targets: Float[np.ndarray, "m"],
    weights: Float[np.ndarray, "m"],
    others: Float[np.ndarray, "l d"],
    most: int,
) -> Int[np.ndarray, "l"]:
    """The leaf of each of the others, from 0, in a tree of rows and targets."""
    tree = DecisionTreeRegressor(max_leaf_nodes=most, min_samples_leaf=_FEWEST, random_state=0)
    tree.fit(points, targets, sample_weight=weights)
    return np.asarray(np.searchsorted(np.flatnonzero(tree.tree_.children_left < 0), tree.apply(others)))
