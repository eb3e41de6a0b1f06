"""Cells of public features: boxes of a grid and leaves of a tree, for what is asked of a curator cell by cell."""

import math
import pickle

import numpy as np
import pytest

from labeldp import Classes, Curator, NoisyHistogram
from labeldp.errors import EpsilonError, InputError
from labeldp.learning.cells import class_cells, grid_cells, mean_cells, tree_cells
from labeldp.learning.sklearn import CellClassifier


def features_of(kind, rows=500, seed=0):
    """Features with and without ties."""
    rng = np.random.default_rng(seed)
    return {
        "smooth": lambda: rng.normal(size=(rows, 3)) * [1.0, 100.0, 0.01],
        "single": lambda: rng.normal(size=(rows, 2)).astype(np.float32),
        "ties": lambda: rng.integers(0, 4, (rows, 5)),
        "constant": lambda: np.ones((rows, 2)),
        "one column": lambda: np.minimum(rng.exponential(size=(rows, 1)), 1.0),
    }[kind]()


def naive_tree(points, rows, count, scale):
    """The cells of a tree, by sorting all rows of each box."""
    if count == 1:
        return [sorted(rows)]
    column = int(np.argmax(points[rows].std(axis=0) * scale))
    ordered = sorted(rows, key=lambda row: (points[row, column], *points[row], row))
    fewer, rest = divmod(len(rows), count)
    cut = count // 2 * fewer + min(count // 2, rest)
    halves = sorted(ordered[:cut]), sorted(ordered[cut:])
    return naive_tree(points, halves[0], count // 2, scale) + naive_tree(points, halves[1], count - count // 2, scale)


@pytest.mark.parametrize("kind", ["smooth", "single", "ties", "constant", "one column"])
@pytest.mark.parametrize("count", [1, 2, 7, 64, 500])
def test_a_tree_cuts_at_medians_and_finds_its_rows_again(kind, count):
    """All cells have as many rows up to one, as sorting gives them; new rows go where rows like them are."""
    features = features_of(kind)
    cells = tree_cells(features, count)
    sizes = np.bincount(cells.numbers, minlength=count)
    assert (cells.count, len(sizes)) == (count, count)
    assert sizes.max() - sizes.min() <= 1
    points = features.astype(np.float64)
    spread = points.std(axis=0)
    scale = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0)
    naive = naive_tree(points, list(range(500)), count, scale)
    assert [np.flatnonzero(cells.numbers == cell).tolist() for cell in range(count)] == naive
    _, group = np.unique(points, axis=0, return_inverse=True)
    first = np.full(group.max() + 1, count)
    np.minimum.at(first, group.ravel(), cells.numbers)
    np.testing.assert_array_equal(cells.predict(features), first[group.ravel()])


def test_many_rows_are_judged_by_some():
    """Beyond a thousand rows the column of a cut is that of a sample at even distances, and cells stay equal."""
    rng = np.random.default_rng(1)
    features = np.stack([rng.normal(size=20_000), np.where(rng.random(20_000) < 0.5, -1.0, 1.0)], axis=1)
    cells = tree_cells(features, 33)
    assert set(np.bincount(cells.numbers)) == {606, 607}
    np.testing.assert_array_equal(cells.predict(features[:2000]), cells.numbers[:2000])


@pytest.mark.parametrize("kind", ["smooth", "single", "one column"])
def test_a_grid_has_equal_widths(kind):
    """Rows are in the boxes of a histogram of as many dimensions."""
    features = features_of(kind)
    bins = [5, 3, 2][: features.shape[1]]
    cells = grid_cells(features, bins)
    counts = np.histogramdd(features.astype(np.float64), bins)[0]
    np.testing.assert_array_equal(np.bincount(cells.numbers, minlength=cells.count), counts.ravel())
    np.testing.assert_array_equal(cells.predict(features), cells.numbers)


def test_a_declared_range_decides_and_has_ends():
    """Widths follow the declared range, rows beyond it are at its ends, and a column of one value has one box."""
    cells = grid_cells([[0.2, 5.0], [0.7, 5.0], [0.61, 5.0]], (3, 1), low=0.0, high=(0.9, 9.0))
    assert cells.numbers.tolist() == [0, 2, 2]
    assert cells.predict([[-4.0, 0.0], [0.31, 0.0], [1e300, 0.0]]).tolist() == [0, 1, 2]
    assert grid_cells(np.ones((4, 2)), 2).numbers.tolist() == [0] * 4


