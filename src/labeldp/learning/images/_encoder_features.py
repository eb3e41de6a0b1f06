"""Features of images by an encoder that others trained: their leading components, found without labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.images._kernel_features import ROWS, leading_components, rows_of, unit_rows

_ROWS_PER_BLOCK = 2_048


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
