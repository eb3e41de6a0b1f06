"""Recognition of data: which rows of a request may be rows that were charged for before.

Data counts as the same in doubt, and doubt charges all rows. Rows are told one by one where a ledger has the hashes of
all of them: then the rows of a request that were released before are charged, and the others are new. A row of the
request may still be an earlier one that was edited; so the others are new only if every earlier row is found among the
request's, or if nothing else connects the two data sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import Bool, Int, UInt64
from labeldp.privacy.accounting import RowRanges
from labeldp.release.tables import SKETCH, Fingerprints, keyed

if TYPE_CHECKING:
    from labeldp.release.ledger._entry import Entry

ANY_ROWS = RowRanges.all(1 << 62)
#: The version of the canonical spelling, which a charge records.
SPELLING = 1
#: The beginning of a mark that other people's data may have by chance, such as the hours of all visits.
WEAK = "~"
#: Rows of one data set, and the same rows of another.
RowPairs = tuple[Int[np.ndarray, "k"], Int[np.ndarray, "k"]]
NO_PAIRS: RowPairs = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
#: Share of the comparable hashes of a view that two data sets must have in common to count as the same.
_SHARE = 0.25
#: Denominator of stored shares.
_ALIKE = 1_000_000
#: Share of rows that other people's data may have in common beyond chance, such as rows that hold nothing.
_STRAY = 0.001


@dataclass(frozen=True)
class PublicData:
    """Public facts about a table, by which the same data is recognized.

    Attributes:
        path: The path of the table.
        heads: For each column of several values, the first of them.
        fingerprints: Fingerprints of the rows; None for labels alone, which may be any labels.
        unit: The column of the privacy unit, ``"row"`` without one.
        units: The hash of each row's unit.
        order: The row of the table that leaves in each place, where rows leave in another order.
        whole: The table that these are some rows of; None for a whole table.
        chosen: A mask of these rows in it.
    """

    path: str
    heads: Mapping[str, str]
    fingerprints: Fingerprints | None
    unit: str = "row"
    units: UInt64[np.ndarray, "n"] | None = field(default=None, repr=False)
    order: Int[np.ndarray, "n"] | None = field(default=None, repr=False)
    whole: PublicData | None = None
    chosen: Bool[np.ndarray, "m"] | None = field(default=None, repr=False)

    @property
    def anonymous(self) -> bool:
        """True if nothing identifies the rows, nor a declared unit: these may be any labels."""
        return self.fingerprints is None or (self.fingerprints.anonymous and self.units is None)


@dataclass(frozen=True)
class KeyedView:
    """A view of the rows under a ledger's key.

    Attributes:
        limit: The largest hash of the view before the key.
        alike: The chance that a row of somebody else has one of the hashes.
        hashes: The hashes under the key.
        places: The row of each.
    """

    limit: int
    alike: float
    hashes: UInt64[np.ndarray, "k"]
    places: Int[np.ndarray, "k"]


@dataclass(frozen=True)
class KeyedData:
    """Hashes of a data set under a ledger's key, as that ledger stores them.

    Attributes:
        rows: Hashes of all rows; None if they are too many.
        units: Hashes of the privacy units, sorted; None without a unit.
        row_units: The unit of each row; None without a unit or without ``rows``.
        views: The views that identify rows.
        people: Of a charge of rows, numbers of rows, each with a unit that another charge knows it to be of.
    """

    rows: UInt64[np.ndarray, "n"] | None = None
    units: UInt64[np.ndarray, "m"] | None = None
    row_units: UInt64[np.ndarray, "n"] | None = None
    views: tuple[KeyedView, ...] = ()
    people: tuple[Int[np.ndarray, "k"], UInt64[np.ndarray, "k"]] | None = None

    @classmethod
    def of(cls, data: PublicData, key: int) -> KeyedData:
        """The hashes of a table under a key, at the places where its rows leave."""
        found, order = data.fingerprints, data.order
        if found is None:
            return cls()
        places = None if order is None else np.argsort(order)
        views = tuple(
            KeyedView(
                *(_limit(sketch.hashes), sketch.alike, keyed(sketch.hashes, key)),
                sketch.places if places is None else places[sketch.places],
            )
            for sketch in found.views
        )
        place = slice(None) if order is None else order
        rows = None if found.rows is None else keyed(found.rows[place], key)
        units = None if data.units is None else keyed(data.units[place], key)
        return cls(rows, None if units is None else _in_order(units), None if rows is None else units, views)

    def blobs(self) -> dict[str, memoryview]:
        """The hashes as bytes, by name; those of rows are not copied."""
        named = {"rows": self.rows, "units": self.units, "row_units": self.row_units}
        blobs = {name: hashes.astype("<u8", copy=False).data for name, hashes in named.items() if hashes is not None}
        views = [
            np.concatenate(
                [
                    np.array([view.limit, round(view.alike * _ALIKE), view.hashes.size], "<u8"),
                    view.hashes,
                    view.places.astype("<u8"),
                ]
            )
            for view in self.views
        ]
        return blobs | {"views": np.concatenate([np.zeros(0, "<u8"), *views]).astype("<u8", copy=False).data}

    @classmethod
    def read(cls, blobs: Mapping[str, bytes]) -> KeyedData:
        """The hashes from ``blobs``."""
        arrays = {name: np.frombuffer(blob, "<u8") for name, blob in blobs.items()}
        views, rest = [], arrays.get("views", np.zeros(0, "<u8"))
        most = arrays["rows"].size if "rows" in arrays else 1 << 62
        while rest.size:
            limit, alike, size = map(int, rest[:3])
            hashes, places, rest = np.split(rest[3:], [size, 2 * size])
            if places.size != size or (places >= most).any():
                raise ValueError("views of other rows")
            views.append(KeyedView(limit, alike / _ALIKE, hashes, places.astype(np.int64)))
        if "row_units" in arrays and arrays["row_units"].size != most:
            raise ValueError("units of other rows")
        return cls(arrays.get("rows"), arrays.get("units"), arrays.get("row_units"), tuple(views))

    def with_people(self, others: Sequence[KeyedData]) -> KeyedData:
        """The same with the units of all rows that are rows of other charges, which know them."""
        known = [(each.rows, each.row_units) for each in others if each.rows is not None and each.row_units is not None]
        if self.rows is None or not known:
            return self
        rows, units = _different_pairs(*map(np.concatenate, zip(*known, strict=True)))
        low, high = (np.searchsorted(rows, self.rows, side) for side in ("left", "right"))
        counts = high - low
        among = np.arange(counts.sum()) + np.repeat(high - np.cumsum(counts), counts)
        return replace(self, people=(np.repeat(np.arange(counts.size), counts), units[among]))


@dataclass(frozen=True)
class Match:
    """The rows of a request that may be rows of an earlier charge.

    Attributes:
        rows: These rows.
        certain: True if they were told one by one.
        labels_of_a_unit: The most rows of the earlier charge that one privacy unit of the request may have; None if
            unknown.
        units: The number of the request's privacy units that were in the earlier charge; None if unknown.
        pairs: Some rows of the request, each with the row of the earlier charge whose values are the same.
        same_people: True if most rows of one of the two are found in the other, by values that identify them.
        scattered: A mask of the rows, where there are too many ranges of them for ``rows`` to be exact.
    """

    rows: RowRanges
    certain: bool
    labels_of_a_unit: int | None
    units: int | None = None
    pairs: RowPairs = field(default=NO_PAIRS, repr=False, compare=False)
    same_people: bool = False
    scattered: Bool[np.ndarray, "n"] | None = field(default=None, repr=False, compare=False)

    def mask(self, count: int) -> Bool[np.ndarray, "n"]:
        """A mask of these rows of a table of so many."""
        if self.scattered is not None:
            return self.scattered
        mask = np.zeros(count, dtype=bool)
        for start, stop in self.rows.ranges:
            mask[start:stop] = True
        return mask


class Recognizer:
    """Compares a table with the data of earlier charges, under the key of one ledger."""

    def __init__(self, data: PublicData, key: int, marks: Sequence[str]) -> None:
        self._data, self._key, self._marks = data, key, set(marks)
        found = data.fingerprints
        self._rows = None if found is None or found.rows is None else keyed(found.rows, key)
        self._units = None if data.units is None else keyed(data.units, key)
        self._views = [_different(keyed(each.hashes, key), each.places) for each in (found.views if found else ())]

    def match(self, entry: Entry, known: KeyedData | None) -> Match | None:
        """The rows that may be those of an earlier charge; None if all of them are others.

        Without hashes that should be there they may be any rows.
        """
        match = self._match(entry, known)
        if match is None or known is None:
            return match
        identified = not (self._data.anonymous or entry.of_any_data)
        same_people = identified and any(_are_most(*each) for each in self._compared(known, None, None))
        return replace(match, pairs=self._pairs(known), same_people=same_people)

    def _pairs(self, known: KeyedData) -> RowPairs:
        """Rows that share the hash of a view with a row of an earlier charge."""
        last, pairs = known.views[::-1], dict[int, int]()  # of a hash in several views, the last one has the row
        hashes = _joined(each.hashes for each in last)
        if not hashes.size:
            return NO_PAIRS
        theirs, there = _different(hashes, _joined(each.places for each in last))
        for mine, here in self._views:
            at = np.minimum(np.searchsorted(theirs, mine), theirs.size - 1)
            same = theirs[at] == mine
            pairs |= dict(zip(here[same].tolist(), there[at[same]].tolist(), strict=True))
        ordered = sorted(pairs.items())
        return np.array([row for row, _ in ordered], np.int64), np.array([row for _, row in ordered], np.int64)

    def _match(self, entry: Entry, known: KeyedData | None) -> Match | None:
        if known is None:
            return Match(ANY_ROWS, certain=False, labels_of_a_unit=None)
        if self._data.fingerprints and self._data.fingerprints.respelled and entry.spelling < SPELLING:
            return Match(ANY_ROWS, certain=False, labels_of_a_unit=None)  # it knows the texts in another spelling
        anybody = self._data.anonymous or entry.of_any_data
        if self._rows is None or known.rows is None:
            same = anybody or self._is_marked_like(entry) or self._looks_alike(known, None, None)
            return Match(ANY_ROWS, certain=False, labels_of_a_unit=None) if same else None
        shared, left = _are_among(self._rows, known.rows), ~_are_among(known.rows, self._rows)
        lost = left | _are_among(known.rows, _of_fewer_copies(known.rows, self._rows))
        found = None if self._units is None else _most_of_a_unit(self._units[shared], self._rows[shared], known.rows)
        most = None if found is None else min(entry.rows.stop, found + sum(_of_units(known, left)))
        if anybody:
            again = _equal(self._rows, known.rows)
            return Match(entry.rows if again else ANY_ROWS, certain=again, labels_of_a_unit=most)
        if lost.any() and (self._is_marked_like(entry) or self._looks_alike(known, ~shared, lost)):
            return Match(ANY_ROWS, certain=False, labels_of_a_unit=most)
        units = None
        if self._units is not None and found is not None:  # all rows of a unit that returns
            most = min(entry.rows.stop, found + sum(_of_units(known, left, self._units)))
            shared = _are_among(self._units, self._units[shared])
            for their in (known.units, known.people and known.people[1]):  # whatever the columns are called
                if their is not None:
                    shared |= _are_among(self._units, their)
                    units = _in_order(self._units[shared]).size
        rows, count = RowRanges.of(np.flatnonzero(shared)), int(shared.sum())
        scattered = None if rows.holds(count) else shared
        return Match(rows, certain=True, labels_of_a_unit=most, units=units, scattered=scattered) if count else None

    def _is_marked_like(self, entry: Entry) -> bool:
        """True if the data sets have a mark in common, or two weak ones."""
        common = self._marks.intersection(entry.marks)
        return len(common) > 1 or any(not mark.startswith(WEAK) for mark in common)  # a strong one or two

    def _looks_alike(
        self, known: KeyedData, new: Bool[np.ndarray, "n"] | None, left: Bool[np.ndarray, "m"] | None
    ) -> bool:
        """True if views of the two data sets share hashes, of rows that were not told one by one if these are given."""
        return any(_is_much(*each) for each in self._compared(known, new, left))

    def _compared(
        self, known: KeyedData, new: Bool[np.ndarray, "n"] | None, left: Bool[np.ndarray, "m"] | None
    ) -> Iterator[tuple[int, float, float]]:
        """For each pair of views: the common hashes, the comparable hashes of one side, and the chance of each.

        Views of the table that have no hash in common with any other are left out.
        """
        found = self._data.fingerprints
        others = [(view, view.hashes if left is None else view.hashes[left[view.places]]) for view in known.views]
        every = _joined(theirs for _, theirs in others)
        for sketch in found.views if found else ():
            some = slice(None) if new is None else new[sketch.places]
            hashes, mine = sketch.hashes[some], keyed(sketch.hashes[some], self._key)
            mine = mine[_are_among(mine, every)]
            for view, theirs in others if mine.size else ():
                common = int(_are_among(mine, theirs).sum())
                of_mine = float((hashes <= view.limit).sum())
                of_theirs = theirs.size * min(1.0, (_limit(sketch.hashes) + 1) / (view.limit + 1))
                yield from ((common, each, view.alike) for each in (of_mine, of_theirs))


def of_chosen(
    own: Mapping[Entry, Match | None], whole: Mapping[Entry, Match | None], chosen: Bool[np.ndarray, "n"]
) -> dict[Entry, Match | None]:
    """The matches of some rows of a table, from their own matches and those of the whole table.

    If rows of an earlier charge were told one by one in the whole table, and none is among these, the charge does not
    match these. All other matches stay; a match of the whole table alone is in doubt.
    """
    found = dict(own)
    for entry, match in whole.items():
        if match is not None and match.certain and not (match.mask(chosen.size) & chosen).any():
            found[entry] = None
        elif match is not None and found[entry] is None:
            found[entry] = Match(ANY_ROWS, certain=False, labels_of_a_unit=None)
    return found


def _most_of_a_unit(
    units: UInt64[np.ndarray, "n"], rows: UInt64[np.ndarray, "n"], known: UInt64[np.ndarray, "m"]
) -> int:
    """The most earlier rows that one unit of the request may have, of those that are found in it.

    Rows of two units may have the same hash, if one has the values of the other in other columns: then such earlier
    rows count for both.

    Args:
        units: The unit of each row of the request that is among the earlier ones.
        rows: The hash of each.
        known: The hashes of the earlier rows.
    """
    rows, units = _different_pairs(rows, units)
    known = np.sort(known)  # in order, each search is near the one before
    times = np.searchsorted(known, rows, "right") - np.searchsorted(known, rows, "left")
    _, unit = np.unique(units, return_inverse=True)
    return int(np.bincount(unit, times).max(initial=0))


def _of_units(
    known: KeyedData, left: Bool[np.ndarray, "m"], units: UInt64[np.ndarray, "n"] | None = None
) -> tuple[int, int]:
    """Of the earlier rows that are not in a request, the most of one unit, and those whose unit is unknown.

    In doubt units may have other names in the request, so that all of them count; else those of the request alone.
    """
    if known.people is None:
        return 0, int(left.sum())
    places, theirs = (each[left[known.people[0]]] for each in known.people)
    _, counts = np.unique(theirs if units is None else theirs[_are_among(theirs, units)], return_counts=True)
    return int(counts.max(initial=0)), int(left.sum()) - np.unique(places).size


def _of_fewer_copies(rows: UInt64[np.ndarray, "n"], others: UInt64[np.ndarray, "m"]) -> UInt64[np.ndarray, "k"]:
    """The hashes of which there are more copies among some rows than among others: a copy may have been edited."""
    rows, others = np.sort(rows), np.sort(others)
    copied = rows[1:][rows[1:] == rows[:-1]]
    times, left = (
        np.searchsorted(each, copied, "right") - np.searchsorted(each, copied, "left") for each in (rows, others)
    )
    return np.asarray(copied[times > left])


def _different_pairs(
    rows: UInt64[np.ndarray, "n"], units: UInt64[np.ndarray, "n"]
) -> tuple[UInt64[np.ndarray, "m"], UInt64[np.ndarray, "m"]]:
    """The different pairs of a row and its unit, in the order of rows."""
    order = np.lexsort((units, rows))
    rows, units = rows[order], units[order]
    first = np.concatenate([rows[:1] == rows[:1], (rows[1:] != rows[:-1]) | (units[1:] != units[:-1])])
    return rows[first], units[first]


def _is_much(common: int, comparable: float, alike: float) -> bool:
    """True if more of the comparable hashes are common than other people's rows have by chance."""
    by_chance = comparable * (2 * alike + _STRAY)
    return common > 0 and (
        common >= comparable * min(max(_SHARE, 2 * alike), 0.9) or common > 1 + by_chance + 4 * math.sqrt(by_chance)
    )


