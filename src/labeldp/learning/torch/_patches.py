"""The classifier of patches as a network, whose head alone has weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, conv2d, normalize, pad, relu

from labeldp.errors import InputError
from labeldp.learning.images import PADDING, THRESHOLD, PatchClassifier, cell_weights

#: Images whose responses are kept at a time: those of one are many times as large as it.
_IMAGES = 16


def patches(
    classes: int,
    channels: int = 1,
    components: int = 256,
    landmarks: int = 4096,
    filters: int = 256,
    size: int = 6,
    cells: int = 4,
    views: int = 1,
    scales: int = 1,
) -> nn.Sequential:
    """A linear layer on patches' features and their nearness to landmarks, all random until ``with_patches`` sets them.

    Args:
        classes: Number of classes.
        channels: Channels of an image, whose pixels are from 0 to 255.
        components: Number of features of patches.
        landmarks: Number of landmarks.
        filters: Number of filters of each scale.
        size: Height and width of a filter.
        cells: Rows and columns of the grid of cells.
        views: 2 if responses are the mean of those to images and to their mirror images.
        scales: Number of scales, each half of the one before.

    Raises:
        InputError: There are neither one nor two views.
    """
    if views not in (1, 2):
        raise InputError(f"expected views of 1, or of 2 with mirror images, found {views!r:.100}")
    features = _Responses((scales * filters, channels, size, size), components, cells, scales, mirrored=views == 2)
    return nn.Sequential(features, _Nearness(components, landmarks), nn.Linear(components + landmarks, classes))


class _Responses(nn.Module):
    """Features of images of fixed filters; nothing here is trained."""

    def __init__(
        self, filters: tuple[int, int, int, int], components: int, cells: int, scales: int, *, mirrored: bool
    ) -> None:
        super().__init__()
        self.cells, self.scales, self.mirrored = cells, scales, mirrored
        self.register_buffer("filters", torch.randn(filters))
        self.register_buffer("offsets", torch.zeros(filters[0]))
        self.register_buffer("contrast", torch.ones(1))
        self.register_buffer("mean", torch.zeros(cells * cells * 2 * filters[0]))
        self.register_buffer("components", torch.randn(cells * cells * 2 * filters[0], components))

    def forward(self, images: Tensor) -> Tensor:
        """Features of images of shape (n, channels, height, width)."""
        return torch.cat([self._features(part) for part in images.split(_IMAGES)])

    def _features(self, images: Tensor) -> Tensor:
        found = self._roots(images)
        if self.mirrored:
            found = (found + self._roots(images.flip(-1))) / 2
        return normalize((found - self.mean) @ self.components)

    def _roots(self, images: Tensor) -> Tensor:
        found = []
        for filters, offsets in zip(self.filters.chunk(self.scales), self.offsets.chunk(self.scales), strict=True):
            found.append(self._means(filters, offsets, images))
            images = avg_pool2d(images, 2)
        return torch.cat(found, dim=1).sqrt()

    def _means(self, filters: Tensor, offsets: Tensor, images: Tensor) -> Tensor:
        padded = pad(images, (PADDING,) * 4)
        box = torch.full_like(filters[:1], 1.0 / filters[0].numel())
        mean = conv2d(padded, box)
        variance = (conv2d(padded**2, box) - mean**2).clamp(min=0.0)
        sums = filters.sum(dim=(1, 2, 3))[:, None, None]
        found = (conv2d(padded, filters) - mean * sums) / (variance + self.contrast).sqrt()
        found = found - offsets[:, None, None]
        both = torch.cat([relu(found - THRESHOLD), relu(-found - THRESHOLD)], dim=1)
        rows, columns = (torch.from_numpy(cell_weights(length, self.cells)).to(both) for length in both.shape[2:])
        return torch.einsum("rh,nkhw,cw->nrck", rows, both, columns).flatten(1)


class _Nearness(nn.Module):
    """Features, and their nearness to fixed landmarks."""

    def __init__(self, components: int, landmarks: int) -> None:
        super().__init__()
        self.register_buffer("landmarks", torch.randn(landmarks, components))
        self.register_buffer("gamma", torch.ones(1))

    def forward(self, features: Tensor) -> Tensor:
        """Both side by side, shape (n, components + landmarks)."""
        squares = (features**2).sum(dim=1, keepdim=True) + (self.landmarks**2).sum(dim=1)
        near = (self.gamma * (2.0 * features @ self.landmarks.T - squares)).exp()
        return torch.cat([features, near], dim=1)


def with_patches(network: nn.Sequential, model: PatchClassifier, order: np.ndarray, weight: float = 1.0) -> None:
    """Give a network of ``patches`` the features and the head of a fitted classifier of images.

    Args:
        network: A network of ``patches`` of the same sizes.
        model: The classifier.
        order: The place of each declared class in ``classes_``.
        weight: Factor of the classifier's scores.
    """
    features, kernel, (responses, nearness, linear) = model.features_, model.kernel_, network
    straight, curved = np.split(weight * model.coef_[order], [kernel.landmarks_.shape[1]], axis=1)
    curved = curved @ kernel.components_.T.astype(np.float64)
    with torch.no_grad():
        for buffer, values in (
            (responses.filters, features.filters_),
            (responses.offsets, features.offsets_),
            (responses.contrast, np.array([features.contrast_])),
            (responses.mean, features.mean_),
            (responses.components, features.components_),
            (nearness.landmarks, kernel.landmarks_),
            (nearness.gamma, np.array([kernel.gamma_])),
            (linear.weight, np.hstack([straight, curved])),
            (linear.bias, weight * model.intercept_[order] - curved @ kernel.mean_),
        ):
            buffer.copy_(torch.from_numpy(np.ascontiguousarray(values)).reshape(buffer.shape))
