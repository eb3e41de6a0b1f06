"""Distributions over classes that are nearest to something."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def nearest_distributions(vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """The distribution that is nearest to each vector (Held, Wolfe and Crowder 1974)."""
    ordered = -np.sort(-vectors, axis=1)
    over = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, vectors.shape[1] + 1)
    kept = np.count_nonzero(ordered > over, axis=1)
    cut = np.take_along_axis(over, kept[:, None] - 1, axis=1)
    return np.asarray(np.maximum(vectors - cut, 0.0))
