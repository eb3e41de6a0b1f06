"""Random changes of training images: crop, flip and cutout, independently for each image of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn

from labeldp._checks import whole
from labeldp.errors import InputError

_MOST_POINTS = 1 << 14


@dataclass(frozen=True)
class Augmentation:
    """Random crops, left-right flips and cutout, for ``TorchClassifier(augment=...)``; made by ``augmentation``.

    Attributes:
        crop: Largest shift of an image in pixels, in each direction; new pixels are 0.
        flip: Whether to mirror each image with probability 1/2.
        cutout: Side of the square that is set to 0.
    """

    crop: int
    flip: bool
    cutout: int

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
    from kornia.augmentation import RandomCrop, RandomErasing, RandomHorizontalFlip  # noqa: PLC0415 (slow to import)

    steps: list[nn.Module] = []
    if settings.crop:
        steps.append(RandomCrop((height, width), padding=settings.crop))
    if settings.flip:
        steps.append(RandomHorizontalFlip(p=0.5))
    if settings.cutout:
        share = settings.cutout**2 / (height * width)
        steps.append(RandomErasing(p=1.0, scale=(share, share), ratio=(1.0, 1.0), value=0.0))
    return nn.Sequential(*steps)


def augmentation(crop: int = 4, *, flip: bool = True, cutout: int = 8) -> Augmentation:
    """Augment images in training as the papers do: random crop, left-right flip and cutout.

    Args:
        crop: Largest shift of an image in pixels, in each direction; 0 for no crop.
        flip: Whether to mirror each image with probability 1/2; False if left and right matter, as in digits.
        cutout: Side in pixels of a square at a random place that is set to 0; 0 for none.

    References:
        Ghazi et al. 2021, Appendix B; DeVries and Taylor 2017 (cutout), whose square may lie partly outside.

    Example:
        >>> import torch
        >>> from labeldp.learning.torch import augmentation
        >>> augmentation(crop=2, flip=False)(torch.ones(5, 1, 28, 28)).shape
        torch.Size([5, 1, 28, 28])
    """
    return Augmentation(
        whole(crop, "crop", 0, _MOST_POINTS), flip=bool(flip), cutout=whole(cutout, "cutout", 0, _MOST_POINTS)
    )
