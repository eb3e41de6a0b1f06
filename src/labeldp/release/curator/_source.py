"""Sources of true labels: an array in memory, or a table on disk that is read in batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._arrays import read_only
from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp.columns import arrow
from labeldp.errors import InputError
from labeldp.mechanisms.queries import CountQuery, Query
from labeldp.mechanisms.randomizers import Randomizer, grouped, per_unit, unit_sizes
from labeldp.mechanisms.resampling import DoubleResponse
from labeldp.privacy import ClassProbabilities, LabelSpace
from labeldp.privacy.channels import (
    Channel,
    ClusterChannel,
    CoarseningChannel,
    GroupedChannel,
    GroupedNumberChannel,
    candidate_sizes,
    row_arrays,
)
from labeldp.release.engines import Engine, InProcess, Tick
from labeldp.release.folder import UNITS_PUBLIC, number_column, renumbered
from labeldp.release.released import RowIdentity, identity_of
from labeldp.release.tables import (
    PassDigest,
    Table,
    TablePart,
    UnitKey,
    Units,
    changed,
    label_codes,
    prefetch,
    prior_of,
    unit_keys,
)

Places = slice | Int[np.ndarray, "n"]

#: The name that declares each row to be a privacy unit of its own.
ROW = "row"
_ALL = np.ones(())
_IDENTITY = "the identities of rows were declared: public, and of one row each"
_BESIDE = "columns kept beside what is released, the row order and the row set are public"
TYPE_PUBLIC = "the type in which the table stores its label column is public"
KEPT_PUBLIC = "the kept columns, the row order, the row set and the split into files are public"
_FROM_ELSEWHERE = "is public and was not computed from these labels, but through answers and releases that cost extra"
_ROW_SET = "the row order and the row set are public, and do not depend on labels or features"


@dataclass(frozen=True)
class Batch:
    """Consecutive rows of a source.

    Attributes:
        first: The place of the first row among the rows that are read.
        codes: The codes of the true labels.
        identity: The identity of the rows, if labels in memory have one.
        columns: The other columns that were asked for, of a table.
        keys: The key of each row's unit, of a table with units.
    """

    first: int
    codes: Int[np.ndarray, "n"] = field(repr=False)
    identity: RowIdentity | None = field(default=None, repr=False, kw_only=True)
    columns: pa.RecordBatch | None = field(default=None, repr=False)
    keys: Int[np.ndarray, "n"] | None = field(default=None, repr=False, kw_only=True)


@dataclass(frozen=True)
class BatchChannels(ABC):
    """The channel of each batch of rows.

    Attributes:
        whole: A channel with the odds of all of them, for the charge.
        drawn: True if the labels come from these channels already, and are released as they are.
    """

    whole: Channel
    drawn: bool = field(default=False, kw_only=True)

    #: The columns of a table that it reads.
    columns: tuple[str, ...] = field(default=(), kw_only=True)

    @abstractmethod
    def of(self, batch: Batch) -> tuple[Channel, np.ndarray]:
        """The channel of a batch, and the prior mass of its candidates."""

    def of_rows(self, first: int, count: int) -> BatchChannels:
        """The channels of some rows, which a worker gets with its part of a table."""
        del first, count
        return self

    def stored(self, folder: Path) -> BatchChannels:
        """The same channels, with what is large in files of a folder."""
        del folder
        return self


@dataclass(frozen=True)
class RowChannels(BatchChannels):
    """The channel of all rows, with the parameters of each.

    Attributes:
        mass: The prior mass of the candidates, of all rows or of each.
        first: The place of the first row.
    """

    mass: np.ndarray
    first: int = 0

    def of(self, batch: Batch) -> tuple[Channel, np.ndarray]:
        """The channel of a batch: that of its rows."""
        low = batch.first - self.first
        part = slice(low, low + len(batch.codes))
        return self.whole.take(part), self.mass[part] if self.mass.ndim else self.mass

    def of_rows(self, first: int, count: int) -> RowChannels:
        """The channels of some rows."""
        part = slice(first - self.first, first - self.first + count)
        mass = self.mass[part] if self.mass.ndim else self.mass
        return replace(self, whole=self.whole.take(part), mass=mass, first=first)


@dataclass(frozen=True)
class UnitChannels(BatchChannels):
    """The channels of batches, whose rows differ in the size of their unit.

    Attributes:
        units: The rows of each unit, or the folder that they are stored in.
    """

    units: Units | Path

    def of(self, batch: Batch) -> tuple[Channel, np.ndarray]:
        """The channel of a batch: each row has the group of its unit."""
        assert batch.keys is not None  # noqa: S101 (a table with units gives them)
        units = Units.stored(self.units) if isinstance(self.units, Path) else self.units
        assert isinstance(self.whole, GroupedChannel | GroupedNumberChannel)  # noqa: S101 (per_unit made it)
        return grouped(self.whole, units.rows_per_unit(batch.keys)), _ALL

    def stored(self, folder: Path) -> UnitChannels:
        """The same channels, with the units in files that workers map."""
        assert isinstance(self.units, Units)  # noqa: S101 (they are stored once)
        self.units.store(folder)
        return replace(self, units=folder)


@dataclass(frozen=True)
class PriorChannels(BatchChannels):
    """The channels of batches whose rows have a prior in columns of the table."""

    randomizer: Randomizer

    def of(self, batch: Batch) -> tuple[Channel, np.ndarray]:
        """The channel of a batch: of the candidates of its priors."""
        template: Any = self.randomizer
        prior = ClassProbabilities(self._prior(batch, template.space.size), template.space.points)
        randomizer = replace(template, prior=prior)
        return randomizer.channel(), randomizer.mass

    def _prior(self, batch: Batch, classes: int) -> np.ndarray:
        """The prior of a batch, from its columns; uniform without any."""
        if not self.columns:
            return np.full((len(batch.codes), classes), 1 / classes)
        assert batch.columns is not None  # noqa: S101 (the prior's columns were asked for)
        return prior_of(batch.columns, list(self.columns), batch.first)


def size_of(places: Places) -> int:
    """Number of rows in a selection."""
    return places.stop - places.start if isinstance(places, slice) else len(places)


class Source(ABC):
    """The holder of true labels, which leave it only through a curator.

    Attributes:
        space: The declared label space.
        rows: Number of rows.
        unit: The name of the privacy unit, ``"row"`` if each row is one.
        identity: The identity of the rows, if labels in memory have one.
    """

    space: LabelSpace
    rows: int
    unit: str
    identity: RowIdentity | None = None

    @abstractmethod
    def batches(self, places: Places, columns: Sequence[str] = ()) -> Iterator[Batch]:
        """Some rows in batches."""

    def split(self) -> Sequence[tuple[int, Source]]:
        """The parts that are read alone, each with the place of its first row."""
        return [(0, self)]

    @abstractmethod
    def answer(self, query: Query, places: Places, labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer to a query about some rows."""

    @abstractmethod
    def labels_of_a_unit(self, places: Places) -> int:
        """Largest number of labels of one unit among some rows."""

    @abstractmethod
    def of_units(self, randomizer: Randomizer, places: Places) -> BatchChannels:
        """The channels of a randomizer whose epsilon covers all labels of a unit among some rows."""

    @abstractmethod
    def features(self, response: DoubleResponse, given: object, places: Places) -> Callable[[Batch], pa.Table]:
        """The original features of a batch, in the form of a generator."""

    @abstractmethod
    def declared(self, *, features: bool) -> tuple[str, ...]:
        """The assumptions about rows and columns; with ``features``, features are released by a mechanism."""

    def channels(self, randomizer: Randomizer, places: Places) -> BatchChannels:
        """The channels of a randomizer for some rows.

        Raises:
            InputError: The randomizer is for another number of rows.
        """
        if self.unit != "row":
            return self.of_units(randomizer, places)
        rows = size_of(places)
        randomizer = randomizer.for_rows(rows)
        channel = randomizer.channel()
        for values in row_arrays(channel).values():
            if len(values) != rows:
                raise InputError(f"expected a prior with one row for each of the {rows} rows, found {len(values)} rows")
        return RowChannels(channel, randomizer.mass)


