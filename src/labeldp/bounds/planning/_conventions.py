"""Assumptions of a forecast about features, labels and privacy units, and the learning curve that follows from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp._smoothing import participation
from labeldp.bounds.planning._curves import CellCurve, LearningCurve, LinearCurve
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import checked_distribution, unit_sizes
from labeldp.privacy import Interval, LabelSpace

_MOST_VARIANCE = 0.9


@dataclass(frozen=True)
class EffectiveDimension:
    """Effective number of directions in which features vary.

    Attributes:
        columns: Number of columns that vary.
        participation: ``(sum of eigenvalues)^2 / sum of squared eigenvalues`` of their correlations: d for d directions
            of equal variance.
        components: Number of principal components that hold 90 % of the variance.
    """

    columns: int
    participation: float
    components: int


def effective_dimension(covariance: Float[np.ndarray, "d d"]) -> EffectiveDimension:
    """Compute the effective dimension of columns from their covariance; constant columns are ignored.

    Example:
        >>> import numpy as np
        >>> effective_dimension(np.array([[4.0, 4.0, 0.0], [4.0, 4.0, 0.0], [0.0, 0.0, 1.0]]))
        EffectiveDimension(columns=3, participation=1.8, components=2)
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InputError(f"expected a finite covariance of shape (columns, columns), found shape {matrix.shape}")
    variances = np.diag(matrix)
    varying = variances > 0
    if not varying.any():
        raise InputError("expected a numeric column that varies, found none; give the dimension explicitly")
    scale = np.sqrt(variances[varying])
    correlations = matrix[np.ix_(varying, varying)] / scale / scale[:, None]
    values = np.linalg.eigvalsh(correlations).clip(0)
    cumulative = np.cumsum(values[::-1]) / values.sum()
    return EffectiveDimension(
        columns=int(varying.sum()),
        participation=round(participation(correlations), 9),
        components=int(np.searchsorted(cumulative, _MOST_VARIANCE - 1e-12) + 1),
    )


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


#: The trust model in which each label is randomized alone.
LOCAL = "local"
#: The share of the variance that features explain, where none is stated.
_EXPLAINED = 0.5


@dataclass(frozen=True)
class Conventions:
    """Assumptions about features and labels, which replace unknown quantities in a forecast.

    Two decide: how labels are distributed, and how much of them features explain. Take the first from labels that were
    released (``label_shares``), and the second from a model of such labels, whose improvement over the mean it is.

    Attributes:
        dimension: The effective dimension of the features; 0 without features.
        explained: Share of the variance of numeric labels that features explain, if there are any; by default a half.
        spread: Standard deviation of numeric labels, in their units; by default that of the shares.
        shares: Probabilities of the k classes or grid points; uniform by default.
        smoothness: beta, above 0 and at most 1, of averages in cells.
        margin: The margin exponent gamma of classes, above 0: the share of rows in which the probabilities of the two
            likeliest classes differ by less than t is about t^gamma.

    Raises:
        InputError: A number is outside its range.
    """

    dimension: float = 0.0
    explained: float | None = None
    spread: float | None = None
    shares: Sequence[float] | None = None
    smoothness: float = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        _checks.not_negative(self.dimension, "dimension")
        _checks.share(self.explained_share, "the share explained", "()")
        _checks.share(self.smoothness, "smoothness", "(]")
        _checks.positive(self.margin, "margin")
        if self.spread is not None:
            _checks.positive(self.spread, "spread")
        if self.shares is not None:
            what = "--shares (shares=) of classes or grid points"
            checked = checked_distribution(self.shares, len(self.shares), what)
            object.__setattr__(self, "shares", tuple(checked.tolist()))

    @property
    def explained_share(self) -> float:
        """The share of the variance that features explain, stated or not."""
        return _EXPLAINED if self.explained is None else self.explained

    def defaults(self, labels: LabelSpread | None) -> tuple[str, ...]:
        """The quantities that decide and were not stated."""
        if labels is None:
            return () if self.dimension else ("dimension",)
        known = self.spread is not None or self.shares is not None
        strength = ("explained",) if self.explained is None else ()
        return (*(() if known else ("shares",)), *(strength if self.dimension else ("dimension",)))

    def sentences(self, labels: LabelSpread | None) -> tuple[str, ...]:
        """The assumptions as sentences."""
        constants = "constants are conventional: use errors to compare mechanisms, not as guarantees"
        if labels is None:
            power = "t" if self.margin == 1.0 else f"t^{self.margin:g}"
            about = (
                "two classes compete, the share of rows in which their probabilities differ by less than t is about "
                f"{power} (margin exponent {self.margin:g})"
            )
            features = f"and features are spread evenly, with an effective dimension of {self.dimension:.3g}"
            power = "" if self.smoothness == 1.0 else f", to the power {self.smoothness:g}"
            smooth = (
                "class probabilities of two rows differ at most in proportion to the distance of their features"
                f"{power} (Hölder smooth of order {self.smoothness:g}), alike in every direction"
            )
            none = "there are no features, so that the error is that of naming the most common class of all rows"
            return (f"{about}, {features}", smooth, constants) if self.dimension else (none, about, constants)
        even = self.spread is None and self.shares is None
        about = "labels spread evenly over their range, with" if even else "labels have"
        about += f" a standard deviation of {labels.spread:.4g}{' (default)' if even else ''}"
        if not self.dimension:
            return f"{about}, and there are no features", constants
        default = " (default)" if self.explained is None else ""
        about += f", and features explain {self.explained_share:.0%} of their variance{default}"
        return about, f"features vary in {self.dimension:.3g} directions", constants


