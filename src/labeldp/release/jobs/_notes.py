"""Remarks on the public columns of a table, and notes for its holder, which may depend on labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from labeldp.errors import LabelDPError
from labeldp.release.folder import CERTIFICATE, local_copy, read_certificate
from labeldp.release.ledger import Earlier, PublicData
from labeldp.release.tables import Table

#: Columns to list in a remark.
_SHOWN = 20


def copies_of_rows(data: PublicData) -> tuple[str, ...]:
    """Remarks on rows that are copies of each other."""
    found = data.fingerprints
    if found is None or not found.columns:
        return ()
    count, most = found.copies
    if not count:
        return ()
    return (
        f"{count:,} {'rows are copies of others' if count > 1 else 'row is a copy of another'} in every column but the "
        f"label, up to {most:,} alike: if they are one person's, declare a --unit",
    )


def kept_before(label: str, earlier: Sequence[Earlier]) -> Iterator[str]:
    """Remarks on earlier releases that kept the label as a public column."""
    outputs = {each.entry.output for each in earlier if each.entry.features == "kept"}
    for output in sorted(filter(None, outputs)):  # a release in memory has none
        # a folder that was moved away, or a store that does not answer
        with suppress(LabelDPError, OSError), local_copy(output, only=CERTIFICATE) as folder:
            if label in dict(read_certificate(folder).columns):
                yield f"the label {label!r} was a kept column of the release in {output}: its true values are there"


def respelled(table: Table, kept: Sequence[str]) -> Iterator[str]:
    """Remarks on kept columns of a CSV that stay text, and on those in the names of folders that become numbers."""
    if names := _listed(name for name in kept if name in table.respelled):
        yield f"kept as text, since a number, date or flag would be written otherwise (as 1000 for 01000): {names}"
    if names := _listed(name for name in kept if name in table.renumbered):
        yield f"kept as numbers, as readers take the names of folders (1 for month=01): {names}"


def _listed(columns: Iterable[str]) -> str:
    """Some columns in a remark."""
    names = [repr(name) for name in columns]
    return f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"


def write_notes(ledger: Path, notes: tuple[str, ...]) -> Path:
    """Append notes for the curator to a file beside the ledger that only its owner can read."""
    path = ledger.with_name(f"{ledger.name}.notes")
    lines = notes or (
        "no kept column and no row order was found to disclose labels; columns were looked at in the first rows of up "
        "to 64 files",
    )
    with suppress(OSError):  # the failure of a release must not depend on notes
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.writelines(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {note}\n" for note in lines)
    return path
