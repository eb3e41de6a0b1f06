"""Types of CSV columns: the type that gives back every value as it is written, or else text.

``01000`` is no number, since a number is written ``1000``. A column has a type if all of its values are written in one
spelling of that type:

* whole numbers: ``-12``
* numbers as Python writes them, with or without ``.0`` after a whole one: ``2.5``, ``1e-07``
* numbers as Arrow writes them: ``0.000095``, ``1e-7``
* numbers with equally many decimals, of at most 15 digits: ``39.90``
* ``true`` and ``false``
* dates and times: ``2026-01-31``, ``2026-01-31 10:30``, with ``T``, with seconds and their fractions

and if missing values are written in one way. In a declared notation, such as decimal commas, a column of numbers or
dates has a type too; it leaves as the numbers, not as they were written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.columns._conversions import result_or_none
from labeldp.columns._forms import all_match
from labeldp.columns._notation import DATE, DAY, PLAIN, Notation, numbers_as_texts, proposed_notation

#: Texts that stand for a missing value in a column that is not text.
_MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "None")
#: Types of CSV columns besides text.
_TYPES = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"))
_WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
_DAY, _MINUTE, _SECOND = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[0-9]{2}:[0-9]{2}", ":[0-9]{2}"
_SECONDS = ("", _SECOND, rf"{_SECOND}\.[0-9]{{3}}", rf"{_SECOND}\.[0-9]{{6}}")
_TIMES = tuple(f"^{_DAY}{between}{_MINUTE}{seconds}$" for between in " T" for seconds in _SECONDS)
#: Whole numbers below it are kept by every float.
_KEPT = 10**15
#: Floats from and below which Arrow and Python write the same digits without an exponent.
_FROM, _BELOW = 1e-4, 1e10
#: Decimal digits that every float keeps.
_DIGITS = 15
#: Values that are looked at before all of a batch.
_FIRST = 64


def _cast_or_none(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Texts as a type, or None; the first few alone come first, since Arrow makes an error of each misfit."""
    try:
        texts.slice(0, _FIRST).cast(kind)
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


class _Texts:
    """Texts of a column, with the floats that they are, computed once for all spellings."""

    def __init__(self, texts: pa.Array) -> None:
        self.all = texts

    @cached_property
    def floats(self) -> pa.Array | None:
        """The texts as floats; None where one is no number."""
        return _cast_or_none(self.all, pa.float64())

    @cached_property
    def by_arrow(self) -> pa.Array | None:
        """The texts that Arrow writes for these floats."""
        return None if self.floats is None else self.floats.cast(pa.string())

    @cached_property
    def whole(self) -> pa.Array | None:
        """The texts as whole numbers; None where one is none, or is written otherwise."""
        fits = all_match(self.all.slice(0, _FIRST), _WHOLE) and self.match(_WHOLE)
        return _cast_or_none(self.all, pa.int64()) if fits else None

    def are_whole_below(self, end: int) -> bool:
        """True if all texts are whole numbers, of an absolute value below a bound."""
        if self.whole is None:
            return False
        ends = pc.min_max(self.whole)
        return bool(max(ends["max"].as_py(), -ends["min"].as_py()) < end)

    def match(self, pattern: str) -> bool:
        """True if all texts match a pattern."""
        return all_match(self.all, pattern)


_Form = Callable[[pa.Array], bool]


def _have_no_point(texts: pa.Array) -> bool:
    """True if a number has no decimal point and no exponent."""
    short = texts.filter(pc.invert(pc.match_substring(texts, ".")))  # a pattern takes five times as long
    return bool(pc.any(pc.match_substring_regex(short, "^-?[0-9]+$")).as_py())


def _have_zero_alone(texts: pa.Array) -> bool:
    """True if a number has a single zero behind its point."""
    return bool(pc.any(pc.ends_with(texts, ".0")).as_py())


