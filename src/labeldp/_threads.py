"""Parallel work on chunks of rows in threads, for loops that release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def over_chunks(work: Callable[[slice], object], rows: int, step: int) -> None:
    """Call ``work`` with every slice of ``step`` rows; the first failure is raised."""
    chunks = [slice(low, min(low + step, rows)) for low in range(0, rows, step)]
    if len(chunks) < 2:
        for chunk in chunks:
            work(chunk)
        return
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(work, chunks):
            pass
