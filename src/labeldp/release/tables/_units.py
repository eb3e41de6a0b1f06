"""Privacy units, in a table or beside an array: their rows, and the key of made-up numbers; and public clusters."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from labeldp._own_files import OTHERS, objection, replace_file
from labeldp._progress import Progress
from labeldp._random_words import secret_key
from labeldp._shapes import Int
from labeldp._spelling import canonical
from labeldp.columns import (
    array_or_none,
    as_array,
    is_bytes,
    is_text,
    kind_of,
    plain_column,
    plain_uuids,
    stored_integers,
)
from labeldp.errors import InputError, LedgerError, TableError
from labeldp.mechanisms.queries import cell_numbers
from labeldp.release.tables._batches import changed
from labeldp.release.tables._tables import Table, prefetch

_FEWEST_TO_SORT = 1 << 21
_POSITIVE = (1 << 63) - 1
_KEYS, _COUNTS = "unit-keys.npy", "unit-counts.npy"


@dataclass
class Units:
    """Number of rows of each unit, by a 64-bit key for each unit.

    Whole numbers are their own keys, other values are hashed. Two units with the same hash would count as one larger
    unit, which gets less epsilon per row, not more.
    """

    keys: Int[np.ndarray, "u"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    counts: Int[np.ndarray, "u"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _waiting: list[np.ndarray] = field(default_factory=list)

    def add(self, keys: Int[np.ndarray, "n"]) -> None:
        """Count the rows of a batch, by the keys of their units; batches are collected before they are sorted."""
        self._waiting.append(keys)
        if sum(map(len, self._waiting)) > max(self.keys.size, _FEWEST_TO_SORT):
            self.settle()

    def settle(self) -> None:
        """Count the collected batches."""
        keys, inverse = np.unique(np.concatenate([self.keys, *self._waiting]), return_inverse=True)
        weights = np.ones(inverse.size, dtype=np.int64)
        weights[: self.counts.size] = self.counts
        counts = np.zeros(keys.size, dtype=np.int64)
        np.add.at(counts, inverse, weights)
        self.keys, self.counts, self._waiting = keys, counts, []

    def merge(self, other: Units) -> None:
        """Count the rows of another part of the table."""
        keys = np.concatenate([self.keys, other.keys])
        counts = np.concatenate([self.counts, other.counts])
        self.keys, places = np.unique(keys, return_inverse=True)
        self.counts = np.zeros(self.keys.size, dtype=np.int64)
        np.add.at(self.counts, places, counts)

    def rows_per_unit(self, keys: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The number of rows in the whole table of each row's unit, by its key."""
        places = np.searchsorted(self.keys, keys)
        if keys.size and (places.max() >= self.keys.size or (self.keys[places] != keys).any()):
            raise changed("found a new unit")
        return np.asarray(self.counts[places])

    def store(self, folder: Path) -> None:
        """Write keys and counts to files, for workers that map them."""
        np.save(folder / _KEYS, self.keys)
        np.save(folder / _COUNTS, self.counts)

    @classmethod
    def stored(cls, folder: Path) -> Units:
        """The units of files, which are mapped: a worker reads those of its own rows."""
        return cls(np.load(folder / _KEYS, mmap_mode="r"), np.load(folder / _COUNTS, mmap_mode="r"))


