"""Public features as points: a matrix of finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeldp._shapes import Shaped
from labeldp.errors import InputError


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


def freeze_arrays(value: Any, /, **types: Any) -> None:
    """Replace arrays of a frozen dataclass by copies of a type that cannot be changed."""
    for name, dtype in types.items():
        array = np.array(getattr(value, name), dtype=dtype)
        array.flags.writeable = False
        object.__setattr__(value, name, array)
