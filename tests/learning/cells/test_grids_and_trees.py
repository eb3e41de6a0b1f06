"""Cells of public features: boxes of a grid and leaves of a tree, for what is asked of a curator cell by cell."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from labeldp import Classes, Curator, NoisyHistogram, Release, SubsetResponse
from labeldp.errors import EpsilonError, InputError, LabelDPError, RowsError
from labeldp.learning.cells import ClusterTree, class_cells, cluster_tree, embed, grid_cells, mean_cells, tree_cells
from labeldp.learning.cells._tree import ward
from labeldp.learning.sklearn import CellClassifier, TreeClassifier
from labeldp.learning.sklearn._tree import _class_distributions, _mixtures


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


SPACE = Classes(range(3))


def groups(rows, seed=0):
    """Three groups of rows that are far apart, and the group of each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    return 10.0 * np.eye(3, 4)[group] + rng.normal(size=(rows, 4)), group


def members(merges):
    """The leaves below each node."""
    below = [{leaf} for leaf in range(len(merges) + 1)]
    for one, other in merges:
        below.append(below[one] | below[other])
    return below


def test_ward_merges_as_scipy_does():
    """From single points on, the merges are those of SciPy's linkage by Ward, an independent implementation."""
    points = np.random.default_rng(0).normal(size=(40, 3))
    theirs = linkage(points, "ward")[:, :2].astype(int)
    ours = ward(points, np.ones(40, dtype=np.int64))
    assert list(map(frozenset, members(ours))) == list(map(frozenset, members(theirs)))


@pytest.mark.parametrize(
    ("places", "rows", "pairs"),
    [
        ([0.0, 1.0, 10.0, 11.0], [50, 50, 1, 1], [[2, 3], [0, 1]]),
        (
            [0.0, 0.1, 1.05, 10.0, 11.67],
            [1, 1, 100, 1, 1],
            [[0, 1], [3, 4]],
        ),  # a pair is nearer to many rows than another
    ],
)
def test_ward_counts_rows(places, rows, pairs):
    """Of two pairs, that of fewer rows is merged first, though it may be further apart; also after a merge."""
    merges = ward(np.array(places)[:, None], np.array(rows))
    assert [set(pair) for pair in merges[:2].tolist()] == [set(pair) for pair in pairs]


@pytest.mark.parametrize("graph", [False, True])
def test_groups_are_parts_of_the_tree(graph):
    """Groups that are far apart are nodes of the tree, and new rows come to leaves of their group."""
    features, group = groups(300)
    tree = (
        embed(features, neighbours=6, eigenvectors=5).tree(30, eigenvectors=3) if graph else cluster_tree(features, 30)
    )
    below = [frozenset(leaves) for leaves in members(tree.merges)]
    assert tree.count == 30
    assert below[-1] == frozenset(range(30))
    for number in range(3):
        assert frozenset(tree.leaves[group == number].tolist()) <= min(
            (part for part in below if part >= set(tree.leaves[group == number].tolist())), key=len
        )
        assert not set(tree.leaves[group == number].tolist()) & set(tree.leaves[group != number].tolist())
    fresh, where = groups(60, seed=1)
    for leaf, number in zip(tree.predict(fresh).tolist(), where.tolist(), strict=True):
        assert leaf in set(tree.leaves[group == number].tolist())


def test_leading_eigenvectors_come_first_in_order():
    """The order of an embedding begins with the eigenvectors that fewer would have been."""
    features = np.random.default_rng(0).normal(size=(120, 3))
    few, many = (embed(features, neighbours=8, eigenvectors=count) for count in (3, 8))
    leading = many.places[:, many.order[:3]]
    leading = leading / np.linalg.norm(leading, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(leading), np.abs(few.places[:, few.order]), atol=1e-3)


