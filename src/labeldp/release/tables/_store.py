"""Paths in object stores, such as ``s3://bucket/table``, with what tables use of the interface of ``pathlib.Path``.

A single file of a web server, such as ``https://host/table.csv``, is a path of the same kind, which can only be read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs

from labeldp._checks import is_address
from labeldp._progress import Progress
from labeldp.errors import InputError

if TYPE_CHECKING:
    from labeldp.release.tables._web import WebFile

#: Protocols of object stores, as Arrow names them.
_AZURE = ("abfs", "abfss")
_GOOGLE = ("gs", "gcs")
#: The protocol of files of web servers. Without its encryption others on the way could change public columns.
_WEB = "https"
_SCHEMES = ("s3", *_GOOGLE, *_AZURE, _WEB)
_HINTS = {
    "http": "; write https://, or download the file, and name its path",
    "ftp": "; download the file, and name its path",
}
#: Options of a connection that an address may have, by protocol: none of them is secret.
_OPTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "s3": frozenset({"region", "scheme", "endpoint_override", "anonymous"}),
        **dict.fromkeys(_GOOGLE, frozenset({"scheme", "endpoint_override", "retry_limit_seconds", "anonymous"})),
        **dict.fromkeys(
            _AZURE,
            frozenset(
                {"blob_storage_authority", "dfs_storage_authority", "enable_tls", "credential_kind", "anonymous"}
            ),
        ),
        _WEB: frozenset(),
    }
)
#: Seconds after which a store of Google that does not answer, or credentials that are not found, are an error: without
#: a limit Arrow goes on for many minutes.
_RETRY_SECONDS = "60"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
#: A bucket, or a host with a port; of Azure also a container on a host. A password fits neither.
_BUCKET = re.compile(r"[\w.-]+(:\d{1,5})?", re.ASCII)
_CONTAINER = re.compile(rf"([\w.$-]+@)?{_BUCKET.pattern}", re.ASCII)
#: The value of an option: a word, or a host with a port.
_VALUE = re.compile(r"(https?://)?([\w.-]*|\[[\da-f:]+\])(:\d{1,5})?/?", re.ASCII | re.IGNORECASE)
_SHOWN = 3
_TAG = "etag"


@dataclass(frozen=True, order=True)
class StorePath:
    """A file or a folder in an object store, or a file of a web server; a folder is there if a file is in it.

    It holds no connection, so that a worker can be given one, and no credentials: those come from the environment. Of a
    file of a web server it holds a private copy, from the first look at it on, which no worker can be given.

    Attributes:
        scheme: The protocol, such as ``s3``.
        root: The bucket or container, with the host that it is on if the address names one; or the web server.
        parts: The names of folders and of the file.
        options: Options of the connection, as in ``?region=eu-central-1``; empty without any.

    Example:
        >>> path = StorePath.of("s3://bucket/clicks/part-0.parquet")
        >>> path.name, str(path.parent)
        ('part-0.parquet', 's3://bucket/clicks')
    """

    scheme: str
    root: str
    parts: tuple[str, ...]
    options: str = ""

    @classmethod
    def of(cls, address: str) -> StorePath:
        """The path of an address.

        Raises:
            InputError: It is no address of an object store or of a file of a web server, or holds a password.
        """
        found, options = _split(address)
        if found.scheme not in _SCHEMES:
            raise InputError(
                f"expected a path, or an address that begins with {', '.join(f'{each}://' for each in _SCHEMES)}, "
                f"found {found.scheme}://{_HINTS.get(found.scheme, '')}"
            )
        host = _CONTAINER if found.scheme in _AZURE else _BUCKET
        secret = "@" in address.replace(found.netloc, "", 1) or not (host.fullmatch(found.netloc) or not found.netloc)
        known = _OPTIONS[found.scheme]
        if secret or not all(name in known and _VALUE.fullmatch(value) for name, value in options):
            wanted, do = f"and '@', whose options are {', '.join(sorted(known))} alone", "put them into the environment"
            if not known:
                wanted, do = "and without '@' and '?'", "download the file, and name its path"
            raise InputError(
                f"expected an address without credentials {wanted}, found another; {do}, since addresses are printed "
                "and recorded"
            )
        parts = tuple(part for part in found.path.split("/") if part)
        if not found.netloc or not parts or found.fragment or not {".", ".."}.isdisjoint(parts):
            raise InputError(
                "expected a folder or a file in a bucket, such as s3://bucket/table, found another address; name one "
                "without '#', '.' or '..'"
            )
        root = found.netloc.lower() if found.scheme == _WEB else found.netloc  # one address has one spelling
        return cls(found.scheme, root, parts, found.query)

    def __str__(self) -> str:
        return "/".join((f"{self.scheme}://{self.root}", *self.parts)) + (f"?{self.options}" if self.options else "")

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.scheme, self.root, (*self.parts, *PurePosixPath(name).parts), self.options)

    @property
    def name(self) -> str:
        """The last name."""
        return self.parts[-1]

    @property
    def suffix(self) -> str:
        """The ending of the last name."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> StorePath:
        """The folder that it is in."""
        return StorePath(self.scheme, self.root, self.parts[:-1], self.options)

    @property
    def is_read_only(self) -> bool:
        """True for a file of a web server, which this process has a private copy of."""
        return self.scheme == _WEB

    def fetch(self, report: Progress) -> None:
        """Copy a file of a web server now, with reports of the progress; what is in a store is read where it is.

        Raises:
            InputError: It could not be copied.
        """
        if self.is_read_only:
            self._web.fetch(report)

    def with_name(self, name: str) -> StorePath:
        """The path of another name in the same folder."""
        return self.parent / name

    def relative_to(self, other: StorePath) -> PurePosixPath:
        """The path from a folder that it is in."""
        return PurePosixPath(*self.parts).relative_to(PurePosixPath(*other.parts))

    def is_relative_to(self, other: StorePath) -> bool:
        """True if it is in a folder, or is that folder."""
        here = (self.scheme, self.root, self.parts[: len(other.parts)])
        return here == (other.scheme, other.root, other.parts)

    def resolve(self) -> StorePath:
        """The path itself: a store has no links."""
        return self

    def is_dir(self) -> bool:
        """True for a folder."""
        return bool(self._info().type == fs.FileType.Directory)

    def is_file(self) -> bool:
        """True for a file."""
        return bool(self._info().type == fs.FileType.File)

    def exists(self) -> bool:
        """True if anything is there."""
        return bool(self._info().type != fs.FileType.NotFound)

    def names(self) -> list[str]:
        """The names of all objects in a folder, and in those in it, as the store states them; they may be no paths."""
        with _answers(self):
            system, key = self._at()
            found = system.get_file_info(fs.FileSelector(key, recursive=True, allow_not_found=True))
        return sorted(info.path.removeprefix("/")[len(key) + 1 :] for info in found if info.type == fs.FileType.File)

    def files(self) -> list[StorePath]:
        """All files in a folder, and in those in it, in the order of their paths.

        Raises:
            InputError: An object has a name that is no path: it could only be left out.
        """
        names = self.names()
        if strange := [name for name in names if not {"", ".", ".."}.isdisjoint(name.split("/"))]:
            raise InputError(
                f"expected objects in {self} whose names are paths, found {len(strange)} others, such as "
                f"{[name[:100] for name in strange[:_SHOWN]]}; rename or remove them, since they cannot be read"
            )
        return sorted(self / name for name in names)

    def stamp(self) -> tuple[object, ...]:
        """Size and entity tag, by which another file under the name is known; its time in a store without tags."""
        with self.opened() as file:
            size, about = file.size(), file.metadata() or {}
        tag = next((value for name, value in about.items() if _decoded(name).lower() == _TAG), None)
        return (size, self._info().mtime_ns if tag is None else tag)

    @contextmanager
    def opened(self) -> Iterator[pa.NativeFile]:
        """The file, to be read at any place."""
        with _answers(self):
            system, key = self._at()
            file = system.open_input_file(key)
        with file:
            yield file

    def stream(self) -> pa.NativeFile:
        """The file, to be read once; unpacked if its name says that it is packed."""
        system, key = self._at()
        return system.open_input_stream(key, compression="detect")

    def write(self, source: Path) -> None:
        """Write a file of a disk there.

        Raises:
            OSError: The store did not take it.
        """
        system, key = self._at()
        with source.open("rb") as read, system.open_output_stream(key, compression=None) as written:
            while block := read.read(_BLOCK):
                written.write(block)

    def remove(self) -> None:
        """Remove the file.

        Raises:
            OSError: The store did not do it.
        """
        system, key = self._at()
        system.delete_file(key)

    def _info(self) -> fs.FileInfo:
        with _answers(self):
            system, key = self._at()
            return system.get_file_info(key)

    def _at(self) -> tuple[fs.FileSystem, str]:
        """The file system, and the key there: names as they are written, since Arrow decodes those of an address."""
        if self.is_read_only:
            return fs.PyFileSystem(self._web), self.name
        system, root = _opened(f"{self.scheme}://{self.root}/?{self.options}".rstrip("?"))
        return system, "/".join((*filter(None, [root.strip("/")]), *self.parts))

    @cached_property
    def _web(self) -> WebFile:
        """The file of a web server: one copy for all who read this path."""
        from labeldp.release.tables._web import WebFile  # noqa: PLC0415 (few read such files)

        return WebFile(str(self))


