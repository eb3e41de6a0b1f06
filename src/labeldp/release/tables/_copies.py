"""Rows that are copies of each other, and values that are equal, by their hashes."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Int, UInt64

#: Most different rows that are compared with each other.
_MOST_COMPARED = 1 << 16
_LARGEST = (1 << 64) - 1


class CopyCounter:
    """Counts rows that are copies of each other, equal in each column, and those that are one of a kind.

    Among many different rows, those with the smallest hashes are compared. Of equal rows all are compared, or none.

    Args:
        most: Most different rows that are compared with each other.
    """

    def __init__(self, most: int = _MOST_COMPARED) -> None:
        self._limit, self._most = _LARGEST, most
        self._hashes, self._times = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._owners = np.zeros((0, 0), np.int64)  # the least and the largest owner of each hash; no rows without any
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting_rows = 0

    def add(self, rows: UInt64[np.ndarray, "n"], owners: Int[np.ndarray, "n"] | None = None) -> None:
        """Add the hashes of rows, which depend on the column of each value, and perhaps the person of each row."""
        owners = np.zeros((0, rows.size), np.int64) if owners is None else np.stack([owners, owners])
        some = slice(None) if self._limit == _LARGEST else rows <= np.uint64(self._limit)
        self._waiting.append((rows[some], owners[:, some]))
        self._waiting_rows += self._waiting[-1][0].size
        if self._waiting_rows > max(_MOST_COMPARED, self._hashes.size):
            self._settle()

    def add_counted(self, hashes: UInt64[np.ndarray, "m"], times: Int[np.ndarray, "m"]) -> None:
        """Add hashes, and how often each occurs."""
        few = hashes <= np.uint64(self._limit)
        self._take(hashes[few], times[few], np.zeros((0, int(few.sum())), np.int64), self._limit)

    def found(self) -> tuple[UInt64[np.ndarray, "m"], Int[np.ndarray, "m"], float]:
        """The hashes that were compared, ascending, how often each occurs, and their share of all hashes."""
        self._settle()
        return self._hashes, self._times, self._share

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
        """The number of rows that no other row equals, and True if it is exact, not an estimate from some rows."""
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
        return float((self._limit + 1) / (1 << 64))

    def _settle(self) -> None:
        """Count the waiting hashes."""
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not waiting:
            return
        hashes = np.concatenate([rows for rows, _ in waiting])
        owners = np.concatenate([each for _, each in waiting], axis=1)
        self._take(hashes, np.ones(hashes.size, np.int64), owners, self._limit)

    def _take(
        self,
        hashes: UInt64[np.ndarray, "m"],
        times: Int[np.ndarray, "m"],
        owners: Int[np.ndarray, "o m"],
        limit: int,
    ) -> None:
        """Take hashes, how often they occur and their owners; the smallest stay, up to a limit."""
        before = self._owners if self._hashes.size else owners[:, :0]
        hashes = np.concatenate([self._hashes, hashes])
        order = np.argsort(hashes)  # of equal hashes any may come first
        hashes, times = hashes[order], np.concatenate([self._times, times])[order]
        owners = np.concatenate([before, owners], axis=1)[:, order]
        first = np.flatnonzero(np.concatenate([hashes[:1] == hashes[:1], hashes[1:] != hashes[:-1]]))
        if first.size > self._most:
            limit = min(limit, int(hashes[first[self._most - 1]]))
        count = int(np.searchsorted(hashes[first], np.uint64(limit), side="right"))
        self._limit, self._hashes = limit, hashes[first][:count]
        if first.size:
            self._times = np.add.reduceat(times, first)[:count]
            ends = np.minimum.reduceat(owners[:1], first, axis=1), np.maximum.reduceat(owners[1:], first, axis=1)
            self._owners = np.concatenate(ends)[:, :count]
