"""Keyword validators: each takes a value and its name, and returns the value in the type that is used.

Also a filter that makes foreign text safe to print.
"""

from __future__ import annotations

import math
import numbers
import re

from labeldp.errors import EpsilonError, InputError

#: The largest epsilon that is accepted: beyond it a 64-bit word cannot give a second class any probability.
LARGEST_EPSILON = 700.0


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


def whole(value: object, name: str, low: int, high: int) -> int:
    """An integer between two bounds, both included."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"expected {name} to be a whole number, found {type(value).__name__}")
    result = int(value)
    if not low <= result <= high:
        raise InputError(f"expected {name} between {low} and {high}, found {result}")
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


def printable(text: str) -> str:
    """The text with its control characters escaped, so that it cannot command a terminal."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)
