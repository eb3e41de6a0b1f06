"""Guarded conversions of what strangers hand over: none passes on a library's message, which may quote a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from labeldp.errors import InputError

T = TypeVar("T")


def result_or_none(make: Callable[[], T]) -> T | None:
    """The result of a function, or None where it raises: the message is dropped, since it may quote a value."""
    try:
        return make()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 (libraries raise errors of many types)
        return None


def floats_or_none(values: Any) -> np.ndarray | None:
    """Real numbers in any container as an array of doubles of their shape, or None where there are other values."""
    array = result_or_none(lambda: np.asarray(values))
    if array is None or array.dtype.kind in "cMmSU":
        return None
    return result_or_none(lambda: array.astype(np.float64, copy=False))


def floats(values: Any, name: str, error: type[InputError] = InputError) -> np.ndarray:
    """Real numbers in any container as an array of doubles of their shape.

    Raises:
        InputError: There are other values, which the message does not show.
    """
    array = floats_or_none(values)
    if array is None:
        raise error(f"expected {name} as numbers, found other values ({kind_of(values)}); convert them to numbers")
    return array


def kind_of(values: Any) -> str:
    """The kind of values for a message: a type, and nothing of the values."""
    dtype = getattr(values, "dtype", None)
    return dtype.name if isinstance(dtype, np.dtype) else type(values if dtype is None else dtype).__name__
