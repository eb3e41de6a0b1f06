"""Public data: the public columns of a release, and tables whose labels were declared public."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp._shapes import Int
from labeldp.errors import InputError, TableError
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import ResponseChannel
from labeldp.release.folder import (
    CLUSTERS,
    Certificate,
    added_columns,
    column_name,
    local_copy,
    read_batches,
    read_certificate,
    stored_columns,
)
from labeldp.release.released._release import Release
from labeldp.release.tables import Place, Table, TableFile, disk_path, label_codes, open_table, prefetch

_ROWS_PER_BATCH = 1 << 18
_NO_ROWS = "expected at least one row in {}, found none"


def public_columns(directory: str | Place, certificate: Certificate | None = None) -> pa.Table:
    """Read the public columns of a release, in the row order of ``Release.load``.

    Args:
        directory: The folder of a release: a path, or an address such as ``s3://bucket/shared``.
        certificate: The certificate of the labels that the columns go with, ``Release.load(directory).certificate``, as
            the folder may hold another release by now. By default that of the folder, which is not verified.

    Raises:
        VerificationError: The folder has no certificate, or a file is not what the certificate says.
        TableError: One of its files cannot be read.

    Example:
        >>> import tempfile
        >>> import pandas as pd
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no", "yes"], space).randomize(RandomizedResponse(space, epsilon=1.0))
        >>> folder = tempfile.mkdtemp() + "/shared"
        >>> _ = release.save(folder, pd.DataFrame({"age": [44, 51]}), keep="all")
        >>> public_columns(folder).column_names
        ['age']
    """
    with local_copy(directory) as folder:
        known = certificate or read_certificate(folder)
        added = added_columns(known)
        return stored_columns(folder, known, [name for name, _ in known.columns if name not in added])


def is_answer(directory: str | Path) -> bool:
    """True if a folder holds the answer to a query instead of released labels.

    Raises:
        VerificationError: The folder has no certificate.
    """
    return read_certificate(disk_path(directory)).of_answer


def clusters_in(folder: Path, certificate: Certificate) -> Int[np.ndarray, "n"]:
    """The clusters in which peers exchanged labels, one number for each row.

    Raises:
        InputError: The folder holds no clusters.
        VerificationError: A file is not what the certificate says.
    """
    name = column_name(certificate.label, CLUSTERS)
    if name not in dict(certificate.columns):
        raise InputError(f"expected the clusters of rows in a column {name!r}, found none; pass them to a learner")
    return np.asarray(stored_columns(folder, certificate, [name])[name].to_numpy(), dtype=np.int64)


def public_rows(
    source: str | Place | TableFile,
    label: str,
    space: LabelSpace,
    columns: Mapping[str, pa.DataType],
    unit: str | None = None,
) -> Iterator[tuple[pa.Table, Release]]:
    """Read columns and labels of a table whose labels are declared public, in batches.

    Args:
        source: A CSV or Parquet file, or a folder of either; a ``TableFile`` says how CSV files are written.
        label: The label column.
        space: The declared label space.
        columns: The columns to read, with the types for text in CSV.
        unit: The column of privacy units, which is read too where the table has it.

    Raises:
        TableError: There is no such table, a column is missing, or a value does not fit its type.
        LabelError: A label is missing or not in the space.
    """
    table, rows = _with_types(source, label, columns), 0
    names = [*columns, *(name for name in table.schema.names if name == unit and name not in (*columns, table.label))]
    for batch in table.batches([table.label, *names], _ROWS_PER_BATCH):
        codes = label_codes(table, batch, space, rows)
        rows += batch.num_rows
        if batch.num_rows:
            channel = ResponseChannel.nearly_certain(space.size)
            yield pa.Table.from_batches([batch]).select(names), Release(codes, channel, space, None)
    if not rows:
        raise TableError(_NO_ROWS.format(table.path))


def public_table(
    source: str | Place | TableFile, label: str, space: LabelSpace, columns: Mapping[str, pa.DataType]
) -> tuple[pa.Table, Release]:
    """All rows of ``public_rows``."""
    tables, labels = zip(*public_rows(source, label, space, columns), strict=True)
    codes = np.concatenate([each.codes for each in labels])
    return pa.concat_tables(tables), Release(codes, labels[0].channel, space, None)


def public_batches(folder: Path, certificate: Certificate) -> Iterator[pa.Table]:
    """The public columns of a release folder on a disk, in batches."""
    added = added_columns(certificate)
    names = [name for name, _ in certificate.columns if name not in added]
    for file in certificate.files:
        for batch in prefetch(read_batches(folder, file, names, _ROWS_PER_BATCH)):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def some_columns(source: str | Place | TableFile, columns: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
    """Read some public columns of a table, and nothing else of it, in batches.

    Args:
        source: A CSV or Parquet file, or a folder of either; a ``TableFile`` says how CSV files are written.
        columns: The columns to read, at least one, with the types for text in CSV.

    Raises:
        TableError: There is no such table, a column is missing, or a value does not fit its type.
    """
    table = _with_types(source, next(iter(columns)), columns)
    table = dataclasses.replace(table, label="") if table.kind == "excel" else table  # whose labels would be texts
    rows = 0
    for batch in table.batches(list(columns), _ROWS_PER_BATCH):
        rows += batch.num_rows
        if batch.num_rows:
            yield pa.Table.from_batches([batch])
    if not rows:
        raise TableError(_NO_ROWS.format(table.path))


def _with_types(source: str | Place | TableFile, label: str, columns: Mapping[str, pa.DataType]) -> Table:
    """A table with a column, and others, whose text in CSV is read as some types."""
    table = open_table(source, label)
    missing = [repr(name) for name in columns if name not in table.schema.names]
    if missing:
        raise TableError(f"expected the columns {', '.join(map(repr, columns))}, found no {', '.join(missing)}")
    if table.kind != "csv":
        return table
    fields = [pa.field(field.name, columns.get(field.name, field.type)) for field in table.schema]
    return dataclasses.replace(table, schema=pa.schema(fields), notated=tuple(columns))
