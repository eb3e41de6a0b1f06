"""Footers of Parquet files that others send, read without Arrow, which ends the process over some that are damaged.

Arrow's description of a column in a row group throws where no caller can catch it (pyarrow 26,
``RowGroupMetaData.column``, if histograms do not go with the schema). Its readers of values raise what can be caught.

References:
    The compact protocol of Apache Thrift, and ``parquet.thrift`` of Apache Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from typing import Any

import pyarrow as pa

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
