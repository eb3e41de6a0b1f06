"""Standard output and error that may break at any time, which changes nothing of what a command has done."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast


class Stream:
    """A text stream that keeps its first failure instead of raising it; from then on, all that is written is dropped.

    Attributes:
        failure: The first failure, if any.
    """

    def __init__(self, stream: TextIO) -> None:
        self.failure: Exception | None = None
        self._stream = stream

    @property
    def lost(self) -> str:
        """The reason why something that was to be read is lost; empty if nothing is, or if the reader went away."""
        if not isinstance(self.failure, OSError) or self.failure.errno == errno.EPIPE:
            return ""
        return self.failure.strerror or type(self.failure).__name__

    def write(self, text: str) -> int:
        """Write a text."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write what is waiting."""
        self._attempt(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _attempt(self, work: Callable[[], object]) -> None:
        if self.failure is not None:
            return
        try:
            work()
        except (OSError, ValueError) as problem:  # a closed stream is a ValueError
            self.failure = problem
            self._drop()

    def _drop(self) -> None:
        """Lead what is still waiting nowhere, since the interpreter writes it at its end."""
        with suppress(OSError, ValueError):
            nowhere, descriptor = os.open(os.devnull, os.O_WRONLY), self._stream.fileno()
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


@contextmanager
def lasting_streams() -> Iterator[Stream]:
    """Standard output and error that never fail, for as long as a command runs; yields standard output."""
    before = sys.stdout, sys.stderr
    streams = [Stream(each if each is not None else open(os.devnull, "w", encoding="utf-8")) for each in before]  # noqa: SIM115 (they stay open)
    for stream in streams:
        if isinstance(stream._stream, io.TextIOWrapper):
            stream._stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, stream) for stream in streams)
    try:
        yield streams[0]
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before
