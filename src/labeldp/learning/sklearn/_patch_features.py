"""Features of images that are learned from images alone, responses to frequent patches, and a classifier of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Shaped
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn._calibrated import group_folds
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier, check_released_rows
from labeldp.learning.sklearn._softmax import SoftmaxRegression
from labeldp.release import Release

#: Patches that filters are found from, images that components are found from, and rounds of clustering.
_PATCHES, _IMAGES, _ROUNDS = 60_000, 20_000, 10
#: Added to the standard deviation of a patch, as a share of the range of pixels, and to the variance of a direction of
#: scaled patches.
_CONTRAST, _DIRECTION = 10.0 / 255.0, 0.05
#: Least standard deviation of a patch that says something, as a share of the range of pixels.
_FLAT = 15.0 / 255.0
#: Responses below it are taken for none.
THRESHOLD = 0.25
PADDING = 2
#: Root of the mean squared length of a row of features.
_LENGTH = 4.0
_ENTRIES_PER_BLOCK = 1 << 23
#: Folds, of which one is held out to choose the number of components.
_FOLDS = 5

Pixels = Shaped[np.ndarray, "n c h w"]


@documented_in("labeldp.learning.sklearn")
class PatchFeatures(TransformerMixin, BaseEstimator):
    """Features of images: how strongly their parts respond to frequent patches, found without labels.

    Patches of all images are scaled to one contrast and whitened, and clustered by direction; each cluster is a filter.
    The response of a filter at each place, above a threshold and likewise its opposite, is averaged over the cells of a
    grid. The roots of these averages are projected to their leading components. A linear model of them is the head:
    ``make_pipeline(PatchFeatures(), SoftmaxRegression())``.

    Args:
        components: Number of features; fewer say less of an image, and noisy labels choose among them better.
        filters: Number of filters.
        size: Height and width of a patch in pixels.
        cells: Rows and columns of the grid of cells.

    Attributes:
        filters_: Filters of pixels, shape (filters, channels * size * size).
        contrast_: What is added to the variance of a patch.
        components_: Components of responses, shape (cells * cells * 2 * filters, components).

    Guarantee:
        Post-processing of public images: no label is seen.

    References:
        Coates and Ng 2011, The importance of encoding versus training with sparse coding and vector quantization;
        Thiry et al. 2021, The unreasonable effectiveness of patches in deep convolutional kernels methods.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.sklearn import PatchFeatures
        >>> images = np.random.default_rng(0).integers(0, 256, (40, 12, 12), dtype=np.uint8)
        >>> PatchFeatures(components=5, filters=8).fit_transform(images).shape
        (40, 5)

    Raises:
        InputError: The images are not numbers of shape (n, height, width) or (n, channels, height, width), are smaller
            than a patch or a grid, are of another shape than in ``fit``, or are all flat.
    """

    def __init__(self, components: int = 256, *, filters: int = 128, size: int = 6, cells: int = 3) -> None:
        self.components = components
        self.filters = filters
        self.size = size
        self.cells = cells

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Find filters and components from images of shape (n, height, width) or (n, channels, height, width)."""
        for name in ("components", "filters", "size", "cells"):
            _checks.whole(getattr(self, name), name, 1)
        images, chance = _images(X), np.random.default_rng(0)  # of public images
        if min(images.shape[2:]) < max(self.size, self.cells):
            raise InputError(
                f"expected images of at least {max(self.size, self.cells)} rows and columns, found {images.shape[2:]}"
            )
        self.shape_, span = images.shape[1:], float(images.max()) - float(images.min())
        self.contrast_ = (_CONTRAST * span) ** 2
        with threadpool_limits(1):  # so that sums are added in one order
            self._find_filters(_some_patches(images, self.size, chance), _FLAT * span)
            some = images[np.sort(chance.permutation(len(images))[:_IMAGES])]
            responses = np.concatenate(list(self._responses(some)))
            self.mean_ = responses.mean(axis=0)
            responses -= self.mean_
            variances, directions = np.linalg.eigh(responses.T @ responses / len(responses))
            kept = min(self.components, len(responses), len(variances))
            variances = np.maximum(variances[::-1][:kept], np.finfo(np.float32).eps * max(float(variances[-1]), 1e-30))
            # Components are whitened by half: equal lengths would raise those that say little.
            scaled = directions[:, ::-1][:, :kept] / variances**0.25
            self.components_ = (scaled * _LENGTH / np.sqrt(np.sqrt(variances).sum())).astype(np.float32)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:  # noqa: N803
        """Features of images, shape (n, components) or fewer columns if responses have fewer directions."""
        check_is_fitted(self)
        images = _images(X)
        if images.shape[1:] != self.shape_:
            raise InputError(f"expected images of shape {self.shape_}, as in fit, found {images.shape[1:]}")
        with threadpool_limits(1):
            parts = [(found - self.mean_) @ self.components_ for found in self._responses(images)]
        return np.concatenate([np.empty((0, self.components_.shape[1]), np.float32), *parts])

    def _find_filters(self, patches: Float[np.ndarray, "p d"], flat: float) -> None:
        """Whiten patches, and cluster the directions of those that are not flat."""
        kept = patches.std(axis=1) > flat
        if not kept.any():
            raise InputError("expected images with parts that are not flat, found none")
        scaled = self._scaled(patches)
        mean = scaled.mean(axis=0)
        variances, directions = np.linalg.eigh((scaled - mean).T @ (scaled - mean) / len(scaled))
        whitening = (directions / np.sqrt(np.maximum(variances, 0.0) + _DIRECTION)) @ directions.T
        points = ((scaled[kept] - mean) @ whitening).astype(np.float32)
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        centres = points[: self.filters].copy()
        for _ in range(_ROUNDS):
            near = points @ centres.T
            best = np.abs(near).argmax(axis=1)
            signs = np.sign(near[np.arange(len(points)), best])
            sums = np.zeros_like(centres)
            np.add.at(sums, best, signs[:, None] * points)
            lengths = np.linalg.norm(sums, axis=1, keepdims=True)
            centres = np.where(lengths > 1e-3, sums / np.maximum(lengths, 1e-3), centres)
        self.filters_ = (centres @ whitening).astype(np.float32)
        self.offsets_ = self.filters_ @ mean.astype(np.float32)

    def _scaled(self, patches: Float[np.ndarray, "p d"]) -> Float[np.ndarray, "p d"]:
        """Patches of mean 0 and about one contrast."""
        offsets = patches - patches.mean(axis=1, keepdims=True)
        return np.asarray(offsets / np.sqrt((offsets**2).mean(axis=1, keepdims=True) + self.contrast_), np.float32)

    def _responses(self, images: Pixels) -> Any:
        """The roots of mean responses in the cells of some images, block by block."""
        height, width = (edge + 2 * PADDING - self.size + 1 for edge in images.shape[2:])
        rows, columns = (edges(edge, self.cells) for edge in (height, width))
        areas = np.outer(np.diff([*rows, height]), np.diff([*columns, width])).astype(np.float32)
        for part in blocks(len(images), height * width * 2 * len(self.filters_), _ENTRIES_PER_BLOCK):
            padded = np.pad(images[part], [(0, 0), (0, 0), *[(PADDING, PADDING)] * 2])
            found = self._scaled(_windows(padded, self.size)) @ self.filters_.T - self.offsets_
            found = found.reshape(-1, height, width, len(self.filters_))
            both = np.concatenate([np.maximum(sign * found - THRESHOLD, 0.0) for sign in (1, -1)], axis=3)
            sums = np.add.reduceat(np.add.reduceat(both, rows, axis=1), columns, axis=2)
            yield np.sqrt(sums / areas[:, :, None]).reshape(len(padded), -1)


