"""Files of web servers: each is fetched once, into a private copy without a name, and read from that.

Why a copy, and neither requests for ranges nor a library: a release reads its table several times. What is checked is
then what is released, whatever the server answers later, and not every server knows ranges. A copy without a name is
left behind by no signal.
"""

from __future__ import annotations

import errno
import mmap
import shutil
import ssl
import string
import tempfile
from collections.abc import Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, NoReturn
from urllib import request
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from labeldp._progress import Progress, silent
from labeldp.errors import InputError

#: The most bytes of a file; seconds to wait for the next bytes; bytes of a block.
_LARGEST, _TIMEOUT, _BLOCK = 1 << 36, 60.0, 1 << 22
_FORBIDDEN = "it may not be read without credentials, which are not taken; download the file, and name its path"
_GONE = "there is no such file; check the address"
_REASONS = {401: _FORBIDDEN, 403: _FORBIDDEN, 404: _GONE, 407: _FORBIDDEN, 410: _GONE}
_UNTRUSTED = (
    "its certificate is not one that this machine trusts; check the address, or name the authority in SSL_CERT_FILE"
)
_SILENT = "the server did not answer, or broke off; check the address and the network, and try again"


class WebFile(fs.FileSystemHandler):  # type: ignore[misc]
    """The file system of one file of a web server, which can only be read; it is fetched when it is first asked for.

    Args:
        address: The address.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._copy: mmap.mmap | bytes | None = None  # which no other process can be given

    def fetch(self, report: Progress = silent) -> mmap.mmap | bytes:
        """Fetch the file, unless it is there; its bytes.

        Raises:
            InputError: It could not be fetched, or not all of it.
        """
        if self._copy is None:
            self._copy = _fetched(self._address, report)
        return self._copy

    def get_type_name(self) -> str:
        """The name of this kind of file system."""
        return "web"

    def normalize_path(self, path: str) -> str:
        """The path as it is."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """The size of the file."""
        return [fs.FileInfo(path, fs.FileType.File, size=len(self.fetch())) for path in paths]

    def open_input_file(self, _: str) -> pa.NativeFile:
        """The file, to be read at any place."""
        return pa.BufferReader(pa.py_buffer(self.fetch()))

    def get_file_info_selector(self, *_: object) -> NoReturn:
        """Refuse to list a folder.

        Raises:
            InputError: Always.
        """
        raise InputError(
            f"expected a folder on a disk or in an object store, found {self._address}: of a web server single files "
            "are read alone; download the folder, and name its path"
        )

    open_input_stream = open_input_file
    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = get_file_info_selector
    move = copy_file = open_output_stream = open_append_stream = get_file_info_selector


class _UnfitError(Exception):
    """The reason, in words of ours, for which a file is not taken."""


class _OnlyHttps(request.HTTPRedirectHandler):
    """Follows redirects to ``https`` alone: others on the way could change what comes without it."""

    def redirect_request(
        self, req: request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> request.Request | None:
        """The next request."""
        fp.close()  # else all of a body without an end is read
        if urlsplit(newurl).scheme != "https":
            raise _UnfitError("the server leads to an address that is not https://; others could change the file")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetched(address: str, report: Progress) -> mmap.mmap | bytes:
    """The bytes of a file.

    Raises:
        InputError: It could not be fetched, or not all of it; no body and no other address is quoted.
    """
    opener = request.build_opener(request.HTTPSHandler(context=ssl.create_default_context()), _OnlyHttps)
    wanted = request.Request(quote(address, safe=string.punctuation), headers={"User-Agent": "labeldp"})  # noqa: S310 (https)
    try:
        with opener.open(wanted, timeout=_TIMEOUT) as response:
            return _saved(response, packed=address.lower().endswith(".gz"), report=report)
    except (OSError, HTTPException, ValueError, OverflowError, _UnfitError) as problem:
        why = _reason(problem)
    raise InputError(f"expected to read {address}, found that {why}")


def _saved(response: HTTPResponse, report: Progress, *, packed: bool) -> mmap.mmap | bytes:
    """The body of an answer, in a file without a name that this process alone has open."""
    size, done = response.length, 0
    if response.status != 200:
        raise _UnfitError(f"the server answered {response.status}; download the file, and name its path")
    if size is None and not response.chunked:
        raise _UnfitError("the server does not say where the file ends; download the file, and name its path")
    if response.headers.get("Content-Encoding", "identity") != "identity" and not packed:
        raise _UnfitError("the server packed it on its way; download the file, and name its path")
    most = min(_LARGEST, shutil.disk_usage(tempfile.gettempdir()).free)
    with tempfile.TemporaryFile() as file:
        while True:
            if max(size or 0, done) > most:
                raise _UnfitError(
                    f"it has more than the {most:,} bytes that a copy of it may have in {tempfile.gettempdir()}; set "
                    "TMPDIR to a larger disk, or put it into an object store"
                )
            report("fetch", done, size or 0)
            if not (block := response.read(_BLOCK)):
                break
            file.write(block)
            done += len(block)
        if size not in (None, done):
            raise _UnfitError(f"it broke off after {done:,} of {size:,} bytes; try again")
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if done else b""


def _reason(problem: Exception) -> str:
    """The reason of a failure, in words of ours."""
    if isinstance(problem, _UnfitError):
        return str(problem)
    if isinstance(problem, HTTPError):
        problem.close()
        return _REASONS.get(problem.code, f"the server answered {problem.code}; try again later")
    if isinstance(problem, OSError) and problem.errno == errno.ENOSPC:
        return f"there is no space for a copy of it in {tempfile.gettempdir()}; set TMPDIR to a larger disk"
    return _UNTRUSTED if isinstance(getattr(problem, "reason", None), ssl.SSLCertVerificationError) else _SILENT
