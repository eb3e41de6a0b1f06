"""Independent units of rows: sums, covariances and quantiles from which metrics compute standard errors and intervals.

Rows of one unit are dependent: their labels belong to one person, say. The sums of what rows contribute are then sums
of independent totals of units, and their covariance is that of the totals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Bool, Float, Int
from labeldp.release import Release, unit_numbers

#: Fewer units do not show how dependent their rows are.
FEW_UNITS = 10
#: What stands for the units of rows that are meant to be independent.
ROWS = "rows"


@documented_in("labeldp.learning.metrics")
class UnitsWarning(UserWarning):
    """Several rows of a release may be of one privacy unit, and nothing says which, so they are taken as independent.

    Models are then chosen on rows of units that they learned from, and standard errors are too small. Pass the unit of
    each row, as ``groups=`` to a learner or ``units=`` to a metric; or ``"rows"``, if rows are independent.
    """


def may_share_units(release: Release) -> bool:
    """True if several rows of a release may be of one privacy unit."""
    repeats = getattr(release.channel, "repeats", None)
    if repeats is not None:
        return max(repeats, default=1) > 1
    return release.certificate is not None and release.certificate.guarantee.unit != "row"


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

    def freedom(self, totals: Float[np.ndarray, "u"]) -> float:
        """Degrees of freedom of a sum of squared totals, of one variance among units of one size.

        Few large units may carry most of it, however many small ones there are.

        References:
            Satterthwaite 1946, equation 17.
        """
        if self.numbers is None:
            return self.free
        _, place, units = np.unique(np.bincount(self.numbers), return_inverse=True, return_counts=True)
        variances = np.bincount(place, weights=totals**2) / units
        squares = float(units @ variances**2)
        return float(np.clip((units @ variances) ** 2 / squares - 1.0, 1.0, self.free)) if squares > 0.0 else self.free

    @property
    def size(self) -> float:
        """Mean over rows of the number of rows of their unit: the design effect where rows of a unit are alike."""
        return self.rows / max(self.effective, 1.0)

    @property
    def effective(self) -> float:
        """Effective number of units, for a mean over rows: fewer than there are where some have more rows (Kish)."""
        if self.numbers is None:
            return float(self.rows)
        return self.rows**2 / max(float((np.bincount(self.numbers) ** 2).sum()), 1.0)

    @classmethod
    def of(cls, units: object, release: Release | int) -> Units:
        """Units from the value that names each row's unit, for released rows or a number of rows.

        Args:
            units: The value for each row; ``"rows"`` if each row is its own, as they are taken to be for None.
            release: The released rows, which are warned of where some may share a unit and nothing says which.

        Raises:
            InputError: There is no unit for each row, or their values are of different kinds.
        """
        if isinstance(units, Units):
            return units
        rows = release if isinstance(release, int) else len(release)
        if units is None and isinstance(release, Release) and may_share_units(release):
            _warn()
        if units is None or (isinstance(units, str) and units == ROWS):
            return cls(rows, None, rows)
        numbers = unit_numbers(units, rows)
        return cls(rows, numbers, int(numbers.max(initial=-1)) + 1)

    @property
    def firsts(self) -> Int[np.ndarray, "u"]:
        """The first row of each unit."""
        return np.arange(self.rows) if self.numbers is None else np.unique(self.numbers, return_index=True)[1]

    def take(self, rows: Int[np.ndarray, "m"]) -> Units:
        """The units of some rows."""
        if self.numbers is None:
            return Units(len(rows), None, len(rows))
        names, numbers = np.unique(self.numbers[rows], return_inverse=True)
        return Units(len(rows), numbers, len(names))

    def totals(self, values: Float[np.ndarray, "n *shape"]) -> Float[np.ndarray, "u *shape"]:
        """Sums of what rows contribute, by unit."""
        if self.numbers is None:
            return values
        sums = np.zeros((self.count, *values.shape[1:]))
        np.add.at(sums, self.numbers, values)
        return sums

    def design_effect(self, values: Float[np.ndarray, "n *shape"]) -> float:
        """The design effect: rows of units that say as much as one independent row, for values with a mean near 0."""
        if self.numbers is None:
            return 1.0
        return float(design_effect((self.totals(values) ** 2).sum(), (values**2).sum(), self.size))

    def sizes(self, place: Int[np.ndarray, "n"], groups: int) -> tuple[Float[np.ndarray, "g"], Float[np.ndarray, "g"]]:
        """For each group of rows the size of units there, in the mean over rows, and that of the largest."""
        if self.numbers is None or not self.rows:
            return np.ones(groups), np.ones(groups)
        keys, counts = np.unique(self.numbers * groups + place, return_counts=True)
        mean, largest = np.bincount(keys % groups, weights=counts**2.0, minlength=groups), np.ones(groups)
        np.maximum.at(largest, keys % groups, counts)
        return np.maximum(mean / np.maximum(np.bincount(place, minlength=groups), 1), 1.0), largest

    def covariance(self, values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "p p"]:
        """Covariance of the sums over rows of each column; infinite for a single unit."""
        if self.count < 2:
            return np.full((values.shape[1],) * 2, np.inf)
        return np.asarray(self.count * np.atleast_2d(np.cov(self.totals(values), rowvar=False)))

    def correlation(self, values: Float[np.ndarray, "n"], inside: Bool[np.ndarray, "n"]) -> float:
        """The correlation of the means of marked rows and of all others, of which a unit may have both.

        Fewer than ten units with either do not show that it is above 0.
        """
        if self.numbers is None:
            return 0.0
        one, other = (self.totals(np.where(its, values - values[its].mean(), 0.0)) for its in (inside, ~inside))
        few = min(len(np.unique(self.numbers[its])) for its in (inside, ~inside)) < FEW_UNITS
        size = math.sqrt(float((one**2).sum()) * float((other**2).sum()))
        return min(float(one @ other) / size, 0.0 if few else 1.0) if size > 0.0 else 0.0

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


def _warn() -> None:
    """Warn of missing units."""
    _checks.warn(
        "Several rows of this release may be of one privacy unit, and nothing says which: they are taken as "
        "independent, so models and scores may look far too good. Pass the unit of each row (groups= in fit, units= in "
        "a metric), or 'rows' if rows are independent",
        UnitsWarning,
    )


def design_effect(found: Any, expected: Any, size: Any, largest: Any = None) -> Any:
    """The design effect: the variance from units over that from independent rows, at least 1.

    If independent rows would have no variance, the rows of a unit are taken to be alike.

    Args:
        found: The variance from units.
        expected: That from independent rows.
        size: The mean over rows of the number of rows of their unit.
        largest: The most that it can be: the size of the largest unit, if large units may differ most; by default size.

    References:
        Kish 1965, section 8.2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0.0, np.clip(found / expected, 1.0, size if largest is None else largest), size)
