"""Arrays that nobody can change: those of results, mechanisms and channels."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array", bound=np.ndarray)


def read_only(array: Array) -> Array:
    """Make an array read-only, and return it."""
    array.flags.writeable = False
    return array


def freeze_arrays(value: Any, /, *names: str, **types: Any) -> None:
    """Replace arrays of a frozen dataclass by read-only copies, some of them of another type.

    Example:
        >>> from types import SimpleNamespace
        >>> value = SimpleNamespace(shares=[0.25, 0.75])
        >>> freeze_arrays(value, shares=float)
        >>> value.shares.flags.writeable
        False
    """
    for name, dtype in (dict.fromkeys(names) | types).items():
        object.__setattr__(value, name, read_only(np.array(getattr(value, name), dtype=dtype)))
