"""Reading of released files in batches, as they were when they were verified."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import TableError, VerificationError
from labeldp.release.folder._certificate import Certificate, File
from labeldp.release.folder._columns import (
    CLUSTERS,
    CODES,
    answer_from,
    column_name,
    column_types,
    from_columns,
    stored_form,
)
from labeldp.release.folder._limits import opened, plain, texts_in
from labeldp.release.tables import prefetch

_ROWS_PER_BATCH = 1 << 16
_ENTRIES_PER_BATCH = 1 << 24
#: Bytes of a column to read from disk at a time, whatever the size of its pieces in the file.
BUFFER = 1 << 18
#: Bytes of a file that is held in memory while it is read.
_IN_MEMORY = 1 << 25
#: Digests of large files by their identity.
_DIGESTS: dict[tuple[int, ...], str] = {}
_MOST_DIGESTS = 1 << 16
#: Nanoseconds after which a change gives a file another time, on any file system.
_SETTLED = 2_500_000_000


def released_columns(certificate: Certificate) -> dict[str, str]:
    """The columns of released labels and of the row arrays of their channel, by field."""
    return {name: column_name(certificate.label, name) for name in (CODES, *certificate.law["by_row"])}


def added_columns(certificate: Certificate) -> list[str]:
    """The columns that a release adds to the table: released labels or an answer, and row arrays."""
    label, space = certificate.label, certificate.space
    if certificate.of_answer:
        return [*stored_form(certificate.law, space).names(label), column_name(label, CLUSTERS)]
    return list(column_types(label, space, certificate.channel))


@contextmanager
def unchanged_file(folder: Path, file: File) -> Iterator[pa.NativeFile]:
    """A released file that stays open, whatever takes the place of its name meanwhile.

    Whatever is read of a release is read through this, so that it is what was verified: the very bytes that were
    hashed, of a file that is not large, and else a file whose bytes are hashed anew when it is closed. It is a file of
    Arrow's own: its threads would wait for Python's lock to read one of Python's, which ends the process if the
    interpreter ends.

    Raises:
        VerificationError: Its bytes are others than the certificate says, when it is opened or when it is closed.
    """
    with opened(folder / file.name) as held:
        if os.fstat(held.fileno()).st_size <= _IN_MEMORY:
            content = held.read(_IN_MEMORY + 1)
            _check(file, hashlib.sha256(content).hexdigest())
            yield pa.BufferReader(content)
            return
        _check(file, _digest_of(held, known=True))
        with pa.OSFile(f"/dev/fd/{held.fileno()}") as native:
            yield native
        _check(file, _digest_of(held, known=False))


def _check(file: File, digest: str) -> None:
    """Refuse a file with another digest than the certificate says."""
    if digest != file.sha256:
        raise VerificationError(f"expected {file.name} as it was released, found different bytes")


def unchanged_files(folder: Path, certificate: Certificate) -> Iterator[pa.NativeFile]:
    """Each file of a release, while it is open."""
    for file in certificate.files:
        with unchanged_file(folder, file) as held:
            yield held


def _digest_of(file: BufferedReader, *, known: bool) -> str:
    """SHA-256 of an open file; one that is known already counts as long as the file seems to be what it was.

    Its identity is taken before its bytes, so that a change while they are read shows. A file that was changed a moment
    ago might be changed again at the same time by its clock, and memory that maps a file changes no time at all.
    """
    state = os.fstat(file.fileno())
    identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    if known and identity in _DIGESTS:
        return _DIGESTS[identity]
    settled = time.time_ns() - state.st_ctime_ns > _SETTLED
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    if settled:
        if len(_DIGESTS) >= _MOST_DIGESTS:
            _DIGESTS.clear()
        _DIGESTS[identity] = digest
    return digest


def read_batches(folder: Path, file: File, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns of a released file in batches; at least one, which may be empty.

    Raises:
        VerificationError: Texts of a batch are too long together, or the file is not what it was.
    """
    names = list(columns)
    with unchanged_file(folder, file) as held:
        with pq.ParquetFile(held) as parquet:
            texts, some = texts_in(parquet, names), parquet.metadata.num_rows
        with pq.ParquetFile(held, pre_buffer=False, buffer_size=BUFFER, read_dictionary=texts) as parquet:
            for batch in parquet.iter_batches(batch_size=rows, columns=names):
                yield pa.record_batch([plain(batch[name]) for name in names], names=names)
            if not some:
                yield pa.record_batch([pa.array([], parquet.schema_arrow.field(name).type) for name in names], names)


def stored_columns(folder: Path, certificate: Certificate, names: Sequence[str]) -> pa.Table:
    """Columns of all files of a release.

    Raises:
        TableError: A file cannot be read.
        VerificationError: A file is not what the certificate says.
    """
    readable = True
    try:
        parts = [
            pq.read_table(held, columns=list(names), partitioning=None) for held in unchanged_files(folder, certificate)
        ]
    except (pa.ArrowException, OSError):
        readable = False
    if not readable:
        raise TableError(
            f"expected the files that the certificate in {folder} lists, found others; run labeldp verify on it"
        )
    return pa.concat_tables(parts)


def answer_in(folder: Path, certificate: Certificate) -> np.ndarray:
    """Read the answer in a folder.

    Raises:
        VerificationError: It is not in the form of its query, or has other lines, steps or clusters than its law.
    """
    law, label, columns = certificate.law, certificate.label, [name for name, _ in certificate.columns]
    names, clusters = stored_form(law, certificate.space).names(label), column_name(label, CLUSTERS)
    counted = [clusters] if "cluster_sizes" in law and clusters in columns else []
    batches = [
        batch for file in certificate.files for batch in read_batches(folder, file, [*names, *counted], _ROWS_PER_BATCH)
    ]
    table = pa.Table.from_batches(batches)
    if counted:
        sizes = np.unique(np.unique(table[clusters].to_numpy(), return_counts=True)[1])
        if sizes.tolist() != [int(size) for size in law["cluster_sizes"]]:
            raise VerificationError("expected clusters of the sizes that were charged, found others")
    return answer_from([table[name].combine_chunks() for name in names], law, certificate.space)


def batch_fields(folder: Path, certificate: Certificate) -> Iterator[tuple[File, dict[str, np.ndarray]]]:
    """Released codes and row arrays, in batches."""
    columns = released_columns(certificate)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // certificate.space.size))
    for file in certificate.files:
        for batch in prefetch(read_batches(folder, file, list(columns.values()), rows)):
            arrays = {name: batch[column] for name, column in columns.items()}
            yield file, from_columns(arrays, certificate.space, certificate.channel)
