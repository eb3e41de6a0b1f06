"""Compilation of inner loops, with a cache on disk where one can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function at its first call; the interpreter's lock is released while it runs.

    The compiled code is kept beside the package, or in the user's cache folder. Where neither can be written (a
    read-only container without a home), each process compiles anew, which takes seconds and changes no result.

    Args:
        **options: Further options of ``numba.njit``.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # no folder for the cache
            return njit(nogil=True, **options)(function)

    return decorate
