"""Utility of channels, computed from their parameters alone, and projection onto distributions."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.privacy.channels._channel import Membership

N = TypeVar("N", Fraction, np.ndarray)


def pair_share(chance: Membership) -> Float[np.ndarray, "*rows"]:
    """Effective rows per released row for distinguishing two classes, between 0 and 1.

    For two equally likely classes a and b, the released difference ``1[a in S] - 1[b in S]`` has mean ``+-(p - q)`` and
    second moment ``P(exactly one of them in S)``: the share is ``(p - q)**2`` over that, and 0 for a row that cannot
    distinguish them.
    """
    gap, apart = np.asarray((chance.true - chance.other) ** 2), np.asarray(chance.apart)
    share: np.ndarray = np.divide(gap, apart, out=np.zeros(gap.shape), where=apart > 0)
    return share


def total_variance(chance: Membership, classes: int) -> float:
    """The trace of the covariance of the unbiased vector given the true class; infinite if it does not exist."""
    return float(np.mean(_total_variances(chance, classes)))


def training_size(classes: int, epsilon: float) -> int:
    """The subset size with the largest ``pair_share``: about ``classes / (exp(epsilon / 2) + 1)``."""
    return int(np.argmax(pair_share(_subset_memberships(classes, epsilon)))) + 1


def training_sizes(classes: int, epsilon: float) -> Int[np.ndarray, "sizes"]:
    """``training_size`` for every number of classes from 0 to ``classes``; 1 below two classes.

    ``pair_share`` is ``d (m - d) / (m + (e - 1) d)`` up to factors without d, which has one maximum in d, at
    ``m / (exp(epsilon / 2) + 1)``: the best integer d is next to it.
    """
    m = np.arange(classes + 1)
    below = np.clip(np.floor(m / (np.exp(epsilon / 2) + 1)), 1, np.maximum(m - 1, 1))
    above = np.minimum(below + 1, np.maximum(m - 1, 1))
    with np.errstate(over="ignore"):
        odds = np.expm1(epsilon)  # if it overflows, every share is 0, and the smaller size is taken
    shares = [d * (m - d) / (m + odds * d) for d in (below, above)]
    best: np.ndarray = np.where(shares[1] > shares[0], above, below).astype(np.int64)
    return best


def estimation_size(classes: int, epsilon: float) -> int:
    """The subset size with the least ``total_variance``: about ``classes / (exp(epsilon) + 1)``."""
    return int(np.argmin(_total_variances(_subset_memberships(classes, epsilon), classes))) + 1


def nearest_distributions(vectors: Float[np.ndarray, "m k"]) -> Float[np.ndarray, "m k"]:
    """Euclidean projection of vectors onto the probability simplex (Held, Wolfe and Crowder 1974)."""
    ordered = -np.sort(-vectors, axis=1)
    over = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, vectors.shape[1] + 1)
    positive = np.count_nonzero(ordered > over, axis=1)
    cut = np.take_along_axis(over, positive[:, None] - 1, axis=1)
    return np.asarray(np.maximum(vectors - cut, 0.0))


def _total_variances(chance: Membership, classes: int) -> Float[np.ndarray, "*rows"]:
    true, other = chance.true, chance.other
    spread = np.asarray(true * (1 - true) + (classes - 1) * other * (1 - other))
    gap = np.asarray((true - other) ** 2)
    variance: np.ndarray = np.divide(spread, gap, out=np.full(spread.shape, np.inf), where=gap > 0)
    return variance


def _subset_memberships(classes: int, epsilon: float) -> Membership:
    """The membership of subsets of every size from 1 to ``classes - 1``, in floating point."""
    size = np.arange(1, classes, dtype=np.float64)
    true = 1 / (1 + np.exp(-epsilon) * (classes - size) / size)
    return Membership(*subset_chances(true, size, classes))


def subset_chances(true: N, size: N, classes: int) -> tuple[N, N, N]:
    """The entries of ``Membership`` for uniform subsets of a size that hold the true class with a probability."""
    other = (size - true) / (classes - 1)
    apart = true * (1 - (size - 1) / (classes - 1)) + (1 - true) * size / (classes - 1)
    return true, other, apart
