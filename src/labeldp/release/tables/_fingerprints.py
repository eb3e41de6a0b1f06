"""Fingerprints of the rows of a table, which survive honest edits of it.

A row is the multiset of its public values: names, order, file format and types of columns, the last digits of floats,
and the spelling of numbers, dates and missing values are left out. Order and number of rows do not matter either.

A *view* of a table is a hash of each row's values, or of some of them: of all, of all but one column, of all but the
floats, and of all with floats to two digits. Of each view the rows with the smallest hashes are kept: two tables that
share rows share those, in proportion. Of all values together, hashes of all rows are kept, up to ten million.

A table is *anonymous* if its values identify no rows: they have few values, or number rows. It may be any table then.

The hashes are no secret: the ledger stores them under a key of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Int, UInt64
from labeldp._threads import FEW_ROWS, idle_threads
from labeldp.release.tables._cell_hashes import CellHashes, Texts, all_hashes, hashes_of, is_respelled, whole_hashes
from labeldp.release.tables._copies import CopyCounter
from labeldp.release.tables._fingerprint_kernels import hash_in_order, sketch
from labeldp.release.tables._orders import MOST_ORDERED, ValueOrders

#: As many different rows are compared with each other at most.
_MOST_COMPARED = 1 << 16
#: Hashes that are kept of each view.
SKETCH = 2048
#: Most rows of which every hash is kept.
MOST_ROWS = 10_000_000
#: Fewest different values of a column, or of a view, that can identify a table.
FEWEST_VALUES = 8
#: Most columns of which each is left out in a view of its own.
_MOST_GROUPS = 32
_FIRST_ROWS = 4096
#: Hashes of cells that are computed at a time, so that they stay in a processor's cache, and of how many rows.
_CELLS, _FEWEST_AT_A_TIME, _MOST_AT_A_TIME = 1 << 17, 1 << 10, 1 << 13
#: Hashes of a view to collect before all but the smallest are left out.
_COLLECTED = 1 << 13
_LARGEST = (1 << 63) - 2
_NOTHING = np.zeros(0, dtype=np.uint64)


@dataclass(frozen=True)
class Sketch:
    """The rows of a view with the smallest hashes.

    Attributes:
        hashes: Different hashes, ascending.
        places: The first row with each.
        distinct: The estimated number of different hashes in the view.
        alike: The chance that another row of the same kind has one of these hashes, though it is nobody of this table:
            the share of rows that are not the only ones with their hash (Good 1953).
    """

    hashes: UInt64[np.ndarray, "k"]
    places: Int[np.ndarray, "k"]
    distinct: float
    alike: float


@dataclass(frozen=True)
class Fingerprints:
    """Fingerprints of all rows of a table.

    Attributes:
        count: Number of rows.
        rows: The hash of each row, or None of more than ``MOST_ROWS``.
        views: The views that identify rows.
        columns: For each column of several values, the sum of the hashes of its values, and whether most of the first
            rows of a batch differ in it.
        anonymous: True if no values but row numbers identify rows.
        copies: The number of rows that equal an earlier one in each column, and the most equal rows, estimated from
            some of many rows. Elsewhere the order of columns plays no part.
        respelled: True if texts have another canonical spelling than the one that older ledgers know.
        orders: For pairs of columns, the sum of the hashes of the ranks of all rows in both.
    """

    count: int
    rows: UInt64[np.ndarray, "n"] | None
    views: tuple[Sketch, ...]
    columns: tuple[tuple[int, bool], ...]
    anonymous: bool
    copies: tuple[int, int]
    respelled: bool = False
    orders: tuple[int, ...] = ()


@dataclass
class _View:
    """A view that is being sketched: all columns but some, or with a change of their hashes."""

    limit: int = (1 << 64) - 1
    hashes: UInt64[np.ndarray, "k"] = field(default_factory=lambda: _NOTHING)
    places: Int[np.ndarray, "k"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    times: Int[np.ndarray, "k"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def take(self, hashes: np.ndarray, places: np.ndarray, times: np.ndarray) -> None:
        """Take hashes, their places and how often they occur; the smallest stay."""
        hashes, places = np.concatenate([self.hashes, hashes]), np.concatenate([self.places, places])
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        first = np.flatnonzero(np.concatenate([hashes[:1] == hashes[:1], hashes[1:] != hashes[:-1]]))
        times = np.add.reduceat(np.concatenate([self.times, times])[order], first) if first.size else times
        self.hashes, self.places = hashes[first][:SKETCH], places[order[first]][:SKETCH]
        self.times = times[:SKETCH]
        if self.hashes.size == SKETCH:
            self.limit = int(self.hashes[-1])

    def sketch(self) -> Sketch:
        """The sketch of all rows that were added."""
        full = self.hashes.size == SKETCH
        distinct = (SKETCH - 1) / ((self.limit + 1) / 2.0**64) if full else float(self.hashes.size)
        alike = 1 - float((self.times == 1).sum()) / max(1, int(self.times.sum()))
        return Sketch(self.hashes, self.places, distinct, alike)


@dataclass(frozen=True)
class _Part:
    """The hashes of a batch.

    Attributes:
        heads: The hashes of the values of each column in the first rows.
        kept: The hashes of all values of the columns that the builder keeps.
        total: The hashes of whole rows.
        in_order: The hashes of whole rows that depend on the column of each value.
        sums: The sum of the hashes of each column.
        views: For each view of the builder, the rows with the smallest hashes; None if the batch has no such view.
        ranges: The least and the largest value of columns of whole numbers.
        respelled: True if texts have another canonical spelling than older ledgers know.
        orders: The values of columns whose orders are compared.
    """

    heads: Mapping[str, np.ndarray]
    kept: Mapping[str, np.ndarray]
    total: UInt64[np.ndarray, "n"]
    in_order: UInt64[np.ndarray, "n"]
    sums: UInt64[np.ndarray, "d"]
    views: Sequence[_View | None]
    ranges: Mapping[str, tuple[int, int]]
    respelled: bool
    orders: Mapping[str, np.ndarray]


class FingerprintBuilder:
    """Fingerprints of rows that come in batches.

    Args:
        columns: The names of the columns, in any order.
        rows: The number of rows of the table, 0 if it is unknown: of too many, not every hash is kept.
        kept: The columns of which ``add`` passes on the hashes of all values.
    """

    def __init__(self, columns: Sequence[str], *, rows: int = 0, kept: Collection[str] = ()) -> None:
        self._names, self._kept = sorted(columns), tuple(kept)
        self._groups = _grouped(self._names)
        self._views = [_View() for _ in range(len(self._groups) + 3)]  # whole rows, without a group, exact, coarse
        self._sums, self._several = dict.fromkeys(self._names, 0), dict[str, bool]()
        self._ranges: dict[str, tuple[int, int]] = {}
        self._rows: list[np.ndarray] = []
        self._copies = CopyCounter(_MOST_COMPARED)
        self._texts: dict[str, Texts] = {name: [] for name in self._names}
        self._count, self._every_row, self._respelled = 0, rows <= MOST_ROWS, False
        self._orders = ValueOrders(count=rows if rows > MOST_ORDERED else 0)

    def add(
        self, batches: Iterable[pa.RecordBatch], also: Callable[[Mapping[str, np.ndarray]], object] = lambda _: None
    ) -> None:
        """Add the rows of batches, which have the columns by name; ``also`` receives the hashes of kept columns."""
        workers = idle_threads()
        with ThreadPoolExecutor(workers) as threads:
            waiting: deque[Future[_Part]] = deque()
            for batch in batches:
                if batch.num_rows < FEW_ROWS and not waiting:
                    self._take(self._part(batch), also)
                    continue
                waiting.append(threads.submit(self._part, batch))
                if len(waiting) > workers:
                    self._take(waiting.popleft().result(), also)
            while waiting:
                self._take(waiting.popleft().result(), also)
        for texts in self._texts.values():
            texts.clear()

    @property
    def count(self) -> int:
        """Number of rows that were added."""
        return self._count

    def merge(self, other: FingerprintBuilder) -> None:
        """Add the rows of another part of the table, which follow those that were added."""
        for view, found in zip(self._views, other._views, strict=True):
            view.take(found.hashes, found.places + self._count, found.times)
        for name, total in other._sums.items():
            self._sums[name] = (self._sums[name] + total) % (1 << 64)
        self._several = other._several | self._several
        self._respelled |= other._respelled
        for name, ends in other._ranges.items():
            self._widen(name, ends)
        self._copies.merge(other._copies)
        self._orders.merge(other._orders)
        self._count += other._count
        self._keep(other._rows)

    def result(self) -> Fingerprints:
        """The fingerprints of all rows that were added."""
        least, numbers = max(FEWEST_VALUES, self._count / 2), set(filter(self._counts_up, self._names))
        sketches = [view.sketch() for view in self._views]
        views = tuple(sketch for sketch in sketches if sketch.distinct >= least)
        without = zip(self._groups, sketches[1:], strict=False)
        return Fingerprints(
            self._count,
            np.concatenate([_NOTHING, *self._rows]) if self._every_row and self._count <= MOST_ROWS else None,
            views,
            tuple((self._sums[name], many) for name, many in self._several.items() if name not in numbers),
            not views
            or len(numbers) == len(self._names)
            or any(numbers.issuperset(group) and rest.distinct < least for group, rest in without),
            self._copies.result(),
            self._respelled,
            self._orders.result(numbers),
        )

    def _part(self, batch: pa.RecordBatch) -> _Part:
        """The hashes of a batch, which depend on no other batch but for the limits of views."""
        columns, rows = [hashes_of(batch[name], self._texts[name]) for name in self._names], batch.num_rows
        left_out = self._left_out([number for number, column in enumerate(columns) if column.coarse])
        views = [
            None if members is None else _View(view.limit) for view, members in zip(self._views, left_out, strict=True)
        ]
        part = _Part(
            heads={name: np.empty(min(rows, _FIRST_ROWS), np.uint64) for name in self._names},
            kept={name: np.empty(rows, np.uint64) for name in self._kept},
            total=np.empty(rows, np.uint64),
            in_order=np.empty(rows, np.uint64),
            sums=np.zeros(len(self._names), np.uint64),
            views=views,
            ranges=dict(_ranges(batch, self._names)),
            respelled=any(is_respelled(batch[name]) for name in self._names),
            orders=self._orders.of(batch, self._names, lambda name: all_hashes(columns[self._names.index(name)], rows)),
        )
        _collect(columns, self._names, [each for each in left_out if each is not None], part)
        return part

    def _left_out(self, floats: Sequence[int]) -> list[Sequence[int] | None]:
        """The columns that each view leaves out, and the complements of those that it has in addition; None for none.

        The coarse hashes of columns come after those to all digits.
        """
        size, numbers = len(self._names), {name: number for number, name in enumerate(self._names)}
        exact = floats if 0 < len(floats) < size else None
        coarse = [*floats, *(~(size + number) for number in floats)] if floats else None
        return [[], *([numbers[name] for name in group] for group in self._groups), exact, coarse]

    def _take(self, part: _Part, also: Callable[[Mapping[str, np.ndarray]], object]) -> None:
        """Take the hashes of the next batch."""
        also(part.kept)
        for view, found in zip(self._views, part.views, strict=True):
            if found is not None:
                view.take(found.hashes, found.places + self._count, found.times)
        for name, total in zip(self._names, part.sums.tolist(), strict=True):
            self._sums[name] = (self._sums[name] + total) % (1 << 64)
        for name, first in part.heads.items():
            if name not in self._several:
                different = np.unique(first).size
                if different >= FEWEST_VALUES:
                    self._several[name] = different >= first.size / 2
        for name, ends in part.ranges.items():
            self._widen(name, ends)
        self._respelled |= part.respelled
        self._copies.add(part.in_order)
        self._orders.add(part.orders, part.total.size)
        self._count += part.total.size
        self._keep([part.total])

    def _widen(self, name: str, ends: tuple[int, int]) -> None:
        """Widen the range of a column of whole numbers."""
        least, most = self._ranges.get(name, ends)
        self._ranges[name] = min(ends[0], least), max(ends[1], most)

    def _keep(self, rows: Sequence[np.ndarray]) -> None:
        """Keep the hashes of the next rows, unless the table has too many."""
        if self._every_row and self._count <= MOST_ROWS:
            self._rows.extend(rows)
        else:
            self._rows.clear()

    def _counts_up(self, name: str) -> bool:
        """True if a column has each number between two equally often, like row numbers, which any table may have."""
        low, high = self._ranges.get(name, (0, -1))
        times, rest = divmod(self._count, high - low + 1) if low <= high else (0, 1)
        if rest or high - low >= MOST_ROWS or high > _LARGEST:
            return False
        return (times * int(whole_hashes(np.arange(low, high + 1)).sum()) - self._sums[name]) % (1 << 64) == 0


def _grouped(names: Sequence[str]) -> list[list[str]]:
    """Columns in groups, of which each is left out in a view of its own: by name, so that other columns move none."""
    if len(names) <= _MOST_GROUPS:
        return [[name] for name in names] if len(names) > 1 else []
    groups: list[list[str]] = [[] for _ in range(_MOST_GROUPS)]
    for name in names:
        groups[crc32(name.encode()) % _MOST_GROUPS].append(name)
    return [group for group in groups if group]


def _collect(
    columns: Sequence[CellHashes], names: Sequence[str], left_out: Sequence[Sequence[int]], part: _Part
) -> None:
    """Hash the values of a batch, add up the hashes of its rows, and give each view the smallest of its own.

    All is done for a block of rows at a time: hashes of all rows would not stay in a processor's cache.

    Args:
        columns: The hashes of each column.
        names: Their names.
        left_out: For each view of the batch, the columns that it leaves out, as for ``sketch``.
        part: Receives the hashes.
    """
    size, views = len(columns), [each for each in part.views if each]
    block = min(max(_CELLS // (2 * size), _FEWEST_AT_A_TIME), _MOST_AT_A_TIME)
    cells = np.empty((2 * size, block), np.uint64)  # to all digits that count, and after them to two
    starts = np.cumsum([0, *map(len, left_out)])
    members = np.array([member for each in left_out for member in each], dtype=np.int64)
    places, values = np.empty((2, len(views), _COLLECTED + block), np.uint64)
    counts, limits = np.zeros(len(views), np.int64), np.array([view.limit for view in views], np.uint64)
    for low in range(0, part.total.size, block):
        rows = slice(low, min(low + block, part.total.size))
        for fine, coarse, column in zip(cells, cells[size:], columns, strict=False):
            column.fill(rows, fine[: rows.stop - low], coarse[: rows.stop - low])
        for name, fine in zip(names, cells, strict=False):
            if low < _FIRST_ROWS:
                part.heads[name][rows] = fine[: len(part.heads[name][rows])]
            if name in part.kept:
                part.kept[name][rows] = fine[: rows.stop - low]
        hash_in_order(cells, size, part.in_order[rows])
        sketch(cells, starts, members, limits, low, part.total, part.sums, places, values, counts)
        if rows.stop == part.total.size or counts.max() > _COLLECTED:
            for view, count, place, value in zip(views, counts, places, values, strict=True):
                view.take(value[:count], place[:count].astype(np.int64), np.ones(count, np.int64))
            counts[:], limits = 0, np.array([view.limit for view in views], np.uint64)


def _ranges(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The least and the largest value of columns of whole numbers."""
    for name in names:
        if pa.types.is_integer(batch[name].type) and batch[name].null_count < len(batch[name]):
            ends = pc.min_max(batch[name])
            yield name, (ends["min"].as_py(), ends["max"].as_py())
