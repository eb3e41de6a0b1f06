"""Tables on disk: CSV, Parquet, or a folder of either, read in batches and in order.

What a reader says of a broken file may quote it, labels included, so its messages stay here: a ``TableError`` names
the file and what to do.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from labeldp.errors import TableError

_ENDINGS = {".csv": "csv", ".csv.gz": "csv", ".parquet": "parquet", ".pq": "parquet"}
_CSV_BLOCK = 1 << 24
T = TypeVar("T")


@dataclass(frozen=True)
class Table:
    """A table that can be read again and again.

    Attributes:
        path: What the user named.
        kind: How its files are written.
        files: Its files, in the order of their paths.
        schema: All columns; in CSV the label is text, whatever it looks like, so that no label decides its type.
        label: The label column.
    """

    path: Path
    kind: Literal["csv", "parquet"]
    files: tuple[Path, ...]
    schema: pa.Schema
    label: str

    def batches(self, columns: Sequence[str], rows: int, file: Path | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns in batches of at most the given number of rows, in order; of all files, or of one."""
        wanted = list(dict.fromkeys(columns))
        for path in self.files if file is None else (file,):
            parts = _partition(self.path, path)
            stored = [name for name in wanted if name not in parts]
            for batch in _quiet(path, self._read(path, stored, rows)):
                constants = {name: pa.repeat(value, batch.num_rows) for name, value in parts.items()}
                found = dict(zip(batch.schema.names, batch.columns, strict=True)) | constants
                yield pa.record_batch([found[name] for name in wanted], names=wanted)

    def _read(self, path: Path, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=rows, columns=columns)
            return
        types = {name: self.schema.field(name).type for name in columns}
        for batch in _open_csv(path, types, columns):
            for low in range(0, batch.num_rows, rows):
                yield batch.slice(low, rows)


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
    schemas = [_schema(path, file, kind, label) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        if schema != schemas[0]:
            raise TableError(f"expected the same columns in every file of {path}, found others in {file.name}")
    names = schemas[0].names
    if len(set(names)) != len(names):
        raise TableError("expected different column names, found one twice; rename it")
    if label not in names:
        raise TableError(f"expected a label column {label!r}, found the columns {', '.join(names[:20])}")
    if any(label in _partition(path, file) for file in files):
        raise TableError(f"expected {label!r} inside the files, found it in their paths, which give labels away")
    return Table(path, kind, tuple(files), schemas[0], label)


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
        found = sorted(f for f in path.rglob("*") if f.is_file() and not f.name.startswith((".", "_")))
        if not found:
            raise TableError(f"expected CSV or Parquet files in the folder {path}, found none")
        return found
    if not path.is_file():
        raise TableError(f"expected a table, found no file or folder {path}")
    return [path]


def _kind(file: Path) -> Literal["csv", "parquet"]:
    for ending, kind in _ENDINGS.items():
        if file.name.lower().endswith(ending):
            return kind  # type: ignore[return-value]
    raise TableError(f"expected a name that ends in {', '.join(_ENDINGS)}, found {file.name}")


def _schema(root: Path, file: Path, kind: str, label: str) -> pa.Schema:
    (stored,) = _quiet(file, _stored_schema(file, kind, label))
    for name in _partition(root, file):
        stored = stored.append(pa.field(name, pa.string()))
    return stored


def _stored_schema(file: Path, kind: str, label: str) -> Iterator[pa.Schema]:
    if kind == "parquet":
        with pq.ParquetFile(file) as opened:
            yield opened.schema_arrow.remove_metadata()
    else:
        with _open_csv(file, {label: pa.string()}) as opened:
            yield opened.schema


def _open_csv(path: Path, types: dict[str, pa.DataType], columns: list[str] | None = None) -> pc_csv.CSVStreamingReader:
    return pc_csv.open_csv(
        pa.input_stream(path, compression="detect"),
        read_options=pc_csv.ReadOptions(block_size=_CSV_BLOCK),
        parse_options=pc_csv.ParseOptions(newlines_in_values=True),
        convert_options=pc_csv.ConvertOptions(column_types=types, include_columns=columns or []),
    )


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
