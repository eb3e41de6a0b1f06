"""A fitted generator of images: what it draws, and its file of numbers and plain text, from which nothing is run."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from labeldp._words import SecureWords
from labeldp.errors import InputError
from labeldp.learning.features import write_new_file
from labeldp.learning.torch._files import weights_of
from labeldp.learning.torch._image_laws import LAWS, Discriminator, Law, sides_fit
from labeldp.mechanisms.features import ColumnForm, Form, Generator, Source, form_from
from labeldp.privacy import LabelSpace, space_from

SCHEMA = "labeldp/image-generator/1"
#: The largest whole number that a law is made of.
MOST_SIZE = 1 << 16

_HEADER = "labeldp"
_DRAWN = 1024
_WHITE = 255
_SEEN = "seen"


@dataclass(frozen=True, eq=False)
class ImageGenerator:
    """A fitted generator of images of a class.

    Attributes:
        name: Which law: ``"network"`` or ``"mixture"``.
        sizes: The whole numbers that it is made of.
        law: The law of images given uniform numbers and classes.
        space: The declared classes.
        form: What images look like: bytes of one shape.
        source: Where its knowledge comes from.
        seen: Digests of the images that it was fitted on.
        discriminator: What the network was trained against; a mixture has none.
        filters: Channels of the discriminator's first layer; 0 where there is none.
    """

    name: str
    sizes: Mapping[str, int]
    law: Law
    space: LabelSpace
    form: Form
    source: Source
    seen: frozenset[int]
    discriminator: Discriminator | None = None
    filters: int = 0

    def generator(self) -> Generator:
        """What a mechanism takes: it draws afresh at every call, with words from the operating system."""
        return Generator(self.space, self.form, self.source, self._drawn, seen=self.seen)

    def _drawn(self, codes: Int[np.ndarray, "m"]) -> UInt8[np.ndarray, "m *shape"]:
        """An image for each class code.

        A public generator with few seeds would show which images are its own: who tries them all finds the ones that
        it made. PyTorch keeps 32 bits of a seed, so the words are those that labels are drawn with.
        """
        words, parts = SecureWords(), []
        for low in range(0, len(codes), _DRAWN):
            original = torch.from_numpy(np.asarray(codes[low : low + _DRAWN], dtype=np.int64))
            count = self.law.uniforms
            block = words.block(low * count, len(original) * count).reshape(len(original), count)
            with torch.inference_mode():
                parts.append(self.law(torch.from_numpy(_between(block)), original).numpy())
        return np.concatenate(parts).reshape(len(codes), *(self.form.columns[0].shape or ()))

    def log_odds(self, images: UInt8[np.ndarray, "m *shape"], label: object) -> Float[np.ndarray, "m"]:
        """Log odds, by its own discriminator, that images of one class are given ones and not made.

        Args:
            images: Images of the form, shape (m, ...).
            label: A declared class, one for all of them.

        Raises:
            InputError: It has no discriminator, or images are of another shape.
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
            found = [self.discriminator(part.float() / _WHITE, torch.full((len(part),), code)) for part in parts]
        return torch.cat(found).double().numpy()  # type: ignore[no-any-return]

    def save(self, path: str | Path) -> Path:
        """Write it to a file that does not exist yet: numbers, and JSON that says what they are.

        Digests of the images go into it only if these are public: small images can be found again from digests.

        Raises:
            OutputError: The file exists, or there is no folder to put it in.
        """
        about = {
            "schema": SCHEMA,
            "made_with": {name: version(name) for name in ("labeldp", "torch")},
            "law": self.name,
            "sizes": dict(self.sizes),
            "filters": self.filters,
            "space": self.space.describe(),
            "form": self.form.describe(),
            "source": self.source.describe(),
        }
        kept = sorted(self.seen) if self.source.kind == "public" else []
        seen = torch.from_numpy(np.array(kept, dtype=np.uint64).view(np.int64))
        numbers = {name: value.contiguous() for name, value in self._modules().state_dict().items()}
        return write_new_file(
            Path(path), lambda file: save_file(numbers | {_SEEN: seen}, file, {_HEADER: json.dumps(about)})
        )

    def _modules(self) -> nn.ModuleDict:
        return _together(self.law, self.discriminator)

    @classmethod
    def load(cls, path: str | Path) -> ImageGenerator:
        """A generator that was saved. Opening the file runs nothing, and a file of anything else is refused.

        Raises:
            InputError: There is no such file, or it holds something else.
        """
        file = Path(path)
        if not file.is_file():
            raise InputError(f"expected a generator of images, found no file {file}; fit one and save it")
        try:
            with safe_open(file, framework="pt") as opened:
                return _read(opened, json.loads((opened.metadata() or {})[_HEADER]))
        except (SafetensorError, LookupError, TypeError, ValueError, AttributeError, RecursionError, OSError):
            pass
        raise InputError(f"expected a generator of images in {file}, found something else, or a damaged one")


def image_form(shape: tuple[int, ...]) -> Form:
    """The form of images of bytes: any byte at any point, so that it says nothing of the images at hand."""
    size = int(np.prod(shape))
    return Form((ColumnForm("features", f"list<uint8>[{size}]", shape=tuple(map(int, shape))),), of_array=True)


def _between(words: np.ndarray) -> Float[np.ndarray, "m u"]:
    """Uniform numbers strictly between 0 and 1, of 53 bits each."""
    return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


def _together(law: Law, judge: Discriminator | None) -> nn.ModuleDict:
    return nn.ModuleDict({"law": law} if judge is None else {"law": law, "discriminator": judge})


def _read(opened: Any, about: Mapping[str, Any]) -> ImageGenerator:
    """What a file holds, if its parts agree; nothing large is made before its sizes are those of the file.

    Raises:
        ValueError: They do not.
    """
    if about["schema"] != SCHEMA:
        raise ValueError("another schema")
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
        judge = Discriminator(**outer, filters=filters) if filters else None
    modules = _together(law, judge)
    modules.load_state_dict(weights_of(opened, modules, besides={_SEEN}), assign=True)
    modules.requires_grad_(requires_grad=False).eval()
    seen = opened.get_tensor(_SEEN)
    if seen.dtype != torch.int64 or seen.ndim != 1:
        raise ValueError("other digests")
    digests = frozenset(seen.numpy().view(np.uint64).tolist())
    return ImageGenerator(name, sizes, law, space, form, source, digests, judge, filters)
