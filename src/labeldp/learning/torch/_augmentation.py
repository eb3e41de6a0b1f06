"""Random changes of training images: crop, flip, turn and cutout, independently for each image of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from labeldp._checks import not_negative, share, whole
from labeldp.errors import InputError

_MOST_POINTS = 1 << 14


@dataclass(frozen=True)
class Augmentation:
    """Random crops, left-right flips, turns and cutout, for ``TorchClassifier(augment=...)``; made by ``augmentation``.

    Attributes:
        crop: Largest shift of an image in pixels, in each direction; new pixels are 0.
        flip: Whether to mirror each image with probability 1/2.
        cutout: Side of the square that is set to 0.
        turn: Largest turn in degrees, to either side.
        stretch: Largest share by which an image grows or shrinks.
    """

    crop: int
    flip: bool
    cutout: int
    turn: float = 0.0
    stretch: float = 0.0

    def __call__(self, images: Tensor) -> Tensor:
        """Change images with PyTorch's random numbers."""
        if not isinstance(images, Tensor) or images.ndim != 4 or not images.is_floating_point():
            found = tuple(images.shape) if isinstance(images, Tensor) else type(images).__name__
            raise InputError(
                f"expected images of shape (rows, channels, height, width) for augmentation, found {found}; reshape "
                "the features, or leave augmentation out"
            )
        height, width = images.shape[2:]
        if self.cutout > min(height, width):
            raise InputError(f"expected a cutout within images of {height} x {width} pixels, found {self.cutout}")
        with torch.no_grad():
            return _steps(self, height, width)(images)


@lru_cache
def _steps(settings: Augmentation, height: int, width: int) -> nn.Sequential:
    """The steps for images of one size, without state."""
    from kornia.augmentation import (  # noqa: PLC0415 (slow to import)
        RandomAffine,
        RandomCrop,
        RandomErasing,
        RandomHorizontalFlip,
    )

    steps: list[nn.Module] = []
    if settings.crop:
        steps.append(RandomCrop((height, width), padding=settings.crop))
    if settings.flip:
        steps.append(RandomHorizontalFlip(p=0.5))
    if settings.turn or settings.stretch:
        scale = 1.0 - settings.stretch, 1.0 + settings.stretch
        steps.append(RandomAffine(settings.turn, scale=scale, padding_mode="border", p=1.0))
    if settings.cutout:
        part = settings.cutout**2 / (height * width)
        steps.append(RandomErasing(p=1.0, scale=(part, part), ratio=(1.0, 1.0), value=0.0))
    return nn.Sequential(*steps)


def augmentation(
    crop: int = 4, *, flip: bool = True, cutout: int = 8, turn: float = 0.0, stretch: float = 0.0
) -> Augmentation:
    """Augment images in training as the papers do, by random crop, left-right flip and cutout, or by turns too.

    Args:
        crop: Largest shift of an image in pixels, in each direction; 0 for no crop.
        flip: Whether to mirror each image with probability 1/2; False if left and right matter, as in digits.
        cutout: Side in pixels of a square at a random place that is set to 0; 0 for none.
        turn: Largest turn in degrees, to either side; what an image shows at its edge goes on beyond it.
        stretch: Largest share by which an image grows or shrinks, below 1.

    References:
        Ghazi et al. 2021, Appendix B; DeVries and Taylor 2017 (cutout), whose square may lie partly outside.

    Example:
        >>> import torch
        >>> from labeldp.learning.torch import augmentation
        >>> augmentation(crop=2, flip=False)(torch.ones(5, 1, 28, 28)).shape
        torch.Size([5, 1, 28, 28])
    """
    return Augmentation(
        whole(crop, "crop", 0, _MOST_POINTS),
        flip=bool(flip),
        cutout=whole(cutout, "cutout", 0, _MOST_POINTS),
        turn=not_negative(turn, "turn"),
        stretch=share(stretch, "stretch", "[)"),
    )
