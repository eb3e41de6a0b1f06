"""A form for private rows that shows no value of a single row, since every certificate prints the form."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.columns import rows_of_values
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import ColumnForm, Form

#: Fewest rows that share a text or a listed number before it is shown.
_OFTEN = 5
#: Fewest steps of a power of ten that a range is divided into; at most ten times as many.
_STEPS = 100


def coarse_form(features: object) -> Form:
    """The form of private rows: range ends rounded outwards, few digits, and only common values.

    Args:
        features: As for ``Form.of``.

    Raises:
        InputError: As for ``Form.of``; or a column has no common text.
    """
    form = Form.of(features)
    table = form.table(features)
    if form.of_array:
        return dataclasses.replace(form, columns=(_ranged(form.columns[0]),))
    return dataclasses.replace(form, columns=tuple(_coarse(each, table[each.name]) for each in form.columns))


def _coarse(column: ColumnForm, values: pa.ChunkedArray) -> ColumnForm:
    """A column without the values of few rows."""
    if column.values is None:
        return _ranged(column)
    counts = rows_of_values(values)
    common = tuple(value for value in column.values if counts.get(value, 0) >= _OFTEN)
    if len(common) == len(column.values):
        return column
    if column.of_numbers:
        return _ranged(column)
    if not common:
        raise InputError(
            f"expected texts shared by at least {_OFTEN} rows in the column {column.name!r}, found none; a form "
            "publishes its texts: leave the column out, or declare a form (form=)"
        )
    fallback = column.fallback if column.fallback in common else max(common, key=lambda text: counts[text])
    return dataclasses.replace(column, values=common, fallback=fallback)


def _ranged(column: ColumnForm) -> ColumnForm:
    """A range whose ends are whole steps of a power of ten beyond those of the rows."""
    low, high = float(column.low or 0), float(column.high or 0)
    step = 10.0 ** math.floor(math.log10((high - low or 1.0) / _STEPS))
    whole = np.issubdtype(_element_type(column), np.integer)
    step = max(step, 1.0) if whole else step
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    if not whole:
        ends = round(ends[0], decimals), round(ends[1], decimals)
        digits: Mapping[str, Any] = {"decimals": decimals}
    else:
        digits = {"decimals": column.decimals}
        ends = _inside(column, ends)
    return ColumnForm(
        column.name, column.type, low=ends[0], high=ends[1], missing=column.missing, shape=column.shape, **digits
    )


def _element_type(column: ColumnForm) -> np.dtype[Any]:
    """The NumPy type of a column's numbers: whole numbers or floats."""
    return np.dtype(np.float64 if column.element in ("float", "double") else np.int64)


def _inside(column: ColumnForm, ends: tuple[float, float]) -> tuple[int, int]:
    """Ends within the type of whole numbers."""
    widest = ColumnForm(column.name, column.type, shape=column.shape)
    low, high = int(widest.low or 0), int(widest.high or 0)
    return max(low, int(ends[0])), min(high, int(ends[1]))
