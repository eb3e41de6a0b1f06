"""Free texts as numbers: their words, and the leading components of these."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.extmath import randomized_svd

from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp._threads import one_thread_for_algebra

#: The most words and components of a column, and the most texts that components are found in.
_MOST_WORDS, _COMPONENTS, _TEXTS = 50_000, 32, 20_000


@documented_in("labeldp.learning.features")
class TextWords(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """The words of texts as sparse vectors of length one. They are found without labels, so they cost no privacy.

    Counted are the words and the pairs of words that occur in at least two texts, at most the 50 000 most common ones:
    each by one plus the logarithm of its number in the text, times one plus that of how rare it is.

    Attributes:
        words_: Words and pairs of words.
        weights_: One plus the logarithm of how rare each is, shape (w,).

    References:
        Salton and Buckley, "Term-weighting approaches in automatic text retrieval", 1988.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Find the words of n texts in one column, of which a missing one is empty."""
        texts = _texts(X)
        counter = _counter(min_df=2, max_features=_MOST_WORDS)
        try:
            rows = np.bincount(counter.fit_transform(texts).indices)
            self.words_ = counter.get_feature_names_out().tolist()
        except ValueError:  # no word occurs twice
            rows, self.words_ = np.zeros(1, dtype=np.int64), [""]
        self.weights_ = np.log((1.0 + len(texts)) / (1.0 + rows)) + 1.0
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """The words of each text, a sparse matrix of shape (n, w); of a text without a known word all are zero."""
        return self._words(X)

    def _words(self, texts: Any) -> csr_matrix:
        """The words of texts."""
        found = _counter(vocabulary=self.words_).transform(_texts(texts)).astype(np.float64)
        found.data = (1.0 + np.log(found.data)) * self.weights_[found.indices]
        lengths = np.sqrt(np.asarray(found.multiply(found).sum(axis=1)).ravel())
        found.data /= np.repeat(lengths, np.diff(found.indptr))
        return found


@documented_in("labeldp.learning.features")
class TextComponents(TextWords):
    """The leading components of the words of texts, at most 32 (latent semantic analysis).

    They are centred, and on the scale on which the variance of the largest is one.

    Attributes:
        words_, weights_: As of ``TextWords``.
        components_: The part of each word in each component, shape (w, d).
        means_: The mean of each component over texts, shape (d,).

    References:
        Deerwester, Dumais, Furnas, Landauer and Harshman, "Indexing by latent semantic analysis", 1990.
    """

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Find words and components of n texts in one column; components in at most 20 000 of them."""
        super().fit(X, y)
        texts = _texts(X)
        words = self._words(texts[:: max(1, -(-len(texts) // _TEXTS)), None])
        with one_thread_for_algebra():  # so that sums are added in one order
            found = randomized_svd(words, min(_COMPONENTS, *words.shape), random_state=0)[2].T
        points = words @ found
        scale = max(float(points.std(axis=0).max()), float(np.finfo(np.float64).tiny))
        self.components_, self.means_ = found / scale, points.mean(axis=0) / scale
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:  # noqa: N803
        """The components of each text, shape (n, d); of a text without a known word those of none."""
        return np.asarray(self._words(X) @ self.components_ - self.means_)


def _texts(column: Any) -> np.ndarray:
    """The texts of a frame or an array of one column; missing ones are empty."""
    values = pd.DataFrame(column).iloc[:, 0]
    return np.array(values.where(values.notna(), "").astype(str), dtype=object)


def _counter(**options: Any) -> CountVectorizer:
    """The counting of words and of pairs."""
    return CountVectorizer(ngram_range=(1, 2), dtype=np.int64, **options)
