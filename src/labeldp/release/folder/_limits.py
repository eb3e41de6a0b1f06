"""Limits of files that others send: what is refused before anything is computed or allocated from it.

A verdict costs at most about ten seconds and a gigabyte beyond what is proportional to the bytes of a folder.

Footers of Parquet files are read without Arrow, which ends the process over some that are damaged.

Arrow's description of a column in a row group throws where no caller can catch it (pyarrow 26,
``RowGroupMetaData.column``, if histograms do not go with the schema). Its readers of values raise what can be caught.

References:
    The compact protocol of Apache Thrift, and ``parquet.thrift`` of Apache Parquet.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp._strict_json import strict_json
from labeldp.errors import VerificationError

_MAGIC = b"PAR1"
_TRUE, _FALSE, _BYTE, _I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 5, 6, 7, 8, 9, 12
_NUMBERS = (4, _I32, _I64)
#: Lists in a footer by field: their elements' kind, or the lists in these. Arrow reads elements as of this kind
#: whatever a footer says of them, so others are refused.
_COLUMN = {2: _I32, 3: _BINARY, 8: [{}], 13: [{}], 16: {2: _I64, 3: _I64}, 17: {2: _I32}}
_FOOTER = {2: [{}], 4: [{1: [{3: _COLUMN}], 4: [{}]}], 5: [{}], 7: [{}]}


@dataclass(frozen=True)
class Chunk:
    """A column in a row group: its path, the number of its compression, and its number of values."""

    path: str
    compression: int
    values: int


def chunks(file: BufferedIOBase | pa.NativeFile) -> Iterator[Chunk]:
    """All columns of all row groups of a file."""
    try:
        size = file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        if file.read(4) != _MAGIC or length > size:
            raise ValueError("no footer")
        file.seek(size - length)
        for group in _Reader(file.read(length)).struct(_FOOTER)[4]:
            for column in group[1]:
                about = column[3]
                if about[5] < 0:
                    raise ValueError("fewer values than none")
                yield Chunk(b".".join(about[3]).decode(), int(about[4]), int(about[5]))
    except (LookupError, TypeError, ValueError, OSError, RecursionError):
        raise VerificationError("expected a Parquet file with a footer, found a damaged one") from None


class _Reader:
    """Values in the compact protocol: structures as dictionaries by the numbers of their fields."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def struct(self, lists: Mapping[int, Any]) -> dict[int, Any]:
        """A structure, with its lists."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._number()
            if number in fields:
                raise ValueError("a field twice")
            fields[number] = self._value(head & 15, lists.get(number))
        return fields

    def _value(self, kind: int, lists: Any) -> Any:
        if kind in _NUMBERS:
            return self._number()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind == _STRUCT:
            return self.struct(lists if isinstance(lists, dict) else {})
        if kind == _LIST:
            return self._list(lists)
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind in (_BYTE, _DOUBLE):
            return self._bytes(1 if kind == _BYTE else 8)
        raise ValueError("a value of another kind")

    def _list(self, lists: Any) -> list[Any]:
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        kind, inner = (_STRUCT, lists[0]) if isinstance(lists, list) else (lists, None)
        if size and head & 15 != kind:
            raise ValueError("a list of another kind")
        return [self._value(kind, inner) for _ in range(size)]

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        found = self._content[self._at : self._at + size]
        if len(found) < size:
            raise ValueError("a value that is cut off")
        self._at += size
        return found

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128 and shift < 63:
            number, shift = number | (byte & 127) << shift, shift + 7
        return number | byte << shift

    def _number(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


#: The largest certificate in bytes.
MOST_BYTES = 1 << 25
#: The most digits of an integer, or letters of a word, in a law.
MOST_LETTERS = 100
#: The most charges of one release.
MOST_CHARGES = 1 << 12
#: The most bytes of text in a batch of rows.
MOST_OF_A_BATCH = 1 << 27
#: The most classes in the sets of a batch of rows.
MOST_OF_SETS = 1 << 25
#: The most terms of the sums by which guarantees are recomputed: about ten seconds.
MOST_TERMS = 1e8
#: The most values of released labels that are read, and how many more for each byte of the files.
MOST_RELEASED = (1 << 26, 32)
#: Likewise of an answer, whose values are in memory together.
MOST_ANSWERED = (1 << 24, 8)
#: The most dimensions of a column of lists.
_MOST_DIMENSIONS = 4
#: Lengths of words of a channel: 64, and 16 in tests.
_WORDS = ("64", "16")
#: Compressions of released files, none and snappy: others shrink a file by more than twenty times.
_COMPRESSIONS = (0, 1)
_HASH = re.compile("[0-9a-f]{64}")


def opened(path: Path) -> BufferedReader:
    """Open a regular file, without waiting for a pipe, a device or a lock.

    Raises:
        OSError: There is none.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileNotFoundError(f"no regular file at {path}")
    return file