@pytest.mark.parametrize("find", [lambda x: tree_cells(x, 9), lambda x: grid_cells(x, 2)], ids=["tree", "grid"])
def test_cells_are_kept_and_used_wherever_clusters_are(find):
    """By queries and by tables, after a trip through pickle too; nobody changes them by accident."""
    features = features_of("smooth")
    cells = pickle.loads(pickle.dumps(find(features)))  # noqa: S301 (made here)
    np.testing.assert_array_equal(cells.numbers, find(features).numbers)
    space, labels = Classes(["no", "yes"]), np.where(features[:, 0] > 0, "yes", "no")
    answer = Curator(labels, space).answer(NoisyHistogram(space, 50.0, cells, cells.count))
    assert np.mean(CellClassifier(cells).fit(features, answer).predict(features) == labels) > 0.75
    assert "500 rows" in repr(cells)
    with pytest.raises(ValueError, match="read-only"):
        find(features).numbers[0] = 1


def test_the_number_of_cells_makes_the_error_least():
    """No other number of cells has a smaller expected error, beyond rounding; more epsilon pays for more cells."""
    for epsilon, dimension in ((0.01, 1), (0.1, 2), (1.0, 3.5)):

        def error(cells, epsilon=epsilon, dimension=dimension):
            held = 1e5 / cells
            return (held / 1e5) ** (2 / dimension) / 12 + 0.25**2 / held + 2 / (held * epsilon) ** 2

        found = mean_cells(100_000, epsilon, dimension)
        assert error(found) <= 1.001 * min(error(cells) for cells in range(1, 3000))
    assert (
        mean_cells(100_000, 0.1, 2, slope=3.0) > mean_cells(100_000, 0.1, 2) > mean_cells(100_000, 0.1, 2, spread=1.0)
    )
    assert mean_cells(1, 0.01, 2) == 1


def test_cells_of_classes_are_as_large_as_noise_and_chance_ask_for():
    """Ten classes, a lead of a half and one mistake in a hundred: 272 rows at epsilon 0.1, 222 for chance alone."""
    assert class_cells(272 * 1000, 10, 0.1) in (999, 1000)
    assert 60_000 // class_cells(60_000, 10, 100.0) == 221
    assert class_cells(10, 2, 0.01) == 1


BAD = {
    "no columns": (lambda: tree_cells(np.arange(4.0), 2), "a matrix of numbers"),
    "missing": (lambda: tree_cells([[math.nan], [1.0]], 2), "found NaN or infinity"),
    "more cells than rows": (lambda: tree_cells(np.eye(3), 4), "each of the 3 rows, found 4"),
    "no cells": (lambda: tree_cells(np.eye(3), 0), "cells between 1"),
    "a large grid": (lambda: grid_cells(np.ones((9, 30)), 2), r"1\.07374e\+09 cells in 30 .* use tree_cells"),
    "an empty grid": (lambda: grid_cells(np.eye(5), 2), "one for each of the 5 rows, found a grid of 32"),
    "bins of other columns": (lambda: grid_cells(np.eye(9), [2, 2]), "each of 9 columns, found 2"),
    "an empty range": (lambda: grid_cells(np.ones((9, 1)), 2, low=3.0), "low below high"),
    "a range of other columns": (lambda: grid_cells(np.ones((9, 1)), 2, low=[0, 0]), "low as one finite"),
    "an infinite range": (lambda: grid_cells(np.ones((9, 1)), 2, high=math.inf), "high as one finite"),
    "other features": (lambda: tree_cells(np.eye(3), 2).predict(np.eye(2)), "the 3 features that the cells"),
    "no dimension": (lambda: mean_cells(10, 1.0, 0.0), "dimension to be a finite number above 0"),
    "a dimension of NaN": (lambda: mean_cells(10, 1.0, math.nan), "dimension to be a number", EpsilonError),
    "no lead": (lambda: class_cells(10, 2, 1.0, lead=-1.0), "lead to be a finite number above 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_what_makes_no_cells_is_refused(case):
    """By what was expected and found, and what to use instead."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()
