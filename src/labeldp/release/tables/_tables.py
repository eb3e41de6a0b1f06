"""Tables on disk: CSV, Parquet, and what is read whole, or a folder of one kind, read in batches and in order.

A reader's error about a broken file may quote it, labels included, so it is replaced by a ``TableError`` that names the
file and what to do.
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from labeldp._checks import nearest
from labeldp._shapes import Bool
from labeldp._spelling import spelled_as
from labeldp._threads import FEW_ROWS, idle_threads
from labeldp.columns import PLAIN, ColumnType, Notation, plain_column
from labeldp.errors import TableError
from labeldp.release.tables._batches import Memory, Texts, chosen_rows, equal_batches
from labeldp.release.tables._common_schema import (
    as_stored,
    common_schema,
    is_empty,
    path_respelled,
    path_texts,
    path_types,
    path_values,
)
from labeldp.release.tables._formats import Format, csv_cells, is_header, kind_of_files, no_header
from labeldp.release.tables._store import Place, StorePath, place_of
from labeldp.release.tables._whole_files import whole_table

_NOT_UTF8 = "its text is not UTF-8; name its encoding, such as --encoding cp1252 of Windows (TableFile(..., encoding=))"
#: Causes of a reader's error, by a word of its message.
_CAUSES = {
    "utf8": _NOT_UTF8,
    "utf-8": _NOT_UTF8,
    "expected": "a line has more or fewer values than the first; check separators and quotes inside values",
    "magic": "it is no Parquet file, or cut off; save it again",
    "inflate": "it is cut off, or not packed by gzip; pack it again",
}
_DAMAGED = "it is cut off, damaged, or a value does not fit its column; save it again"
_SEPARATORS = (",", ";", "\t", "|")
#: The beginning of a line that tells Excel the separator.
_SEPARATOR_LINE = "sep="
_ENCODINGS = ("utf-8", "latin-1", "cp1252", "utf-16")
#: Bytes of a CSV file in which its first line must end.
_MOST_HEADER = 1 << 20
_OURS = ".labeldp-"
_FIRST_BYTES = 64
#: Bytes of a CSV file that are parsed at a time, and where the first rows alone are wanted.
_CSV_BLOCK, _FIRST_BLOCK = 1 << 24, 1 << 20
#: Columns to list in an error message.
_LISTED = 20
_ROWS_PER_BATCH = 1 << 16
#: Footers of a store that are asked for at a time.
_REQUESTS = 16

T = TypeVar("T")
Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)


@dataclass(frozen=True)
class TableFile:
    """A table on disk, and how its CSV files are written.

    Attributes:
        path: A CSV, Parquet, Feather, JSON lines or Excel file, or a folder of one kind: a path, or an address such as
            ``s3://bucket/table``, or ``https://host/table.csv`` of one file.
        separator: The separator of the columns; None for a comma, semicolon, tab or bar, as the first line shows.
        encoding: The encoding of the text. It is not guessed: a guess would depend on labels.
        notation: The notation of numbers and dates, such as decimal commas. It is not guessed either.
        sheet: The sheet of a workbook of Excel that has several.

    Example:
        >>> TableFile("patients.csv", encoding="latin-1").encoding
        'latin-1'

    Raises:
        TableError: There is no such encoding, or the separator is not one character.
    """

    path: str | Place
    separator: str | None = None
    encoding: str = "utf-8"
    notation: Notation = PLAIN
    sheet: str | None = None

    def __post_init__(self) -> None:
        known = self.separator is None or (len(self.separator) == 1 and "\t" <= self.separator <= "~")
        if not known or self.separator in ("\n", "\r"):
            raise TableError(f"expected one character that separates columns, found {self.separator!r}")
        try:
            "".encode(self.encoding)  # other codecs than those of text are refused too
            codecs.getincrementaldecoder(self.encoding)
        except (LookupError, ValueError):
            raise TableError(
                f"expected an encoding such as {', '.join(_ENCODINGS)}, found {self.encoding!r}"
                f"{nearest(self.encoding, _ENCODINGS)}"
            ) from None


@dataclass(frozen=True)
class Table:
    """A table on disk that can be read repeatedly.

    Attributes:
        path: The path or address that the user passed.
        kind: The file format.
        files: Its files, in the order of their paths.
        schema: All columns. Those of a CSV are text until ``typed`` has read all of it.
        label: The label column.
        file: How CSV files are written; their separator is known.
        respelled: Columns of a CSV that stay text, since numbers, dates or flags would be written otherwise.
        notated: Columns of a CSV whose numbers or dates are in the notation of the file.
        groups: The row groups of its only file, if it is a part of another table.
        row_groups: The number of rows in each row group of each Parquet file, as its footer said when it was opened.
        chosen: For each file a mask of the rows that are read, of a table of some rows; none if all are.
        block: Bytes of a CSV file that are parsed at a time.
        memory: The rows of files that were read and fit.
    """

    path: Place
    kind: Format
    files: tuple[Place, ...]
    schema: pa.Schema
    label: str
    file: TableFile
    respelled: tuple[str, ...] = ()
    notated: tuple[str, ...] = ()
    groups: tuple[int, ...] | None = None
    row_groups: tuple[tuple[int, ...], ...] = ()
    chosen: tuple[Bool[np.ndarray, "n"], ...] = dataclasses.field(default=(), repr=False, compare=False)
    block: int = dataclasses.field(default=_CSV_BLOCK, repr=False, compare=False)
    memory: Memory = dataclasses.field(default_factory=Memory, repr=False, compare=False)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Columns in batches of at most so many rows, in order."""
        for path, chosen in zip_longest(self.files, self.chosen):
            yield from self._of_file(path, chosen, columns, rows, coded=False)

    def first(self, columns: Sequence[str], rows: int) -> pa.RecordBatch | None:
        """The first batch of columns; None of a table without rows."""
        with suppress(TableError):  # of a row that is longer than a block, or of damage, which is found again
            return next(dataclasses.replace(self, block=_FIRST_BLOCK).batches(columns, rows), None)
        return next(self.batches(columns, rows), None)

    def scan(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Columns in batches of any length up to so many rows, with texts as dictionaries where that is cheaper."""
        for path, chosen in zip_longest(self.files, self.chosen):
            yield from self._of_file(path, chosen, columns, rows, coded=True)

    def _of_file(
        self, path: Place, chosen: Bool[np.ndarray, "n"] | None, columns: Sequence[str], rows: int, *, coded: bool
    ) -> Iterator[pa.RecordBatch]:
        """Columns of a file, with those of its path; in equal batches if texts are not to be dictionaries."""
        wanted = list(dict.fromkeys(columns))
        empty = {name for name in wanted if is_empty(self.schema.field(name))}
        stored = [name for name in wanted if name not in self.path_columns and name not in empty]
        stored = stored or [self.label]  # to count rows
        batches = _quiet(path, self._read(path, stored, rows, coded=coded))
        batches = batches if chosen is None else chosen_rows(batches, chosen)
        for batch in batches if coded else equal_batches(batches, rows):
            beside = path_values(self.path, path, self.schema, batch.num_rows)
            values = dict(zip(batch.schema.names, batch.columns, strict=True)) | beside
            values |= {name: pa.nulls(batch.num_rows) for name in empty}
            if not set(wanted) <= set(values):
                raise TableError(
                    f"expected a table that does not change while it is read, found a column of {path.name} gone; "
                    "try again"
                )
            yield pa.record_batch([values[name] for name in wanted], names=wanted)

    @property
    def path_columns(self) -> Collection[str]:
        """The columns in the names of folders, which files do not hold."""
        return path_texts(self.path, self.files[0]).keys()

    @property
    def has_texts_as_labels(self) -> bool:
        """True if labels are read as texts: in CSV and workbooks each cell has a type of its own, and no column has."""
        return self.kind in ("csv", "excel")

    @property
    def renumbered(self) -> Collection[str]:
        """The columns in the names of folders whose numbers are written otherwise there, such as 01 for 1."""
        return path_respelled(self.path, self.files)

    @property
    def stamp(self) -> tuple[tuple[object, ...], ...]:
        """Name, size, modification time and inode, or entity tag in a store, of each file that is there now."""
        return tuple((file.name, *_stamp(file)) for file in (_files(self.path) if self.path.exists() else ()))

    def _read(self, path: Place, columns: list[str], rows: int, *, coded: bool) -> Iterator[pa.RecordBatch]:
        if self.kind == "parquet":
            texts = [name for name in columns if coded and pa.types.is_string(self.schema.field(name).type)]
            with open_parquet(path, pre_buffer=isinstance(path, StorePath), read_dictionary=texts) as file:
                for groups in self._reads(path, file.num_row_groups):
                    missing = _rows_of_groups(file, groups)
                    for batch in file.iter_batches(batch_size=rows, columns=columns, row_groups=groups):
                        _check_texts(batch)
                        missing -= batch.num_rows
                        values = batch.columns if coded else [plain_column(column) for column in batch.columns]
                        values = as_stored(self.schema, batch.schema.names, values, self.label)
                        yield pa.record_batch(values, names=batch.schema.names)
                    if missing:  # Arrow ends early where the number of values of a column is not that of rows
                        raise TableError(
                            f"expected as many rows in {path.name} as it says, found others; export it again"
                        )
            return
        held = self.memory.of(path)
        if held is None and self.kind != "csv":
            held = self.memory.hold(path, whole_table(path, self.kind, self.file.sheet, self.label).combine_chunks())
        if held is not None:
            for batch in held.select(columns).to_batches(max_chunksize=rows):
                values = as_stored(self.schema, columns, list(map(plain_column, batch.columns)), self.label)
                yield pa.record_batch(values, names=columns)
            return
        first = 0
        for batch in _open_csv(path, self.file, self.block, self.schema.names, columns):
            cells = [self._cells(batch[name], name, path, first) for name in columns]
            yield pa.record_batch(cells, names=columns)
            first += batch.num_rows

    def _cells(self, texts: pa.Array, name: str, path: Place, first: int) -> pa.Array:
        """The values of a column of a CSV."""
        notation = self.file.notation if name in self.notated else PLAIN
        return csv_cells(texts, self.schema.field(name), notation, self.file.separator, path, first)

    def _reads(self, path: Place, count: int) -> Iterator[Sequence[int] | None]:
        """The row groups that are read together; in a store one by one, each by a few large requests."""
        if not isinstance(path, StorePath):
            yield self.groups
            return
        yield from ([number] for number in (range(count) if self.groups is None else self.groups))


def _rows_of_groups(file: pq.ParquetFile, groups: Sequence[int] | None) -> int:
    """How many rows row groups have, or all of them, by the footer."""
    if groups is None:
        return int(file.metadata.num_rows)
    return sum(file.metadata.row_group(number).num_rows for number in groups)


def open_table(source: str | Place | TableFile, label: str) -> Table:
    """Open a table: read its files and columns, not its values.

    Raises:
        TableError: There is no such table, it has no label column, or its files differ in columns.
        InputError: It is an address of something else than an object store or a web server, or that does not answer.
    """
    given = source if isinstance(source, TableFile) else TableFile(source)
    path = place_of(given.path)
    files = _files(path)
    kind = kind_of_files(path, files)
    if kind == "csv":
        (separator,) = _quiet(files[0], _separators(files[0], given, label))
        given = dataclasses.replace(given, separator=separator)
    if len({frozenset(path_texts(path, file)) for file in files}) > 1:
        raise TableError(
            f"expected the same columns in the names of all folders of {path}, found others; move them apart"
        )
    if any(spelled_as(label, path_texts(path, file)) for file in files):
        raise TableError(f"expected {label!r} inside the files, found it in their paths, which disclose labels")
    types = path_types(path, files)
    with ThreadPoolExecutor(_REQUESTS) as threads:
        each = threads.map if isinstance(path, StorePath) else map  # a store takes long to answer
        looks = each(lambda file: _schema(path, file, kind, given, types), files)
        schemas, row_groups = zip(*looks, strict=True)
    label = spelled_as(label, schemas[0].names) or label
    schema = common_schema({_shown(path, file): each for file, each in zip(files, schemas, strict=True)}, label)
    names = schema.names
    if len(set(names)) != len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        if kind == "csv" and not is_header(names):
            raise TableError(no_header(path, names))
        raise TableError(f"two columns have the name {twice!r}; rename one")
    if label not in names:
        if kind == "csv" and not is_header(names):
            raise TableError(no_header(path, names))
        raise TableError(no_such_column(label, names))
    return Table(path, kind, tuple(files), schema, label, given, row_groups=row_groups)


def _shown(path: Place, file: Place) -> str:
    """The name of a file for a message, as it is below its folder."""
    return str(file.relative_to(path)) if file != path else file.name  # type: ignore[arg-type]


def no_such_column(name: str, columns: Sequence[str], what: str = "") -> str:
    """An error message for a missing column, with the columns of the table and the nearest name."""
    more = ", ..." if len(columns) > _LISTED else ""
    missing = (
        f"no {what}{' ' * bool(what)}column {name!r}" if name else "expected the label column (--label), found none"
    )
    message = f"{missing}; columns: {', '.join(columns[:_LISTED])}{more}"
    inside = next((each for each in _SEPARATORS if len(columns) == 1 and each in columns[0]), None)
    if inside is not None:
        return f"{message}; to separate them, pass --separator {inside!r} (TableFile(..., separator=))"
    return message + nearest(name, columns)


def typed(table: Table, columns: Sequence[str], *, hold: bool = False) -> Table:
    """Infer the types of columns of a CSV: for each, the type that gives back every value as it is written, or text.

    Every value is read, so the types do not depend on the ends of file blocks, which depend on the length of labels.
    To hold the rows of a table that fits, labels too, saves later passes the reading; else labels are not read.
    """
    if table.kind != "csv":
        return table
    others = {table.label, *table.path_columns}
    found = {name: ColumnType(table.file.notation) for name in dict.fromkeys(columns) if name not in others}
    stored = [each.name for each in table.schema if not (each.name in table.path_columns or is_empty(each))]
    texts = Texts(stored if hold else [])
    with ThreadPoolExecutor(idle_threads()) as threads:  # of which each looks at other columns
        for path in table.files if found else ():
            alone = dataclasses.replace(table, files=(path,))
            for batch in prefetch(alone.batches(texts.columns or list(found), _ROWS_PER_BATCH)):
                list(threads.map(lambda name, rows=batch: found[name].add(rows[name]), found))
                texts.add(path, batch)
    types = {name: column.type for name, column in found.items()}
    fields = [pa.field(field.name, types.get(field.name, field.type)) for field in table.schema]
    respelled = tuple(name for name, column in found.items() if column.is_respelled)
    notated = tuple(name for name, column in found.items() if column.notation != PLAIN)
    known = dataclasses.replace(table, schema=pa.schema(fields), respelled=respelled, notated=notated)
    return dataclasses.replace(known, memory=texts.read(known._cells))


def prefetch(batches: Iterator[Rows]) -> Iterator[Rows]:
    """Iterate over batches, preparing the next one in a thread while this one is used, unless this one has few rows."""
    with ThreadPoolExecutor(1) as thread:
        batch = next(batches, None)
        while batch is not None:
            following = None if batch.num_rows < FEW_ROWS else thread.submit(next, batches, None)
            yield batch
            batch = next(batches, None) if following is None else following.result()


@contextmanager
def open_parquet(path: Place, **options: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file of a disk or of a store."""
    if isinstance(path, Path):
        with pq.ParquetFile(path.absolute(), **options) as file:  # Arrow may take another path for an address
            yield file
    else:
        with path.opened() as stored, pq.ParquetFile(stored, **options) as file:
            yield file


def _check_texts(batch: pa.RecordBatch) -> None:
    """Refuse texts that are not UTF-8, which the error of a later reader would quote.

    Raises:
        ArrowInvalid: There are such.
    """
    for column in batch.columns:
        if not pa.types.is_primitive(column.type):
            column.validate(full=True)


def _stamp(file: Place) -> tuple[object, ...]:
    """Size, time and inode of a file, or the stamp of an object: those of another file in its place differ."""
    if isinstance(file, StorePath):
        return file.stamp()
    state = file.stat()
    return (state.st_size, state.st_mtime_ns, state.st_ino)


def _files(path: Place) -> list[Place]:
    if path.is_dir():
        inside = path.files() if isinstance(path, StorePath) else filter(Path.is_file, path.rglob("*"))
        files = sorted(file for file in inside if not _is_hidden(file.relative_to(path)))  # type: ignore[arg-type]
        if not files:
            raise TableError(f"expected CSV or Parquet files in the folder {path}, found none; name the table itself")
        return files
    if not path.is_file():
        if isinstance(path, Path) and path.is_symlink():
            raise TableError(f"{path} is a link to {path.readlink()}, which does not exist; name the table itself")
        near = isinstance(path, Path) and path.parent.is_dir()
        beside = [each.name for each in path.parent.iterdir()] if near else []  # type: ignore[union-attr]
        hint = nearest(path.name, beside) or "; check the path"
        raise TableError(f"there is no file or folder {path}{hint}")
    return [path]


def _is_hidden(file: PurePath) -> bool:
    """True for a file that is no part of the table: hidden, or written by this package."""
    return any(part.startswith((".", "_")) for part in file.parts) or _OURS in file.name


def _schema(
    root: Place, file: Place, kind: str, given: TableFile, types: Mapping[str, pa.DataType]
) -> tuple[pa.Schema, tuple[int, ...]]:
    """The columns of a file, and those in its path; the rows in each of its row groups, if it has any."""
    ((stored, row_groups),) = _quiet(file, _stored_schema(file, kind, given))
    for name in path_texts(root, file):
        if name in stored.names:
            raise TableError(
                f"expected {name!r} in files or in the names of their folders, found it in both, of {file.name}; write "
                "the files without it"
            )
        stored = stored.append(pa.field(name, types[name]))
    return stored, row_groups


def _stored_schema(file: Place, kind: str, given: TableFile) -> Iterator[tuple[pa.Schema, tuple[int, ...]]]:
    if kind == "parquet":
        with open_parquet(file) as opened:
            sizes = (opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups))
            yield opened.schema_arrow.remove_metadata(), tuple(sizes)
    elif kind != "csv":
        yield whole_table(file, kind, given.sheet, label="").schema.remove_metadata(), ()
    else:
        try:
            opened = _open_csv(file, given, _FIRST_BLOCK)
        except pa.ArrowInvalid:  # a row that is longer, or damage that the other reader finds again
            opened = _open_csv(file, given, _CSV_BLOCK)
        with opened:
            yield pa.schema([pa.field(name, pa.string()) for name in opened.schema.names]), ()


