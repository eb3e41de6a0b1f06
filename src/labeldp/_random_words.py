"""Cryptographic random words: the only file that reads entropy.

A stream of 64-bit words is AES-256 in counter mode, under a fresh key from the operating system that is never stored.
The counter can be set to any position, so each chunk of rows takes its words from its own place in the stream, in any
thread and in any order, and no two rows share a word.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from labeldp._shapes import UInt64

_WORDS_PER_BLOCK = 2  # an AES block is 128 bits
_ZEROS = memoryview(bytes(1 << 20))


class Words(ABC):
    """A stream of uniform 64-bit words that can be read at any position.

    Attributes:
        private: Whether draws with these words may be called private.
    """

    private: bool

    @abstractmethod
    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the stream."""

    def check_process(self) -> None:  # noqa: B027 (fixed words belong to no process)
        """Refuse to continue in a process other than the one that made the stream.

        Code that draws ahead calls it whenever foreign code may have run between a draw and its use.

        Raises:
            RuntimeError: This is another process.
        """


class SecureWords(Words):
    """Words under a fresh key of the operating system.

    Guarantee:
        * The key comes from ``os.urandom``, lives as long as this object, and is neither stored nor copied.
        * The stream refuses to work in any process but the one that made it: a forked child would repeat its parent's
          draws.
    """

    private = True

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._process = os.getpid()

    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the stream."""
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


class TapeWords(Words):
    """A fixed tape of words, repeated, for tests. Draws with it are NOT PRIVATE and are marked so."""

    private = False

    def __init__(self, tape: UInt64[np.ndarray, "m"]) -> None:
        self._tape = np.array(tape, dtype=np.uint64)

    def block(self, start: int, count: int) -> UInt64[np.ndarray, "count"]:
        """The words ``start .. start + count - 1`` of the repeated tape."""
        return self._tape[np.arange(start, start + count) % self._tape.size]


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


def identifier() -> str:
    """A random name for a release: 128 bits in hexadecimal, independent of the released values."""
    return os.urandom(16).hex()
