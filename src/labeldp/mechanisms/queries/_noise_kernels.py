"""Compiled loops of exact noise: uniform integers by rejection, and draws made of them.

Each draws until all values are filled or words run out. ``progress`` has the number of values so far, and gets it
again, with the number of words used.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp._native import kernel

if TYPE_CHECKING:
    import numpy as np

    from labeldp._shapes import Int64, UInt64


@kernel("values", "progress")
def laplace(
    words: UInt64[np.ndarray, "w"],
    values: Int64[np.ndarray, "n"],
    progress: Int64[np.ndarray, "2"],
    rate: int,
    parts: int,
) -> None:
    """Integers with ``P(z)`` proportional to ``exp(-|z| rate / parts)``."""


@kernel("values", "progress", "order")
def best(
    words: UInt64[np.ndarray, "w"],
    values: Int64[np.ndarray, "n"],
    progress: Int64[np.ndarray, "2"],
    rate: int,
    parts: int,
    scores: Int64[np.ndarray, "n k"],
    again: bool,
    order: Int64[np.ndarray, "k"],
) -> None:
    """A noisy argmax for each row of scores; ``order`` is room for one row."""


@kernel("values", "progress", "digits")
def normal(
    words: UInt64[np.ndarray, "w"],
    values: Int64[np.ndarray, "n"],
    progress: Int64[np.ndarray, "2"],
    deviation: int,
    digits: UInt64[np.ndarray, "r"],
) -> None:
    """Roundings of normal numbers; ``digits`` is room for two more words than there are."""


@kernel("digits", "used")
def inside(
    words: UInt64[np.ndarray, "w"],
    deviation: int,
    whole: int,
    digits: UInt64[np.ndarray, "r"],
    used: Int64[np.ndarray, "1"],
) -> int:
    """1 with probability ``(whole + 0.digits) / deviation``, else 0; -1 where words ran out.

    The first digit is given, and ``digits`` is room for two more words than there are.
    """
