"""Clusters of rows by their public features, for queries that a curator answers cell by cell.

Features are public, so clustering costs nothing; labels are needed only to name the clusters. No function here takes a
label, and none is random: every start comes from a generator with a fixed seed, on one thread, so that the same
features give the same clusters, bit for bit, in every run on one machine. Other machines and library versions may round
differently; save the numbers if they must last.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.sparse import csr_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import ndtri
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._arrays import freeze_arrays, read_only
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.errors import EpsilonError, InputError
from labeldp.learning.cells._kmeans import fit_kmeans, spread_rows
from labeldp.learning.cells._tree import ClusterTree, ward
from labeldp.learning.features import finite_points
from labeldp.privacy.accounting import least_deviation

ClusterMethod = Literal["auto", "kmeans", "minibatch", "graph"]

#: Most rows for which ``"auto"`` is full k-means.
_FEW_ROWS = 20_000
_ROWS_PER_BLOCK = 2_000

_EIGENVECTORS, _MOST_EIGENVECTORS = 30, 100
_LEAVES = 1000

#: Assumptions of ``suggested_count`` and ``suggested_eigenvectors``: the lead of a first class, and the probability
#: that another is taken for it.
_LEAD, _FAILURE_PROBABILITY = 0.5, 0.05
#: Steps of noise in a unit of features, for its standard deviation.
_STEPS = 1 << 20


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of rows by public features alone.

    Attributes:
        numbers: The cluster of each row, from 0; the ``cells`` of queries.
        count: Number of clusters, including those without rows; the ``cell_count`` of queries.
        method: ``"kmeans"``, ``"minibatch"`` or ``"graph"``.
        finder: Model that assigns new rows to clusters.
    """

    numbers: Int[np.ndarray, "n"]
    count: int
    method: str
    finder: Any

    def __post_init__(self) -> None:
        freeze_arrays(self, numbers=np.int64)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows: those of the nearest centres, or the most common ones among graph neighbours.

        Args:
            features: Features like those that the clusters were made from, shape (m, d).
        """
        with threadpool_limits(1):
            return np.asarray(self.finder.predict(finite_points(features, self.finder.n_features_in_)))

    def __repr__(self) -> str:
        return f"<{self.count} clusters of {len(self.numbers)} rows by {self.method}>"


@documented_in("labeldp.learning.cells")
@dataclass(frozen=True, eq=False)
class Embedding:
    """Spectral embedding of the nearest-neighbour graph of rows, in which connected rows are close.

    Attributes:
        places: Unit vector of each row, shape (n, eigenvectors).
        order: Columns of the places from the leading eigenvector on.
        components: Principal components in which neighbours are searched.
        search: Nearest-neighbour search in those components.
    """

    places: Float[np.ndarray, "n e"]
    order: Int[np.ndarray, "e"]
    components: Any
    search: Any

    def __post_init__(self) -> None:
        for array in (self.places, self.order):
            read_only(array)

    def neighbours(self, features: Any) -> Int[np.ndarray, "m neighbours"]:
        """The embedded rows that are nearest to new rows, nearest first.

        Args:
            features: Features like those of the embedded rows, shape (m, d).
        """
        with threadpool_limits(1):
            points = self.components.transform(finite_points(features, self.components.n_features_in_))
            return _nearest(self.search, points, self.search.n_neighbors)

    def transform(self, features: Any) -> Float[np.ndarray, "m e"]:
        """The places of new rows: the mean of their neighbours' places, scaled to length one.

        Args:
            features: Features like those of the embedded rows, shape (m, d).
        """
        return _unit_rows(self.places[self.neighbours(features)].mean(axis=1))

    def cluster(self, count: int, *, restarts: int = 3) -> Clusters:
        """Clusters of the embedded rows by k-means on their places.

        Args:
            count: Number of clusters.
            restarts: Number of starts, of which the best is kept.

        Guarantee:
            As for ``cluster``.
        """
        count = _check_count(count, len(self.places))
        numbers = fit_kmeans(KMeans(count, n_init=restarts, random_state=0), self.places).labels_
        return Clusters(numbers, count, "graph", _Votes(self, np.asarray(numbers, dtype=np.int64), count))

    def tree(self, leaves: int = _LEAVES, *, eigenvectors: int | None = None) -> ClusterTree:
        """A tree of clusters of the embedded rows by their places.

        Args:
            leaves: Number of small clusters to begin with, at most one for each row.
            eigenvectors: Number of leading eigenvectors to use: few for large clusters, many for small ones; None for
                all.

        Guarantee:
            As for ``cluster``.
        """
        most = self.places.shape[1]
        columns = self.order[: _checks.whole(most if eigenvectors is None else eigenvectors, "eigenvectors", 1, most)]
        return _build_tree(_unit_rows(self.places[:, columns]), leaves, self, columns)

    def __repr__(self) -> str:
        return f"<{len(self.places)} rows on {self.places.shape[1]} eigenvectors of the graph of their neighbours>"


def cluster(features: Any, count: int, method: ClusterMethod = "auto", *, restarts: int = 3) -> Clusters:
    """Cluster rows by their public features.

    Args:
        features: Public features, shape (n, d), dense and finite. Distances are Euclidean, so scale columns with
            different units first (``StandardScaler``).
        count: Number of clusters, chosen without looking at labels; ``suggested_count`` suggests one.
        method: ``"kmeans"``; ``"minibatch"`` for very many rows; ``"graph"``: k-means on the ``embed``-ded graph of
            neighbours, with an eigenvector for each cluster up to 30, which follows curved groups and is slower; or
            ``"auto"``: k-means, by mini-batches above 20 000 rows.
        restarts: Number of starts, of which the best is kept.

    Guarantee:
        * The cluster of each row is a function of public features and these arguments alone: no label changes it.
          Queries declare their cells public, and this keeps that declaration true.
        * It holds only if ``count`` and the features do not depend on labels either: columns that were selected,
          scaled or encoded with the help of labels disclose them.

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
        InputError: Features that are not a matrix of finite numbers, more clusters than rows, or an unknown method.
    """
    _checks.among(method, "a method", get_args(ClusterMethod))
    points = finite_points(features)
    count = _check_count(count, len(points))
    if method == "graph":
        return embed(points, eigenvectors=min(count, _EIGENVECTORS)).cluster(count, restarts=restarts)
    if method == "auto":
        method = "kmeans" if len(points) <= _FEW_ROWS else "minibatch"
    kind = KMeans if method == "kmeans" else MiniBatchKMeans
    finder = fit_kmeans(kind(count, n_init=restarts, random_state=0), points)
    return Clusters(finder.labels_, count, method, Centres(finder))


def embed(
    features: Any, *, components: int | None = 50, neighbours: int = 15, eigenvectors: int = _EIGENVECTORS
) -> Embedding:
    """Embed rows by the leading eigenvectors of the normalised graph of their nearest neighbours.

    The graph is undirected and unweighted. The places are vectors of length one, which suit ``LabelMoments`` too. The
    search for neighbours takes time quadratic in the number of rows.

    Args:
        features: Public features, shape (n, d), dense and finite.
        components: Number of principal components for distances, at most the number of rows or columns; None for
            distances between the features themselves.
        neighbours: Number of neighbours of each row, below the number of rows.
        eigenvectors: Number of eigenvectors, below the number of rows.

    Guarantee:
        As for ``cluster``.

    References:
        Shi and Malik 2000; Ng, Jordan and Weiss 2001.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import embed
        >>> angle = np.linspace(0.0, 6.0, 100)
        >>> rings = np.concatenate([np.stack([np.cos(angle), np.sin(angle)], axis=1) * size for size in (1.0, 3.0)])
        >>> embedding = embed(rings, neighbours=4, eigenvectors=2)
        >>> numbers = embedding.cluster(2).numbers  # the rings, which no line separates
        >>> len(set(numbers[:100].tolist())), len(set(numbers[100:].tolist()))
        (1, 1)

    Raises:
        InputError: Features that are not a matrix of finite numbers, or too few rows.
    """
    points = finite_points(features)
    rows = len(points)
    neighbours = _checks.whole(neighbours, "neighbours", 1, max(1, rows - 1))
    eigenvectors = _checks.whole(eigenvectors, "eigenvectors", 1, max(1, rows - 1))
    if rows < 3:
        raise InputError(f"expected at least 3 rows for a graph of neighbours, found {rows}")
    with threadpool_limits(1):
        model = _fit_components(points, components)
        points = model.transform(points)
        search = NearestNeighbors(n_neighbors=neighbours, algorithm="brute").fit(points)
        return Embedding(*_eigenvectors(_nearest(search, points, neighbours + 1), eigenvectors), model, search)


def cluster_tree(features: Any, leaves: int = _LEAVES) -> ClusterTree:
    """Cluster rows hierarchically by their public features, starting from small clusters.

    Small clusters are pure, large ones have many labels; ``TreeClassifier`` decides this trade-off cluster by cluster.
    ``Embedding.tree`` builds such a tree in the graph of neighbours.

    Args:
        features: Public features, shape (n, d), dense and finite; scale them first.
        leaves: Number of small clusters to begin with, at most one for each row.

    Guarantee:
        As for ``cluster``.

    References:
        Ward 1963, applied to the centres of k-means.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.cells import cluster_tree
        >>> tree = cluster_tree(np.array([[0.0], [1.0], [10.0], [11.0]]), leaves=4)
        >>> sorted(sorted(pair) for pair in tree.merges[:2].tolist()) == sorted(
        ...     sorted(tree.leaves[pair].tolist()) for pair in ([0, 1], [2, 3])
        ... )
        True

    Raises:
        InputError: Features that are not a matrix of finite numbers, or more leaves than rows.
    """
    return _build_tree(finite_points(features), leaves)


def suggested_count(rows: int, classes: int, epsilon: float) -> int:
    """Suggested number of clusters for a curator to name at an epsilon, from public numbers alone.

    A cluster of m rows whose first class leads each other by m / 2 gets a wrong name from ``NoisyArgmax`` with
    probability at most ``(classes - 1) exp(-epsilon m / 4)``, here one in twenty for a cluster of the mean size. The
    number is at most the square root of the rows, for which clusters are pure enough and quickly computed, and at least
    the number of classes. Labels that are noisy themselves need fewer clusters.

    Args:
        rows: Number of rows.
        classes: Number of declared classes, at least 2.
        epsilon: Epsilon of the request that names the clusters.

    Guarantee:
        Computed from public numbers before any label is seen. Trying several counts and keeping the one with the best
        clusters looks at labels, and has to be charged for.

    Example:
        >>> from labeldp.learning.cells import suggested_count
        >>> [suggested_count(60_000, 10, epsilon) for epsilon in (0.01, 0.05, 0.5)]
        [28, 144, 244]
    """
    rows = _checks.whole(rows, "rows", 1, 1 << 53)
    classes = _checks.whole(classes, "classes", 2, 1 << 31)
    least = 2.0 * math.log((classes - 1) / _FAILURE_PROBABILITY) / (_LEAD * _checks.epsilon(epsilon))
    return min(rows, max(classes, min(int(rows / least), math.isqrt(rows))))


def suggested_eigenvectors(rows: int, classes: int, epsilon: float, delta: float) -> int:
    """Suggested number of eigenvectors of ``embed`` for ``LabelMoments``, from public numbers alone.

    Each direction that the features have adds to the noise of a head. If features have length one and as much in each
    of m directions, the scores of two classes differ by noise of standard deviation ``sqrt(2) sigma m / rows``, with
    sigma that of the moments. A row whose first class leads each other by a half, of one-hot labels, then gets a
    wrong class with probability at most one in twenty for the suggested m. It is at least the number of classes, and
    at most 100: time grows with its square.

    Args:
        rows: Number of rows.
        classes: Number of declared classes, at least 2.
        epsilon: Epsilon of the request for the moments.
        delta: Its delta.

    Guarantee:
        Computed from public numbers before any label is seen, as ``suggested_count``.

    Example:
        >>> from labeldp.learning.cells import suggested_eigenvectors
        >>> [suggested_eigenvectors(60_000, 10, epsilon, 1e-6) for epsilon in (0.01, 0.05, 0.1)]
        [19, 85, 100]

    Raises:
        EpsilonError: No Gaussian noise meets epsilon and delta.
    """
    rows = _checks.whole(rows, "rows", 2, 1 << 53)
    classes = _checks.whole(classes, "classes", 2, 1 << 31)
    deviation = least_deviation(2 * _STEPS**2, _checks.epsilon(epsilon), _checks.delta(delta), 1 << 62)
    if deviation is None:
        raise EpsilonError(
            f"expected an epsilon and a delta above 0 that Gaussian noise can meet, found delta {delta!r}"
        )
    quantile = float(ndtri(1.0 - _FAILURE_PROBABILITY / (classes - 1)))
    most = int(_LEAD * rows * _STEPS / (math.sqrt(2.0) * deviation * quantile))
    return min(rows - 1, max(classes, min(most, _MOST_EIGENVECTORS)))


@documented_in("labeldp.learning.cells")
@dataclass(frozen=True, eq=False)
class Centres:
    """Nearest centres of k-means, for new rows of any float precision."""

    model: Any

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.model.n_features_in_)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows."""
        points = np.asarray(features, dtype=self.model.cluster_centers_.dtype)
        return np.asarray(self.model.predict(points), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Votes:
    """The most common cluster among a row's neighbours, the lowest number among equally common ones."""

    embedding: Embedding
    numbers: Int[np.ndarray, "n"]
    count: int

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return int(self.embedding.components.n_features_in_)

    def predict(self, features: Any) -> Int[np.ndarray, "m"]:
        """The clusters of new rows."""
        near = self.numbers[self.embedding.neighbours(features)]
        most = np.zeros(len(near), dtype=np.int64)
        for rows in blocks(len(near), self.count):
            votes = np.zeros((rows.stop - rows.start, self.count), dtype=np.int64)
            np.add.at(votes, (np.arange(len(votes))[:, None], near[rows]), 1)
            most[rows] = votes.argmax(axis=1)
        return most


@documented_in("labeldp.learning.cells")
@dataclass(frozen=True, eq=False)
class NearestLeaf:
    """The leaf of the nearest centre, for new rows.

    Attributes:
        centres: Centres of the leaves.
        width: Number of features.
        embedding: Embedding in whose places the centres are; None if they are in the space of the features.
        columns: Columns of the places.
    """

    centres: Centres
    width: int
    embedding: Embedding | None = None
    columns: Int[np.ndarray, "e"] | None = None

    def __call__(self, features: Any, places: Float[np.ndarray, "m e"] | None = None) -> Int[np.ndarray, "m"]:
        """The leaves of new rows.

        Args:
            features: Features of the rows, shape (m, width).
            places: Their places in the embedding, where another tree of it found them.
        """
        with threadpool_limits(1):
            if self.embedding is None:
                return self.centres.predict(finite_points(features, self.width))
            places = self.embedding.transform(features) if places is None else places
            return self.centres.predict(_unit_rows(places[:, self.columns]))


def _build_tree(
    points: np.ndarray,
    leaves: int,
    embedding: Embedding | None = None,
    columns: Int[np.ndarray, "e"] | None = None,
) -> ClusterTree:
    """A tree of clusters of points, which are features or columns of an embedding's places."""
    count = _check_count(leaves, len(points))
    kind = KMeans if len(points) <= _FEW_ROWS else MiniBatchKMeans
    finder = fit_kmeans(kind(count, init=points[spread_rows(points, count)], n_init=1, random_state=0), points)
    merges = ward(finder.cluster_centers_, np.bincount(finder.labels_, minlength=count))
    return ClusterTree(finder.labels_, merges, NearestLeaf(Centres(finder), points.shape[1], embedding, columns))


def _fit_components(points: np.ndarray, count: int | None) -> Any:
    """Transformer of features to the space of distances: principal components, or the identity for None."""
    if count is None:
        return FunctionTransformer().fit(points)
    most = min(_checks.whole(count, "components", 1, 1 << 20), *points.shape)
    return PCA(most, svd_solver="covariance_eigh").fit(points)


def _nearest(search: NearestNeighbors, points: np.ndarray, count: int) -> Int[np.ndarray, "m count"]:
    """The nearest rows to each point, nearest first."""
    parts = blocks(len(points), entries=_ROWS_PER_BLOCK)
    return np.concatenate([search.kneighbors(points[rows], count, return_distance=False) for rows in parts])


def _eigenvectors(
    near: Int[np.ndarray, "n count"], count: int
) -> tuple[Float[np.ndarray, "n e"], Int[np.ndarray, "e"]]:
    """Leading eigenvectors of the normalised graph of neighbours, with rows scaled to length one, and their order."""
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
        return _unit_rows(_leading_eigenvectors(graph, count)), np.arange(count)[::-1].copy()
    # Each component has an eigenvector with eigenvalue one, and an iteration from one start finds only one of them:
    # they are written down explicitly, the largest components first, and deflated.
    order = np.argsort(-np.bincount(part), kind="stable")[:count]
    known = np.where(part[:, None] == order, root[:, None], 0.0)
    known /= np.linalg.norm(known, axis=0)
    if len(order) == count:
        return _unit_rows(known), np.arange(count)
    rest = LinearOperator((rows, rows), lambda vector: graph @ vector - known @ (known.T @ vector), dtype=np.float64)
    first = np.concatenate([np.arange(parts), np.arange(parts, count)[::-1]])
    return _unit_rows(np.hstack([known, _leading_eigenvectors(rest, count - len(order))])), first


def _leading_eigenvectors(operator: Any, count: int) -> Float[np.ndarray, "n e"]:
    """Eigenvectors with the largest eigenvalues of a symmetric operator, from a fixed seed."""
    start = np.random.default_rng(0).random(operator.shape[0])
    seed = {"rng": np.random.default_rng(0)} if "rng" in inspect.signature(eigsh).parameters else {}
    return np.asarray(eigsh(operator, count, which="LA", v0=start, tol=1e-6, **seed)[1])


def _unit_rows(vectors: Float[np.ndarray, "n e"]) -> Float[np.ndarray, "n e"]:
    """Rows scaled to length one."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, np.finfo(np.float64).tiny))


def _check_count(count: object, rows: int) -> int:
    """A number of clusters, at most one for each row."""
    checked = _checks.whole(count, "count", 1, 1 << 31)
    if checked > rows:
        raise InputError(f"expected at most one cluster for each of the {rows} rows, found {checked}; ask for fewer")
    return checked
