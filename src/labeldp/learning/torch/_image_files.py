"""Fitted generators of images, and their files of numbers and plain text; opening one runs no code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from labeldp._random_words import SecureWords
from labeldp._shapes import Float, Int, UInt8
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.learning.features import FileFormat
from labeldp.learning.torch._files import opened_tensors, save_tensors, weights_of
from labeldp.learning.torch._image_laws import LAWS, ImageDiscriminator, Law, sides_fit
from labeldp.mechanisms.resampling import ColumnForm, Form, Generator, Source, form_from
from labeldp.privacy import LabelSpace, space_from

_FORMAT = FileFormat(
    "labeldp/image-generator/1", "generator of images", "that was saved", "fit one and save it", ("labeldp", "torch")
)
#: Bound on the sizes of a generator.
MOST_SIZE = 1 << 16

_DRAWN = 1024
_WHITE = 255
_SEEN = "seen"


@dataclass(frozen=True, eq=False)
class ImageGenerator:
    """A fitted generator of images of a class.

    Attributes:
        name: Kind of model: ``"network"`` or ``"mixture"``.
        sizes: Arguments of the model.
        law: The model: images from uniform numbers and classes.
        space: The declared classes.
        form: Form of the images: bytes of one shape.
        source: Data that it was fitted on.
        seen: Digests of the images that it was fitted on.
        discriminator: Discriminator that the network was trained against; None for a mixture.
        filters: Channels of the discriminator's first layer; 0 without a discriminator.
    """

    name: str
    sizes: Mapping[str, int]
    law: Law
    space: LabelSpace
    form: Form
    source: Source
    seen: frozenset[int]
    discriminator: ImageDiscriminator | None = None
    filters: int = 0

    def generator(self) -> Generator:
        """The generator as mechanisms use it: each call draws anew from a cryptographic random source."""
        return Generator(self.space, self.form, self.source, self._draw, seen=self.seen)

    def _draw(self, codes: Int[np.ndarray, "m"]) -> UInt8[np.ndarray, "m *shape"]:
        """Draw an image for each class code.

        With few possible seeds, anyone could try them all and find out which images a published generator made. PyTorch
        keeps 32 bits of a seed, so the words come from the same cryptographic source as those for labels.
        """
        words, parts = SecureWords(), []
        for rows in blocks(len(codes), entries=_DRAWN):
            block_codes = torch.from_numpy(np.asarray(codes[rows], dtype=np.int64))
            count = self.law.uniforms
            block = words.block(rows.start * count, len(block_codes) * count).reshape(len(block_codes), count)
            with torch.inference_mode():
                parts.append(self.law(torch.from_numpy(_uniform_numbers(block)), block_codes).numpy())
        return np.concatenate(parts).reshape(len(codes), *(self.form.columns[0].shape or ()))

    def log_odds(self, images: UInt8[np.ndarray, "m *shape"], label: object) -> Float[np.ndarray, "m"]:
        """Log odds, by the discriminator, that images of one class are real and not generated.

        Args:
            images: Images of the form, shape (m, ...).
            label: A declared class, one for all of them.

        Raises:
            InputError: There is no discriminator, or images are of another shape.
        """
        if self.discriminator is None:
            raise InputError("expected a generator that was trained against a discriminator, found a mixture")
        shape = tuple(self.sizes[name] for name in ("channels", "height", "width"))
        pixels = np.asarray(images)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != self.form.columns[0].shape:
            raise InputError(f"expected bytes of shape (m, *{self.form.columns[0].shape}), found {pixels.shape}")
        code = int(self.space.encode([label])[0])
        parts = torch.from_numpy(pixels.reshape(-1, *shape)).split(_DRAWN)
        with torch.inference_mode():
            log_odds = [self.discriminator(part.float() / _WHITE, torch.full((len(part),), code)) for part in parts]
        return torch.cat(log_odds).double().numpy()  # type: ignore[no-any-return]

    def save(self, path: str | Path) -> Path:
        """Write the generator to a file that does not exist yet, as numbers and a JSON description.

        Digests of the images are saved only if these are public: small images can be recovered from digests.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        about = {
            "law": self.name,
            "sizes": dict(self.sizes),
            "filters": self.filters,
            "space": self.space.describe(),
            "form": self.form.describe(),
            "source": self.source.describe(),
        }
        digests = sorted(self.seen) if self.source.kind == "public" else []
        seen = torch.from_numpy(np.array(digests, dtype=np.uint64).view(np.int64))
        weights = _module_dict(self.law, self.discriminator).state_dict()
        return save_tensors(path, _FORMAT, about, {**weights, _SEEN: seen})

    @classmethod
    def load(cls, path: str | Path) -> ImageGenerator:
        """Load a saved generator. Opening the file runs no code, and any other file is refused.

        Raises:
            InputError: The file does not exist, or is not such a generator.
        """
        with opened_tensors(path, _FORMAT) as (opened, about):
            return _read_generator(opened, about)


def image_form(shape: tuple[int, ...]) -> Form:
    """The form of images of bytes: any byte in any pixel, so that it reveals nothing about the images."""
    size = int(np.prod(shape))
    return Form((ColumnForm("features", f"list<uint8>[{size}]", shape=tuple(map(int, shape))),), of_array=True)


def _uniform_numbers(words: np.ndarray) -> Float[np.ndarray, "m u"]:
    """Uniform numbers strictly between 0 and 1, of 53 bits each."""
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def _module_dict(law: Law, discriminator: ImageDiscriminator | None) -> nn.ModuleDict:
    return nn.ModuleDict({"law": law} if discriminator is None else {"law": law, "discriminator": discriminator})


def _read_generator(opened: Any, about: Mapping[str, Any]) -> ImageGenerator:
    """Read a generator from a file; allocates nothing before the sizes have been checked.

    Raises:
        ValueError: The parts of the file do not agree.
    """
    name, sizes, filters = about["law"], dict(about["sizes"]), about["filters"]
    wanted = set(inspect.signature(LAWS[name]).parameters)
    if set(sizes) != wanted or not all(type(size) is int and 0 < size < MOST_SIZE for size in sizes.values()):
        raise ValueError("other sizes")
    if type(filters) is not int or not 0 <= filters < MOST_SIZE or not sides_fit(sizes["height"], sizes["width"]):
        raise ValueError("other sizes")
    space, form, source = space_from(about["space"]), form_from(about["form"]), Source(**about["source"])
    shape = form.columns[0].shape or ()
    image = (sizes["channels"], sizes["height"], sizes["width"])
    if shape not in (image, image[1:]) or form != image_form(shape) or space.size != sizes["classes"]:
        raise ValueError("the parts of the file contradict each other")
    with torch.device("meta"):
        law = LAWS[name](**sizes)
        outer = {each: sizes[each] for each in ("classes", "channels", "height", "width")}
        discriminator = ImageDiscriminator(**outer, filters=filters) if filters else None
    modules = _module_dict(law, discriminator)
    modules.load_state_dict(weights_of(opened, modules, besides={_SEEN}), assign=True)
    modules.requires_grad_(requires_grad=False).eval()
    seen = opened.get_tensor(_SEEN)
    if seen.dtype != torch.int64 or seen.ndim != 1:
        raise ValueError("other digests")
    digests = frozenset(seen.numpy().view(np.uint64).tolist())
    return ImageGenerator(name, sizes, law, space, form, source, digests, discriminator, filters)
