"""Views of one output: its bits, residues and parities of bits, for leaks that no range of values shows.

An output is read as a row of 64-bit words: a whole number as itself, any other as the bits of its float. A view is
fitted to some draws of each input and then fixed; it sends a row of words to a cell. ``VIEWS`` lists them. A view that
found nothing on the draws that it was fitted to is left out, so that sound mechanisms are not slowed down by it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from labeldp._hashes import mixed
from labeldp._shapes import Bool, Float, Int, UInt64

#: Words of rows to their cells.
Codes = Callable[[Int[np.ndarray, "n d"]], Int[np.ndarray, "n"]]
#: A bit of a row: that of a column, or, at a place of -1, its being at least a threshold.
_Bit = tuple[int, int, int]

_WORD = 64
_LOW = 512
_SPECIALS = 509
#: Floats that are whole multiples of two to minus this, or finer.
_FINEST = 80
_LARGEST_MODULUS = 1024
#: Draws, of all inputs together, to which moduli are fitted.
_FITTED = 1024
#: Rows of at most so many columns show all bits of their words.
_BITWISE_COLUMNS = 8
_MOST_BITS = 512
#: Words of 64 draws, over bits and inputs, that pairs or triples of bits may take; fewer draws are used of more bits.
_WORK = 1 << 21
#: Most parities in a view, and standard errors from which on one is kept.
_PARITIES = 4
_SIGNIFICANT = 5.5
_SPARE_ROWS = 64
#: Most inputs that are compared with the first by linear algebra.
_SOLVED = 4


def as_words(rows: Float[np.ndarray, "n d"], whole: bool) -> Int[np.ndarray, "n d"]:
    """Rows of floats as words: their bits, or, if ``whole``, whole numbers as themselves."""
    bits = np.ascontiguousarray(rows).view(np.int64)
    if not whole:
        return bits
    fits = (np.abs(rows) < 2.0**63) & (rows == np.floor(rows)) & ~((rows == 0) & np.signbit(rows))
    return np.where(fits, np.where(fits, rows, 0.0).astype(np.int64), bits)


def fit_views(lines: Sequence[np.ndarray], whole: bool) -> dict[str, tuple[Codes, int]]:
    """Views that may distinguish inputs, by name: each with its codes and their number."""
    fitted = {name: fit(lines, whole) for name, fit in VIEWS.items()}
    return {name: view for name, view in fitted.items() if view is not None}


def _fit_low_bits(lines: Sequence[np.ndarray], whole: bool) -> tuple[Codes, int] | None:
    """Lowest bits of a number; zeros, infinities and NaNs by all their bits."""
    del whole
    return (_low_bits, _LOW + _SPECIALS) if lines[0].shape[1] == 1 else None


def _low_bits(words: Int[np.ndarray, "n 1"]) -> Int[np.ndarray, "n"]:
    codes = words[:, 0] & (_LOW - 1)
    floats = words[:, 0].view(np.float64)
    special = np.flatnonzero(~np.isfinite(floats) | (floats == 0))
    codes[special] = _LOW + mixed(words[special, 0].view(np.uint64)) % np.uint64(_SPECIALS)
    return codes


def _fit_last_bit(lines: Sequence[np.ndarray], whole: bool) -> tuple[Codes, int] | None:
    """Lowest set bit of a float, and its being below one half.

    A sum of a label and noise is rounded to the bits of the larger one, so low bits of a small sum reveal the label.

    References:
        Mironov 2012.
    """
    return None if whole or lines[0].shape[1] > 1 else (_last_bit, 2 * (_FINEST + 1) + 1)


def _last_bit(words: Int[np.ndarray, "n 1"]) -> Int[np.ndarray, "n"]:
    drawn = words[:, 0].view(np.float64)
    known = np.isfinite(drawn)
    part, exponent = np.frexp(np.where(known, drawn, 0.0))
    whole = np.abs(np.ldexp(part, 53)).astype(np.int64)
    last = exponent - 53 + np.frexp((whole & -whole).astype(np.float64))[1]
    fine = np.where(whole == 0, 0, np.clip(-last, 0, _FINEST))
    return np.where(known, 2 * fine + (np.abs(drawn) < 0.5), 2 * (_FINEST + 1))


def _fit_residues(lines: Sequence[np.ndarray], whole: bool) -> tuple[Codes, int] | None:
    """Residues of whole numbers modulo what distinguishes inputs best, up to 1 024 or their own lattice."""
    if not whole or lines[0].shape[1] > 1:
        return None
    parts = np.array([words[: max(1, _FITTED // len(lines)), 0] for words in lines])
    lattice = int(np.gcd.reduce(parts - parts[:, :1], axis=None))
    odd = range(3, _LARGEST_MODULUS, 2)  # the bits show the powers of two, and this the rest of an even modulus
    excess = {m: _excess(parts, m) for m in (*odd, lattice) if m > 1}
    best = max(excess, key=lambda m: excess[m])
    return (partial(_residues, best), _LARGEST_MODULUS) if excess[best] > _SIGNIFICANT else None


def _residues(modulus: int, words: Int[np.ndarray, "n 1"]) -> Int[np.ndarray, "n"]:
    return words[:, 0] % modulus % _LARGEST_MODULUS if modulus > _LARGEST_MODULUS else words[:, 0] % modulus


def _excess(parts: Int[np.ndarray, "l n"], modulus: int) -> float:
    """Standard errors by which residues differ between inputs more than by chance (chi-square)."""
    size = min(modulus, _LARGEST_MODULUS)
    cells = _residues(modulus, parts.reshape(-1, 1)).reshape(parts.shape) + size * np.arange(len(parts))[:, None]
    counts = np.bincount(cells.ravel(), minlength=size * len(parts)).reshape(len(parts), size)
    pooled = counts.sum(axis=0)
    freedom = max(1, (len(parts) - 1) * (int(np.count_nonzero(pooled)) - 1))
    chi_square = len(parts) * float(((counts**2).sum(axis=0) / np.maximum(pooled, 1)).sum()) - cells.size
    return (chi_square - freedom) / math.sqrt(2 * freedom)


def _fit_parities(lines: Sequence[np.ndarray], whole: bool) -> tuple[Codes, int] | None:
    """Parities of bits: of up to three that differ between inputs, and of any number that one equation fixes."""
    bits = _bits_of(lines, whole) if min(map(len, lines)) >= _WORD else []
    if not bits:
        return None
    columns = [np.column_stack([_bit(words, bit) for bit in bits]) for words in lines]
    different = {each.tobytes(): place for place, each in enumerate(np.packbits(np.concatenate(columns), axis=0).T)}
    kept = sorted(different.values())
    columns = [each[:, kept] for each in columns]
    solved = [_solve(columns[0], other) for other in columns[1 : _SOLVED + 1]]
    chosen = [*dict.fromkeys(filter(None, solved)), *_significant(columns)][:_PARITIES]
    parities = [[bits[kept[place]] for place in each] for each in chosen]
    return (partial(_parity_code, parities), 1 << len(parities)) if parities else None


def _bits_of(lines: Sequence[np.ndarray], whole: bool) -> list[_Bit]:
    """Bits of rows: every column's being at least its median, its lowest bit, and all bits if columns are few."""
    width = lines[0].shape[1]
    pooled = np.concatenate([words[:_FITTED] for words in lines])
    median = np.sort(pooled, axis=0)[len(pooled) // 2]
    smallest = pooled.min(axis=0)
    steps = np.where(median > smallest, median, median + (median < np.iinfo(np.int64).max))
    above = [(column, -1, int(step)) for column, step in enumerate(steps)]
    places = range(_WORD) if width <= _BITWISE_COLUMNS else range(int(whole))
    return [*((column, place, 0) for column in range(width) for place in places), *above][:_MOST_BITS]


def _bit(words: Int[np.ndarray, "n d"], bit: _Bit) -> Bool[np.ndarray, "n"]:
    column, place, step = bit
    return words[:, column] >= step if place < 0 else (words[:, column] >> place) & 1 == 1


def _parity_code(parities: Sequence[Sequence[_Bit]], words: Int[np.ndarray, "n d"]) -> Int[np.ndarray, "n"]:
    codes = np.zeros(len(words), dtype=np.intp)
    for number, parity in enumerate(parities):
        odd = np.zeros(len(words), dtype=bool)
        for bit in parity:
            odd ^= _bit(words, bit)
        codes |= odd.astype(np.intp) << number
    return codes


def _significant(columns: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """Bits, pairs and triples whose parity differs most between inputs, in standard errors; the largest first."""
    bits, width = [_packed(each) for each in columns], columns[0].shape[1]
    found = _far_apart((), bits)
    for order in (1, 2):
        few = [each[:, : int(_WORK / len(bits) / width ** (order + 1))] for each in bits]
        for first in range(width if few[0].shape[1] else 0):
            odd = [each[first] ^ each for each in few]
            found += _far_apart(
                (first,), odd if order == 1 else [a[:, None] ^ b for a, b in zip(odd, few, strict=True)]
            )
    return [parity for _, parity in sorted(found, key=lambda pair: (-pair[0], len(pair[1])))]


def _packed(columns: Bool[np.ndarray, "n f"]) -> UInt64[np.ndarray, "f w"]:
    """Draws of each bit as words of 64 draws; the last draws, too few for a word, are left out."""
    whole = np.ascontiguousarray(columns[: len(columns) // _WORD * _WORD].T)
    return np.packbits(whole, axis=1).view(np.uint64)


def _far_apart(first: tuple[int, ...], odd: Sequence[np.ndarray]) -> list[tuple[float, tuple[int, ...]]]:
    """Parities of the first bits and later ones that differ significantly between inputs, with standard errors."""
    shares = [np.bitwise_count(each).sum(axis=-1, dtype=np.int64) / (_WORD * each.shape[-1]) for each in odd]
    spread = np.ptp(shares, axis=0) * math.sqrt(2 * _WORD * odd[0].shape[-1])
    parities = [(*first, *place) for place in np.argwhere(spread > _SIGNIFICANT).tolist()]
    rising = [parity for parity in parities if all(one < other for one, other in itertools.pairwise(parity))]
    return [(float(spread[parity[len(first) :]]), parity) for parity in rising]


def _solve(first: Bool[np.ndarray, "n f"], second: Bool[np.ndarray, "n f"]) -> tuple[int, ...]:
    """Bits whose parity is one constant under one input and the other under another; empty if there are none.

    Gaussian elimination over two elements: a row of bits is an integer, whose two highest bits are the constant and the
    input. Enough rows are taken for a wrong solution to fit with a chance of 2^-64.
    """
    width = first.shape[1]
    count = width // 2 + _SPARE_ROWS
    if min(len(first), len(second)) < count:
        return ()
    pivots: dict[int, int] = {}
    for rows, label in ((first[:count], 0), (second[:count], 1)):
        for bits in np.packbits(rows, axis=1, bitorder="little"):
            row = int.from_bytes(bits.tobytes(), "little") | 1 << width | label << (width + 1)
            while row:
                low = (row & -row).bit_length() - 1
                if low not in pivots:
                    pivots[low] = row
                    break
                row ^= pivots[low]
            if width + 1 in pivots:  # the input does not follow from the bits
                return ()
    solution = 0  # by substitution from the last pivot; free bits are zero
    for low in sorted(pivots, reverse=True):
        rest = pivots[low] >> (low + 1) << (low + 1)
        value = (rest >> (width + 1) & 1) ^ ((rest & solution).bit_count() & 1)
        solution |= value << low
    return tuple(place for place in range(width) if solution >> place & 1)


#: Views of rows of words, by the name of an event.
VIEWS: dict[str, Callable[[Sequence[np.ndarray], bool], tuple[Codes, int] | None]] = {
    "an output by its lowest bits": _fit_low_bits,
    "an output by its size and low bits": _fit_last_bit,
    "an output by its residue": _fit_residues,
    "an output by parities of its bits": _fit_parities,
}
