"""Exact confidence bounds for a probability, from how often something happened."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import betainccinv, betaincinv

#: What the inverse of the incomplete beta function may be off by, relatively; bounds are moved outward by it.
_ROUNDING = 1e-9


def share_above(happened: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """What a probability is at least, unless something of a chance of at most ``level`` happened.

    Args:
        happened: How many of the trials succeeded, a number or an array.
        trials: How many independent trials there were, of the same shape or one number.
        level: The chance to be wrong, above 0 and below 1.

    References:
        Clopper and Pearson 1934: the least p for which a binomial count is as large with a chance above ``level``.
    """
    count, rows = np.asarray(happened, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    found = betaincinv(np.maximum(count, 1.0), rows - np.maximum(count, 1.0) + 1.0, level)
    return np.asarray(np.where(count > 0, found * (1.0 - _ROUNDING), 0.0))


def share_below(happened: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """What a probability is at most, unless something of a chance of at most ``level`` happened: ``share_above``."""
    count, rows = np.asarray(happened, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    failed = np.maximum(rows - count, 1.0)
    found = betainccinv(np.minimum(count, rows - failed) + 1.0, failed, level)
    return np.asarray(np.where(count < rows, np.minimum(found * (1.0 + _ROUNDING), 1.0), 1.0))


def log_odds(share: float) -> float:
    """``log(share / (1 - share))``, infinite at the ends."""
    if share <= 0.0:
        return -math.inf
    return math.inf if share >= 1.0 else math.log(share) - math.log1p(-share)
