"""Strict JSON, for documents that others send: each key once, finite numbers, and little depth."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

#: The deepest nesting of a document; that of a generator's form in a certificate is 8.
MOST_DEPTH = 16
#: The most digits of an integer; Python refuses to read one that is longer than 4300.
MOST_DIGITS = 4000


def strict_json(text: str, digits: int = MOST_DIGITS) -> Any:
    """The value of a document.

    Args:
        text: The document.
        digits: The most digits of an integer.

    Raises:
        ValueError: It is no JSON, or is nested too deep, or has a key twice, a number that is not finite or an integer
            that is too long. Other than of no JSON, the message names what was found.
    """

    def integer(text: str) -> int:
        if len(text) > digits:
            raise ValueError("an integer that is too long")
        if text == "-0":
            raise ValueError("zero with a sign")
        return int(text)

    try:
        body = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_no_number, parse_int=integer
        )
    except (RecursionError, MemoryError):
        raise ValueError("one that is nested too deep, or too large") from None
    level = [body]
    for _ in range(MOST_DEPTH):
        level = [part for part in level if isinstance(part, dict | list)]
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
    if any(isinstance(part, dict | list) for part in level):
        raise ValueError(f"one that is nested more than {MOST_DEPTH} deep")
    return body


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, which readers would resolve differently."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key twice")
    return unique


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number that is not finite")
    return number


def _no_number(_: str) -> NoReturn:
    raise ValueError("a number that is not finite")
