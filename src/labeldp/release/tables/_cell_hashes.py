"""64-bit hashes of the values of a column, the same for each spelling and type of a value.

Numbers in any type or text, times in any unit, capitals and blanks around a text, and all spellings of a missing value
have one hash each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp._shapes import UInt64
from labeldp._spelling import canonical
from labeldp.columns import WHOLE, arrow, as_array, is_text, plain_uuids
from labeldp.errors import TableError
from labeldp.release.tables._fingerprint_kernels import hash_floats, hash_texts, hash_whole, mix_all

_MISSING = r"^(|na|n/a|#n/a|nan|null|none|nat)$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
_ZONE = r"(z|[+-][0-9]{2}:?[0-9]{2})$"
_TIME = rf"^([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ t]{_CLOCK}{_ZONE[:-1]}?)?|{_CLOCK})$"
_MICROSECONDS = r"(\.[0-9]{6})[0-9]+"
#: Texts that may have another canonical spelling, by their bytes, their length and a pattern.
_NOT_ASCII, _FEWEST_OF_UUID = 128, 36
_ODD = r"[^\x00-\x7f]|\s\s|[\t\n\v\f\r]|[0-9a-f]{8}-[0-9a-f]{4}-"
#: The hash of a missing value.
MISSING = np.uint64(0x510E527FADE682D1)
_NOTHING = np.zeros(0, dtype=np.uint64)

#: Texts of dictionaries, with their hashes.
Texts = list[tuple[pa.Array, np.ndarray]]


@dataclass(frozen=True)
class CellHashes:
    """Hashes of the values of a column, computed for some rows at a time, so that they stay in a processor's cache.

    Attributes:
        fill: Fills an array with the hashes of some rows to all digits that count, and another with those to two.
        coarse: True if the two differ, as those of floats; else the second array is left as it is.
    """

    fill: Callable[[slice, np.ndarray, np.ndarray], object]
    coarse: bool = False


def cell_hashes(column: pa.Array) -> tuple[UInt64[np.ndarray, "n"], UInt64[np.ndarray, "n"]]:
    """Hashes of the values of a column: to all digits that count, and of floats to two; the same array for others."""
    hashes, fine = hashes_of(column, []), np.empty(len(column), np.uint64)
    coarse = np.empty(len(column), np.uint64) if hashes.coarse else fine
    hashes.fill(slice(None), fine, coarse)
    return fine, coarse


def all_hashes(hashes: CellHashes, rows: int) -> UInt64[np.ndarray, "n"]:
    """The hashes of all rows to all digits that count."""
    fine = np.empty(rows, np.uint64)
    hashes.fill(slice(None), fine, np.empty(rows, np.uint64) if hashes.coarse else fine)
    return fine


def hashes_of(column: pa.Array, texts: Texts) -> CellHashes:
    """The hashes of a column.

    Args:
        column: The column.
        texts: The texts that places of the batch before refer to, with their hashes; replaced by those of this one.
    """
    column = plain_uuids(column)
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    kind = column.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = as_array(column.cast(pa.float64(), safe=False))
        return CellHashes(lambda rows, fine, coarse: hash_floats(values[rows], int(MISSING), fine, coarse), coarse=True)
    if pa.types.is_dictionary(kind):
        return _with_missing(column, _of_dictionary(column, texts))
    if pa.types.is_integer(kind):
        whole = as_array(column)
        return _with_missing(column, CellHashes(lambda rows, fine, _: whole_hashes(whole[rows], fine)))
    exact = _exact_hashes(column, kind)
    return _with_missing(column, CellHashes(lambda rows, fine, _: np.copyto(fine, exact[rows])))


def _with_missing(column: pa.Array, hashes: CellHashes) -> CellHashes:
    """The hashes of a column whose missing values are alike."""
    if not column.null_count:
        return hashes
    missing = as_array(column.is_null())

    def fill(rows: slice, fine: np.ndarray, coarse: np.ndarray) -> None:
        hashes.fill(rows, fine, coarse)
        for out in (fine, coarse) if hashes.coarse else (fine,):
            out[missing[rows]] = MISSING

    return CellHashes(fill, hashes.coarse)


def _exact_hashes(column: pa.Array, kind: pa.DataType) -> UInt64[np.ndarray, "n"]:
    """Hashes of values that are no numbers; of missing ones anything."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return whole_hashes(_microseconds(column))
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_hashes(column)
    if is_text(kind) or pa.types.is_boolean(kind):
        return cell_hashes(column.cast(pa.large_string()).dictionary_encode())[0]
    return _text_hashes(pa.array(as_texts(column), pa.large_string()))


def _of_dictionary(column: pa.DictionaryArray, texts: Texts) -> CellHashes:
    """Hashes of values that are stored as places in a list of different ones; of missing ones anything."""
    values, places = column.dictionary, as_array(column.indices)
    if not len(values):
        return CellHashes(lambda _, fine, __: fine.fill(MISSING))
    if places.size and not 0 <= places.min() <= places.max() < len(values):
        raise TableError("expected a readable table, found damaged texts in it; repair the file")
    if is_text(values.type):
        known = next((hashes for before, hashes in texts if before.equals(values)), None)
        first = second = _text_hashes(values.cast(pa.large_string())) if known is None else known
        texts[:] = [(values, first)]
    else:
        first, second = cell_hashes(values)

    def fill(rows: slice, fine: np.ndarray, coarse: np.ndarray) -> None:
        np.take(first, places[rows], out=fine, mode="clip")  # its other mode needs a copy
        if second is not first:
            np.take(second, places[rows], out=coarse, mode="clip")

    return CellHashes(fill, second is not first)


