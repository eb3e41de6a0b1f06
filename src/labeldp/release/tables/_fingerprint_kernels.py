"""Compiled loops of fingerprints: 64-bit hashes of values, and the smallest hashes of many rows."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import Word, kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Float64, Int64, UInt8, UInt64


@kernel("out")
def mix_all(words: UInt64[np.ndarray, "n"], key: Word, out: UInt64[np.ndarray, "n"]) -> None:
    """Mix each word with a key."""


@kernel("out")
def hash_whole(values: UInt64[np.ndarray, "n"], out: UInt64[np.ndarray, "n"]) -> None:
    """Hashes of whole numbers."""


@kernel("fine", "coarse")
def hash_floats(
    values: Float64[np.ndarray, "n"], missing: Word, fine: UInt64[np.ndarray, "n"], coarse: UInt64[np.ndarray, "n"]
) -> None:
    """Hashes of floats to 17 and to 6 binary digits; a float near a whole number has that number's hash."""


@kernel("out")
def hash_texts(offsets: Int64[np.ndarray, "e"], out: UInt64[np.ndarray, "n"], data: UInt8[np.ndarray, "m"]) -> None:
    """Hashes of texts, which lie one after the other: text i from the i-th offset on."""


@kernel("sums")
def sum_pairs(
    one: UInt64[np.ndarray, "n"],
    one_turned: UInt64[np.ndarray, "n"],
    other: UInt64[np.ndarray, "n"],
    other_turned: UInt64[np.ndarray, "n"],
    sums: UInt64[np.ndarray, "4"],
) -> None:
    """Sums of the hashes of pairs of words of two columns, each column in both directions."""


@kernel("out")
def hash_in_order(cells: UInt64[np.ndarray, "c block"], columns: int, out: UInt64[np.ndarray, "n"]) -> None:
    """Hashes of rows from the hashes of the first columns, which depend on the column of each."""


@kernel("total", "sums", "places", "values", "counts")
def sketch(
    cells: UInt64[np.ndarray, "c block"],
    starts: Int64[np.ndarray, "v1"],
    members: Int64[np.ndarray, "m"],
    limits: UInt64[np.ndarray, "v"],
    low: int,
    total: UInt64[np.ndarray, "n"],
    sums: UInt64[np.ndarray, "d"],
    places: UInt64[np.ndarray, "v room"],
    values: UInt64[np.ndarray, "v room"],
    counts: Int64[np.ndarray, "v"],
) -> None:
    """Add up the hashes of as many rows as there are cells of a column, and collect the small ones of each view.

    Args:
        cells: The hashes of each column.
        starts: The first member of each view, and their number.
        members: The columns that a view leaves out, and the complements of those that it has in addition.
        limits: The hashes of each view must be smaller.
        low: The row of the first cells.
        total: The hashes of all rows, of which these are filled in.
        sums: The sum of the hashes of each of the first columns, which make up a row, to which those here are added.
        places: The rows of the hashes that were collected, of each view.
        values: These hashes.
        counts: Their number, to which those here are added.
    """
