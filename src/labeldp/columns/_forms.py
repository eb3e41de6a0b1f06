"""Forms of texts, by patterns: whole numbers, other numbers, times, names of images, and identifiers of people."""

from __future__ import annotations

from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.columns._storage import is_text

#: Whole numbers in any spelling that 64 bits hold.
WHOLE = r"^[+-]?[0-9]{1,18}$"
#: Small letters of a month's name, and all that is not ASCII: Unicode's letters would take a hundred times as long.
_LETTERS = r"[^\x00-`{-\x7f]{3,9}"
#: The kinds of texts, by patterns of which the first that fits counts; others are plain texts. The years of dates are
#: checked, since numbers of sites, households and their people are written with the same marks.
TEXT_FORMS = MappingProxyType(
    {
        "whole": WHOLE,
        "number": r"^[+-]?(([0-9]*\.[0-9]+|[0-9.]*,[0-9]+|[0-9.]+e[+-][0-9]+)( ?[%€$£])?|[0-9]+ ?[%€$£])$",
        "time": r"^((1[89]|20)[0-9]{2}[-./][0-3]?[0-9]([-./][0-3]?[0-9]([ t].*)?)?|"
        r"[0-3]?[0-9]([-./][0-3]?[0-9][-./](1[89]|20)|[./][0-3]?[0-9][./])[0-9]{2}([ t].*)?|"
        rf"({_LETTERS}\.? [0-9]{{1,2}},?|[0-9]{{1,2}}\.? {_LETTERS}\.?) [0-9]{{4}}|"
        r"[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?)$",
        "image": r"\.(png|jpe?g)$",
        "person": r"^([^@ ]+@[^@ ]+\.[a-z]+|\+?[0-9(][0-9 ()/.-]{6,}|\{?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?|"
        r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9]{1,3}\.){3}[0-9]{1,3}|patient/.+)$",
    }
)
_PNG = r"(?i)\.png$"


def all_match(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    """True if there are texts, and all that are not missing match a pattern."""
    return len(texts) > 0 and bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def are_images(texts: pa.Array | pa.ChunkedArray) -> bool:
    """True if there are texts, and all are names of PNG files."""
    return all_match(texts, _PNG)


def texts_in(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The texts of a column that are neither missing nor empty, without blanks around them; none of another type."""
    if not is_text(column.type):
        return pa.chunked_array([], pa.large_string())
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()).drop_null())
    return texts.filter(pc.not_equal(texts, ""))
