"""Exact (Clopper-Pearson) confidence bounds for a probability, from a binomial count."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, betaincc, betainccinv, betaincinv

#: Relative error of the inverse of the incomplete beta function; bounds are moved outward by it.
_ROUNDING = 1e-9
_HALVINGS = 100


def share_above(successes: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """Lower confidence bound for a probability, at confidence ``1 - level``.

    Args:
        successes: Number of successes, a number or an array.
        trials: Number of independent trials, of the same shape or one number.
        level: Probability that the bound is wrong, above 0 and below one half.

    References:
        Clopper and Pearson 1934: the least p for which a binomial count is as large with a chance above ``level``.
    """
    count, rows = _as_floats(successes, trials)
    a, b = np.maximum(count, 1.0), rows - np.maximum(count, 1.0) + 1.0
    bound = betaincinv(a, b, level) * (1.0 - _ROUNDING)
    return np.asarray(
        np.where(count > 0, _checked_bound(bound, lambda p: betainc(a, b, p), 0.0 * rows, a / rows, level), 0.0)
    )


def share_below(successes: object, trials: object, level: float) -> Float[np.ndarray, "..."]:
    """Upper confidence bound for a probability, at confidence ``1 - level``; see ``share_above``."""
    count, rows = _as_floats(successes, trials)
    failed = np.maximum(rows - count, 1.0)
    a = rows - failed + 1.0
    inverse = np.minimum(betainccinv(a, failed, level) * (1.0 + _ROUNDING), 1.0)
    bound = _checked_bound(inverse, lambda p: betaincc(a, failed, p), 1.0 + 0.0 * rows, (a - 1.0) / rows, level)
    return np.asarray(np.where(count < rows, bound, 1.0))


def _as_floats(successes: object, trials: object) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Successes and trials as floats of one shape."""
    count, rows = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    return count, rows


def _checked_bound(bound: Any, tail: Callable[[Any], Any], outside: Any, inside: Any, level: float) -> Any:
    """The bound, recomputed by bisection from the conservative side wherever its tail is far from ``level``.

    The inverse of SciPy 1.17 is far off at a first parameter of 1000 and 1e8 trials; the function itself is right.

    Args:
        bound: The bound from the inverse.
        tail: Tail probability: at most ``level`` from ``outside`` to the root, above it from there on.
        outside: 0 for a lower bound, 1 for an upper one.
        inside: The observed share, whose tail is at least one half.
        level: The tail probability of the bound.
    """
    tails = tail(bound)
    wrong = ~((tails <= level) & (tails >= level / 2))
    if not np.any(wrong):
        return bound
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        small = tail(middle) <= level
        outside, inside = np.where(small, middle, outside), np.where(small, inside, middle)
    return np.where(wrong, outside, bound)


def log_odds(share: float) -> float:
    """``log(share / (1 - share))``, infinite at the ends."""
    if share <= 0.0:
        return -math.inf
    return math.inf if share >= 1.0 else math.log(share) - math.log1p(-share)