def _text_hashes(texts: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of texts: those that are numbers or times have the hashes of these."""
    texts = _canonical(pc.utf8_lower(pc.utf8_trim_whitespace(texts)))
    hashes = _plain_hashes(texts)
    missing = as_array(pc.match_substring_regex(texts, _MISSING))
    hashes[missing] = MISSING
    whole = as_array(pc.match_substring_regex(texts, WHOLE))
    if whole.any():
        unsigned = pc.replace_substring_regex(_those(texts, whole), r"^\+", "")
        hashes[whole] = whole_hashes(as_array(unsigned.cast(pa.int64())))
    number = as_array(pc.match_substring_regex(texts, _NUMBER)) & ~whole
    if number.any():
        unsigned = pc.replace_substring_regex(_those(texts, number), r"^\+", "")
        hashes[number] = cell_hashes(unsigned.cast(pa.float64()))[0]
    time = as_array(pc.match_substring_regex(texts, _TIME))
    if time.any():
        hashes[time] = _time_hashes(_those(texts, time), hashes[time])
    return hashes


def is_respelled(column: pa.Array) -> bool:
    """True for a column of texts with another canonical spelling than small letters without blanks at the ends."""
    texts = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    if not is_text(texts.type):
        return False
    texts = texts.cast(pa.large_string())
    if _is_plain(texts):
        return False
    small = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
    return not _canonical(small).equals(small)


def _canonical(texts: pa.Array) -> pa.Array:
    """Texts in their canonical spelling, from small letters without blanks at the ends."""
    if _is_plain(texts):
        return texts
    some = pc.match_substring_regex(texts, _ODD).fill_null(False)
    respelled = pa.array([canonical(text) for text in texts.filter(some).to_pylist()], texts.type)
    return pc.replace_with_mask(texts, some, respelled)


def _is_plain(texts: pa.Array) -> bool:
    """True for texts of ASCII whose only blanks are single ones, and that are too short for UUIDs."""
    letters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if letters.max(initial=0) >= _NOT_ASCII or letters.min(initial=_NOT_ASCII) < ord(" "):
        return False
    blank = letters == ord(" ")
    return not (blank[1:] & blank[:-1]).any() and (pc.max(pc.binary_length(texts)).as_py() or 0) < _FEWEST_OF_UUID


def _those(texts: pa.Array, some: np.ndarray) -> pa.Array:
    """Some of the texts; Arrow's filter would load pandas for a mask of NumPy."""
    return texts.take(arrow(np.flatnonzero(some)))


def _time_hashes(texts: pa.Array, plain: np.ndarray) -> UInt64[np.ndarray, "n"]:
    """Hashes of dates and times; of texts that only look like them those of texts."""
    texts = pc.replace_substring_regex(texts, _MICROSECONDS, r"\1")
    texts = pc.replace_substring_regex(texts, f"^({_CLOCK})$", r"1970-01-01 \1")
    zoned, hashes = as_array(pc.match_substring_regex(texts, f":.*{_ZONE}")), plain.copy()
    for some, kind in ((zoned, pa.timestamp("us", "UTC")), (~zoned, pa.timestamp("us"))):
        with suppress(pa.ArrowInvalid):
            hashes[some] = whole_hashes(_microseconds(pc.ascii_upper(_those(texts, some)).cast(kind)))
    return hashes


def _microseconds(column: pa.Array) -> np.ndarray:
    """Times as microseconds, whatever their unit."""
    whole = column.cast(pa.timestamp("us"), safe=False) if pa.types.is_date(column.type) else column
    if whole.type.tz is not None or whole.type.unit != "us":
        whole = whole.cast(pa.timestamp("us", whole.type.tz), safe=False)
    return as_array(whole.view(pa.int64()))


def _list_hashes(column: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of lists: of their values and their order."""
    lists = column.cast(pa.large_list(column.type.value_type))
    offsets = as_array(lists.offsets)
    values, offsets = cell_hashes(lists.values[offsets[0] : offsets[-1]])[0], offsets - offsets[0]  # of these rows
    places = np.arange(values.size, dtype=np.uint64) - np.repeat(offsets[:-1], np.diff(offsets)).astype(np.uint64)
    hashes = np.concatenate([_NOTHING, np.cumsum(keyed(values + places, 0))])
    hashes = np.concatenate([np.zeros(1, np.uint64), hashes])
    return keyed(hashes[offsets[1:]] - hashes[offsets[:-1]], 1)


def as_texts(column: pa.Array) -> list[str]:
    """Convert values to text, by Arrow if possible: Python cannot represent every date and time."""
    try:
        return [str(text) for text in column.cast(pa.string()).to_pylist()]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return [str(value) for value in column.to_pylist()]


def _plain_hashes(texts: pa.Array) -> UInt64[np.ndarray, "n"]:
    """Hashes of the bytes of texts."""
    out = np.empty(len(texts), np.uint64)
    _, offsets, data = texts.buffers()
    if len(texts):
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        hash_texts(places, out, np.frombuffer(data or b"\0", np.uint8))
    return out


def whole_hashes(whole: np.ndarray, out: np.ndarray | None = None) -> UInt64[np.ndarray, "n"]:
    """Hashes of whole numbers, in an array for them."""
    out = np.empty(whole.size, np.uint64) if out is None else out
    hash_whole(whole.astype(np.uint64 if whole.dtype == np.uint64 else np.int64, copy=False).view(np.uint64), out)
    return out


def keyed(words: np.ndarray, key: int) -> UInt64[np.ndarray, "n"]:
    """The hashes under a key, which makes those of two ledgers incomparable."""
    out = np.empty(words.size, np.uint64)
    mix_all(words, key, out)
    return out
