"""Errors and remarks on public columns and returning rows, and notes for the holder, which may depend on labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

import numpy as np

from labeldp._own_files import is_own
from labeldp._shapes import Int
from labeldp._spelling import canonical
from labeldp.errors import InputError
from labeldp.privacy import Guarantee
from labeldp.release.curator import ROW, TableSource
from labeldp.release.folder import epsilon_of_rows, returned
from labeldp.release.ledger import Admitted, Earlier, PublicData, outputs, returning_rows
from labeldp.release.tables import Identity, Table, disclosing_columns, people_in

#: Most columns that a certificate names as people if rows are units, and its name for one that does not leave.
_MOST_DECLARED, _UNPUBLISHED = 3, "'a column that is not published'"


def undeclared(person: Identity) -> InputError:
    """The error for a column that may be people with several rows, if no unit is declared."""
    return InputError(
        f"expected a privacy unit: {person.question}. If one is a person, pass --unit {quote(person.name)}, since per "
        f"row that person's epsilon is {person.most} times as large. To protect each row alone, pass --unit {ROW}"
    )


def of_one_row(person: Identity, epsilon: float) -> InputError:
    """The error for a column that may be people, if rows were not declared to be units."""
    together = epsilon_of_rows(epsilon, person.most)
    return InputError(
        f"expected a declared privacy unit: {person.question}. Epsilon is for one row here, so a person with "
        f"{person.most} rows has epsilon {together}. If that is meant, pass --unit {ROW}; else use 'labeldp release "
        f"--unit {quote(person.name)}'"
    )


def repeats_declared(identities: Iterable[Identity], public: Container[str]) -> dict[str, int]:
    """The columns that a certificate says may be people, quoted, with the most rows of one value.

    A column that does not leave may be a label that is released another time. It is not named, and its number of rows
    is rounded up to a power of two.
    """
    people = people_in(identities)
    shown = {repr(each.name): each.most for each in people if each.name in public}
    hidden = max((each.most for each in people if each.name not in public), default=0)
    repeats = dict(list(shown.items())[:_MOST_DECLARED])
    return repeats | ({_UNPUBLISHED: 1 << (hidden - 1).bit_length()} if hidden else {})


def naming_rows(identities: Iterable[Identity], kept: Sequence[str]) -> Iterator[str]:
    """Remarks on kept columns with a different value in each row."""
    if names := listed(each.name for each in identities if each.of == "rows" and each.name in kept):
        yield (
            f"different in each row, like case numbers, e-mail addresses or names of people: {names}. Whoever knows "
            "such a value finds that row: drop the column, unless its values were made up"
        )


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


def returning(label: str, admitted: Admitted, guarantee: Guarantee, *, named: bool = False) -> Iterator[str]:
    """The statement that rows were released before with this label: in public facts, or for the holder with names."""
    earlier = [each for each in admitted.earlier if each.entry.is_of(label)]
    if earlier:
        (epsilon, delta), rows = admitted.account.bound, admitted.account.charges[-1].rows.stop
        together = dataclasses.replace(guarantee, epsilon=epsilon, delta=delta, rho=None)
        trusts = {charge.guarantee.trust for charge in admitted.account.charges}
        yield returned(returning_rows(earlier, rows), rows, together, outputs(earlier) if named else "", trusts)


def left_out(data: PublicData) -> Iterator[str]:
    """The remark on rows left out because they, or other rows of their unit, were released before."""
    if data.chosen is not None:
        returning = data.chosen.size - int(np.count_nonzero(data.chosen))
        whose = "" if data.unit == ROW else f", or others of their {data.unit}"
        yield f"{returning:,} of {data.chosen.size:,} rows were released before{whose}, and are left out"


def refuse_returning(label: str, data: PublicData, earlier: Sequence[Earlier]) -> None:
    """Refuse a release of new rows if another command has released some of them in the meantime."""
    if data.chosen is not None and any(each.certain and each.entry.is_of(label) for each in earlier):
        raise InputError(
            "another command has just released some of these rows. Nothing was charged. Run the command again to leave "
            "them out"
        )


def left_before(label: str, earlier: Sequence[Earlier]) -> Iterator[str]:
    """Remarks on earlier releases for which the label was a public column: kept, or behind a column that left."""
    other = (each.entry for each in earlier if not each.entry.is_of(label))  # imported labels left as they were
    own = [entry for entry in other if canonical(label) in map(canonical, entry.public)]
    for output in sorted({entry.output or "memory" for entry in own}):
        yield f"the label {label!r} was a public column of the release in {output}: its true values left with it"


def disclosed(
    shown: Sequence[str], clusters: Int[np.ndarray, "n"] | None, source: TableSource, earlier: Sequence[Earlier]
) -> Iterator[str]:
    """Private notes on columns that are labels by their true values: public ones, and ones that left before.

    Args:
        shown: The columns whose values are about to leave.
        clusters: The numbers of clusters that are about to leave and are no column.
        source: The labels.
        earlier: The earlier charges of these rows.
    """
    table, stored = source.table, source.table.schema.names
    labels = {each.entry.label for each in earlier}.intersection(stored) - {table.label}
    beside = {} if clusters is None else {"clusters": clusters}
    for name, label in disclosing_columns(source.parts, source.space, sorted(labels), shown, beside):
        yield f"the column {name!r} equals or determines {label!r}, which was released with noise before: drop it"
    for _, _ in disclosing_columns(source.parts, source.space, [table.label], [], beside):
        yield "the numbers of clusters equal or determine the label"
    left = {name for each in earlier for name in each.entry.public}.intersection(stored) - set(shown)
    for name, _ in disclosing_columns(source.parts, source.space, [table.label], sorted(left)):
        yield f"the column {name!r}, which left in an earlier release, equals or determines the label"


def respelled(table: Table, kept: Sequence[str]) -> Iterator[str]:
    """Remarks on kept columns of a CSV that stay text, and on those in the names of folders that become numbers."""
    if names := listed(name for name in kept if name in table.respelled):
        yield f"kept as text, since a number, date or flag would be written otherwise (as 1000 for 01000): {names}"
    if names := listed(name for name in kept if name in table.renumbered):
        yield f"kept as numbers, as readers take the names of folders (1 for month=01): {names}"


def listed(columns: Iterable[str]) -> str:
    """Some columns in a remark."""
    names = [repr(name) for name in columns]
    return f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"


def write_notes(ledger: Path, notes: tuple[str, ...]) -> Path:
    """Append notes for the curator to a private file beside the ledger, one file for each user."""
    path = ledger.with_name(f"{ledger.name}.notes")
    if os.path.lexists(path) and not is_own(path.lstat()):
        path = ledger.with_name(f"{ledger.name}.{os.geteuid()}.notes")
    lines = notes or (
        "no kept column as a whole equals or determines labels, and rows are in no order that discloses them, in the "
        "first rows of up to 64 files. Single values, and the rows of one person together, were not looked at: "
        "'labeldp check' names values that tell a class",
    )
    with suppress(OSError):  # the failure of a release must not depend on notes
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            owned = is_own(os.fstat(descriptor))  # another user may have put a file there meanwhile
            file.writelines(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {note}\n" for note in lines if owned)
    return path
