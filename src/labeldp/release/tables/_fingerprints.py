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

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Int, UInt64
from labeldp._threads import FEW_ROWS
from labeldp.errors import TableError
from labeldp.release.tables._fingerprint_kernels import (
    MISSING,
    hash_floats,
    hash_texts,
    hash_whole,
    mix_all,
    sketch,
)

#: Hashes that are kept of each view.
SKETCH = 2048
#: Most rows of which every hash is kept.
MOST_ROWS = 10_000_000
#: Fewest different values of a column, or of a view, that can identify a table.
FEWEST_VALUES = 8
#: Most columns of which each is left out in a view of its own.
_MOST_GROUPS = 32
_FIRST_ROWS = 4096
#: Hashes of a view to collect before all but the smallest are left out.
_COLLECTED = 8192
_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "nat")
_WHOLE = r"^[+-]?[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = r"(z|[+-][0-9]{2}:?[0-9]{2})$"
_TIME = rf"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ t]{_CLOCK}{_ZONE[:-1]}?)?|{_CLOCK})$"
_MICROSECONDS = r"(\.[0-9]{6})[0-9]+"
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
    """

    count: int
    rows: UInt64[np.ndarray, "n"] | None
    views: tuple[Sketch, ...]
    columns: tuple[tuple[int, bool], ...]
    anonymous: bool


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
        cells: The hashes of the values of each column.
        total: The hashes of whole rows.
        sums: The sum of the hashes of each column.
        views: For each view of the builder, the rows with the smallest hashes; None if the batch has no such view.
        ranges: The least and the largest value of columns of whole numbers.
    """

    cells: Mapping[str, np.ndarray]
    total: UInt64[np.ndarray, "n"]
    sums: Mapping[str, int]
    views: Sequence[_View | None]
    ranges: Mapping[str, tuple[int, int]]


class FingerprintBuilder:
    """Fingerprints of rows that come in batches.

    Args:
        columns: The names of the columns, in any order.
        every_row: False if the table is known to have too many rows to keep a hash of each.
    """

    def __init__(self, columns: Sequence[str], *, every_row: bool = True) -> None:
        self._names = sorted(columns)
        self._groups = _grouped(self._names)
        self._views = [_View() for _ in range(len(self._groups) + 3)]  # whole rows, without a group, exact, coarse
        self._sums, self._several = dict.fromkeys(self._names, 0), dict[str, bool]()
        self._ranges: dict[str, tuple[int, int]] = {}
        self._rows: list[np.ndarray] = []
        self._texts: dict[str, list[tuple[pa.Array, np.ndarray]]] = {name: [] for name in self._names}
        self._count, self._every_row = 0, every_row

    def add(
        self, batches: Iterable[pa.RecordBatch], also: Callable[[Mapping[str, np.ndarray]], object] = lambda _: None
    ) -> None:
        """Add the rows of batches, which have the columns by name; ``also`` receives the hashes of their values."""
        workers = os.cpu_count() or 1
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
        for name, ends in other._ranges.items():
            self._widen(name, ends)
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
        )

    def _part(self, batch: pa.RecordBatch) -> _Part:
        """The hashes of a batch, which depend on no other batch but for the limits of views."""
        size, rows, floats = len(self._names), batch.num_rows, []
        cells = np.empty((2 * size, rows), np.uint64)  # to all digits that count, and after them to two
        for number, name in enumerate(self._names):
            fine, coarse = cell_hashes(batch[name], (cells[number], cells[size + number]), self._texts[name])
            if coarse is not fine:
                floats.append(number)
        named = {name: cells[number] for number, name in enumerate(self._names)}
        numbers = {name: number for number, name in enumerate(self._names)}
        left_out: list[list[int] | None] = [[], *([numbers[name] for name in group] for group in self._groups)]
        left_out.append(floats if 0 < len(floats) < size else None)
        left_out.append([*floats, *(~(size + number) for number in floats)] if floats else None)
        views = [
            None if members is None else _View(view.limit) for view, members in zip(self._views, left_out, strict=True)
        ]
        total, sums = np.empty(rows, np.uint64), np.zeros(size, np.uint64)
        _collect(cells, [each for each in left_out if each is not None], [each for each in views if each], total, sums)
        return _Part(
            named, total, dict(zip(self._names, sums.tolist(), strict=True)), views, dict(_ranges(batch, self._names))
        )

    def _take(self, part: _Part, also: Callable[[Mapping[str, np.ndarray]], object]) -> None:
        """Take the hashes of the next batch."""
        also(part.cells)
        for view, found in zip(self._views, part.views, strict=True):
            if found is not None:
                view.take(found.hashes, found.places + self._count, found.times)
        for name, fine in part.cells.items():
            self._sums[name] = (self._sums[name] + part.sums[name]) % (1 << 64)
            if name not in self._several:
                first = fine[:_FIRST_ROWS]
                different = np.unique(first).size
                if different >= FEWEST_VALUES:
                    self._several[name] = different >= first.size / 2
        for name, ends in part.ranges.items():
            self._widen(name, ends)
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
        return (times * int(_whole_hashes(np.arange(low, high + 1)).sum()) - self._sums[name]) % (1 << 64) == 0


