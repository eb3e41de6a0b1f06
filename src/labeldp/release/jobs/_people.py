"""Errors and remarks on columns that may identify somebody."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from shlex import quote

from labeldp.errors import InputError
from labeldp.release.curator import ROW
from labeldp.release.folder import epsilon_of_rows
from labeldp.release.jobs._notes import listed
from labeldp.release.tables import Identity, people_in

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
