"""Files of what was fitted: a description in JSON beside named parts, one reader's checks, and atomic writing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO

from labeldp.errors import InputError, OutputError, VerificationError

#: Bytes of the header length that a safetensors file begins with; the JSON header follows.
_LENGTH_BYTES = 8


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
        about: dict[str, Any] = json.loads(text)
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
        file = Path(path)
        if not file.is_file():
            raise InputError(f"expected a {self.noun}, found no file {file}; {self.advice}")
        try:
            yield file
        except OtherVersionError:
            raise
        except Exception as problem:  # a damaged or forged file fails in many ways
            why = str(problem) if isinstance(problem, VerificationError) else "something else, or a damaged one"
            raise InputError(f"expected a {self.noun} {self.origin} in {file}, found {why}") from problem


def check_model_path(path: Path) -> Path:
    """Refuse a file that exists, or that has no folder to be in."""
    if os.path.lexists(path):
        raise OutputError(f"expected an output file that does not exist yet, found {path}; choose another name")
    if not path.parent.is_dir():
        raise OutputError(f"expected an existing folder for the model, found none at {path.parent}")
    return path


def is_network(path: Path) -> bool:
    """True for a file that begins as safetensors does: with the length of a JSON header and its first brace."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(_LENGTH_BYTES + 1)[_LENGTH_BYTES:] == b"{"


def write_new_file(path: Path, write: Callable[[Path], object]) -> Path:
    """Write a new file atomically: beside its path, then moved there.

    Raises:
        OutputError: The file exists, or there is no folder to put it in.
    """
    target = check_model_path(path)
    staged = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        write(staged)
        staged.replace(check_model_path(target))
    finally:
        staged.unlink(missing_ok=True)
    return target


def staging_path(path: Path) -> Path:
    """The file that ``replace_file`` writes before it takes the place of another."""
    return path.with_name(f".{path.name}")


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file as a whole, or replace one: an interruption leaves the old one."""
    try:
        with staging_path(path).open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        staging_path(path).replace(path)
    finally:
        staging_path(path).unlink(missing_ok=True)