def _grouped(names: Sequence[str]) -> list[list[str]]:
    """Columns in groups, of which each is left out in a view of its own: by name, so that other columns move none."""
    if len(names) <= _MOST_GROUPS:
        return [[name] for name in names] if len(names) > 1 else []
    groups: list[list[str]] = [[] for _ in range(_MOST_GROUPS)]
    for name in names:
        groups[crc32(name.encode()) % _MOST_GROUPS].append(name)
    return [group for group in groups if group]


def _collect(
    cells: np.ndarray, left_out: Sequence[Sequence[int]], views: Sequence[_View], total: np.ndarray, sums: np.ndarray
) -> None:
    """Add up the hashes of a batch, and give each view the smallest of its own; arguments as for ``sketch``."""
    starts = np.cumsum([0, *map(len, left_out)])
    members = np.array([member for each in left_out for member in each], dtype=np.int64)
    places, values = np.empty((len(views), _COLLECTED), np.int64), np.empty((len(views), _COLLECTED), np.uint64)
    counts, first = np.empty(len(views), np.int64), 0
    while first < total.size:
        limits = np.array([view.limit for view in views], np.uint64)
        first = sketch(cells, starts, members, limits, first, total, sums, places, values, counts)
        for view, count, row, value in zip(views, counts, places, values, strict=True):
            if count:
                view.take(value[:count], row[:count], np.ones(count, np.int64))


