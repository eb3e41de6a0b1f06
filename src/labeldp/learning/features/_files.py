"""Files of what was fitted: a description in JSON beside named parts, and one reader's checks."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from labeldp._new_files import check_new_file
from labeldp._strict_json import strict_json
from labeldp.errors import InputError, OutputError, VerificationError
from labeldp.release.tables import disk_path

#: Bytes of the header length that a safetensors file begins with; the JSON header follows.
_LENGTH_BYTES = 8
#: The ending of arrays in a zip file, and the readers of their headers by version.
_ARRAY = ".npy"
_ARRAY_HEADERS = MappingProxyType(
    {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
)


class OtherVersionError(InputError):
    """A file of another version of its schema, or of a library, than can be read here."""


@dataclass(frozen=True)
class FileFormat:
    """A kind of file, whose description in JSON begins with its schema.

    Attributes:
        schema: Name and version of the kind of file.
        noun: What it holds, such as ``"model"``.
        origin: What makes such files, as in ``"a model made by ..."``.
        advice: What to do if there is no such file, or none that can be read.
        libraries: Libraries whose versions are part of the description.
    """

    schema: str
    noun: str
    origin: str
    advice: str
    libraries: tuple[str, ...] = ("labeldp",)

    def description(self, about: Mapping[str, Any]) -> str:
        """The description of a file as JSON text."""
        return json.dumps(
            {"schema": self.schema, "made_with": {name: version(name) for name in self.libraries}, **about}
        )

    def read_description(self, text: str) -> dict[str, Any]:
        """The description in a file.

        Raises:
            OtherVersionError: It is of another schema.
        """
        about: dict[str, Any] = strict_json(text)
        if about["schema"] != self.schema:
            raise OtherVersionError(
                f"expected a {self.noun} of schema {self.schema}, found {about['schema']!r}; {self.advice}"
            )
        return about

    @contextmanager
    def reading(self, path: str | Path) -> Iterator[Path]:
        """Refuse, in one sentence, a file that does not exist or that cannot be read within the context.

        Raises:
            InputError: The file does not exist, or is not of this format.
        """
        file = disk_path(path)
        if not file.is_file():
            raise InputError(f"expected a {self.noun}, found no file {file}; {self.advice}")
        try:
            yield file
        except OtherVersionError:
            raise
        except Exception as problem:  # a damaged or forged file fails in many ways
            why = str(problem) if isinstance(problem, VerificationError) else "something else, or a damaged one"
            raise InputError(f"expected a {self.noun} {self.origin} in {file}, found {why}") from problem


def check_model_path(path: Path, ending: str = "") -> Path:
    """Refuse a file that exists, that has no folder to be in, or whose name has another ending than one wanted."""
    if ending and path.suffix not in ("", ending):
        raise OutputError(
            f"expected a model file that ends in {ending}, found {path}; name it {path.with_suffix(ending).name}"
        )
    return check_new_file(path)


def is_network(path: Path) -> bool:
    """True for a file that begins as safetensors does: with the length of a JSON header and its first brace."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_LENGTH_BYTES + 1)[_LENGTH_BYTES:] == b"{"


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