def _separators(path: Place, given: TableFile, label: str) -> Iterator[str]:
    """The separator that was named, or the one that splits the first line into the label and most other names."""
    with _stream(path) as file:
        text = codecs.getincrementaldecoder(given.encoding)("replace").decode(file.read(_MOST_HEADER))
    if text.removeprefix("\ufeff")[: len(_SEPARATOR_LINE)].lower() == _SEPARATOR_LINE:
        raise TableError(f"the first line of {path} names a separator; remove that line, so that the names come first")
    if given.separator is not None:
        yield given.separator
        return
    names = {separator: _first_line(text, separator) for separator in _SEPARATORS}
    has_label = {separator: spelled_as(label, names[separator]) is not None for separator in _SEPARATORS}
    yield max(_SEPARATORS, key=lambda separator: (has_label[separator], len(names[separator])))


def _first_line(text: str, separator: str) -> list[str]:
    """The fields of the first line of a CSV file."""
    try:
        rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=separator)
        return next((row for row in rows if row), [])
    except csv.Error:
        return []


def _stream(path: Place) -> pa.NativeFile:
    """A text file, unpacked if its name says that it is packed."""
    return path.stream() if isinstance(path, StorePath) else pa.input_stream(path, compression="detect")


def _open_csv(
    path: Place, given: TableFile, block: int, names: Sequence[str] = (), columns: list[str] | None = None
) -> pc_csv.CSVStreamingReader:
    return pc_csv.open_csv(
        _stream(path),
        read_options=pc_csv.ReadOptions(block_size=block, encoding=given.encoding),
        # in a table of one column an empty line is a row whose value is missing
        parse_options=pc_csv.ParseOptions(
            delimiter=given.separator or ",", newlines_in_values=True, ignore_empty_lines=len(names) != 1
        ),
        convert_options=pc_csv.ConvertOptions(
            column_types={name: pa.string() for name in names}, include_columns=columns or []
        ),
    )