def unit_keys(column: pa.Array, *, as_stored: bool = False, key: bytes = b"") -> Int[np.ndarray, "n"]:
    """A 64-bit key for each row's unit, which depends only on the row's value and its type.

    Whole numbers, dates and times are their own keys, other values are hashed; equal values have equal keys, and so
    have spellings that may be of one person, unless texts are taken as they are stored.

    Under a secret key they are made-up numbers of 63 bits, which show neither a value nor an order: all values are
    hashed, so that whole numbers and their texts have one number (keyed BLAKE2b, RFC 7693).
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise TableError(f"expected a unit in every row, found {column.null_count} rows without one; fill them in")
    column = stored_integers(plain_uuids(column))
    kind = column.type
    if pa.types.is_integer(kind) and not key:
        return as_array(column).astype(np.int64)
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        raise TableError(f"expected a unit column of plain values, found {kind}; name another column")
    plain = column.cast(pa.large_binary()) if is_text(kind) or is_bytes(kind) else column
    if pa.types.is_float16(kind):  # older versions of Arrow do not tell these apart
        plain = plain.cast(pa.float32())
    coded = plain.dictionary_encode()
    values = [(_stored_bytes if as_stored else _bytes)(value) for value in coded.dictionary.to_pylist()]
    keys = np.frombuffer(b"".join(hashlib.blake2b(v, digest_size=8, key=key).digest() for v in values), dtype=np.int64)
    keys = keys & _POSITIVE if key else keys
    return np.asarray(keys[as_array(coded.indices)])


def unit_numbers(units: object, count: int) -> Int[np.ndarray, "n"]:
    """The number of each row's unit, from 0.

    Raises:
        InputError: There is no unit for each row, or their values are of different kinds.
    """
    column = array_or_none(units)
    if column is None:
        raise InputError(
            "expected units that are all numbers, all texts or all dates, found something else "
            f"({kind_of(units)}); convert them to text"
        )
    if len(column) != count:
        raise InputError(f"expected a unit for each of the {count} labels, found {len(column)}")
    _, numbers = np.unique(unit_keys(plain_column(column)), return_inverse=True)
    return np.asarray(numbers, dtype=np.int64)


def _stored_bytes(value: object) -> bytes:
    """The bytes of a value, equal for 0.0 and -0.0."""
    return value if isinstance(value, bytes) else str(value + 0.0 if isinstance(value, float) else value).encode()


def _bytes(value: object) -> bytes:
    """The bytes of a value in its canonical spelling: one person's rows may come from two sources.

    Taking two people for one is safe: their rows share an epsilon that covers both.
    """
    text = _stored_bytes(value).decode("utf-8", "surrogateescape")
    return canonical(text).encode("utf-8", "surrogateescape")


#: The name of the file; with ``.labeldp-`` in it, a folder that is a table does not take it for a part.
_NAME = "units.labeldp-key"
_FORM = re.compile(rb"labeldp/unit-key/1\n([0-9a-f]{64})\n")
_MOST_BYTES = 128
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class UnitKey:
    """The key of made-up numbers of privacy units, in one private file beside the ledger, and whether it was just made.

    A number is a keyed hash of the canonical spelling of a unit. So people who return keep their number, nothing grows
    or can be lost but the key, and without the key no number can be computed from an identifier. Two units with one
    number are one unit throughout the release, as two units with one hash are elsewhere: they share an epsilon.

    The secret itself is in no object that a worker gets.
    """

    path: Path
    is_new: bool = False

    @classmethod
    def in_folder(cls, folder: Path) -> UnitKey:
        """The key of a folder, which is made if there is none; the caller holds the lock of the folder.

        Raises:
            OSError: It cannot be written.
        """
        path = folder / _NAME
        is_new = not os.path.lexists(path)
        if is_new:
            replace_file(path, lambda file: file.write(f"labeldp/unit-key/1\n{secret_key().hex()}\n".encode()))
        return cls(path, is_new)

    def read(self) -> bytes:
        """The key.

        Raises:
            LedgerError: The file is gone, is not this user's alone, or has another form.
        """
        found = None
        with suppress(OSError):
            found = _FORM.fullmatch(self._content())
        if found is None:
            raise LedgerError(
                f"the key of made-up numbers in {self.path} is missing, damaged, or not yours alone. Restore your copy "
                "(chmod 600): a new key gives everybody a new number. A key serves only the user who made it"
            )
        return bytes.fromhex(found[1].decode())

    def _content(self) -> bytes:
        """The bytes of the file; none if others can read it or could have written it."""
        with os.fdopen(os.open(self.path, _FLAGS), "rb") as file:
            return b"" if objection(os.fstat(file.fileno()), OTHERS) else file.read(_MOST_BYTES)


def clusters_of(
    table: Table, clusters: str | Int[np.ndarray, "n"], rows_per_batch: int, report: Progress
) -> Int[np.ndarray, "n"]:
    """The number of each row's cluster, from 0: as passed, or numbered by the keys of a column's values.

    Different spellings are different clusters: these are public groups of rows, not people, and none is protected by
    merging two. This takes four bytes per row.

    Raises:
        InputError: The numbers are not whole numbers from 0.
        TableError: The column has a missing value, or the table no rows.
    """
    if not isinstance(clusters, str):
        return cell_numbers(clusters).astype(np.int32)
    numbers: dict[int, int] = {}
    parts, done = [], 0
    for batch in prefetch(table.batches([clusters], rows_per_batch)):
        if batch[clusters].null_count:
            raise TableError(f"expected a cluster in every row of {clusters!r}, found missing ones; fill them in")
        keys, places = np.unique(unit_keys(batch[clusters], as_stored=True), return_inverse=True)
        cells = np.array([numbers.setdefault(int(key), len(numbers)) for key in keys], dtype=np.int32)
        parts.append(cells[places])
        done += batch.num_rows
        report("clusters", done, 0)
    if not done:
        raise TableError(f"expected at least one row in {table.path}, found none")
    ranks = np.argsort(np.argsort(np.fromiter(numbers, dtype=np.int64))).astype(np.int32)
    return np.asarray(ranks[np.concatenate(parts)])
