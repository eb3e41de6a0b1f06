"""Training settings of a network and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

Schedule = Callable[[float], float]

#: Share of the steps in which rates grow from 0.
_RAMP = 0.15


def _ramp(done: float) -> float:
    return min(1.0, done / _RAMP)


#: Share of the learning rate as a function of the share of steps done, taken at the middle of each step.
SCHEDULES: MappingProxyType[str, Schedule] = MappingProxyType(
    {
        "constant": lambda _: 1.0,
        "linear": lambda done: min(_ramp(done), (1.0 - done) / (1.0 - _RAMP)),
        "piecewise": lambda done: _ramp(done) * 0.1 ** sum(done >= at for at in (0.3, 0.6, 0.9)),
        "cosine": lambda done: _ramp(done) * (1.0 + math.cos(math.pi * max(0.0, done - _RAMP) / (1.0 - _RAMP))) / 2.0,
    }
)


@dataclass(frozen=True)
class TrainingSettings:
    """Training settings of a network.

    Attributes:
        epochs: Number of passes over the rows.
        batch_size: Most rows of a step, over all processes.
        optimizer: Function that makes an optimizer of parameters.
        schedule: Share of the learning rate as a function of the share of steps done.
        mixup: Parameter of the beta distribution of mixing; 0 for no mixing.
        augment: Function that changes a batch of features on its device; None for no change.
        averaging: Decay of averaged weights; 0 for no averaging.
        patience: Number of epochs without a better gain on held-out released labels after which training stops.
        seed: Seed of all randomness in training.
        workers: Number of processes that load batches.
        channels_last: Whether images have the channels-last memory format.
    """

    epochs: int
    batch_size: int
    optimizer: Callable[[Any], Optimizer]
    schedule: Schedule
    mixup: float
    augment: Callable[[Tensor], Tensor] | None
    averaging: float
    patience: int | None
    seed: int
    workers: int
    channels_last: bool
