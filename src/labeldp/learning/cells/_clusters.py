"""Clusters of rows by their public features, for what is asked of a curator cell by cell.

Features are public, so finding groups in them costs nothing; labels are needed to name the groups alone. Nothing here
takes a label as an argument, and nothing here is random: every start is made by a fixed, public generator, on one
thread, so that the same features give the same clusters, bit for bit, in every run on one machine. Other machines and
other versions of the libraries may round in another way; keep the numbers where they must last.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.cells._tree import ClusterTree, ward
from labeldp.learning.features import finite_points

Method = Literal["auto", "kmeans", "minibatch", "graph"]

#: Up to so many rows k-means goes over all of them at each step.
_FEW_ROWS = 20_000
_ROWS_PER_BLOCK = 2_000

_EIGENVECTORS = 30
_LEAVES = 1000

#: What ``suggested_count`` takes for granted: how far the first class of a cluster leads, and how often it may lose.
_LEAD, _MISTAKEN = 0.5, 0.05


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of rows that were found in public features alone.

    Attributes:
        numbers: The cluster of each row, from 0; what queries take as ``cells``.
        count: How many clusters were asked for; one of them may have no rows. What queries take as ``cell_count``.
        method: How they were found: ``"kmeans"``, ``"minibatch"`` or ``"graph"``.
        finder: What gives new rows their clusters.
    """

    numbers: Int[np.ndarray, "n"]
    count: int
    method: str
    finder: Any

    def __post_init__(self) -> None:
        numbers = np.array(self.numbers, dtype=np.int64)
        numbers.flags.writeable = False
        object.__setattr__(self, "numbers", numbers)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows: that of the nearest centre, or the most common one among neighbours in the graph.

        Args:
            features: Features like those that the clusters were found in, shape (m, d).
        """
        with threadpool_limits(1):
            return np.asarray(self.finder.predict(finite_points(features, self.finder.n_features_in_)))

    def __repr__(self) -> str:
        return f"<{self.count} clusters of {len(self.numbers)} rows by {self.method}>"


@dataclass(frozen=True, eq=False)
class Embedding:
    """Places of rows in the graph that joins each with its nearest neighbours: rows that hang together are close.

    Attributes:
        places: The place of each row, of length one, shape (n, eigenvectors).
        order: The columns of the places from the leading eigenvector on.
        components: The principal components that neighbours are found in.
        search: The neighbours of points in those components.
    """

    places: Float[np.ndarray, "n e"]
    order: Int[np.ndarray, "e"]
    components: Any
    search: Any

    def __post_init__(self) -> None:
        for array in (self.places, self.order):
            array.flags.writeable = False

    def neighbours(self, features: Any) -> Int[np.ndarray, "m neighbours"]:
        """The embedded rows that are nearest to new rows, nearest first.

        Args:
            features: Features like those of the embedded rows, shape (m, d).
        """
        with threadpool_limits(1):
            points = self.components.transform(finite_points(features, self.components.n_features_in_))
            return _nearest(self.search, points, self.search.n_neighbors)

    def transform(self, features: Any) -> Float[np.ndarray, "m e"]:
        """The places of new rows: the mean of their neighbours' places, of length one.

        Args:
            features: Features like those of the embedded rows, shape (m, d).
        """
        return _of_length_one(self.places[self.neighbours(features)].mean(axis=1))

    def cluster(self, count: int, *, restarts: int = 3) -> Clusters:
        """Clusters of the embedded rows by k-means on their places.

        Args:
            count: The number of clusters.
            restarts: How many starts the best is taken of.

        Guarantee:
            That of ``cluster``.
        """
        count = _count(count, len(self.places))
        numbers = _fitted(KMeans(count, n_init=restarts, random_state=0), self.places).labels_
        return Clusters(numbers, count, "graph", _Votes(self, np.asarray(numbers, dtype=np.int64), count))

    def tree(self, leaves: int = _LEAVES, *, eigenvectors: int | None = None) -> ClusterTree:
        """A tree of clusters of the embedded rows by their places.

        Args:
            leaves: How many small clusters it begins with, at most one for each row.
            eigenvectors: How many of the leading eigenvectors places are taken on: few for large clusters, many for
                small ones; None for all.

        Guarantee:
            That of ``cluster``.
        """
        most = self.places.shape[1]
        chosen = self.order[: _checks.whole(most if eigenvectors is None else eigenvectors, "eigenvectors", 1, most)]

        def placed(features: Any) -> np.ndarray:
            return _of_length_one(self.transform(features)[:, chosen])

        return _tree(_of_length_one(self.places[:, chosen]), leaves, placed)

    def __repr__(self) -> str:
        return f"<{len(self.places)} rows on {self.places.shape[1]} eigenvectors of the graph of their neighbours>"


def cluster(features: Any, count: int, method: Method = "auto", *, restarts: int = 3) -> Clusters:
    """Put rows together by their public features.

    Args:
        features: Public features, shape (n, d), dense and finite. Distances are taken as they are, so scale them
            first (``StandardScaler``) where columns have different units.
        count: The number of clusters, fixed without a look at labels; ``suggested_count`` has one.
        method: ``"kmeans"``; ``"minibatch"`` for very many rows; ``"graph"``: k-means on the ``embed``-ded graph of
            neighbours, with an eigenvector for each cluster up to 30, which follows curved groups and is slower; or
            ``"auto"``: k-means, by batches above 20 000 rows.
        restarts: How many starts the best is taken of.

    Guarantee:
        * Which row is in which cluster is a function of public features and these arguments: no label goes into it,
          and nobody's label changes it. Queries declare their cells public, and this is how to keep that true.
        * It holds where ``count`` and the features hold no label either: columns that were selected, scaled or
          encoded with the help of labels carry them.

    References:
        Lloyd 1982; Arthur and Vassilvitskii 2007; Sculley 2010 (batches); Ng, Jordan and Weiss 2001 (graph).

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, NoisyArgmax
        >>> from labeldp.learning.cells import cluster
        >>> space, features = Classes(["no", "yes"]), np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> clusters = cluster(features, 2)
        >>> query = NoisyArgmax(space, epsilon=0.5, cells=clusters.numbers, cell_count=clusters.count)
        >>> names = Curator(["no"] * 500 + ["yes"] * 500, space).answer(query).points()
        >>> [names[number] for number in clusters.predict([[0.1], [0.9]])]
        ['no', 'yes']

    Raises:
        InputError: Features that are no finite numbers in rows and columns, more clusters than rows, or no such method.
    """
    if method not in get_args(Method):
        raise InputError(f"expected a method among {', '.join(get_args(Method))}, found {method!r}")
    points = finite_points(features)
    count = _count(count, len(points))
    if method == "graph":
        return embed(points, eigenvectors=min(count, _EIGENVECTORS)).cluster(count, restarts=restarts)
    if method == "auto":
        method = "kmeans" if len(points) <= _FEW_ROWS else "minibatch"
    kind = KMeans if method == "kmeans" else MiniBatchKMeans
    finder = _fitted(kind(count, n_init=restarts, random_state=0), points)
    return Clusters(finder.labels_, count, method, _Centres(finder))


def embed(
    features: Any, *, components: int | None = 50, neighbours: int = 15, eigenvectors: int = _EIGENVECTORS
) -> Embedding:
    """Place rows by the leading eigenvectors of the normalised graph that joins each with its nearest neighbours.

    Neighbours are joined either way round, all edges alike. The places are features of length one, made for
    ``LabelMoments``, too. Finding neighbours takes time that grows with the square of the number of rows.

    Args:
        features: Public features, shape (n, d), dense and finite.
        components: Principal components that distances are taken in, at most as many as there are rows or columns are
            used; None for distances in the features as they are.
        neighbours: Neighbours of each row, fewer than there are rows.
        eigenvectors: Eigenvectors, fewer than there are rows.

    Guarantee:
        That of ``cluster``.

    References:
        Shi and Malik 2000; Ng, Jordan and Weiss 2001.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import embed
        >>> angle = np.linspace(0.0, 6.0, 100)
        >>> rings = np.concatenate([np.stack([np.cos(angle), np.sin(angle)], axis=1) * size for size in (1.0, 3.0)])
        >>> embedding = embed(rings, neighbours=4, eigenvectors=2)
        >>> numbers = embedding.cluster(2).numbers  # the rings, of which none is on one side of a line
        >>> len(set(numbers[:100].tolist())), len(set(numbers[100:].tolist()))
        (1, 1)

    Raises:
        InputError: Features that are no finite numbers in rows and columns, or too few rows.
    """
    points = finite_points(features)
    rows = len(points)
    neighbours = _checks.whole(neighbours, "neighbours", 1, max(1, rows - 1))
    eigenvectors = _checks.whole(eigenvectors, "eigenvectors", 1, max(1, rows - 1))
    if rows < 3:
        raise InputError(f"expected at least 3 rows to join by a graph, found {rows}")
    with threadpool_limits(1):
        model = _components(points, components)
        points = model.transform(points)
        search = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(points)
        return Embedding(*_eigenvectors(_nearest(search, points, neighbours + 1), eigenvectors), model, search)


def cluster_tree(features: Any, leaves: int = _LEAVES) -> ClusterTree:
    """Put rows into small clusters by their public features, and these together step by step.

    Small clusters are pure, large ones have many labels: ``TreeClassifier`` weighs one against the other, cluster by
    cluster. ``Embedding.tree`` makes such a tree in the graph of neighbours.

    Args:
        features: Public features, shape (n, d), dense and finite; scale them first.
        leaves: How many small clusters it begins with, at most one for each row.

    Guarantee:
        That of ``cluster``.

    References:
        Ward 1963, from the centres of k-means on.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import cluster_tree
        >>> tree = cluster_tree(np.array([[0.0], [1.0], [10.0], [11.0]]), leaves=4)
        >>> sorted(sorted(pair) for pair in tree.merges[:2].tolist()) == sorted(
        ...     sorted(tree.leaves[pair].tolist()) for pair in ([0, 1], [2, 3])
        ... )
        True

    Raises:
        InputError: Features that are no finite numbers in rows and columns, or more leaves than rows.
    """
    points = finite_points(features)
    return _tree(points, leaves, lambda new: finite_points(new, points.shape[1]))


def suggested_count(rows: int, classes: int, epsilon: float) -> int:
    """How many clusters a curator can name at an epsilon, from public numbers alone.

    A cluster of m rows, whose first class leads each other by m / 2, gets a wrong name from ``NoisyArgmax`` with
    probability at most ``(classes - 1) exp(-epsilon m / 4)``. Here this is one in twenty for a cluster of the mean
    size. There are never more clusters than the square root of the rows, which are pure enough and quickly found, nor
    fewer than classes. Labels with much noise in themselves ask for fewer.

    Args:
        rows: The number of rows.
        classes: The number of declared classes, at least 2.
        epsilon: The epsilon of the request that names the clusters.

    Guarantee:
        Computed from what is public before any label is seen. To try several counts and to keep the one whose
        clusters come out best is to look at labels, unless it is charged for.

    Example:
        >>> from labeldp.learning.cells import suggested_count
        >>> [suggested_count(60_000, 10, epsilon) for epsilon in (0.01, 0.05, 0.5)]
        [28, 144, 244]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    classes = _checks.whole(classes, "classes", 2, 1 << 31)
    least = 2.0 * math.log((classes - 1) / _MISTAKEN) / (_LEAD * _checks.epsilon(epsilon))
    return min(rows, max(classes, min(int(rows / least), math.isqrt(rows))))


