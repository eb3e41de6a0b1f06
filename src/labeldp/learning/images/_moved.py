"""Copies of images that are moved a little: of one class with the image, and free, as images are public."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.ndimage import affine_transform

from labeldp import _checks
from labeldp._shapes import Shaped
from labeldp.learning.images._patch_features import pixels_of

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
