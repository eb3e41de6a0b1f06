"""Conditions that must hold, each with the sentence that states it."""

from __future__ import annotations


def expect(holds: bool, law: str) -> None:
    """Raise an error that states a law which does not hold, also where Python runs without assertions."""
    if not holds:
        raise AssertionError(law)
