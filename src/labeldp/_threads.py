"""Work on blocks of rows: their sizes, and threads for loops that release the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

#: Most entries of a matrix that is computed at a time: 32 MB of floats.
ENTRIES = 1 << 22
#: Rows of a batch below which a thread costs more than it saves.
FEW_ROWS = 1 << 14


@functools.cache
def _libraries() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415 (it comes with scikit-learn, an extra)

    return ThreadpoolController()


def one_thread_for_algebra() -> AbstractContextManager[object]:
    """One thread for products of matrices that are small: more would wait for each other longer than they work.

    On a busy machine they do so for most of the time.
    """
    limited: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limited


def blocks(rows: int, width: int = 1, entries: int | None = None) -> list[slice]:
    """Slices of rows, in order, each of at least one and of at most ``entries`` entries if a row has ``width``."""
    step = max(1, (entries or ENTRIES) // max(1, width))
    return [slice(low, min(low + step, rows)) for low in range(0, rows, step)]


def over_chunks(work: Callable[[slice], object], rows: int, step: int) -> None:
    """Call ``work`` with every slice of ``step`` rows; the first failure is raised."""
    chunks = blocks(rows, entries=step)
    if len(chunks) < 2:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(work, chunks):
            pass
