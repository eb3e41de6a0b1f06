"""Atomic writing of a release folder: staged beside its target, then moved there in one step."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from labeldp.errors import OutputError

CERTIFICATE = "certificate.json"
_MARK = ".labeldp-"

#: The fate of an output: at its target, still in its staging folder, or unknown.
Fate = Literal["left", "never left", "unknown"]


def staging_of(target: Path, identifier: str) -> Path:
    """The staging folder of a release: hidden, beside its target, so that it can be moved in one step."""
    return target.with_name(f".{target.name}{_MARK}{identifier}")


def check_target(target: Path) -> None:
    """Refuse a target that exists, or whose parent folder does not.

    Raises:
        OutputError: The target exists, or its parent folder does not.
    """
    if os.path.lexists(target):
        raise OutputError(f"expected an output folder that does not exist yet, found {target}; choose another name")
    if not target.parent.is_dir():
        raise OutputError(f"expected an existing folder for the output, found none at {target.parent}; create it first")


@contextmanager
def staged(target: Path, identifier: str) -> Iterator[Path]:
    """Yield an empty, private staging folder, which the caller moves with ``publish``; otherwise it is removed.

    Raises:
        OutputError: The target exists, or its parent folder does not.
    """
    check_target(target)
    for old in target.parent.glob(f".{target.name}{_MARK}*"):
        with suppress(OSError):  # left empty by a job that was killed before its charge
            old.rmdir()
    staging = staging_of(target, identifier)
    try:
        staging.mkdir(mode=0o700)
    except OSError as problem:
        raise OutputError(f"expected to create a folder beside {target}, found: {problem.strerror}") from None
    process = os.getpid()
    try:
        yield staging
    finally:
        if os.getpid() == process:  # a forked child does not own it
            shutil.rmtree(staging, ignore_errors=True)


def publish(staging: Path, target: Path) -> None:
    """Flush a staging folder to disk, and move it to its target."""
    for file in staging.iterdir():
        _sync(file)
    _sync(staging)
    check_target(target)
    staging.rename(target)
    _sync(target.parent)


def fate_of(target: Path, identifier: str) -> Fate:
    """The fate of an output; a staging folder that still exists was never published, and is removed."""
    if _identifier_at(target) == identifier:
        return "left"
    staging = staging_of(target, identifier)
    if not staging.exists():
        return "unknown"
    shutil.rmtree(staging)
    return "never left"


def _identifier_at(target: Path) -> object:
    """The identifier in the certificate of a folder, if any."""
    try:
        return json.loads((target / CERTIFICATE).read_bytes()).get("release")
    except (OSError, ValueError, AttributeError):
        return None


def _sync(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
