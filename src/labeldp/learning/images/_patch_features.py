"""Features of images that are learned from images alone: responses to frequent patches.

Copies of images that are moved a little are of one class with the image, and free, as images are public.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.ndimage import affine_transform
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Shaped
from labeldp._threads import blocks, over_chunks
from labeldp.errors import InputError
from labeldp.learning.images._kernel_features import ROWS, leading_components, unit_rows
from labeldp.learning.images._kernels import add_cell_means

#: Patches that filters are found from, and rounds of clustering.
_PATCHES, _ROUNDS = 60_000, 10
#: Responses of the images that components are found from, at most.
_RESPONSES = 200_000_000
#: Added to the standard deviation of a patch, as a share of the range of pixels, and to the variance of a direction of
#: scaled patches.
_CONTRAST, _DIRECTION = 10.0 / 255.0, 0.05
#: Least standard deviation of a patch that says something, as a share of the range of pixels.
_FLAT = 15.0 / 255.0
#: Responses below it are taken for none.
THRESHOLD = 0.25
PADDING = 2
#: Features, filters and scales of images in gray, and in colour, which says more of an image.
_IN_GRAY, _IN_COLOUR = (256, 256, 1), (768, 512, 2)
#: Components are whitened by half.
_WHITENING = 0.25
#: Images whose responses are projected together, and products of filters and patches of a thread.
_IMAGES_PER_BLOCK, _PRODUCTS_PER_BLOCK = 256, 1 << 20
_PATCHES_PER_BLOCK = 1 << 12

Pixels = Shaped[np.ndarray, "n c h w"]


@documented_in("labeldp.learning.images")
@dataclass(eq=False, repr=False)
class PatchFeatures(TransformerMixin, BaseEstimator):
    """Features of images: how strongly their parts respond to frequent patches, found without labels.

    Patches of all images are scaled to one contrast and whitened, and clustered by direction; each cluster is a filter.
    The response of a filter at each place, above a threshold and likewise its opposite, is averaged over the cells of a
    grid, which overlap: a place counts for the cells around it in proportion to its nearness. The roots of these
    averages, at all scales, are projected to their leading components, and rows are scaled to length one. A linear
    model of them is the simplest head: ``make_pipeline(PatchFeatures(), SoftmaxRegression())``.

    Args:
        components: Number of features; fewer say less of an image, and noisy labels choose among them better. None:
            256, and 768 in colour.
        filters: Number of filters of each scale. None: 256, and 512 in colour.
        size: Height and width of a patch in pixels.
        cells: Rows and columns of the grid of cells.
        mirrored: Whether responses are the mean of those to an image and to its mirror image, left to right, where both
            are of one class as in most photographs.
        scales: Number of scales: the first is that of the images, and each other one half of the one before. Scales at
            which images are smaller than a patch or a grid are left out. None: 1, and 2 in colour.

    Attributes:
        filters_: Filters of pixels of each scale, shape (scales, filters, channels * size * size).
        offsets_: Responses of filters to the mean patch, shape (scales, filters).
        contrast_: What is added to the variance of a patch.
        components_: Components of responses, shape (scales * cells * cells * 2 * filters, components).

    Guarantee:
        Post-processing of public images: no label is seen.

    References:
        Coates and Ng 2011, The importance of encoding versus training with sparse coding and vector quantization;
        Thiry et al. 2021, The unreasonable effectiveness of patches in deep convolutional kernels methods;
        Halko, Martinsson and Tropp 2011, Finding structure with randomness, for the components.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.images import PatchFeatures
        >>> images = np.random.default_rng(0).integers(0, 256, (40, 12, 12), dtype=np.uint8)
        >>> PatchFeatures(components=5, filters=8).fit_transform(images).shape
        (40, 5)

    Raises:
        InputError: The images are not numbers of shape (n, height, width), (n, channels, height, width) or (n, height,
            width, 3), are smaller than a patch or a grid, are of another shape than in ``fit``, or are all flat.
    """

    components: int | None = None
    _: KW_ONLY
    filters: int | None = None
    size: int = 6
    cells: int = 4
    mirrored: bool = False
    scales: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002, N803 (scikit-learn's names)
        """Find filters and components from images of one of the shapes."""
        for name in ("size", "cells"):
            _checks.whole(getattr(self, name), name, 1)
        images, chance = pixels_of(X), np.random.default_rng(0)  # of public images
        usual = _IN_GRAY if images.shape[1] == 1 else _IN_COLOUR
        components, filters, scales = (
            usual[place] if (given := getattr(self, name)) is None else _checks.whole(given, name, 1)
            for place, name in enumerate(("components", "filters", "scales"))
        )
        least = max(self.size, self.cells)
        if min(images.shape[2:]) < least:
            raise InputError(f"expected images of at least {least} rows and columns, found {images.shape[2:]}")
        self.shape_, span = images.shape[1:], float(images.max()) - float(images.min())
        self.contrast_ = (_CONTRAST * span) ** 2
        with threadpool_limits(1):  # so that sums are added in one order
            found, scaled = list[tuple[np.ndarray, np.ndarray]](), images
            while len(found) < scales and min(scaled.shape[2:]) >= least:
                found.append(self._found_filters(_some_patches(scaled, self.size, chance), _FLAT * span, filters))
                scaled = _halved(scaled)
            count = min(len(filters) for filters, _ in found)
            self.filters_, self.offsets_ = (
                np.stack([each[:count] for each in part]) for part in zip(*found, strict=True)
            )
            most = min(ROWS, max(1, _RESPONSES // (2 * self.cells**2 * self.offsets_.size)))
            some = self._responses(images[np.sort(chance.permutation(len(images))[:most])])
            self.mean_, self.components_ = leading_components(some, components, _WHITENING)
        return self

    def transform(self, X: Any) -> Float[np.ndarray, "n d"]:  # noqa: N803
        """Features of images in rows of length one, shape (n, components), or fewer columns if there are few images."""
        check_is_fitted(self)
        images = pixels_of(X)
        if images.shape[1:] != self.shape_:
            raise InputError(f"expected images of shape {self.shape_}, as in fit, found {images.shape[1:]}")
        found = np.empty((len(images), self.components_.shape[1]), np.float32)
        with threadpool_limits(1):
            for rows in blocks(len(images), entries=_IMAGES_PER_BLOCK):
                found[rows] = unit_rows(self._responses(images[rows]), self.mean_, self.components_)
        return found

    def _found_filters(
        self, patches: Float[np.ndarray, "p d"], flat: float, count: int
    ) -> tuple[Float[np.ndarray, "f d"], Float[np.ndarray, "f"]]:
        """Whiten patches, and cluster the directions of those that are not flat: filters and offsets."""
        kept = patches.std(axis=1) > flat
        if not kept.any():
            raise InputError("expected images with parts that are not flat, found none")
        offsets = patches - patches.mean(axis=1, keepdims=True)
        scaled = offsets / np.sqrt((offsets**2).mean(axis=1, keepdims=True) + self.contrast_)
        mean = scaled.mean(axis=0)
        variances, directions = np.linalg.eigh((scaled - mean).T @ (scaled - mean) / len(scaled))
        whitening = (directions / np.sqrt(np.maximum(variances, 0.0) + _DIRECTION)) @ directions.T
        points = ((scaled[kept] - mean) @ whitening).astype(np.float32)
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        filters = _directions(points, count) @ whitening
        # A patch less its mean has the same product with a filter less its own.
        return (filters - filters.mean(axis=1, keepdims=True)).astype(np.float32), (filters @ mean).astype(np.float32)

    def _responses(self, images: Pixels) -> Float[np.ndarray, "n r"]:
        """The roots of mean responses in the cells of images, and of mirror images."""
        found = []
        for filters, offsets in zip(self.filters_, self.offsets_, strict=True):
            found.append(self._responses_of(filters, offsets, images))
            if self.mirrored:
                found[-1] += self._responses_of(filters, offsets, images[..., ::-1])
                found[-1] *= np.float32(0.5)
            images = _halved(images)
        return found[0] if len(found) == 1 else np.hstack(found)

    def _responses_of(
        self, filters: Float[np.ndarray, "f d"], offsets: Float[np.ndarray, "f"], images: Pixels
    ) -> Float[np.ndarray, "n r"]:
        height, width = (edge + 2 * PADDING - self.size + 1 for edge in images.shape[2:])
        weights = cell_weights(height, self.cells), cell_weights(width, self.cells)
        across = np.ascontiguousarray(filters.T)
        means = np.zeros((len(images), self.cells, self.cells, 2, len(filters)), np.float32)

        def add(rows: slice) -> None:  # images do not touch each other, so threads change no bit
            padded = np.pad(images[rows], [(0, 0), (0, 0), *[(PADDING, PADDING)] * 2])
            patches = _windows(padded, self.size)
            mean = patches.mean(axis=1)
            variance = np.maximum(np.einsum("pd,pd->p", patches, patches) / patches.shape[1] - mean**2, 0.0)
            places = (len(padded), height, width)
            add_cell_means(
                (patches @ across).reshape(*places, -1),
                (1.0 / np.sqrt(variance + np.float32(self.contrast_))).reshape(places),
                offsets + np.float32(THRESHOLD),
                offsets - np.float32(THRESHOLD),
                *weights,
                np.empty((self.cells + 1, 2, len(filters)), np.float32),
                means[rows],
            )

        over_chunks(add, len(images), max(1, _PRODUCTS_PER_BLOCK // (height * width * len(filters))))
        return np.sqrt(means, out=means).reshape(len(images), -1)


def pixels_of(images: Any) -> Pixels:
    """Images of several channels, which come first."""
    try:
        pixels = np.asarray(images)
    except ValueError:
        pixels = np.empty(0)
    if pixels.ndim not in (3, 4) or pixels.dtype.kind not in "uif" or not len(pixels):
        raise InputError(
            "expected images of shape (n, height, width), (n, channels, height, width) or (n, height, width, 3), "
            f"found {pixels.dtype} of shape {pixels.shape}"
        )
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise InputError("expected finite pixels, found others")
    if pixels.ndim == 3:
        return pixels[:, None]
    return np.moveaxis(pixels, 3, 1) if pixels.shape[3] == 3 and pixels.shape[1] != 3 else pixels


def _halved(images: Pixels) -> Shaped[np.ndarray, "n c _ _"]:
    """Images of half the height and width: means of two by two pixels, without an odd last row and column."""
    height, width = (edge // 2 for edge in images.shape[2:])
    fours = images[:, :, : 2 * height, : 2 * width].reshape(*images.shape[:2], height, 2, width, 2)
    return np.asarray(fours.mean(axis=(3, 5), dtype=np.float32))


def cell_weights(length: int, cells: int) -> Float[np.ndarray, "cells length"]:
    """The weight of each place in the mean of each cell along one axis: tents, whose tops are the centres of cells.

    A place between two centres counts for both in proportion to its nearness, so that features change little when an
    image is moved a little; beyond the outer centres it counts for the outer cell alone.
    """
    places = np.clip((np.arange(length) + 0.5) / length * cells - 0.5, 0, cells - 1)
    weights = np.maximum(1.0 - np.abs(places - np.arange(cells)[:, None]), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def _windows(images: Pixels, size: int) -> Float[np.ndarray, "p d"]:
    """The patch at every place of every image."""
    found = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    return np.ascontiguousarray(np.moveaxis(found, 1, 3), dtype=np.float32).reshape(-1, images.shape[1] * size**2)


def _some_patches(images: Pixels, size: int, chance: np.random.Generator) -> Float[np.ndarray, "p d"]:
    """Patches at random places of random images."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(2, 3))
    which, top, left = (chance.integers(0, windows.shape[axis], _PATCHES) for axis in (0, 2, 3))
    return np.asarray(windows[which, :, top, left].reshape(_PATCHES, -1), dtype=np.float32)


