"""Independent units of rows: sums, covariances and quantiles from which metrics compute standard errors and intervals.

Rows of one unit are dependent: their labels belong to one person, say. The sums of what rows contribute are then sums
of independent totals of units, and their covariance is that of the totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp.release import unit_numbers


@dataclass(frozen=True, eq=False)
class Units:
    """The independent units of a sample of rows.

    Attributes:
        rows: Number of rows.
        numbers: Number of each row's unit, from 0; None if each row is its own.
        count: Number of units.
    """

    rows: int
    numbers: Int[np.ndarray, "n"] | None
    count: int

    @property
    def free(self) -> int:
        """Degrees of freedom of a variance between units, at least 1."""
        return max(self.count - 1, 1)

    @property
    def size(self) -> float:
        """Mean number of rows of a unit."""
        return self.rows / max(self.count, 1)

    @classmethod
    def of(cls, units: object, rows: int) -> Units:
        """Units from the value that names each row's unit; None if each row is its own.

        Raises:
            InputError: There is no unit for each row, or their values are of different kinds.
        """
        if isinstance(units, Units):
            return units
        if units is None:
            return cls(rows, None, rows)
        numbers = unit_numbers(units, rows)
        return cls(rows, numbers, int(numbers.max(initial=-1)) + 1)

    def totals(self, values: Float[np.ndarray, "n *shape"]) -> Float[np.ndarray, "u *shape"]:
        """Sums of what rows contribute, by unit."""
        if self.numbers is None:
            return values
        sums = np.zeros((self.count, *values.shape[1:]))
        np.add.at(sums, self.numbers, values)
        return sums

    def covariance(self, values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p p"]:
        """Covariance of the sums over rows of each column; infinite for a single unit."""
        if self.count < 2:
            return np.full((values.shape[1],) * 2, np.inf)
        return np.asarray(self.count * np.atleast_2d(np.cov(self.totals(values), rowvar=False)))

    def squares(
        self, values: Float[np.ndarray, "n"], place: Int[np.ndarray, "n"], groups: int
    ) -> tuple[Float[np.ndarray, "g"], Int[np.ndarray, "g"]]:
        """For each group of rows the sum over units of their squared sums there, and the number of units there."""
        if self.numbers is None:
            return np.bincount(place, weights=values**2, minlength=groups), np.bincount(place, minlength=groups)
        keys, inverse = np.unique(self.numbers * groups + place, return_inverse=True)
        totals, place = np.bincount(inverse, weights=values), keys % groups
        return np.bincount(place, weights=totals**2, minlength=groups), np.bincount(place, minlength=groups)

    def present(self, marked: Bool[np.ndarray, "n"], place: Int[np.ndarray, "n"], groups: int) -> Int[np.ndarray, "g"]:
        """For each group of rows the number of units with a marked row there."""
        if self.numbers is None:
            return np.bincount(place[marked], minlength=groups)
        return np.bincount(np.unique(self.numbers[marked] * groups + place[marked]) % groups, minlength=groups)


def design_effect(found: Any, expected: Any, size: Any) -> Any:
    """The design effect: the variance from units over that from independent rows, between 1 and their mean size.

    If independent rows would have no variance, the rows of a unit are taken to be alike.

    Args:
        found: Variance between units.
        expected: Variance of independent rows.
        size: Mean number of rows of a unit.

    References:
        Kish 1965, section 8.2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0.0, np.clip(found / expected, 1.0, size), size)
