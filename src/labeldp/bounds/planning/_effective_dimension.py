"""The effective dimension of features, from their correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from labeldp._smoothing import participation
from labeldp.errors import InputError

_MOST_VARIANCE = 0.9


@dataclass(frozen=True)
class EffectiveDimension:
    """How many directions features spread in.

    Attributes:
        columns: The number of columns that vary.
        participation: ``(sum of eigenvalues)^2 / sum of squared eigenvalues`` of their correlations: d for d directions
            of equal spread.
        components: How many principal components hold 90 % of the variance.
    """

    columns: int
    participation: float
    components: int


def effective_dimension(covariance: Float[np.ndarray, "d d"]) -> EffectiveDimension:
    """The effective dimension of columns with a covariance; each column counts alike, and constant ones do not.

    Raises:
        InputError: It is no covariance, or no column varies.

    Example:
        >>> import numpy as np
        >>> effective_dimension(np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
        EffectiveDimension(columns=3, participation=1.8, components=2)
    """
    given = np.asarray(covariance, dtype=np.float64)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or not np.isfinite(given).all():
        raise InputError(f"expected a finite covariance of shape (columns, columns), found shape {given.shape}")
    spread = np.diag(given)
    varying = spread > 0
    if not varying.any():
        raise InputError("expected a numeric column that varies, found none; give the dimension yourself")
    scale = np.sqrt(spread[varying])
    correlations = given[np.ix_(varying, varying)] / scale / scale[:, None]
    values = np.linalg.eigvalsh(correlations).clip(0)
    held = np.cumsum(values[::-1]) / values.sum()
    return EffectiveDimension(
        columns=int(varying.sum()),
        participation=round(participation(correlations), 9),
        components=int(np.searchsorted(held, _MOST_VARIANCE - 1e-12) + 1),
    )
