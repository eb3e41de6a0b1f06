"""Cryptographic random words: the only file that reads entropy.

A stream of 64-bit words is AES-256 in counter mode, under a fresh key from the operating system that is never stored.
The counter can be set to any position, so each chunk of rows takes its words from its own place in the stream, in any
thread and in any order, and no two rows share a word.

A release of a table may draw a batch of rows several times: a worker that dies is replaced. Its words therefore follow
from a key of the run and from all that the draw depends on (HKDF-SHA256, RFC 5869), so that every attempt draws the
same labels, and other true labels never meet the same words. ``docs/design/cluster.md`` has the proof.
"""

from __future__ import annotations

import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import numpy as np

from labeldp._own_files import OTHERS, is_own, objection
from labeldp._shapes import Int, UInt64
from labeldp.errors import OutputError

_WORDS_PER_BLOCK = 2  # an AES block is 128 bits
_ZEROS = memoryview(bytes(1 << 20))
_KEY_BYTES = 32
_IDENTIFIER = re.compile("[0-9a-f]{32}")


class WordSource(ABC):
    """A source of words for batches of rows.

    Attributes:
        private: Whether draws with these words may be called private.
    """

    private: bool

    @abstractmethod
    def of_batch(self, context: Callable[[], bytes]) -> Words:
        """The words of a batch, whose context is all that its draw depends on."""


