"""Named arrays beside a text in one file, in the layout of safetensors; reading it runs no code.

The file begins with the length of a JSON header of eight bytes. The header gives the type, the shape and the place of
each array; their bytes follow without a gap, so that none is larger than its part of the file.

A kind of file has a description in JSON, whose schema comes first, as that text.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from labeldp._own_files import check_new_file, write_new_file
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, MissingExtraError, OutputError, VerificationError
from labeldp.release.tables import disk_path

_LENGTH, _MOST_HEADER, _MOST_ARRAYS, _MOST_DIMENSIONS = 8, 1 << 28, 1 << 18, 32
_METADATA, _TEXT = "__metadata__", "labeldp"
#: Types of arrays by their name in a header: numbers alone.
_TYPES: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {
        **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
        **{f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
        "BOOL": np.dtype("?"),
    }
)
_NAMES = MappingProxyType({kind: name for name, kind in _TYPES.items()})


def number_type(name: str) -> np.dtype[Any]:
    """The type of numbers of a name."""
    return _TYPES[name]


def name_of(kind: Any) -> str:
    """The name of a type of numbers."""
    return _NAMES[np.dtype(kind).newbyteorder("<")]


@dataclass(frozen=True)
class _Place:
    """The type and shape of an array, and where its bytes begin in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


