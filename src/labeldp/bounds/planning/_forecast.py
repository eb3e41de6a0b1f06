"""Forecasts before a release: effective rows, an expected error, and the epsilon that a target error needs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp.bounds._checks import check_rows
from labeldp.bounds.planning._curves import CellCurve, LearningCurve, LinearCurve, bisect_threshold
from labeldp.bounds.planning._noise_of_mechanisms import Noise, auto_name, mechanism_noises, noises_of_units
from labeldp.bounds.planning._plan import EPSILONS
from labeldp.bounds.planning._unit_sizes import UnitSizes
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.randomizers import checked_distribution
from labeldp.privacy import Interval, LabelSpace

_TRUSTED = ("local", "central")
_NEARLY_CLEAN = 0.9
#: The share of the variance that features explain, where none is stated.
_EXPLAINED = 0.5
_LEAST, _MOST = 1e-4, 30.0
_CLOSE = 5e-3
#: Accuracy that was lost on 30 real tables, in multiples of the forecast: means at four epsilons, least and largest
#: (experiments/auto_tables.md).
TIMES_LOST = (4, 7)
_MOST_ROWS = float(1 << 62)


@dataclass(frozen=True)
class Prospect:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Name of the mechanism, which ``release`` runs under the same name if it is local.
        epsilon: The epsilon requested.
        certified: The epsilon of its integers, never larger.
        noise: Standard deviation of the noise, in the units of labels, or of votes for classes: on each row's released
            label in the local model, on the sum of each cell in the central one.
        effective_rows: Effective rows (effective sample size), rounded down: rows with true labels that give as good a
            mean of all labels, or distinguish two classes as well, as a release states it; with queries, rows that give
            the same error.
        clean_share: Effective rows as a share of the rows.
        error: Expected error: the root mean square in the units of labels, or the excess risk over the best classifier.
        best: True if the error is the smallest; False for all if none is below that of the trivial predictor.
        auto: True for the mechanism that ``release`` takes by default at this epsilon.
    """

    mechanism: str
    epsilon: float
    certified: float
    noise: float
    effective_rows: int
    clean_share: float
    error: float
    best: bool = False
    auto: bool = False


@dataclass(frozen=True)
class Goal:
    """Requirements of a target error.

    Attributes:
        target: The target error.
        epsilon: The smallest epsilon that reaches it with these rows; None if none does, or none is needed.
        rows: The fewest rows that reach it at the requested epsilon, or without privacy if no epsilon was requested.
            None if more than 2^62 are needed; 0 if the trivial predictor reaches it.
    """

    target: float
    epsilon: float | None
    rows: int | None

    @property
    def trivial(self) -> bool:
        """True if the trivial predictor already reaches the target."""
        return self.rows == 0