class Words(WordSource):
    """A stream of uniform 64-bit words that can be read at any position."""

    def of_batch(self, context: Callable[[], bytes]) -> Words:
        """This stream, in which every row has its own place."""
        del context
        return self

    @abstractmethod
    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the stream."""

    def check_process(self) -> None:
        """Refuse to continue in a process other than the one that made the stream.

        Code that draws ahead calls it whenever foreign code may have run between a draw and its use.

        Raises:
            RuntimeError: This is another process.
        """


class _KeyedWords(Words):
    """AES-256 in counter mode under a key, in the process that made the stream alone."""

    private = True

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._process = os.getpid()

    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the stream."""
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415 (loads slowly)

        self.check_process()
        first, skip = divmod(start, _WORDS_PER_BLOCK)
        buffer = np.empty(skip + count, dtype=np.uint64)
        encryptor = Cipher(algorithms.AES(self._key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
        view = buffer.view(np.uint8).data
        for low in range(0, len(view), len(_ZEROS)):
            part = view[low : low + len(_ZEROS)]
            encryptor.update_into(_ZEROS[: len(part)], part)
        return buffer[skip:]

    def check_process(self) -> None:
        """Refuse to continue in a forked child."""
        if os.getpid() != self._process:
            raise RuntimeError("a stream of random words cannot be used in another process; make a new one")

    def __reduce__(self) -> str:
        raise TypeError("random words cannot be copied or stored")


class SecureWords(_KeyedWords):
    """Words under a fresh key of the operating system.

    Guarantee:
        * The key comes from ``os.urandom``, lives as long as this object, and is neither stored nor copied.
        * The stream refuses to work in any process but the one that made it: a forked child would repeat its parent's
          draws.
    """

    def __init__(self) -> None:
        super().__init__(os.urandom(_KEY_BYTES))


class DerivedWords(_KeyedWords):
    """Words of one batch of rows, under a key that follows from that of a run and from the batch's context."""


class _DerivedSource(WordSource):
    """A source whose words follow from a key and from the context of a batch."""

    private = True

    def of_batch(self, context: Callable[[], bytes]) -> DerivedWords:
        """The words of a batch: the same for the same context, and independent of those for any other."""
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415 (as above)
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        return DerivedWords(HKDF(SHA256(), _KEY_BYTES, salt=None, info=context()).derive(self._secret()))

    @abstractmethod
    def _secret(self) -> bytes:
        """The key of the run."""


class RunKey(_DerivedSource):
    """The key of one release, which words of its batches are derived from.

    Guarantee:
        * The key comes from ``os.urandom``. It is shown by no representation, and cannot be pickled or copied.
        * Another process gets it through ``store`` alone: a file for its owner that a run wipes at its end.
    """

    def __init__(self) -> None:
        self._key = os.urandom(_KEY_BYTES)

    def store(self, path: Path) -> KeyFile:
        """Write the key to a new file for its owner alone."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            os.fchmod(descriptor, 0o600)
            file.write(self._key)
            os.fsync(descriptor)
        return KeyFile(path)

    def _secret(self) -> bytes:
        return self._key

    def __reduce__(self) -> str:
        raise TypeError("the key of a release cannot be copied or stored; pass its file")


@dataclass(frozen=True)
class KeyFile(_DerivedSource):
    """The key of one release in a private file, which every batch reads anew: without it nothing more is drawn."""

    path: Path

    def _secret(self) -> bytes:
        found = b""
        with suppress(OSError), self._opened(os.O_RDONLY) as file:
            found = file.read(_KEY_BYTES + 1)
        if len(found) != _KEY_BYTES or not any(found):
            raise OutputError(
                f"expected to read the private files of the release in {self.path.parent}, found none; run workers as "
                "the user who releases, on a folder that all machines share (the release may also be over)"
            )
        return found

    def wipe(self) -> None:
        """Overwrite the key, and remove its file; nothing happens if it is gone."""
        with suppress(FileNotFoundError):
            with self._opened(os.O_RDWR) as file:
                file.write(bytes(_KEY_BYTES))
                os.fsync(file.fileno())
            self.path.unlink()

    @contextmanager
    def _opened(self, flags: int) -> Iterator[FileIO]:
        """The file, if it and its folder are this user's own and no links; to be read both must be private."""
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            descriptor = os.open(self.path.name, flags | os.O_NOFOLLOW, dir_fd=folder)
            with FileIO(descriptor, "rb" if flags == os.O_RDONLY else "rb+") as file:
                states = os.fstat(folder), os.fstat(descriptor)
                own = all(map(is_own, states)) and stat.S_ISREG(states[1].st_mode)
                if not own or (flags == os.O_RDONLY and any(objection(state, OTHERS) for state in states)):
                    raise PermissionError("expected a private file of this user, found another")
                yield file
        finally:
            os.close(folder)


class TapeWords(Words):
    """A fixed tape of words, repeated, for tests. Draws with it are NOT PRIVATE and are marked so."""

    private = False

    def __init__(self, tape: UInt64[np.ndarray, "m"]) -> None:
        self._tape = np.array(tape, dtype=np.uint64)

    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the repeated tape."""
        size = self._tape.size
        return self._tape[(start % size + np.arange(count)) % size]


class WatchedSource(WordSource):
    """Another source, and a record of whether words of it were asked for: until then, nothing random was drawn."""

    def __init__(self, source: WordSource) -> None:
        self._source = source
        self.private = source.private
        self._streams: list[WatchedWords] = []

    @property
    def taken(self) -> bool:
        """True if any words were read."""
        return any(stream.taken for stream in self._streams)

    def of_batch(self, context: Callable[[], bytes]) -> WatchedWords:
        """The words of a batch, with a record of their own."""
        self._streams.append(WatchedWords(self._source.of_batch(context)))
        return self._streams[-1]


class WatchedWords(Words):
    """The words of another stream, and a record of whether any were read: until then, nothing random was drawn."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self.private = words.private
        self.taken = False

    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the other stream."""
        self.taken = self.taken or count > 0
        return self._words.block(start, count)

    def check_process(self) -> None:
        """Delegate to the other stream."""
        self._words.check_process()


def random_order(rows: int) -> Int[np.ndarray, "rows"]:
    """The places 0 .. rows - 1 in a random order, from a fresh stream that nobody keeps."""
    return np.argsort(SecureWords().block(0, rows), kind="stable")


def secret_key() -> bytes:
    """A fresh key of 32 bytes, for whoever keeps it in a private file."""
    return os.urandom(_KEY_BYTES)


def identifier() -> str:
    """A random name for a release: 128 bits in hexadecimal, independent of the released values."""
    return os.urandom(16).hex()


def is_identifier(text: str) -> bool:
    """True for a name that ``identifier`` may have given."""
    return _IDENTIFIER.fullmatch(text) is not None
