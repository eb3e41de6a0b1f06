"""Sinks of released rows: an object in memory, or the files of a folder."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import Expectation, NumberExpectation, mean_expectation
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import Channel
from labeldp.release._release import Origin, Release
from labeldp.release._row_identity import RowIdentity
from labeldp.release._row_release import RowRelease
from labeldp.release._source import Progress, TableSource
from labeldp.release.folder import Certificate, File, FileWriter, columns_of, to_columns
from labeldp.release.tables import equal_batches, plain_column

Utility = Expectation | NumberExpectation | None


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


#: Draws the rows of a file, or of all files, whose first row has a place among all rows.
Pieces = Callable[[Path | None, int], Iterator[Piece]]


class Sink(ABC):
    """A place for released rows."""

    #: Columns of a table that go there unchanged.
    columns: tuple[str, ...]

    @abstractmethod
    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Any]]:
        """Draw all rows; return their expected utility, and a function that makes the release from a certificate."""


class MemorySink(Sink):
    """Released rows as a ``Release``, or a ``RowRelease`` with resampled features."""

    columns = ()

    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Release | RowRelease]]:
        """Draw all rows at once."""
        (piece,) = pieces(None, 0)

        def release(certificate: Certificate) -> Release | RowRelease:
            origins = () if piece.origin is None else (piece.origin,)
            labels = Release(piece.codes, piece.channel, certificate.space, certificate, piece.identity, origins)
            return labels if piece.features is None else RowRelease(labels, piece.features)

        return piece.expects, release


@dataclass(frozen=True)
class Written:
    """A release whose rows are in files.

    Attributes:
        certificate: The certificate, without its files.
    """

    certificate: Certificate


@dataclass
class FolderSink(Sink):
    """Released rows in Parquet files, one for each file of the table, or a single one.

    Attributes:
        source: The table.
        folder: The staging folder.
        schema: The columns to write.
        single: True if one file holds all rows: the split into files may depend on features that are not public.
        report: Receives the progress.
        files: The files that were written.
    """

    source: TableSource
    folder: Path
    schema: pa.Schema
    columns: tuple[str, ...]
    single: bool
    report: Progress
    files: list[File] = field(default_factory=list)

    def take(self, pieces: Pieces) -> tuple[Utility, Callable[[Certificate], Written]]:
        """Draw batch by batch, and write each."""
        shares: list[tuple[int, Utility]] = []

        def tables(file: Path | None, first: int) -> Iterator[pa.Table]:
            for piece in pieces(file, first):
                shares.append((len(piece.codes), piece.expects))
                released = to_columns(self.source.table.label, self.space, piece.channel, piece.codes)
                yield self._table(piece.columns if piece.features is None else piece.features, released)

        self.write(tables)
        return mean_expectation(shares), Written

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.source.space

    def write(self, tables: Callable[[Path | None, int], Iterable[pa.Table]]) -> None:
        """Write the rows of each file in pieces."""
        done = 0
        parts: Sequence[Path | None] = (None,) if self.single else self.source.table.files
        for number, file in enumerate(parts):
            name = "data.parquet" if len(parts) == 1 else f"part-{number:05d}.parquet"
            pieces = tables(file, done)
            with FileWriter(self.folder, name, self.schema) as writer:
                for piece in self._even(pieces) if self.single else pieces:
                    writer.write(piece)
                    done += piece.num_rows
                    self.report("release", done, self.source.rows)
                self.files.append(writer.close())
        self.source.check_rows(done)

    def _even(self, pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Pieces of equal length, which do not show where the files of the table end."""
        batches = (batch for piece in pieces for batch in piece.combine_chunks().to_batches())
        for batch in equal_batches(batches, self.source.rows_per_batch):
            yield pa.Table.from_batches([batch])

    def write_columns(self, released: dict[str, pa.Array]) -> None:
        """Write released columns of all rows beside the public columns of the table."""

        def tables(file: Path | None, first: int) -> Iterator[pa.Table]:
            rows = self.source.rows_per_batch
            batches = self.source.table.batches(self.columns or [self.source.table.label], rows, file)
            for batch in batches:
                part = {name: column.slice(first, batch.num_rows) for name, column in released.items()}
                yield self._table(batch if self.columns else None, part)
                first += batch.num_rows

        self.write(tables)

    def write_answer(self, answer: dict[str, pa.Array]) -> None:
        """Write the columns of an answer that has no value per row."""
        with FileWriter(self.folder, "data.parquet", self.schema) as writer:
            writer.write(pa.table(answer, schema=self.schema))
            self.files.append(writer.close())

    def certified(self, certificate: Certificate, identifier: str) -> Certificate:
        """The certificate of the files."""
        columns = columns_of(self.folder / self.files[0].name)
        return dataclasses.replace(certificate, release=identifier, columns=columns, files=tuple(self.files))

    def _table(self, public: pa.RecordBatch | pa.Table | None, released: dict[str, pa.Array]) -> pa.Table:
        kept = {} if public is None else {name: plain_column(public[name]) for name in self.columns}
        return pa.table({**kept, **released}, schema=self.schema)


def clashing(name: str) -> InputError:
    """The error for a public column that has the name of a released one."""
    return InputError(f"expected no column named {name!r}, which the release adds, found one; rename or drop it")
