"""Covariances that are symmetric in all entries but one, and the largest variance of gradients under them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Float


@dataclass(frozen=True)
class Covariance:
    """The covariance of k indicators that is symmetric in all but the first, one entry for each row.

    Attributes:
        first: Variance of the first.
        rest: Variance of each other.
        across: Covariance of the first and another.
        within: Covariance of two others.
        count: k.
    """

    first: np.ndarray
    rest: np.ndarray
    across: np.ndarray
    within: np.ndarray
    count: np.ndarray

    def projected(self) -> Covariance:
        """The covariance after the mean of the k entries was subtracted from each."""
        k = self.count
        one = (self.first + (k - 1) * self.across) / k
        two = (self.across + self.rest + (k - 2) * self.within) / k
        mean = (one + (k - 1) * two) / k
        first, rest = self.first - 2 * one + mean, self.rest - 2 * two + mean
        return Covariance(first, rest, self.across - one - two + mean, self.within - 2 * two + mean, k)


def largest_traces(covariance: Covariance, *, projected: bool) -> Float[np.ndarray, "2 *rows"]:
    """The largest ``trace(C G)`` over Gram matrices of k vectors of length 1, and ``trace(C)``."""
    c = covariance.projected() if projected else covariance
    k, n = c.count, c.count - 1
    trace, slope = c.first + n * c.rest, np.abs(c.across)
    above = trace + 2 * n * slope + n * (k - 2) * c.within  # b = 1: the others are equal
    bend = np.where(c.within < 0, -n * c.within, 0.0)
    a = np.where(slope < bend, slope / np.where(bend > 0, bend, 1.0), 1.0)
    below = trace + 2 * n * slope * a + n * c.within * (n * a**2 - 1) * (k > 2)  # b = (n a^2 - 1) / (k - 2)
    return np.stack([np.where(k > 1, np.where(c.within > 0, above, below), 0.0), np.where(k > 1, trace, 0.0)])
