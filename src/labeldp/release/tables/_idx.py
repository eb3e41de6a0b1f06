"""Reader of IDX files, the format of MNIST: a short header, then whole numbers; plain or gzipped.

The header is not trusted: memory is bounded by the size of the file, and by a limit.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from types import MappingProxyType

import numpy as np

from labeldp.errors import TableError

_GZIP = b"\x1f\x8b"
#: Number types by the third byte of a file.
_KINDS = MappingProxyType({0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4"})
_PIECE = 1 << 20
_MOST_BYTES = 1 << 32
#: The most bytes of numbers in a file of any size, and how many more for each of its bytes.
_MOST_FOR_ANY, _MOST_FOR_A_BYTE = 1 << 26, 32


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
    with _opened(file) as stream:
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
def _opened(file: Path) -> Iterator[BufferedIOBase]:
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