@dataclass(frozen=True)
class LabelSpread:
    """Spread of numeric labels.

    Attributes:
        spread: Their standard deviation.
        furthest: The largest distance of their mean from the middle of the range. For labels of variance V on a range R
            it is at most ``sqrt(R^2 / 4 - V)``, since ``E (Y - m)^2 <= R^2 / 4`` for the middle m.
        explained: The variance that features explain; 0 without features.
    """

    spread: float
    furthest: float
    explained: float

    @property
    def unexplained(self) -> float:
        """The standard deviation that features do not explain."""
        return math.sqrt(self.spread**2 - self.explained)

    @classmethod
    def of(cls, space: LabelSpace, conventions: Conventions) -> LabelSpread | None:
        """Create it for an interval; None for classes, which have no standard deviation."""
        spread, shares = conventions.spread, conventions.shares
        if shares is not None and len(shares) != space.size:
            what = "grid points" if isinstance(space, Interval) else "classes"
            raise InputError(f"expected a share for each of {space.size} {what}, found {len(shares)}")
        if not isinstance(space, Interval):
            if spread is not None:
                raise InputError(f"expected no spread with classes, found {spread!r}; leave it out")
            return None
        half_range = float(space.high - space.low) / 2
        if spread is None:
            points, weights = np.array(space.points), np.full(space.size, 1 / space.size) if shares is None else shares
            spread = math.sqrt(float(np.average((points - np.average(points, weights=weights)) ** 2, weights=weights)))
        if not 0 < spread <= half_range * (1 + 1e-9):
            raise InputError(
                f"expected a spread of at most half of the range, which is {half_range:g}, found {spread:g}: "
                "no labels have a larger standard deviation; give it in the units of labels"
            )
        stated = conventions.spread is not None or shares is not None
        variance = spread**2 if stated else half_range**2 / 3
        explained = conventions.explained_share * spread**2 if conventions.dimension else 0.0
        return cls(spread, math.sqrt(max(half_range**2 - variance, 0.0)), explained)


def learning_curve(
    space: LabelSpace, labels: LabelSpread | None, conventions: Conventions, trust: str
) -> LearningCurve:
    """Learning curve of a label space, with the conventional constants.

    For numeric labels the trivial predictor is their mean, whose error is the standard deviation that features explain;
    without features it is the middle of the range. For classes it is the most common one.
    """
    dimension, smooth = float(conventions.dimension), float(conventions.smoothness)
    if labels is None:
        most = 1 - max(conventions.shares or (1 / space.size,))
        return CellCurve(dimension, 1.0, 1.0, smooth, most, float(conventions.margin))
    most = math.sqrt(labels.explained) if dimension else labels.furthest
    if trust == LOCAL:
        return LinearCurve(dimension, labels.unexplained**2, labels.explained, labels.furthest, most)
    return CellCurve(dimension, labels.unexplained**2, math.sqrt(12 * labels.explained), smooth, most)