@dataclass(frozen=True, eq=False)
class _Centres:
    """The nearest centre of k-means, which wants new rows in the precision of the first ones."""

    model: Any

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return int(self.model.n_features_in_)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows."""
        points = np.asarray(features, dtype=self.model.cluster_centers_.dtype)
        return np.asarray(self.model.predict(points), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Votes:
    """The most common cluster among a row's neighbours; of several, the one with the lowest number."""

    embedding: Embedding
    numbers: Int[np.ndarray, "n"]
    count: int

    @property
    def n_features_in_(self) -> int:
        """The number of features."""
        return int(self.embedding.components.n_features_in_)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows."""
        near = self.numbers[self.embedding.neighbours(features)]
        most = np.zeros(len(near), dtype=np.int64)
        for first in range(0, len(near), _ROWS_PER_BLOCK):
            block = near[first : first + _ROWS_PER_BLOCK]
            votes = np.zeros((len(block), self.count), dtype=np.int64)
            np.add.at(votes, (np.arange(len(block))[:, None], block), 1)
            most[first : first + len(block)] = votes.argmax(axis=1)
        return most


def _tree(points: np.ndarray, leaves: int, placed: Callable[[Any], np.ndarray]) -> ClusterTree:
    """A tree of clusters of points; new rows are placed among them, and have the nearest leaf."""
    count = _count(leaves, len(points))
    kind = KMeans if len(points) <= _FEW_ROWS else MiniBatchKMeans
    finder = _fitted(kind(count, n_init=1, random_state=0), points)
    merges = ward(finder.cluster_centers_, np.bincount(finder.labels_, minlength=count))

    def found(features: Any) -> np.ndarray:
        with threadpool_limits(1):
            return _Centres(finder).predict(placed(features))

    return ClusterTree(finder.labels_, merges, found)


def _fitted(model: Any, points: np.ndarray) -> Any:
    """A fitted k-means on one thread, whose sums are then added in one order."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal rows leave clusters empty, which is allowed
        return model.fit(points)


