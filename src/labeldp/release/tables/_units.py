"""Units of protection: how many rows each has, in a table or beside an array of labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from labeldp.errors import TableError

_FEWEST_TO_SORT = 1 << 21


@dataclass
class Units:
    """How many rows each unit has, by a 64-bit number for each unit.

    Whole numbers stand for themselves and other values for a hash of their text. Two units with one hash would be
    taken for one larger unit, which gets less epsilon for each row, not more.
    """

    keys: Int[np.ndarray, "u"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    counts: Int[np.ndarray, "u"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    _waiting: list[np.ndarray] = field(default_factory=list)

    def add(self, column: pa.Array) -> None:
        """Count the rows of a batch; batches wait until they are worth a sort of all units."""
        self._waiting.append(unit_keys(column))
        if sum(map(len, self._waiting)) > max(self.keys.size, _FEWEST_TO_SORT):
            self.settle()

    def settle(self) -> None:
        """Count the batches that wait."""
        keys, inverse = np.unique(np.concatenate([self.keys, *self._waiting]), return_inverse=True)
        weights = np.ones(inverse.size, dtype=np.int64)
        weights[: self.counts.size] = self.counts
        counts = np.zeros(keys.size, dtype=np.int64)
        np.add.at(counts, inverse, weights)
        self.keys, self.counts, self._waiting = keys, counts, []

    def rows_per_unit(self, column: pa.Array) -> Int[np.ndarray, "n"]:
        """For each row of a batch, how many rows its unit has in the whole table."""
        return np.asarray(self.counts[np.searchsorted(self.keys, unit_keys(column))])


def unit_keys(column: pa.Array) -> Int[np.ndarray, "n"]:
    """A 64-bit number for each row's unit, which depends on the row's value and on its type alone.

    Whole numbers, dates and times stand for themselves, other values for a hash of their bytes; two values that
    are equal have one number.

    Raises:
        TableError: A unit is missing, or the values are nested.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.null_count:
        raise TableError(f"expected a unit in every row, found none in {column.null_count}; fill it in")
    kind = column.type
    if pa.types.is_integer(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        whole = pa.int32() if kind.bit_width == 32 else pa.int64()
        return np.asarray(column.view(whole).to_numpy(zero_copy_only=False)).astype(np.int64)
    if pa.types.is_nested(kind) or pa.types.is_interval(kind):
        raise TableError(f"expected a unit column of plain values, found {kind}; name another")
    plain = column.cast(pa.large_binary()) if _is_bytes(kind) else column
    coded = plain.dictionary_encode()
    values = [_bytes(value) for value in coded.dictionary.to_pylist()]
    keys = np.frombuffer(b"".join(hashlib.blake2b(v, digest_size=8).digest() for v in values), dtype=np.int64)
    return np.asarray(keys[coded.indices.to_numpy(zero_copy_only=False)])


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        (
            pa.types.is_string(kind),
            pa.types.is_large_string(kind),
            pa.types.is_string_view(kind),
            pa.types.is_binary(kind),
            pa.types.is_large_binary(kind),
            pa.types.is_binary_view(kind),
            pa.types.is_fixed_size_binary(kind),
        )
    )


def _bytes(value: object) -> bytes:
    """The bytes of a value; 0.0 and -0.0 are one value."""
    if isinstance(value, bytes):
        return value
    return repr(value + 0.0 if isinstance(value, float) else value).encode()
