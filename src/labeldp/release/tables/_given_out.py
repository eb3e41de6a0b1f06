"""Whole numbers that were given out, as identifiers are, beside those that were measured."""

from __future__ import annotations

import numpy as np

from labeldp._shapes import Int, UInt64
from labeldp.release.tables._cell_hashes import whole_hashes

#: Expected pairs of equal whole numbers, of which measurements would show one.
_COINCIDENCES = 10.0
#: Numbers of a block, whose codes follow each other: a multiple of the steps, and less than the codes of a block.
_BLOCK, _CODES = 4000, 0xFFF
_STEPS = (1000, 500, 200, 100, 50, 20, 10, 5, 4, 2, 1)
_LONGEST_STEP = 100
#: Values in more rows than these are categories.
MOST_ROWS = 50
_FEWEST_PAIRS = 6
_SMOOTH = 0.3
#: Two of ten last digits have a fifth of the numbers that were given out.
_TWO_DIGITS, _MOST_OF_TWO = 0.2, 0.35


def number_rows(count: int, low: int, high: int) -> bool:
    """True if so many different whole numbers lie so near each other that they were not measured, but given out.

    Measured independently, whatever their distribution, n values among r numbers would all be different with a
    probability of at most ``exp(-n (n - 1) / 2 r)``, which is here below one in 22 000, or r is at most n.

    References:
        Bloom 1973, for even shares as those with the fewest coincidences.
    """
    numbers = high - low + 1
    return bool(numbers <= count or count * (count - 1) >= 2 * _COINCIDENCES * numbers)


def block_codes(whole: Int[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
    """Codes of whole numbers: hashes of blocks, in which numbers that follow each other have codes that do."""
    blocks, places = np.divmod(whole, _BLOCK)
    return (whole_hashes(blocks) & np.uint64(~_CODES & (1 << 64) - 1)) | places.astype(np.uint64)


def given_out(codes: UInt64[np.ndarray, "m"], times: Int[np.ndarray, "m"]) -> bool:
    """True if the rows of different whole numbers are not as independent measurements would spread them.

    Measured independently with a smooth density, a number has as many rows as its neighbour up to chance, so the mean
    square of the rows of a number exceeds the mean product with those of its neighbour by their mean (``excess`` is 1).
    A person with as many rows as any other makes it less. Identifiers that lie apart, or people with different numbers
    of rows, make it more. So do round numbers and steep densities, whose digits and neighbours show it: these are
    measurements. Numbers in more than 50 rows are left out.

    Args:
        codes: The ``block_codes`` of all different numbers, or of those in some blocks, ascending.
        times: The rows of each.
    """
    places = (codes & np.uint64(_CODES)).astype(np.int64)
    step = next(step for step in _STEPS if not ((places - places[0]) % step).any())
    if step > _LONGEST_STEP:
        return False
    rows = np.where(times <= MOST_ROWS, times, 0).astype(np.float64)
    together = np.diff(codes) == np.uint64(step)
    one, other = rows[:-1][together], rows[1:][together]
    total = max(rows.sum(), 1.0)
    near = (one * other).sum() / total
    excess = (rows * rows).sum() / total - near
    error = np.sqrt(2.0 / rows.size)
    if excess < 1.0 - 4.0 * error:
        return True
    more = excess > 1.0 + 6.0 * error and excess - 1.0 > 0.1
    return (
        bool(more) and not _is_round(places // step, rows * np.maximum(rows - 1.0, 0.0)) and not _is_steep(one, other)
    )


def _is_round(numbers: Int[np.ndarray, "m"], pairs: np.ndarray) -> bool:
    """True if two last digits have many more of the numbers than others, as 0 and 5 of sums that people state.

    The digits are counted for numbers that repeat, and for pairs of equal rows, most of which a few numbers may have.
    """
    digits = numbers % 10
    for weights in ((pairs > 0).astype(np.float64), pairs):
        total = max(weights.sum(), 1.0)
        two = np.sort(np.bincount(digits, weights, 10))[-2:].sum() / total
        error = np.sqrt(_TWO_DIGITS * (1.0 - _TWO_DIGITS) * (weights * weights).sum()) / total
        if two > max(_MOST_OF_TWO, _TWO_DIGITS + 4.0 * error):
            return True
    return False


def _is_steep(one: np.ndarray, other: np.ndarray) -> bool:
    """True if numbers with many rows have neighbours with many, so that a density explains the difference."""
    known = (one > 0) & (other > 0)
    first, second = np.log(one[known]), np.log(other[known])
    if first.size < _FEWEST_PAIRS or not np.ptp(first) or not np.ptp(second):
        return False
    return bool(np.corrcoef(first, second)[0, 1] > _SMOOTH)
