"""Locks of folders and files that one process, and one thread of it, holds at a time.

They are the operating system's: it ends them with the process that holds them. A folder is locked itself, so there is
no file that somebody else could own, plant or leave behind.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Seconds between two tries, at first and at most.
_SOON, _SELDOM = 0.005, 0.2


@contextmanager
def locked(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock of a folder, or else of a file, which is created for its owner alone.

    Args:
        path: The folder, of which reading is enough; or the file, which is no link.
        patience: Seconds to wait for who holds it.

    Raises:
        TimeoutError: Somebody else still holds it.
        OSError: It cannot be locked, so that nothing is known about others.
    """
    descriptor = os.open(path, _FOLDER if path.is_dir() else _FILE, 0o600)
    try:
        if not stat.S_ISDIR(mode := os.fstat(descriptor).st_mode) and not stat.S_ISREG(mode):
            raise OSError(0, "a file of another kind")
        _lock(descriptor, patience)
        process = os.getpid()
        try:
            yield
        finally:
            if os.getpid() == process:  # a forked child would release its parent's lock
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience: float) -> None:
    """Wait for a lock."""
    end, pause = time.monotonic() + patience, _SOON
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise TimeoutError from None
        time.sleep(pause)
        pause = min(2 * pause, _SELDOM)
