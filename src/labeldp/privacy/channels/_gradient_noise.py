"""The variance of unbiased gradients that are computed from released labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Float
from labeldp.privacy.channels._channel import ClassChannel, candidate_sizes
from labeldp.privacy.channels._cluster import ClusterChannel


@dataclass(frozen=True)
class GradientNoise:
    """The variance of ``sum_j w_j g_j``, w the unbiased vector of a released label, for gradients of length at most 1.

    It is the variance for the worst true class, averaged over rows. The mean of the sum is ``g_y``, y the true class;
    if y is not among a row's candidates, it is the mean of their gradients, so the mean's length is at most 1 in any
    case.

    Attributes:
        any: For gradients in any directions: the largest ``trace(C G)``, C the covariance of w, over Gram matrices G.
        right_angled: ``trace(C)``: for gradients ``g_j = c + u_j`` with orthogonal ``u_j`` of length at most 1, such as
            those of softmax; with ``c = 0`` if the entries of w do not sum to one (bits, not projected).
    """

    any: float
    right_angled: float

    def second_moment(self, lipschitz: float = 1.0, right_angled: float | None = None) -> float:
        """An upper bound on the mean squared length of ``sum_j w_j g_j``, for gradients of length at most L.

        Args:
            lipschitz: L.
            right_angled: s, if gradients are ``c + u_j`` with orthogonal ``u_j`` of length at most s.
        """
        noise = lipschitz**2 * self.any
        return lipschitz**2 + (noise if right_angled is None else min(noise, right_angled**2 * self.right_angled))


def gradient_noise(channel: ClassChannel, *, projected: bool = True) -> GradientNoise:
    """The variance of unbiased gradients from labels that a channel releases.

    Let C be the covariance of w given the true class y, and G the Gram matrix of the k gradients. The variance is
    ``trace(C G)``, which is convex in each gradient, so the worst gradients have length 1.

    If C is symmetric in all classes but y, G may be averaged over permutations of them: ``G_yj = -a`` and
    ``G_jl = b``, which is a Gram matrix if and only if ``a^2 <= (1 + (k-2) b) / (k-1)`` and ``b <= 1``. With
    ``C_yj = B <= 0`` and ``C_jl = F``, the sum ``trace(C) - 2 (k-1) B a + (k-1) (k-2) F b`` has its maximum at equality
    in the first condition if F is at most 0: at ``b = ((k-1) a^2 - 1) / (k-2)``. There it is a parabola in a between 0
    and 1. If the entries of w sum to a constant, as for sets of a fixed size and all projected vectors, the rows of C
    sum to 0, so its diagonal determines B and F.

    If one class z is released, with probabilities P, ``w = one_hot(z) / c + constant``, and for gradients of length 1
    the variance is ``(1 - |sum_j P_j g_j|^2) / c^2``. Such gradients can cancel up to the excess of the largest
    probability over the sum of all others, ``2 max_j P_j - 1``.

    Args:
        channel: The channel of released labels.
        projected: Add ``(1 - sum_j w_j) / k`` to each entry of w. This matters for bits alone, whose w does not sum to
            one. It leaves w unbiased and reduces its mean squared length.

    Example:
        >>> from labeldp import gradient_noise
        >>> from labeldp.privacy.channels import BitChannel, SubsetChannel
        >>> chua = gradient_noise(BitChannel.independent(1000, 1.0), projected=False)
        >>> best = gradient_noise(SubsetChannel.at(1000, 269, 1.0))
        >>> round(chua.any), round(best.any), round(best.right_angled)
        (3684, 3678, 3674)

    References:
        Chua et al. 2025, proof of theorem 1, for bits that are not projected; Appendix A bounds that of subsets.
    """
    every = _cluster_noise(channel) if isinstance(channel, ClusterChannel) else _set_noise(channel, projected=projected)
    return GradientNoise(*(float(np.mean(values)) if values.size else 0.0 for values in every))


def _set_noise(channel: ClassChannel, *, projected: bool) -> Float[np.ndarray, "2 rows"]:
    """The noise of sets in which all classes but the true one are alike; single classes are sets of size one."""
    chance, sizes = channel.membership, candidate_sizes(channel)
    count = np.asarray(channel.classes if sizes is None else sizes, dtype=np.float64)
    true, other, k = np.broadcast_arrays(np.atleast_1d(chance.true), chance.other, count)
    original, rest = true * (1 - true), other * (1 - other)
    trace = original + (k - 1) * rest
    if channel.fixed_size:
        traces = np.stack([_largest_trace(original, rest, k), trace])
    elif projected:  # bits are independent: subtract the mean of rows and columns from their covariance
        original, rest = original - 2 * original / k + trace / k**2, rest - 2 * rest / k + trace / k**2
        traces = np.stack([_largest_trace(original, rest, k), original + (k - 1) * rest])
    else:
        traces = np.stack([trace, trace])
    if sizes is not None:  # a label outside the candidates gives a uniform set
        share = np.where(k < channel.classes, (true + (k - 1) * other) / k, 0.0)
        each = share * (1 - share)
        traces = np.maximum(traces, np.stack([_largest_trace(each, each, k), k * each]))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(traces > 0, traces / (true - other) ** 2, 0.0))


def _largest_trace(original: np.ndarray, rest: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The largest ``trace(C G)`` for C with the diagonal (original, rest, ..., rest) and rows that sum to zero.

    ``B = -original / (k-1)`` and ``(k-1) (k-2) F = original - (k-1) rest``.
    """
    total = (k - 1) * rest
    bend = (total - original) * (k - 1) / np.maximum(k - 2, 1)
    a = np.where(original < bend, original / np.where(bend > 0, bend, 1.0), 1.0)
    others = np.where(k > 2, (original - total) * ((k - 1) * a**2 - 1) / np.maximum(k - 2, 1), 0.0)
    return np.asarray(np.where(k > 1, original + total + 2 * original * a + others, 0.0))


def _cluster_noise(channel: ClusterChannel) -> Float[np.ndarray, "2 n"]:
    """The noise of cluster response, in which the probabilities of other classes differ."""
    word = 2.0**channel.bits
    keep, resample = np.array(channel.keep, dtype=np.float64) / word, np.array(channel.weights, dtype=np.float64) / word
    least, most = resample.min(axis=1), resample.max(axis=1)  # the worst true class is the least likely to be resampled
    over = np.maximum(2 * np.maximum(keep + least, most) - 1, 0.0)
    alike = (resample**2).sum(axis=1) + 2 * keep * least + keep**2
    return np.asarray((np.stack([1 - over**2, 1 - alike]) / keep**2)[:, channel.clusters])
