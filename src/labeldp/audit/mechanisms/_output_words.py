"""Outputs, and cells of them, in words."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float


def said(output: Any) -> str:
    """An output in words."""
    if isinstance(output, set | frozenset):
        return f"a set of {len(output)}"
    return reprlib.repr(output.tolist() if isinstance(output, np.ndarray | np.generic) else output)


def said_number(value: Any) -> str:
    """A number in words; whole numbers as such."""
    return f"{int(value) if np.isfinite(value) and value == np.floor(value) else float(value)!r}"


def one_of(texts: Sequence[str], rest: Sequence[int]) -> str:
    """Some outputs, in words."""
    texts = [*texts, *(("an output that is rarely seen", "an output that is no number")[kind] for kind in rest)]
    if len(texts) == 1:
        return texts[0] if rest else f"the output {texts[0]}"
    return f"one of {len(texts)} outputs, {texts[0]} among them"


def said_ranges(edges: Float[np.ndarray, "e"], chosen: Sequence[int]) -> str:
    """Ranges of numbers, in words."""
    if len(edges) + 1 in chosen:
        return "an output that is no number, or in some range"
    places = enumerate(sorted(chosen))
    runs = [[cell for _, cell in run] for _, run in itertools.groupby(places, key=lambda pair: pair[1] - pair[0])]
    low, high = runs[0][0], runs[0][-1]
    start = f"at least {edges[low - 1]:.6g}" if low else ""
    end = f"below {edges[high]:.6g}" if high < len(edges) else ""
    ranges = " and ".join(part for part in (start, end) if part) or "any number"
    return f"an output {ranges}" if len(runs) == 1 else f"an output in one of {len(runs)} ranges, one {ranges}"
