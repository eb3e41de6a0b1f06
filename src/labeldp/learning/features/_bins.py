"""Bins of columns, one byte a value, from a public sample."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from labeldp._shapes import Float, UInt8

#: Most bins of a column, and the code of a missing value.
_MOST, _MISSING = 254, 255


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of the values of columns, and the value that stands for each.

    Attributes:
        edges: The inner edges of the bins of each column, ascending.
        values: A value in each of them: the mean of those of the sample.
    """

    edges: tuple[Float[np.ndarray, "e"], ...]
    values: tuple[Float[np.ndarray, "b"], ...]

    @classmethod
    def of(cls, points: Float[np.ndarray, "n d"], categorical: Collection[int]) -> Self:
        """Bins of about equally many rows of a sample; codes of categories are bins of their own."""
        edges, values = list[np.ndarray](), list[np.ndarray]()
        for place, column in enumerate(points.T):
            known = np.sort(column[~np.isnan(column)])
            different = np.unique(known)
            if len(different) > _MOST and place not in categorical:
                inner = np.unique(known[np.linspace(0, len(known) - 1, _MOST + 1).astype(int)[1:-1]])
            else:
                inner = (different[1:] + different[:-1]) / 2
            places = np.searchsorted(inner, known, side="right")
            sizes = np.bincount(places, minlength=len(inner) + 1)
            sums = np.bincount(places, weights=known, minlength=len(inner) + 1)
            near = np.append(inner, inner[-1:] if len(inner) else 0.0)
            edges.append(inner)
            values.append(np.where(sizes > 0, sums / np.maximum(sizes, 1), near))
        return cls(tuple(edges), tuple(values))

    def codes(self, points: Float[np.ndarray, "n d"]) -> UInt8[np.ndarray, "n d"]:
        """The bin of each value."""
        found = np.empty(points.shape, dtype=np.uint8)
        for place, (edges, column) in enumerate(zip(self.edges, points.T, strict=True)):
            found[:, place] = np.where(np.isnan(column), _MISSING, np.searchsorted(edges, column, side="right"))
        return found

    def points(self, codes: UInt8[np.ndarray, "... d"]) -> Float[np.ndarray, "... d"]:
        """The values that stand for bins of rows or of one row, with NaN for missing ones."""
        return np.asarray(self._of_codes[np.arange(codes.shape[-1]), codes])

    @cached_property
    def _of_codes(self) -> Float[np.ndarray, "d 256"]:
        """The value that stands for every code of a column."""
        found = np.full((len(self.values), _MISSING + 1), np.nan)
        for row, values in zip(found, self.values, strict=True):
            row[: len(values)] = values
        return found
