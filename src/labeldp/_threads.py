"""Work on blocks of rows: their sizes, and threads for loops that release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

#: Most entries of a matrix that is computed at a time: 32 MB of floats.
ENTRIES = 1 << 22


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