@dataclass(frozen=True, eq=False)
class StoredArrays(Mapping[str, np.ndarray]):
    """The arrays of an open file, each read when it is asked for; their types and shapes are known before."""

    file: BinaryIO
    places: Mapping[str, _Place]

    def __getitem__(self, name: str) -> np.ndarray:
        place = self.places[name]
        self.file.seek(place.start)
        values = np.fromfile(self.file, place.dtype, math.prod(place.shape)).reshape(place.shape)
        if place.dtype.kind == "b" and (values.view(np.uint8) > 1).any():
            raise ValueError("truth values that are neither 0 nor 1")
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def finite(self, name: str) -> np.ndarray:
        """An array of finite numbers."""
        values = self[name]
        if not np.isfinite(values).all():
            raise ValueError("numbers that are not finite")
        return values

    def check(self, wanted: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        """Refuse arrays of other names, types or shapes than the wanted ones, before any is read."""
        if {name: (place.dtype, place.shape) for name, place in self.places.items()} != dict(wanted):
            raise ValueError("arrays of other names, types or shapes")


def write_arrays(path: Path, text: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a text and arrays to a new file, those of large numbers first, so that all are aligned."""
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header, end = dict[str, Any]({_METADATA: {_TEXT: text}}), 0
    for name in names:
        start, end = end, end + arrays[name].nbytes
        header[name] = {
            "dtype": name_of(arrays[name].dtype),
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    content = json.dumps(header, ensure_ascii=False).encode()
    content += b" " * (-len(content) % _LENGTH)
    with path.open("xb") as file:
        file.write(len(content).to_bytes(_LENGTH, "little") + content)
        for name in names:
            file.write(np.ascontiguousarray(arrays[name], arrays[name].dtype.newbyteorder("<")).data)


def read_arrays(file: BinaryIO) -> tuple[str, StoredArrays]:
    """The text and the arrays of an open file, checked before any array is read.

    Raises:
        ValueError: Lengths, types, shapes or places contradict each other, or the size of the file.
        LookupError: A part is missing, or a type is none of numbers.
    """
    size = file.seek(0, 2)
    file.seek(0)
    length = int.from_bytes(file.read(_LENGTH), "little")
    if length > min(_MOST_HEADER, size - _LENGTH):
        raise ValueError("a header that is larger than the file")
    header = strict_json(file.read(length).decode())
    text = header.pop(_METADATA)[_TEXT]
    if len(header) > _MOST_ARRAYS:
        raise ValueError("too many arrays")
    start = end = _LENGTH + length
    places = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape = number_type(entry["dtype"]), tuple(entry["shape"])
        place, end = end, end + dtype.itemsize * math.prod(_checked(shape))
        if entry["data_offsets"] != [place - start, end - start]:
            raise ValueError("an array that is not in its place")
        places[name] = _Place(dtype, shape, place)
    if end != size:
        raise ValueError("arrays that are not as large as their file")
    return text, StoredArrays(file, MappingProxyType(places))


def _checked(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape of whole numbers, as few as arrays have."""
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError("an array of too many dimensions")
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("sizes of an array that are not whole numbers")
    return shape


#: The ending of a model's file.
ENDING = ".safetensors"
#: The first bytes of a zip file, which earlier versions wrote.
_ZIP = b"PK"

Arrays = Mapping[str, np.ndarray]


class OtherVersionError(InputError):
    """A file of another version of its schema, or of a library, than can be read here."""


@dataclass(frozen=True)
class FileFormat:
    """A kind of file.

    Attributes:
        schemas: Names and versions that its descriptions begin with.
        noun: What it holds, such as ``"model"``.
        command: The command that makes such files.
        earlier: Function that reads the zip files of earlier versions: a description and arrays as they are now.
    """

    schemas: Collection[str]
    noun: str
    command: str
    earlier: Callable[[BinaryIO], tuple[str, Arrays]]

    def save(
        self, path: str | Path, schema: str, about: Mapping[str, Any], arrays: Arrays, libraries: Collection[str] = ()
    ) -> Path:
        """Write a private file that does not exist yet.

        Raises:
            OutputError: The file exists, or its folder does not.
        """
        made_with = {name: version(name) for name in ("labeldp", *libraries)}
        text = json.dumps({"schema": schema, "made_with": made_with, **about}, ensure_ascii=False)
        return write_new_file(disk_path(path), lambda file: write_arrays(file, text, arrays), private=True)

    @contextmanager
    def opened(self, path: str | Path) -> Iterator[tuple[dict[str, Any], Arrays]]:
        """The description and the arrays of a file, which are read within the context.

        Nothing in it is run, and no array is larger than its part of the file. What cannot be read within the context
        is refused in one sentence.

        Raises:
            InputError: The file does not exist, or is not of this kind.
            MissingExtraError: It needs a library that is not installed.
        """
        place = disk_path(path)
        advice = f"make one with '{self.command}'"
        if not place.is_file():
            raise InputError(f"there is no {self.noun} {place}; {advice}")
        try:
            with place.open("rb") as file:
                reader = self.earlier if file.read(len(_ZIP)) == _ZIP else read_arrays
                text, arrays = reader(file)
                about = strict_json(text)
                if about["schema"] not in self.schemas:
                    known = " or ".join(self.schemas)
                    raise OtherVersionError(
                        f"expected a {self.noun} of schema {known}, found {about['schema']!r}; {advice}"
                    )
                yield about, arrays
        except (OtherVersionError, MissingExtraError):
            raise
        except Exception as problem:  # a damaged or forged file fails in many ways
            why = str(problem) if isinstance(problem, VerificationError) else "something else, or a damaged one"
            raise InputError(f"expected a {self.noun} made by '{self.command}' in {place}, found {why}") from problem


def check_model_path(path: Path) -> Path:
    """Refuse a file that exists, that has no folder to be in, or whose name has another ending than models have."""
    if path.suffix not in ("", ENDING):
        raise OutputError(
            f"expected a model file that ends in {ENDING}, found {path}; name it {path.with_suffix(ENDING).name}"
        )
    return check_new_file(path)


#: The ending of arrays in a zip file, and the readers of their headers by version.
_ARRAY = ".npy"
_ARRAY_HEADERS = MappingProxyType(
    {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
)


def check_stored(file: BinaryIO) -> None:
    """Refuse a zip file that holds more than its own bytes, or an array of more than its part of the file.

    Raises:
        ValueError: Its parts are compressed or overlap, or an array's header says that it is larger than its part.
    """
    with zipfile.ZipFile(file) as opened:
        parts = opened.infolist()
        stored = all(
            part.compress_type == zipfile.ZIP_STORED and part.file_size == part.compress_size for part in parts
        )
        if not stored or sum(part.file_size for part in parts) > os.fstat(file.fileno()).st_size:
            raise ValueError("parts that are larger than the file")
        for part in parts:
            if part.filename.endswith(_ARRAY):
                with opened.open(part) as array:
                    shape, _, kind = _ARRAY_HEADERS[np.lib.format.read_magic(array)](array)
                if kind.hasobject or math.prod(shape) * kind.itemsize > part.file_size:
                    raise ValueError("an array that is larger than its part of the file")
