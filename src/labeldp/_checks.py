"""Keyword validators: each takes a value and its name, and returns the value in the type that is used.

Also a filter that makes foreign text safe to print.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable
from typing import TypeVar

from labeldp.errors import EpsilonError, InputError

T = TypeVar("T")

#: The largest epsilon that is accepted: beyond it a 64-bit word cannot give a second class any probability.
LARGEST_EPSILON = 700.0
#: A bound that no count reaches.
_MANY = 1 << 63


def epsilon(value: object, name: str = "epsilon") -> float:
    """A finite epsilon above zero."""
    result = number(value, name)
    if not 0.0 < result <= LARGEST_EPSILON:
        raise EpsilonError(
            f"expected {name} to be a finite number above 0 and at most {LARGEST_EPSILON:g}, found {result!r}; "
            "give the natural-logarithm epsilon that you want to defend, usually between 0.1 and 10"
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


def within(value: object, name: str, interval: str, advice: str = "") -> float:
    """A number in an interval, written as in mathematics: ``"[0, 1)"`` holds 0 and not 1.

    Raises:
        InputError: It is no number, or outside the interval; ``advice`` ends the message.
    """
    (opening, closing), (low, high) = (interval[0], interval[-1]), map(float, interval[1:-1].split(","))
    try:
        result = number(value, name)
    except EpsilonError:
        result = math.nan  # in no interval
    above = result > low or (opening == "[" and result == low)
    below = result < high or (closing == "]" and result == high)
    if not (above and below):
        kind = "finite number" if interval.endswith("inf)") else "number"
        least = f"{'of at least' if opening == '[' else 'above'} {low:g}"
        most = f" and {'at most' if closing == ']' else 'below'} {high:g}" if high < math.inf else ""
        raise InputError(f"expected {name} to be a {kind} {least}{most}, found {value!r}{advice}")
    return result


def among(value: T, name: str, known: Iterable[object]) -> T:
    """A value that is one of those known; ``name`` begins the message, as in ``"a method"``."""
    if value not in (choices := list(known)):
        raise InputError(f"expected {name} among {', '.join(map(str, choices))}, found {value!r}")
    return value


def printable(text: str) -> str:
    """The text with its control characters escaped, so that it cannot command a terminal."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)
