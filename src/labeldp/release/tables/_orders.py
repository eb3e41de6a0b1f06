"""Orders of the values of columns, which survive maps such as z-scores, logarithms, ranks and shifted dates.

Any strictly monotone map of a column keeps the ranks of its values, up to their direction. So the pairs of ranks that
the rows have in two columns are those of the same rows after both columns were mapped, in any order of the rows. Rows
that were added or left out change all ranks. So these are fingerprints of whole tables, and of small ones alone, since
all values are sorted.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Float, Int, UInt64
from labeldp.columns import as_array, is_number, stored_integers
from labeldp.release.tables._cell_hashes import MISSING, keyed
from labeldp.release.tables._fingerprint_kernels import sum_pairs
from labeldp.release.tables._tables import Table


def sorted_columns(table: Table, names: Sequence[str], rows: int) -> list[str]:
    """The columns of several values that never decrease, or never increase, from one row to the next."""
    up, down = dict.fromkeys(names, True), dict.fromkeys(names, True)
    last: dict[str, pa.Array] = {}
    for batch in table.batches(names, rows) if names else ():
        for name in names:
            column = batch[name].drop_null()
            values = pa.concat_arrays([last[name], column]) if name in last else column
            if not len(values) or not (up[name] or down[name]):
                continue
            up[name] &= _is_never(pc.less, values)
            down[name] &= _is_never(pc.greater, values)
            last[name] = values[-1:]
    return [name for name in names if up[name] != down[name]]


def _is_never(compare: object, values: pa.Array) -> bool:
    """True if a comparison of a value with the one before it never holds; false for values without an order."""
    try:
        return not pc.any(compare(values[1:], values[:-1])).as_py()  # type: ignore[operator]
    except pa.ArrowNotImplementedError:
        return False


Columns = Mapping[str, np.ndarray]
#: Most rows of a table whose orders are compared, and most of its columns.
MOST_ORDERED, _MOST_COLUMNS = 1 << 18, 6
#: Rows, in the order of one column, whose ranks in another are compressed, and the fewest bytes that chance leaves.
_LOOKED_AT, _FEWEST_BYTES, _ROWS_A_BYTE = 1 << 12, 56, 32
_RANK = np.uint64(0x1F83D9ABFB41BD6B)


@dataclass
class ValueOrders:
    """The values of some columns, whose orders are fingerprints.

    Attributes:
        parts: For each column the values of its rows, in parts: numbers and times as floats, others as hashes.
        count: Number of rows; of more than ``MOST_ORDERED`` no values are kept.
    """

    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    count: int = 0

    def of(self, batch: pa.RecordBatch, names: Iterable[str], hashed: Callable[[str], np.ndarray]) -> Columns:
        """The values of a batch that ``add`` takes: of numbers and times first, then of others."""
        wanted = [name for name in names if not self.count or name in self.parts] if self.count < MOST_ORDERED else []
        numbers = {name: _numbers(batch[name]) for name in wanted}
        wanted = sorted(wanted, key=lambda name: (numbers[name] is None, name))[:_MOST_COLUMNS]
        return {name: hashed(name) if (values := numbers[name]) is None else values for name in wanted}

    def add(self, columns: Columns, rows: int) -> None:
        """Add the values of the next rows."""
        self.merge(ValueOrders({name: [values] for name, values in columns.items()}, rows))

    def merge(self, other: ValueOrders) -> None:
        """Add another part of the table, whose rows follow; a column that has other types there has no order."""
        if other.count and not self.count:
            self.parts = {name: [] for name in other.parts}
        both = self.parts.keys() & other.parts.keys() if other.count else self.parts.keys()
        parts = {name: [*self.parts[name], *other.parts.get(name, ())] for name in sorted(both)}
        self.count += other.count
        one_type = {name: each for name, each in parts.items() if len({values.dtype for values in each}) <= 1}
        self.parts = one_type if self.count <= MOST_ORDERED else {}

    def result(self, counters: Collection[str]) -> tuple[int, ...]:
        """Sums of the hashes of all pairs of ranks, for each two columns whose ranks are no pattern.

        Args:
            counters: Columns that number the rows, in an order that any table may have.
        """
        columns = [
            _Ranks.of(np.concatenate(each)) for name, each in self.parts.items() if each and name not in counters
        ]
        pairs = [pair for pair in combinations(columns, 2) if any(each.ordered for each in pair)]
        return tuple(_sum(*pair) for pair in pairs if _is_irregular(*pair))


@dataclass(frozen=True)
class _Ranks:
    """The ranks of the values of a column.

    Attributes:
        ranks: The rank of each row among the different values, from 0 on; ``different`` for missing ones.
        different: The number of different values.
        ordered: True if values are ordered; False if only their hashes are.
        words: A hash for each row, of its rank or of its value.
        turned: The same for the opposite order.
    """

    ranks: Int[np.ndarray, "n"]
    different: int
    ordered: bool
    words: UInt64[np.ndarray, "n"]
    turned: UInt64[np.ndarray, "n"]

    @classmethod
    def of(cls, values: np.ndarray) -> _Ranks:
        """The ranks of floats, or of hashes."""
        order = np.argsort(values)
        ascending, ranks = values[order], np.empty(values.size, np.int64)
        ranks[order] = np.cumsum(np.concatenate([[False], ascending[1:] != ascending[:-1]]))
        if values.dtype == np.uint64:
            return cls(ranks, int(ranks.max(initial=-1)) + 1, False, values, values)
        missing = np.isnan(values)
        different = int(ranks[~missing].max(initial=-1)) + 1
        words = np.append(keyed(np.arange(different, dtype=np.uint64), int(_RANK)), MISSING)
        ranks[missing] = different
        turned = np.append(words[:-1][::-1], MISSING)
        return cls(ranks, different, True, words[ranks], turned[ranks])


def _sum(one: _Ranks, other: _Ranks) -> int:
    """The sum of the hashes of all pairs of ranks: the least one of both directions of both columns."""
    sums = np.empty(4, np.uint64)
    sum_pairs(one.words, one.turned, other.words, other.turned, sums)
    return int(sums.min())


def _is_irregular(one: _Ranks, other: _Ranks) -> bool:
    """True unless the ranks of one column, in the order of the other, are a pattern that other tables may have.

    Columns that rise together have such ranks, or columns that number all combinations of two things: they compress.
    """
    first, second = (one, other) if one.different >= other.different else (other, one)
    keys = first.ranks * (second.different + 1) + second.ranks
    some = np.sort(np.partition(keys, min(_LOOKED_AT, keys.size) - 1)[:_LOOKED_AT])
    steps = np.diff(some % (second.different + 1)).astype("<i4")
    return len(zlib.compress(steps.tobytes(), 9)) >= _FEWEST_BYTES + steps.size / _ROWS_A_BYTE


def _numbers(column: pa.Array) -> Float[np.ndarray, "n"] | None:
    """Numbers and times as floats, in their order, with NaN for missing ones; None for other columns."""
    column = stored_integers(column)
    if not is_number(column.type):
        return None
    return np.asarray(as_array(column.cast(pa.float64(), safe=False)))
