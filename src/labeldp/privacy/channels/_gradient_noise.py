"""The variance of unbiased gradients that are computed from released labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp.privacy.channels._class_channel import ClassChannel


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
    ``trace(C G)``, which is convex in each gradient, so the worst gradients have length 1. Each kind of channel states
    it (``ClassChannel.traces``).

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
    traces = channel.traces(projected=projected)
    return GradientNoise(*(float(np.mean(values)) if values.size else 0.0 for values in traces))
