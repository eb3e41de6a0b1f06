"""The key of made-up numbers of privacy units: one private file in the folder of the ledger.

A number is a keyed hash of the canonical spelling of a unit. So people who return keep their number, nothing grows or
can be lost but the key, and without the key no number can be computed from an identifier. Two units with one number
are one unit throughout the release, as two units with one hash are elsewhere: they share an epsilon.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from labeldp._own_files import OTHERS, objection, replace_file
from labeldp._random_words import secret_key
from labeldp.errors import LedgerError

#: The name of the file; with ``.labeldp-`` in it, a folder that is a table does not take it for a part.
_NAME = "units.labeldp-key"
_FORM = re.compile(rb"labeldp/unit-key/1\n([0-9a-f]{64})\n")
_MOST_BYTES = 128
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class UnitKey:
    """The key in a file, and whether it was just made; the secret itself is in no object that a worker gets."""

    path: Path
    is_new: bool = False

    @classmethod
    def in_folder(cls, folder: Path) -> UnitKey:
        """The key of a folder, which is made if there is none; the caller holds the lock of the folder.

        Raises:
            OSError: It cannot be written.
        """
        path = folder / _NAME
        is_new = not os.path.lexists(path)
        if is_new:
            replace_file(path, lambda file: file.write(f"labeldp/unit-key/1\n{secret_key().hex()}\n".encode()))
        return cls(path, is_new)

    def read(self) -> bytes:
        """The key.

        Raises:
            LedgerError: The file is gone, is not this user's alone, or has another form.
        """
        found = None
        with suppress(OSError):
            found = _FORM.fullmatch(self._content())
        if found is None:
            raise LedgerError(
                f"the key of made-up numbers in {self.path} is missing, damaged, or not yours alone. Restore your copy "
                "(chmod 600): a new key gives everybody a new number. A key serves only the user who made it"
            )
        return bytes.fromhex(found[1].decode())

    def _content(self) -> bytes:
        """The bytes of the file; none if others can read it or could have written it."""
        with os.fdopen(os.open(self.path, _FLAGS), "rb") as file:
            return b"" if objection(os.fstat(file.fileno()), OTHERS) else file.read(_MOST_BYTES)
