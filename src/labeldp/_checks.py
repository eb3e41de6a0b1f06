"""Keyword validators: each takes a value and its name, and returns the value in the type that is used.

Also a filter that makes foreign text safe to print, and warnings where the library was called.
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
import sys
import warnings
from collections.abc import Iterable
from typing import TypeVar
from unicodedata import category

from labeldp.errors import EpsilonError, InputError

T = TypeVar("T")

#: The least share of letters in common of names that are offered for each other.
_ALIKE = 0.75

#: The largest epsilon that is accepted: beyond it a 64-bit word cannot give a second class any probability.
LARGEST_EPSILON = 700.0
#: Unicode's categories of control and format characters, of separators of lines, and of halves of surrogate pairs.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Most characters of a reason that is declared.
_MOST_REASON = 200
#: A bound that no count reaches.
_MANY = 1 << 63
#: What looks like an address: ``://`` anywhere; a protocol and a slash, or that of a store; a word, ``:`` and ``@``.
_ADDRESS = re.compile(
    r".*://|[^\w./]*[a-z][a-z0-9+.-]+:[/\\]|[^\w./]*(s3|gs|gcs|abfss?):|(.*:/+|/*)[^/:]*:[^/]*@|(?![/.~])[^:]*:[^@]*@",
    re.IGNORECASE | re.DOTALL,
)


def is_address(text: object) -> bool:
    """True for a path or text that is an address, or looks like one, so that it may hold a password.

    A path is none because of a colon in it: ``visits-10:30.parquet``, ``C:/visits``. What looks like an address only
    from its second letter on, has one slash or none after a protocol, or a word before ``:...@``, looks like one.

    Example:
        >>> [is_address(each) for each in ("s3://bucket/t", " S3:/u:word@bucket/t", "u:word@host", "at-10:30.csv")]
        [True, True, True, False]
    """
    return _ADDRESS.match(str(text)) is not None


def nearest(name: str, choices: Iterable[str]) -> str:
    """A question for the choice that is spelled most like a name; empty if none is."""
    found = difflib.get_close_matches(name, list(choices), 1, _ALIKE)
    return f"; did you mean {found[0]!r}?" if found else ""


def epsilon(value: object, name: str = "epsilon") -> float:
    """A finite epsilon above zero."""
    result = number(value, name)
    if not 0.0 < result <= LARGEST_EPSILON:
        raise EpsilonError(
            f"expected {name} to be a finite number above 0 and at most {LARGEST_EPSILON:g}, found {result!r}; "
            "give epsilon in nats (natural logarithm), usually between 0.1 and 10"
        )
    return result


def delta(value: object, name: str = "delta") -> float:
    """A failure probability in [0, 1)."""
    result = number(value, name)
    if not 0.0 <= result < 1.0:
        raise EpsilonError(
            f"expected {name} to be at least 0 and below 1, found {result!r}; use 0 for a pure guarantee"
        )
    return result


def declarer(value: object) -> str:
    """The source of a declaration, such as a survey: a short line, which a certificate shows."""
    return _short_line(value, "the name of whoever declares how labels were randomized", "write 'survey 2026', say")


def reason(value: object) -> str:
    """A reason for which rows are other people's: a short line, which a certificate or a ledger shows."""
    return _short_line(value, "a reason for other people", "write how you know that nobody is in both tables")


def _short_line(value: object, what: str, advice: str) -> str:
    if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _MOST_REASON:
        return value
    raise InputError(
        f"expected {what}, of 1 to {_MOST_REASON} printable characters, which certificate and ledger show, found "
        f"another value; {advice}"
    )


def whole(value: object, name: str, low: int, high: int = _MANY) -> int:
    """An integer between two bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"expected {name} to be a whole number, found {type(value).__name__}")
    result = int(value)
    if not low <= result <= high:
        wanted = f"to be a whole number of at least {low}" if high == _MANY else f"between {low} and {high}"
        raise InputError(f"expected {name} {wanted}, found {result}")
    return result


def number(value: object, name: str) -> float:
    """A number that is not NaN."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise EpsilonError(f"expected {name} to be a number, found {type(value).__name__}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if math.isnan(result):
        raise EpsilonError(f"expected {name} to be a number, found nan; give a finite value")
    return result


def positive(value: object, name: str) -> float:
    """A finite number above 0."""
    result = number(value, name)
    if not 0.0 < result < math.inf:
        raise InputError(f"expected {name} to be a finite number above 0, found {result:g}")
    return result


def not_negative(value: object, name: str) -> float:
    """A finite number of at least 0."""
    result = number(value, name)
    if not 0.0 <= result < math.inf:
        raise InputError(f"expected {name} to be a finite number of at least 0, found {result:g}")
    return result


def share(value: object, name: str, ends: str = "[]", hint: str = "") -> float:
    """A number from 0 to 1; ``ends`` says which of the two belong to the interval, as in ``"(]"``."""
    result = number(value, name)
    if not 0.0 <= result <= 1.0 or (result == 0.0 and ends[0] == "(") or (result == 1.0 and ends[1] == ")"):
        low, high = "above" if ends[0] == "(" else "at least", "below" if ends[1] == ")" else "at most"
        raise InputError(f"expected {name} {low} 0 and {high} 1, found {result:g}{hint}")
    return result


def level(value: object) -> float:
    """A confidence level strictly between 0 and 1."""
    return share(value, "a level", "()", "; use for instance 0.95")


def trim(value: object) -> float:
    """The least propensity of the rows in which an effect is estimated."""
    return share(value, "trim", "()", ", such as 0.1")


def among(value: T, name: str, known: Iterable[object]) -> T:
    """A value that is one of those known; ``name`` begins the message, as in ``"a method"``."""
    if value not in (choices := list(known)):
        meant = nearest(value, map(str, choices)) if isinstance(value, str) else ""
        raise InputError(f"expected {name} among {', '.join(map(str, choices))}, found {value!r}{meant}")
    return value


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn where this library was called, however deep inside: Python skips the frames of a package only from 3.12."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("labeldp."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, category, stacklevel=depth)


def printable(text: str) -> str:
    """The text as one line: line breaks, control and format characters are escaped, and halves of surrogate pairs.

    So foreign text cannot command a terminal, write lines of its own, or change the direction of others.
    """
    return "".join(_escaped(letter) if category(letter) in _UNPRINTABLE else letter for letter in text)


def _escaped(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
