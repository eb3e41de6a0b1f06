"""A kind of file: a description in JSON, whose schema comes first, beside named arrays."""

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
from labeldp.learning.files._arrays import read_arrays, write_arrays
from labeldp.release.tables import disk_path

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
