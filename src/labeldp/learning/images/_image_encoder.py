"""An encoder of images that others trained: its features of images, in batches, from a cache where they are there."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._own_files import opened_own, replace_file
from labeldp._progress import Progress
from labeldp._shapes import Float, Shaped, UInt8
from labeldp._threads import blocks
from labeldp.errors import InputError, OutputError
from labeldp.learning.features import EncoderCard
from labeldp.learning.images._patch_features import pixels_of

#: Images of a file in the cache, and of a batch: small ones stay in the cache of a processor.
_CACHED, BATCH = 256, 8
#: Name of the folder of features in that of caches, and the first part of what a digest is taken of.
_FOLDER, _FORM = "labeldp/encoders", b"labeldp features of images 1"


def cache_folder() -> Path:
    """The user's folder for features of encoders, which can be removed at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _FOLDER


@documented_in("labeldp.learning.images")
@dataclass(frozen=True, eq=False)
class ImageEncoder:
    """An encoder of images that others trained, and what is known of it.

    ``labeldp.learning.tables.open_encoder`` opens one of an installed package, or of a file.

    Attributes:
        card: Name, digest, licence, and the labels that it was trained on.
        run: Function of a batch of images in the size that the encoder takes, of shape (b, channels, height, width)
            with bytes of 0 to 255, that returns features of shape (b, d).
        cache: Folder of features that were computed before, by the digests of encoder and images; None for no cache.

    Guarantee:
        A function of public images: no label of a release is seen. What the encoder discloses of the labels that it was
        trained on, the guarantee of a release does not cover.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.features import EncoderCard
        >>> from labeldp.learning.images import ImageEncoder
        >>> card = EncoderCard("means", "0" * 64, "CC0-1.0", "none", (3, 4, 4), 3)
        >>> encoder = ImageEncoder(card, lambda images: images.mean(axis=(2, 3)))
        >>> encoder(np.full((2, 1, 8, 8), 9, np.uint8))
        array([[9., 9., 9.],
               [9., 9., 9.]], dtype=float32)
    """

    card: EncoderCard
    run: Callable[[UInt8[np.ndarray, "b c h w"]], Shaped[np.ndarray, "b d"]]
    cache: Path | None = None

    def __call__(self, images: Any, report: Progress | None = None) -> Float[np.ndarray, "n d"]:
        """Features of images.

        Args:
            images: Bytes from 0 to 255 in a form that ``PatchFeatures`` takes.
            report: Called with ``("encode", done, of)``, in images.

        Raises:
            InputError: They are no such images, or the encoder fails, or its features are not finite.
        """
        pixels = pixels_of(images)
        if pixels.dtype != np.uint8:
            raise InputError(f"expected pixels as bytes from 0 to 255 for an encoder, found {pixels.dtype}")
        found = np.empty((len(pixels), self.card.outputs), np.float32)
        for rows in blocks(len(pixels), entries=_CACHED):
            found[rows] = self._features(np.ascontiguousarray(pixels[rows]))
            if report is not None:
                report("encode", rows.stop, len(pixels))
        return found

    def _features(self, pixels: UInt8[np.ndarray, "b c h w"]) -> Float[np.ndarray, "b d"]:
        """Features of a part of the images, from the cache if they are there."""
        if self.cache is None:
            return self._computed(pixels)
        facts = json.dumps([self.card.digest, self.card.inputs, self.card.outputs, pixels.shape]).encode()
        key = hashlib.sha256(b"\0".join([_FORM, facts, pixels.tobytes()])).digest()
        path = self.cache / f"{key.hex()}.features"
        with suppress(OSError, OutputError):  # no such file, or one that somebody else can have written
            with opened_own(path) as file:
                stored = file.read(len(key) + 4 * len(pixels) * self.card.outputs + 1)
            if stored[: len(key)] == key and len(stored) == len(key) + 4 * len(pixels) * self.card.outputs:
                return _finite(np.frombuffer(stored[len(key) :], "<f4").reshape(len(pixels), -1))
        computed = self._computed(pixels)
        with suppress(OSError):  # a full or read-only disk: what it cannot keep is computed again
            self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, lambda file: file.write(key + computed.astype("<f4").tobytes()))
        return computed

    def _computed(self, pixels: UInt8[np.ndarray, "b c h w"]) -> Float[np.ndarray, "b d"]:
        parts = [np.asarray(self.run(self._sized(pixels[rows]))) for rows in blocks(len(pixels), entries=BATCH)]
        wanted = (len(pixels), self.card.outputs)
        found = np.concatenate(parts)
        if found.shape != wanted or found.dtype.kind != "f":
            raise InputError(f"expected features of shape {wanted} by an encoder, found {found.dtype} of {found.shape}")
        return _finite(found.astype(np.float32))

    def _sized(self, pixels: UInt8[np.ndarray, "b _ _ _"]) -> UInt8[np.ndarray, "b c h w"]:
        """Images in the size and the channels that the encoder takes, bicubic between pixels."""
        channels, height, width = self.card.inputs
        if pixels.shape[1] not in (1, channels):
            raise InputError(f"expected gray images for an encoder of gray images, found {pixels.shape[1]} channels")
        if pixels.shape[2:] != (height, width):
            require_extra("images", "PIL")
            from PIL import Image  # noqa: PLC0415 (only images of another size need it)

            def resized(channel: np.ndarray) -> np.ndarray:
                return np.asarray(Image.fromarray(channel).resize((width, height), Image.Resampling.BICUBIC))

            pixels = np.stack([np.stack([resized(channel) for channel in image]) for image in pixels])
        return np.repeat(pixels, channels // pixels.shape[1], axis=1)


def _finite(features: Float[np.ndarray, "b d"]) -> Float[np.ndarray, "b d"]:
    """The features, unless some are not finite."""
    if not np.isfinite(features).all():
        raise InputError("expected finite features by an encoder, found others; take another encoder")
    return features
