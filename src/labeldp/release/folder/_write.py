"""Writing of released files: Parquet from scratch, with nothing but the released columns."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import io
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp._spelling import spelled_as
from labeldp._threads import FEW_ROWS
from labeldp.columns import Columns, plain_column, plain_schema, result_or_none, type_name
from labeldp.errors import InputError
from labeldp.release.folder._certificate import FEATURES_REDRAWN, Certificate, File
from labeldp.release.folder._description import readmes
from labeldp.release.folder._limits import opened
from labeldp.release.folder._staging import CERTIFICATE, README, publish, staged, upload
from labeldp.release.tables import Place, disk_path, no_such_column

#: Bytes of a file to hash at a time.
_BYTES = 1 << 20
#: The texts that stand for a list of public columns: all but the label, or no column.
ALL_OR_NONE = ("all", "none")


class FileWriter:
    """Writer of one Parquet file of a release, in pieces; plain types, no metadata but the schema."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._rows = 0
        dictionaries = dictionary_columns(schema)
        self._writer = pq.ParquetWriter(path.absolute(), schema, use_dictionary=dictionaries, compression="snappy")
        self._thread = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None
        self._hashing, self._hash = ThreadPoolExecutor(1), _FileHash(path)

    def write(self, table: pa.Table) -> None:
        """Append rows after the rows before: many in a thread, so that at most two pieces are in memory."""
        self._wait()
        if table.num_rows < FEW_ROWS:
            self._append(table)
        else:
            self._last = self._thread.submit(self._append, table)
        self._rows += table.num_rows

    def close(self) -> File:
        """Finish the file, and return its description."""
        self._wait()
        self._writer.close()
        self._hashing.shutdown(wait=True)
        return File(self._path.name, self._rows, self._hash.of_all())

    def _append(self, table: pa.Table) -> None:
        """Append rows, and hash what was written while the next ones are encoded: a file only grows."""
        self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
        if table.num_rows >= FEW_ROWS:
            self._hashing.submit(self._hash.go_on)

    def _wait(self) -> None:
        """Wait for the rows before, and raise their error if any."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=True)
        self._hashing.shutdown(wait=True)
        self._hash.close()
        self._writer.close()


class _FileHash:
    """SHA-256 of a file that grows, taken of what is in it so far."""

    def __init__(self, path: Path) -> None:
        self._file, self._hash = path.open("rb", buffering=0), hashlib.sha256()

    def go_on(self) -> None:
        """Hash what was appended."""
        while part := self._file.read(_BYTES):
            self._hash.update(part)

    def of_all(self) -> str:
        """The hash of the whole file, once nothing is appended any more."""
        self.go_on()
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@functools.lru_cache(maxsize=8)
def dictionary_columns(schema: pa.Schema) -> list[str]:
    """The columns to write as dictionaries, by their paths in Parquet, which are longer for lists: no floats.

    Neither texts in lists, which Arrow cannot read as dictionaries of several row groups, as verification does.
    """
    footer = io.BytesIO()
    pq.write_metadata(schema, footer)
    leaves = pq.read_metadata(footer).schema
    return [
        leaf.path
        for leaf in leaves
        if leaf.physical_type not in ("FLOAT", "DOUBLE")
        and not (leaf.physical_type == "BYTE_ARRAY" and leaf.max_repetition_level)
    ]


def declared_public(table: object, keep: Iterable[str] | str | None) -> pa.Table:
    """The columns of a table that were declared public; none without a table.

    Raises:
        InputError: None were declared, one does not exist, or there is no table.
    """
    if keep is not None and (keep not in ALL_OR_NONE if isinstance(keep, str) else not isinstance(keep, Iterable)):
        raise InputError(f"expected keep as a list of columns or 'all', found {keep!r}; write keep=[{keep!r}]")
    if table is None:
        if keep is not None:
            raise InputError("expected the table of the columns to keep, found none; pass it, or leave keep out")
        return pa.table({})
    columns = Columns(_without_index(table))
    names = columns.names
    if keep is None:
        raise InputError(
            f"expected keep=[...] or keep='all' to declare public columns, found neither; columns: "
            f"{', '.join(names[:20])} (the true label must not be among them)"
        )
    typed = list(map(str, keep)) if not isinstance(keep, str) else names if keep == "all" else []
    chosen = {name: spelled_as(name, names) for name in typed}
    if missing := [name for name, own in chosen.items() if own is None]:
        raise InputError(no_such_column(missing[0], names))
    public = columns.table([own for own in chosen.values() if own is not None])
    schema = plain_schema(public.schema)
    for field in schema:
        if result_or_none(functools.partial(dictionary_columns, pa.schema([field]))) is None:
            raise InputError(
                f"expected columns that Parquet can hold, found {type_name(field.type)} in {field.name!r}; convert it, "
                "such as to text, or leave it out"
            )
    return pa.table(list(map(plain_column, public.columns)), schema=schema) if chosen else public


def public_beside(
    certificate: Certificate, table: object, keep: Iterable[str] | str | None, rows: int, what: str
) -> pa.Table:
    """The columns of a table that were declared public beside released labels or an answer, with so many rows.

    Raises:
        InputError: As of ``declared_public``; the table has other rows; or another release has resampled features of
            these rows.
    """
    if table is not None and FEATURES_REDRAWN in certificate.assumptions:
        raise InputError(
            "expected no table beside these labels, found one; save the labels alone: another release has resampled "
            "features of these rows, and comparing the two would disclose which features are original"
        )
    public = declared_public(table, keep)
    if table is not None and public.num_rows != rows:
        raise InputError(f"expected a table of {rows} rows like the {what}, found {public.num_rows} rows")
    return public


def _without_index(table: object) -> object:
    """Drop the columns of a pandas index from an Arrow table: an index is public only if it is declared as a column."""
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        return table
    try:
        index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:
        index = []
    return table.drop_columns([name for name in index if isinstance(name, str) and name in table.column_names])


def columns_of(file: Path) -> tuple[tuple[str, str], ...]:
    """Names and types of a file's columns, in the form of a certificate."""
    return tuple((field.name, str(field.type)) for field in pq.read_schema(file.absolute()))


def write_release(
    directory: str | Path, columns: Mapping[str, pa.Array | pa.ChunkedArray], certificate: Certificate
) -> Path:
    """Write one file and its certificate to a new folder, atomically."""
    target, table = disk_path(directory), pa.table(columns)
    schema = plain_schema(table.schema)
    plain = pa.table([plain_column(column) for column in table.columns], schema=schema)
    with staged(target, certificate.release) as staging:
        with FileWriter(staging / "data.parquet", schema) as writer:
            writer.write(plain)
            file = writer.close()
        finish(
            staging, target, dataclasses.replace(certificate, columns=columns_of(staging / file.name), files=(file,))
        )
    return target


def finish(staging: Path, target: Place, certificate: Certificate) -> None:
    """Write the certificate and its description beside the files, and move them to their target, or upload them."""
    (staging / README).write_text(readmes(certificate)[0], encoding="utf-8")
    (staging / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
    if isinstance(target, Path):
        publish(staging, target)
    else:
        upload(staging, target)


def file_digest(path: Path) -> str:
    """SHA-256 of a released file."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
