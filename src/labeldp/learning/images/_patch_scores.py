"""Scores of classes for images by a fitted classifier of patches, as its file holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.images._kernel_features import KernelFeatures
from labeldp.learning.images._patch_classifier import PatchClassifier
from labeldp.learning.images._patch_features import PatchFeatures, Pixels

#: The arrays by their name in a file.
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{name: f"0.{name}" for name in ("filters", "offsets", "contrast", "mean", "components")},
        **{name: f"1.{name}" for name in ("landmarks", "gamma")},
        **{name: f"2.{name}" for name in ("weight", "bias")},
    }
)


@dataclass(frozen=True, eq=False)
class PatchScores:
    """Scores of classes, in declared order: linear in the features of patches, and in their nearness to landmarks.

    Attributes:
        filters: Filters of all scales, shape (scales * filters, channels, size, size).
        offsets: Responses of filters to the mean patch.
        contrast: Added to the variance of a patch, shape (1,).
        mean: Mean response in each cell.
        components: Components of responses.
        landmarks: Features of the landmarks.
        gamma: Factor of squared distances, shape (1,).
        weight: Coefficients of features and of nearness, shape (k, d).
        bias: Intercepts, shape (k,).
        scales: Number of scales, each half of the one before.
        views: 2 if responses are the mean of those to images and to their mirror images, else 1.
    """

    filters: Float[np.ndarray, "f channels size size"]
    offsets: Float[np.ndarray, "f"]
    contrast: Float[np.ndarray, "1"]
    mean: Float[np.ndarray, "r"]
    components: Float[np.ndarray, "r c"]
    landmarks: Float[np.ndarray, "l c"]
    gamma: Float[np.ndarray, "1"]
    weight: Float[np.ndarray, "k d"]
    bias: Float[np.ndarray, "k"]
    scales: int = 1
    views: int = 1

    @classmethod
    def of(cls, model: PatchClassifier, order: Int[np.ndarray, "k"], weight: float = 1.0) -> PatchScores:
        """The scores of a fitted classifier, times a weight.

        Args:
            model: The classifier.
            order: The place of each declared class in ``classes_``.
            weight: Factor of its scores.
        """
        features, kernel = model.features_, model.kernel_
        straight, curved = np.split(weight * model.coef_[order], [kernel.landmarks_.shape[1]], axis=1)
        curved = curved @ kernel.components_.T.astype(np.float64)
        (scales, filters), channels = features.offsets_.shape, features.shape_[0]
        parts = (
            features.filters_.reshape(scales * filters, channels, features.size, features.size),
            features.offsets_.ravel(),
            np.array([features.contrast_]),
            features.mean_,
            features.components_,
            kernel.landmarks_,
            np.array([kernel.gamma_]),
            np.hstack([straight, curved]),
            weight * model.intercept_[order] - curved @ kernel.mean_,
        )
        arrays = {name: np.asarray(part, np.float32) for name, part in zip(_NAMES, parts, strict=True)}
        return cls(**arrays, scales=scales, views=1 + bool(features.mirrored))

    @staticmethod
    def shapes(
        classes: int,
        channels: int = 1,
        components: int = 256,
        landmarks: int = 4096,
        filters: int = 256,
        size: int = 6,
        cells: int = 4,
        views: int = 1,
        scales: int = 1,
    ) -> dict[str, tuple[int, ...]]:
        """The shape of each array in a file of these sizes.

        Raises:
            InputError: There are neither one nor two views.
        """
        if views not in (1, 2):
            raise InputError(f"expected views of 1, or of 2 with mirror images, found {views!r:.100}")
        every, wide = scales * filters, components + landmarks
        shapes = [(every, channels, size, size), (every,), (1,), (cells**2 * 2 * every,)]
        shapes += [(*shapes[-1], components), (landmarks, components), (1,), (classes, wide), (classes,)]
        return dict(zip(_NAMES.values(), shapes, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], scales: int = 1, views: int = 1) -> PatchScores:
        """The scores that arrays in a file describe."""
        return cls(**{field: arrays[name] for field, name in _NAMES.items()}, scales=scales, views=views)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays as a file holds them."""
        return {name: getattr(self, field) for field, name in _NAMES.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes follow from, besides classes and channels."""
        landmarks, components = self.landmarks.shape
        filters = len(self.filters) // self.scales
        sizes = {"components": components, "landmarks": landmarks, "filters": filters}
        return {**sizes, "scales": self.scales, "views": self.views}

    def __call__(self, pixels: Pixels) -> Float[np.ndarray, "n k"]:
        """Scores of images, whose pixels are from 0 to 255."""
        cells = math.isqrt(len(self.mean) // (2 * len(self.filters)))
        features = PatchFeatures(size=self.filters.shape[-1], cells=cells, mirrored=self.views == 2)
        features.shape_, features.contrast_ = pixels.shape[1:], float(self.contrast[0])
        features.filters_ = self.filters.reshape(self.scales, len(self.filters) // self.scales, -1)
        features.offsets_ = self.offsets.reshape(self.scales, -1)
        features.mean_, features.components_ = self.mean, self.components
        straight, curved = np.split(self.weight, [self.components.shape[1]], axis=1)
        kernel = KernelFeatures()
        kernel.landmarks_, kernel.gamma_ = self.landmarks, float(self.gamma[0])
        kernel.mean_, kernel.components_ = np.zeros(len(self.landmarks), np.float32), curved.T
        rows = features.transform(pixels)
        return np.asarray(rows @ straight.T + kernel.transform(rows) + self.bias, np.float64)
