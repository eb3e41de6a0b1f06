"""How a network is trained: lengths, rates and the like, as data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

Schedule = Callable[[float], float]

#: The share of the steps in which rates grow from 0.
_RAMP = 0.15


def _ramp(done: float) -> float:
    return min(1.0, done / _RAMP)


#: The share of the learning rate at each share of the steps: that of each step is taken at its middle.
SCHEDULES: MappingProxyType[str, Schedule] = MappingProxyType(
    {
        "constant": lambda _: 1.0,
        "linear": lambda done: min(_ramp(done), (1.0 - done) / (1.0 - _RAMP)),
        "piecewise": lambda done: _ramp(done) * 0.1 ** sum(done >= at for at in (0.3, 0.6, 0.9)),
        "cosine": lambda done: _ramp(done) * (1.0 + math.cos(math.pi * max(0.0, done - _RAMP) / (1.0 - _RAMP))) / 2.0,
    }
)


@dataclass(frozen=True)
class Course:
    """How a network is trained.

    Attributes:
        epochs: Times that each row is seen.
        batch_size: Most rows of a step, over all processes.
        optimizer: Makes an optimizer of parameters.
        schedule: The share of the learning rate at each share of the steps.
        mixup: The parameter of the beta distribution of mixing; 0 for none.
        augment: Changes a batch of features on its device; None for none.
        averaging: The decay of averaged weights; 0 for none.
        patience: Epochs without a better gain on held-out released labels after which training stops.
        seed: What chance follows from.
        workers: Processes that fetch batches.
        channels_last: Whether images lie in memory with channels last.
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
