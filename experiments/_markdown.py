"""Tables in Markdown: lines as they are, and means over draws by what varies."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

#: Marks cells of an earlier recipe.
OLD = "†"


def pivot(
    rows: pd.DataFrame,
    down: Sequence[str],
    value: str,
    *,
    across: str = "epsilon",
    order: Iterable[tuple[Any, ...]] = (),
    title: str = "",
    scale: float = 1.0,
    form: str = ".3f",
) -> list[str]:
    """A Markdown table of means, with standard deviations over draws in parentheses where there are several.

    Cells with rows of an earlier recipe are marked.

    Args:
        rows: The rows.
        down: Columns that name a line.
        value: The measure.
        across: The column with a value for each column of the table.
        order: The lines in their order; those without rows are left out. As they come in the rows if empty.
        title: Head of the first column; the name of the first of ``down`` if empty.
        scale: Factor of the measure.
        form: Format of a mean.
    """
    cells = rows.groupby([*down, across], sort=False)
    found = {key: shown(part[value] * scale, form) + mark(part) for key, part in cells}
    heads = sorted(rows[across].unique())
    names = [across_name(across, head) for head in heads]
    there = dict.fromkeys(key[:-1] for key in found)
    lines = [line for line in dict.fromkeys(order) if line in there] or list(there)
    return table(
        [title or down[0], *down[1:], *names],
        [[*line, *(found.get((*line, head), "") for head in heads)] for line in lines],
    )


def across_name(across: str, value: Any) -> str:
    """Head of a column; an infinite epsilon is no privacy."""
    if isinstance(value, (float, int, np.number)):
        return "no privacy" if math.isinf(value) else f"{across} {value:g}"
    return str(value)


def mark(rows: pd.DataFrame) -> str:
    """The mark of a cell that has rows of an earlier recipe."""
    return f" {OLD}" if "stale" in rows and rows["stale"].any() else ""


def shown(values: pd.Series, form: str = ".3f") -> str:
    """A mean, with the standard deviation in parentheses where there are several values."""
    if values.dropna().empty:
        return ""
    return f"{values.mean():{form}}" + (f" ({values.std():{form}})" if values.count() > 1 else "")


def table(head: Iterable[object], lines: Iterable[Iterable[object]]) -> list[str]:
    """A Markdown table."""
    head = list(head)
    return [f"| {' | '.join(map(str, line))} |" for line in (head, ["---"] * len(head), *lines)]
