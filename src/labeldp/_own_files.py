"""Files that are read back as this user's own: nobody else can have written them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from labeldp.errors import OutputError

_OWN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Bits of a mode that let others write, and that let them do anything.
OTHERS_WRITE, OTHERS = 0o022, 0o077
#: The part of these bits for users outside a file's group.
STRANGERS = 0o007


def is_own(state: os.stat_result) -> bool:
    """True for a file or a folder of this user: no link, pipe or device."""
    return state.st_uid == os.geteuid() and (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode))


def objection(state: os.stat_result, refused: int = OTHERS_WRITE, *, team: bool = False) -> str:
    """The reason why a file or a folder is not taken for what this user wrote; empty if there is none.

    Args:
        state: The state of the descriptor that is read, or of a folder.
        refused: The bits of the mode that others may not have.
        team: True if another user may own it, and its group may write to it.
    """
    if not (stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode)):
        return "a link, or something else than a file"
    if stat.S_ISREG(state.st_mode) and state.st_nlink > 1:
        return f"one with {state.st_nlink} hard links; keep one of them and delete the others"
    if not team and not is_own(state):
        return "one of another user"
    if stat.S_IMODE(state.st_mode) & (refused & STRANGERS if team else refused):
        return "one that other users can write to; see what is in it, then close it to them (chmod go-w)"
    return ""


@contextmanager
def opened_own(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, unless it is a link or somebody else can have written it.

    Raises:
        OSError: It cannot be opened.
        OutputError: Somebody else can have written it.
    """
    with os.fdopen(os.open(path, _OWN), "rb") as file:
        check_own(path, os.fstat(file.fileno()))
        yield file


def check_own(path: Path, state: os.stat_result) -> None:
    """Refuse a file or a folder that somebody else can have written.

    Raises:
        OutputError: Somebody can.
    """
    if why := objection(state):
        raise OutputError(f"expected a file that only you can write at {path}, found {why}; or choose another folder")


def create(path: Path, mode: int) -> None:
    """Create an empty file with exactly this mode, unless there is one."""
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY | os.O_CLOEXEC, mode)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
