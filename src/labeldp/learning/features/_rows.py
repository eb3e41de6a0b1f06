"""Access to the rows of features in any container: array, sparse matrix, frame, tensor, or a tuple of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from labeldp._shapes import Float
from labeldp.errors import InputError


def row_count(features: Any) -> int:
    """Number of rows of features; the parts of a tuple must agree on it."""
    if not isinstance(features, tuple):
        return int(features.shape[0]) if hasattr(features, "shape") else len(features)
    counts = {row_count(part) for part in features}
    if len(counts) != 1:
        raise InputError(f"expected parts of features with the same number of rows, found {sorted(counts)}")
    return counts.pop()


def take_rows(features: Any, rows: np.ndarray) -> Any:
    """Selected rows of features; of a tuple, those of each part."""
    if isinstance(features, tuple):
        return tuple(take_rows(part, rows) for part in features)
    return features.iloc[rows] if hasattr(features, "iloc") else features[rows]


def indexable_rows(features: Any) -> Any:
    """Features whose rows can be selected: lists become arrays, sparse matrices compressed rows, tuples stay tuples."""
    if isinstance(features, tuple):
        return tuple(indexable_rows(part) for part in features)
    if issparse(features):
        return features.tocsr()
    return features if hasattr(features, "shape") else np.asarray(features)


def row_weights(sample_weight: Any, rows: int) -> Float[np.ndarray, "n"]:
    """One weight for each row; 1 by default."""
    if sample_weight is None:
        return np.ones(rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(f"expected {rows} finite weights of at least 0 that are not all zero, found others")
    return weights