def _ranges(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """The least and the largest value of columns of whole numbers."""
    for name in names:
        if pa.types.is_integer(batch[name].type) and batch[name].null_count < len(batch[name]):
            ends = pc.min_max(batch[name])
            yield name, (ends["min"].as_py(), ends["max"].as_py())


def cell_hashes(
    column: pa.Array,
    out: tuple[np.ndarray, np.ndarray] | None = None,
    texts: list[tuple[pa.Array, np.ndarray]] | None = None,
) -> tuple[UInt64[np.ndarray, "n"], UInt64[np.ndarray, "n"]]:
    """Hashes of the values of a column: to all digits that count, and of floats to two; the same array for others.

    Args:
        column: The column.
        out: Arrays for the hashes.
        texts: The texts that places of the batch before refer to, with their hashes; replaced by those of this one.
    """
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    fine, coarse = np.empty((2, len(column)), np.uint64) if out is None else out
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _of_dictionary(column, fine, coarse, [] if texts is None else texts)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        hash_floats(values, np.ascontiguousarray(values).view(np.uint64), fine, coarse)
        return fine, coarse
    if pa.types.is_integer(kind):
        _whole_hashes(_filled(column).to_numpy(zero_copy_only=False), fine)
    else:
        fine[:] = _exact_hashes(column, kind)
    if column.null_count:
        fine[np.asarray(column.is_null())] = MISSING
    return fine, fine


def _filled(column: pa.Array) -> pa.Array:
    """Whole numbers, with zeros for missing ones; Arrow copies a column that has none, too."""
    return column.fill_null(0) if column.null_count else column


def _exact_hashes(column: pa.Array, kind: pa.DataType) -> UInt64[np.ndarray, "n"]:
    """Hashes of values that are no numbers; of missing ones anything."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _whole_hashes(_microseconds(column))
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_hashes(column)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        texts = column.cast(pa.large_string()).dictionary_encode()
        out = np.empty(len(texts), np.uint64)
        return _of_dictionary(texts, out, out, [])[0]
    return _text_hashes(pa.array(as_texts(column), pa.large_string()))


def _of_dictionary(
    column: pa.DictionaryArray, fine: np.ndarray, coarse: np.ndarray, texts: list[tuple[pa.Array, np.ndarray]]
) -> tuple[UInt64[np.ndarray, "n"], UInt64[np.ndarray, "n"]]:
    """Hashes of values that are stored as places in a list of different ones, in arrays for them."""
    values, places = column.dictionary, np.asarray(_filled(column.indices).to_numpy(zero_copy_only=False))
    if not len(values):
        fine[:] = MISSING
        return fine, fine
    text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if text:
        known = next((hashes for before, hashes in texts if before.equals(values)), None)
        hashes = _text_hashes(values.cast(pa.large_string())) if known is None else known
        texts[:] = [(values, hashes)]
    of_values = (hashes, hashes) if text else cell_hashes(values)
    if places.size and not 0 <= places.min() <= places.max() < len(values):
        raise TableError("expected a readable table, found damaged texts in it; repair the file")
    several = of_values[0] is not of_values[1]
    for hashes, out in zip(of_values, (fine, coarse) if several else (fine,), strict=False):
        np.take(hashes, places, out=out, mode="clip")  # its other mode needs a copy
        if column.null_count:
            out[np.asarray(column.is_null())] = MISSING
    return fine, coarse if several else fine


def _text_hashes(texts: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of texts: those that are numbers or times have the hashes of these."""
    texts = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    hashes = _plain_hashes(texts)
    missing = np.asarray(pc.is_in(texts, value_set=pa.array(_MISSING, texts.type)))
    hashes[missing] = MISSING
    whole = np.asarray(pc.match_substring_regex(texts, _WHOLE))
    if whole.any():
        hashes[whole] = _whole_hashes(pc.replace_substring_regex(texts.filter(whole), r"^\+", "").cast(pa.int64()))
    number = np.asarray(pc.match_substring_regex(texts, _NUMBER)) & ~whole
    if number.any():
        unsigned = pc.replace_substring_regex(texts.filter(number), r"^\+", "")
        hashes[number] = cell_hashes(unsigned.cast(pa.float64()))[0]
    time = np.asarray(pc.match_substring_regex(texts, _TIME))
    if time.any():
        hashes[time] = _time_hashes(texts.filter(time), hashes[time])
    return hashes


def _time_hashes(texts: pa.Array, plain: np.ndarray) -> UInt64[np.ndarray, "n"]:
    """Hashes of dates and times; of texts that only look like them those of texts."""
    texts = pc.replace_substring_regex(texts, _MICROSECONDS, r"\1")
    texts = pc.replace_substring_regex(texts, f"^({_CLOCK})$", r"1970-01-01 \1")
    zoned, hashes = np.asarray(pc.match_substring_regex(texts, f":.*{_ZONE}")), plain.copy()
    for some, kind in ((zoned, pa.timestamp("us", "UTC")), (~zoned, pa.timestamp("us"))):
        with suppress(pa.ArrowInvalid):
            hashes[some] = _whole_hashes(_microseconds(pc.ascii_upper(texts.filter(some)).cast(kind)))
    return hashes


def _microseconds(column: pa.Array) -> np.ndarray:
    """Times as microseconds, whatever their unit."""
    whole = column.cast(pa.timestamp("us"), safe=False) if pa.types.is_date(column.type) else column
    if whole.type.tz is not None or whole.type.unit != "us":
        whole = whole.cast(pa.timestamp("us", whole.type.tz), safe=False)
    return np.asarray(whole.view(pa.int64()).fill_null(0))


def _list_hashes(column: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of lists: of their values and their order."""
    lists = column.cast(pa.large_list(column.type.value_type))
    values, offsets = cell_hashes(lists.values)[0], np.asarray(lists.offsets)
    places = np.arange(values.size, dtype=np.uint64) - np.repeat(offsets[:-1], np.diff(offsets)).astype(np.uint64)
    hashes = np.concatenate([_NOTHING, np.cumsum(keyed(values + places, 0))])
    hashes = np.concatenate([np.zeros(1, np.uint64), hashes])
    return keyed(hashes[offsets[1:]] - hashes[offsets[:-1]], 1)


def as_texts(column: pa.Array) -> list[str]:
    """Convert values to text, by Arrow if possible: Python cannot represent every date and time."""
    try:
        return [str(text) for text in column.cast(pa.string()).to_pylist()]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return [str(value) for value in column.to_pylist()]


def _plain_hashes(texts: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of the bytes of texts."""
    out = np.empty(len(texts), np.uint64)
    _, offsets, data = texts.buffers()
    if len(texts):
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        hash_texts(places, np.frombuffer(data or b"\0", np.uint8), out)
    return out


def _whole_hashes(values: object, out: np.ndarray | None = None) -> UInt64[np.ndarray, "n"]:
    whole = np.asarray(values)
    out = np.empty(whole.size, np.uint64) if out is None else out
    hash_whole(whole.astype(np.uint64 if whole.dtype == np.uint64 else np.int64, copy=False), out)
    return out


def keyed(words: np.ndarray, key: int) -> UInt64[np.ndarray, "n"]:
    """The hashes under a key, which makes those of two ledgers incomparable."""
    out = np.empty(words.size, np.uint64)
    mix_all(words, np.uint64(key), out)
    return out
