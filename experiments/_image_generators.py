"""Generators of small images given their class: an adversarial network, and a mixture of Gaussians.

Pixel values are mapped to the distribution of those in the class, since a network never draws an exactly black pixel.
Uniform numbers come from NumPy's generator, seeded by the system: good enough for an experiment, not for a release.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from labeldp import Classes, Form, Generator, Source
from labeldp.mechanisms.resampling import ColumnForm, seen_in

WHITE, DRAWN, MATCHED = 255, 1024, 2048
LEVELS = 1 << 14  # quantiles at which pixel values of generated and of training images are matched


class Law(nn.Module):
    """Images given a class, as functions of ``uniforms`` independent numbers between 0 and 1."""

    uniforms: int

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.made, self.given = torch.zeros(classes, LEVELS), torch.zeros(classes, LEVELS, dtype=torch.uint8)

    def points(self, chance: Tensor, codes: Tensor) -> Tensor:
        """Images with real-valued pixels, shape (m, 1, height, width)."""
        raise NotImplementedError

    def forward(self, chance: Tensor, codes: Tensor) -> Tensor:
        """Images of bytes, with pixel values distributed as in the training images."""
        points = self.points(chance, codes)
        images = torch.empty(points.shape, dtype=torch.uint8)
        for code in torch.unique(codes).tolist():
            members = codes == code
            places = torch.searchsorted(self.made[code], points[members].contiguous()).clamp(max=LEVELS - 1)
            images[members] = self.given[code][places]
        return images

    def match(self, images: np.ndarray, codes: np.ndarray) -> None:
        """Match the pixel values that are generated to those of the images of each class."""
        for code in range(len(self.made)):
            chance = torch.rand(MATCHED, self.uniforms, dtype=torch.float64)
            with torch.inference_mode():
                self.made[code] = levels(self.points(chance, torch.full((MATCHED,), code)).float())
            self.given[code] = levels(torch.tensor(images[codes == code][:MATCHED]))


class NetworkLaw(Law):
    """A network that draws images from normal noise and a class."""

    def __init__(self, classes: int, height: int, width: int, noise: int = 32, filters: int = 32) -> None:
        super().__init__(classes)
        self.uniforms, self.height, self.width = noise, height, width
        small = (2 * filters, -(-height // 4), -(-width // 4))
        flat = small[0] * small[1] * small[2]
        self.classes = nn.Embedding(classes, noise)
        self.layers = nn.Sequential(
            *(nn.Linear(2 * noise, flat, bias=False), nn.BatchNorm1d(flat), nn.ReLU(), nn.Unflatten(1, small)),
            *(nn.ConvTranspose2d(2 * filters, filters, 4, 2, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU()),
            *(nn.ConvTranspose2d(filters, 1, 4, 2, 1), nn.Sigmoid()),
        )

    def drawn(self, noise: Tensor, codes: Tensor) -> Tensor:
        """Images from normal noise, with pixels between 0 and 1."""
        images = self.layers(torch.cat([noise, self.classes(codes)], dim=1))
        return images[:, :, : self.height, : self.width]

    def points(self, chance: Tensor, codes: Tensor) -> Tensor:
        """Images from uniform numbers."""
        return self.drawn(torch.special.ndtri(chance).float(), codes)


class MixtureLaw(Law):
    """For each class a mixture of Gaussians on the principal components of its images."""

    def __init__(self, images: np.ndarray, codes: np.ndarray, components: int = 80, parts: int = 40) -> None:
        fewest = int(np.bincount(codes).min())
        self.shape, flat = images.shape[1:], images.reshape(len(images), -1) / WHITE
        components = min(components, fewest - 1, flat.shape[1])
        super().__init__(int(codes.max()) + 1)
        self.uniforms, self.fits = 1 + components, []
        for code in range(len(self.made)):
            axes = PCA(components, svd_solver="full").fit(flat[codes == code])
            mixture = GaussianMixture(min(parts, max(1, fewest // components)), reg_covar=1e-3)
            self.fits.append((axes, mixture.fit(axes.transform(flat[codes == code]))))

    def points(self, chance: Tensor, codes: Tensor) -> Tensor:
        """Images from uniform numbers: the first chooses the Gaussian."""
        images = np.empty((len(codes), *self.shape), dtype=np.float32)
        for code in torch.unique(codes).tolist():
            rows, (axes, mixture) = (codes == code).numpy(), self.fits[code]
            ends = np.cumsum(mixture.weights_)
            part = np.searchsorted(ends[:-1], chance[rows, 0].numpy() * ends[-1], side="right")
            noise, roots = torch.special.ndtri(chance[rows, 1:]).numpy(), np.linalg.cholesky(mixture.covariances_)
            scores = mixture.means_[part] + np.einsum("nij,nj->ni", roots[part], noise)
            images[rows] = axes.inverse_transform(scores).reshape(-1, *self.shape)
        return torch.from_numpy(images)


class Discriminator(nn.Module):
    """Log odds that an image is real, given its class, as a projection discriminator."""

    def __init__(self, classes: int, height: int, width: int, filters: int = 32) -> None:
        super().__init__()
        wide = 4 * filters * (-(-(height // 4) // 2)) * (-(-(width // 4) // 2))
        sizes = ((1, filters, 4), (filters, 2 * filters, 4), (2 * filters, 4 * filters, 3))
        steps = [(spectral_norm(nn.Conv2d(*size, 2, 1)), nn.LeakyReLU(0.1)) for size in sizes]
        self.layers = nn.Sequential(*(layer for step in steps for layer in step), nn.Flatten())
        self.head, self.classes = spectral_norm(nn.Linear(wide, 1)), nn.Embedding(classes, wide)
        nn.init.zeros_(self.classes.weight)

    def forward(self, images: Tensor, codes: Tensor) -> Tensor:
        """Log odds of real against generated."""
        hidden = self.layers(images)
        return self.head(hidden)[:, 0] + (hidden * self.classes(codes)).sum(dim=1)


def levels(points: Tensor) -> Tensor:
    """Quantiles of all pixels."""
    ordered = points.flatten().sort().values
    places = ((torch.arange(LEVELS, dtype=torch.float64) + 0.5) * (len(ordered) / LEVELS)).long()
    return ordered[places.clamp(max=len(ordered) - 1)]


@dataclass
class ImageGenerator:
    """A fitted generator of images of shape (n, 1, height, width)."""

    law: Law
    space: Classes
    form: Form
    source: Source
    seen: frozenset[int] = field(repr=False)
    discriminator: Discriminator | None = None

    def generator(self) -> Generator:
        """What a curator resamples features with."""
        return Generator(self.space, self.form, self.source, self._draw, seen=self.seen)

    def _draw(self, codes: np.ndarray) -> np.ndarray:
        parts, chance = [], np.random.default_rng()
        for block in torch.tensor(codes, dtype=torch.int64).split(DRAWN):
            numbers = torch.from_numpy(chance.uniform(2.0**-54, 1 - 2.0**-53, (len(block), self.law.uniforms)))
            with torch.inference_mode():
                parts.append(self.law(numbers, block).numpy())
        return np.concatenate(parts)

    def log_odds(self, images: np.ndarray, label: object) -> np.ndarray:
        """Log odds by the generator's own discriminator that images of a class are real."""
        code = int(self.space.encode([label])[0])
        with torch.inference_mode():
            parts = [
                self.discriminator(part.float() / WHITE, torch.full((len(part),), code))
                for part in torch.tensor(images).split(DRAWN)
            ]
        return torch.cat(parts).double().numpy()

    def save(self, path: Path) -> None:
        """Write a pickle for ``load``."""
        torch.save(self, path)

    @staticmethod
    def load(path: Path) -> "ImageGenerator":
        """Read what ``save`` wrote."""
        return torch.load(path, weights_only=False)


