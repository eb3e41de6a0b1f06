"""Means of the true labels of rows, and of a group of rows less all others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.learning.losses import ends_of, unbiased_numbers
from labeldp.learning.metrics import (
    Estimate,
    Units,
    class_weights,
    difference_of,
    mean_of_numbers,
    shares_of_groups,
)
from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class TrueMean:
    """The share of a class among true labels, or the mean of numeric ones, in groups of rows.

    Attributes:
        release: The released labels.
        units: Their privacy units.
        code: The code of the class; None for numeric labels.
        level: Coverage of each interval.
    """

    release: Release
    units: Units
    code: int | None
    level: float

    def of(self, rows: Int[np.ndarray, "m"]) -> Estimate:
        """The mean of some rows."""
        if self.code is None:
            return mean_of_numbers(self.release, rows, self.units, self.level)
        codes, place = np.full(len(rows), self.code), np.zeros(len(rows), dtype=np.int64)
        return shares_of_groups(self.release[rows], codes, place, 1, self.units.take(rows), self.level)[0]

    def difference(self, inside: Bool[np.ndarray, "n"]) -> tuple[Estimate, Estimate, Estimate]:
        """The means of the marked rows and of all others, and their difference; units may have rows in both."""
        one, other = (self.of(np.flatnonzero(its)) for its in (inside, ~inside))
        correlation = 0.0 if self.units.numbers is None else self.units.correlation(self._values, inside)
        ends = ends_of(self.release) if self.code is None else (0.0, 1.0)
        return one, other, difference_of(one, other, *ends, correlation)

    @property
    def _values(self) -> Float[np.ndarray, "n"]:
        """A value for each row, whose mean is the true one."""
        if self.code is None:
            return unbiased_numbers(self.release)
        return class_weights(self.release, np.full(len(self.release), self.code))
