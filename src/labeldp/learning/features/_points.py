"""Public features as points: finite numbers in rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Shaped

from labeldp.errors import InputError


def finite_points(features: Any, width: int | None = None, groups: str = "clusters") -> Shaped[np.ndarray, "n d"]:
    """Finite features in rows and columns, as floats; those of 32 bits are kept."""
    found = np.asarray(features)
    if found.ndim != 2 or found.size == 0 or found.dtype.kind not in "fiub":
        raise InputError(
            f"expected numbers in rows and columns as features, found {found.dtype} of shape {found.shape}; encode "
            "categories as numbers, and make sparse features dense or reduce them first"
        )
    if width is not None and found.shape[1] != width:
        raise InputError(f"expected the {width} features that the {groups} were found in, found {found.shape[1]}")
    found = found if found.dtype == np.float32 else found.astype(np.float64)
    if not np.isfinite(found).all():
        raise InputError("expected finite features, found NaN or infinity; impute what is missing first")
    return found
