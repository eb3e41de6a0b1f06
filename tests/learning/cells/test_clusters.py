import inspect

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from labeldp import Classes, Curator, NoisyArgmax
from labeldp.errors import EpsilonError, InputError
from labeldp.learning import cells as cells_package
from labeldp.learning.cells import cluster, embed, suggested_count, suggested_eigenvectors

METHODS = ("kmeans", "minibatch", "graph")


def groups(rows, seed=0):
    """Three groups of rows that are far apart, and the group of each."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, rows)
    return 10.0 * np.eye(3, 4)[group] + rng.normal(size=(rows, 4)), group


def same_groups(one, two):
    """True if two numberings put the same rows together."""
    return len(set(zip(one.tolist(), two.tolist(), strict=True))) == len(set(one.tolist())) == len(set(two.tolist()))


@pytest.mark.parametrize("method", METHODS)
def test_groups_that_are_far_apart_are_found(method):
    """Every method puts rows of well separated groups together, numbers them from 0, and new rows with them."""
    features, group = groups(300)
    clusters = cluster(features, 3, method)
    assert same_groups(clusters.numbers, group)
    assert sorted(set(clusters.numbers.tolist())) == [0, 1, 2]
    assert (clusters.count, clusters.method, clusters.numbers.dtype) == (3, method, np.int64)
    assert not clusters.numbers.flags.writeable
    fresh, where = groups(100, seed=1)
    names = np.array([clusters.numbers[group == number][0] for number in range(3)])
    np.testing.assert_array_equal(clusters.predict(fresh), names[where])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_features_give_the_same_clusters(method):
    """A second run on the same features gives the same numbers and predictions, whatever threads are allowed."""
    features = load_digits().data[:600]
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            np.random.seed(threads)  # noqa: NPY002 (the state of all of NumPy must not matter)
            clusters = cluster(features, 12, method)
            found.append((clusters.numbers.tobytes(), clusters.predict(features).tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("method", METHODS)
def test_clusters_know_no_labels(method):
    """No public function takes labels, but one that takes released ones, and cells are the same for any labels."""
    for name in set(cells_package.__all__) - {"held_out_cells"}:
        parameters = set(inspect.signature(getattr(cells_package, name)).parameters)
        assert not parameters & {"y", "labels", "target", "targets", "release", "codes"}
    features, group = groups(90)
    numbers = cluster(features, 3, method).numbers
    space = Classes(range(3))
    for labels in (group, (group + 1) % 3):
        answer = Curator(labels, space).answer(NoisyArgmax(space, 50.0, cluster(features, 3, method).numbers))
        assert np.array(answer.points())[numbers].tolist() == labels.tolist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("forms", [(np.float64, np.float32), (np.float32, np.float64), (np.int64, np.uint8)])
def test_features_come_in_any_precision(method, forms):
    """New rows may be given in another type of numbers than the first ones."""
    features = (10 * groups(100)[0]).round().clip(0, 200)
    clusters = cluster(features.astype(forms[0]), 3, method)
    np.testing.assert_array_equal(clusters.predict(features.astype(forms[1])), clusters.numbers)


def test_kmeans_is_scikit_learns():
    """The nearest centre is that of scikit-learn's k-means with the same fixed start; training rows keep theirs."""
    features = load_digits().data[:500]
    clusters = cluster(features, 10, "kmeans", restarts=2)
    theirs = KMeans(10, n_init=2, random_state=0).fit(features)
    assert same_groups(clusters.numbers, theirs.labels_)
    np.testing.assert_array_equal(clusters.predict(features), clusters.numbers)


def test_many_rows_go_by_batches(monkeypatch):
    """The method is k-means for few rows and by batches for many."""
    assert cluster(groups(60)[0], 3).method == "kmeans"
    monkeypatch.setattr("labeldp.learning.cells._clusters._FEW_ROWS", 50)
    assert cluster(groups(60)[0], 3).method == "minibatch"


