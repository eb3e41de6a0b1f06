"""Tables that are read whole: Feather, JSON lines, sheets of Excel, and labels in IDX.

IDX is the format of MNIST: a short header, then whole numbers; plain or gzipped. The header is not trusted: memory is
bounded by the size of the file, and by a limit.
"""

from __future__ import annotations

import datetime as dt
import gzip
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa

from labeldp._checks import nearest
from labeldp._extras import require_extra
from labeldp._shapes import Bool, Int, UInt8
from labeldp._spelling import spelled_as
from labeldp.columns import arrow
from labeldp.errors import TableError
from labeldp.release.tables._store import Place, StorePath

_GZIP = b"\x1f\x8b"
#: Number types by the third byte of a file.
_KINDS = MappingProxyType({0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4"})
_MOST_BYTES = 1 << 32


def read_idx(path: str | Path, dimensions: int, most_bytes: int = _MOST_BYTES) -> np.ndarray:
    """Read the whole numbers of an IDX file.

    Args:
        path: The file, plain or gzipped, whatever its name.
        dimensions: Required number of dimensions: 1 for labels, 3 for images.
        most_bytes: Largest size of its numbers.

    Returns:
        An array of the file's number type, in native byte order.

    Raises:
        TableError: There is no such file, it has another format, its header contradicts its size, or it exceeds the
            limit.
    """
    file = Path(path)
    if not file.is_file():
        raise TableError(f"there is no file {file}; check the path of the labels in IDX")
    with _unpacked(file) as stream:
        kind, shape = _header(file, stream, dimensions)
        size = math.prod(shape) * kind.itemsize
        if size > most_bytes:
            raise TableError(
                f"expected at most {most_bytes:,} bytes of numbers in {file.name}, found a header of more: it is "
                "damaged, or too large to be read at once"
            )
        held = bytearray()
        allowed = _MOST_FOR_ANY + _MOST_FOR_A_BYTE * file.stat().st_size
        while piece := stream.read(min(_PIECE, size + 1 - len(held))):
            held += piece
            if len(held) > allowed:
                raise TableError(
                    f"expected at most {allowed:,} bytes of numbers in {file.name}, by its size, found more; unpack it"
                )
    if len(held) != size:
        found = "fewer" if len(held) < size else "more"
        raise TableError(f"expected {size:,} bytes after the header of {file.name}, found {found}; fetch it again")
    return np.frombuffer(held, kind).reshape(shape).astype(kind.newbyteorder("="), copy=False)


@contextmanager
def _unpacked(file: Path) -> Iterator[BufferedIOBase]:
    """Open a file, plain or gzipped; errors quote none of its bytes."""
    try:
        with file.open("rb") as plain:
            packed = plain.read(len(_GZIP)) == _GZIP
        with gzip.GzipFile(file) if packed else file.open("rb") as stream:
            yield stream
            return
    except TableError:
        raise
    except (OSError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or "it is cut off or damaged"
    raise TableError(f"expected a readable IDX file in {file.name}, found that {why}; fetch it again")


def _header(file: Path, stream: BufferedIOBase, dimensions: int) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    """Read the number type and the shape from the header."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _KINDS:
        raise TableError(
            f"expected an IDX file of whole numbers in {file.name}, found another header; it must begin with "
            "0, 0, the number type (8, 9, 11 or 12) and the number of dimensions"
        )
    if magic[3] != dimensions:
        raise TableError(f"expected {dimensions} dimensions in {file.name}, found {magic[3]}; is it the right file?")
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise TableError(f"expected {dimensions} sizes in the header of {file.name}, found it cut off; fetch it again")
    shape = tuple(int.from_bytes(sizes[i : i + 4], "big") for i in range(0, len(sizes), 4))
    if 0 in shape:
        raise TableError(f"expected at least one number in {file.name}, found none")
    return np.dtype(_KINDS[magic[2]]), shape


#: The only column of a file of labels.
IDX_LABEL = "label"
#: Bytes of JSON in which a type is inferred, and its deepest nesting, over which Arrow ends the process.
_BLOCK, _MOST_DEPTH = 1 << 26, 64
#: Bytes of the cells, parts or numbers of a file of any size, and how many more for each of its own.
_MOST_FOR_ANY, _MOST_FOR_A_BYTE = 1 << 26, 32
#: Of a cell, and of an array beside its values, which is an object of its own.
_BYTES_OF_CELL, _BYTES_OF_ARRAY = 8, 512
#: The first bytes of a file of Arrow, and the length of its end after the footer.
_ARROW, _ENDING = b"ARROW1", 10
#: By letter of JSON: the change of depth, and blanks; the most of these between a key and its colon.
_STEPS, _BLANK, _MOST_BLANKS = np.zeros(256, np.int8), np.zeros(256, np.bool_), 8
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]], _BLANK[[*b" \t\r\n"]] = 1, -1, True


def whole_table(path: Place, kind: str, sheet: str | None, label: str) -> pa.Table:
    """The rows of a file; labels of a workbook, whose cells have types and not its columns, are texts.

    Raises:
        TableError: There is no such sheet, labels in IDX are in a store, or a file is of far more cells than its bytes.
        MissingExtraError: It is a file of Excel, whose reader is not installed.
    """
    if kind == "excel":
        return _opened(path, lambda file: _workbook(file, path.name, sheet, label))
    return _READERS[kind](path)


def _feather(path: Place) -> pa.Table:
    content = _opened(path, lambda file: file.read())
    if content.startswith(b"FEA1"):
        raise TableError(f"expected Feather of version 2 in {path.name}, found version 1; save it as Parquet")
    if not content.startswith(_ARROW):  # which Arrow itself looks for at the end alone
        raise pa.ArrowInvalid("damaged")
    left = _MOST_FOR_ANY + _MOST_FOR_A_BYTE * len(content)
    try:
        for size in _unpacked_sizes(content):
            left -= size
            if left < 0:  # what is listed many times is not counted to its end
                break
    except (struct.error, ValueError, OverflowError):
        raise pa.ArrowInvalid("damaged") from None
    if left < 0:
        raise TableError(f"expected far fewer values in {path.name}, by its size, found more; save it as Parquet")
    table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
    table.validate(full=True)  # places outside the file would be read as they are
    return table


def _unpacked_sizes(content: bytes) -> Iterator[int]:
    """The bytes of each batch that the footer of a file of Arrow lists, once its buffers are unpacked.

    References:
        The IPC file format of Apache Arrow, ``File.fbs`` and ``Message.fbs``, and the layout of FlatBuffers.
    """
    (length,) = struct.unpack_from("<i", content, len(content) - _ENDING)
    footer = _Fields.root(content, len(content) - _ENDING - length)
    for number in (2, 3):  # dictionaries and record batches
        for start, about, _ in struct.iter_unpack("<qi4xq", footer.vector(number, 24)):
            message = _Fields.root(content, start + (8 if content[start : start + 4] == b"\xff" * 4 else 4))
            batch = message.table(2) if number == 3 else message.table(2).table(1)
            rows, buffers = batch.number(0), np.frombuffer(batch.vector(2, 16), "<i8").reshape(-1, 2)
            arrays = len(batch.vector(1, 16)) // 16
            size = max(rows, 0) * _BYTES_OF_CELL + arrays * _BYTES_OF_ARRAY
            for place, stored in buffers.tolist():
                packed = batch.at(3) and stored
                (unpacked,) = struct.unpack_from("<q", content, start + about + place) if packed else (stored,)
                size += max(unpacked, 0)
            yield size


@dataclass(frozen=True)
class _Fields:
    """The fields of a table in FlatBuffers, by their numbers."""

    content: bytes
    place: int

    @classmethod
    def root(cls, content: bytes, place: int) -> Self:
        """The outermost table of a buffer."""
        return cls(content, place)._followed(place)

    def at(self, number: int) -> int:
        """The place of a field; 0 without one."""
        first = self.place - self._read("<i", self.place)
        if 4 + 2 * number >= self._read("<H", first):
            return 0
        offset = self._read("<H", first + 4 + 2 * number)
        return self.place + offset if offset else 0

    def number(self, number: int) -> int:
        """A whole number of eight bytes."""
        return self._read("<q", place) if (place := self.at(number)) else 0

    def table(self, number: int) -> Self:
        """A table in a field."""
        return self._followed(self.at(number))

    def vector(self, number: int, size: int) -> bytes:
        """The bytes of a list of structures of so many bytes each."""
        if not (place := self.at(number)):
            return b""
        place += self._read("<I", place)
        end = place + 4 + size * self._read("<I", place)
        if end > len(self.content):
            raise ValueError("a list that is cut off")
        return self.content[place + 4 : end]

    def _followed(self, place: int) -> Self:
        return replace(self, place=place + self._read("<I", place))

    def _read(self, kind: str, place: int) -> int:
        if place < 0:
            raise ValueError("a place before the file")
        return int(struct.unpack_from(kind, self.content, place)[0])


def _json_lines(path: Place) -> pa.Table:
    from pyarrow import json as lines  # noqa: PLC0415 (few read such files)

    content = _opened(path, lambda file: file.read())
    _check_json(content, path.name)
    return lines.read_json(pa.BufferReader(content), read_options=lines.ReadOptions(block_size=_BLOCK))


def _check_json(content: bytes, name: str) -> None:
    """Refuse what ends the reader of Arrow, and rows that lack nearly all columns: it holds a cell for each.

    Raises:
        TableError: There is such.
    """
    letters = np.frombuffer(content, np.uint8)
    quotes, outside = _quotes(letters)
    places = np.flatnonzero(_STEPS[letters].view(bool) & outside)
    steps = _STEPS[letters[places]]
    depth = np.cumsum(steps, dtype=np.int64)
    if depth.max(initial=0) > _MOST_DEPTH:
        raise TableError(f"expected rows of plain values in {name}, found some nested more than {_MOST_DEPTH} deep")
    first, last = places[(depth == 1) & (steps > 0)], places[depth == 0]
    ends = np.zeros(letters.size + 1, np.int8)
    ends[first] += 1
    ends[last + 1] -= 1
    if (letters[first] != ord("{")).any() or not (_BLANK[letters] | (np.cumsum(ends[:-1], dtype=np.int8) != 0)).all():
        raise TableError(f"expected an object in each line of {name}, found something else; save it again")
    rows, columns = first.size, _count_keys(content, letters, quotes)
    if rows * columns * _BYTES_OF_CELL > _MOST_FOR_ANY + _MOST_FOR_A_BYTE * len(content):
        raise TableError(
            f"expected rows of the same columns in {name}, found {columns:,} names in {rows:,} rows, most of which "
            "lack nearly all; save it as a table of few columns"
        )


def _quotes(letters: UInt8[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "q"], Bool[np.ndarray, "n"]]:
    """The places of the quotes around texts in JSON, and a mask of what is outside of texts."""
    quote, back = letters == ord('"'), np.flatnonzero(letters == ord("\\"))
    begins = np.concatenate([back[:1] == back[:1], np.diff(back) > 1])  # runs of backslashes, of which each second one
    run = back - back[begins][np.cumsum(begins) - 1]  # is escaped by the one before
    escaped = back[run % 2 == 0] + 1
    quote[escaped[escaped < quote.size]] = False
    return np.flatnonzero(quote), (np.cumsum(quote, dtype=np.uint8) & 1) == 0


def _count_keys(content: bytes, letters: UInt8[np.ndarray, "n"], quotes: Int[np.ndarray, "q"]) -> int:
    """The number of different texts before a colon."""
    after = quotes[1::2] + 1
    for _ in range(_MOST_BLANKS):
        blank = _BLANK[letters[np.minimum(after, letters.size - 1)]]
        if not blank.any():
            break
        after = after + blank
    following = letters[np.minimum(after, letters.size - 1)]
    keys = np.flatnonzero((following == ord(":")) | _BLANK[following])
    ends = pa.py_buffer(np.concatenate([quotes[: 2 * len(after)], [len(content)]]).astype(np.int64))
    texts = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(after), [None, ends, pa.py_buffer(content)])
    return len(texts.take(arrow(2 * keys)).unique())


def _labels(path: Place) -> pa.Table:
    if isinstance(path, StorePath):
        raise TableError(f"expected labels in IDX on a disk, found {path}; copy the file, or save it as Parquet")
    return pa.table({IDX_LABEL: pa.array(read_idx(path, 1), pa.int64())})


#: The largest whole number that a cell of Excel holds exactly.
_EXACT = 1 << 53
_MIDNIGHT = dt.time(0)
#: Cells between the first and the last one of a sheet of any size, and bytes of a cell that there is in one.
_MOST_CELLS, _BYTES_OF_PLACE = 1 << 22, 8
_PIECE, _LONGEST_PLACE = 1 << 20, 1 << 10
#: The place of a cell, or of a row, in XML.
_PLACE = re.compile(rb"""\sr\s*+=\s*+["']([A-Za-z]{0,9}+)[A-Za-z]*+([0-9]{1,18}+)""")


def _workbook(file: Any, name: str, sheet: str | None, label: str) -> pa.Table:
    """The rows of a sheet, to its last cell with a value; labels as texts, so that none decides the type of all.

    Raises:
        TableError: There is no such sheet, or it is no workbook, or one whose cells lie far apart.
        MissingExtraError: The reader is not installed.
    """
    require_extra("excel", "python_calamine")
    from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 (an extra)

    rows: list[list[Any]] | None = None
    with suppress(CalamineError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        _check_extent(file, name)
        book = CalamineWorkbook.from_filelike(file)
        rows = list(book.get_sheet_by_name(_sheet(name, sheet, book.sheet_names)).to_python())
    if rows is None:
        raise TableError(f"expected a workbook of Excel in {name}, found none that can be read; save it again")
    names = [str(each).strip() for each in rows[0]] if rows else []
    while names and not names[-1] and all(row[len(names) - 1] == "" for row in rows):
        names.pop()
    rows = rows[1:]
    while rows and all(cell == "" for cell in rows[-1]):  # any other row without values is one: its label is missing
        rows.pop()
    if not all(names) or len(set(names)) < len(names):
        raise TableError(f"expected different names in the first row of {name}, found one twice or none; name them")
    own = spelled_as(label, names)
    cells = ((each, [row[place] for row in rows]) for place, each in enumerate(names))
    return pa.table({each: _texts(column) if each == own else _column(column) for each, column in cells})


def _check_extent(file: BinaryIO, name: str) -> None:
    """Refuse a workbook with parts that are much larger than it, or a sheet that is much larger than its cells.

    Raises:
        TableError: There is one.
    """
    file.seek(0, 2)
    allowed = _MOST_FOR_ANY + _MOST_FOR_A_BYTE * file.tell()
    with zipfile.ZipFile(file) as book:
        for part in book.infolist():
            rows, columns, size = 0, 0, 0
            for piece in _pieces(book, part):
                size += len(piece)
                if size > allowed:
                    raise TableError(
                        f"expected parts of at most {allowed:,} bytes in {name}, by its size, found more; save it as "
                        "CSV"
                    )
                for place in _PLACE.finditer(piece):
                    rows, columns = max(rows, int(place[2])), max(columns, _number(place[1]))
            allowed -= size
            if rows * columns > _MOST_CELLS + size // _BYTES_OF_PLACE:
                raise TableError(
                    f"expected a table without gaps in {name}, found a cell in row {rows:,} or column {columns:,}, far "
                    "from most others; delete the empty rows and columns around the table"
                )
    file.seek(0)


def _pieces(book: zipfile.ZipFile, part: zipfile.ZipInfo) -> Iterator[bytes]:
    """The bytes of a part, piece by piece, each with the end of the one before."""
    end = b""
    with book.open(part) as opened:
        while piece := opened.read(_PIECE):
            yield end + piece
            end = piece[-_LONGEST_PLACE:]


def _number(letters: bytes) -> int:
    """The number of a column from its letters, such as 27 for AA."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number


def _sheet(name: str, wanted: str | None, names: Sequence[str]) -> str:
    """The name of the sheet to read."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        found = "none" if wanted is None else repr(wanted)
        raise TableError(
            f"expected the name of a sheet of {name} (--sheet): {', '.join(names)}; found {found}"
            f"{nearest(wanted or '', names)}"
        )
    return wanted


def _column(cells: Sequence[Any]) -> pa.Array:
    """Cells as numbers, flags, dates or times, if all are of one kind, or else as text."""
    known = [cell for cell in cells if cell != ""]
    kinds = {type(cell) for cell in known}
    values = [None if cell == "" else cell for cell in cells]
    if kinds <= {int, float} and known:
        whole = all(abs(cell) < _EXACT and cell == int(cell) for cell in known)
        return pa.array([cell if cell is None or not whole else int(cell) for cell in values])
    if kinds <= {dt.date, dt.datetime} and known:
        times = [None if cell is None else _instant(cell) for cell in values]
        days = all(time is None or time.time() == _MIDNIGHT for time in times)
        return pa.array(times, pa.timestamp("us")).cast(pa.date32() if days else pa.timestamp("us"))
    if kinds == {bool}:
        return pa.array(values)
    return _texts(cells)


def _texts(cells: Sequence[Any]) -> pa.Array:
    """Cells as text."""
    return pa.array([None if cell == "" else _text(cell) for cell in cells], pa.string())


def _instant(cell: dt.date) -> dt.datetime:
    """A date or a time as a time."""
    return cell if isinstance(cell, dt.datetime) else dt.datetime.combine(cell, _MIDNIGHT)


def _text(cell: Any) -> str:
    """A cell as it is shown: whole numbers without a point, and dates in ISO."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _opened(path: Place, read: Callable[[Any], Any]) -> Any:
    """The result of a reader on an open file."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return read(file)
    with path.opened() as stored:
        return read(stored)


_READERS: Mapping[str, Callable[[Place], pa.Table]] = {
    "feather": _feather,
    "json": _json_lines,
    "idx": _labels,
}
