"""Independent units of rows: sums, covariances and quantiles from which metrics compute standard errors and intervals.

Rows of one unit are dependent: their labels belong to one person, say. The sums of what rows contribute are then sums
of independent totals of units, and their covariance is that of the totals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Int
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
