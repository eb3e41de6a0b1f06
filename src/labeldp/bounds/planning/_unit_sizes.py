"""Numbers of rows of privacy units, for plans of an epsilon that covers all rows of a unit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import unit_sizes


@dataclass(frozen=True)
class UnitSizes:
    """The rows of a table by the number of rows of their privacy unit, which is public.

    Attributes:
        sizes: The different numbers of rows of a unit, increasing.
        rows: The rows in units of each size.

    Raises:
        InputError: There are no units.

    Example:
        >>> import numpy as np
        >>> from labeldp.bounds import UnitSizes, plan
        >>> rows_per_patient = np.array([1, 1, 1, 3])
        >>> units = UnitSizes.of(rows_per_patient)
        >>> units
        UnitSizes(sizes=(1, 3), rows=(3, 3))
        >>> [round(plan(2, 6, 1.0, units=each).options[0].truth_probability, 3) for each in (None, units)]
        [0.731, 0.657]
    """

    sizes: tuple[int, ...]
    rows: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) != len(self.rows) or min(self.sizes) < 1 or min(self.rows) < 0:
            raise InputError("expected the number of rows in units of each size, found other numbers")

    @classmethod
    def of(cls, rows_per_unit: Int[np.ndarray, "units"]) -> UnitSizes:
        """Those of units with so many rows each; sizes are rounded up where a release rounds them up."""
        sizes = unit_sizes(rows_per_unit)
        groups = np.searchsorted(np.array(sizes), rows_per_unit)
        return cls(sizes, tuple(np.bincount(groups, rows_per_unit, len(sizes)).astype(int).tolist()))

    @property
    def most(self) -> int:
        """The most rows of one unit."""
        return self.sizes[-1]

    def shares(self) -> Iterator[tuple[float, int]]:
        """The share of all rows that are in units of each size, and the size."""
        total = sum(self.rows)
        return ((count / total, size) for count, size in zip(self.rows, self.sizes, strict=True))

    def coarse(self) -> UnitSizes:
        """The same with sizes rounded up to powers of two."""
        found: dict[int, int] = {}
        for count, size in zip(self.rows, self.sizes, strict=True):
            power = 1 << (size - 1).bit_length()
            found[power] = found.get(power, 0) + count
        return UnitSizes(tuple(found), tuple(found.values()))


@dataclass(frozen=True)
class OneRowEach:
    """A release of one row of each unit alone, whose whole epsilon is for this row.

    Attributes:
        rows: Number of units.
        effective_rows: Effective rows, as of an option.
        noise: Standard deviation of the noise of a row, as of an option.
    """

    rows: int
    effective_rows: int
    noise: float