def naive(sums, merges, mixtures, before):
    """Distributions and evidence by a sum over all prunings, written out."""
    count, below = len(sums), members(merges)
    made = {count + i: tuple(pair) for i, pair in enumerate(merges.tolist())}

    def prunings(node):
        """Pairs of a list of nodes and its probability beforehand."""
        if node not in made:
            return [([node], 1.0)]
        one, other = made[node]
        split = itertools.product(prunings(one), prunings(other))
        return [([node], 0.5)] + [(a + b, 0.5 * p * q) for (a, p), (b, q) in split]

    total, told = 0.0, np.zeros((count, mixtures.shape[1]))
    for nodes, chance in prunings(2 * count - 2):
        joint = [before * np.exp(sums[sorted(below[node])].sum(axis=0)) for node in nodes]
        weight = chance * np.prod([part.sum() for part in joint])
        total += weight
        for node, part in zip(nodes, joint, strict=True):
            told[sorted(below[node])] += weight * (part @ mixtures) / part.sum()
    return told / total, np.log(total)


def test_all_prunings_are_weighed():
    """The recursion gives what a sum over every pruning gives, for a tree of six leaves."""
    rng = np.random.default_rng(0)
    merges = np.array([[0, 1], [6, 2], [3, 4], [8, 5], [7, 9]])
    mixtures, before = _mixtures(3)
    sums = rng.normal(size=(6, len(before)))
    averages, evidence = _class_distributions(sums, merges, mixtures, before)
    expected, total = naive(sums, merges, mixtures, before)
    np.testing.assert_allclose(averages, expected, rtol=1e-10)
    assert evidence == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("classes", [2, 3, 10, 17, 100])
def test_mixtures_are_distributions(classes):
    """The distributions that clusters may have have full support and sum to one, and so do their weights."""
    mixtures, before = _mixtures(classes)
    assert mixtures.shape == (len(before), classes)
    assert mixtures.min() > 0.0
    np.testing.assert_allclose(mixtures.sum(axis=1), 1.0)
    assert before.sum() == pytest.approx(1.0)


def test_weights_count_rows():
    """A row of weight two is two rows."""
    leaves, labels = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 2, 1])
    tree = ClusterTree(leaves, np.array([[0, 1]]), None)
    release = Curator(labels, SPACE).randomize(SubsetResponse(SPACE, 1.0))
    rows = np.array([0, 1, 1, 2, 3, 4, 4])
    weighted = TreeClassifier([tree]).fit(leaves, release, [1.0, 2.0, 1.0, 1.0, 2.0])
    repeated = TreeClassifier([tree]).fit(leaves[rows], release[rows])
    np.testing.assert_allclose(weighted.distributions_[0], repeated.distributions_[0])


@pytest.mark.parametrize(
    ("trees", "leaves", "expected"),
    [
        ([], [0, 1], "expected a list of ClusterTree"),
        (["oak"], [0, 1], "expected a list of ClusterTree"),
        (None, [0.5, 1.0], "expected the leaf of each row"),
        (None, [[0, 1], [1, 0]], "expected the leaf of each row"),
        (None, [0, 7], "expected leaf"),
        (None, [0, -1], "expected leaf"),
        (None, [0, 1, 1], "expected a released label for each of 3 rows of features, found 2"),
    ],
)
def test_wrong_leaves_are_refused(trees, leaves, expected):
    """Leaves that are none of the trees', and releases of other rows, are refused."""
    tree = ClusterTree(np.array([0, 1]), np.array([[0, 1]]), None)
    with pytest.raises(LabelDPError, match=expected) as caught:
        TreeClassifier([tree] if trees is None else trees).fit(np.array(leaves), Release.public([0, 1], SPACE))
    assert isinstance(caught.value, InputError | RowsError)


def test_too_many_leaves_are_refused():
    """A tree has at most one leaf for each row, and places at most as many eigenvectors as there are."""
    with pytest.raises(InputError, match="at most one cluster"):
        cluster_tree(groups(10)[0], 11)
    with pytest.raises(InputError, match="eigenvectors"):
        embed(groups(30)[0], neighbours=4, eigenvectors=3).tree(5, eigenvectors=4)
