"""Scores of classes from components of features and their nearness to landmarks, as a file has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.learning.images._kernel_features import KernelFeatures, unit_rows

#: The arrays by their name in a file.
_NAMES: Mapping[str, str] = MappingProxyType(
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
        return dict(zip(_NAMES.values(), shapes, strict=True))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> KernelHead:
        """The head that arrays in a file describe."""
        return cls(**{field: arrays[name] for field, name in _NAMES.items()})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays as a file holds them."""
        return {_NAMES[field.name]: getattr(self, field.name) for field in fields(self)}

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
