"""What a network is trained on: one process on one device, or what accelerate prepares."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn


@runtime_checkable
class Machine(Protocol):
    """What computes: the names of ``accelerate.Accelerator`` that the loop uses."""

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    def num_processes(self) -> int:
        """How many processes train together."""

    @property
    def process_index(self) -> int:
        """Which of them this is."""

    @property
    def is_main_process(self) -> bool:
        """Whether it is the one that writes."""

    @property
    def scaler(self) -> Any:
        """What scales losses in half precision, or None."""

    def prepare(self, *parts: Any) -> Any:
        """The network and the optimizer, made ready."""

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Where a network computes, in lower precision if that was asked for."""

    def backward(self, loss: Tensor) -> None:
        """Gradients of a loss."""

    def unwrap_model(self, model: nn.Module, *, keep_fp32_wrapper: bool = True) -> nn.Module:
        """The network without what prepared it."""

    def gather(self, value: Tensor) -> Tensor:
        """The values of all processes."""

    def wait_for_everyone(self) -> None:
        """Until all processes are here."""


@dataclass(frozen=True)
class Alone:
    """One process on one device.

    Attributes:
        device: Where.
        half: Whether networks compute in bfloat16, which needs no scaled gradients; weights stay as they are.
    """

    device: torch.device
    half: bool = False
    num_processes: int = 1
    process_index: int = 0
    is_main_process: bool = True
    scaler: None = None

    def prepare(self, *parts: Any) -> Any:
        """As they are."""
        return parts

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """In half precision or as it is."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.half else contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Gradients of a loss."""
        loss.backward()

    def unwrap_model(self, model: nn.Module, *, keep_fp32_wrapper: bool = True) -> nn.Module:  # noqa: ARG002
        """As it is."""
        return model

    def gather(self, value: Tensor) -> Tensor:
        """The value alone."""
        return value

    def wait_for_everyone(self) -> None:
        """Nobody else is there."""
