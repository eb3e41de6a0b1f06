"""Networks on released labels: losses under a channel, rows for PyTorch's loaders, and a classifier that trains.

Generators of small images given their class are here too.

Needs ``pip install 'labeldp[torch]'``.
"""

from __future__ import annotations

from labeldp.errors import MissingExtraError

try:
    from labeldp.learning._torch_augmentation import augmentation
    from labeldp.learning._torch_classifier import TorchClassifier
    from labeldp.learning._torch_generator import ConditionalGenerator, ImageMixture
    from labeldp.learning._torch_generator_files import ImageGenerator
    from labeldp.learning._torch_losses import BatchLoss
    from labeldp.learning._torch_models import NetworkModel
    from labeldp.learning._torch_networks import NETWORKS, convolutional, inception, mlp, ratings, resnet18
    from labeldp.learning._torch_rows import ReleasedRows
    from labeldp.learning._torch_tables import learn_network, learner_of, network_of, trained_model
except ModuleNotFoundError as missing:
    raise MissingExtraError(f"expected {missing.name}, found none; pip install 'labeldp[torch]'") from None

__all__ = [
    "NETWORKS",
    "BatchLoss",
    "ConditionalGenerator",
    "ImageGenerator",
    "ImageMixture",
    "NetworkModel",
    "ReleasedRows",
    "TorchClassifier",
    "augmentation",
    "convolutional",
    "inception",
    "learn_network",
    "learner_of",
    "mlp",
    "network_of",
    "ratings",
    "resnet18",
    "trained_model",
]
