"""Utility of channels, computed from their parameters alone, and projection onto distributions."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.privacy.channels._channel import Membership, candidate_sizes

if TYPE_CHECKING:
    from labeldp.privacy.channels._class_channel import ClassChannel

#: Variances of a number of classes below this share of its mean are those of a constant.
_ROUNDING = 1e-9

N = TypeVar("N", Fraction, np.ndarray)


def pair_share(chance: Membership) -> Float[np.ndarray, "*rows"]:
    """Effective rows per released row for distinguishing two classes, between 0 and 1.

    For two equally likely classes a and b, the released difference ``1[a in S] - 1[b in S]`` has mean ``+-(p - q)`` and
    second moment ``P(exactly one of them in S)``: the share is ``(p - q)**2`` over that, and 0 for a row that cannot
    distinguish them.

    It is an upper bound on the ratio of Fisher informations about anything that moves class probabilities, whatever
    these are: that ratio is at most the contraction coefficient of the channel for the chi-squared divergence, which is
    that of its best two classes. For two classes a and b with probabilities p and 1 - p, outcomes that favour either
    one by ``h : l`` contribute in proportion to ``x / (h l + x (h - l)^2)`` with ``x = p (1 - p)``, which is largest at
    even p, where it is this share. ``share_at`` is what to expect.

    References:
        Ordentlich and Polyanskiy 2021, Strong data processing constant is achieved by binary inputs, for the two
        classes and any f-divergence.
    """
    gap, apart = np.asarray((chance.true - chance.other) ** 2), np.asarray(chance.apart)
    share: np.ndarray = np.divide(gap, apart, out=np.zeros(gap.shape), where=apart > 0)
    return share


def share_at(channel: ClassChannel, shares: Float[np.ndarray, "k"]) -> float | None:
    """Effective rows per released row at class shares: as many clean rows estimate these shares as well.

    From n rows with true labels, class shares p are estimated with a total variance of ``sum p_j (1 - p_j) / n``. The
    indicators M of the classes in a released set have means ``m_j = q + (t - q) p_j``, where a set contains the true
    class with probability t and another given one with q. So ``(M - q) / (t - q)`` is unbiased for p, with a covariance
    V whose diagonal is ``m_j (1 - m_j) / (t - q)^2``. The best unbiased linear estimator that sums to one has the
    covariance ``V - V 1 1^T V / (1^T V 1)``, and V itself where all sets have one size. The result is the ratio of the
    two traces. For two classes, and for even shares of channels that release single classes or sets of one size, it is
    the ratio of the Fisher informations, the squared correlation of true and released label.

    It is what a model without features gains, and about what one with features does: an observation with class
    probabilities p(x) has this share at p(x), so that it is less where features determine the label.

    Args:
        channel: The channel. Of rows with different distributions the mean is taken.
        shares: Probabilities of the k classes; or a single one, 1/k, for even shares.

    Returns:
        A number between 0 and 1; None for channels whose classes differ, or whose rows have candidates.

    References:
        Rao 1973, section 4a, for estimators under a linear constraint; ``experiments/effective_rows.md`` for how near
        it is to the rows that models need.
    """
    if not channel.even or candidate_sizes(channel) is not None:
        return None
    if groups := getattr(channel, "channels", ()):  # of units of several sizes
        rows = np.bincount(channel.groups, minlength=len(groups))  # type: ignore[attr-defined]
        found = np.array([share_at(each, shares) for each in groups])
        return float(rows @ found / max(rows.sum(), 1))
    chance, times = channel.membership, channel.classes / len(shares)
    true, other, apart = (float(each) for each in (chance.true, chance.other, chance.apart))
    gap, clean = true - other, times * float(np.sum(shares * (1.0 - shares)))
    mean = other + gap * shares
    variance = times * float((mean * (1.0 - mean)).sum())
    both = getattr(channel, "pair_of_others", None)  # without it, the constraint on the sum is not used
    if both is not None:
        pair, others, k = (true + other - apart) / 2.0, float(both), channel.classes
        size = times * float(mean.sum())
        with_size = mean * (1.0 - size) + ((k - 2) * shares + 1.0) * (pair - others) + (k - 1) * others
        spread = times * float(with_size.sum())
        if spread > _ROUNDING * size:
            variance -= times * float((with_size**2).sum()) / spread
    return clean * gap**2 / variance if variance > 0.0 else 0.0


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