def text_of(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a certificate, or of another document of at most so many bytes.

    Raises:
        OSError: It cannot be read.
        UnicodeError: It is not UTF-8.
        VerificationError: It is too large.
    """
    with opened(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise VerificationError(f"expected a certificate of at most {most} bytes, found a larger one")
    return content.decode("utf-8")


def parsed(text: str) -> dict[str, Any]:
    """The JSON object of a certificate, without repeated keys, deep nesting or numbers that are not finite."""
    try:
        body = strict_json(text)
    except ValueError as problem:
        found = "something else" if isinstance(problem, json.JSONDecodeError) else problem
        raise VerificationError(f"expected a certificate in JSON, found {found}") from None
    if not isinstance(body, dict):
        raise VerificationError("expected a certificate in JSON, found something else")
    return body


def check_plain(body: Mapping[str, Any]) -> None:
    """Refuse a certificate with parts that would take too long to compute with.

    Raises:
        LookupError, TypeError, AttributeError: It is not of the shape of a certificate.
        VerificationError: A part is out of bounds.
    """
    charges, table = body["charges"], body["table"]
    listed = [
        *(part for each in table["columns"] for part in each.values()),
        *(each["name"] for each in table["files"]),
    ]
    assumed = [each for part in (body, *(charge["guarantee"] for charge in charges)) for each in part["assumptions"]]
    _check(all(isinstance(text, str) for text in (*listed, *assumed)), "names, types and assumptions in words")
    _check(len({each["name"] for each in table["files"]}) == len(table["files"]), "files that are listed once")
    _check(all(is_hash(each["sha256"]) for each in table["files"]), "files with their digests")
    numbers = [each for part in (body, *charges) for each in part["guarantee"].values() if isinstance(each, float)]
    rows = [table["rows"], *(each["rows"] for each in table["files"])]
    _check(not any(str(each).startswith("-") for each in (*numbers, *rows)), "numbers that are not negative")
    made_with = body["made_with"]
    _check(isinstance(made_with, dict) and all(isinstance(each, str) for each in made_with.values()), "versions")
    _check(len(charges) <= MOST_CHARGES, f"at most {MOST_CHARGES} charges")
    for charge in charges:
        _check_law(charge["law"], max((stop for _, stop in charge["rows"]), default=0), table["rows"])


def is_hash(text: object) -> bool:
    """True for a SHA-256 in hexadecimal."""
    return isinstance(text, str) and _HASH.fullmatch(text) is not None


def _check_law(law: Any, charged: Any, released: Any) -> None:
    """Refuse the law of a charge for rows below ``charged``, of a release of ``released`` rows."""
    _check(isinstance(law, dict), "a law with names")
    _check(not any(map(_is_long, _leaves(law))), f"integers of at most {MOST_LETTERS} digits in a law")
    inner = [part for part in law.get("channels", ()) if isinstance(part, Mapping)]
    _check(not any("channels" in part for part in inner), "groups of rows that are not grouped again")
    channels = [part for part in (law, *inner) if "by_row" in part]
    _check(all(str(part.get("bits")) in _WORDS for part in channels), "words of 64 bits in a law")
    if "labels_of_a_unit" in law:
        _check(
            1 <= int(law["labels_of_a_unit"]) <= max(charged, 1),
            f"units of 1 to {charged} labels, as rows were charged",
        )
    if "cluster_sizes" in law:
        _check(sum(map(int, law["cluster_sizes"])) <= released, f"clusters of at most {released} rows together")


def check_files(paths: Iterable[Path]) -> None:
    """Refuse what is no regular file."""
    for path in paths:
        try:
            opened(path).close()
        except OSError:
            raise VerificationError(f"expected a regular file at {path.name}, found something else") from None


def check_sizes(files: Iterable[pa.NativeFile], columns: Collection[str], of_sets: int, most: tuple[int, int]) -> None:
    """Refuse Parquet files whose columns are much larger than they are.

    Args:
        files: Each of them, while it is open.
        columns: The columns to read.
        of_sets: For rows with sets of classes, the number of values that take as long as a set.
        most: The most values that are read, and how many more for each byte.

    Raises:
        VerificationError: There are more values, or columns are compressed by another method than ours.
    """
    size, values = 0, 0
    for file in files:
        size += file.size()
        with pq.ParquetFile(file) as parquet:
            values += parquet.metadata.num_rows * of_sets
        for chunk in chunks(file):
            _check(chunk.compression in _COMPRESSIONS, "columns compressed by snappy, as labeldp does")
            values += chunk.values * _is_of(chunk.path, columns)
    allowed, each = most
    _check(values <= allowed + each * size, f"at most {allowed} released values, and {each} for each byte of the files")


def texts_in(parquet: pq.ParquetFile, columns: Collection[str]) -> list[str]:
    """The paths of the columns of texts, which are to be read as dictionaries: a text may stand for many rows."""
    names = set(columns)
    leaves = [parquet.schema.column(number) for number in range(len(parquet.schema.names))]
    return [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and _is_of(leaf.path, names)]


def plain(column: pa.Array) -> pa.Array:
    """A column whose dictionary, if it has one, is written out.

    Raises:
        VerificationError: Its texts are too long together.
    """
    if pa.types.is_list(column.type):
        _check(len(column.values) <= MOST_OF_SETS, f"sets with at most {MOST_OF_SETS} classes together in a batch")
        inner = plain(column.values)
        kind = pa.list_(pa.field("element", inner.type, nullable=column.type.value_field.nullable))
        return pa.Array.from_buffers(kind, len(column), column.buffers()[:2], column.null_count, column.offset, [inner])
    if not pa.types.is_dictionary(column.type):
        return column
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    _check((pc.sum(lengths).as_py() or 0) <= MOST_OF_A_BATCH, "texts of fewer letters in a released column")
    return column.dictionary_decode()


def _is_of(path: str, columns: Collection[str]) -> bool:
    """True for the path of a column, or of the elements of its lists, whose path has two more parts."""
    return any(path.rsplit(".", parts)[0] in columns for parts in range(0, 2 * _MOST_DIMENSIONS + 1, 2))


def _check(holds: bool, expected: str) -> None:
    if not holds:
        raise VerificationError(f"expected {expected}, found others")


def _leaves(value: Any) -> Iterable[Any]:
    """The texts and numbers in a law."""
    level = [value]
    while level:
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
        yield from (part for part in level if not isinstance(part, dict | list))
        level = [part for part in level if isinstance(part, dict | list)]


def _is_long(part: Any) -> bool:
    """True for a text of too many letters, or an integer of too many digits."""
    return len(part) > MOST_LETTERS if isinstance(part, str) else int(part or 0).bit_length() > 3 * MOST_LETTERS