@dataclass(frozen=True)
class _Spelling:
    """A way to write the values of a type, and a check that texts are written so.

    Attributes:
        type: The type.
        check: True if all texts are written so.
        forms: Forms, each by whether it occurs in texts, of which one alone may occur in a column.
        notation: The notation in which texts are read.
    """

    type: pa.DataType
    check: Callable[[_Texts], bool]
    forms: tuple[_Form, ...] = ()
    notation: Notation = PLAIN

    def new_forms(self, texts: pa.Array, forms: set[_Form]) -> set[_Form]:
        """The forms that occur in texts, besides some that are there already."""
        return {form for form in self.forms if form not in forms and form(texts)}


def _matches(pattern: str, kind: pa.DataType, texts: _Texts) -> bool:
    """True if all texts match a pattern and can be read as a type."""
    return texts.match(pattern) and _cast_or_none(texts.all, kind) is not None


def _is_whole(texts: _Texts) -> bool:
    """True if all texts are whole numbers."""
    return texts.whole is not None


def _as_python(texts: _Texts) -> bool:
    """True if all texts are the shortest ones of their floats, in Python's form, but for ``.0`` after whole numbers."""
    if texts.are_whole_below(_KEPT):
        return True
    if texts.floats is None:
        return False
    zeros = _have_zero_alone(texts.all)
    short = pc.replace_substring_regex(texts.all, r"^(-?[0-9]+)\.0$", r"\1") if zeros else texts.all
    size = pc.abs(texts.floats)
    plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, _FROM), pc.less(size, _BELOW)))
    same = pc.and_(pc.equal(short, texts.by_arrow), plain)
    return all(repr(float(text)).removesuffix(".0") == text for text in short.filter(pc.invert(same)).to_pylist())


def _as_arrow(texts: _Texts) -> bool:
    """True if all texts are those that Arrow writes for their floats."""
    if texts.are_whole_below(int(_BELOW)):
        return True
    return texts.by_arrow is not None and bool(pc.all(pc.equal(texts.by_arrow, texts.all)).as_py())


def _decimals(count: int, texts: _Texts) -> bool:
    """True if all texts are numbers with so many decimals, which a float keeps."""
    return bool(pc.max(pc.utf8_length(texts.all)).as_py() <= _DIGITS + 1) and _matches(
        rf"^-?(0|[1-9][0-9]*)\.[0-9]{{{count}}}$", pa.float64(), texts
    )


def _in_lower_case(texts: _Texts) -> bool:
    return bool(pc.all(pc.is_in(texts.all, value_set=pa.array(["true", "false"]))).as_py())


def _is_notated(notation: Notation, pattern: str, kind: pa.DataType, texts: _Texts) -> bool:
    """True if all texts are of a notation's pattern, and of a type once read in it."""
    return texts.match(pattern) and _cast_or_none(notation.read(texts.all, kind), kind) is not None


def _notated(notation: Notation) -> Iterator[_Spelling]:
    """The spellings of a declared notation, whose numbers and dates would be written otherwise."""
    if notation.of_numbers:
        for kind, whole in ((pa.int64(), True), (pa.float64(), False)):
            check = partial(_is_notated, notation, notation.number_pattern(whole=whole), kind)
            yield _Spelling(kind, check, notation=notation)
    if notation.dates != PLAIN.dates:
        for kind, pattern in ((pa.date32(), DAY), (pa.timestamp("us"), DATE)):
            yield _Spelling(kind, partial(_is_notated, notation, pattern, kind), notation=notation)


#: In the order in which a type is chosen.
_SPELLINGS = (
    _Spelling(pa.int64(), _is_whole),
    _Spelling(pa.float64(), _as_python, forms=(_have_no_point, _have_zero_alone)),
    _Spelling(pa.float64(), _as_arrow),
    *(_Spelling(pa.float64(), partial(_decimals, count)) for count in range(1, _DIGITS)),
    _Spelling(pa.bool_(), _in_lower_case),
    _Spelling(pa.date32(), partial(_matches, f"^{_DAY}$", pa.date32())),
    *(_Spelling(pa.timestamp("us"), partial(_matches, pattern, pa.timestamp("us"))) for pattern in _TIMES),
)


