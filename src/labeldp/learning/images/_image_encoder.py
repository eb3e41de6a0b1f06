"""An encoder of images that others trained: its features of images, in batches, from a cache where they are there.

One in an ONNX file is not trusted. The file is a graph of known operators on arrays: no code of its own runs. It can
name further files, and loops that do not end; so its parts are looked at before the runtime sees it, and both are
refused. Its memory has a bound.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from labeldp._documented import documented_in
from labeldp._extras import require_extra
from labeldp._own_files import opened_own, replace_file
from labeldp._progress import Progress, silent
from labeldp._shapes import Float, Shaped, UInt8
from labeldp._threads import blocks
from labeldp.errors import InputError, OutputError
from labeldp.learning.features import NOT_STATED, EncoderCard
from labeldp.learning.images._patch_features import pixels_of
from labeldp.release.tables import disk_path

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
            (report or silent)("encode", rows.stop, len(pixels))
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


#: Bounds on the bytes of a file and on its parts, on the pixels and channels of an image, and on features.
_MOST_BYTES, _MOST_PARTS, _MOST_PIXELS, _CHANNELS, _MOST_FEATURES = 1 << 30, 1 << 20, 1 << 20, (1, 3), 1 << 14
#: The most memory of all graphs together: a few numbers in a file can ask for any.
_MOST_MEMORY = 1 << 32
#: The parts of each message of an ONNX file that are looked at: the message in each numbered field.
_MESSAGES: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {7: "graph"},
        "graph": {1: "node", 5: "tensor", 15: "sparse"},
        "node": {5: "attribute"},
        "attribute": {5: "tensor", 10: "tensor", 22: "sparse", 23: "sparse"},
        "sparse": {1: "tensor", 2: "tensor"},
        "tensor": {},
    }
)
#: The fields of each message that are refused, with what they hold.
_REFUSED: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "model": {20: "training", 25: "functions of its own"},
        "attribute": {6: "loops or branches", 11: "loops or branches"},
        "tensor": {13: "weights in another file", 14: "weights in another file"},
    }
)
#: The field with the domain of an operator, and the names of the standard one; tags of fields are below a bound.
_DOMAIN, _KNOWN_DOMAINS, _TAGS = ("node", 7), (b"", b"ai.onnx"), 1 << 32
#: Mean and standard deviation of the channels of ImageNet, on a scale where white is one, as encoders are trained with.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_ADVICE = "export it with a fixed height and width: one input of shape (batch, channels, height, width), one output"


def onnx_encoder(
    path: str | Path, *, licence: str = NOT_STATED, labels: str = NOT_STATED, cache: Path | None = None
) -> ImageEncoder:
    """The encoder in an ONNX file with weights, which ends in ``.onnx``.

    It takes images of one fixed size, channels first: as bytes from 0 to 255 if its input is of bytes; else scaled by
    the mean and the standard deviation of ImageNet's channels (of gray images to between 0 and 1). Its output is a
    vector for each image, or a map of vectors, of which the mean is taken.

    Args:
        path: The file.
        licence: Its licence, which you state.
        labels: The labels that it was trained on, which you state.
        cache: Folder of features that were computed before; None for no cache.

    Raises:
        InputError: It is no such file, or names other files, or has loops.
        MissingExtraError: The runtime is not installed.
    """
    require_extra("encoders", "onnxruntime")
    place = disk_path(path)
    if not place.is_file() or place.stat().st_size > _MOST_BYTES:
        raise InputError(f"expected an ONNX file of at most {_MOST_BYTES:,} bytes, found none at {place}")
    content = place.read_bytes()
    try:
        check_message(content)
        session = _session(content)
    except InputError:
        raise
    except Exception:  # noqa: BLE001 (a damaged or forged file fails in many ways, and so does the runtime)
        session = None
    if session is None:
        raise InputError(f"expected an ONNX file in {place}, found something else, or one that the runtime refuses")
    name, shape, of_bytes, one = _input_of(session)

    def run(images: np.ndarray) -> np.ndarray:
        scaled = images if of_bytes else _scaled(images)
        parts = scaled[:, None] if one else [scaled]
        try:
            maps = np.concatenate([np.asarray(session.run(None, {name: part})[0]) for part in parts])
        except Exception:  # noqa: BLE001 (its messages repeat parts of the file)
            maps = np.empty(0)
        if maps.ndim not in (2, 4) or len(maps) != len(images):
            raise InputError(f"expected features of images by the encoder {place.name}, found none; {_ADVICE}")
        return maps if maps.ndim == 2 else maps.mean(axis=(2, 3))

    outputs = run(np.zeros((1, *shape), np.uint8)).shape[1]
    if not 0 < outputs <= _MOST_FEATURES:
        raise InputError(f"expected at most {_MOST_FEATURES:,} features of an image by an encoder, found {outputs:,}")
    card = EncoderCard(place.name, hashlib.sha256(content).hexdigest(), licence, labels, shape, outputs)
    return ImageEncoder(card, run, cache)


def check_message(content: bytes) -> None:
    """Refuse parts of an ONNX file that name other files, or whose work does not follow from their size.

    Raises:
        InputError: There is such a part.
        ValueError: It is no message, or has too many parts.
        IndexError: It ends before its end.
    """
    messages, parts = [("model", memoryview(content))], 0
    while messages:
        kind, message = messages.pop()
        for field, part in _fields(message):
            parts += 1
            if parts > _MOST_PARTS:
                raise ValueError("too many parts")
            why = _REFUSED.get(kind, {}).get(field)
            if why is not None or ((kind, field) == _DOMAIN and bytes(part or b"") not in _KNOWN_DOMAINS):
                raise InputError(
                    "expected an encoder whose weights and standard operators are in one plain graph, found "
                    f"{why or 'other operators'}; export it anew"
                )
            inner = _MESSAGES[kind].get(field)
            if inner is not None:
                if part is None:
                    raise ValueError("a number in the place of a message")
                messages.append((inner, part))


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """The numbers of the fields of a message, and the bytes of those that have a length."""
    place = 0
    while place < len(message):
        tag, place = _number(message, place)
        kind, size = tag & 7, 0
        if tag >= _TAGS:  # which other readers cut off
            raise ValueError("a field of an unknown number")
        if kind == 0:
            _, place = _number(message, place)
        elif kind == 2:
            size, place = _number(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("a field of an unknown kind")
        if place + size > len(message):
            raise ValueError("a field that is longer than its message")
        yield tag >> 3, message[place : place + size] if kind == 2 else None
        place += size


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[place]
        value, place = value | (byte & 127) << shift, place + 1
        if byte < 128:
            return value, place
    raise ValueError("a number of too many bytes")


def _session(content: bytes) -> Any:
    """The runtime's session of a file, on one processor and without a word."""
    import onnxruntime  # noqa: PLC0415 (an extra of its own)

    _bound_memory()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.use_env_allocators", "1")  # those with a bound
    options.log_severity_level = 4
    options.use_deterministic_compute = True
    options.add_session_config_entry("session.load_model_format", "ONNX")  # and no other form, which is not looked at
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@functools.cache
def _bound_memory() -> None:
    """Give the runtime memory with a bound, which lasts as long as the process."""
    import onnxruntime  # noqa: PLC0415 (an extra of its own)

    kind, where = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
    memory, bound = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, where), onnxruntime.OrtArenaCfg({"max_mem": _MOST_MEMORY})
    onnxruntime.create_and_register_allocator(memory, bound)


