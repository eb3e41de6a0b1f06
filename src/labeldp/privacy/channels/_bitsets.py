"""Sets of classes as packed bits: one row of ``ceil(classes / 8)`` bytes, lowest class in the lowest bit."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Bool, Int, UInt8
from labeldp.privacy.channels._kernels import bits_of, count_no_sets, set_sizes


def pack(mask: Bool[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n b"]:
    """Pack a mask of classes into bytes."""
    return np.packbits(mask, axis=1, bitorder="little")


def unpack(packed: UInt8[np.ndarray, "n b"], classes: int) -> Bool[np.ndarray, "n k"]:
    """Unpack bytes into a mask of classes."""
    return np.asarray(np.unpackbits(packed, axis=1, count=classes, bitorder="little"), dtype=np.bool_)


def are_sets(packed: UInt8[np.ndarray, "n b"], classes: int) -> bool:
    """True if rows have a bit for each class, with at least one set, and none that stands for no class."""
    return packed.shape[1] == (classes + 7) // 8 and count_no_sets(packed, classes) == 0


def sizes(packed: UInt8[np.ndarray, "n b"]) -> np.ndarray:
    """Number of classes in each packed set."""
    counts = np.empty(len(packed), dtype=np.int64)
    set_sizes(packed, counts)
    return counts


def members(packed: UInt8[np.ndarray, "n b"]) -> tuple[Int[np.ndarray, "n1"], Int[np.ndarray, "m"]]:
    """The members of all sets, in declared order, one set after the other; those of set i begin at the i-th offset."""
    offsets = np.zeros(len(packed) + 1, dtype=np.int32)
    places = np.empty(int(np.bitwise_count(packed).sum()) + 1, dtype=np.int32)
    if len(places) > 1:
        bits_of(np.ascontiguousarray(packed), offsets[1:], places)
    return offsets, places[:-1]


def set_mask(released: np.ndarray, classes: int) -> Bool[np.ndarray, "n k"]:
    """Sets as a boolean mask, from packed bits or from a mask."""
    return released if released.dtype == np.bool_ else unpack(released, classes)
