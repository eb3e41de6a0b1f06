"""Columns that are sorted as the rows are, and so show an order of rows that was to be hidden."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.release.tables._tables import Table


def sorted_columns(table: Table, names: Sequence[str], rows: int) -> list[str]:
    """The columns of several values that never decrease, or never increase, from one row to the next.

    Args:
        table: The table.
        names: The columns to look at.
        rows: The number of rows of a batch.
    """
    up, down = dict.fromkeys(names, True), dict.fromkeys(names, True)
    last: dict[str, pa.Array] = {}
    for batch in table.batches(names, rows) if names else ():
        for name in names:
            column = batch[name].drop_null()
            values = pa.concat_arrays([last[name], column]) if name in last else column
            if not len(values) or not (up[name] or down[name]):
                continue
            up[name] &= _is_never(pc.less, values)
            down[name] &= _is_never(pc.greater, values)
            last[name] = values[-1:]
    return [name for name in names if up[name] != down[name]]


def _is_never(compare: object, values: pa.Array) -> bool:
    """True if a comparison of a value with the one before it never holds; false for values without an order."""
    try:
        return not pc.any(compare(values[1:], values[:-1])).as_py()  # type: ignore[operator]
    except pa.ArrowNotImplementedError:
        return False
