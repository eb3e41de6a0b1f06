"""The state of training in a file, from which it is resumed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from labeldp.errors import VerificationError

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
            VerificationError: The file belongs to another release or other settings, or cannot be read.
        """
        if not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location=device, weights_only=True)
            owner = state["owner"]
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
        new = self.path.with_name(f"{_CHECKPOINT}.{os.getpid()}")
        try:
            with new.open("wb") as file:
                torch.save({**state, "owner": self.owner}, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
        finally:
            new.unlink(missing_ok=True)
