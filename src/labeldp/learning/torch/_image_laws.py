"""Models of small images given their class: a network with a discriminator, and mixtures of Gaussians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from labeldp._shapes import Float, Int, UInt8

#: Number of quantiles at which pixel values of generated and of training images are matched.
_LEVELS = 1 << 14
_LEAK = 0.1
_LEAST_SIDE, _MOST_SIDE = 4, 64


class Law(nn.Module, ABC):
    """Model of images given a class, as functions of independent uniform numbers between 0 and 1.

    Attributes:
        uniforms: Number of uniform numbers of an image.
        made: Quantiles of the pixel values that this model generates, for each class, ascending.
        given: Quantiles of the pixel values of the training images, for each class, ascending.
    """

    uniforms: int

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("made", torch.zeros(classes, _LEVELS))
        self.register_buffer("given", torch.zeros(classes, _LEVELS, dtype=torch.uint8))

    @abstractmethod
    def points(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m channels height width"]:
        """Images with real-valued pixels."""

    def forward(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> UInt8[Tensor, "m c h w"]:
        """Images of bytes, with pixel values distributed as in the training images."""
        points = self.points(chance, codes)
        images = torch.empty(points.shape, dtype=torch.uint8)
        for code in torch.unique(codes).tolist():
            members = codes == code
            places = torch.searchsorted(self.made[code], points[members].contiguous()).clamp(max=_LEVELS - 1)
            images[members] = self.given[code][places]
        return images

    def match(self, code: int, made: Float[Tensor, "r *shape"], given: UInt8[Tensor, "s *shape"]) -> None:
        """Set the quantiles of a class from generated and from training images."""
        self.made[code], self.given[code] = _levels(made.float()), _levels(given)


class NetworkLaw(Law):
    """A network that generates images from normal noise and a class.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Height of an image in pixels.
        width: Width of an image in pixels.
        noise: Number of normal variables behind an image.
        filters: Channels of the last hidden layer; the first has twice as many.
    """

    def __init__(self, classes: int, channels: int, height: int, width: int, noise: int, filters: int) -> None:
        super().__init__(classes)
        self.uniforms, self.height, self.width = noise, height, width
        small = (2 * filters, -(-height // 4), -(-width // 4))
        self.classes = nn.Embedding(classes, noise)
        self.layers = nn.Sequential(
            nn.Linear(2 * noise, small[0] * small[1] * small[2], bias=False),
            nn.BatchNorm1d(small[0] * small[1] * small[2]),
            nn.ReLU(),
            nn.Unflatten(1, small),
            nn.ConvTranspose2d(2 * filters, filters, 4, 2, 1, bias=False),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.ConvTranspose2d(filters, channels, 4, 2, 1),
            nn.Sigmoid(),
        )

    def drawn(self, noise: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m c h w"]:
        """Images from normal noise, with pixels between 0 and 1."""
        images: Tensor = self.layers(torch.cat([noise, self.classes(codes)], dim=1))
        return images[:, :, : self.height, : self.width]

    def points(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m c h w"]:
        """Images from uniform numbers."""
        return self.drawn(torch.special.ndtri(chance).float(), codes)


class ImageMixtureLaw(Law):
    """A mixture of Gaussians for each class, on the principal components of its images.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Height of an image in pixels.
        width: Width of an image in pixels.
        components: Number of principal components.
        parts: Number of Gaussians of a class.
    """

    def __init__(self, classes: int, channels: int, height: int, width: int, components: int, parts: int) -> None:
        super().__init__(classes)
        self.uniforms, self.shape, flat = 1 + components, (channels, height, width), channels * height * width
        self.register_buffer("shares", torch.zeros(classes, parts, dtype=torch.float64))
        self.register_buffer("means", torch.zeros(classes, parts, components))
        self.register_buffer("roots", torch.zeros(classes, parts, components, components))
        self.register_buffer("axes", torch.zeros(classes, components, flat))
        self.register_buffer("centres", torch.zeros(classes, flat))

    def points(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m c h w"]:
        """Images from uniform numbers: the first selects a Gaussian, the others become its noise."""
        ends = torch.cumsum(self.shares, dim=1)[codes]
        part = torch.searchsorted(ends, chance[:, :1] * ends[:, -1:], right=True)[:, 0].clamp(max=ends.shape[1] - 1)
        noise = torch.special.ndtri(chance[:, 1:]).float()
        scores = self.means[codes, part] + torch.bmm(self.roots[codes, part], noise[:, :, None])[:, :, 0]
        flat = self.centres[codes] + torch.bmm(scores[:, None], self.axes[codes])[:, 0]
        return flat.reshape(-1, *self.shape)


class ImageDiscriminator(nn.Module):
    """Log odds that an image of a class is real and not generated, by layers of bounded slope.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Height of an image in pixels.
        width: Width of an image in pixels.
        filters: Channels of the first layer; the last has four times as many.

    References:
        Miyato, Kataoka, Koyama and Yoshida 2018, spectral normalization; Miyato and Koyama 2018, projection of classes.
    """

    def __init__(self, classes: int, channels: int, height: int, width: int, filters: int) -> None:
        super().__init__()
        sides = [-(-(side // 4) // 2) for side in (height, width)]
        wide = 4 * filters * sides[0] * sides[1]
        self.layers = nn.Sequential(
            *_slope(nn.Conv2d(channels, filters, 4, 2, 1)),
            *_slope(nn.Conv2d(filters, 2 * filters, 4, 2, 1)),
            *_slope(nn.Conv2d(2 * filters, 4 * filters, 3, 2, 1)),
            nn.Flatten(),
        )
        self.head, self.classes = spectral_norm(nn.Linear(wide, 1)), nn.Embedding(classes, wide)
        nn.init.zeros_(self.classes.weight)

    def forward(self, images: Float[Tensor, "m c h w"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
        """Log odds that each image is real."""
        hidden = self.layers(images)
        log_odds: Tensor = self.head(hidden)[:, 0] + (hidden * self.classes(codes)).sum(dim=1)
        return log_odds


#: Every model by its name.
LAWS: Mapping[str, Callable[..., Law]] = MappingProxyType({"network": NetworkLaw, "mixture": ImageMixtureLaw})


def sides_fit(height: int, width: int) -> bool:
    """True for images of an allowed size."""
    return all(_LEAST_SIDE <= side <= _MOST_SIDE for side in (height, width))


def discriminator_loss(real: Float[Tensor, "m"], generated: Float[Tensor, "m"]) -> Tensor:
    """The cross entropy of the log odds of real and of generated images, which estimate a density ratio."""
    return functional.softplus(-real).mean() + functional.softplus(generated).mean()


def _slope(layer: nn.Module) -> tuple[nn.Module, nn.Module]:
    return spectral_norm(layer), nn.LeakyReLU(_LEAK)


def _levels(points: Tensor) -> Tensor:
    """Quantiles of pixel values at evenly spaced levels."""
    ordered = points.flatten().sort().values
    places = ((torch.arange(_LEVELS, dtype=torch.float64) + 0.5) * (len(ordered) / _LEVELS)).long()
    return ordered[places.clamp(max=len(ordered) - 1)]
