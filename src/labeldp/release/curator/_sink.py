"""Sinks of released rows: an object in memory, or the files of a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp._progress import Progress
from labeldp._random_words import WordSource
from labeldp._shapes import Int
from labeldp.columns import plain_column
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, mean_expectation
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import Channel
from labeldp.release.curator._source import TableSource
from labeldp.release.engines import Tick, reported
from labeldp.release.folder import Certificate, File, FileWriter, Run, columns_of, to_columns
from labeldp.release.released import Origin, Release, RowIdentity, RowRelease
from labeldp.release.tables import equal_batches

Utility = Expectation | NumberExpectation | None
#: The name of the only file of a release.
ALONE = "data.parquet"
#: The fewest digits of the number in the name of one of several files.
_DIGITS = 5


@dataclass(frozen=True)
class Piece:
    """Released labels of consecutive rows.

    Attributes:
        codes: The released labels, in the form of the channel.
        channel: Their channel.
        expects: Their expected utility.
        features: Their features, if these were resampled too.
        columns: The public columns of a table.
        identity: The identity of the rows, if it is known.
        origin: The session of the curator, and the rows that were charged.
    """

    codes: np.ndarray
    channel: Channel
    expects: Utility
    features: pa.Table | None = None
    columns: pa.RecordBatch | None = None
    identity: RowIdentity | None = None
    origin: Origin | None = None


class Pieces(ABC):
    """The rows of a release as they are drawn, piece by piece."""

    @abstractmethod
    def __iter__(self) -> Iterator[Piece]:
        """Draw all rows."""

    @abstractmethod
    def split(self, folder: Path) -> Sequence[Pieces]:
        """The pieces of each part of the source, for workers, which share a folder."""


class Sink(ABC):
    """A place for released rows."""

    #: Columns of a table that go there unchanged.
    columns: tuple[str, ...]
    #: The source of words for what is drawn there; None for a fresh stream.
    words: WordSource | None = None

    @abstractmethod
    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Any]]:
        """Draw all rows; return their expected utility, and a function that makes the release from a certificate."""


class MemorySink(Sink):
    """Released rows as a ``Release``, or a ``RowRelease`` with resampled features."""

    columns = ()

    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Release | RowRelease]]:
        """Draw all rows at once."""
        (piece,) = pieces

        def release(certificate: Certificate) -> Release | RowRelease:
            origins = () if piece.origin is None else (piece.origin,)
            labels = Release(piece.codes, piece.channel, certificate.space, certificate, piece.identity, origins)
            return labels if piece.features is None else RowRelease(labels, piece.features)

        return piece.expects, release


@dataclass(frozen=True)
class Written:
    """A release whose rows are in files."""

    certificate: Certificate


class PartRows(ABC):
    """The rows of one file of a release."""

    @abstractmethod
    def tables(self) -> Iterator[tuple[pa.Table, Utility]]:
        """The rows in pieces, each with its expected utility, if labels are drawn."""


@dataclass(frozen=True)
class GivenRows(PartRows):
    """Rows that are ready to be written."""

    pieces: Iterable[pa.Table]

    def tables(self) -> Iterator[tuple[pa.Table, Utility]]:
        """The rows as they are."""
        return ((piece, None) for piece in self.pieces)


@dataclass(frozen=True)
class _DrawnRows(PartRows):
    """Rows that are drawn as they are written.

    Attributes:
        pieces: The rows.
        label: The label column.
        space: The declared label space.
        schema: The columns to write.
        columns: Columns of the table that are written unchanged, unless features were drawn.
    """

    pieces: Pieces
    label: str
    space: LabelSpace
    schema: pa.Schema
    columns: tuple[str, ...]

    def tables(self) -> Iterator[tuple[pa.Table, Utility]]:
        """Draw the rows."""
        for piece in self.pieces:
            released = to_columns(self.label, self.space, piece.channel, piece.codes)
            public = piece.columns if piece.features is None else piece.features
            yield _table(public, self.columns, released, self.schema), piece.expects


@dataclass(frozen=True)
class _ShuffledRows(PartRows):
    """The rows of several parts in another order, all in memory.

    Attributes:
        parts: The parts.
        order: The row of all parts that comes to each place.
        rows: The number of rows of a piece.
    """

    parts: Sequence[PartRows]
    order: Int[np.ndarray, "n"]
    rows: int

    def tables(self) -> Iterator[tuple[pa.Table, Utility]]:
        """Draw all rows, and give them out in their new order."""
        drawn = [each for part in self.parts for each in part.tables()]
        expects = mean_expectation([(table.num_rows, each) for table, each in drawn])
        stored = drawn[0][0].schema
        wide = pa.schema([field.with_type(_wide(field.type)) for field in stored])  # whose texts fit into one array
        whole = pa.concat_tables([table.cast(wide) for table, _ in drawn]).combine_chunks()
        for low in range(0, len(self.order), self.rows):
            yield whole.take(pa.array(self.order[low : low + self.rows])).cast(stored), expects


@dataclass(frozen=True)
class _WriteTask:
    """A file to write.

    Attributes:
        name: Its name.
        rows: Its rows.
        run: The run, which has a private folder for attempts.
        schema: The columns to write.
        even: The number of rows of a row group, if the pieces must not show how the table was read; else None.
    """

    name: str
    rows: PartRows
    run: Run
    schema: pa.Schema
    even: int | None


@dataclass(frozen=True)
class WrittenPart:
    """A file that was written, and the expected utility of its pieces with their number of rows."""

    file: File
    shares: tuple[tuple[int, Utility], ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.file.rows


def write_part(task: _WriteTask, tick: Tick) -> WrittenPart:
    """Write one file, under a name of its own, and put it in its place."""
    shares: list[tuple[int, Utility]] = []

    def pieces() -> Iterator[pa.Table]:
        for table, expects in task.rows.tables():
            shares.append((table.num_rows, expects))
            yield table

    with task.run.attempt(task.name) as path, FileWriter(path, task.schema) as writer:
        for piece in pieces() if task.even is None else _even(pieces(), task.even):
            writer.write(piece)
            tick(piece.num_rows)
        file = replace(writer.close(), name=task.name)
    return WrittenPart(file, tuple(shares))


def _even(pieces: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Pieces of equal length, which do not show where the files of the table end."""
    batches = (batch for piece in pieces for batch in piece.combine_chunks().to_batches())
    for batch in equal_batches(batches, rows):
        yield pa.Table.from_batches([batch])