#: A place of a table or of a release.
Place = Path | StorePath
_BLOCK = 1 << 22


def place_of(text: str | Path | StorePath) -> Place:
    """The place that a text names: an address of an object store, or else a path.

    Raises:
        InputError: It is an address of another kind, or only looks like one, and is not repeated; or no text at all.
    """
    if not isinstance(text, str | os.PathLike | StorePath):
        raise InputError(
            f"expected the path or the address of a table, found {type(text).__name__} in memory; save it to a private "
            "Parquet file, or release its labels by Curator(labels, space), and save(folder, table, keep=[...])"
        )
    if isinstance(text, StorePath):
        return text
    return StorePath.of(str(text)) if is_address(text) else Path(text)


def _split(address: str) -> tuple[SplitResult, list[tuple[str, str]]]:
    """The parts of an address, and its options."""
    with suppress(ValueError):  # its message may quote a password
        if _ADDRESS.match(address):
            found = urlsplit(address)
            return found, parse_qsl(found.query, keep_blank_values=True)
    raise InputError(
        "expected a path, or an address such as s3://bucket/table, found a text that only looks like an address; write "
        "the whole path of a file whose name has ':' and '@'"
    )


def disk_path(text: str | Path) -> Path:
    """The path that a text names, where there can only be one on a disk.

    Raises:
        InputError: It is an address, which is not repeated: it may hold a password.
    """
    if is_address(text):
        raise InputError("expected a path on a disk, found an address; name one, and copy between it and the store")
    return Path(text)


