"""Columns in which the answer to a query is stored, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from labeldp.errors import VerificationError
from labeldp.privacy import LabelSpace

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
    """Refuse numbers that are not multiples of ``2**-bits``.

    Raises:
        VerificationError: There are others.
    """
    if (np.ldexp(value, bits) % 1).any():
        raise VerificationError("expected sums in whole steps of the noise, found others")


def check_possible(possible: bool) -> None:
    """Refuse numbers that are impossible under the law.

    Raises:
        VerificationError: They are.
    """
    if not possible:
        raise VerificationError(
            "expected numbers that the mechanism can release, in its interval and steps, found others"
        )
