"""Files of this user alone: read back where nobody else can have written them, and written new.

A new file is whole or not there, never in the place of another one, and for its owner alone where labels show.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from labeldp.errors import LabelDPError, OutputError

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
    """Refuse a file or a folder that somebody else can have written."""
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


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Who may read a file: its owner alone, or whoever the umask lets.
_PRIVATE, _SHARED = 0o600, 0o666


def check_new_file(path: Path, noun: str = "an output file") -> Path:
    """Refuse a file that exists, or that has no folder to be in."""
    if os.path.lexists(path):
        raise OutputError(f"expected {noun} that does not exist yet, found {path}; choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"there is no folder {path.parent} to write the output into; create it first")
    return path


def write_new_file(path: Path, content: bytes | Callable[[Path], object], *, private: bool) -> Path:
    """Write a new file.

    Args:
        path: The file.
        content: Its bytes; or a function that writes them to another path, from which they are moved as a whole.
        private: True for its owner alone, as for whatever depends on true labels; False for whoever the umask lets.

    Raises:
        OutputError: The file exists, there is no folder to put it in, or it cannot be written.
    """
    why: str | None = None
    try:
        if isinstance(content, bytes):
            _write(path, content, _PRIVATE if private else _SHARED)
        else:
            with _staged(check_new_file(path)) as staged:
                content(staged)
                if private:
                    staged.chmod(_PRIVATE)
                _move(staged, path)
    except LabelDPError:
        raise
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
    if why is not None:
        raise OutputError(f"expected to write a new file at {path}, found: {why}")
    return path


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a private file as a whole, or replace one: an interruption leaves the old one."""
    with _staged(path) as staged:
        with staged.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        staged.chmod(_PRIVATE)
        staged.replace(path)


def remove_staging(path: Path) -> None:
    """Remove what interrupted ``replace_file`` left beside a path."""
    for left in path.parent.glob(f".{escape(path.name)}*"):
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()


def keep_private(descriptor: int) -> None:
    """Take an open file of ours from everybody but its owner; nothing happens to a terminal or a pipe."""
    with suppress(OSError):
        if is_own(os.fstat(descriptor)):
            os.fchmod(descriptor, _PRIVATE)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write the bytes of a new file; what could not be written as a whole goes."""
    descriptor = os.open(path, _NEW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


@contextmanager
def _staged(target: Path) -> Iterator[Path]:
    """A file to write, in a folder beside its target that others can neither write to nor foresee the name of."""
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent.absolute()) as folder:
        yield Path(folder) / target.name


def _move(staged: Path, target: Path) -> None:
    """Give a file its name, unless another one has it by now."""
    try:
        os.link(staged, target)
    except FileExistsError:
        check_new_file(target)
    except OSError:  # a file system without links
        staged.replace(check_new_file(target))
