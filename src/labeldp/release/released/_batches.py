"""Reading a release folder in batches, in bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.privacy.channels import row_arrays
from labeldp.release.folder import (
    BUFFER,
    CODES,
    Certificate,
    File,
    added_columns,
    certified_labels,
    from_columns,
    local_copy,
    released_columns,
    unchanged_file,
)
from labeldp.release.released._release import Release, joined
from labeldp.release.tables import Place, equal_batches, prefetch

_ROWS = 1 << 16
_MOST_ROWS = 1 << 31
#: Parts of a file, which is hashed as a whole for each of them.
_MOST_PARTS = 16


def release_batches(directory: str | Place, rows: int = _ROWS) -> Iterator[tuple[pa.Table, Release]]:
    """Iterate over a release folder in batches of public columns and released labels, in bounded memory.

    The folder is verified before the first batch, and each file is the one that was verified when it is opened and when
    it was read. Batches come in the order of ``Release.load``, so that a folder whose rows are sorted by something
    gives sorted batches.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``.
        rows: Number of rows of each batch but the last, which may have fewer. About two batches are held at a time.

    Yields:
        The public columns of a batch, and its labels: the same part of the release as ``Release.load(directory)[i:j]``,
        with the same certificate.

    Guarantee:
        Each batch is covered by the guarantee of the whole release, and all of them together by that one guarantee.

    Raises:
        VerificationError: The folder and its certificate do not agree.
        InputError: The release has no rows.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes", "no"], space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> folder = tempfile.mkdtemp() + "/shared"
        >>> _ = release.save(folder, pd.DataFrame({"age": [44, 51, 38]}), keep="all")
        >>> [(table["age"].to_pylist(), len(labels)) for table, labels in release_batches(folder, rows=2)]
        [([44, 51], 2), ([38], 1)]
    """
    rows, held = _checks.whole(rows, "rows", 1, _MOST_ROWS), ExitStack()
    with held:
        folder = held.enter_context(local_copy(directory))
        certificate = certified_labels(folder)
        if certificate.rows == 0:
            raise InputError(
                f"expected a release of at least one row in {directory}, found none; there is nothing to read"
            )
        whole = certificate.parent or labels_hash(folder, certificate)
        return _held(held.pop_all(), _labelled_batches(folder, certificate, rows, whole))


def _held(held: ExitStack, batches: Iterator[tuple[pa.Table, Release]]) -> Iterator[tuple[pa.Table, Release]]:
    """Batches, whose files are kept until the last."""
    with held:
        yield from batches


def _labelled_batches(
    folder: Path, certificate: Certificate, rows: int, whole: str
) -> Iterator[tuple[pa.Table, Release]]:
    columns = [name for name, _ in certificate.columns]
    for batch in prefetch(_stored_batches(folder, certificate, columns, rows)):
        yield _labelled(batch, certificate, whole)


def _labelled(batch: pa.RecordBatch | pa.Table, certificate: Certificate, whole: str) -> tuple[pa.Table, Release]:
    """The public columns of stored rows, and their labels."""
    table = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
    added = added_columns(certificate)
    fields = _fields(table.combine_chunks(), certificate)
    codes, channel = fields.pop(CODES), certificate.channel_of_rows(fields)
    public = [name for name, _ in certificate.columns if name not in added]
    return table.select(public), Release(codes, channel, certificate.space, certificate.of_rows(len(codes), whole))


@dataclass(frozen=True)
class ReleasePart:
    """Consecutive rows of a release, which are read alone, by this process or another one.

    Attributes:
        folder: The folder of the release, on a disk.
        certificate: Its certificate.
        whole: ``Release.hash`` of all rows.
        file: The file that holds the rows.
        groups: Row groups of this file.
        first: Number of rows before these.
        rows: Number of rows.
    """

    folder: Path
    certificate: Certificate
    whole: str
    file: File
    groups: tuple[int, ...]
    first: int
    rows: int

    def batches(self, rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
        """All stored columns, in batches of at most so many rows, of a file that is what was certified."""
        columns = [name for name, _ in self.certificate.columns]
        with (
            unchanged_file(self.folder, self.file) as held,
            pq.ParquetFile(held, pre_buffer=False, buffer_size=BUFFER) as opened,
        ):
            yield from prefetch(opened.iter_batches(rows, row_groups=list(self.groups), columns=columns))

    def labelled(self, stored: pa.RecordBatch | pa.Table) -> tuple[pa.Table, Release]:
        """The public columns of stored rows, and their labels."""
        return _labelled(stored, self.certificate, self.whole)

    def joined(self, labels: Sequence[Release]) -> Release:
        """The labels of some rows of the release, from pieces."""
        return joined(labels, self.certificate.of_rows(sum(map(len, labels)), self.whole))


def parts_of_release(folder: Path, certificate: Certificate, rows: int) -> tuple[ReleasePart, ...]:
    """The parts of a release folder on a disk, in the order of its rows, each of about so many; of a file at most 16.

    Raises:
        VerificationError: A file is not what the certificate says.
    """
    parts, first, whole = list[ReleasePart](), 0, certificate.parent or labels_hash(folder, certificate)
    for file in certificate.files:
        with unchanged_file(folder, file) as held, pq.ParquetFile(held) as opened:
            about = opened.metadata
            sizes = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
        groups, count = list[int](), 0
        for number, size in enumerate(sizes):
            groups, count = [*groups, number], count + size
            if count >= max(rows, sum(sizes) // _MOST_PARTS) or (number + 1 == len(sizes) and count):
                parts.append(ReleasePart(folder, certificate, whole, file, tuple(groups), first, count))
                first, groups, count = first + count, [], 0
    return tuple(parts)


def labels_hash(folder: Path, certificate: Certificate) -> str:
    """``Release.hash`` of all rows, in one pass over the files for each field."""
    columns, sha256 = list(released_columns(certificate).values()), hashlib.sha256()
    for field in (CODES, *certificate.law["by_row"]):
        for batch in prefetch(_stored_batches(folder, certificate, columns, _ROWS)):
            arrays = _fields(batch, certificate)
            codes = arrays.pop(CODES)
            by_field = {CODES: codes, **row_arrays(certificate.channel_of_rows(arrays))}
            sha256.update(np.ascontiguousarray(by_field[field]).tobytes())
    return sha256.hexdigest()


def _fields(batch: pa.RecordBatch | pa.Table, certificate: Certificate) -> dict[str, np.ndarray]:
    """Released codes and the row arrays of their channel, by field."""
    columns = released_columns(certificate)
    arrays = {field: _array(batch[name]) for field, name in columns.items()}
    return from_columns(arrays, certificate.space, certificate.channel)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _stored_batches(folder: Path, certificate: Certificate, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns of all files in order, in batches of equal length."""

    def batches() -> Iterator[pa.RecordBatch]:
        for file in certificate.files:
            with (
                unchanged_file(folder, file) as held,
                pq.ParquetFile(held, pre_buffer=False, buffer_size=BUFFER) as opened,
            ):
                yield from opened.iter_batches(batch_size=rows, columns=columns)

    return equal_batches(batches(), rows)
