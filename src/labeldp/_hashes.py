"""Hashes of 64-bit words: to recognize values, not to hide them."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import UInt64

#: The step of SplitMix, and the shifts and factors of its finalizer.
STEP = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def mixed(words: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    """A bijection of 64-bit words all of whose output bits depend on all input bits.

    References:
        Steele, Lea and Flood 2014: one step of SplitMix and its finalizer.
    """
    words = words + STEP
    for shift, factor in _ROUNDS:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(words ^ (words >> np.uint64(31)))