def _quiet(path: Place, items: Iterator[T]) -> Iterator[T]:
    """Iterate over items, and replace a reader's error by a message that quotes nothing of the file.

    The message is raised outside the handler, so that the original error is not its context either.
    """
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except (pa.ArrowException, OSError, UnicodeError) as problem:
            why = _cause(path, problem)
        else:
            yield item
            continue
        raise TableError(f"{path.name} cannot be read: {why}")


def _cause(path: Place, problem: Exception) -> str:
    """The cause of a reader's error, in words of ours alone, and what to do."""
    if isinstance(path, StorePath):
        message = str(problem).lower()
        from_store = isinstance(problem, OSError) and not isinstance(problem, UnicodeError) and not path.is_read_only
        gone = "the store did not give it; check the network and the credentials, or whether it is cut off"
        return gone if from_store else next((cause for word, cause in _CAUSES.items() if word in message), _DAMAGED)
    if path.is_file() and path.stat().st_size == 0:
        return "it is empty; check how it was saved"
    if why := getattr(problem, "strerror", None):
        return f"{why}; check the file and its permissions"
    if isinstance(problem, UnicodeError) or (path.name.lower().endswith((".csv", ".tsv")) and _has_zeros(path)):
        return _CAUSES["utf-8"]
    message = str(problem).lower()
    if "utf8" in message and path.name.lower().endswith((".parquet", ".pq")):
        return "its text is not UTF-8; save it again"
    return next((cause for word, cause in _CAUSES.items() if word in message), _DAMAGED)


def _has_zeros(path: Path) -> bool:
    """True if a file begins with bytes that no UTF-8 text has, as UTF-16 does."""
    with path.open("rb") as file:
        return b"\0" in file.read(_FIRST_BYTES)
