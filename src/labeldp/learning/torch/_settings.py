"""Settings of a training, its device, and the file of its state."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from labeldp._own_files import opened_own, replace_file
from labeldp.errors import OutputError, VerificationError
from labeldp.learning.files import check_stored

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


#: Rate of parameters of one dimension by ``nesterov``, as a multiple of that of the others.
_FURTHER = 64.0


def nesterov(parameters: Iterable[Tensor], lr: float, weight_decay: float, momentum: float) -> Optimizer:
    """Gradient descent with Nesterov momentum; parameters of one dimension, such as biases, have 64 times the rate.

    References:
        Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024.
    """
    trained = [each for each in parameters if each.requires_grad]
    parts = (
        (1.0, [each for each in trained if each.ndim > 1]),
        (_FURTHER, [each for each in trained if each.ndim < 2]),
    )
    groups = [{"params": part, "lr": far * lr, "weight_decay": weight_decay / far} for far, part in parts if part]
    return torch.optim.SGD(groups, momentum=momentum, nesterov=True)


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
    channels_last: bool


@dataclass(frozen=True)
class SingleDevice:
    """One process on one device, with the part of ``accelerate.Accelerator`` that the loop uses.

    An accelerator keeps its device and precision for the whole Python process; this one is that of a single fit.

    Attributes:
        device: The device.
        half: Whether networks compute in bfloat16, which needs no gradient scaling; weights keep their precision.
    """

    device: torch.device
    half: bool = False
    num_processes: int = 1
    process_index: int = 0
    is_main_process: bool = True
    scaler: None = None

    def prepare(self, *parts: Any) -> Any:
        """Return the parts unchanged."""
        return parts

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Context of half precision, or of no change."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss."""
        loss.backward()

    def unwrap_model(self, model: nn.Module, *, keep_fp32_wrapper: bool = True) -> nn.Module:  # noqa: ARG002
        """Return the network unchanged."""
        return model

    def gather(self, value: Tensor) -> Tensor:
        """Return the value unchanged."""
        return value

    def wait_for_everyone(self) -> None:
        """Return at once."""


#: The devices of a training: a ``SingleDevice``, or an ``accelerate.Accelerator``, which has no types.
Machine: TypeAlias = Any


_CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Checkpoint:
    """File of the state of training, with a fingerprint of the training that it belongs to."""

    folder: Path
    owner: str

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / _CHECKPOINT

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """The state after the last finished epoch; None if there is no file.

        Raises:
            OutputError: Somebody else can have written the file.
            VerificationError: The file belongs to another release or other settings, or cannot be read.
        """
        if not os.path.lexists(self.path):
            return None
        try:
            with opened_own(self.path) as file:
                check_stored(file)
                file.seek(0)
                state = torch.load(file, map_location=device, weights_only=True)
            owner = state["owner"]
        except OutputError:
            raise
        except Exception as error:  # noqa: BLE001 (a damaged file fails in many ways)
            raise VerificationError(
                f"expected a checkpoint in {self.path}, found a file that cannot be read as one "
                f"({type(error).__name__}); remove it, or give another folder"
            ) from None
        if owner != self.owner:
            raise VerificationError(
                f"expected a checkpoint of this release, network and settings in {self.path}, found another; give the "
                "settings that it was made with, remove it, or give another folder"
            )
        return dict(state)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state atomically, so that an interruption leaves the last one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.path, lambda file: torch.save({**state, "owner": self.owner}, file))
