"""Strict JSON, for documents that others send: each key once, finite numbers, and little depth."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NoReturn

#: The deepest nesting of a document; that of a generator's form in a certificate is 8.
MOST_DEPTH = 16


def strict_json(text: str, integer: Callable[[str], int] = int) -> Any:
    """The value of a document.

    Args:
        text: The document.
        integer: Parses an integer, and may refuse one that is too long.

    Raises:
        ValueError: It is no JSON, or is nested too deep, or has a key twice or a number that is not finite.
    """
    try:
        body = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_no_number, parse_int=integer
        )
    except (RecursionError, MemoryError):
        raise ValueError("a document is too deep or too large") from None
    level = [body]
    for _ in range(MOST_DEPTH + 1):
        level = [part for part in level if isinstance(part, dict | list)]
        level = [part for item in level for part in (item.values() if isinstance(item, dict) else item)]
    if any(isinstance(part, dict | list) for part in level):
        raise ValueError(f"a document is nested more than {MOST_DEPTH} deep")
    return body


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys, which readers would resolve differently."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key occurs twice")
    return unique


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _no_number(_: str) -> NoReturn:
    raise ValueError("a number is not finite")
