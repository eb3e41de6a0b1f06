"""Forms of an answer: the fields of its law in a certificate, and the columns in which it is stored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from labeldp.errors import VerificationError
from labeldp.privacy import LabelSpace

#: Decides whether a value in a certificate is in the one notation of its field.
Format = Callable[[Any], bool]


def integer(value: object) -> bool:
    """True for an integer in canonical notation."""
    return isinstance(value, str) and value == str(int(value))


def integers(value: object) -> bool:
    """True for a list of increasing integers in canonical notation."""
    return (
        isinstance(value, list) and all(map(integer, value)) and value == [str(n) for n in sorted({*map(int, value)})]
    )


def decimal(value: object) -> bool:
    """True for a float in canonical notation."""
    return isinstance(value, str) and value == repr(float(value))


@dataclass(frozen=True)
class LawFields:
    """The fields of the law of a query, beside its kind.

    Attributes:
        required: The fields that every law has, with their formats.
        optional: The fields that a law has unless they are at their defaults.
    """

    required: Mapping[str, Format]
    optional: Mapping[str, Format]

    def check(self, law: Mapping[str, Any]) -> None:
        """Refuse a law with other fields, or with one in another notation."""
        formats = {**self.required, **{name: valid for name, valid in self.optional.items() if name in law}}
        if law.keys() - {"package"} != {"kind", *formats} or not all(
            valid(law[name]) for name, valid in formats.items()
        ):
            raise ValueError(
                f"expected {', '.join(formats)} in the law of {law['kind']}, each in its one form, found others"
            )


#: Kinds of values: of shape (lines,) for "number", "class" and "class or none", of shape (lines, columns) for the
#: others. Classes are codes, "class or none" is -1 for none, and a "number" may be NaN.
Values = Literal["number", "numbers", "class", "classes", "class or none"]


@dataclass(frozen=True)
class StoredForm:
    """The columns in which an answer is stored.

    Attributes:
        columns: The name of each column, after that of the label.
        values: The kind of values.
        by_row: True if there is a line for each row of the table instead of each cell.
    """

    columns: tuple[str, ...]
    values: Values
    by_row: bool

    def names(self, label: str) -> list[str]:
        """The columns of an answer about a label."""
        return [f"{label}_{column}" for column in self.columns]

    def clashes(self, label: str, public: Iterable[str]) -> set[str]:
        """Names of public columns that the answer uses, or would use with more entries."""
        numbered = re.compile(rf"{re.escape(label)}_[0-9]+")
        own = {label, *self.names(label)}
        return {name for name in public if name in own or (self.values == "numbers" and numbered.fullmatch(name))}


def class_columns(space: LabelSpace) -> tuple[str, ...]:
    """A column for each class, with its name."""
    return tuple(map(str, space.points))


def check_steps(value: np.ndarray, bits: int) -> None:
    """Refuse numbers that are not multiples of ``2**-bits``."""
    if (np.ldexp(value, bits) % 1).any():
        raise VerificationError("expected sums in whole steps of the noise, found others")


def check_possible(possible: bool) -> None:
    """Refuse numbers that are impossible under the law."""
    if not possible:
        raise VerificationError(
            "expected numbers that the mechanism can release, in its interval and steps, found others"
        )
