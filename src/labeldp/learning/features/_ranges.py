"""Ranges of columns that grow, such as dates and counters, beyond which a model does not extrapolate."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

#: Rows that are looked at together, and the share of them beyond a range that is worth a warning.
_MANY_ROWS, _MUCH = 20, 0.1


class UnseenValueWarning(UserWarning):
    """Many rows have values that a model did not learn from."""


class OutsideRangeWarning(UnseenValueWarning):
    """Many rows lie outside what a model learned from, such as those of later days."""


@dataclass(frozen=True)
class SeenRanges:
    """The values of columns that a model learned from.

    A model says nothing of days, counters or identifiers beyond those that it saw, and a line through them would go on
    for ever. So its features stay within the range of each column, and months that it did not see are the most common
    one of those that it did.

    Attributes:
        numbers: The least and the largest number of each column.
        cycles: The texts of each column of months or weekdays, the most common one first.
    """

    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    cycles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: pd.DataFrame, cycles: Collection[str] = ()) -> Self:
        """The ranges of the columns of a frame, of which some hold months or weekdays."""
        numbers = {name: frame[name].dropna() for name in frame if is_numeric_dtype(frame[name])}
        ends = {str(name): (float(each.min()), float(each.max())) for name, each in numbers.items() if len(each)}
        texts = {name: tuple(frame[name].value_counts().index) for name in cycles}
        return cls(ends, {name: each for name, each in texts.items() if each})

    def within(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame whose values are within the ranges, with a warning where many rows were not."""
        changed, outside = dict[str, Any](), dict[str, int]()
        for name, (low, high) in self.numbers.items():
            values = frame[name].to_numpy()
            beyond = ((values < low) | (values > high)) & np.isfinite(values)  # infinity is an error, not a late day
            changed[name] = np.where(beyond, np.clip(values, low, high), values)
            outside[name] = int(beyond.sum())
        for name, texts in self.cycles.items():
            unseen = frame[name].notna() & ~frame[name].isin(texts)
            changed[name] = frame[name].where(~unseen, texts[0])
            outside[name] = int(unseen.sum())
        _warn(outside, len(frame))
        return frame.assign(**{name: changed[name] for name in changed if outside[name]})

    def plain(self) -> dict[str, Any]:
        """The ranges as plain data for a file."""
        return {name: list(each) for name, each in [*self.numbers.items(), *self.cycles.items()]}

    @classmethod
    def from_plain(cls, body: Mapping[str, Any]) -> Self:
        """The ranges that ``plain`` described; none of a model that was saved without them."""
        cycles = {name: tuple(each) for name, each in body.items() if all(isinstance(text, str) for text in each)}
        others = {name: each for name, each in body.items() if name not in cycles}
        numbers = {name: (float(low), float(high)) for name, (low, high) in others.items()}
        if not all(cycles.values()) or not all(low <= high for low, high in numbers.values()):
            raise ValueError("no ranges of columns")
        return cls(numbers, cycles)


def _warn(outside: Mapping[str, int], rows: int) -> None:
    """Warn of columns in which many rows lie outside what the model learned from."""
    many = {name: count for name, count in outside.items() if rows >= _MANY_ROWS and count > _MUCH * rows}
    if many:
        named = ", ".join(f"{name!r} ({count:,})" for name, count in many.items())
        warnings.warn(
            f"Many of the {rows:,} rows lie outside what the model learned from: {named}. It takes the nearest values "
            "that it saw instead, since it knows nothing of others; learn from newer rows",
            OutsideRangeWarning,
            stacklevel=5,
        )
