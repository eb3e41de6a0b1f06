"""One spelling of a text, so that a person, a column or a class is known again however its name was typed or stored.

Two names that fall together here are taken for one. For people that is safe: the rows of both share an epsilon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category, decimal, normalize

#: Whole numbers and decimals, also with an exponent: the sign, the digits before and after the point, the exponent.
#: Digits are never given back, or a hundred thousand of them before a letter would take minutes.
_NUMBER = re.compile(r"[+]?(-?)(?=\.?[0-9])([0-9]*+)\.?([0-9]*)(?:e([+-]?[0-9]{1,9}))?")
_UUID = re.compile(r"(?:urn:uuid:)?\{?([0-9a-f]{8})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{4})-([0-9a-f]{12})\}?")
#: Unicode's categories of format characters, which nobody sees, and of dashes.
_UNSEEN, _DASH = "Cf", "Pd"


def canonical(text: str) -> str:
    r"""The canonical spelling of a text.

    Composed and decomposed letters, wide and other digits, capitals, blanks and dashes of any kind have one spelling.
    Format characters and blanks at the ends are left out. Numbers have that of their value, UUIDs that of their digits.

    Example:
        >>> [canonical(each) for each in ("Jose\u0301 ", "JOS\u00c9", "007", "7.0", "7e0", "P\u00a07")]
        ['josé', 'josé', '7', '7', '7', 'p 7']
    """
    if not text.isascii():
        text = normalize("NFKC", "".join(map(_plain, normalize("NFKC", text).casefold())))
    text = " ".join(text.lower().split())
    if uuid := _UUID.fullmatch(text):
        text = "".join(uuid.groups())
    return _number(text)


def spelled_as(name: str, names: Iterable[str]) -> str | None:
    """The name that a typed one means: the same name, or the only one with the same canonical spelling.

    Example:
        >>> spelled_as("age ", ["Age", "sex"]), spelled_as("AGE", ["age", "Age"])
        ('Age', None)
    """
    known = list(names)
    if name in known:
        return name
    alike = [each for each in known if canonical(each) == canonical(name)]
    return alike[0] if len(alike) == 1 else None


def _plain(letter: str) -> str:
    """A letter, with a plain digit or dash in place of others, and nothing for one that nobody sees."""
    kind = category(letter)
    if kind == "Nd":
        return str(decimal(letter))
    return {_UNSEEN: "", _DASH: "-"}.get(kind, letter)


def _number(text: str) -> str:
    """A number as its digits and, if it is not whole, its power of ten; any other text as it is."""
    if (found := _NUMBER.fullmatch(text)) is None:
        return text
    sign, whole, part, exponent = found.groups()
    digits = (whole + part).lstrip("0")
    power = int(exponent or 0) - len(part) + len(digits)
    digits = digits.rstrip("0")
    power -= len(digits)
    if not digits:
        return "0"
    return sign + digits + ("0" * power if 0 <= power < 40 else f"e{power}")
