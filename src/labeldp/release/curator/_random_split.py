"""Public random splits of rows, which an account can hold exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labeldp import _checks
from labeldp._shapes import Int
from labeldp.errors import InputError, RowsError

#: Largest number of runs of a split: far fewer than a charge holds, so that a certificate stays short.
_MOST_RUNS = 1 << 14


def public_split(count: int, shares: Sequence[float], seed: int | None = None) -> list[Int[np.ndarray, "m"]]:
    """Split rows ``0 .. count - 1`` at random into public parts: of single rows, or of short runs if rows are many.

    A charge for very scattered rows covers all rows between the first and the last, so that charges for such parts
    would add up. Charges for these parts never do: the curator charges the maximum of them.

    Args:
        count: Number of rows.
        shares: A positive number for each part, in proportion; each part has some rows.
        seed: Makes the split reproducible. A split is public, protects nothing and depends on no label.

    Returns:
        The rows of each part, in their order.

    References:
        Ghazi et al. 2021, Algorithm 3: the parts that its stages need.

    Example:
        >>> first, second = public_split(10, [0.6, 0.4], seed=0)
        >>> len(first), len(second), sorted([*first.tolist(), *second.tolist()]) == list(range(10))
        (6, 4, True)

    Raises:
        InputError: The shares are not positive numbers.
        RowsError: There are fewer rows than parts.
    """
    weights = np.array([_checks.number(share, "share") for share in shares])
    if weights.size == 0 or not (weights > 0).all() or not np.isfinite(weights.sum()):
        raise InputError(f"expected a positive share for each part, found {list(shares)!r}")
    if count < weights.size:
        raise RowsError(f"expected at least one row for each of {weights.size} parts, found {count} rows")
    run = -(-count // _MOST_RUNS)
    runs = -(-count // run)
    order = np.random.default_rng(seed).permutation(runs)
    part_of_run = np.empty(runs, dtype=np.int64)
    part_of_run[order] = np.repeat(np.arange(weights.size), _sizes(weights, runs))
    parts = np.repeat(part_of_run, run)[:count]
    return [np.flatnonzero(parts == part) for part in range(weights.size)]


def _sizes(weights: np.ndarray, runs: int) -> Int[np.ndarray, "parts"]:
    """Number of runs of each part: its share, rounded, and at least one."""
    place = np.arange(1, weights.size)
    cuts = np.rint(np.cumsum(weights)[:-1] / weights.sum() * runs).astype(np.int64)
    cuts = np.maximum.accumulate(np.maximum(cuts - place, 0)) + place
    return np.diff(np.minimum(cuts, runs - weights.size + place), prepend=0, append=runs)