def _images(images: Any) -> Pixels:
    """Images of several channels.

    Raises:
        InputError: They are no images of one shape, or not finite.
    """
    try:
        pixels = np.asarray(images)
    except ValueError:
        pixels = np.empty(0)
    if pixels.ndim not in (3, 4) or pixels.dtype.kind not in "uif" or not len(pixels):
        raise InputError(
            f"expected images of shape (n, height, width) or (n, channels, height, width), found {pixels.dtype} of "
            f"shape {pixels.shape}"
        )
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise InputError("expected finite pixels, found others")
    return pixels[:, None] if pixels.ndim == 3 else pixels


def _windows(images: Pixels, size: int) -> Float[np.ndarray, "p d"]:
    """The patch at every place of every image."""
    found = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    return np.ascontiguousarray(np.moveaxis(found, 1, 3), dtype=np.float32).reshape(-1, images.shape[1] * size**2)


def _some_patches(images: Pixels, size: int, chance: np.random.Generator) -> Float[np.ndarray, "p d"]:
    """Patches at random places of random images."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    which, top, left = (chance.integers(0, windows.shape[axis], _PATCHES) for axis in (0, 2, 3))
    return np.asarray(windows[which, :, top, left].reshape(_PATCHES, -1), dtype=np.float32)


def edges(length: int, cells: int) -> list[int]:
    """The first place of each cell."""
    return [cell * length // cells for cell in range(cells)]


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class PatchClassifier(ProbabilityClassifier):
    """Linear classifier of ``PatchFeatures``, whose number of components released labels choose.

    Args:
        components: Numbers of components to choose among.
        filters: Number of filters.

    Attributes:
        classes_: The declared classes.
        features_: The features, learned from all images.
        head_: The linear model of leading components, a ``SoftmaxRegression``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice.

    References:
        See ``PatchFeatures`` and ``SoftmaxRegression``.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.sklearn import PatchClassifier
        >>> across = np.tile([[0], [250]], (300, 6, 12)).astype(np.uint8)
        >>> images = np.concatenate([across, np.moveaxis(across, 1, 2)])
        >>> space = Classes(["across", "upright"])
        >>> release = Curator(["across"] * 300 + ["upright"] * 300, space).randomize(epsilon=2.0)
        >>> PatchClassifier((1, 2), filters=4).fit(images, release).predict(images[[0, 300]]).tolist()
        ['across', 'upright']

    Raises:
        InputError: See ``PatchFeatures``.
    """

    components: Sequence[int] = (64, 256)
    _: KW_ONLY
    filters: int = 128

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Learn features from images of shape (n, height, width) or (n, channels, height, width), and fit the head.

        Args:
            X: The images.
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,), whose rows judge components together; by default each row
                is one.
        """
        check_released_rows(X, require_release(y))
        self.features_ = PatchFeatures(max(self._counts()), filters=self.filters).fit(X)
        return self.fit_head(self.features_.transform(X), y, groups)

    def fit_head(self, features: Float[np.ndarray, "n d"], y: Release, groups: Any = None) -> Self:
        """Fit the head alone, to features of n rows by ``features_``: those of one table serve several releases."""
        release = require_release(y)
        check_released_rows(features, release)
        count = self._best(sorted({min(each, features.shape[1]) for each in self._counts()}), features, release, groups)
        self.head_ = SoftmaxRegression().fit(features[:, :count], release)
        self._set_classes(release.space)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        check_is_fitted(self)
        found = self.features_.transform(X)[:, : self.head_.n_features_in_]
        return np.asarray(self.head_.predict_proba(found))

    def _counts(self) -> list[int]:
        return [_checks.whole(each, "components", 1) for each in self.components]

    def _best(self, counts: Sequence[int], found: np.ndarray, release: Release, groups: Any) -> int:
        """The number of components whose head gives a held-out fifth the largest likelihood."""
        if len(counts) == 1:
            return counts[0]
        fit, held = group_folds(len(release), _FOLDS, groups)[0]
        heads = [SoftmaxRegression().fit(found[fit, :count], release[fit]) for count in counts]
        scores = [head.score(found[held, : head.n_features_in_], release[held]) for head in heads]
        return counts[int(np.argmax(scores))]
