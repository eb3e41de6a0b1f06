"""Encoding of table rows for generators: numbers in one matrix, codes of categories in another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from labeldp._random_words import SecureWords
from labeldp._shapes import Float, Int, UInt64
from labeldp.columns import numbers_of
from labeldp.errors import InputError
from labeldp.mechanisms.resampling import ColumnForm, Form

_MOST_WIDE = 1000
#: The kinds of columns of dates and times, which are numbers of days and of microseconds.
_KINDS = {"date32[day]": "day", "timestamp[us]": "time"}
#: Most listed numbers that count as categories; longer lists are numbers, which the form rounds to the nearest one.
FEW = 20


class FreshNumbers:
    """The random numbers of one call, from a cryptographic source with a key from the operating system.

    With few possible seeds, anyone could try them all and find out which rows a published generator values_of. So the
    words come from the same source as those for labels.
    """

    def __init__(self) -> None:
        self._words, self._next = SecureWords(), 0

    def words(self, count: int) -> UInt64[np.ndarray, "count"]:
        """``count`` words of 64 bits."""
        start, self._next = self._next, self._next + count
        return self._words.block(start, count)

    def uniforms(self, *shape: int) -> Float[np.ndarray, "..."]:
        """Numbers strictly between 0 and 1, of 53 bits each."""
        words = self.words(int(np.prod(shape)))
        return np.asarray(((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def normals(self, *shape: int) -> Float[np.ndarray, "..."]:
        """Standard normal numbers."""
        return np.asarray(ndtri(self.uniforms(*shape)))

    def places(self, cumulated: Float[np.ndarray, "m s"]) -> Int[np.ndarray, "m"]:
        """A place for each row of cumulated shares, drawn with these shares."""
        drawn = self.uniforms(len(cumulated), 1)
        return np.asarray((drawn >= cumulated[:, :-1]).sum(axis=1))


@dataclass(frozen=True)
class FormEncoder:
    """Encoder of the rows of a form as numbers and codes: texts, flags and short lists of numbers are categories.

    Attributes:
        form: Form of the rows.
        few: Most listed numbers that count as categories.
    """

    form: Form
    few: int = FEW

    def __post_init__(self) -> None:
        wide = [column for column in self.form.columns if (column.width or 1) > _MOST_WIDE]
        if wide or (any(column.width for column in self.form.columns) and not self.form.of_array):
            raise InputError(
                f"expected columns of single values, or an array of at most {_MOST_WIDE} numbers in a row, found more; "
                "for images make a Generator of your own function"
            )

    def _is_category(self, column: ColumnForm) -> bool:
        """True if a column's values are categories, not numbers."""
        return column.values is not None and (not column.of_numbers or len(column.values) <= self.few)

    @cached_property
    def of_numbers(self) -> tuple[ColumnForm, ...]:
        """The form of each column of numbers, in order."""
        if self.form.of_array:
            return self.form.columns * (self.form.columns[0].width or 1)
        return tuple(column for column in self.form.columns if not self._is_category(column))

    @cached_property
    def of_categories(self) -> tuple[ColumnForm, ...]:
        """The columns that list their values, in order."""
        return () if self.form.of_array else tuple(each for each in self.form.columns if self._is_category(each))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of each category column, with a missing value as the last."""
        return tuple(column.cells or 0 for column in self.of_categories)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Slice of each category column in the concatenation of all their values."""
        ends = np.cumsum([0, *self.sizes])
        return tuple(slice(low, high) for low, high in pairwise(ends.tolist()))

    def read(self, rows: pa.Table) -> tuple[Float[np.ndarray, "n d"], Int[np.ndarray, "n c"]]:
        """Encode shaped rows as numbers, NaN where missing, and codes."""
        if self.form.of_array:
            return self.form.array(rows).reshape(rows.num_rows, -1).astype(np.float64), np.empty(
                (rows.num_rows, 0), int
            )
        numbers = [numbers_of(rows[each.name], _KINDS.get(each.element, "number")) for each in self.of_numbers]
        codes = [_as_codes(column, rows[column.name]) for column in self.of_categories]
        none = np.empty((rows.num_rows, 0))
        return (
            np.column_stack(numbers) if numbers else none,
            np.column_stack(codes) if codes else none.astype(np.int64),
        )

    def rows(self, numbers: Float[np.ndarray, "m d"], codes: Int[np.ndarray, "m c"]) -> pa.Table | np.ndarray:
        """Decode numbers and codes into rows, which a form then shapes."""
        if self.form.of_array:
            return self._clipped(numbers).reshape(len(numbers), *(self.form.columns[0].shape or ()))
        types = {field.name: field.type for field in self.form.schema}
        values_of = {}
        for column, values in zip(self.of_numbers, self._clipped(numbers).T, strict=True):
            absent = np.isnan(values)
            whole = not pa.types.is_floating(types[column.name])
            plain = np.rint(np.where(absent, column.low, values)).astype(np.int64) if whole else values
            values_of[column.name] = _dated(pa.array(plain, mask=absent), types[column.name])
        for column, places in zip(self.of_categories, codes.T, strict=True):
            values = pa.array(column.values, types[column.name])
            values_of[column.name] = values.take(pa.array(places, mask=places >= len(column.values or ())))
        return pa.table({name: values_of[name] for name in self.form.names})

    def uniform(self, count: int, fresh: FreshNumbers) -> tuple[np.ndarray, np.ndarray]:
        """Draw numbers and codes uniformly over their ranges and values."""
        low, high = self._ends
        numbers = low + (high - low) * fresh.uniforms(count, len(low))
        for place, column in enumerate(self.of_numbers):
            if column.values is not None:
                listed = np.array([*column.values, *[np.nan] * column.missing])
                numbers[:, place] = listed[np.minimum(fresh.uniforms(count) * len(listed), len(listed) - 1).astype(int)]
        codes = [np.minimum(fresh.uniforms(count) * size, size - 1) for size in self.sizes]
        return numbers, np.array(codes, dtype=np.int64).reshape(len(self.sizes), count).T

    def inputs(self, numbers: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n c"]) -> Float[np.ndarray, "n p"]:
        """Inputs of a linear model: scaled numbers, indicators of missing ones, and a one-hot code of each category."""
        absent = np.isnan(numbers)
        middle = _means(numbers)
        filled = np.where(absent, middle, numbers) - middle
        flags = [np.eye(size)[codes[:, place]] for place, size in enumerate(self.sizes)]
        deviation = filled.std(axis=0) if len(filled) else np.ones(filled.shape[1])
        return np.hstack([filled / np.where(deviation > 0, deviation, 1.0), absent[:, absent.any(axis=0)], *flags])

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = ([float(getattr(column, name) or 0) for column in self.of_numbers] for name in ("low", "high"))
        return np.array(low), np.array(high)

    def _clipped(self, numbers: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        return np.asarray(np.clip(numbers, *self._ends))


def _means(numbers: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d"]:
    """The means of columns over values that are not missing; 0 if all are."""
    there = ~np.isnan(numbers)
    return np.asarray(np.where(there, numbers, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1))


def _as_codes(column: ColumnForm, values: pa.ChunkedArray) -> Int[np.ndarray, "n"]:
    listed: Any = column.values
    return np.asarray(pc.index_in(values, value_set=pa.array(listed, values.type)).fill_null(len(listed)).to_numpy())


def _dated(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Whole numbers as dates or times, if the column holds these."""
    if pa.types.is_date(kind):
        return values.cast(pa.int32()).cast(kind)
    return values.cast(kind) if pa.types.is_timestamp(kind) else values
