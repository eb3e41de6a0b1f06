"""Targets of regressions on released labels, and the models that follow from sums of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labeldp._shapes import Float
from labeldp.learning.heads import KernelSums
from labeldp.learning.losses import decoded_numbers, ends_of, label_variance, means_of_bins, noise_variances
from labeldp.learning.sklearn import EvidenceRidge, KernelClassifier, ReleasedLabelRegressor, noise_ratio
from labeldp.privacy import LabelSpace
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class ClassTargets:
    """Unbiased vectors of classes."""

    space: LabelSpace

    @classmethod
    def of(cls, release: Release) -> Self:
        """The targets of a release, some rows of which are given."""
        return cls(release.space)

    def __call__(self, release: Release) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n"]]:
        """Unbiased vectors, which weigh the same."""
        return release.unbiased(), np.ones(len(release))

    def models(self, sums: KernelSums, share: float) -> Mapping[str, Any]:
        """Kernels; a softmax is no function of sums."""
        return {"kernels": KernelClassifier().fit_sums(sums, self.space, share)}

    def ridge(self, sums: KernelSums) -> EvidenceRidge:
        """The regression of the kernels."""
        return KernelClassifier().fit_sums(sums, self.space).ridge_


@dataclass(frozen=True, eq=False)
class NumberTargets:
    """Numbers whose means are labels, weighed by their precision.

    Attributes:
        ends: Ends of the declared range.
        variance: Approximate variance of labels.
        scale: Mean precision.
        signal: Approximate share of the variance of numbers that is not noise.
        means: The mean label of each bin; None without bins.
    """

    ends: tuple[float, float]
    variance: float
    scale: float
    signal: float
    means: Float[np.ndarray, "bins"] | None

    @classmethod
    def of(cls, release: Release) -> Self:
        """The targets of a release, some rows of which are given."""
        bins, numbers = release.channel.bins, decoded_numbers(release)
        means = None if bins is None else means_of_bins(release.space, bins, release.codes)
        variance = label_variance(release, numbers)
        scale = float((1.0 / (noise_variances(release) + variance)).mean())
        return cls(ends_of(release), variance, scale, 1.0 / noise_ratio(release, numbers), means)

    def __call__(self, release: Release) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n"]]:
        """Numbers, and their precisions over the mean one."""
        weights = 1.0 / (self.scale * (noise_variances(release) + self.variance))
        return decoded_numbers(release, self.means)[:, None], weights

    def models(self, sums: KernelSums, share: float) -> Mapping[str, Any]:
        """A linear model, and kernels."""
        return {
            name: ReleasedLabelRegressor(EvidenceRidge(signal=self.signal)).fit_sums(each, self.ends, share)
            for name, each in (("linear", sums.linear()), ("kernels", sums))
        }

    def ridge(self, sums: KernelSums) -> EvidenceRidge:
        """The regression of the kernels."""
        return EvidenceRidge(signal=self.signal).fit_sums(sums)


#: Targets of released labels, and the models that sums of them make.
Targets = ClassTargets | NumberTargets
