"""A network in a file: numbers and plain text, from which nothing is run.

The file is one of safetensors, whose header holds JSON: which network, of which sizes, what it takes of a row, and the
certificate of what it was learned from.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from labeldp.errors import InputError, VerificationError
from labeldp.learning.features import (
    ColumnEncoder,
    Encoder,
    PairEncoder,
    PixelEncoder,
    encoder_from,
    frame_of,
    write_new_file,
)
from labeldp.learning.torch._losses import NETWORK_METHODS
from labeldp.learning.torch._networks import NETWORKS
from labeldp.learning.torch._outputs import moved, probabilities
from labeldp.learning.torch._rows import taken
from labeldp.privacy import LabelSpace
from labeldp.release.folder import Certificate

SCHEMA = "labeldp/network/1"
PREFIX = "torch:"

_HEADER = "labeldp"
_MOST_SIZE = 1 << 31
_PREDICTED = 1024
#: What each network takes of a row.
ENCODERS: Mapping[str, type[Encoder]] = {
    "convolutional": PixelEncoder,
    "inception": PixelEncoder,
    "resnet18": PixelEncoder,
    "ratings": PairEncoder,
    "mlp": ColumnEncoder,
}


@dataclass(frozen=True, eq=False)
class Network:
    """A network that is not trained yet, and what it takes of a row.

    Attributes:
        name: Which one, as in ``NETWORKS``.
        classes: Number of classes.
        encoder: What it takes.
        sizes: Whole numbers that it is made of, besides those that follow from the encoder.
    """

    name: str
    classes: int
    encoder: Encoder
    sizes: Mapping[str, int]

    def __post_init__(self) -> None:
        if self.name not in NETWORKS or not isinstance(self.encoder, ENCODERS[self.name]):
            raise ValueError("no network of that name takes this")
        known = set(inspect.signature(NETWORKS[self.name]).parameters)
        given = [*self.encoder.sizes, *self.sizes, "classes"]
        if len(set(given)) != len(given) or not set(given) <= known:
            raise ValueError("the network is made of other numbers")
        if not all(isinstance(size, int) and 0 < size < _MOST_SIZE for size in self._arguments.values()):
            raise ValueError("the network is made of whole numbers")

    @property
    def _arguments(self) -> dict[str, int]:
        return {**self.encoder.sizes, **self.sizes, "classes": self.classes}

    def module(self, device: str = "cpu") -> nn.Module:
        """A new one, with first weights; on the device ``"meta"`` it has no memory yet."""
        with torch.device(device):
            made = NETWORKS[self.name](**self._arguments)
        if isinstance(self.encoder, PixelEncoder):
            return nn.Sequential(_Scaled(self.encoder.mean, self.encoder.deviation), made)
        return made

    def plain(self) -> dict[str, Any]:
        """This as plain data."""
        return {
            "name": self.name,
            "classes": self.classes,
            "sizes": dict(self.sizes),
            "takes": self.encoder.plain(),
        }

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> Network:
        """What ``plain`` wrote."""
        made = cls(body["name"], body["classes"], encoder_from(body["takes"]), dict(body["sizes"]))
        if made.plain() != body:
            raise ValueError("a network is described by other parts")
        return made


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained network that takes the rows of a table, or images, and what it was learned from.

    Attributes:
        network: Which network, and what it takes.
        module: The trained network, in evaluation mode.
        method: How it was learned.
        certificate: That of the release it was learned from, whose guarantee covers the model.
    """

    network: Network
    module: nn.Module
    method: str
    certificate: Certificate

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.certificate.space

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that it takes, each with its kind."""
        return self.network.encoder.columns

    @property
    def inputs(self) -> list[str]:
        """What it takes, in words."""
        return self.network.encoder.inputs

    @property
    def model(self) -> str:
        """Its name on the command line."""
        return f"{PREFIX}{self.network.name}"

    def predict_proba(self, table: object, images: np.ndarray | None = None) -> Float[np.ndarray, "n k"]:
        """Probabilities of the true classes, shape (n, k).

        Args:
            table: An Arrow table or a pandas or polars frame; None for a model of images.
            images: The image of each row, of shape (n, channels, height, width), for a model of images.

        Raises:
            InputError: A column is missing or not of its kind, or images are missing or of another size.
        """
        frame = frame_of(pa.table(table), self.columns) if self.columns else pd.DataFrame()
        features = self.network.encoder.features(frame, images)
        found = np.empty((len(features), self.space.size))
        device = next(self.module.parameters()).device
        for low in range(0, len(found), _PREDICTED):
            rows = np.arange(low, min(low + _PREDICTED, len(found)))
            found[rows] = probabilities(self.module, moved(taken(features, rows, torch.float32), device))
        return found

    def predict(self, table: object, images: np.ndarray | None = None) -> np.ndarray:
        """The most likely true class of each row."""
        return np.asarray(np.asarray(self.space.points)[np.argmax(self.predict_proba(table, images), axis=1)])

    def save(self, path: str | Path) -> Path:
        """Write the model to a file that does not exist yet: numbers, and JSON that says what they are.

        Raises:
            OutputError: The file exists, or there is no folder to put it in.
        """
        about = {
            "schema": SCHEMA,
            "made_with": {name: version(name) for name in ("labeldp", "torch")},
            "network": self.network.plain(),
            "method": self.method,
            "certificate": json.loads(self.certificate.to_json()),
        }
        weights = {name: value.detach().cpu().contiguous() for name, value in self.module.state_dict().items()}
        return write_new_file(Path(path), lambda file: save_file(weights, file, {_HEADER: json.dumps(about)}))

    @classmethod
    def load(cls, path: str | Path) -> NetworkModel:
        """A model that was saved.

        Args:
            path: A file that ``save`` wrote. Opening it runs nothing: it holds numbers and text, the network is one of
                this package's, and a file that describes another, or has other numbers than that needs, is refused
                before any of them is read.

        Raises:
            InputError: There is no such file, or it holds something else.
        """
        file = Path(path)
        if not file.is_file():
            raise InputError(f"expected a model, found no file {file}; make one with 'labeldp learn'")
        try:
            with safe_open(file, framework="pt") as opened:
                about = json.loads((opened.metadata() or {})[_HEADER])
                if about["schema"] != SCHEMA:
                    raise InputError(f"expected a model of schema {SCHEMA}, found {about['schema']!r}; learn it anew")
                certificate = Certificate.from_json(json.dumps(about["certificate"]))
                network = Network.from_plain(about["network"])
                if network.classes != certificate.space.size or about["method"] not in NETWORK_METHODS:
                    raise ValueError("the parts of the file contradict each other")
                module = network.module("meta")
                module.load_state_dict(weights_of(opened, module), assign=True)
        except (
            SafetensorError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            RecursionError,
            OSError,
        ) as problem:
            if isinstance(problem, InputError):
                raise
            why = str(problem) if isinstance(problem, VerificationError) else "something else"
            raise InputError(f"expected a model made by 'labeldp learn' in {file}, found {why}") from None
        return cls(network, module.requires_grad_(requires_grad=False).eval(), about["method"], certificate)


class _Scaled(nn.Module):
    """Images whose channels have mean 0 and deviation 1 over those that the network was trained on."""

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32)[:, None, None], persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """The images, scaled."""
        found: Tensor = (images - self.mean) / self.deviation
        return found


def weights_of(opened: Any, module: nn.Module, besides: Set[str] = frozenset()) -> dict[str, Tensor]:
    """The numbers of a file, if they are those of a network: by names, shapes and kinds first, then finite ones.

    Args:
        opened: The file.
        module: The network, which needs no memory yet.
        besides: Names of what else the file holds.

    Raises:
        ValueError: They are others.
    """
    wanted = module.state_dict()
    if set(opened.keys()) != set(wanted) | besides:
        raise ValueError("numbers of other names")
    if any(tuple(opened.get_slice(name).get_shape()) != tuple(value.shape) for name, value in wanted.items()):
        raise ValueError("numbers of other shapes")
    found = {name: opened.get_tensor(name) for name in wanted}
    if any(found[name].dtype != value.dtype or not torch.isfinite(found[name]).all() for name, value in wanted.items()):
        raise ValueError("numbers of another kind, or without end")
    return found
