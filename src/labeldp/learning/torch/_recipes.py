"""Default training settings of each network of ``NETWORKS``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from labeldp.learning.torch._augmentation import augmentation

#: Arguments of ``TorchClassifier`` by the name of a network; ``inception`` and ``resnet18`` as in
#: Ghazi et al. 2021, appendix B, and ``whitened`` as in Jordan 2024.
TRAINING: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "convolutional": {"epochs": 12, "learning_rate": 0.01, "optimizer": "adamw", "channels_last": True},
        "residual": {"epochs": 20, "weight_decay": 0.02, "optimizer": "adamw", "channels_last": True},
        "inception": {"epochs": 40, "optimizer": "sgd", "learning_rate": 0.02, "channels_last": True},
        "resnet18": {
            "epochs": 200,
            "batch_size": 512,
            "optimizer": "sgd",
            "learning_rate": 0.4,
            "schedule": "piecewise",
        },
        "whitened": {
            "epochs": 10,
            "batch_size": 1024,
            "optimizer": "nesterov",
            "learning_rate": 1.5,
            "momentum": 0.85,
            "weight_decay": 1e-5,
            "augment": augmentation(crop=2, flip=True, cutout=0),
            "channels_last": True,
        },
        "ratings": {
            "epochs": 12,
            "batch_size": 512,
            "learning_rate": 0.01,
            "optimizer": "adam",
            "weight_decay": 3e-5,
        },
        "mlp": {"epochs": 20, "batch_size": 256, "learning_rate": 2e-3, "optimizer": "adamw"},
    }
)
