"""Work on blocks of rows: their sizes, and threads for loops that release the interpreter's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

#: Most entries of a matrix that is computed at a time: 32 MB of floats.
ENTRIES = 1 << 22
#: Rows of a batch below which a thread costs more than it saves.
FEW_ROWS = 1 << 14
#: Rows of a fit below which threads of OpenMP wait for each other longer than they work.
_FEW_FITTED = 100_000
#: The processor time that this group of processes may take, and in what time, in microseconds.
_QUOTA_FILE = "/sys/fs/cgroup/cpu.max"
#: The load of this machine, and how many threads run on it now.
_LOAD_FILE = "/proc/loadavg"


def idle_threads() -> int:
    """The number of threads that a computation takes: ``OMP_NUM_THREADS`` if it is set, else the idle processors.

    They are those that this process may use, less the load of others, and at least one. Threads that wait for each
    other on a busy machine take many times as long as one. No result depends on their number.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdigit() and int(wanted):
        return int(wanted)
    every = os.cpu_count() or 1
    usable = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every)
    with suppress(OSError, ValueError):
        quota, period = map(int, Path(_QUOTA_FILE).read_text(encoding="ascii").split())
        usable = min(usable, quota / period)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    with suppress(OSError, ValueError, IndexError):  # that of the last minute counts the threads that this process had
        load = min(load, float(Path(_LOAD_FILE).read_text(encoding="ascii").split()[3].partition("/")[0]))
    return max(1, round(min(usable, every - max(load - 1.0, 0.0))))


def threads_to_fit(rows: int) -> int:
    """The threads that a fit to so many rows takes: one for few."""
    return 1 if rows < _FEW_FITTED else idle_threads()


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
    with ThreadPoolExecutor(idle_threads()) as threads:
        for _ in threads.map(work, chunks):
            pass