def _are_most(common: int, comparable: float, alike: float) -> bool:
    """True if half of the comparable hashes or more are common, and more than other people's rows have by chance."""
    chance = min(2 * alike + _STRAY, 0.9)
    spread = math.sqrt(comparable * chance * (1 - chance))
    return common >= comparable / 2 and common > 1 + comparable * chance + 4 * spread


def _are_among(some: UInt64[np.ndarray, "n"], others: UInt64[np.ndarray, "m"]) -> Bool[np.ndarray, "n"]:
    """Mask of the hashes that are among the others, by a hash table: to sort millions takes several times as long."""
    return np.array(pc.is_in(pa.array(some), value_set=pa.array(others)))


def _joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """Arrays of one type after one another; none of them are no hashes."""
    return np.concatenate(list(arrays) or [np.zeros(0, dtype=np.uint64)])


def _different(hashes: UInt64[np.ndarray, "n"], places: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """The different hashes, ascending, and the place of the first of each."""
    found, first = np.unique(hashes, return_index=True)
    return found, places[first]


def _in_order(hashes: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "m"]:
    """The different hashes, ascending, by sorting: NumPy's ``unique`` fills a hash table, which takes longer."""
    ordered = np.sort(hashes)
    return np.asarray(ordered[np.concatenate([ordered[:1] == ordered[:1], ordered[1:] != ordered[:-1]])])


def _equal(some: np.ndarray, others: np.ndarray) -> bool:
    """True if two data sets have the same rows equally often."""
    return some.size == others.size and np.array_equal(np.sort(some), np.sort(others))


def _limit(hashes: np.ndarray) -> int:
    """The largest hash of a view that was cut off, and the largest of all of one that has all of its hashes."""
    return int(hashes[-1]) if hashes.size == SKETCH else (1 << 64) - 1
