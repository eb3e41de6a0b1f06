"""Generators of small images given their class: an adversarial network, and a mixture of Gaussians.

They learn from public or auxiliary images, or from a part of the rows whose labels were released; never from rows
whose features they are to replace.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp import _checks
from labeldp._shapes import Float, Int, UInt8
from labeldp.errors import InputError, RowsError
from labeldp.learning.losses import posterior, require_release
from labeldp.learning.torch._classifier import TorchClassifier
from labeldp.learning.torch._image_files import MOST_SIZE, ImageGenerator, image_form
from labeldp.learning.torch._image_laws import (
    ImageDiscriminator,
    ImageMixtureLaw,
    Law,
    NetworkLaw,
    discriminator_loss,
    sides_fit,
)
from labeldp.learning.torch._networks import convolutional
from labeldp.learning.torch._training import Progress, averaging
from labeldp.mechanisms.resampling import Source, seen_in
from labeldp.privacy import Classes
from labeldp.release import Release

Declared = Literal["public", "auxiliary"]

_BETAS = (0.5, 0.99)
_MATCHED = 2048
_WHITE = 255
_SLACK = 1e-3


@dataclass(frozen=True)
class ConditionalGenerator:
    """A conditional generative adversarial network for small images.

    With 6 000 digits of 28 x 28 pixels, 20 epochs take under three minutes on one thread.

    Attributes:
        noise: Number of normal variables behind an image.
        filters: Channels of the narrowest hidden layer, of the network and of its discriminator.
        epochs: Number of passes over the images.
        batch_size: Images of a step.
        learning_rate: Learning rate of Adam, for both networks.
        averaging: Decay of averaged weights, which replace the last ones.
        learner: Model that imputes the classes of images with noisy labels: anything with ``fit(images, release)`` and
            ``predict_proba(images)``; None for a small convolutional network.
        device: The device to train on, such as ``"cuda"``.
        report: Function called with ``("epoch", done, of)``.

    Guarantee:
        The generator depends only on the given images and on a release of their labels. For labels that were declared
        public there is no guarantee; otherwise the guarantee of the release covers the generator, whose source holds
        the certificate. Rows of that release have spent their budget: other rows must be those with resampled features.

    References:
        Goodfellow et al. 2014; Mirza and Osindero 2014, conditional; Busa-Fekete et al. 2023, section 8.2, who train it
        on the same rows that they then protect, which discloses their labels.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Release
        >>> from labeldp.learning.torch import ConditionalGenerator
        >>> images = np.repeat(np.uint8([40, 200]), 32)[:, None, None] * np.ones((64, 8, 8), dtype=np.uint8)
        >>> labels = Release.public(["dark"] * 32 + ["light"] * 32, Classes(["dark", "light"]))
        >>> fitted = ConditionalGenerator(epochs=1).fit(images, labels, "made up")
        >>> fitted.generator().sample([0, 1, 1]).num_rows
        3
    """

    noise: int = 32
    filters: int = 32
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 5e-4
    averaging: float = 0.995
    learner: Any = None
    device: str = "cpu"
    report: Progress | None = None

    def fit(self, images: object, labels: Release, source: str, kind: Declared = "auxiliary") -> ImageGenerator:
        """Train the network and its discriminator.

        If labels are noisy, the class of each image is imputed at each step, by a draw from the posterior given
        ``learner`` and the released label, so that the images of a class follow the distribution of its true members as
        far as these are known. Training uses PyTorch's global random state; sampling from the generator does not.

        Args:
            images: Bytes of shape (n, height, width) or (n, channels, height, width), sides from 4 to 64.
            labels: Their labels, declared public or released under a guarantee.
            source: Description of the images.
            kind: For labels that were declared public: whether the images are public too, or private to the curator and
                not among those that are released.

        Raises:
            NotTrueLabelsError: The labels are not a release.
            InputError: The images are of another form or number, or a class has no example.
        """
        for name, least in (("noise", 1), ("filters", 1), ("epochs", 1), ("batch_size", 2)):
            _checks.whole(getattr(self, name), name, least, MOST_SIZE)
        training = _TrainingImages.of(images, labels, source, kind, self.learner)
        sizes = {**training.sizes, "noise": self.noise, "filters": self.filters}
        law = NetworkLaw(**sizes).to(self.device)
        discriminator = ImageDiscriminator(**training.sizes, filters=self.filters).to(self.device)
        averaged = averaging(law, self.averaging)
        steps = _Steps(law, discriminator, self.learning_rate)
        pixels, probabilities = torch.from_numpy(training.pixels), torch.from_numpy(training.probabilities)
        for epoch in range(self.epochs):
            if self.report is not None:
                self.report("epoch", epoch, self.epochs)
            for rows in torch.randperm(len(pixels)).tensor_split(max(1, len(pixels) // self.batch_size)):
                codes = torch.multinomial(probabilities[rows], 1)[:, 0]
                steps.step((pixels[rows].float() / _WHITE).to(self.device), codes.to(self.device))
                averaged.update_parameters(law)
        fitted: Law = averaged.module.cpu().eval()
        training.match_levels(fitted)
        return training.generator("network", sizes, fitted, discriminator.cpu().eval(), self.filters)


@dataclass(frozen=True)
class ImageMixture:
    """A mixture of Gaussians on the leading components of the images of each class.

    It is fitted in seconds, and with a few thousand images harder to tell from real digits than a small adversarial
    network. Pixel values are then mapped to the distribution of those in the class, which makes edges sharp.

    Attributes:
        components: Most principal components of a class.
        parts: Most Gaussians of a class; fewer if a class has few images.
        learner: As for ``ConditionalGenerator``.

    Guarantee:
        As for ``ConditionalGenerator``.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Release
        >>> from labeldp.learning.torch import ImageMixture
        >>> images = np.random.default_rng(0).integers(0, 128, (64, 8, 8)).astype(np.uint8)
        >>> images[32:] += 128
        >>> labels = Release.public(["dark"] * 32 + ["light"] * 32, Classes(["dark", "light"]))
        >>> generator = ImageMixture(components=4, parts=1).fit(images, labels, "made up").generator()
        >>> generator.form.array(generator.sample([1, 0])).shape
        (2, 8, 8)
    """

    components: int = 80
    parts: int = 40
    learner: Any = None

    def fit(self, images: object, labels: Release, source: str, kind: Declared = "auxiliary") -> ImageGenerator:
        """Fit the mixtures; if labels are noisy, on classes that are imputed by one draw.

        Args:
            images: As for ``ConditionalGenerator.fit``.
            labels: As for ``ConditionalGenerator.fit``.
            source: As for ``ConditionalGenerator.fit``.
            kind: As for ``ConditionalGenerator.fit``.

        Raises:
            NotTrueLabelsError: The labels are not a release.
            InputError: The images are of another form or number, or a class has fewer than two examples.
        """
        for name in ("components", "parts"):
            _checks.whole(getattr(self, name), name, 1, MOST_SIZE)
        training = _TrainingImages.of(images, labels, source, kind, self.learner)
        flat = training.pixels.reshape(len(training.pixels), -1).astype(np.float64) / _WHITE
        codes = torch.multinomial(torch.from_numpy(training.probabilities), 1)[:, 0].numpy()
        fewest = int(np.bincount(codes, minlength=training.sizes["classes"]).min())
        if fewest < 2:
            raise InputError("expected at least two images of each class, found fewer; give more images")
        components = min(self.components, fewest - 1, flat.shape[1])
        sizes = {**training.sizes, "components": components, "parts": min(self.parts, max(1, fewest // components))}
        law = ImageMixtureLaw(**sizes)
        for code in range(training.sizes["classes"]):
            _fit_class(law, code, flat[codes == code])
        training.match_levels(law)
        return training.generator("mixture", sizes, law)


@dataclass(frozen=True, eq=False)
class _TrainingImages:
    """Images that a generator is fitted on, with probabilities of their classes."""

    pixels: UInt8[np.ndarray, "n channels height width"]
    probabilities: Float[np.ndarray, "n k"]
    labels: Release
    source: Source
    flat: bool
    sizes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        channels, height, width = map(int, self.pixels.shape[1:])
        sizes = {"classes": self.probabilities.shape[1], "channels": channels, "height": height, "width": width}
        object.__setattr__(self, "sizes", sizes)

    @classmethod
    def of(cls, images: object, labels: Release, source: str, kind: Declared, learner: Any) -> _TrainingImages:
        """Check images and labels."""
        release = require_release(labels)
        pixels, flat = _pixels(images)
        if len(pixels) != len(release):
            raise RowsError(f"expected a label for each of {len(pixels)} images, found {len(release)}")
        if not isinstance(release.space, Classes):
            raise InputError("expected labels that are classes, found numbers; a generator draws features for classes")
        if release.certificate is None:
            origin = Source(kind, source)
            probabilities = np.eye(release.space.size)[release.codes]
        else:
            origin = Source("paid split", source, release.certificate.to_json())
            model = learner or _default_learner(pixels.shape[1])
            probabilities = posterior(release, model.fit(pixels, release).predict_proba(pixels))
        lacking = [str(release.space.points[code]) for code in np.flatnonzero(probabilities.max(axis=0) == 0)]
        if lacking:
            raise InputError(
                f"expected an example of each declared class, found none of {', '.join(lacking[:3])}; give images of "
                "every class, or declare fewer"
            )
        return cls(pixels, probabilities, release, origin, flat)

    def match_levels(self, law: Law) -> None:
        """Match the pixel values that a model generates to those of the images of each class."""
        likely = self.probabilities.argmax(axis=1)
        for code in range(self.sizes["classes"]):
            members = np.flatnonzero(likely == code)[:_MATCHED]
            if not len(members):
                members = np.argsort(-self.probabilities[:, code])[:1]
            chance = torch.rand(_MATCHED, law.uniforms, dtype=torch.float64)
            with torch.inference_mode():
                generated = law.points(chance, torch.full((_MATCHED,), code))
            law.match(code, generated, torch.from_numpy(self.pixels[members]))

    def generator(
        self,
        name: str,
        sizes: dict[str, int],
        law: Law,
        discriminator: ImageDiscriminator | None = None,
        filters: int = 0,
    ) -> ImageGenerator:
        """The generator of a fitted model, with digests of these images."""
        form = image_form(self.pixels.shape[2:] if self.flat else self.pixels.shape[1:])
        rows = form.table(self.pixels[:, 0] if self.flat else self.pixels)
        frozen = law.requires_grad_(requires_grad=False).eval()
        return ImageGenerator(
            name, sizes, frozen, self.labels.space, form, self.source, seen_in(form, rows), discriminator, filters
        )


class _Steps:
    """Alternating training steps of a network and its discriminator."""

    def __init__(self, law: NetworkLaw, discriminator: ImageDiscriminator, rate: float) -> None:
        self.law, self.discriminator = law, discriminator
        self.law_step = torch.optim.Adam(law.parameters(), lr=rate, betas=_BETAS)
        self.discriminator_step = torch.optim.Adam(discriminator.parameters(), lr=rate, betas=_BETAS)

    def step(self, images: Float[Tensor, "b c h w"], codes: Int[Tensor, "b"]) -> None:
        """Make one step of each: the discriminator on real and generated images, the network against it."""
        with torch.no_grad():
            generated = self._generated(codes)
        real, against = self.discriminator(torch.cat([images, generated]), torch.cat([codes, codes])).chunk(2)
        self.discriminator_step.zero_grad()
        discriminator_loss(real, against).backward()
        self.discriminator_step.step()
        loss = functional.softplus(-self.discriminator(self._generated(codes), codes)).mean()
        self.law_step.zero_grad()
        loss.backward()
        self.law_step.step()

    def _generated(self, codes: Int[Tensor, "b"]) -> Float[Tensor, "b c h w"]:
        return self.law.drawn(torch.randn(len(codes), self.law.uniforms, device=codes.device), codes)


def _fit_class(law: ImageMixtureLaw, code: int, flat: Float[np.ndarray, "m p"]) -> None:
    """Fit the principal components of the images of a class, and a mixture of Gaussians on them."""
    from sklearn.decomposition import PCA  # noqa: PLC0415 (slow to import)
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    _, parts, components = law.means.shape
    axes = PCA(components, svd_solver="full").fit(flat)
    model = GaussianMixture(parts, reg_covar=_SLACK).fit(axes.transform(flat))
    law.shares[code] = torch.from_numpy(model.weights_)
    law.means[code] = torch.from_numpy(model.means_)
    law.roots[code] = torch.from_numpy(np.linalg.cholesky(model.covariances_))
    law.axes[code], law.centres[code] = torch.from_numpy(axes.components_), torch.from_numpy(axes.mean_)


def _default_learner(channels: int) -> TorchClassifier:
    """A small network that imputes classes, stopped early so that it does not memorise the noise."""
    module = functools.partial(convolutional, channels=channels)
    return TorchClassifier(module, epochs=20, batch_size=64, held_out=0.1, patience=3)


def _pixels(images: object) -> tuple[UInt8[np.ndarray, "n channels height width"], bool]:
    """Images with a channel axis, and whether it was missing."""
    array = np.asarray(images)
    flat = array.ndim == 3
    pixels = array[:, None] if flat else array
    fits = pixels.ndim == 4 and pixels.shape[1] in (1, 3) and sides_fit(*pixels.shape[2:])
    if pixels.dtype != np.uint8 or not fits:
        raise InputError(
            "expected images as bytes of shape (n, height, width) or (n, channels, height, width), 1 or 3 channels and "
            f"sides from 4 to 64, found {array.dtype} of shape {array.shape}; resize them, or convert them to grayscale"
        )
    if not len(pixels):
        raise RowsError("expected images, found none")
    return np.ascontiguousarray(pixels), flat