def _directions(points: Float[np.ndarray, "p d"], count: int) -> Float[np.ndarray, "c d"]:
    """Centres of clusters of points by direction, where opposite points are alike.

    References:
        Dhillon and Modha 2001 (spherical k-means).
    """
    centres = points[:count].copy()
    for _ in range(_ROUNDS):
        best, signs = np.empty(len(points), np.int64), np.empty(len(points), np.float32)
        for rows in blocks(len(points), entries=_PATCHES_PER_BLOCK):
            near = points[rows] @ centres.T
            best[rows] = np.abs(near).argmax(axis=1)
            signs[rows] = np.sign(near[np.arange(len(near)), best[rows]])
        sums = csr_matrix((signs, (best, np.arange(len(points)))), shape=(len(centres), len(points))) @ points
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(lengths > 1e-3, sums / np.maximum(lengths, 1e-3), centres)
    return np.asarray(centres)


#: Images with their copies, unless there are more images, and the most copies of one.
_WITH_COPIES, _COPIES = 60_000, 2

#: Largest turn in degrees, shear, change of the logarithm of a side, and shift as a share of a side.
_TURN, _SHEAR, _STRETCH, _SHIFT = 10.0, 0.1, 0.08, 0.036


def moved_copies(images: Any, copies: int | None = None) -> list[Shaped[np.ndarray, "n c h w"]]:
    """Sets of copies of images, each turned, sheared, stretched and shifted by a little in a way of its own.

    A copy is of one class with its image in most tables. The turn is up to 10 degrees, and the shift 3.6 % of a side;
    what an image shows at its edge goes on beyond it.

    Args:
        images: n images in a form that ``PatchFeatures`` takes.
        copies: Number of sets; None: 2, or as many as make 60 000 images with the images themselves.

    Returns:
        Images of several channels, which come first.

    Guarantee:
        Post-processing of public images: no label is seen.

    References:
        Simard, Steinkraus and Platt 2003, Best practices for convolutional neural networks applied to visual document
        analysis.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.images import ImageRows, KernelFeatures, PatchFeatures, moved_copies
        >>> images = np.random.default_rng(0).integers(0, 256, (40, 12, 12), dtype=np.uint8)
        >>> encoder = PatchFeatures(components=5, filters=8).fit(images)  # or your own
        >>> copies = [encoder.transform(each) for each in moved_copies(images, 2)]
        >>> rows = ImageRows.of(encoder.transform(images), kernel=KernelFeatures(components=10), copies=copies)
        >>> rows.features.shape
        (120, 15)

    Raises:
        InputError: The images have another form, or copies is no whole number of at least 0.
    """
    pixels, chance = pixels_of(images), np.random.default_rng(0)  # of public images
    usual = min(_COPIES, max(0, _WITH_COPIES // len(pixels) - 1))
    count = usual if copies is None else _checks.whole(copies, "copies", 0)
    return [_moved(pixels, chance) for _ in range(count)]


def _moved(images: Shaped[np.ndarray, "n c h w"], chance: np.random.Generator) -> Shaped[np.ndarray, "n c h w"]:
    """A copy of each image, bilinear between pixels."""
    found, sides = np.empty_like(images), np.array(images.shape[2:])
    for image, place in zip(images, found, strict=True):
        turn, shear = np.deg2rad(_TURN) * chance.uniform(-1, 1), _SHEAR * chance.uniform(-1, 1)
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        move = rotation @ [[1.0, shear], [0.0, 1.0]] * np.exp(_STRETCH * chance.uniform(-1, 1, 2))
        centre = (sides - 1) / 2.0
        offset = centre - move @ centre + _SHIFT * sides * chance.uniform(-1, 1, 2)
        for channel, target in zip(image, place, strict=True):
            affine_transform(channel, move, offset, output=target, order=1, mode="nearest")
    return found
