"""Devices for training: one process on one device, or those of accelerate."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Machine(Protocol):
    """Protocol of the training device: the part of ``accelerate.Accelerator`` that the loop uses."""

    @property
    def device(self) -> torch.device:
        """The device of this process."""

    @property
    def num_processes(self) -> int:
        """Number of processes that train together."""

    @property
    def process_index(self) -> int:
        """Number of this process, from 0."""

    @property
    def is_main_process(self) -> bool:
        """True for the process that writes files."""

    @property
    def scaler(self) -> Any:
        """Gradient scaler for half precision, or None."""

    def prepare(self, *parts: Any) -> Any:
        """Prepare the network and the optimizer."""

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Context of the network's computations, in lower precision if set so."""

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of a loss."""

    def unwrap_model(self, model: nn.Module, *, keep_fp32_wrapper: bool = True) -> nn.Module:
        """The network without wrappers."""

    def gather(self, value: Tensor) -> Tensor:
        """The values of all processes."""

    def wait_for_everyone(self) -> None:
        """Wait until all processes get here."""


@dataclass(frozen=True)
class SingleDevice:
    """One process on one device.

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
