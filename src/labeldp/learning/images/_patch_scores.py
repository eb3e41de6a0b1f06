"""Scores of classes for images by a fitted classifier of patches, as its file holds them.

They are those of components of features, and of their nearness to landmarks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.images._kernel_features import KernelFeatures, unit_rows
from labeldp.learning.images._patch_classifier import PatchClassifier
from labeldp.learning.images._patch_features import PatchFeatures, Pixels

#: The arrays by their name in a file.
_HEAD_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **{name: f"0.{name}" for name in ("mean", "components")},
        **{name: f"1.{name}" for name in ("landmarks", "gamma")},
        **{name: f"2.{name}" for name in ("weight", "bias")},
    }
)


@dataclass(frozen=True, eq=False)
class KernelHead:
    """The part of a classifier of images that follows the features, in declared order of classes.

    Attributes:
        mean: Mean features, such as responses to patches, or those of an encoder.
        components: Their components.
        landmarks: Components of the landmarks.
        gamma: Factor of squared distances, shape (1,).
        weight: Coefficients of components and of nearness, shape (k, d).
        bias: Intercepts, shape (k,).
    """

    mean: Float[np.ndarray, "r"]
    components: Float[np.ndarray, "r c"]
    landmarks: Float[np.ndarray, "l c"]
    gamma: Float[np.ndarray, "1"]
    weight: Float[np.ndarray, "k d"]
    bias: Float[np.ndarray, "k"]

    @classmethod
    def of(cls, model: Any, order: Int[np.ndarray, "k"], weight: float = 1.0) -> KernelHead:
        """The head of a fitted ``PatchClassifier``, times a weight.

        Args:
            model: The classifier.
            order: The place of each declared class in ``classes_``.
            weight: Factor of its scores.
        """
        features, kernel = model.features_, model.kernel_
        straight, curved = np.split(weight * model.coef_[order], [kernel.landmarks_.shape[1]], axis=1)
        curved = curved @ kernel.components_.T.astype(np.float64)
        parts = (
            features.mean_,
            features.components_,
            kernel.landmarks_,
            np.array([kernel.gamma_]),
            np.hstack([straight, curved]),
            weight * model.intercept_[order] - curved @ kernel.mean_,
        )
        return cls(*(np.asarray(part, np.float32) for part in parts))

    @staticmethod
    def shapes(
        classes: int, outputs: int, components: int = 256, landmarks: int = 4096, **_: int
    ) -> dict[str, tuple[int, ...]]:
        """The shape of each array in a file of these sizes."""
        shapes = [(outputs,), (outputs, components), (landmarks, components), (1,)]
        shapes += [(classes, components + landmarks), (classes,)]
        return dict(zip(_HEAD_NAMES.values(), shapes, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> KernelHead:
        """The head that arrays in a file describe."""
        return cls(**{field: arrays[name] for field, name in _HEAD_NAMES.items()})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays as a file holds them."""
        return {_HEAD_NAMES[field.name]: getattr(self, field.name) for field in fields(self)}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes follow from, besides classes and features."""
        landmarks, components = self.landmarks.shape
        return {"components": components, "landmarks": landmarks}

    def __call__(self, features: Float[np.ndarray, "n r"]) -> Float[np.ndarray, "n k"]:
        """Scores of features as they were given to the classifier."""
        return self.scores(unit_rows(np.asarray(features, np.float32), self.mean, self.components))

    def scores(self, rows: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n k"]:
        """Scores of components in rows of length one."""
        straight, curved = np.split(self.weight, [self.components.shape[1]], axis=1)
        kernel = KernelFeatures()
        kernel.landmarks_, kernel.gamma_ = self.landmarks, float(self.gamma[0])
        kernel.mean_, kernel.components_ = np.zeros(len(self.landmarks), np.float32), curved.T
        return np.asarray(rows @ straight.T + kernel.transform(rows) + self.bias, np.float64)


#: The arrays besides those of the head, by their name in a file.
_NAMES: Mapping[str, str] = MappingProxyType({name: f"0.{name}" for name in ("filters", "offsets", "contrast")})


@dataclass(frozen=True, eq=False)
class PatchScores:
    """Scores of classes, in declared order: a head of responses to patches.

    Attributes:
        filters: Filters of all scales, shape (scales * filters, channels, size, size).
        offsets: Responses of filters to the mean patch.
        contrast: Added to the variance of a patch, shape (1,).
        head: The head of mean responses in each cell.
        scales: Number of scales, each half of the one before.
        views: 2 if responses are the mean of those to images and to their mirror images, else 1.
    """

    filters: Float[np.ndarray, "f channels size size"]
    offsets: Float[np.ndarray, "f"]
    contrast: Float[np.ndarray, "1"]
    head: KernelHead
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
        features = model.features_
        (scales, filters), channels = features.offsets_.shape, features.shape_[0]
        parts = (
            features.filters_.reshape(scales * filters, channels, features.size, features.size),
            features.offsets_.ravel(),
            np.array([features.contrast_]),
        )
        filters_, offsets, contrast = (np.asarray(part, np.float32) for part in parts)
        head, views = KernelHead.of(model, order, weight), 1 + bool(features.mirrored)
        return cls(filters_, offsets, contrast, head, scales, views)

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
        """The shape of each array in a file of these sizes."""
        if views not in (1, 2):
            raise InputError(f"expected views of 1, or of 2 with mirror images, found {views!r:.100}")
        every = scales * filters
        shapes = ((every, channels, size, size), (every,), (1,))
        head = KernelHead.shapes(classes, cells**2 * 2 * every, components, landmarks)
        return dict(zip(_NAMES.values(), shapes, strict=True)) | head

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], scales: int = 1, views: int = 1) -> PatchScores:
        """The scores that arrays in a file describe."""
        own = {field: arrays[name] for field, name in _NAMES.items()}
        return cls(**own, head=KernelHead.from_arrays(arrays), scales=scales, views=views)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays as a file holds them."""
        return {name: getattr(self, field) for field, name in _NAMES.items()} | self.head.arrays

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that shapes follow from, besides classes and channels."""
        filters = len(self.filters) // self.scales
        return {**self.head.sizes, "filters": filters, "scales": self.scales, "views": self.views}

    def __call__(self, pixels: Pixels) -> Float[np.ndarray, "n k"]:
        """Scores of images, whose pixels are from 0 to 255."""
        cells = math.isqrt(len(self.head.mean) // (2 * len(self.filters)))
        features = PatchFeatures(size=self.filters.shape[-1], cells=cells, mirrored=self.views == 2)
        features.shape_, features.contrast_ = pixels.shape[1:], float(self.contrast[0])
        features.filters_ = self.filters.reshape(self.scales, len(self.filters) // self.scales, -1)
        features.offsets_ = self.offsets.reshape(self.scales, -1)
        features.mean_, features.components_ = self.head.mean, self.head.components
        return self.head.scores(features.transform(pixels))
