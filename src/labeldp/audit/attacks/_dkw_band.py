"""Simultaneous confidence band of a survival function (Dvoretzky, Kiefer and Wolfowitz)."""

from __future__ import annotations

import math

import numpy as np

from labeldp._confidence_intervals import clopper_pearson_lower
from labeldp._shapes import Float, Int

#: Ratio of the counts at which exact bounds are taken, from either end.
_RATIO = 1.1


def survival_band(rows: int, level: float) -> Float[np.ndarray, "rows_and_one"]:
    """Lower confidence band of P(value >= tau), for all tau at once, by the count of values of at least tau.

    Entry c is the bound for the tau at which c of the n independent values are at least tau. It holds for all tau at
    once, except with a probability of ``level``. One minus entry n - c is an upper bound, which fails with the same
    probability.

    Proof. Two bounds have half of the level each, and the larger one is taken. The first is that of Dvoretzky, Kiefer
    and Wolfowitz with Massart's constant, ``c/n - sqrt(ln(1/a) / (2n))`` with a the half level, at most 1/2. The second
    is exact at some counts m that are fixed beforehand. Let T be the m-th largest value and ``J(t) = P(value >= t)``.
    ``J(T)`` is at least as large as the m-th smallest of n independent uniform values, since ``P(J(value) <= u) <= u``.
    That order statistic has a beta distribution with parameters m and n - m + 1, whose quantile is Clopper and
    Pearson's bound at a count of m. So ``J(T)`` is below the bound with a probability of at most the level of the
    quantile; all quantiles share a evenly. Wherever m values or more are at least tau, ``tau <= T`` and so ``J(tau) >=
    J(T)``. For the other side take negative values and the counts that are below tau: ``P(value < tau)`` is at least
    entry n - c.

    Args:
        rows: n, at least 1.
        level: Error probability, above 0 and at most 1/2.

    Returns:
        Increasing bounds, for counts 0 to n.

    References:
        Massart 1990; Clopper and Pearson 1934.
    """
    counts = np.arange(rows + 1)
    even = counts / rows - math.sqrt(math.log(2.0 / level) / (2.0 * rows))
    some = _fixed_counts(rows)
    exact = np.zeros(rows + 1)
    exact[some] = clopper_pearson_lower(some, rows, level / 2.0 / len(some))
    return np.asarray(np.maximum(np.maximum.accumulate(exact), even).clip(0.0, 1.0))


def _fixed_counts(rows: int) -> Int[np.ndarray, "m"]:
    """Counts from 1 to all rows, dense at both ends."""
    near = np.unique(np.floor(_RATIO ** np.arange(math.log(rows) / math.log(_RATIO) + 1)).astype(np.int64))
    near = near[near <= rows]
    return np.unique(np.concatenate([near, rows + 1 - near]))
