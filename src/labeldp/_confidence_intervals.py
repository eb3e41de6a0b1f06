"""Clopper-Pearson confidence bounds of a probability, from the number of successes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaincinv

from labeldp._shapes import Float

#: Relative error allowed for the inverse of the incomplete beta function; bounds are moved outward by it.
_ROUNDING = 1e-9
_HALVINGS = 100


def clopper_pearson_lower(successes: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """Lower confidence bound of a probability, wrong with a probability of at most ``level``.

    Args:
        successes: Number of successes, a number or an array; of effective trials a fraction.
        trials: Number of independent trials, of the same shape or one number.
        level: Probability that the bound exceeds the truth, above 0 and below one half.

    References:
        Clopper and Pearson 1934: the least p for which a binomial count is as large with a probability above ``level``.
    """
    count, rows = _broadcast_counts(successes, trials)
    a = np.where(count > 0.0, count, 1.0)
    b = rows - a + 1.0
    inverse = betaincinv(a, b, level) * (1.0 - _ROUNDING)
    return np.asarray(
        np.where(count > 0, _corrected_inverse(inverse, lambda p: betainc(a, b, p), 0.0 * rows, a / rows, level), 0.0)
    )


def clopper_pearson_upper(successes: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """Upper confidence bound of a probability, as ``clopper_pearson_lower``."""
    count, rows = _broadcast_counts(successes, trials)
    failed = np.where(count < rows, rows - count, 1.0)
    a = rows - failed + 1.0
    inverse = np.minimum(betainccinv(a, failed, level) * (1.0 + _ROUNDING), 1.0)
    bound = _corrected_inverse(inverse, lambda p: betaincc(a, failed, p), 1.0 + 0.0 * rows, (a - 1.0) / rows, level)
    return np.asarray(np.where(count < rows, bound, 1.0))


def _broadcast_counts(successes: object, trials: object) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Broadcast successes and trials to floats of one shape."""
    count, rows = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    return count, rows


def _corrected_inverse(inverse: Any, tail: Callable[[Any], Any], outside: Any, inside: Any, level: float) -> Any:
    """Replace wrong inverses by bisection, approaching the root from its conservative side.

    An inverse is wrong if its tail exceeds the level, or is below half of it. SciPy 1.17's is far off at a first
    parameter of 1000 and 1e8 trials; the incomplete beta function itself is right.

    Args:
        inverse: The bound, from an inverse.
        tail: Tail probability at a p: at most ``level`` from ``outside`` to the root, and above it from there on.
        outside: 0 for a lower bound, 1 for an upper one.
        inside: The observed share, whose tail is at least one half.
        level: The target tail probability.
    """
    tails = tail(inverse)
    wrong = ~((tails <= level) & (tails >= level / 2))
    if not np.any(wrong):
        return inverse
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        small = tail(middle) <= level
        outside, inside = np.where(small, middle, outside), np.where(small, inside, middle)
    return np.where(wrong, outside, inverse)


def log_odds(share: float) -> float:
    """``log(share / (1 - share))``, infinite at the ends."""
    if share <= 0.0:
        return -math.inf
    return math.inf if share >= 1.0 else math.log(share) - math.log1p(-share)
