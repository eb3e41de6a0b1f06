import itertools

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from labeldp import Classes, Curator, Release, SubsetResponse
from labeldp.errors import InputError, LabelDPError, RowsError
from labeldp.learning.cells import ClusterTree, cluster_tree, embed
from labeldp.learning.cells._tree import ward
from labeldp.learning.sklearn import TreeClassifier
from labeldp.learning.sklearn._tree import _class_distributions, _mixtures

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
