"""Probabilities of classes by a network, whose weights are arrays in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeldp._shapes import Float
from labeldp.learning.features import PixelEncoder
from labeldp.learning.files import StoredArrays
from labeldp.learning.heads import softmax
from labeldp.learning.images import PatchScores
from labeldp.learning.torch._image_ensemble import folded_network, logarithms
from labeldp.learning.torch._networks import NETWORKS
from labeldp.learning.torch._rows import predicted_rows

#: What arrays of both parts of an ensemble begin with in a file.
_PATCHES, _NETWORK = "1.patches.", "1.network."


@dataclass(frozen=True, eq=False)
class NetworkScores:
    """A trained network, with the scores of patches that are added to its own in an ensemble.

    Attributes:
        module: The network, in evaluation mode; its outputs are in declared order.
        patches: Scores of patches; None without them.
    """

    module: nn.Module
    patches: PatchScores | None = None

    @classmethod
    def of_ensemble(cls, model: Any, order: np.ndarray) -> NetworkScores:
        """Both parts of a fitted ``ImageEnsemble``, each with its weight."""
        return cls(folded_network(model), PatchScores.of(model.patches_, order, model.weights_["patches"]))

    @classmethod
    def from_arrays(cls, name: str, encoder: Any, sizes: Mapping[str, int], arrays: StoredArrays) -> NetworkScores:
        """The network that arrays in a file describe; names, types and shapes are checked before any array is read.

        Raises:
            ValueError: They are others than those of the network, or not finite.
        """
        own = dict(sizes)
        patches = PatchScores.shapes(**own) if name == "ensemble" else {}
        if patches:
            own = {each: own[each] for each in ("classes", "channels")}
        module, start = module_of(name, encoder, own, "meta"), _NETWORK if patches else ""
        state = module.state_dict()
        kinds = {each: torch.empty(0, dtype=value.dtype).numpy().dtype for each, value in state.items()}
        wanted = {start + each: (kinds[each], tuple(value.shape)) for each, value in state.items()}
        arrays.check(wanted | {_PATCHES + each: (np.dtype("<f4"), shape) for each, shape in patches.items()})
        module.load_state_dict({each: torch.from_numpy(arrays.finite(start + each)) for each in state}, assign=True)
        of_patches = {each: arrays.finite(_PATCHES + each) for each in patches}
        looks = {each: sizes[each] for each in ("scales", "views") if each in sizes}
        return cls(
            module.requires_grad_(requires_grad=False).eval(),
            PatchScores.from_arrays(of_patches, **looks) if patches else None,
        )

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays as a file holds them."""
        start = "" if self.patches is None else _NETWORK
        weights = {start + name: value.detach().cpu().numpy() for name, value in self.module.state_dict().items()}
        return weights | {_PATCHES + name: each for name, each in (self.patches.arrays if self.patches else {}).items()}

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that follow from neither the classes nor the inputs."""
        return {} if self.patches is None else self.patches.sizes

    def probabilities(self, features: Any, classes: int) -> Float[np.ndarray, "n k"]:
        """Probabilities of classes in declared order.

        Raises:
            InputError: Some are not finite.
        """
        device = next(self.module.parameters()).device
        found = predicted_rows(self.module, features, classes, device)
        return found if self.patches is None else softmax(logarithms(found) + self.patches(features))


def module_of(name: str, encoder: Any, sizes: Mapping[str, int], device: str = "cpu") -> nn.Module:
    """A new network with initial weights; on the device ``"meta"``, without memory.

    Images are scaled first, but for the network of an ensemble, which takes them as they are.
    """
    with torch.device(device):
        network = NETWORKS["residual" if name == "ensemble" else name](**sizes)
    if isinstance(encoder, PixelEncoder) and name != "ensemble":
        return nn.Sequential(_ScaledImages(encoder.mean, encoder.deviation), network)
    return network


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
