"""Networks that learn from released labels, and image generators (PyTorch)."""

import lazy_loader

from labeldp._extras import require_extra

require_extra("torch", "torch", "accelerate", "kornia")
__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)

__all__ = [
    "ChannelLoss",
    "ImageEnsemble",
    "TorchClassifier",
    "augmentation",
    "convolutional",
    "inception",
    "mlp",
    "ratings",
    "residual",
    "resnet18",
    "whitened",
]