def _components(points: np.ndarray, count: int | None) -> Any:
    """What takes features to the space that distances are taken in."""
    if count is None:
        return FunctionTransformer().fit(points)
    most = min(_checks.whole(count, "components", 1, 1 << 20), *points.shape)
    return PCA(most, svd_solver="covariance_eigh").fit(points)


def _nearest(search: NearestNeighbors, points: np.ndarray, count: int) -> Int[np.ndarray, "m count"]:
    """The nearest rows to each point, nearest first, block by block."""
    blocks = (points[first : first + _ROWS_PER_BLOCK] for first in range(0, len(points), _ROWS_PER_BLOCK))
    return np.concatenate([search.kneighbors(block, count, return_distance=False) for block in blocks])


def _eigenvectors(
    near: Int[np.ndarray, "n count"], count: int
) -> tuple[Float[np.ndarray, "n e"], Int[np.ndarray, "e"]]:
    """Leading eigenvectors of the normalised graph of neighbours, rows of length one, and which of them come first."""
    rows = len(near)
    starts = np.arange(0, near.size + 1, near.shape[1])
    graph = csr_matrix((np.ones(near.size), near.ravel(), starts), shape=(rows, rows))
    graph = graph.maximum(graph.T)
    graph.setdiag(0.0)
    root = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    scale = diags(1.0 / root)
    graph = scale @ graph @ scale
    parts, part = connected_components(graph, directed=False)
    if parts == 1:
        return _of_length_one(_leading(graph, count)), np.arange(count)[::-1].copy()
    # Each part has an eigenvector of its own to the eigenvalue one, and an iteration from one start finds but one of
    # them: they are written down, the largest parts first, and taken off.
    order = np.argsort(-np.bincount(part), kind="stable")[:count]
    known = np.where(part[:, None] == order, root[:, None], 0.0)
    known /= np.linalg.norm(known, axis=0)
    if len(order) == count:
        return _of_length_one(known), np.arange(count)
    rest = LinearOperator((rows, rows), lambda vector: graph @ vector - known @ (known.T @ vector), dtype=np.float64)
    first = np.concatenate([np.arange(parts), np.arange(parts, count)[::-1]])
    return _of_length_one(np.hstack([known, _leading(rest, count - len(order))])), first


def _leading(operator: Any, count: int) -> Float[np.ndarray, "n e"]:
    """Eigenvectors to the largest eigenvalues of a symmetric operator, the same in each run."""
    begin = np.random.default_rng(0).random(operator.shape[0])
    again = {"rng": np.random.default_rng(0)} if "rng" in inspect.signature(eigsh).parameters else {}
    return np.asarray(eigsh(operator, count, which="LA", v0=begin, tol=1e-6, **again)[1])


def _of_length_one(vectors: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
    """Rows scaled to length one."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, np.finfo(np.float64).tiny))


def _count(count: object, rows: int) -> int:
    """A number of clusters, at most one for each row."""
    found = _checks.whole(count, "count", 1, 1 << 31)
    if found > rows:
        raise InputError(f"expected at most one cluster for each of the {rows} rows, found {found}; ask for fewer")
    return found
