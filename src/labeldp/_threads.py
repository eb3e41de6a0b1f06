"""Work on chunks of rows, side by side in threads; for loops that let go of the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def over_chunks(work: Callable[[slice], object], rows: int, step: int) -> None:
    """Call ``work`` with every slice of ``step`` rows; one that fails stops the whole."""
    chunks = [slice(low, min(low + step, rows)) for low in range(0, rows, step)]
    if len(chunks) < 2:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(work, chunks):
            pass
