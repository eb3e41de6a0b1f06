"""Atomic writing of a release folder: staged beside its target, then moved there in one step, or uploaded to a store.

In an object store the certificate comes last; a private copy of such a folder is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import pyarrow as pa

from labeldp._checks import nearest
from labeldp._locks import locked
from labeldp._random_words import KeyFile, identifier
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, OutputError, VerificationError
from labeldp.release.folder._limits import text_of
from labeldp.release.tables import Place, StorePath, place_of

#: Readers of Parquet folders pass over names that begin with an underscore.
CERTIFICATE, SIGNATURE, README = "_certificate.json", "_signature.json", "_README.txt"
_TRIES = 10
#: Files to flush at a time.
_FLUSHES = 16
#: The file of a run's key, in its private folder.
KEY = "key"
#: The mark there of attempts that differ.
DIFFERED = "differed"
#: Former names, which are read as well.
_FORMER = {CERTIFICATE: "certificate.json", SIGNATURE: "signature.json"}
_MARK = ".labeldp-"
#: As long as the mark of a staging folder, so that a name that is short enough for one is for both.
_RUN_MARK = ".labeldp~"

_UPLOADED = ".labeldp-uploaded"

#: The fate of an output: at its target, still in its staging folder, or unknown.
Fate = Literal["left", "never left", "unknown"]
#: Device and inode number: they stay when a file or folder is renamed on its file system; a copy has others.
Inode: TypeAlias = tuple[int, int]


def part_of(folder: Path, name: str) -> Path:
    """The certificate or the signature of a folder: by its name, or by its former name if that alone is there.

    Raises:
        VerificationError: Both are there, so that nobody can tell which one counts.
    """
    present, former = folder / name, folder / _FORMER[name]
    if not os.path.lexists(former):
        return present
    if os.path.lexists(present):
        raise VerificationError(
            f"expected one of {name} and {former.name} in {folder}, found both, and nothing says which one counts; ask "
            "whoever made the release for it again"
        )
    return former


def is_release(folder: Place) -> bool:
    """True if a folder has a certificate."""
    return folder.is_dir() and any((folder / name).is_file() for name in (CERTIFICATE, _FORMER[CERTIFICATE]))


#: Releases to name in a message.
_SHOWN = 5
#: The way out where no release has a name like the one that was given.
_MADE_BY = "; check the path, or make one with 'labeldp release' (in Python: save)"


def or_beside(missing: Path) -> str:
    """A question for the release beside a path that is spelled most like it; or advice, if there is none."""
    near = missing.parent.iterdir() if missing.parent.is_dir() and not missing.exists() else ()
    return nearest(missing.name, [each.name for each in near if is_release(each)]) or inside(missing) or _MADE_BY


def inside(folder: Path) -> str:
    """The releases inside a folder that is none; empty if there are none."""
    found = sorted(str(each) for each in folder.iterdir() if is_release(each)) if folder.is_dir() else []
    return (
        f"; inside it there are releases: {', '.join(found[:_SHOWN])}{', ...' * (len(found) > _SHOWN)}" if found else ""
    )


def is_signed(folder: Path) -> bool:
    """True if a folder has a signature."""
    return any(os.path.lexists(folder / name) for name in (SIGNATURE, _FORMER[SIGNATURE]))


def beside_ledger(ledger: Path, target: StorePath) -> Path:
    """The path on a disk whose staging folder is that of a release to an object store: nothing is ever put there."""
    return ledger.resolve().with_name(f"{target.name}{_UPLOADED}")


def staging_of(target: Path, identifier: str) -> Path:
    """The staging folder of a release: hidden, beside its target, so that it can be moved in one step."""
    return target.with_name(f".{target.name}{_MARK}{identifier}")


def inode_of(path: Path) -> Inode | None:
    """Device and inode number of a file or folder, or None if it cannot be read."""
    try:
        state = os.lstat(path)
    except OSError:
        return None
    return (state.st_dev, state.st_ino)


def run_of(staging: Path) -> Path:
    """The private folder of the run that writes to a staging folder, beside it."""
    head, _, identifier = staging.name.rpartition(_MARK)
    return staging.with_name(f"{head}{_RUN_MARK}{identifier}")


def has_differing(run: Path) -> bool:
    """True if a worker noted in the private folder of a run that two attempts differ."""
    return (run / DIFFERED).exists()


def wipe(run: Path) -> None:
    """Overwrite the key of a run, and remove its private folder; nothing happens if it is gone."""
    with suppress(OSError):
        KeyFile(run / KEY).wipe()
    for _ in range(_TRIES):  # a worker that is still at work may make a file in between, until the folder is gone
        shutil.rmtree(run, ignore_errors=True)
        if not run.exists():
            return


def check_target(target: Path) -> None:
    """Refuse a target that exists, or whose parent folder does not."""
    if os.path.lexists(target):
        raise OutputError(f"{target} exists already, and nothing is written into it; choose another name")
    if not target.parent.is_dir():
        raise OutputError(f"there is no folder {target.parent} to write the output into; create it first")


@contextmanager
def staged(target: Path, identifier: str) -> Iterator[Path]:
    """Yield an empty, private staging folder, which the caller moves with ``publish``; otherwise it is removed."""
    check_target(target)
    for old in target.parent.iterdir():
        of_target = old.name.rpartition(_MARK)[0] == f".{target.name}"
        if of_target and not run_of(old).exists():  # else workers of another release write there soon
            with suppress(OSError), locked(old, 0.0):  # left empty by a job that was killed before its charge
                old.rmdir()
    staging = staging_of(target, identifier)
    try:
        staging.mkdir(mode=0o700)
    except OSError as problem:
        raise OutputError(
            f"expected to create a folder beside {target}, found: {problem.strerror}; take a place where you may write"
        ) from None
    process = os.getpid()
    with ExitStack() as held:
        with suppress(OSError):  # where folders cannot be locked, no other job removes it
            held.enter_context(locked(staging, 0.0))
        try:
            yield staging
        finally:
            if os.getpid() == process:  # a forked child does not own it
                shutil.rmtree(staging, ignore_errors=True)


def publish(staging: Path, target: Path) -> None:
    """Flush a staging folder to disk, and move it to its target."""
    with ThreadPoolExecutor(_FLUSHES) as threads:  # a file system writes together what is flushed at the same time
        for _ in threads.map(sync, staging.iterdir()):
            pass
    sync(staging)
    check_target(target)
    staging.rename(target)
    sync(target.parent)


def fate_of(targets: Sequence[Path], identifier: str, inode: Inode | None, *, ended: bool) -> Fate:
    """The fate of an output; its staging folders and runs go, except those that a live release may be writing to.

    The output was published by renaming its staging folder, which keeps the inode. So it never left if the folder with
    that inode still has its name and nobody can rename it any more. A copy of it shows nothing: it was made before the
    output was published, or before it failed.

    Args:
        targets: Possible places of the output, beginning with the one beside the ledger.
        identifier: The identifier of the release.
        inode: The inode of its staging folder; None in older ledgers, where any staging folder counts.
        ended: True if the process that made the release is known to have ended. Otherwise only a copy beside the ledger
            is removed, and the original stays.
    """
    stagings = [staging_of(target, identifier) for target in targets]
    originals = [staging for staging in stagings if _is_original(staging, inode)]
    removable = stagings if ended else [staging for staging in stagings[:1] if staging not in originals]
    differed = any(has_differing(run_of(staging)) for staging in removable)
    for staging in removable:
        wipe(run_of(staging))  # whatever the fate: nobody may draw with its key again
        shutil.rmtree(staging, ignore_errors=True)
    if any(_identifier_at(target) == identifier for target in targets):
        return "left"
    removed = not any(staging.exists() for staging in originals)
    return "never left" if ended and originals and removed and not differed else "unknown"


def _is_original(staging: Path, inode: Inode | None) -> bool:
    """True if a staging folder is the one that a charge names, and was not restored from a backup.

    A file system may give the number of a folder that is gone to a copy of it. Adding a file sets both times of a
    folder at once; a program that copies sets the old time of modification, and cannot set the time of change.
    """
    try:
        state = os.lstat(staging)
    except OSError:
        return False
    return inode is None or (inode_of(staging) == inode and state.st_mtime_ns == state.st_ctime_ns)


def _identifier_at(target: Path) -> object:
    """The identifier in the certificate of a folder, if any."""
    try:
        return strict_json(text_of(part_of(target, CERTIFICATE))).get("release")
    except (OSError, ValueError, AttributeError):
        return None


def sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
