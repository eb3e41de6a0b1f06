"""New files: whole or not there, never in the place of another one, and for their owner alone where labels show."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from labeldp._own_files import is_own
from labeldp.errors import LabelDPError, OutputError

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
#: Who may read a file: its owner alone, or whoever the umask lets.
_PRIVATE, _SHARED = 0o600, 0o666


def check_new_file(path: Path, noun: str = "an output file") -> Path:
    """Refuse a file that exists, or that has no folder to be in.

    Raises:
        OutputError: It cannot be written.
    """
    if os.path.lexists(path):
        raise OutputError(f"expected {noun} that does not exist yet, found {path}; choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"expected an existing folder for the output, found none at {path.parent}")
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
    for left in path.parent.glob(f".{path.name}*"):
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
