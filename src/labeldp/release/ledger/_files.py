"""Files of a ledger, their owners, and who may write to them."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from labeldp._own_files import OTHERS, STRANGERS, create, is_own, objection
from labeldp.errors import LedgerError

#: Endings of the files from which SQLite completes a database.
_COMPLETING = ("-journal", "-wal", "-shm")


def make(path: Path, *, team: bool) -> Path:
    """Create a file of a ledger for its owner alone, or for a team, unless there is one."""
    create(path, 0o660 if team else 0o600)
    return path


def check_file(path: Path, named: Path, *, team: bool) -> None:
    """Create a ledger's file if there is none; refuse one that others can have written, itself or by its journal.

    Locks and journals go by name, so a file has one name. A file that others can only read is closed to them.

    Args:
        path: The file.
        named: The path that was given, which may be a link of this user's to it.
        team: True if another user may own it, and its group may write to it.

    Raises:
        LedgerError: Others can have written it.
    """
    if named.is_symlink() and named.lstat().st_uid != os.geteuid():
        raise _refusal(named, "a link of another user", team=team)
    beside = [Path(f"{path}{ending}") for ending in _COMPLETING]
    for each in beside:  # names that are too long fail before there is a ledger that stops all tables beside it
        with suppress(FileNotFoundError):
            each.lstat()
    make(path, team=team)
    for each in (path, *beside):
        with suppress(FileNotFoundError):
            state = each.lstat()
            if why := objection(state, team=team):
                raise _refusal(each, why, team=team)
            if is_own(state) and state.st_mode & (closed := STRANGERS if team else OTHERS):
                with suppress(OSError):  # a read-only file system, where others cannot write either
                    each.chmod(stat.S_IMODE(state.st_mode) & ~closed)


def _refusal(path: Path, why: str, *, team: bool) -> LedgerError:
    """The error for a file that others can have written."""
    hint = "" if team else ". A ledger that a team shares is named by --team-ledger (in Python Ledger(path, team=True))"
    return LedgerError(f"expected a ledger that nobody else can have altered at {path}, found {why}{hint}")
