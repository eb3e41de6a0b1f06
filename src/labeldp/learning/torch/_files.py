"""A trained network in a file of numbers and plain text; opening it runs no code.

The format is safetensors with JSON in the header: the name and sizes of the network, its encoder, and the certificate
of the release that it was learned from.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from labeldp._arrow import Columns
from labeldp._new_files import write_new_file
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.features import (
    ColumnEncoder,
    Encoder,
    FileFormat,
    Images,
    PairEncoder,
    PixelEncoder,
    encoder_from,
    frame_of,
)
from labeldp.learning.sklearn import Mixture
from labeldp.learning.torch._networks import NETWORKS
from labeldp.learning.torch._rows import predicted_rows
from labeldp.learning.torch._values import NETWORK_METHODS
from labeldp.privacy import LabelSpace
from labeldp.release.folder import Certificate, check_charges
from labeldp.release.tables import disk_path

_FORMAT = FileFormat(
    "labeldp/network/1",
    "model",
    "made by 'labeldp learn'",
    "make one with 'labeldp learn'",
    ("labeldp", "torch"),
)
PREFIX = "torch:"

_HEADER = "labeldp"
_MOST_SIZE = 1 << 31
#: Encoder of the inputs of each network.
ENCODERS: Mapping[str, type[Encoder]] = {
    "patches": PixelEncoder,
    "ensemble": PixelEncoder,
    "convolutional": PixelEncoder,
    "residual": PixelEncoder,
    "inception": PixelEncoder,
    "resnet18": PixelEncoder,
    "ratings": PairEncoder,
    "mlp": ColumnEncoder,
}


@dataclass(frozen=True, eq=False)
class Network:
    """Architecture of a network, with the encoder of its inputs.

    Attributes:
        name: Name in ``NETWORKS``.
        classes: Number of classes.
        encoder: Encoder of its inputs.
        sizes: Further arguments of the architecture, besides those that follow from the encoder.
    """

    name: str
    classes: int
    encoder: Encoder
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.name not in NETWORKS or not isinstance(self.encoder, ENCODERS[self.name]):
            raise ValueError("no network has this name and encoder")
        known = set(inspect.signature(NETWORKS[self.name]).parameters)
        names = [*self.encoder.sizes, *self.sizes, "classes"]
        if len(set(names)) != len(names) or not set(names) <= known:
            raise ValueError("the network has other arguments")
        if not all(isinstance(size, int) and 0 < size < _MOST_SIZE for size in self._arguments.values()):
            raise ValueError("the arguments of the network are not positive whole numbers")

    @property
    def _arguments(self) -> dict[str, int]:
        return {**self.encoder.sizes, **self.sizes, "classes": self.classes}

    def module(self, device: str = "cpu") -> nn.Module:
        """A new network with initial weights; on the device ``"meta"``, without memory."""
        with torch.device(device):
            network = NETWORKS[self.name](**self._arguments)
        if isinstance(self.encoder, PixelEncoder):
            return nn.Sequential(_ScaledImages(self.encoder.mean, self.encoder.deviation), network)
        return network

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


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained network for table rows or images, with the certificate of its release.

    Attributes:
        network: Architecture, with the encoder of its inputs.
        module: The trained network, in evaluation mode; its outputs are in declared order.
        method: Training method.
        certificate: Certificate of the release that it was learned from, whose guarantee covers the model.
        calibrator: Calibration of its probabilities by held-out released labels; None without one.
    """

    network: Network
    module: nn.Module
    method: str
    certificate: Certificate
    calibrator: Mixture | None = None

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def classes_(self) -> np.ndarray:
        """The declared classes, sorted."""
        return np.asarray(np.array(self.space.points)[self.space.sorted_codes])

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
        return f"{PREFIX}{self.network.name}"

    def predict_proba(self, table: object, images: object = None) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``.

        Args:
            table: An Arrow table or a pandas or polars frame; for a model of images these, or None.
            images: The image of each row, for a model of images with a table: what ``read_images`` read from one file,
                or an array of shape (n, channels, height, width).

        Raises:
            InputError: A column is missing or not of its kind, or images are missing or of another size, or
                predictions are not finite.
        """
        table, pixels = _rows_and_images(table, images)
        chosen, texts = self.columns, self.network.encoder.texts
        frame = frame_of(Columns(table).table(chosen), chosen, texts) if chosen else pd.DataFrame()
        features = self.network.encoder.features(frame, pixels)
        device = next(self.module.parameters()).device
        declared = predicted_rows(self.module, features, self.space.size, device)
        if self.calibrator is not None:
            declared = self.calibrator(declared[None])
        return declared[:, self.space.sorted_codes]

    def predict(self, table: object, images: object = None) -> np.ndarray:
        """The most likely true class of each row."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(table, images), axis=1)])

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that does not exist yet, as numbers and a JSON description.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        about = {
            "network": self.network.plain(),
            "method": self.method,
            "certificate": self.certificate.plain(),
            "calibrator": None if self.calibrator is None else self.calibrator.plain(),
        }
        weights = {name: value.detach().cpu().contiguous() for name, value in self.module.state_dict().items()}
        header = {_HEADER: _FORMAT.description(about)}
        return write_new_file(disk_path(path), lambda file: save_file(weights, file, header), private=True)

    @classmethod
    def load(cls, path: str | Path) -> NetworkModel:
        """Load a saved model.

        Args:
            path: A file that ``save`` wrote. Opening it runs no code: it holds numbers and text for a network of this
                package. A file with another network, or with other numbers than the network needs, is refused before
                any of them is read.

        Raises:
            InputError: The file does not exist, or is not such a model.
        """
        with _FORMAT.reading(path) as file, safe_open(file, framework="pt") as opened:
            about = _FORMAT.read_description((opened.metadata() or {})[_HEADER])
            certificate = Certificate.from_json(json.dumps(about["certificate"]))
            check_charges(certificate)
            network = Network.from_plain(about["network"])
            if network.classes != certificate.space.size or about["method"] not in NETWORK_METHODS:
                raise ValueError("the parts of the file contradict each other")
            module = network.module("meta")
            module.load_state_dict(_weights_of(opened, module), assign=True)
            calibrator = Mixture.from_plain(about.get("calibrator"), network.classes)
        return cls(network, module.requires_grad_(requires_grad=False).eval(), about["method"], certificate, calibrator)


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


class _ScaledImages(nn.Module):
    """Layer that scales channels to mean 0 and standard deviation 1 over the training images."""

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """The images, scaled."""
        scaled: Tensor = (images - self.mean) / self.deviation
        return scaled


def _weights_of(opened: Any, module: nn.Module) -> dict[str, Tensor]:
    """Read the weights of a network from a file, after checking their names and shapes; then types and finiteness.

    Args:
        opened: The file.
        module: The network, possibly without memory.

    Raises:
        ValueError: The file holds other arrays.
    """
    wanted = module.state_dict()
    if set(opened.keys()) != set(wanted):
        raise ValueError("numbers of other names")
    if any(tuple(opened.get_slice(name).get_shape()) != tuple(value.shape) for name, value in wanted.items()):
        raise ValueError("numbers of other shapes")
    weights = {name: opened.get_tensor(name) for name in wanted}
    for name, value in wanted.items():
        if weights[name].dtype != value.dtype or not torch.isfinite(weights[name]).all():
            raise ValueError("numbers of another type, or infinite")
    return weights