def _input_of(session: Any) -> tuple[str, tuple[int, int, int], bool, bool]:
    """The name and the shape of an input of images, and whether it takes bytes, and one image at a time."""
    inputs = session.get_inputs()
    kinds = {"tensor(uint8)": True, "tensor(float)": False}
    shape = tuple(inputs[0].shape) if len(inputs) == 1 else ()
    fixed = len(shape) == 4 and all(isinstance(size, int) and size > 0 for size in shape[1:])
    if (
        not fixed
        or shape[1] not in _CHANNELS
        or shape[2] * shape[3] > _MOST_PIXELS
        or (isinstance(shape[0], int) and shape[0] != 1)
        or inputs[0].type not in kinds
        or len(session.get_outputs()) != 1
    ):
        raise InputError(f"expected an encoder of images, found another graph in the ONNX file; {_ADVICE}")
    return inputs[0].name, (shape[1], shape[2], shape[3]), kinds[inputs[0].type], shape[0] == 1


def _scaled(images: np.ndarray) -> np.ndarray:
    """Images as encoders were trained with them."""
    unit = images.astype(np.float32) / np.float32(255.0)
    if images.shape[1] == 1:
        return unit
    mean, deviation = (np.array(each, np.float32)[:, None, None] for each in (_MEAN, _DEVIATION))
    return np.asarray((unit - mean) / deviation, np.float32)
