"""Notations of numbers and dates: decimal commas, separated thousands, days before months; and texts that have one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.columns._forms import all_match, texts_in
from labeldp.errors import TableError

#: The marks between thousands that are taken for one of them: blanks of any width, and apostrophes.
_BLANKS = "[ \u00a0\u2009\u202f]"
_MARKS = MappingProxyType({" ": _BLANKS, "'": "['\u2019]", ".": r"\.", ",": ","})
_DECIMALS, _DATES = (".", ","), ("ymd", "dmy", "mdy")
_CLOCK = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?"
_PARTS = r"^([0-9]{1,2})[-./]([0-9]{1,2})[-./]([0-9]{4})"
#: Dates that begin with a day or a month, and those with or without a time.
DAY, DATE = f"{_PARTS}$", f"{_PARTS}{_CLOCK}$"
#: The most digits that a float keeps, and the most that the shortest text of a float has.
_DIGITS, _MOST_DECIMALS = 15, 17


@dataclass(frozen=True)
class Notation:
    """The notation of numbers and dates in a CSV file.

    Attributes:
        decimal: The mark before decimals: a point or a comma.
        thousands: The mark between thousands: a comma, point, blank or apostrophe; empty for none.
        dates: The order of day, month and year in dates: ``"ymd"`` as in 2026-01-31, ``"dmy"`` or ``"mdy"``.

    Example:
        >>> Notation(",", ".").numbers(pa.array(["1.234,5", "7"])).to_pylist()
        ['1234.5', '7']

    Raises:
        TableError: There is no such notation.
    """

    decimal: str = "."
    thousands: str = ""
    dates: str = "ymd"

    def __post_init__(self) -> None:
        if self.decimal not in _DECIMALS:
            raise TableError(f"expected a point or a comma before decimals, found {self.decimal!r}")
        if self.thousands not in ("", *_MARKS) or self.thousands == self.decimal:
            raise TableError(
                f"expected a comma, a point, a blank or an apostrophe between thousands, other than before decimals, "
                f"found {self.thousands!r}"
            )
        if self.dates not in _DATES:
            raise TableError(f"expected dates as {', '.join(_DATES)}, found {self.dates!r}")

    @property
    def of_numbers(self) -> bool:
        """True if numbers are written otherwise than in Python."""
        return self.decimal != "." or bool(self.thousands)

    def number_pattern(self, *, whole: bool = False) -> str:
        """The pattern of numbers, also with an exponent as R and Excel write it; one with leading zeros is a code."""
        mark = _MARKS.get(self.thousands, "")
        digits = rf"[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+|" if mark else ""
        decimals = "" if whole else rf"([{self.decimal}]0*[0-9]{{1,{_MOST_DECIMALS}}})?([eE][+-][0-9]{{2,3}})?"
        return rf"^[+-]?({digits}0|[1-9][0-9]{{0,{_DIGITS - 1}}}){decimals}$"

    def numbers(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Texts of numbers as Python writes these; all others as they are."""
        if not self.of_numbers:
            return texts
        plain = pc.replace_substring_regex(texts, rf"^\+|{_MARKS.get(self.thousands, '^$')}", "")
        plain = pc.replace_substring(plain, self.decimal, ".")
        return pc.if_else(pc.match_substring_regex(texts, self.number_pattern()), plain, texts)

    def days(self, texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Texts of dates and times in ISO; all others as they are."""
        if self.dates == "ymd":
            return texts
        order = r"\3-\2-\1\4" if self.dates == "dmy" else r"\3-\1-\2\4"
        turned = pc.replace_substring_regex(texts, DATE, order)
        turned = pc.replace_substring_regex(turned, r"^([0-9]{4})-([0-9])-", r"\1-0\2-")
        return pc.replace_substring_regex(turned, r"^([0-9]{4}-[0-9]{2})-([0-9])($|[ T])", r"\1-0\2\3")

    def read(self, texts: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
        """Texts as those of a type are written in Python or ISO."""
        return self.days(texts) if pa.types.is_temporal(kind) else self.numbers(texts)

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command for it."""
        named = (("decimal", "."), ("thousands", ""), ("dates", "ymd"))
        pairs = ((f"--{name}", getattr(self, name)) for name, usual in named if getattr(self, name) != usual)
        return tuple(word for pair in pairs for word in pair)


PLAIN = Notation()


#: Notations of numbers, and what they are called.
NUMBERS = MappingProxyType(
    {
        Notation(","): "a decimal comma",
        Notation(thousands=","): "commas between thousands",
        Notation(",", "."): "a decimal comma, and points between thousands",
        Notation(",", " "): "a decimal comma, and blanks between thousands",
        Notation(",", "'"): "a decimal comma, and apostrophes between thousands",
        Notation(thousands=" "): "blanks between thousands",
        Notation(thousands="'"): "apostrophes between thousands",
    }
)
_COMMAS = {NUMBERS[Notation(",")], NUMBERS[Notation(thousands=",")]}
#: What stands after a number, such as a unit.
_UNIT = f"{_BLANKS}?[%\u2030€$£°]$"
_SLASHED = r"^[0-9]{1,2}[-./][0-9]{1,2}[-./][0-9]{2,4}( .*)?$"


def numbers_as_texts(texts: pa.Array | pa.ChunkedArray) -> str:
    """The reason why texts of numbers, such as ``50,31`` or ``12 %``, are no numbers; empty for other texts.

    Args:
        texts: The texts of a column; empty ones are missing.
    """
    texts = texts_in(texts)
    bare = pc.replace_substring_regex(texts, _UNIT, "")
    plain = all_match(bare, PLAIN.number_pattern())
    fits = [] if plain else [called for each, called in NUMBERS.items() if all_match(bare, each.number_pattern())]
    found = "commas in them" if set(fits) >= _COMMAS else fits[0] if fits else ""
    has_unit = (found or plain) and bool(pc.any(pc.match_substring_regex(texts, _UNIT)).as_py())
    unit = "a unit behind them" if has_unit else ""
    return ", and ".join(filter(None, (found, unit)))


def proposed_notation(columns: Iterable[pa.Array | pa.ChunkedArray], separator: str) -> Notation:
    """The notation that makes most numbers and dates of columns of text: a comma in a semicolon file is a decimal one.

    Args:
        columns: The texts of public columns.
        separator: The separator of the file.
    """
    known = [texts for texts in map(texts_in, columns) if len(texts) and not all_match(texts, PLAIN.number_pattern())]
    fits = list(map(_fitting, known))
    commas = Notation(thousands=",")
    needed = (each for each in fits if any(fit.decimal == "," for fit in each))
    decimal = "," if any(separator == ";" or commas not in each for each in needed) else "."
    own = ([fit.thousands for fit in each if fit.decimal == decimal] for each in fits)
    marks = (each[0] for each in own if each)
    orders = (order for order in map(_order_of, known) if order != "ymd")
    return Notation(decimal, next(filter(None, marks), ""), next(orders, "ymd"))


def _fitting(texts: pa.Array | pa.ChunkedArray) -> list[Notation]:
    """The notations in which all texts are numbers."""
    return [each for each in NUMBERS if all_match(texts, each.number_pattern())]


def _order_of(texts: pa.Array | pa.ChunkedArray) -> str:
    """The order of days and months in dates that cannot be read otherwise; ``"ymd"`` for all other texts."""
    if not all_match(texts, DATE):
        return "ymd"
    for order in ("dmy", "mdy"):
        days = Notation(dates=order).days(texts)
        if all_match(days, r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([ T].*)?$"):
            dots = all_match(texts, r"^[0-9]+\.")
            other = Notation(dates="mdy" if order == "dmy" else "dmy").days(texts)
            sure = dots or not all_match(other, r"^[0-9]{4}-(0[1-9]|1[0-2])-")
            return order if sure else "ymd"
    return "ymd"


def has_controls(texts: pa.Array | pa.ChunkedArray) -> bool:
    """True for control characters between those of ASCII and Latin letters: a Windows file that was read as latin-1."""
    return bool(pc.any(pc.match_substring_regex(texts, r"[\x{80}-\x{9f}]")).as_py())


def remark_on(texts: pa.Array | pa.ChunkedArray) -> str:
    """The reason why a column of texts is none of numbers or dates; empty for other texts."""
    if called := numbers_as_texts(texts):
        return f"text, since numbers have {called}"
    if all_match(texts_in(texts), _SLASHED):
        return "text, since dates are written with the day or the month first"
    return ""