@dataclass
class FolderSink(Sink):
    """Released rows in Parquet files, one for each part of the table, or a single one.

    Attributes:
        source: The table.
        run: The run, which has the staging folder and the source of words.
        schema: The columns to write.
        single: True if one file holds all rows: the split into files may depend on features that are not public.
        report: Receives the progress.
        order: The row of the table that leaves in each place, all in one file; None for the table's own order.
        files: The files that were written.
    """

    source: TableSource
    run: Run
    schema: pa.Schema
    columns: tuple[str, ...]
    single: bool
    report: Progress
    order: Int[np.ndarray, "n"] | None = None
    files: list[File] = field(default_factory=list)

    @property
    def words(self) -> WordSource:  # type: ignore[override]
        """The source of words for what is drawn."""
        return self.run.words

    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Written]]:
        """Draw and write each part where the engine of the table does."""
        parts = [pieces] if self.single else pieces.split(self.run.folder)
        label = self.source.table.label
        shares = self.write([_DrawnRows(each, label, self.space, self.schema, self.columns) for each in parts])
        return mean_expectation(shares), Written

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.source.space

    def write(self, parts: Sequence[PartRows]) -> list[tuple[int, Utility]]:
        """Write a file for each part, and return the expected utility of its pieces."""
        if self.order is not None:
            parts = [_ShuffledRows(parts, self.order, self.source.rows_per_batch)]
        even = self.source.rows_per_batch if self.single or self.order is not None else None
        digits = max(_DIGITS, len(str(len(parts) - 1)))  # so that names are in the order of rows
        names = [f"part-{number:0{digits}d}.parquet" for number in range(len(parts))] if len(parts) > 1 else [ALONE]
        if len(parts) > 1 and (shown := sorted(set(self.source.table.path_columns) - set(self.columns))):
            raise InputError(
                f"expected the columns in the names of folders among the public ones, found {shown[0]!r} dropped: each "
                "file of the release holds the rows of one folder, which shows it; keep it if it is public, or join "
                "the table into one file first"
            )
        tasks = [_WriteTask(name, rows, self.run, self.schema, even) for name, rows in zip(names, parts, strict=True)]
        shares: list[tuple[int, Utility]] = []
        for written in reported(self.source.engine, write_part, tasks, self.report, "release", self.source.rows):
            self.files.append(written.file)
            shares.extend(written.shares)
        self.source.check_rows(sum(file.rows for file in self.files), self.source.rows)
        return shares

    def write_columns(self, released: dict[str, pa.Array]) -> None:
        """Write released columns of all rows beside the public columns of the table."""

        def tables(source: TableSource, first: int) -> Iterator[pa.Table]:
            for batch in source.batches(slice(0, source.rows), self.columns):
                part = {name: column.slice(first, len(batch.codes)) for name, column in released.items()}
                yield _table(batch.columns, self.columns, part, self.schema)
                first += len(batch.codes)

        self.write([GivenRows(tables(source, first)) for first, source in self.source.split()])

    def write_answer(self, answer: dict[str, pa.Array]) -> None:
        """Write the columns of an answer that has no value per row."""
        rows = GivenRows([pa.table(answer, schema=self.schema)])
        self.files.append(write_part(_WriteTask(ALONE, rows, self.run, self.schema, None), lambda _: None).file)

    def certified(self, certificate: Certificate, identifier: str) -> Certificate:
        """The certificate of the files."""
        columns = columns_of(self.run.staging / self.files[0].name)
        return replace(certificate, release=identifier, columns=columns, files=tuple(self.files))


def _table(
    public: pa.RecordBatch | pa.Table | None, columns: Sequence[str], released: dict[str, pa.Array], schema: pa.Schema
) -> pa.Table:
    """Public columns beside released ones."""
    kept = {} if public is None else {name: plain_column(public[name]) for name in columns}
    return pa.table({**kept, **released}, schema=schema)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The type of values of any length in place of one whose values have 2 GiB together at most."""
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_type)
    return {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}.get(kind, kind)


def clashing(name: str) -> InputError:
    """The error for a public column that has the name of a released one."""
    return InputError(f"expected no column named {name!r}, which the release adds, found one; rename or drop it")