def rings(rows):
    """Points on two circles, one inside the other: a graph in two parts."""
    angle = np.linspace(0.0, 2 * np.pi, rows, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([circle, 3 * circle])


def test_a_graph_follows_curved_groups():
    """Two rings, which no line separates, are two clusters of the graph of neighbours, for new points too."""
    numbers = embed(rings(80), neighbours=4, eigenvectors=2).cluster(2)
    inside = np.repeat([True, False], 80)
    assert same_groups(numbers.numbers, inside)
    assert same_groups(numbers.predict(1.01 * rings(30)), np.repeat([True, False], 30))
    assert not same_groups(cluster(rings(80), 2, "kmeans").numbers, inside)


@pytest.mark.parametrize("apart", [0.0, 50.0], ids=["one part", "two parts"])
def test_places_are_the_leading_eigenvectors(apart):
    """Places span the space that dense linear algebra finds for the largest eigenvalues, in rows of length one."""
    features = np.random.default_rng(0).normal(size=(120, 3)) + apart * (np.arange(120)[:, None] < 70)
    near = np.linalg.norm(features[:, None] - features[None], axis=2).argsort(axis=1, kind="stable")[:, 1:7]
    graph = np.zeros((len(features), len(features)))
    graph[np.arange(len(features))[:, None], near] = 1.0
    graph = np.maximum(graph, graph.T)
    root = np.sqrt(graph.sum(axis=1))
    values, vectors = np.linalg.eigh(graph / root[:, None] / root)
    embedding = embed(features, neighbours=6, eigenvectors=3)
    assert values[-3] > values[-4] + 1e-3
    assert (values[-2] > 1.0 - 1e-12) == (apart > 0.0)
    leading = vectors[:, -3:] / np.linalg.norm(vectors[:, -3:], axis=1, keepdims=True)
    np.testing.assert_allclose(embedding.places @ embedding.places.T, leading @ leading.T, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(embedding.places, axis=1), 1.0)


def test_more_parts_than_eigenvectors():
    """If the graph has more components than eigenvectors are requested, the largest components get one each."""
    rng = np.random.default_rng(0)
    sizes = np.array([10, 40, 30, 20])
    group = np.repeat(np.arange(4), sizes)
    places = embed(100.0 * np.eye(4)[group] + rng.normal(size=(100, 4)), neighbours=3, eigenvectors=2).places
    assert same_groups(places.argmax(axis=1)[group != 0][:70], group[group != 0][:70])
    np.testing.assert_array_equal(places[group == 0], 0.0)


def test_new_rows_are_placed_among_their_neighbours():
    """The place of a new row is the mean of its nearest rows' places, of length one; neighbours come nearest first."""
    features = np.random.default_rng(0).normal(size=(200, 4))
    embedding = embed(features, neighbours=5, eigenvectors=3)
    fresh = np.random.default_rng(1).normal(size=(20, 4))
    near = embedding.neighbours(fresh)
    distance = np.linalg.norm(fresh[:, None] - features[None], axis=2)
    np.testing.assert_array_equal(near, distance.argsort(axis=1)[:, :5])
    mean = embedding.places[near].mean(axis=1)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    np.testing.assert_allclose(embedding.transform(fresh), expected)
    np.testing.assert_array_equal(embedding.neighbours(features)[:, 0], np.arange(200))


@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_leave_clusters_empty(method):
    """Fewer different rows than clusters are allowed: equal rows stay together, and the count stays as asked."""
    features = np.repeat(10.0 * np.eye(3), 10, axis=0)
    clusters = cluster(features, 5, "kmeans" if method == "graph" else method)
    assert clusters.count == 5
    assert len(set(clusters.numbers.tolist())) == 3


def test_suggested_counts_grow_with_epsilon():
    """The suggested count grows with epsilon and rows, between the classes and the square root of the rows."""
    found = [suggested_count(10_000, 5, epsilon) for epsilon in (0.001, 0.01, 0.05, 0.1, 1.0, 100.0)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (5, 100)
    assert suggested_count(40_000, 5, 0.01) > suggested_count(10_000, 5, 0.01)
    assert suggested_count(3, 5, 1.0) == 3


def test_suggested_counts_can_be_named():
    """Of clusters of the mean size whose first class leads by half, at most one in twenty gets a wrong name.

    Of 4000 names about 11 are wrong by the least bound; more than 5 % of them would be seen by chance with a
    probability far below 1e-9.
    """
    rows, classes, epsilon = 30_000, 4, 0.05
    size = rows // suggested_count(rows, classes, epsilon)
    labels = np.repeat(np.arange(4), [size - 3 * (size // 8), size // 8, size // 8, size // 8])
    space, copies = Classes(range(classes)), 4000
    query = NoisyArgmax(space, epsilon, np.repeat(np.arange(copies), size))
    wrong = np.mean(Curator(np.tile(labels, copies), space).answer(query).value != 0)
    assert wrong <= 0.05


def test_suggested_eigenvectors_grow_with_epsilon():
    """Their number grows with epsilon, delta and rows, from the classes to 100, and is below the number of rows."""
    found = [suggested_eigenvectors(60_000, 10, epsilon, 1e-6) for epsilon in (0.001, 0.01, 0.02, 0.05, 9.0)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (10, 100)
    assert suggested_eigenvectors(60_000, 10, 0.01, 1e-5) > suggested_eigenvectors(60_000, 10, 0.01, 1e-6)
    assert suggested_eigenvectors(90_000, 10, 0.01, 1e-6) > suggested_eigenvectors(60_000, 10, 0.01, 1e-6)
    assert suggested_eigenvectors(5, 10, 1.0, 1e-6) == 4


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: cluster(np.eye(3), 4), r"at most one cluster for each of the 3 rows, found 4; ask for fewer"),
        (lambda: cluster(np.eye(3), 0), r"expected count between 1 and"),
        (lambda: cluster(np.eye(3), 2.0), r"expected count to be a whole number, found float"),
        (lambda: cluster(np.eye(3), 2, "ward"), r"a method among auto, kmeans, minibatch, graph, found 'ward'"),
        (lambda: cluster([[1.0], [np.nan]], 1), r"expected finite features, found NaN or infinity; impute"),
        (lambda: cluster(np.arange(3.0), 1), r"features as a matrix of numbers, found float64 of shape \(3,\)"),
        (lambda: cluster([["a"], ["b"]], 1), r"expected features as a matrix of numbers, found <U1 of shape"),
        (lambda: cluster(np.eye(3), 2).predict(np.eye(2)), r"expected the 3 features .*, found 2"),
        (lambda: cluster(np.eye(9), 2, "graph"), r"expected neighbours between 1 and 8, found 15"),
        (lambda: embed(np.eye(9), neighbours=4), r"expected eigenvectors between 1 and 8, found 30"),
        (lambda: embed(np.eye(2), neighbours=1, eigenvectors=1), r"at least 3 rows for a graph of neighbours, found 2"),
        (lambda: embed(np.eye(9), neighbours=3, eigenvectors=2).transform(np.eye(4)), r"expected the 9 features"),
        (lambda: embed(np.eye(99), components=0), r"expected components between 1 and"),
        (lambda: suggested_count(100, 1, 1.0), r"expected classes between 2 and"),
    ],
)
def test_what_cannot_be_clustered_is_refused(ask, message):
    """More clusters than rows, features that are no finite table, and unknown methods are refused."""
    with pytest.raises(InputError, match=message):
        ask()


def test_an_epsilon_that_is_none_suggests_nothing():
    """A suggestion asks for an epsilon above 0."""
    with pytest.raises(EpsilonError, match="expected epsilon to be a finite number above 0"):
        suggested_count(100, 2, 0.0)
    with pytest.raises(EpsilonError, match="expected an epsilon and a delta above 0 that Gaussian noise can meet"):
        suggested_eigenvectors(100, 2, 1.0, 0.0)
