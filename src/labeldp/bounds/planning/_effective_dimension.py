"""Effective dimension of features, from their correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Float
from labeldp._smoothing import participation
from labeldp.errors import InputError

_MOST_VARIANCE = 0.9


@dataclass(frozen=True)
class EffectiveDimension:
    """Effective number of directions in which features vary.

    Attributes:
        columns: Number of columns that vary.
        participation: ``(sum of eigenvalues)^2 / sum of squared eigenvalues`` of their correlations: d for d directions
            of equal variance.
        components: Number of principal components that hold 90 % of the variance.
    """

    columns: int
    participation: float
    components: int


def effective_dimension(covariance: Float[np.ndarray, "d d"]) -> EffectiveDimension:
    """Compute the effective dimension of columns from their covariance; constant columns are ignored.

    Example:
        >>> import numpy as np
        >>> effective_dimension(np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
        EffectiveDimension(columns=3, participation=1.8, components=2)
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError(f"expected a finite covariance of shape (columns, columns), found shape {matrix.shape}")
    variances = np.diag(matrix)
    varying = variances > 0
    if not varying.any():
        raise InputError("expected a numeric column that varies, found none; give the dimension explicitly")
    scale = np.sqrt(variances[varying])
    correlations = matrix[np.ix_(varying, varying)] / scale / scale[:, None]
    values = np.linalg.eigvalsh(correlations).clip(0)
    cumulative = np.cumsum(values[::-1]) / values.sum()
    return EffectiveDimension(
        columns=int(varying.sum()),
        participation=round(participation(correlations), 9),
        components=int(np.searchsorted(cumulative, _MOST_VARIANCE - 1e-12) + 1),
    )
