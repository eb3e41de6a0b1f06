"""Features of features: leading components, and how near a row is to each of some rows, which makes models curved.

Those of an encoder that others trained are their leading components, found without labels. The place of a row in the
graph of neighbours suits moments with much noise.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.cells import embed

#: Most features of all rows together: two gigabytes.
_ENTRIES = 1 << 29
#: Pairs of landmarks that the usual distance is taken from.
_PAIRS = 1_000
_ROWS_PER_BLOCK = 2_048
#: Inverse widths for rows of few features, and of more.
_GAMMA, _FEW, _GAMMA_OF_MANY = 1.5, 256, 0.75
#: Nearness to landmarks has the squares of the kernel's own variances, so this is half whitening for the kernel.
_WHITENING = 0.375


@documented_in("labeldp.learning.images")
class KernelFeatures(TransformerMixin, BaseEstimator):
    """Features of rows by their nearness to some of the rows, found without labels.

    The nearness of a row x to a landmark z is ``exp(-gamma * |x - z|**2 / m)``, where m is the median squared distance
    of two rows. Its leading components are the features: a linear model of them is curved in x.

    Args:
        components: Number of features; fewer where all rows together would have over two gigabytes.
        landmarks: Number of rows that serve as landmarks, drawn by public chance.
        gamma: Inverse width: nearness falls to 1/e at a squared distance of ``m / gamma``. None: 1.5 for rows of up to
            256 features, and 0.75 for longer ones.

    Attributes:
        landmarks_: The landmarks, shape (landmarks, d).
        gamma_: Factor of squared distances, ``gamma / m``.
        mean_: Mean nearness to each landmark.
        components_: Components of nearness, shape (landmarks, components).

    Guarantee:
        Post-processing of public features: no label is seen.

    References:
        Williams and Seeger 2001, Using the Nyström method to speed up kernel machines; Halko, Martinsson and Tropp
        2011, Finding structure with randomness, for the components.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.images import KernelFeatures
        >>> rows = np.random.default_rng(0).normal(size=(200, 3))
        >>> KernelFeatures(components=10).fit_transform(rows).shape
        (200, 10)

    Raises:
        InputError: The features are no finite numbers of shape (n, d), or have another d than in ``fit``.
    """

    def __init__(self, components: int = 2048, *, landmarks: int = 4096, gamma: float | None = None) -> None:
        self.components = components
        self.landmarks = landmarks
        self.gamma = gamma

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Choose landmarks, and find components of the nearness of some rows to them."""
        rows, chance = rows_of(X), np.random.default_rng(0)  # of public rows
        count = _checks.whole(self.components, "components", 1)
        order = chance.permutation(len(rows))
        self.landmarks_ = rows[np.sort(order[: _checks.whole(self.landmarks, "landmarks", 1)])]
        usual = _GAMMA if rows.shape[1] <= _FEW else _GAMMA_OF_MANY
        gamma = usual if self.gamma is None else _checks.positive(self.gamma, "gamma")
        first, second = (rows[chance.integers(0, len(rows), _PAIRS)] for _ in range(2))
        distance = float(np.median(((first - second) ** 2).sum(axis=1)))
        self.gamma_ = gamma / max(distance, float(np.finfo(np.float32).tiny))
        with threadpool_limits(1):  # so that sums are added in one order
            some = self._nearness(rows[np.sort(chance.permutation(len(rows))[:ROWS])])
            most = max(1, min(count, _ENTRIES // len(rows)))
            self.mean_, self.components_ = leading_components(some, most, _WHITENING)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:  # noqa: N803
        """Features of rows, the leading ones first, shape (n, components) or fewer columns."""
        check_is_fitted(self)
        rows = rows_of(X)
        if rows.shape[1] != self.landmarks_.shape[1]:
            raise InputError(f"expected {self.landmarks_.shape[1]} features, as in fit, found {rows.shape[1]}")
        found = np.empty((len(rows), self.components_.shape[1]), np.float32)
        with threadpool_limits(1):
            for part in blocks(len(rows), entries=_ROWS_PER_BLOCK):
                found[part] = (self._nearness(rows[part]) - self.mean_) @ self.components_
        return found

    def _nearness(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n l"]:
        """The nearness of rows to each landmark."""
        found = rows @ self.landmarks_.T
        found *= 2.0
        found -= np.einsum("nd,nd->n", rows, rows)[:, None]
        found -= np.einsum("ld,ld->l", self.landmarks_, self.landmarks_)
        found *= np.float32(self.gamma_)
        return np.asarray(np.exp(found, out=found))


def rows_of(features: Any) -> Float[np.ndarray, "n d"]:
    """Features as floats."""
    try:
        rows = np.asarray(features, np.float32)
    except (TypeError, ValueError):
        rows = np.empty(0, np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise InputError(f"expected features of finite numbers of shape (n, d), found {np.shape(features)}")
    return rows


#: Rows that components are found from, at most.
ROWS = 10_000


def leading_components(
    sample: Float[np.ndarray, "n r"], count: int, whitening: float
) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r d"]]:
    """The mean of some rows, which are overwritten, and their leading components.

    Args:
        sample: Rows; of many, at most ``ROWS`` that were drawn by public chance.
        count: Number of components; fewer if rows have fewer directions.
        whitening: The power of its variance that a component is divided by: 0 leaves lengths as they are, and 1/2 makes
            them equal, which raises those that say little.

    Returns:
        The mean, and the components, by which the squared length of a row is one on average.

    References:
        Halko, Martinsson and Tropp 2011, Finding structure with randomness.
    """
    mean = sample.mean(axis=0)
    sample -= mean
    _, lengths, directions = randomized_svd(sample, min(count, *sample.shape), n_iter=2, random_state=0)
    variances = lengths.astype(np.float64) ** 2 / len(sample)
    variances = np.maximum(variances, np.finfo(np.float32).eps * max(float(variances[0]), 1e-30))
    scaled = directions.T / variances**whitening
    return mean, np.asarray(scaled / np.sqrt((variances ** (1.0 - 2.0 * whitening)).sum()), np.float32)


def unit_rows(
    values: Float[np.ndarray, "n r"], mean: Float[np.ndarray, "r"], components: Float[np.ndarray, "r d"]
) -> Float[np.ndarray, "n d"]:
    """Components of values less their mean, in rows of length one."""
    rows = (values - mean) @ components
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny))


@documented_in("labeldp.learning.images")
class EncoderFeatures(TransformerMixin, BaseEstimator):
    """Leading components of the features of an encoder, in rows of length one, found without labels.

    Args:
        components: Number of features; fewer if the encoder has fewer.
        whitening: The power of its variance that a component is divided by, from 0 to 0.5: 0 leaves lengths as they
            are, and 0.5 makes them equal.

    Attributes:
        mean_: Mean features.
        components_: Their components, shape (outputs, components).

    Guarantee:
        Post-processing of public images: no label of a release is seen.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.images import EncoderFeatures
        >>> embedded = np.random.default_rng(0).normal(size=(40, 12))
        >>> EncoderFeatures(5).fit_transform(embedded).shape
        (40, 5)

    Raises:
        InputError: The features are no finite numbers of shape (n, d), or have another d than in ``fit``.
    """

    def __init__(self, components: int = 256, *, whitening: float = 0.25) -> None:
        self.components = components
        self.whitening = whitening

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Find components of the features of some images."""
        rows, chance = rows_of(X), np.random.default_rng(0)  # of public images
        count = _checks.whole(self.components, "components", 1)
        with threadpool_limits(1):  # so that sums are added in one order
            some = rows[np.sort(chance.permutation(len(rows))[:ROWS])]
            self.mean_, self.components_ = leading_components(some, count, self.whitening)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:  # noqa: N803
        """Components of features, the leading ones first."""
        check_is_fitted(self)
        rows = rows_of(X)
        if rows.shape[1] != len(self.mean_):
            raise InputError(f"expected {len(self.mean_)} features, as in fit, found {rows.shape[1]}")
        with threadpool_limits(1):
            parts = [
                unit_rows(rows[part], self.mean_, self.components_)
                for part in blocks(len(rows), entries=_ROWS_PER_BLOCK)
            ]
        return np.concatenate(parts)


@documented_in("labeldp.learning.images")
class GraphFeatures(TransformerMixin, BaseEstimator):
    """Features of rows by their place in the graph of neighbours, beside some of their own, found without labels.

    All rows have length one, as the noise of ``LabelMoments`` is proportional to the longest: half of its square is of
    the place (``embed``), the other half of the row's leading columns. A linear head of them needs few labels, since
    rows that are connected have much the same place.

    Args:
        eigenvectors: Number of eigenvectors of the graph; ``suggested_eigenvectors`` suggests one.
        columns: Number of leading columns of a row that are taken too, scaled to length one; 0 for the place alone,
            which at small epsilons is often better.
        neighbours: Number of neighbours of a row in the graph.

    Attributes:
        embedding_: The embedding of the rows in ``fit``.

    Guarantee:
        Post-processing of public features: no label is seen.

    References:
        Ng, Jordan and Weiss 2001, On spectral clustering.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, LabelMoments
        >>> from labeldp.learning.cells import suggested_eigenvectors
        >>> from labeldp.learning.images import GraphFeatures
        >>> from labeldp.learning.sklearn import MomentClassifier
        >>> random, space = np.random.default_rng(0), Classes(["no", "yes"])
        >>> rows = np.repeat([[3.0, 0.0], [0.0, 3.0]], 500, axis=0) + random.normal(size=(1000, 2))
        >>> graph = GraphFeatures(suggested_eigenvectors(1000, 2, 0.3, 1e-6), columns=2)
        >>> features = graph.fit_transform(rows)
        >>> answer = Curator(["no"] * 500 + ["yes"] * 500, space).answer(LabelMoments(space, 0.3, 1e-6, features))
        >>> model = MomentClassifier().fit(features, answer)
        >>> model.predict(graph.transform([[3.0, 0.0], [0.0, 3.0]])).tolist()
        ['no', 'yes']

    Raises:
        InputError: The rows are no finite numbers of shape (n, d), are too few, or have another d than in ``fit``.
    """

    def __init__(self, eigenvectors: int = 30, *, columns: int = 128, neighbours: int = 15) -> None:
        self.eigenvectors = eigenvectors
        self.columns = columns
        self.neighbours = neighbours

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Embed the graph of rows."""
        _checks.whole(self.columns, "columns", 0)
        self.embedding_ = embed(X, neighbours=self.neighbours, eigenvectors=self.eigenvectors)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Float[np.ndarray, "n f"]:  # noqa: N803
        """Features of the rows in the graph, by their own places, which moments are asked of."""
        return self._beside(self.fit(X, y).embedding_.places, X)

    def transform(self, X: Any) -> Float[np.ndarray, "n f"]:  # noqa: N803
        """Features of new rows: the mean place of their neighbours, and their leading columns."""
        check_is_fitted(self)
        return self._beside(self.embedding_.transform(X), X)

    def _beside(self, places: Float[np.ndarray, "n e"], rows: Any) -> Float[np.ndarray, "n f"]:
        """Places and leading columns, of the same length."""
        if not self.columns:
            return np.array(places)
        own = np.asarray(rows, np.float64)[:, : self.columns]
        lengths = np.linalg.norm(own, axis=1, keepdims=True)
        return np.hstack([places, own / np.maximum(lengths, np.finfo(np.float64).tiny)]) / math.sqrt(2.0)
