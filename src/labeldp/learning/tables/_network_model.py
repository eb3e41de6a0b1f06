"""A trained network, or a classifier of patches of images, by its architecture and its arrays.

Its encoder of images, if it has one, is opened by name: of an installed package, or a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from labeldp.columns import Columns
from labeldp.errors import InputError
from labeldp.learning.features import (
    INSTALLED,
    NOT_STATED,
    ColumnEncoder,
    Encoder,
    EncoderCard,
    Images,
    PairEncoder,
    PixelEncoder,
    encoder_from,
    frame_of,
)
from labeldp.learning.files import Arrays, StoredArrays
from labeldp.learning.heads import softmax
from labeldp.learning.images import ImageEncoder, KernelHead, PatchScores, onnx_encoder
from labeldp.learning.sklearn import Mixture
from labeldp.learning.tables._model import Model
from labeldp.release.folder import Certificate

#: The ending of a file.
ONNX = ".onnx"


def open_encoder(
    encoder: str | Path, *, licence: str | None = None, labels: str | None = None, cache: Path | None = None
) -> ImageEncoder:
    """Open an encoder of images that others trained. Nothing is downloaded.

    Args:
        encoder: ``"efficientnet-lite0"``, which the extra ``efficientnet`` brings; or the path of an ONNX file, which
            ends in ``.onnx``.
        licence: Of a file: its licence, which you state.
        labels: Of a file: the labels that it was trained on, which you state, such as ``"ImageNet-1k"``. The guarantee
            of a release does not cover these.
        cache: Folder of features that were computed before; None for no cache.

    Raises:
        InputError: There is no such encoder, or it is not one of images; or something is stated of an installed one.
        MissingExtraError: Its packages are not installed.
    """
    if str(encoder) != INSTALLED:
        if Path(encoder).suffix != ONNX:
            raise InputError(
                f"expected an encoder that is {INSTALLED}, or a file that ends in {ONNX}, found {str(encoder)!r}"
            )
        return onnx_encoder(encoder, licence=licence or NOT_STATED, labels=labels or NOT_STATED, cache=cache)
    if licence is not None or labels is not None:
        raise InputError(
            f"expected no licence and no labels with {INSTALLED}, which has its own, found some; leave out"
        )
    from labeldp.learning.torch import efficientnet  # noqa: PLC0415 (PyTorch is an extra of its own)

    return efficientnet(cache)


#: What the names of networks begin with on the command line.
PREFIX = "torch:"
#: The classifiers of patches and of an encoder's features, which need no PyTorch, and what their arrays begin with.
PATCHES, ENCODER, _START = "patches", "encoder", "1."
_ALONE = (PATCHES, ENCODER)
_MOST_SIZE = 1 << 31
#: Encoder of the inputs of each network.
ENCODERS: Mapping[str, type[Encoder]] = MappingProxyType(
    {
        PATCHES: PixelEncoder,
        ENCODER: PixelEncoder,
        "ensemble": PixelEncoder,
        "convolutional": PixelEncoder,
        "residual": PixelEncoder,
        "inception": PixelEncoder,
        "resnet18": PixelEncoder,
        "whitened": PixelEncoder,
        "ratings": PairEncoder,
        "mlp": ColumnEncoder,
    }
)


@dataclass(frozen=True, eq=False)
class Network:
    """Architecture of a network, or of patches, with the encoder of its inputs.

    Attributes:
        name: Name in ``ENCODERS``.
        classes: Number of classes.
        encoder: Encoder of its inputs.
        sizes: Further arguments of the architecture, besides those that follow from the encoder.
    """

    name: str
    classes: int
    encoder: Encoder
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, ENCODERS[self.name]):
            raise ValueError("no network has this name and encoder")
        if (getattr(self.encoder, "card", None) is not None) != (self.name == ENCODER):
            raise ValueError("an encoder of images without its facts, or such facts of another network")
        if len({*self.encoder.sizes, *self.sizes, "classes"}) <= len(self.encoder.sizes) + len(self.sizes):
            raise ValueError("a size twice")
        if not all(isinstance(size, int) and 0 < size < _MOST_SIZE for size in self.arguments.values()):
            raise ValueError("the arguments of the network are not positive whole numbers")

    @property
    def arguments(self) -> dict[str, int]:
        """The arguments of the architecture."""
        return {**self.encoder.sizes, **self.sizes, "classes": self.classes}

    @property
    def needs_torch(self) -> bool:
        """True if PyTorch makes its predictions."""
        return self.name not in _ALONE

    def plain(self) -> dict[str, Any]:
        """The architecture as plain data."""
        return {
            "name": self.name,
            "classes": self.classes,
            "sizes": dict(self.sizes),
            "takes": self.encoder.plain(),
        }

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> Network:
        """An architecture from plain data."""
        network = cls(body["name"], body["classes"], encoder_from(body["takes"]), dict(body["sizes"]))
        if network.plain() != body:
            raise ValueError("the description has other parts")
        return network

    def predictor(self, arrays: StoredArrays) -> Any:
        """The predictor of arrays in a file, whose names, types and shapes are checked before any is read.

        Raises:
            ValueError: They are others than those of the network, or not finite.
        """
        if self.needs_torch:
            from labeldp.learning.torch import NetworkScores  # noqa: PLC0415 (PyTorch is an extra of its own)

            return NetworkScores.from_arrays(self.name, self.encoder, self.arguments, arrays)
        kind: Any = KernelHead if self.name == ENCODER else PatchScores
        shapes = kind.shapes(**self.arguments)
        arrays.check({_START + name: (np.dtype("<f4"), shape) for name, shape in shapes.items()})
        looks = {name: self.sizes[name] for name in ("scales", "views") if name in self.sizes}
        return kind.from_arrays({name: arrays.finite(_START + name) for name in shapes}, **looks)


@dataclass(frozen=True, eq=False)
class NetworkModel(Model):
    """A trained network for table rows or images, with the certificate of its release.

    Attributes:
        network: Architecture, with the encoder of its inputs.
        predictor: ``PatchScores``, the ``KernelHead`` of an encoder's features, or the trained network; outputs are in
            declared order.
        method: Training method.
        certificate: Certificate of the release that it was learned from, whose guarantee covers the model.
        calibrator: Calibration of its probabilities by held-out released labels; None without one.
        sets: Sets that hold the true label of most rows; None if none were calibrated.
        image_encoder: The encoder of its images; None for one that its name finds, or without one.
    """

    network: Network
    predictor: Any
    method: str
    certificate: Certificate
    calibrator: Mixture | None = None
    sets: PredictionSets | None = None
    image_encoder: ImageEncoder | None = None

    schema: ClassVar[str] = "labeldp/network/1"

    @property
    def columns(self) -> Mapping[str, str]:
        """Kind of each input column."""
        return self.network.encoder.columns

    @property
    def inputs(self) -> list[str]:
        """Names of the inputs."""
        return self.network.encoder.inputs

    @property
    def model(self) -> str:
        """Name on the command line."""
        return model_of(self.network.name)

    def _alone(self, table: object, images: object) -> np.ndarray:
        table, pixels = _rows_and_images(table, images)
        chosen, texts = self.columns, self.network.encoder.texts
        frame = frame_of(Columns(table).table(chosen), chosen, texts) if chosen else pd.DataFrame()
        features = self.network.encoder.features(frame, pixels)
        if self.network.name == ENCODER:
            features = self._encoder()(features)
        if not self.network.needs_torch:
            return softmax(self.predictor(features))
        return np.asarray(self.predictor.probabilities(features, self.space.size))

    @property
    def card(self) -> EncoderCard | None:
        """Facts about the encoder of its images; None without one."""
        return getattr(self.network.encoder, "card", None)

    def with_encoder(self, encoder: str | Path | None, cache: Path | None = None) -> NetworkModel:
        """This model with the encoder that it was learned with, opened once more.

        Args:
            encoder: Its file, as ``open_encoder`` takes it; None for one that its name finds.
            cache: Folder of features that were computed before; None for no cache.

        Raises:
            InputError: The encoder is another one, or a file that was not passed, or the model has none.
        """
        card = self.card
        if card is None:
            if encoder is None:
                return self
            raise InputError("expected no encoder for a model that was learned without one, found one; leave it out")
        if encoder is None and card.name != INSTALLED:
            raise InputError(f"expected the file of the encoder {card.name}, found none; pass it (--encoder)")
        opened = open_encoder(encoder or card.name, cache=cache)
        if opened.card.digest != card.digest:
            raise InputError(
                f"expected the encoder that the model was learned with, {card.name} of digest {card.digest}, found one "
                f"of digest {opened.card.digest}"
            )
        return replace(self, image_encoder=opened)

    def _encoder(self) -> ImageEncoder:
        return self.image_encoder or self.with_encoder(None)._encoder()

    def _described(self) -> tuple[dict[str, Any], dict[str, np.ndarray], tuple[str, ...]]:
        start, libraries = ("", ("torch",)) if self.network.needs_torch else (_START, ())
        arrays = {start + name: each for name, each in self.predictor.arrays.items()}
        return {"network": self.network.plain()}, arrays, libraries

    @classmethod
    def _restored(cls, about: dict[str, Any], arrays: Arrays, certificate: Certificate) -> Self:
        network, method = Network.from_plain(about["network"]), about["method"]
        if not isinstance(arrays, StoredArrays):
            raise TypeError("a network in a file of another form")
        if network.classes != certificate.space.size or method not in methods_of(network.name):
            raise ValueError("the parts of the file contradict each other")
        calibrator = Mixture.from_plain(about.get("calibrator"), network.classes)
        return cls(network, network.predictor(arrays), method, certificate, calibrator)


def model_of(name: str) -> str:
    """The name of a network on the command line."""
    return name if name in _ALONE else f"{PREFIX}{name}"


def is_network(model: str) -> bool:
    """True for the name of a network, of patches or of an encoder's features, on the command line."""
    return model.startswith(PREFIX) or model in _ALONE


def methods_of(name: str) -> tuple[str, ...]:
    """The methods of a network, the default one first.

    Raises:
        MissingExtraError: It needs PyTorch, which is not installed.
    """
    if name in _ALONE:
        return ("likelihood",)
    from labeldp.learning.torch import NETWORK_METHODS  # noqa: PLC0415 (PyTorch is an extra of its own)

    return NETWORK_METHODS[:1] if name == "ensemble" else NETWORK_METHODS


def _rows_and_images(table: Any, images: Any) -> tuple[Any, np.ndarray | None]:
    """The table, if there is one, and the pixels of its rows, or of all images that were read.

    Raises:
        InputError: There is not one image for each row in the order of the rows.
    """
    if images is None and isinstance(table, Images | np.ndarray):
        table, images = None, table
    if not isinstance(images, Images):
        return table, images
    if table is not None and images.names is not None:
        raise InputError(
            "expected an image for each row of the table, found those of a folder in the order of their names; pass "
            "images.of_rows(len(table), table[...]) with the column of the file names"
        )
    return table, images.pixels if table is None else images.of_rows(len(Columns(table)))
