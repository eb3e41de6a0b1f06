"""Reading of released files in batches, as they were when they were verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import VerificationError
from labeldp.privacy.channels import (
    channel_of,
)
from labeldp.release.folder._answer_columns import CLUSTERS, answer_from, stored_form
from labeldp.release.folder._certificate import Certificate, File
from labeldp.release.folder._columns import CODES, column_name, column_types, from_columns
from labeldp.release.folder._limits import (
    opened,
    plain,
    texts_in,
)
from labeldp.release.tables import prefetch

_ROWS_PER_BATCH = 1 << 16
_ENTRIES_PER_BATCH = 1 << 24
#: Bytes of a column to read from disk at a time, whatever the size of its pieces in the file.
BUFFER = 1 << 18


def released_columns(certificate: Certificate) -> dict[str, str]:
    """The columns of released labels and of the row arrays of their channel, by field."""
    return {name: column_name(certificate.label, name) for name in (CODES, *certificate.law["by_row"])}


def added_columns(certificate: Certificate) -> list[str]:
    """The columns that a release adds to the table: released labels or an answer, and row arrays."""
    label, space = certificate.label, certificate.space
    if certificate.of_answer:
        return [*stored_form(certificate.law, space).names(label), column_name(label, CLUSTERS)]
    return list(column_types(label, space, channel_of(certificate.law)))


@contextmanager
def unchanged_file(folder: Path, file: File) -> Iterator[BufferedReader]:
    """A released file that stays open, whatever takes the place of its name meanwhile.

    Raises:
        VerificationError: Its bytes are others than the certificate says, when it is opened or when it is closed.
    """

    def check() -> None:
        held.seek(0)
        if hashlib.file_digest(held, "sha256").hexdigest() != file.sha256:
            raise VerificationError(f"expected {file.name} as it was released, found different bytes")

    with opened(folder / file.name) as held:
        check()
        yield held
        check()


def read_batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Columns of a released file in batches; at least one, which may be empty.

    Raises:
        VerificationError: Texts of a batch are too long together.
    """
    with pq.ParquetFile(path) as file:
        texts, some = texts_in(file, columns), file.metadata.num_rows
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
            yield pa.record_batch([plain(batch[name]) for name in columns], names=list(columns))
        if not some:
            yield pa.record_batch([pa.array([], file.schema_arrow.field(name).type) for name in columns], list(columns))


def answer_in(folder: Path, certificate: Certificate) -> np.ndarray:
    """Read the answer in a folder.

    Raises:
        VerificationError: It is not in the form of its query, or has other lines, steps or clusters than its law.
    """
    law, label, columns = certificate.law, certificate.label, [name for name, _ in certificate.columns]
    names, clusters = stored_form(law, certificate.space).names(label), column_name(label, CLUSTERS)
    counted = [clusters] if "cluster_sizes" in law and clusters in columns else []
    batches = [
        batch
        for file in certificate.files
        for batch in read_batches(folder / file.name, [*names, *counted], _ROWS_PER_BATCH)
    ]
    table = pa.Table.from_batches(batches)
    if counted:
        sizes = np.unique(np.unique(table[clusters].to_numpy(), return_counts=True)[1])
        if sizes.tolist() != [int(size) for size in law["cluster_sizes"]]:
            raise VerificationError("expected clusters of the sizes that were charged, found others")
    return answer_from([table[name].combine_chunks() for name in names], law, certificate.space)


def batch_fields(folder: Path, certificate: Certificate) -> Iterator[tuple[File, dict[str, np.ndarray]]]:
    """Released codes and row arrays, in batches."""
    law: Any = certificate.law
    columns = released_columns(certificate)
    rows = max(1, min(_ROWS_PER_BATCH, _ENTRIES_PER_BATCH // certificate.space.size))
    for file in certificate.files:
        for batch in prefetch(read_batches(folder / file.name, list(columns.values()), rows)):
            yield (
                file,
                from_columns({name: batch[column] for name, column in columns.items()}, certificate.space, law),
            )
