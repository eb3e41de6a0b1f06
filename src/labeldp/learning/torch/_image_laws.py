"""Laws of small images given their class: a network with a discriminator against it, and mixtures of Gaussians."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

#: Levels at which the points of generated and of given images are matched.
_LEVELS = 1 << 14
_LEAK = 0.1
_LEAST_SIDE, _MOST_SIDE = 4, 64


class Law(nn.Module, ABC):
    """Images of classes from independent uniform numbers between 0 and 1.

    Attributes:
        uniforms: How many of them an image takes.
        made: Levels of the points that this law gives, for each class, from the lowest to the highest.
        given: Levels of the points of the images that it was fitted on, likewise.
    """

    uniforms: int

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("made", torch.zeros(classes, _LEVELS))
        self.register_buffer("given", torch.zeros(classes, _LEVELS, dtype=torch.uint8))

    @abstractmethod
    def points(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m channels height width"]:
        """Images whose points are real numbers."""

    def forward(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> UInt8[Tensor, "m c h w"]:
        """Images whose points are bytes, as light and as dark as those that the law was fitted on."""
        points = self.points(chance, codes)
        found = torch.empty(points.shape, dtype=torch.uint8)
        for code in torch.unique(codes).tolist():
            original = codes == code
            places = torch.searchsorted(self.made[code], points[original].contiguous()).clamp(max=_LEVELS - 1)
            found[original] = self.given[code][places]
        return found

    def match(self, code: int, made: Float[Tensor, "r *shape"], given: UInt8[Tensor, "s *shape"]) -> None:
        """Take the levels of a class from images that this law made and from given ones."""
        self.made[code], self.given[code] = _levels(made.float()), _levels(given)


class NetworkLaw(Law):
    """A network that makes images out of normal noise and a class.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Lines of an image.
        width: Points of a line.
        noise: Normal numbers that an image is made of.
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
        """Images out of normal noise, points between 0 and 1."""
        found: Tensor = self.layers(torch.cat([noise, self.classes(codes)], dim=1))
        return found[:, :, : self.height, : self.width]

    def points(self, chance: Float[Tensor, "m u"], codes: Int[Tensor, "m"]) -> Float[Tensor, "m c h w"]:
        """Images out of uniform numbers."""
        return self.drawn(torch.special.ndtri(chance).float(), codes)


class MixtureLaw(Law):
    """A mixture of Gaussians for each class, on the leading components of its images.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Lines of an image.
        width: Points of a line.
        components: Components that an image is made of.
        parts: Gaussians of a class.
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
        """Images out of uniform numbers: the first chooses a Gaussian, the others are its noise."""
        ends = torch.cumsum(self.shares, dim=1)[codes]
        part = torch.searchsorted(ends, chance[:, :1] * ends[:, -1:], right=True)[:, 0].clamp(max=ends.shape[1] - 1)
        noise = torch.special.ndtri(chance[:, 1:]).float()
        found = self.means[codes, part] + torch.bmm(self.roots[codes, part], noise[:, :, None])[:, :, 0]
        flat = self.centres[codes] + torch.bmm(found[:, None], self.axes[codes])[:, 0]
        return flat.reshape(-1, *self.shape)


class Discriminator(nn.Module):
    """Whether an image of a class is a given one or made: log odds, with layers of bounded slope.

    Args:
        classes: Number of classes.
        channels: Channels of an image.
        height: Lines of an image.
        width: Points of a line.
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
        """Log odds that each image was given."""
        hidden = self.layers(images)
        found: Tensor = self.head(hidden)[:, 0] + (hidden * self.classes(codes)).sum(dim=1)
        return found


#: Every law by its name.
LAWS: Mapping[str, Callable[..., Law]] = MappingProxyType({"network": NetworkLaw, "mixture": MixtureLaw})


def sides_fit(height: int, width: int) -> bool:
    """Whether images of this size are small enough, and not too small."""
    return all(_LEAST_SIDE <= side <= _MOST_SIDE for side in (height, width))


def two_sample_accuracy(given: Float[Tensor, "m"], made: Float[Tensor, "m"]) -> Tensor:
    """The cross entropy of log odds of given and of made images: they estimate the ratio of two densities."""
    return functional.softplus(-given).mean() + functional.softplus(made).mean()


def _slope(layer: nn.Module) -> tuple[nn.Module, nn.Module]:
    return spectral_norm(layer), nn.LeakyReLU(_LEAK)


def _levels(points: Tensor) -> Tensor:
    """Points in their order, at evenly spaced places of it."""
    ordered = points.flatten().sort().values
    places = ((torch.arange(_LEVELS, dtype=torch.float64) + 0.5) * (len(ordered) / _LEVELS)).long()
    return ordered[places.clamp(max=len(ordered) - 1)]
