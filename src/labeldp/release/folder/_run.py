"""The private folder of a run: its key, attempts at files, and what workers share; nothing of it is ever published.

Each attempt at a file of a release is written under a name of its own and linked to the final name; workers flush it to
disk before. The first link stays. An attempt that comes later is dropped if it has the same bytes; else the release
fails.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from labeldp._random_words import RunKey, WordSource, identifier
from labeldp.errors import AttemptError
from labeldp.release.folder._staging import DIFFERED, KEY, has_differing, run_of, sync, wipe
from labeldp.release.folder._write import file_digest

#: Errors of file systems that have no hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True)
class Run:
    """A run that draws a release.

    Attributes:
        folder: Its private folder.
        staging: The staging folder, which is published.
        words: The source of the words of its batches: a key in memory, or in the private folder.
        remote: True if other machines may draw, which flush what they write; else all files are flushed together before
            they are published.
    """

    folder: Path
    staging: Path
    words: WordSource
    remote: bool

    @property
    def differed(self) -> bool:
        """True if an attempt of any worker at a file had other bytes than the one before."""
        return has_differing(self.folder)

    @contextmanager
    def attempt(self, name: str) -> Iterator[Path]:
        """Yield the path of an attempt at a file, which is put in its place once it is written there."""
        path = self.folder / f"attempt-{identifier()}"
        try:
            yield path
            if self.remote:
                sync(path)
            put(path, self.staging / name)
        except AttemptError:  # its worker may be heard after another error, or not at all
            (self.folder / DIFFERED).touch()
            raise
        finally:
            with suppress(OSError):
                path.unlink()


@contextmanager
def run_in(staging: Path, *, shared: bool, remote: bool = False) -> Iterator[Run]:
    """Yield a run beside its staging folder; at the end its key is wiped, and its folder removed.

    Args:
        staging: The staging folder.
        shared: True if other processes draw, which read the key from a file; else it stays in memory.
        remote: True if they may be on other machines.
    """
    folder, key, process = run_of(staging), RunKey(), os.getpid()
    folder.mkdir(mode=0o700)
    try:
        yield Run(folder, staging, key.store(folder / KEY) if shared else key, remote)
    finally:
        if os.getpid() == process:  # a forked child does not own it
            wipe(folder)


def put(attempt: Path, final: Path) -> None:
    """Give a file its final name, unless another attempt was first.

    Raises:
        AttemptError: Another attempt has other bytes: two draws of the same rows would be two releases.
    """
    try:
        os.link(attempt, final)
    except FileExistsError:
        if file_digest(attempt) != file_digest(final):
            raise AttemptError(
                f"expected every attempt at {final.name} to write the same bytes, found others; the table or the "
                "packages of a worker changed, so the release is given up, and its charge stays"
            ) from None
    except OSError as problem:
        # a file system without links has one process alone: an engine was refused there
        if problem.errno not in _NO_LINKS or os.path.lexists(final):
            raise
        attempt.rename(final)
