"""Tables on disk: CSV, Parquet, IDX files of labels, or a folder of one kind, read in batches and in order.

What a reader says of a broken file may quote it, labels included, so its messages stay here: a ``TableError`` names
the file and what to do.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from labeldp.errors import TableError
from labeldp.release.tables._arrow_storage import plain_column
from labeldp.release.tables._idx import read_idx

_ENDINGS = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    "idx1-ubyte": "idx",
    "idx1-ubyte.gz": "idx",
}
#: The one column of a file of labels alone.
_IDX_LABEL = "label"
_OURS = ".labeldp-"
_CSV_BLOCK = 1 << 24
_ROWS_LOOKED_AT = 1 << 16

#: What a column of a CSV may be, besides text, in the order in which it is tried.
_TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"))
#: Texts that stand for a missing value in a column that is not text.
_MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None")
T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """A table that can be read again and again.

    Attributes:
        path: What the user named.
        kind: How its files are written.
        files: Its files, in the order of their paths.
        schema: All columns. CSV has text alone until ``typed`` has read all of it.
        label: The label column.
    """

    path: Path
    kind: Literal["csv", "parquet", "idx"]
    files: tuple[Path, ...]
    schema: pa.Schema
    label: str

    def batches(self, columns: Sequence[str], rows: int, file: Path | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns in batches of at most the given number of rows, in order; of all files, or of one."""
        wanted = list(dict.fromkeys(columns))
        for path in self.files if file is None else (file,):
            parts = _partition(self.path, path)
            stored = [name for name in wanted if name not in parts] or [self.label]  # one at least, to count rows by
            for batch in even(_quiet(path, self._read(path, stored, rows)), rows):
                constants = {name: pa.repeat(value, batch.num_rows) for name, value in parts.items()}
                found = dict(zip(batch.schema.names, batch.columns, strict=True)) | constants
                if not set(wanted) <= set(found):
                    raise TableError(
                        f"expected the columns of {path.name} to stay as they are, found one gone; try again"
                    )
                yield pa.record_batch([found[name] for name in wanted], names=wanted)

    @property
    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """What changes when a file is written: its size, its time and its place on the disk."""
        found = [file.stat() for file in self.files if file.exists()]
        return tuple((state.st_size, state.st_mtime_ns, state.st_ino) for state in found)

    def _read(self, path: Path, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            with pq.ParquetFile(path, pre_buffer=False) as file:
                for batch in file.iter_batches(batch_size=rows, columns=columns):
                    yield pa.record_batch([plain_column(column) for column in batch.columns], names=batch.schema.names)
            return
        if self.kind == "idx":
            labels = read_idx(path, 1)
            for first in range(0, len(labels), rows):
                yield pa.record_batch([pa.array(labels[first : first + rows], pa.int64())], names=[_IDX_LABEL])
            return
        for batch in _open_csv(path, self.schema.names, columns):
            found = [_read_as(batch[name], self.schema.field(name).type) for name in columns]
            yield pa.record_batch(found, names=columns)


def open_table(path: Path, label: str) -> Table:
    """Look at a table's files and columns, not at its values.

    Raises:
        TableError: There is no such table, it has no label column, or its files differ in columns.
    """
    files = _files(path)
    kinds = {_kind(file) for file in files}
    if len(kinds) != 1:
        raise TableError(f"expected files of one kind in {path}, found {' and '.join(sorted(map(str, kinds)))}")
    kind = kinds.pop()
    schemas = [_schema(path, file, kind) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        if _but(schema, label) != _but(schemas[0], label):
            raise TableError(f"expected the same columns in every file of {path}, found others in {file.name}")
    names = schemas[0].names
    if len(set(names)) != len(names):
        raise TableError("expected different column names, found one twice; rename it")
    if label not in names:
        raise TableError(
            f"expected a label column {label!r}, found {len(names)} others; does the first line name them?"
        )
    if any(label in _partition(path, file) for file in files):
        raise TableError(f"expected {label!r} inside the files, found it in their paths, which give labels away")
    return Table(path, kind, tuple(files), schemas[0], label)


def typed(table: Table, columns: Sequence[str]) -> Table:
    """The table with the types of some columns of a CSV: for each, the first that all its values can be read as.

    Every value is looked at, so the types do not depend on where a block of the file ends, which the length of
    labels decides.
    """
    if table.kind != "csv":
        return table
    left = {name: list(_TYPES) for name in dict.fromkeys(columns) if name != table.label}
    for batch in table.batches(list(left), _ROWS_LOOKED_AT) if left else ():
        for name, kinds in left.items():
            left[name] = [kind for kind in kinds if _can_be_read_as(batch[name], kind)]
    fields = [pa.field(n, left[n][0]) if left.get(n) else table.schema.field(n) for n in table.schema.names]
    return dataclasses.replace(table, schema=pa.schema(fields))


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The items of an iterator, the next one made in a thread while this one is used."""
    done = object()
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, done)
        while (item := coming.result()) is not done:
            coming = thread.submit(next, items, done)
            yield item  # type: ignore[misc]


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path)))
        if not found:
            raise TableError(f"expected CSV or Parquet files in the folder {path}, found none")
        return found
    if not path.is_file():
        raise TableError(f"expected a table, found no file or folder {path}")
    return [path]


def _is_hidden(file: Path) -> bool:
    """Whether a file in a folder is none of its tables: hidden, or kept here by this package."""
    return any(part.startswith((".", "_")) for part in file.parts) or _OURS in file.name


def _but(schema: pa.Schema, label: str) -> list[tuple[str, pa.DataType]]:
    """The columns of a schema. Of the label only where it stands: missing labels may change how a file stores it."""
    return [(field.name, pa.null() if field.name == label else field.type) for field in schema]


def _kind(file: Path) -> Literal["csv", "parquet", "idx"]:
    for ending, kind in _ENDINGS.items():
        if file.name.lower().endswith(ending):
            return kind  # type: ignore[return-value]
    raise TableError(f"expected a name that ends in {', '.join(_ENDINGS)}, found {file.name}")


def _schema(root: Path, file: Path, kind: str) -> pa.Schema:
    (stored,) = _quiet(file, _stored_schema(file, kind))
    for name in _partition(root, file):
        stored = stored.append(pa.field(name, pa.string()))
    return stored


def _stored_schema(file: Path, kind: str) -> Iterator[pa.Schema]:
    if kind == "parquet":
        with pq.ParquetFile(file) as opened:
            yield opened.schema_arrow.remove_metadata()
    elif kind == "idx":
        yield pa.schema([pa.field(_IDX_LABEL, pa.int64())])
    else:
        with _open_csv(file) as opened:
            yield pa.schema([pa.field(name, pa.string()) for name in opened.schema.names])


def _open_csv(path: Path, names: Sequence[str] = (), columns: list[str] | None = None) -> pc_csv.CSVStreamingReader:
    """A CSV whose columns are all read as text."""
    return pc_csv.open_csv(
        pa.input_stream(path, compression="detect"),
        read_options=pc_csv.ReadOptions(block_size=_CSV_BLOCK),
        # in a table of one column an empty line is a row whose value is missing
        parse_options=pc_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) != 1),
        convert_options=pc_csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, include_columns=columns or []
        ),
    )


def _read_as(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; of another type than text, what is empty or says so is missing."""
    if pa.types.is_string(kind):
        return texts
    missing = pc.is_in(texts, value_set=pa.array(_MISSING))
    return pc.if_else(missing, pa.scalar(None, pa.string()), texts).cast(kind)


def _can_be_read_as(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        _read_as(texts, kind)
    except pa.ArrowInvalid:
        return False
    return True


def even(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of equal length, wherever the reader cut them."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting, count = [*waiting, batch], count + batch.num_rows
        while count >= rows:
            concatenate = waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
            yield concatenate.slice(0, rows)
            waiting, count = ([concatenate.slice(rows)] if count > rows else []), count - rows
    if count:
        yield pa.concat_batches(waiting)


def _partition(root: Path, file: Path) -> dict[str, str]:
    """The columns that a folder's layout holds: ``region=north/part.parquet``."""
    parents = file.relative_to(root).parts[:-1] if file != root else ()
    pairs = (part.partition("=") for part in parents if "=" in part)
    return {name: urllib.parse.unquote(value) for name, _, value in pairs}


def _quiet(path: Path, items: Iterator[T]) -> Iterator[T]:
    """The items, where a reader's complaint is replaced by a message that quotes nothing of the file.

    The message is raised outside the handler, so that the complaint does not hang on as its context either.
    """
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except (pa.ArrowException, OSError, UnicodeError) as problem:
            why = getattr(problem, "strerror", None) or "it is cut off, damaged, or a value does not fit its column"
        else:
            yield item
            continue
        raise TableError(f"expected a readable table in {path.name}, found that {why}; repair the file")
