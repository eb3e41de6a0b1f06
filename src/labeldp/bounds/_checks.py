"""Validation of the numbers that theorems take."""

from __future__ import annotations

import math

from labeldp import _checks
from labeldp.errors import InputError

_MOST_ROWS = 1 << 62
_MOST_CLASSES = 1 << 24


def check_rows(rows: int, name: str = "rows") -> int:
    """Validate a number of rows, at least one."""
    return _checks.whole(rows, name, 1, _MOST_ROWS)


def check_classes(classes: int, least: int = 2) -> int:
    """Validate a number of classes."""
    return _checks.whole(classes, "classes", least, _MOST_CLASSES)


def check_positive(value: float, name: str) -> float:
    """Validate a finite number above 0."""
    number = _checks.number(value, name)
    if not 0 < number < math.inf:
        raise InputError(f"expected {name} to be a finite number above 0, found {number:g}")
    return number


def check_not_negative(value: float, name: str) -> float:
    """Validate a finite number of at least 0."""
    number = _checks.number(value, name)
    if not 0 <= number < math.inf:
        raise InputError(f"expected {name} to be at least 0 and finite, found {number:g}")
    return number


def check_probability(value: float, name: str, *, zero: bool = True, one: bool = True) -> float:
    """Validate a probability; 0 or 1 only where allowed."""
    number = _checks.number(value, name)
    if not 0 <= number <= 1 or (number == 0 and not zero) or (number == 1 and not one):
        low, high = "at least" if zero else "above", "at most" if one else "below"
        raise InputError(f"expected {name} {low} 0 and {high} 1, found {number:g}")
    return number


def check_order(alpha: float) -> float:
    """Validate the order of a divergence, above 1; infinity is allowed."""
    number = _checks.number(alpha, "alpha")
    if not number > 1:
        raise InputError(f"expected an order above 1, found {number:g}")
    return number


def check_moments(value: float) -> float:
    """Validate the number of finite moments of labels, at least 2 and finite."""
    number = _checks.number(value, "moments")
    if not 2 <= number < math.inf:
        raise InputError(
            "expected moments, the number of finite moments of the labels, to be finite and at least 2, found "
            f"{number:g}; for bounded labels use the bounds without moments"
        )
    return number
