"""Checks of the arguments of metrics."""

from __future__ import annotations

import numpy as np

from labeldp.errors import InputError
from labeldp.learning.losses import require_release
from labeldp.release import Release


def positive_row_count(release: Release) -> int:
    """Number of rows of a release, which must not be empty."""
    if len(require_release(release)) == 0:
        raise InputError("expected at least one row, found none")
    return len(release)


def finite_array(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Finite numbers of a shape as an array."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"expected {name} as numbers of shape {shape}, found something else") from None
    if array.shape != shape:
        raise InputError(f"expected {name} of shape {shape}, found {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"expected finite {name}, found NaN or infinity")
    return array
