"""Columns that repeat like a person's identifier, and rows that are copies of each other: of public columns alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import UInt64
from labeldp.release.tables._fingerprint_kernels import MISSING

#: About as many rows are compared with each other.
_MOST_COMPARED = 1 << 18
_FEWEST_VALUES = 12
#: Expected pairs of equal whole numbers, of which measurements would show one.
_COINCIDENCES = 10.0
_ROWS_PER_VALUE = 500
#: Words in the names of columns that tell people apart.
_NAMES = re.compile(
    "account|client|customer|email|employee|guid|household|ids?|member|mrn|nbr|participant|patient|person|phone|pid|ssn|"
    "student|subject|uid|user|uuid"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Repeat:
    """A column whose values repeat like a person's identifier.

    Attributes:
        name: Its name.
        most: The most rows of one value, among those that were looked at.
    """

    name: str
    most: int


class RepeatFinder:
    """Looks for columns whose names and values are like those of people's identifiers, in the first million rows.

    Args:
        schema: The columns.
    """

    #: Rows in which repeats are counted.
    ROWS: ClassVar[int] = 1 << 20

    def __init__(self, schema: pa.Schema) -> None:
        self._hashes: dict[str, list[np.ndarray]] = {
            field.name: [] for field in schema if tells_people_apart(field.name) and _may_identify(field.type)
        }

    @property
    def names(self) -> list[str]:
        """The columns with such names."""
        return list(self._hashes)

    def add(self, cells: Mapping[str, UInt64[np.ndarray, "n"]]) -> None:
        """Add the hashes of a batch."""
        for name, parts in self._hashes.items():
            if name in cells and sum(map(len, parts)) < self.ROWS:
                parts.append(cells[name])

    def merge(self, other: RepeatFinder) -> None:
        """Add the hashes of another part of the table, whose rows follow."""
        for name, parts in other._hashes.items():
            for part in parts:
                self.add({name: part})

    def result(self) -> tuple[Repeat, ...]:
        """The columns, those with most different values first."""
        found: list[tuple[int, Repeat]] = []
        for name, parts in self._hashes.items():
            hashes = np.concatenate([np.zeros(0, np.uint64), *parts])
            values, counts = np.unique(hashes[hashes != MISSING], return_counts=True)
            if values.size >= max(_FEWEST_VALUES, hashes.size / _ROWS_PER_VALUE) and counts.max() > 1:
                found.append((values.size, Repeat(name, int(counts.max()))))
        return tuple(repeat for _, repeat in sorted(found, key=lambda each: -each[0]))


def copies(rows: UInt64[np.ndarray, "n"]) -> tuple[int, int]:
    """The number of rows that are copies of an earlier row, and the most equal rows.

    Of many rows those with the smallest hashes stand for all: equal rows are all among them, or none.
    """
    share = min(1.0, _MOST_COMPARED / max(1, rows.size))
    looked_at = np.sort(rows if share == 1.0 else rows[rows < np.uint64(share * (1 << 64))])
    starts = np.flatnonzero(np.r_[True, looked_at[1:] != looked_at[:-1]])
    return round((looked_at.size - starts.size) / share), int(np.diff(np.r_[starts, looked_at.size]).max())


def tells_people_apart(name: str) -> bool:
    """True if a word of a column's name is one of people's identifiers."""
    words: Sequence[str] = _WORDS.findall(name)
    return any(_NAMES.fullmatch(word.lower()) for word in words)


def number_rows(column: pa.ChunkedArray) -> bool:
    """True if different whole numbers lie so near each other that they were not measured, but given out.

    Measured independently, whatever their distribution, n values among r numbers would all be different with a
    probability of at most ``exp(-n (n - 1) / 2 r)``, which is here below one in 22 000, or r is at most n.

    References:
        Bloom 1973, for even shares as those with the fewest coincidences.
    """
    ends, count = pc.min_max(column), len(column)
    numbers = ends["max"].as_py() - ends["min"].as_py() + 1
    return bool(numbers <= count or count * (count - 1) >= 2 * _COINCIDENCES * numbers)


def _may_identify(kind: pa.DataType) -> bool:
    """True for whole numbers and texts."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(plain) or pa.types.is_string(plain) or pa.types.is_large_string(plain))
