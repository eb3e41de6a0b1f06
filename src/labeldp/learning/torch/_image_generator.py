"""Generators of small images, given their class: a network against a discriminator, and a mixture of Gaussians.

They learn from public or auxiliary images, or from a part of the rows whose labels were released; never from rows
whose features they are to replace.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.nn import functional

from labeldp import _checks
from labeldp.errors import InputError, RowsError
from labeldp.learning.losses import posterior, require_release
from labeldp.learning.torch._classifier import TorchClassifier
from labeldp.learning.torch._image_files import MOST_SIZE, ImageGenerator, image_form
from labeldp.learning.torch._image_laws import (
    Discriminator,
    Law,
    MixtureLaw,
    NetworkLaw,
    sides_fit,
    two_sample_accuracy,
)
from labeldp.learning.torch._networks import convolutional
from labeldp.learning.torch._training import Progress, averaging
from labeldp.mechanisms.features import Source, seen_in
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

    Of 6 000 digits of 28 x 28 points, 20 epochs take under three minutes on one thread.

    Attributes:
        noise: Normal numbers that an image is made of.
        filters: Channels of the narrowest hidden layer, of the network and of its discriminator.
        epochs: Times that each image is seen.
        batch_size: Images of a step.
        learning_rate: Of Adam, for both.
        averaging: The decay of averaged weights, which are what is used.
        learner: What names the images of a release with noise: anything with ``fit(images, release)`` and
            ``predict_proba(images)``; None for a small convolutional network.
        device: Where to train, such as ``"cuda"``.
        report: PriorResult ``("epoch", done, of)``.

    Guarantee:
        What is fitted depends on the given images and on a release of theirs, and on nothing else. Of labels that were
        declared public nothing is promised; otherwise the guarantee of the release covers the generator, and its
        certificate goes into the generator's source. Rows of that release have spent their budget: the rows whose
        features are redrawn must be others.

    References:
        Goodfellow et al. 2014; Mirza and Osindero 2014, conditional; Busa-Fekete et al. 2023, section 8.2, who train it
        on the very rows that they then protect, which gives their labels away.

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
        """Train the network, and keep its discriminator.

        Where labels were released with noise, each image is given a class at each step by a draw from the posterior of
        ``learner`` and the released label, so that the law is that of the images of a true class as far as these are
        known. Training draws from PyTorch's own random state; what the generator samples later does not.

        Args:
            images: Bytes of shape (n, height, width) or (n, channels, height, width), sides from 4 to 64.
            labels: Their labels, declared public or released under a guarantee.
            source: Which images, in words.
            kind: Of labels that were declared public: whether the images are public too, or the curator's own and not
                among those that are released.

        Raises:
            NotTrueLabelsError: The labels are no release.
            InputError: The images are of another form or number, or a class has no example.
        """
        for name, least in (("noise", 1), ("filters", 1), ("epochs", 1), ("batch_size", 2)):
            _checks.whole(getattr(self, name), name, least, MOST_SIZE)
        given = _Given.of(images, labels, source, kind, self.learner)
        sizes = {**given.sizes, "noise": self.noise, "filters": self.filters}
        law = NetworkLaw(**sizes).to(self.device)
        judge = Discriminator(**given.sizes, filters=self.filters).to(self.device)
        averaged = averaging(law, self.averaging)
        steps = _Steps(law, judge, self.learning_rate)
        pixels, chances = torch.from_numpy(given.pixels), torch.from_numpy(given.chances)
        for epoch in range(self.epochs):
            if self.report is not None:
                self.report("epoch", epoch, self.epochs)
            for rows in torch.randperm(len(pixels)).tensor_split(max(1, len(pixels) // self.batch_size)):
                codes = torch.multinomial(chances[rows], 1)[:, 0]
                steps.step((pixels[rows].float() / _WHITE).to(self.device), codes.to(self.device))
                averaged.update_parameters(law)
        kept: Law = averaged.module.cpu().eval()
        given.match(kept)
        return given.fitted("network", sizes, kept, judge.cpu().eval(), self.filters)


@dataclass(frozen=True)
class ImageMixture:
    """A mixture of Gaussians on the leading components of the images of each class.

    Fitted in seconds, and with a few thousand images harder to tell from real digits than a small adversarial network.
    Points are then brought to the levels of the given images of the class, which makes edges sharp.

    Attributes:
        components: Principal components of a class, at the most.
        parts: Gaussians of a class, at the most; there are fewer where a class has few images.
        learner: As of ``ConditionalGenerator``.

    Guarantee:
        As of ``ConditionalGenerator``.

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
        """Fit the mixtures; where labels were released with noise, to images with one draw of their classes.

        Args:
            images: As for ``ConditionalGenerator.fit``.
            labels: Likewise.
            source: Likewise.
            kind: Likewise.

        Raises:
            NotTrueLabelsError: The labels are no release.
            InputError: The images are of another form or number, or a class has fewer than two examples.
        """
        for name in ("components", "parts"):
            _checks.whole(getattr(self, name), name, 1, MOST_SIZE)
        given = _Given.of(images, labels, source, kind, self.learner)
        flat = given.pixels.reshape(len(given.pixels), -1).astype(np.float64) / _WHITE
        codes = torch.multinomial(torch.from_numpy(given.chances), 1)[:, 0].numpy()
        fewest = int(np.bincount(codes, minlength=given.sizes["classes"]).min())
        if fewest < 2:
            raise InputError("expected two images of each class at least, found fewer; give more images")
        components = min(self.components, fewest - 1, flat.shape[1])
        sizes = {**given.sizes, "components": components, "parts": min(self.parts, max(1, fewest // components))}
        law = MixtureLaw(**sizes)
        for code in range(given.sizes["classes"]):
            _fit_class(law, code, flat[codes == code])
        given.match(law)
        return given.fitted("mixture", sizes, law)


@dataclass(frozen=True, eq=False)
class _Given:
    """What a generator is fitted on: images, and what is known of their classes."""

    pixels: UInt8[np.ndarray, "n channels height width"]
    chances: Float[np.ndarray, "n k"]
    labels: Release
    source: Source
    flat: bool
    sizes: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        channels, height, width = map(int, self.pixels.shape[1:])
        sizes = {"classes": self.chances.shape[1], "channels": channels, "height": height, "width": width}
        object.__setattr__(self, "sizes", sizes)

    @classmethod
    def of(cls, images: object, labels: Release, source: str, kind: Declared, learner: Any) -> _Given:
        """Images and labels, checked."""
        release = require_release(labels)
        pixels, flat = _pixels(images)
        if len(pixels) != len(release):
            raise RowsError(f"expected a label for each of {len(pixels)} images, found {len(release)}")
        if not isinstance(release.space, Classes):
            raise InputError("expected labels that are classes, found numbers; a generator draws features for classes")
        if release.certificate is None:
            whence = Source(kind, source)
            chances = np.eye(release.space.size)[release.codes]
        else:
            whence = Source("paid split", source, release.certificate.to_json())
            model = learner or _usual_learner(pixels.shape[1])
            chances = posterior(release, model.fit(pixels, release).predict_proba(pixels))
        lacking = [str(release.space.points[code]) for code in np.flatnonzero(chances.max(axis=0) == 0)]
        if lacking:
            raise InputError(
                f"expected an example of each declared class, found none of {', '.join(lacking[:3])}; give images of "
                "every class, or declare fewer"
            )
        return cls(pixels, chances, release, whence, flat)

    def match(self, law: Law) -> None:
        """Bring the levels of the points that a law makes to those of the images of each class."""
        likely = self.chances.argmax(axis=1)
        for code in range(self.sizes["classes"]):
            original = np.flatnonzero(likely == code)[:_MATCHED]
            if not len(original):
                original = np.argsort(-self.chances[:, code])[:1]
            chance = torch.rand(_MATCHED, law.uniforms, dtype=torch.float64)
            with torch.inference_mode():
                made = law.points(chance, torch.full((_MATCHED,), code))
            law.match(code, made, torch.from_numpy(self.pixels[original]))

    def fitted(
        self, name: str, sizes: dict[str, int], law: Law, judge: Discriminator | None = None, filters: int = 0
    ) -> ImageGenerator:
        """What was fitted, with digests of these images."""
        form = image_form(self.pixels.shape[2:] if self.flat else self.pixels.shape[1:])
        rows = form.table(self.pixels[:, 0] if self.flat else self.pixels)
        frozen = law.requires_grad_(requires_grad=False).eval()
        return ImageGenerator(
            name, sizes, frozen, self.labels.space, form, self.source, seen_in(form, rows), judge, filters
        )


class _Steps:
    """Steps of a network and its discriminator, in turn."""

    def __init__(self, law: NetworkLaw, judge: Discriminator, rate: float) -> None:
        self.law, self.judge = law, judge
        self.law_step = torch.optim.Adam(law.parameters(), lr=rate, betas=_BETAS)
        self.judge_step = torch.optim.Adam(judge.parameters(), lr=rate, betas=_BETAS)

    def step(self, images: Float[Tensor, "b c h w"], codes: Int[Tensor, "b"]) -> None:
        """One of each: the discriminator on given and made images, the network against it."""
        with torch.no_grad():
            made = self._made(codes)
        given, against = self.judge(torch.cat([images, made]), torch.cat([codes, codes])).chunk(2)
        self.judge_step.zero_grad()
        two_sample_accuracy(given, against).backward()
        self.judge_step.step()
        loss = functional.softplus(-self.judge(self._made(codes), codes)).mean()
        self.law_step.zero_grad()
        loss.backward()
        self.law_step.step()

    def _made(self, codes: Int[Tensor, "b"]) -> Float[Tensor, "b c h w"]:
        return self.law.drawn(torch.randn(len(codes), self.law.uniforms, device=codes.device), codes)


def _fit_class(law: MixtureLaw, code: int, flat: Float[np.ndarray, "m p"]) -> None:
    """Components of the images of a class, and a mixture of Gaussians on them."""
    from sklearn.decomposition import PCA  # noqa: PLC0415 (slow to import)
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415

    _, parts, components = law.means.shape
    axes = PCA(components, svd_solver="full").fit(flat)
    found = GaussianMixture(parts, reg_covar=_SLACK).fit(axes.transform(flat))
    law.shares[code] = torch.from_numpy(found.weights_)
    law.means[code] = torch.from_numpy(found.means_)
    law.roots[code] = torch.from_numpy(np.linalg.cholesky(found.covariances_))
    law.axes[code], law.centres[code] = torch.from_numpy(axes.components_), torch.from_numpy(axes.mean_)


def _usual_learner(channels: int) -> TorchClassifier:
    """A small network that names images; it stops before it learns the noise of single labels by heart."""
    made = functools.partial(convolutional, channels=channels)
    return TorchClassifier(made, epochs=20, batch_size=64, held_out=0.1, patience=3)


def _pixels(images: object) -> tuple[UInt8[np.ndarray, "n channels height width"], bool]:
    """Images with their channels, and whether they came without."""
    found = np.asarray(images)
    flat = found.ndim == 3
    pixels = found[:, None] if flat else found
    fits = pixels.ndim == 4 and pixels.shape[1] in (1, 3) and sides_fit(*pixels.shape[2:])
    if pixels.dtype != np.uint8 or not fits:
        raise InputError(
            "expected images as bytes of shape (n, height, width) or (n, channels, height, width), 1 or 3 channels and "
            f"sides from 4 to 64, found {found.dtype} of shape {found.shape}; make them smaller, or gray"
        )
    if not len(pixels):
        raise RowsError("expected images, found none")
    return np.ascontiguousarray(pixels), flat
