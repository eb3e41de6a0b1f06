"""Model files: checks of their paths, and atomic writing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from labeldp.errors import OutputError

#: Bytes of the header length that a safetensors file begins with; the JSON header follows.
_LENGTH_BYTES = 8


def check_model_path(path: Path) -> Path:
    """Refuse a file that exists, or that has no folder to be in."""
    if os.path.lexists(path):
        raise OutputError(f"expected an output file that does not exist yet, found {path}; choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"expected an existing folder for the model, found none at {path.parent}")
    return path


def is_network(path: Path) -> bool:
    """True for a file that begins as safetensors does: with the length of a JSON header and its first brace."""
    with path.open("rb") as file:
        return file.read(_LENGTH_BYTES + 1)[_LENGTH_BYTES:] == b"{"


def write_new_file(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a new file atomically: beside its path, then moved there.

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
