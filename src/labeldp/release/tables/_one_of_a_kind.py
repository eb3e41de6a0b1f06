"""Rows and people that public columns single out: those that are one of a kind. No label is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from labeldp._shapes import Int, UInt64
from labeldp.release.tables._cell_hashes import cell_hashes, keyed
from labeldp.release.tables._copies import CopyCounter

#: Different rows up to which the number is exact, and values up to which a few columns are looked for.
_MOST_ROWS, _MOST_CELLS = 1 << 22, 1 << 24
_BLOCK = 1 << 16
#: The most columns that are named, and the share of all who are one of a kind that they have to single out.
_MOST_NAMED, _ENOUGH = 4, 0.5


@dataclass(frozen=True)
class OneOfAKind:
    """The number of rows, or of people, that are one of a kind on some columns.

    Attributes:
        alone: The number of rows that no other row equals; of people with a row that nobody else has.
        total: The number of all rows, or people.
        unit: The column of people; ``"row"`` where rows were counted.
        exact: False if the number was estimated from some of many rows.
        few: A few columns that single out many already, found one by one; empty where that was not looked for.
        alone_on_few: The same number on these columns.
    """

    alone: int
    total: int
    unit: str
    exact: bool
    few: tuple[str, ...] = ()
    alone_on_few: int = 0

    def sentence(self, who: str) -> str:
        """The number in words, with a noun for those who were counted."""
        return f"{'' if self.exact else 'about '}{self.alone:,} of {self.total:,} {who} are one of a kind"


def one_of_a_kind(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], unit: str | None, *, few: bool = False
) -> OneOfAKind:
    """Count the rows that are one of a kind on some columns, or the people, where a column tells them apart.

    Args:
        batches: Rows with these columns.
        names: The columns, at least one.
        unit: The column of people, which is in the batches too; None to count rows.
        few: True to look for a few columns that single out many already.
    """
    counter, people, rows = CopyCounter(_MOST_ROWS), list[np.ndarray](), 0
    cells = [list[np.ndarray]() for _ in names] if few else []
    for batch in batches:
        rows += batch.num_rows
        owners = None if unit is None else cell_hashes(batch[unit])[0].view(np.int64)
        cells = cells if rows * len(names) <= _MOST_CELLS else []
        total = np.zeros(batch.num_rows, np.uint64)
        for number, name in enumerate(names):
            hashes = keyed(cell_hashes(batch[name])[0], number + 1)
            total += hashes
            if cells:
                cells[number].append(hashes)
        counter.add(total, owners)
        people += [] if owners is None else [owners]
    alone, exact = counter.rows_alone()
    found = counter.owners_alone() if people else None
    owners = None if found is None else np.concatenate(people)
    chosen, on_few = _few([np.concatenate(each) for each in cells if each], owners, alone if found is None else found)
    more = (exact, tuple(names[number] for number in chosen), on_few)
    if owners is None or found is None:
        return OneOfAKind(alone, rows, "row", *more)
    return OneOfAKind(found, np.unique(owners).size, str(unit), *more)


def _few(
    cells: Sequence[UInt64[np.ndarray, "n"]], owners: Int[np.ndarray, "n"] | None, whole: int
) -> tuple[list[int], int]:
    """The numbers of a few columns that single out many, and how many: in each step the best one, as estimated."""
    chosen: list[int] = []
    base, found = np.zeros(1, np.uint64), 0
    while len(chosen) < min(_MOST_NAMED, len(cells) - 1) and found < _ENOUGH * whole:
        counts = {number: _estimate(base + each) for number, each in enumerate(cells) if number not in chosen}
        best = max(counts, key=lambda number: counts[number])
        chosen, base = [*chosen, best], base + cells[best]
        found = _alone(base, owners)
    return chosen, found


def _estimate(rows: UInt64[np.ndarray, "n"]) -> int:
    """The estimated number of rows that are one of a kind by these hashes; few of them have to be sorted."""
    counter = CopyCounter()
    for low in range(0, rows.size, _BLOCK):
        counter.add(rows[low : low + _BLOCK])
    return counter.rows_alone()[0]


def _alone(rows: UInt64[np.ndarray, "n"], owners: Int[np.ndarray, "n"] | None) -> int:
    """The number of rows, or of people, that are one of a kind by these hashes."""
    counter = CopyCounter(max(1, rows.size))
    counter.add(rows, owners)
    found = None if owners is None else counter.owners_alone()
    return counter.rows_alone()[0] if found is None else found
