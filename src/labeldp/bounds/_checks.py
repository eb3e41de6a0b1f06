"""Numbers that theorems take, checked."""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.errors import InputError

_MOST_ROWS = 1 << 62
_MOST_CLASSES = 1 << 24


def rows_of(rows: int, name: str = "rows") -> int:
    """A number of rows, one at least."""
    return _checks.whole(rows, name, 1, _MOST_ROWS)


def classes_of(classes: int, least: int = 2) -> int:
    """A number of classes."""
    return _checks.whole(classes, "classes", least, _MOST_CLASSES)


def positive(value: float, name: str) -> float:
    """A finite number above 0."""
    found = _checks.number(value, name)
    if not 0 < found < math.inf:
        raise InputError(f"expected {name} to be a finite number above 0, found {found:g}")
    return found


def not_negative(value: float, name: str) -> float:
    """A finite number, 0 or above."""
    found = _checks.number(value, name)
    if not 0 <= found < math.inf:
        raise InputError(f"expected {name} to be at least 0 and finite, found {found:g}")
    return found


def chance(value: float, name: str, *, zero: bool = True, one: bool = True) -> float:
    """A probability; 0 or 1 only where they are allowed."""
    found = _checks.number(value, name)
    if not 0 <= found <= 1 or (found == 0 and not zero) or (found == 1 and not one):
        low, high = "at least" if zero else "above", "at most" if one else "below"
        raise InputError(f"expected {name} {low} 0 and {high} 1, found {found:g}")
    return found


def order_of(alpha: float) -> float:
    """The order of a divergence, above 1; infinity is one."""
    found = _checks.number(alpha, "alpha")
    if not found > 1:
        raise InputError(f"expected an order above 1, found {found:g}")
    return found


def moments_of(value: float) -> float:
    """How many moments labels have, finitely many."""
    found = _checks.number(value, "moments")
    if not 2 <= found < math.inf:
        raise InputError(
            f"expected at least 2 moments of the labels and finitely many, found {found:g}; bounded labels have "
            "theorems of their own"
        )
    return found