@lru_cache(maxsize=8)
def _opened(address: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address, and the key there; one connection for all files of a table."""
    found = urlsplit(address)
    options, root = dict(parse_qsl(found.query)), found.netloc
    if options.pop("anonymous", "false") == "true":
        if found.scheme == "s3":  # the only one whose addresses cannot say so
            return fs.S3FileSystem(anonymous=True, **options), root
        if found.scheme in _GOOGLE:
            root = f"anonymous@{root}"
        else:
            options["credential_kind"] = "anonymous"
    if found.scheme in _GOOGLE:
        options.setdefault("retry_limit_seconds", _RETRY_SECONDS)
    query = urlencode(options, safe=":/[]")
    system, key = fs.FileSystem.from_uri(f"{found.scheme}://{root}/?{query}".rstrip("?"))
    return system, key


def _decoded(name: str | bytes) -> str:
    """A name of metadata as text."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name


@contextmanager
def _answers(path: StorePath) -> Iterator[None]:
    """Replace an error of a store, which quotes requests, by one of ours."""
    why = ""
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        why = _reason(problem)
    if why:
        raise InputError(f"expected to read {path}, found that {why}")


def _reason(problem: Exception) -> str:
    """The reason that a store gave, in words of ours."""
    text = str(problem)
    known = next((what for word, what in _REASONS.items() if word in text), None)
    return known or "the store did not answer; check the address, the network and its settings in the environment"


_REASONS = {
    "NO_SUCH_BUCKET": "there is no such bucket; check the address",
    "ACCESS_DENIED": "it may not be read with the credentials of the environment; check them",
    "INVALID_ACCESS_KEY": "the credentials of the environment are not known to the store; check them",
    "SIGNATURE": "the credentials of the environment are not those of the store; check them",
    "NETWORK_CONNECTION": "the store did not answer; check the address, the network and its endpoint",
    "No such file": "there is no such file, or its name ends in '/', which is that of a folder; check the address",
}