@dataclass
class ColumnType:
    """The type of a CSV column, from all of its values.

    Attributes:
        declared: The notation of numbers and dates that was declared for the file.
        spellings: Those of all values so far.
        types: Types that could represent all values so far, in other spellings.
        missing: How missing values are written.
        forms: Forms of a spelling that occur.
        any_value: True if a value is not missing.
    """

    declared: Notation = PLAIN
    spellings: tuple[_Spelling, ...] = _SPELLINGS
    types: tuple[pa.DataType, ...] = _TYPES
    missing: set[str] = field(default_factory=set)
    forms: set[_Form] = field(default_factory=set)
    any_value: bool = False

    def __post_init__(self) -> None:
        self.spellings = (*self.spellings[:1], *_notated(self.declared), *self.spellings[1:])

    def add(self, texts: pa.Array) -> None:
        """Look at the values of a batch."""
        if not self.types:
            return
        lost = pc.is_in(texts, value_set=pa.array(_MISSING))
        values = texts
        if pc.any(lost).as_py():
            self.missing.update(pc.unique(texts.filter(lost)).to_pylist())
            values = texts.filter(pc.invert(lost))
        if not len(values):
            return
        self.any_value = True
        fitting = self.spellings
        for some in (values.slice(0, _FIRST), values):  # most columns fail at the first few
            texts = _Texts(some)
            fitting = tuple(each for each in fitting if each.check(texts))
        self.forms.update(*(each.new_forms(values, self.forms) for each in fitting))
        self.spellings = tuple(each for each in fitting if not each.forms or not self.forms.issuperset(each.forms))
        known = [each.type for each in self.spellings]
        self.types = tuple(kind for kind in self.types if kind in known or _cast_or_none(values, kind) is not None)

    @property
    def type(self) -> pa.DataType:
        """The type that gives back every value as it is written or was declared to be, or text."""
        return self._spelling.type if self._spelling else pa.string()

    @property
    def notation(self) -> Notation:
        """The notation in which the values are read."""
        return self._spelling.notation if self._spelling else PLAIN

    @property
    def _spelling(self) -> _Spelling | None:
        """The spelling that is chosen: the first in which missing values are written as it allows."""
        if not self.any_value:
            return None
        return next((each for each in self.spellings if len(self.missing) <= 1 or each.notation != PLAIN), None)

    @property
    def is_respelled(self) -> bool:
        """True if a type could represent all values, but would write some otherwise, so that they stay text."""
        return self.any_value and bool(self.types) and self.type == pa.string()


def read_as(texts: pa.Array, kind: pa.DataType, notation: Notation = PLAIN) -> pa.Array:
    """Convert texts in a notation to a type; except for text, empty and NA-like values are missing."""
    if pa.types.is_string(kind):
        return texts
    missing = pc.is_in(texts, value_set=pa.array(_MISSING))
    return notation.read(pc.if_else(missing, pa.scalar(None, pa.string()), texts), kind).cast(kind)


def misfit(
    texts: pa.Array, kind: pa.DataType, notation: Notation = PLAIN, separator: str = ","
) -> tuple[int, str, str]:
    """The place of the first text that cannot be read as a type, a description of it, and the options that read it."""
    place = _first_misfit(texts, kind, notation)
    text = texts.slice(place, 1)
    options = " ".join(proposed_notation([text], separator).options) if notation == PLAIN else ""
    looks = numbers_as_texts(text)
    return place, f"one with {looks}" if looks else "a date in another order" if options else "another value", options


def _first_misfit(texts: pa.Array, kind: pa.DataType, notation: Notation) -> int:
    """The place of the first text that cannot be read as a type; there is one."""

    def fails(end: int) -> bool:
        return result_or_none(lambda: read_as(texts.slice(0, end + 1), kind, notation)) is None

    return bisect_left(range(len(texts)), True, key=fails)
