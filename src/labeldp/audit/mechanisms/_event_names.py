"""Names of events: single outputs, and the cells of a partition."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from labeldp._shapes import Float


def output_name(output: Any) -> str:
    """Name of an output: its shortened representation; of a set, its size alone."""
    if isinstance(output, set | frozenset):
        return f"a set of {len(output)}"
    return reprlib.repr(output.tolist() if isinstance(output, np.ndarray | np.generic) else output)


def number_name(value: Any) -> str:
    """Name of a number; whole numbers without a fraction."""
    return f"{int(value) if np.isfinite(value) and value == np.floor(value) else float(value)!r}"


def outcomes_name(texts: Sequence[str], rest: Sequence[int]) -> str:
    """Name of an event that consists of several outputs."""
    texts = [*texts, *(("a rarely seen output", "an output that is not a number")[kind] for kind in rest)]
    if len(texts) == 1:
        return texts[0] if rest else f"the output {texts[0]}"
    return f"one of {len(texts)} outputs, {texts[0]} among them"


def ranges_name(edges: Float[np.ndarray, "e"], chosen: Sequence[int]) -> str:
    """Name of an event that consists of ranges of numbers."""
    if len(edges) + 1 in chosen:
        return "an output that is not a number, or is in some range"
    places = enumerate(sorted(chosen))
    runs = [[cell for _, cell in run] for _, run in itertools.groupby(places, key=lambda pair: pair[1] - pair[0])]
    low, high = runs[0][0], runs[0][-1]
    start = f"at least {edges[low - 1]:.6g}" if low else ""
    end = f"below {edges[high]:.6g}" if high < len(edges) else ""
    ranges = " and ".join(part for part in (start, end) if part) or "any number"
    if start and end and edges[high] == np.nextafter(edges[low - 1], np.inf):
        ranges = f"equal to {edges[low - 1]:.6g}"
    return f"an output {ranges}" if len(runs) == 1 else f"an output in one of {len(runs)} ranges, one {ranges}"
