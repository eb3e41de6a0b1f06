"""Columns that repeat like a person's identifier, and rows that are copies of each other: of public columns alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._arrow import as_array
from labeldp._shapes import Int, UInt64
from labeldp.release.tables._fingerprint_kernels import MISSING

#: As many different rows are compared with each other at most.
_MOST_COMPARED = 1 << 16
_LARGEST = (1 << 64) - 1
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
        self._floats = {name for name in self._hashes if pa.types.is_floating(_plain(schema.field(name).type))}
        self._measured: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The columns with such names."""
        return list(self._hashes)

    def watch(self, batch: pa.RecordBatch) -> None:
        """Note which columns of floats hold others than whole numbers; whole ones with a gap are stored as floats."""
        names = (self._floats - self._measured).intersection(batch.schema.names)
        self._measured |= {name for name in names if _has_fraction(batch[name])}

    def add(self, cells: Mapping[str, UInt64[np.ndarray, "n"]]) -> None:
        """Add the hashes of a batch."""
        for name, parts in self._hashes.items():
            if name in cells and sum(map(len, parts)) < self.ROWS:
                parts.append(cells[name])

    def merge(self, other: RepeatFinder) -> None:
        """Add the hashes of another part of the table, whose rows follow."""
        self._measured |= other._measured
        for name, parts in other._hashes.items():
            for part in parts:
                self.add({name: part})

    def result(self) -> tuple[Repeat, ...]:
        """The columns, those with most different values first."""
        found: list[tuple[int, Repeat]] = []
        for name, parts in self._hashes.items():
            if name in self._measured:
                continue
            hashes = np.concatenate([np.zeros(0, np.uint64), *parts])
            values, counts = np.unique(hashes[hashes != MISSING], return_counts=True)
            if values.size >= max(_FEWEST_VALUES, hashes.size / _ROWS_PER_VALUE) and counts.max() > 1:
                found.append((values.size, Repeat(name, int(counts.max()))))
        return tuple(repeat for _, repeat in sorted(found, key=lambda each: -each[0]))


class CopyCounter:
    """Counts rows that are copies of each other, equal in each column, and those that are one of a kind.

    Of many different rows those with the smallest hashes are compared: equal rows are all among them, or none.

    Args:
        most: As many different rows are compared with each other at most.
    """

    def __init__(self, most: int = _MOST_COMPARED) -> None:
        self._limit, self._most = _LARGEST, most
        self._hashes, self._times = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._owners = np.zeros((2, 0), np.int64)  # the least and the largest owner of each hash
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting_rows = 0

    def add(self, rows: UInt64[np.ndarray, "n"], owners: Int[np.ndarray, "n"] | None = None) -> None:
        """Add the hashes of rows, which depend on the column of each value, and perhaps the person of each row."""
        owners = np.broadcast_to(np.int64(0), rows.shape) if owners is None else owners
        some = slice(None) if self._limit == _LARGEST else rows <= np.uint64(self._limit)
        self._waiting.append((rows[some], owners[some]))
        self._waiting_rows += self._waiting[-1][0].size
        if self._waiting_rows > max(_MOST_COMPARED, self._hashes.size):
            self._settle()

    def merge(self, other: CopyCounter) -> None:
        """Add the rows of another part of the table."""
        self._settle()
        other._settle()
        self._take(other._hashes, other._times, other._owners, min(self._limit, other._limit))

    def result(self) -> tuple[int, int]:
        """The number of rows that are copies of an earlier row, and the most equal rows."""
        self._settle()
        return round(int((self._times - 1).sum()) / self._share), int(self._times.max(initial=0))

    def rows_alone(self) -> tuple[int, bool]:
        """The number of rows that no other row equals, and True if it is no estimate from some of many rows."""
        self._settle()
        return round(int((self._times == 1).sum()) / self._share), self._limit == _LARGEST

    def owners_alone(self) -> int | None:
        """The number of people with a row that nobody else has; None if only some of many rows were compared."""
        self._settle()
        least, largest = self._owners
        return int(np.unique(least[least == largest]).size) if self._limit == _LARGEST else None

    @property
    def _share(self) -> float:
        """The share of all different rows that are compared."""
        return (self._limit + 1) / (1 << 64)

    def _settle(self) -> None:
        """Count the hashes that wait."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        hashes = np.concatenate([np.zeros(0, np.uint64), *(rows for rows, _ in waiting)])
        owners = np.concatenate([np.zeros(0, np.int64), *(each for _, each in waiting)])
        self._take(hashes, np.ones(hashes.size, np.int64), np.stack([owners, owners]), self._limit)

    def _take(
        self,
        hashes: UInt64[np.ndarray, "m"],
        times: Int[np.ndarray, "m"],
        owners: Int[np.ndarray, "2 m"],
        limit: int,
    ) -> None:
        """Take hashes, how often they occur and their owners; the smallest stay, up to a limit."""
        hashes = np.concatenate([self._hashes, hashes])
        order = np.argsort(hashes, kind="stable")
        hashes, times = hashes[order], np.concatenate([self._times, times])[order]
        owners = np.concatenate([self._owners, owners], axis=1)[:, order]
        first = np.flatnonzero(np.concatenate([hashes[:1] == hashes[:1], hashes[1:] != hashes[:-1]]))
        if first.size > self._most:
            limit = min(limit, int(hashes[first[self._most - 1]]))
        count = int(np.searchsorted(hashes[first], np.uint64(limit), side="right"))
        self._limit, self._hashes = limit, hashes[first][:count]
        if first.size:
            self._times = np.add.reduceat(times, first)[:count]
            least, largest = np.minimum.reduceat(owners[0], first), np.maximum.reduceat(owners[1], first)
            self._owners = np.stack([least, largest])[:, :count]


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
    """True for numbers and texts; of floats, the values decide."""
    plain = _plain(kind)
    number = pa.types.is_integer(plain) or pa.types.is_floating(plain)
    return bool(number or pa.types.is_string(plain) or pa.types.is_large_string(plain))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _has_fraction(column: pa.Array) -> bool:
    """True if one of the finite floats of a column is not whole."""
    floats = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    values = as_array(floats.cast(pa.float64()))
    return bool((np.isfinite(values) & (values != np.rint(values))).any())
