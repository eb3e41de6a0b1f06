"""Devices for training: one process on one device, or those of accelerate."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn


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
