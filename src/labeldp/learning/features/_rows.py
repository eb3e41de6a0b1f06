"""Access to the rows of features in any container: array, sparse matrix, frame, tensor, or a tuple of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import issparse

from labeldp._shapes import Bool, Float, Shaped
from labeldp.columns import floats
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
    """Features whose rows can be selected: lists become arrays, sparse matrices compressed rows, tuples stay tuples.

    Arrow tables become frames, which tools of scikit-learn take.
    """
    if isinstance(features, tuple):
        return tuple(indexable_rows(part) for part in features)
    if issparse(features):
        return features.tocsr()
    if isinstance(features, pa.Table):
        return features.to_pandas()
    return features if hasattr(features, "shape") else np.asarray(features)


def missing_values(values: Shaped[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """A mask of the entries that are NaN, None or another mark of a missing value."""
    if values.dtype.kind in "fcMm":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=np.bool_)
    return np.fromiter(map(_is_missing, values.flat), np.bool_, values.size).reshape(values.shape)


def _is_missing(value: Any) -> bool:
    """True for a mark of a missing value, those of pandas included, which need not be installed."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def row_weights(sample_weight: Any, rows: int) -> Float[np.ndarray, "n"]:
    """One weight for each row; 1 by default."""
    if sample_weight is None:
        return np.ones(rows)
    weights = floats(sample_weight, "weights")
    if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InputError(f"expected {rows} finite weights of at least 0 that are not all zero, found others")
    return weights


def finite_points(features: Any, width: int | None = None, groups: str = "clusters") -> Shaped[np.ndarray, "n d"]:
    """Features as a matrix of finite floats; 32-bit floats keep their precision."""
    points = np.asarray(features)
    if points.ndim != 2 or points.size == 0 or points.dtype.kind not in "fiub":
        raise InputError(
            f"expected features as a matrix of numbers, found {points.dtype} of shape {points.shape}; encode "
            "categories as numbers, and make sparse features dense or reduce them first"
        )
    if width is not None and points.shape[1] != width:
        raise InputError(f"expected the {width} features that the {groups} were made from, found {points.shape[1]}")
    points = points if points.dtype == np.float32 else points.astype(np.float64)
    if not np.isfinite(points).all():
        raise InputError("expected finite features, found NaN or infinity; impute missing values first")
    return points
