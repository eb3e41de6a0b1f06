"""Compiled loops of fingerprints: 64-bit hashes of values, and the smallest hashes of many rows."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled

_WHOLE = np.uint64(0x6A09E667F3BCC909)
_FINE = np.uint64(0xBB67AE8584CAA73B)
_COARSE = np.uint64(0x3C6EF372FE94F82B)
_TEXT = np.uint64(0xA54FF53A5F1D36F1)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
MISSING = np.uint64(0x510E527FADE682D1)
_MOST = 9007199254740992.0  # whole numbers up to here are floats
_NEAR = 1e-6
_BLOCK = 512


@compiled()
def mixed(x):
    """A bijection of 64-bit words whose outputs look independent (Steele, Lea and Flood 2014)."""
    x += _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@compiled()
def mix_all(words, key, out):
    """Mix each word with a key."""
    for i in range(words.size):
        out[i] = mixed(words[i] ^ key)


@compiled()
def hash_whole(values, out):
    """Hashes of whole numbers."""
    for i in range(values.size):
        out[i] = mixed(np.uint64(values[i]) ^ _WHOLE)


@compiled()
def hash_floats(values, bits, fine, coarse):
    """Hashes of floats to 17 and to 6 binary digits; a float near a whole number has that number's hash.

    ``bits`` are the floats as integers: adding half of the last digit that is kept rounds, with a carry into the
    exponent. In blocks without whole or missing numbers no loop branches, so that a processor does several at a time.
    """
    for low in range(0, values.size, _BLOCK):
        some = slice(low, min(low + _BLOCK, values.size))
        special = 0
        for value in values[some]:
            special += 0 if abs(value - np.rint(value)) > _NEAR else 1
        _rounded(bits[some], np.uint64(35), _FINE, fine[some])
        _rounded(bits[some], np.uint64(46), _COARSE, coarse[some])
        if special:
            _whole_or_missing(values[some], fine[some], coarse[some])


@compiled()
def _rounded(bits, digits, key, out):
    """Hashes of floats whose last digits are rounded off."""
    half = np.uint64(1) << (digits - np.uint64(1))
    for i in range(bits.size):
        out[i] = mixed(((bits[i] + half) >> digits) ^ key)


@compiled()
def _whole_or_missing(values, fine, coarse):
    """Replace the hashes of floats near whole numbers by those of these, and of missing ones."""
    for i in range(values.size):
        value = values[i]
        near = np.rint(value)
        if np.isnan(value):
            fine[i] = coarse[i] = MISSING
        elif abs(near) < _MOST and abs(value - near) <= _NEAR:
            fine[i] = coarse[i] = mixed(np.uint64(np.int64(near)) ^ _WHOLE)


@compiled()
def hash_texts(offsets, data, out):
    """Hashes of texts, which lie one after the other."""
    for i in range(out.size):
        state, word, held = _TEXT, np.uint64(0), 0
        for j in range(offsets[i], offsets[i + 1]):
            word = (word << np.uint64(8)) | np.uint64(data[j])
            held += 1
            if held == 8:
                state, word, held = mixed(state ^ word), np.uint64(0), 0
        out[i] = mixed(state ^ word ^ (np.uint64(held) << np.uint64(56)))


@compiled()
def _added(some, part):
    """Add hashes to others; return the sum of all of them."""
    whole = np.uint64(0)
    for i in range(some.size):
        some[i] += part[i]
        whole += part[i]
    return whole


@compiled()
def _take_off(some, part):
    """Subtract hashes from others."""
    for i in range(some.size):
        some[i] -= part[i]


@compiled()
def _below(some, limit, first, places, values):
    """Collect hashes below a limit, and their places from the first on; return their number.

    Few blocks have any, once the limit is small; to count comes first because a processor compares several at a time.
    """
    count = 0
    for i in range(some.size):
        count += 1 if some[i] < limit else 0
    if count:
        count = 0
        for i in range(some.size):
            if some[i] < limit:
                places[count] = first + i
                values[count] = some[i]
                count += 1
    return count


@compiled()
def sum_pairs(one, one_turned, other, other_turned):
    """Sums of the hashes of pairs of words of two columns, each column in both directions.

    Which column comes first does not matter, and neither does the order of rows.
    """
    sums = np.zeros(4, np.uint64)
    for i in range(one.size):
        sums[0] += mixed(one[i] + other[i])
        sums[1] += mixed(one_turned[i] + other[i])
        sums[2] += mixed(one[i] + other_turned[i])
        sums[3] += mixed(one_turned[i] + other_turned[i])
    return sums


@compiled()
def hash_in_order(cells, columns, out):
    """Hashes of rows from the hashes of the first columns, which depend on the column of each."""
    out[:] = 0
    for j in range(columns):
        for i in range(out.size):
            out[i] = out[i] * _FIRST + cells[j, i]


@compiled()
def sketch(cells, starts, members, limits, low, total, sums, places, values, counts):
    """Add up the hashes of as many rows as there are cells of a column, and collect the small ones of each view.

    Hashes are added modulo 2**64, so that the order of columns does not matter. Rows are taken in blocks that stay in
    a processor's nearest cache.

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
    part, size = np.empty(_BLOCK, np.uint64), min(cells.shape[1], total.size - low)
    for first in range(0, size, _BLOCK):
        stop = min(first + _BLOCK, size)
        rows = total[low + first : low + stop]
        rows[:] = 0
        for j in range(sums.size):
            sums[j] += _added(rows, cells[j, first:stop])
        for view in range(limits.size):
            some = part[: rows.size]
            some[:] = rows
            for member in members[starts[view] : starts[view + 1]]:
                if member >= 0:
                    _take_off(some, cells[member, first:stop])
                else:
                    _added(some, cells[~member, first:stop])
            count = counts[view]
            counts[view] += _below(some, limits[view], low + first, places[view, count:], values[view, count:])
