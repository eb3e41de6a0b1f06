"""Files of models: where they may go, and how they appear at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from labeldp.errors import OutputError

_LENGTH = 8


def check_model_path(path: Path) -> Path:
    """Refuse a file that exists, or that has no folder to be in."""
    if os.path.lexists(path):
        raise OutputError(f"expected an output file that does not exist yet, found {path}; choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"expected an existing folder to put the model in, found none at {path.parent}")
    return path


def is_network(path: Path) -> bool:
    """Whether a file begins as one of safetensors does: the length of a header in JSON, and its first brace."""
    with path.open("rb") as file:
        return file.read(_LENGTH + 1)[_LENGTH:] == b"{"


def written(path: Path, write: Callable[[Path], object]) -> Path:
    """A new file, complete or not there: written beside its place and moved.

    Raises:
        OutputError: The file exists, or there is no folder to put it in.
    """
    target = check_model_path(path)
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        write(staged)
        staged.replace(check_model_path(target))
    finally:
        staged.unlink(missing_ok=True)
    return target
