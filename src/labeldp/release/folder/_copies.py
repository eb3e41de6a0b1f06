"""Release folders in object stores: uploads, whose certificate comes last, and private copies, which are read."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from labeldp._random_words import identifier
from labeldp.errors import InputError, OutputError, VerificationError
from labeldp.release.folder._staging import CERTIFICATE, sync
from labeldp.release.tables import Place, StorePath, place_of

_PROBE = ".labeldp-probe-"
_BLOCK = 1 << 22
_MOST_LISTED = 20
_SEPARATORS = frozenset("/\\\0")


@contextmanager
def local_copy(directory: str | Path | StorePath, only: str | None = None) -> Iterator[Path]:
    """The folder of a release on a disk: where it is, or a private copy of one in an object store, removed at the end.

    What is verified is then what is read: objects can change in between, a copy cannot.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``.
        only: The one file to copy from a store; all by default.

    Raises:
        InputError: There is no such folder, or the store does not answer.
        VerificationError: Objects have names that no file of a release has.
    """
    place = place_of(directory)
    if isinstance(place, Path):
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="labeldp-") as folder:
        copy = Path(folder, place.name)
        copy.mkdir(mode=0o700)
        _fetch(place, copy, only)
        yield copy


def _fetch(place: StorePath, copy: Path, only: str | None) -> None:
    """Copy the files of a release, or one of them."""
    names = [name for name in place.names() if only in (None, name)]
    if not names:
        raise InputError(f"there is nothing at {place}; check the address of the release")
    if strange := [name for name in names if name in ("", ".", "..") or not _SEPARATORS.isdisjoint(name)]:
        raise VerificationError(
            f"expected a release of files in one folder, found {[name[:100] for name in strange[:_MOST_LISTED]]}"
        )
    for name in names:
        file, failed = place / name, False
        try:
            _copy(file, copy / name)
        except (OSError, pa.ArrowException):
            failed = True
        if failed:
            raise InputError(f"expected to copy {file} to {copy.parent}, found that it broke off; try again")


def _copy(file: StorePath, path: Path) -> None:
    """Copy a file to a disk."""
    with file.opened() as read, path.open("xb") as written:
        if read.size() > shutil.disk_usage(path.parent).free:
            raise InputError(
                f"expected space for {file} in {path.parent}, found too little; set TMPDIR to another disk"
            )
        while block := read.read(_BLOCK):
            written.write(block)


def check_store(target: StorePath) -> None:
    """Refuse a target that is not empty, or that cannot be written to, before anything is charged.

    An empty object of its own name, which Arrow leaves where it removed the last file, is nothing.

    Raises:
        OutputError: Something is there, or a probe could not be written and removed, or it is on a web server.
    """
    if target.is_read_only:
        raise OutputError(
            f"expected an output on a disk or in an object store, found {target}: nothing is written to a web server; "
            "name a folder on a disk"
        )
    if target.is_file() or target.names():
        raise OutputError(f"{target} exists already, and nothing is written into it; choose another name")
    probe = target / f"{_PROBE}{identifier()}"
    with tempfile.TemporaryDirectory(prefix="labeldp-") as folder:
        empty = Path(folder, "probe")
        empty.write_bytes(b"labeldp")
        with _written(target):
            probe.write(empty)
            probe.remove()


def add_file(place: Place, file: Path) -> Place:
    """Add a file of a copy to the release in a store that was copied; on a disk it is there.

    Raises:
        OutputError: The store has another file of the name, or did not take it.
    """
    if isinstance(place, Path):
        return file
    target = place / file.name
    if target.exists():
        with target.opened() as read:
            if read.read(file.stat().st_size + 1) != file.read_bytes():
                raise OutputError(f"expected a new file at {target}, found another; remove it first")
        return target
    with _written(place):
        target.write(file)
    return target


def is_unused(target: StorePath) -> bool:
    """True if a store answers that nothing is at a target."""
    try:
        return not target.files()
    except InputError:
        return False


def upload(staging: Path, target: StorePath) -> None:
    """Upload a staging folder: its certificate last, once exactly the other files are there.

    Raises:
        OutputError: The store did not take a file, or something else is there. What was uploaded is removed, as far as
            the store allows it; without a certificate it is no release.
    """
    names = sorted(file.name for file in staging.iterdir() if file.name != CERTIFICATE)
    done = list[StorePath]()
    try:
        with _written(target):
            for name in names:
                sync(staging / name)
                done.append(target / name)
                done[-1].write(staging / name)
            if (found := target.names()) != names:
                raise OutputError(f"expected {target} to stay empty, found {len(found) - len(done)} other files in it")
            done.append(target / CERTIFICATE)
            done[-1].write(staging / CERTIFICATE)
    except BaseException:
        for path in reversed(done):
            with suppress(OSError, pa.ArrowException):
                path.remove()
        raise


@contextmanager
def _written(target: StorePath) -> Iterator[None]:
    """Replace an error of a store, which quotes requests, by one of ours."""
    failed = False
    try:
        yield
    except OutputError:
        raise
    except (OSError, pa.ArrowException):
        failed = True
    if failed:
        raise OutputError(
            f"expected to write to {target}, found that the store does not take it; check the address, the network and "
            "the credentials in the environment"
        )