class ArraySource(Source):
    """True labels in memory.

    Args:
        space: The declared label space.
        codes: The codes of the labels.
        units: The number of each row's unit.
        identified: True if the identities of rows were declared.
        identity: The index of the labels, or their identities.
    """

    def __init__(
        self,
        space: LabelSpace,
        codes: Int[np.ndarray, "n"],
        units: Int[np.ndarray, "n"] | None,
        *,
        identified: bool,
        identity: RowIdentity | None = None,
    ) -> None:
        self.space, self.rows, self.unit = space, codes.size, "row" if units is None else "unit"
        self.units, self._identified = units, identified
        self._codes = read_only(codes)  # queries receive views of it
        self.identity = identity

    def batches(self, places: Places, columns: Sequence[str] = ()) -> Iterator[Batch]:
        """All of the rows at once."""
        del columns
        yield Batch(0, self._codes[places], identity=self._identity_of(places))

    def answer(self, query: Query, places: Places, labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer to a query about some rows."""
        return query.answer(self._codes[places], labels_of_a_unit, words)

    def labels_of_a_unit(self, places: Places) -> int:
        """Largest number of labels of one unit among some rows."""
        if self.units is None:
            return 1
        return int(np.unique(self.units[places], return_counts=True)[1].max(initial=1))

    def of_units(self, randomizer: Randomizer, places: Places) -> BatchChannels:
        """The channel of all rows, which differ in the size of their unit."""
        assert self.units is not None  # noqa: S101 (rows are no units)
        _, place, counts = np.unique(self.units[places], return_inverse=True, return_counts=True)
        channel = grouped(per_unit(randomizer, unit_sizes(counts)), counts[place])
        return RowChannels(channel, randomizer.mass)

    def features(self, response: DoubleResponse, given: object, places: Places) -> Callable[[Batch], pa.Table]:
        """The features that were given for all of the rows."""
        if identity := self._identity_of(places):
            identity.check(identity_of(given), "features")
        original = response.original_features(given, size_of(places))
        return lambda _: original

    def _identity_of(self, places: Places) -> RowIdentity | None:
        return None if self.identity is None else self.identity.take(places)

    def declared(self, *, features: bool) -> tuple[str, ...]:
        """The assumptions about rows, units and identities."""
        units = (UNITS_PUBLIC,) if self.units is not None else ()
        identity = (_IDENTITY,) if self._identified else ()
        return (_ROW_SET if features else _BESIDE, *self.space.declared, *units, *identity)


@dataclass
class TableSource(Source):
    """True labels in a table on disk, which are read anew by every request.

    Attributes:
        table: The table.
        space: The declared label space.
        rows: Number of rows, once all of them were checked.
        unit: The column of the privacy unit, or ``"row"``.
        units: The rows of each unit, of a whole table.
        rows_per_batch: The largest number of rows that are in memory.
        parts: The parts of the table, with what the first pass found.
        engine: The engine that works on parts.
        misfits: Number of rows whose features were moved into the form of a generator; private.
        unit_key: The key of made-up numbers, which are a column of their own and stand for the units throughout.
    """

    table: Table
    space: LabelSpace
    rows: int
    unit: str
    units: Units | None
    rows_per_batch: int
    parts: tuple[TablePart, ...]
    engine: Engine = field(default_factory=InProcess)
    misfits: int = 0
    unit_key: UnitKey | None = None

    def batches(self, places: Places, columns: Sequence[str] = ()) -> Iterator[Batch]:
        """All rows of the table in batches, none of which has rows of two parts."""
        self._check_all(places)
        for part in self.parts:
            yield from self._of_part(part, columns)

    def split(self) -> Sequence[tuple[int, TableSource]]:
        """A source of each part, which can be passed to a worker."""
        return [(part.first, self._alone(part)) for part in self.parts]

    def answer(self, query: Query, places: Places, labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer to a query about all rows; parts are counted where they are, and noise is added here, once."""
        if not isinstance(query, CountQuery):
            codes = np.concatenate([batch.codes for batch in self.batches(places)])
            return query.answer(codes, labels_of_a_unit, words)
        self._check_all(places)
        tasks = [_Count(self._alone(part), _of_rows(query, part)) for part in self.parts if part.rows]
        counts = sum(self.engine.run(_counts, tasks, lambda _: None))
        return query.values(np.asarray(counts), query.rate(labels_of_a_unit), words)

    def _of_part(self, part: TablePart, columns: Sequence[str]) -> Iterator[Batch]:
        """The batches of a part, and a check that they are what the first pass read."""
        units = () if self.unit == ROW else (self.unit,)
        made_up = number_column(self.unit) if self.unit_key else None
        stored, key = [name for name in columns if name != made_up], self.unit_key.read() if self.unit_key else b""
        names = [self.table.label, *units, *stored]
        digest, first = PassDigest(), part.first
        for batch in prefetch(part.table.batches(names, self.rows_per_batch)):
            codes = label_codes(self.table, batch, self.space, first)
            keys = unit_keys(batch[self.unit], key=key) if units else None
            digest.add(codes, keys)
            values = [arrow(keys) if name == made_up and keys is not None else batch[name] for name in columns]
            yield Batch(first, codes, pa.record_batch(values, names=list(columns)), keys=keys)
            first += batch.num_rows
        self.check_rows(first, part.first + part.count)
        if digest.value() != part.digest:
            raise changed("found other values in the second pass")

    def _alone(self, part: TablePart) -> TableSource:
        """The source of a part alone, which names no files of other parts."""
        return replace(
            self, table=part.table, rows=part.count, units=None, parts=(part,), engine=InProcess(), misfits=0
        )

    def labels_of_a_unit(self, places: Places) -> int:
        """Largest number of labels of one unit."""
        self._check_all(places)
        return 1 if self.units is None else int(self.units.counts.max())

    def of_units(self, randomizer: Randomizer, places: Places) -> BatchChannels:
        """The channels of batches, whose rows differ in the size of their unit."""
        self._check_all(places)
        assert self.units is not None  # noqa: S101 (rows are no units)
        return UnitChannels(per_unit(randomizer, unit_sizes(self.units.counts)), self.units)

    def features(self, response: DoubleResponse, given: object, places: Places) -> Callable[[Batch], pa.Table]:
        """The features in the columns of the table; rows that the form changes are counted."""
        del given, places

        def of(batch: Batch) -> pa.Table:
            assert batch.columns is not None  # noqa: S101 (the generator's columns were asked for)
            features = pa.Table.from_batches([batch.columns])
            original = response.original_features(features, len(batch.codes))
            self.misfits += int(response.misfits(features).sum())
            return original

        return of

    def declared(self, *, features: bool) -> tuple[str, ...]:
        """The assumptions about rows, columns and files."""
        public = (_ROW_SET if features else KEPT_PUBLIC, TYPE_PUBLIC)
        unit = f"the units, one for each value of {self.unit!r}, were declared, and who is one unit with whom is public"
        units = (unit, *([renumbered(self.unit)] if self.unit_key else [])) if self.units is not None else ()
        return (*public, *self.space.declared, *units)

    def check_rows(self, found: int, before: int) -> None:
        """Refuse a table that had another number of rows when it was checked."""
        if found != before:
            raise changed(f"found {found} rows after {before}")

    def _check_all(self, places: Places) -> None:
        if places != slice(0, self.rows):
            raise ValueError("expected a request about all rows of a table, found one about some; read it into memory")


@dataclass(frozen=True)
class _Count:
    """A part whose labels are counted for a query."""

    source: TableSource
    query: CountQuery


def _counts(task: _Count, _: Tick) -> np.ndarray:
    first = task.source.parts[0].first
    batches = task.source.batches(slice(0, task.source.rows))
    return np.asarray(sum(task.query.counts(batch.codes, batch.first - first) for batch in batches))


def _of_rows(query: CountQuery, part: TablePart) -> CountQuery:
    """A query about the rows of a part, whose cells alone it has."""
    if query.cells is None:
        return query
    return replace(query, cells=query.cells[part.first : part.first + part.count], cell_count=query.cell_count)


def assumed_of_rows(channel: Channel) -> tuple[str, ...]:
    """The assumptions about the channel of each row, which a curator cannot check."""
    if candidate_sizes(channel) is not None:
        return (f"the prior {_FROM_ELSEWHERE}",)
    if channel.kind == CoarseningChannel.kind:
        return (f"the prior or partition behind each row's groups {_FROM_ELSEWHERE}",)
    if channel.kind == ClusterChannel.kind:
        return (f"the clusters are public, and the distribution of classes in each {_FROM_ELSEWHERE}",)
    return ()
