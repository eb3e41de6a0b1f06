"""Features of features: the place of a row in the graph of neighbours, which suits moments with much noise."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.learning.cells import embed


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