@dataclass(frozen=True)
class Forecast(Shown):
    """Effective rows and expected error of each mechanism, at one epsilon and over a sweep.

    Attributes:
        space: The label space, as declared.
        rows: Number of rows.
        dimension: Effective dimension of the features; 0 without features: the error of one mean, or of one class, of
            all rows.
        trust: ``"local"``: each label is randomized alone; or ``"central"``: a curator answers from all labels.
        epsilon: The epsilon requested, or the one that the target needs; None if no epsilon reaches it, or none is
            needed.
        options: Every mechanism at that epsilon, least error first.
        sweep: Every mechanism at other epsilons, accurate to a few hundredths; exact at the epsilon of the options.
        clean_error: The error without privacy.
        free_epsilon: The epsilon above which the error is at most that of 90 % of the rows without privacy; None if
            there is none. Without constants, and for a curator, it is ``free_epsilon(rows, dimension)``.
        doubled: The error with twice the rows, at the same epsilon; None if there is no epsilon.
        goal: Requirements of the target, if there is one.
        assumptions: Conventions that replace unknown quantities; the first decides errors and effective rows.
        defaults: Those quantities of the first that were not stated, and have their default.
        spread: Standard deviation of numeric labels; None for classes.
        unexplained: Standard deviation of numeric labels that features do not explain; None for classes.
        trivial_error: The error of the trivial predictor, which no mechanism exceeds: the most that can be lost.
        units: The rows by the size of their unit, if epsilon covers all rows of one.
    """

    space: dict[str, Any]
    rows: int
    dimension: float
    trust: str
    epsilon: float | None
    options: tuple[Prospect, ...]
    sweep: tuple[tuple[Prospect, ...], ...]
    clean_error: float
    free_epsilon: float | None
    doubled: float | None
    goal: Goal | None
    assumptions: tuple[str, ...]
    defaults: tuple[str, ...] = ()
    spread: float | None = None
    unexplained: float | None = None
    trivial_error: float = math.inf
    units: UnitSizes | None = None

    @property
    def of_numbers(self) -> bool:
        """True if labels are numeric, and errors in their units."""
        return self.spread is not None

    @property
    def best(self) -> Prospect | None:
        """The mechanism with the smallest error; None if no epsilon reaches a target, or none beats the trivial one."""
        return next((option for option in self.options if option.best), None)

    def against_labels(self, error: float) -> float:
        """Root mean squared error against single labels, for estimated means with an error."""
        return math.hypot(error, self.unexplained or 0.0)

    def accuracy_lost(self, error: float) -> tuple[float, float]:
        """The range of accuracy that an error of classes costs, by what was seen on real tables.

        A model does not lose more than there is to lose: the accuracy of the best model over that of the most common
        class.
        """
        more = max(error - self.clean_error, 0.0)
        low, high = (min(times * more, self.trivial_error) for times in TIMES_LOST)
        return low, high

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON values."""
        return dataclasses.asdict(self)


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
            checked = checked_distribution(self.shares, len(self.shares))
            object.__setattr__(self, "shares", tuple(checked.tolist()))

    @property
    def explained_share(self) -> float:
        """The share of the variance that features explain, stated or not."""
        return _EXPLAINED if self.explained is None else self.explained

    def defaults(self, labels: _LabelSpread | None) -> tuple[str, ...]:
        """The quantities that decide and were not stated."""
        if labels is None:
            return () if self.dimension else ("dimension",)
        known = self.spread is not None or self.shares is not None
        strength = ("explained",) if self.explained is None else ()
        return (*(() if known else ("shares",)), *(strength if self.dimension else ("dimension",)))

    def sentences(self, labels: _LabelSpread | None) -> tuple[str, ...]:
        """The assumptions as sentences."""
        constants = "constants are conventional: use errors to compare mechanisms, not as guarantees"
        if labels is None:
            power = "t" if self.margin == 1.0 else f"t^{self.margin:g}"
            about = (
                "two classes compete, the share of rows in which their probabilities differ by less than t is about "
                f"{power} (margin exponent {self.margin:g})"
            )
            features = f"and features are spread evenly, with an effective dimension of {self.dimension:.3g}"
            smooth = f"class probabilities are Hölder smooth of order {self.smoothness:g}, alike in every direction"
            none = "there are no features, so that the error is that of naming the most common class of all rows"
            return (f"{about}, {features}", smooth, constants) if self.dimension else (none, about, constants)
        even = self.spread is None and self.shares is None
        about = "labels are uniform over their range, with" if even else "labels have"
        about += f" a standard deviation of {labels.spread:.4g}{' (default)' if even else ''}"
        if not self.dimension:
            return f"{about}, and there are no features", constants
        default = " (default)" if self.explained is None else ""
        about += f", and features explain {self.explained_share:.0%} of their variance{default}"
        return about, f"features vary in {self.dimension:.3g} directions", constants


#: No features, and numeric labels uniform over their range.
NO_FEATURES = Conventions()


def forecast(
    space: LabelSpace,
    rows: int,
    epsilon: float | None = None,
    *,
    target: float | None = None,
    trust: str = "local",
    conventions: Conventions = NO_FEATURES,
    epsilons: Sequence[float] = EPSILONS,
    units: UnitSizes | None = None,
) -> Forecast:
    """Forecast effective rows and errors of mechanisms from public numbers, with conventional constants.

    ``best`` of the result is None if no epsilon reaches the target, or the trivial predictor reaches it already, or no
    mechanism beats the trivial predictor at this epsilon.

    Args:
        space: Classes, or an interval.
        rows: Number of rows.
        epsilon: The epsilon of each label, or of all labels of a unit; by default the smallest that reaches the target.
        target: A target error: a root mean square in the units of labels, or an excess risk over the best classifier.
        trust: ``"local"`` or ``"central"``.
        conventions: Assumptions about features and labels.
        epsilons: Epsilons of the sweep.
        units: The rows by the size of their unit; by default each row is one. In a search for an epsilon or for rows,
            sizes are rounded up to powers of two.

    Raises:
        InputError: Neither an epsilon nor a target is given, or a number is outside its range.
        EpsilonError: No mechanism can express the epsilon.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp.bounds import Conventions, forecast
        >>> plane = Conventions(dimension=2)
        >>> result = forecast(Interval(0, 100, 1), rows=10_000, epsilon=1.0, trust="central", conventions=plane)
        >>> result.best.mechanism, round(result.best.error, 2), round(result.clean_error, 2)
        ('noisy-mean', 3.16, 2.92)

    References:
        Zhao et al. 2025, theorems 2, 4, 6 and 8, for how errors fall; the constants are in ``bounds.planning._curves``.
    """
    _rows, _dimension = check_rows(rows), float(conventions.dimension)
    if trust not in _TRUSTED:
        raise InputError(
            f"expected trust among {', '.join(_TRUSTED)}, found {trust!r}{_checks.nearest(trust, _TRUSTED)}"
        )
    if epsilon is None and target is None:
        raise InputError("expected an epsilon, or a target to find one for, found neither")
    labels = _LabelSpread.of(space, conventions)
    curve = _curve(space, labels, conventions, trust)
    if isinstance(curve, CellCurve) and _dimension > math.log2(_rows):
        raise InputError(
            f"expected a dimension of at most {math.log2(_rows):.1f} for {_rows} rows in cells of a grid, found "
            f"{_dimension:g}: cutting each axis in two gives more cells than rows; take clusters, or a grid of a few "
            "principal components, and give their dimension"
        )
    inputs = _ForecastInputs(space, _rows, trust, curve, conventions.shares, units)
    goal = None if target is None else _goal(inputs, _checks.positive(target, "target"), epsilon)
    chosen = _checks.epsilon(epsilon) if epsilon is not None else goal.epsilon if goal else None
    options = () if chosen is None else inputs.prospects(chosen)
    if chosen is not None and not options:
        raise EpsilonError(f"expected an epsilon that some mechanism can express, found {chosen!r}; choose another")
    return Forecast(
        space=space.describe(),
        rows=_rows,
        dimension=_dimension,
        trust=trust,
        epsilon=chosen,
        options=options,
        sweep=tuple(options if each == chosen else inputs.prospects(each, roughly=True) for each in epsilons),
        clean_error=curve.error(_rows),
        free_epsilon=inputs.free_epsilon(),
        doubled=min((curve.error(2 * _rows, **_noise_of(each, trust)) for each in options), default=None),
        goal=goal,
        assumptions=conventions.sentences(labels),
        defaults=conventions.defaults(labels),
        spread=labels.spread if labels else None,
        unexplained=labels.unexplained if labels else None,
        trivial_error=curve.most,
        units=units,
    )


def _noise_of(option: Prospect, trust: str) -> dict[str, float]:
    return {"each" if trust == "local" else "total": option.noise**2}


@dataclass(frozen=True)
class _ForecastInputs:
    """Label space, rows, trust model, learning curve and privacy units of a forecast."""

    space: LabelSpace
    rows: int
    trust: str
    curve: LearningCurve
    shares: Sequence[float] | None
    units: UnitSizes | None = None

    def noises(self, epsilon: float, *, roughly: bool = False, coarse: bool = False) -> Iterator[Noise]:
        """The noise of every mechanism at an epsilon; coarsely, that of units of few sizes."""
        shares = None if self.shares is None else tuple(self.shares)
        if self.units is not None:
            units = self.units.coarse() if coarse else self.units
            return noises_of_units(self.space, self.trust, epsilon, units, self.curve.variance, shares)
        return mechanism_noises(self.space, self.trust, epsilon, shares, roughly=roughly)

    def prospects(self, epsilon: float, *, roughly: bool = False) -> tuple[Prospect, ...]:
        """All mechanisms at an epsilon."""
        each_noise = self.noises(epsilon, roughly=roughly)
        prospects = sorted((self._prospect(noise, epsilon) for noise in each_noise), key=lambda each: each.error)
        best = bool(prospects) and prospects[0].error < self.curve.most
        most = None if self.units is None else self.units.most
        auto = auto_name(self.space, epsilon, most, roughly=roughly) if self.trust == "local" else ""
        return tuple(
            dataclasses.replace(each, best=best and not i, auto=each.mechanism == auto)
            for i, each in enumerate(prospects)
        )

    def reaches(self, target: float, epsilon: float, *, roughly: bool = True) -> bool:
        """True if some mechanism has an error of at most the target."""
        return self.some_reach(target, self.rows, self.noises(epsilon, roughly=roughly, coarse=roughly))

    def some_reach(self, target: float, rows: float, noises: Iterable[Noise]) -> bool:
        """True if with so many rows the error with one of these noises is at most the target."""
        return any(self.curve.error(rows, each.each, each.total) <= target for each in noises)

    def free_epsilon(self) -> float | None:
        """The epsilon from which on the error is at most that of nine tenths of the rows without noise."""
        most = self.curve.error(_NEARLY_CLEAN * self.rows)

        def holds(epsilon: float) -> bool:
            return self.reaches(most, epsilon)

        return bisect_threshold(holds, _LEAST, _MOST, _CLOSE) if most < self.curve.most and holds(_MOST) else None

    def _prospect(self, noise: Noise, epsilon: float) -> Prospect:
        effective = min(float(self.rows), self.curve.effective_rows(self.rows, noise.each, noise.total))
        return Prospect(
            mechanism=noise.mechanism,
            epsilon=epsilon,
            certified=noise.certified,
            noise=math.sqrt(noise.each + noise.total),
            effective_rows=math.floor(effective),
            clean_share=effective / self.rows,
            error=self.curve.error(self.rows, noise.each, noise.total),
        )


def _goal(inputs: _ForecastInputs, target: float, epsilon: float | None) -> Goal:
    """The epsilon and the rows that a target needs."""
    if target >= inputs.curve.most:
        return Goal(target, None, 0)
    least = _least_epsilon(inputs, target)
    if epsilon is None:
        return Goal(target, least, _fewest_rows(lambda n: inputs.curve.error(n) <= target))
    noises = tuple(inputs.noises(_checks.epsilon(epsilon)))
    return Goal(target, least, _fewest_rows(lambda rows: inputs.some_reach(target, rows, noises)))


def _least_epsilon(inputs: _ForecastInputs, target: float) -> float | None:
    """The smallest epsilon that reaches a target, found approximately and then raised until it does exactly."""
    if inputs.curve.error(inputs.rows) > target or not inputs.reaches(target, _MOST, roughly=False):
        return None
    epsilon_found = bisect_threshold(lambda epsilon: inputs.reaches(target, epsilon), _LEAST, _MOST, _CLOSE)
    while not inputs.reaches(target, epsilon_found, roughly=False):
        epsilon_found = min(_MOST, epsilon_found * (1 + _CLOSE))
    return epsilon_found


def _fewest_rows(enough: Callable[[float], bool]) -> int | None:
    return math.ceil(bisect_threshold(enough, 1.0, _MOST_ROWS)) if enough(_MOST_ROWS) else None


@dataclass(frozen=True)
class _LabelSpread:
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
    def of(cls, space: LabelSpace, conventions: Conventions) -> _LabelSpread | None:
        """Create it for an interval; None for classes, which have no standard deviation."""
        spread, shares = conventions.spread, conventions.shares
        if shares is not None and len(shares) != space.size:
            raise InputError(f"expected a share for each of {space.size} classes or grid points, found {len(shares)}")
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


def _curve(space: LabelSpace, labels: _LabelSpread | None, conventions: Conventions, trust: str) -> LearningCurve:
    """Learning curve of a label space, with the conventional constants.

    For numeric labels the trivial predictor is their mean, whose error is the standard deviation that features explain;
    without features it is the middle of the range. For classes it is the most common one.
    """
    dimension, smooth = float(conventions.dimension), float(conventions.smoothness)
    if labels is None:
        most = 1 - max(conventions.shares or (1 / space.size,))
        return CellCurve(dimension, 1.0, 1.0, smooth, most, float(conventions.margin))
    most = math.sqrt(labels.explained) if dimension else labels.furthest
    if trust == "local":
        return LinearCurve(dimension, labels.unexplained**2, labels.explained, labels.furthest, most)
    return CellCurve(dimension, labels.unexplained**2, math.sqrt(12 * labels.explained), smooth, most)