def finished(
    law: Law, images: np.ndarray, labels: np.ndarray, space: Classes, source: str, discriminator: object = None
) -> ImageGenerator:
    """The generator of a fitted law, with digests of the images that it was fitted on."""
    law.eval().requires_grad_(requires_grad=False).match(images, space.encode(labels))
    shape = images.shape[1:]
    form = Form((ColumnForm("features", f"list<uint8>[{np.prod(shape)}]", shape=shape),), of_array=True)
    seen = seen_in(form, form.table(images))
    return ImageGenerator(law, space, form, Source("auxiliary", source), seen, discriminator)


def fit_mixture(images: np.ndarray, labels: np.ndarray, space: Classes, source: str) -> ImageGenerator:
    """A mixture of Gaussians for each class."""
    return finished(MixtureLaw(images, space.encode(labels)), images, labels, space, source)


def fit_network(images: np.ndarray, labels: np.ndarray, space: Classes, source: str, epochs: int) -> ImageGenerator:
    """A conditional adversarial network, with averaged weights (Goodfellow et al. 2014; Mirza and Osindero 2014)."""
    sizes = (space.size, *images.shape[2:])
    law, discriminator = NetworkLaw(*sizes), Discriminator(*sizes)
    averaged = AveragedModel(law, multi_avg_fn=get_ema_multi_avg_fn(0.995), use_buffers=True)
    steps = [torch.optim.Adam(each.parameters(), lr=5e-4, betas=(0.5, 0.99)) for each in (law, discriminator)]
    pixels, codes = torch.tensor(images), torch.tensor(space.encode(labels), dtype=torch.int64)
    for _ in range(epochs):
        for rows in torch.randperm(len(pixels)).tensor_split(max(1, len(pixels) // 64)):
            adversarial_step(law, discriminator, steps, pixels[rows].float() / WHITE, codes[rows])
            averaged.update_parameters(law)
    for layer in list(discriminator.eval().modules()):
        if parametrize.is_parametrized(layer):  # such layers cannot be saved
            parametrize.remove_parametrizations(layer, "weight")
    return finished(averaged.module, images, labels, space, source, discriminator)


def adversarial_step(law: NetworkLaw, discriminator: Discriminator, steps: list, images: Tensor, codes: Tensor) -> None:
    """One step of each: the discriminator on real and generated images, the network against it."""

    def generated() -> Tensor:
        return law.drawn(torch.randn(len(codes), law.uniforms), codes)

    with torch.no_grad():
        made = generated()
    real, against = discriminator(torch.cat([images, made]), torch.cat([codes, codes])).chunk(2)
    steps[1].zero_grad()
    (functional.softplus(-real).mean() + functional.softplus(against).mean()).backward()
    steps[1].step()
    loss = functional.softplus(-discriminator(generated(), codes)).mean()
    steps[0].zero_grad()
    loss.backward()
    steps[0].step()
