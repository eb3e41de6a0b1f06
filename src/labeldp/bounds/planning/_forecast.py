"""Forecasts before a release: effective rows, an expected error, and the epsilon that a target error needs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labeldp import _checks
from labeldp._notebook import Shown
from labeldp.bounds._checks import check_rows
from labeldp.bounds.planning._class_utility import ClassUtility, class_utility
from labeldp.bounds.planning._conventions import LOCAL, Conventions, LabelSpread, OneRowEach, UnitSizes, learning_curve
from labeldp.bounds.planning._curves import CellCurve, LearningCurve, bisect_threshold, noisy_area
from labeldp.bounds.planning._noise_of_mechanisms import Noise, auto_name, mechanism_noises, noises_of_units
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy import Classes, Guarantee, Interval, LabelSpace

_TRUSTED = (LOCAL, "central")
#: The epsilons of a sweep.
EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
#: The prior probability of a suspicion whose largest posterior is stated.
SUSPICION = 0.05
#: The share of one class by which a forecast shows what uneven classes change, and the most classes for which it does.
_SKEWED, _MOST_SKEWED = 0.98, 1 << 10
#: Queries whose noise is that of shares, or of a mean.
_SUMS = ("noisy-histogram", "noisy-mean")
_MOST_CLASSES = 1 << 24
_NEARLY_CLEAN = 0.9
#: Largest share of a class beyond which accuracy says little of a model.
_RARE = 0.9
_LEAST, _MOST = 1e-4, 30.0
_CLOSE = 5e-3
#: Accuracy that was lost on 30 real tables, in multiples of the forecast: means at four epsilons, least and largest
#: (experiments/auto_tables.md).
TIMES_LOST = (4, 7)
#: The area under the ROC that a model of a rare class is forecast from, and the noise of its scores in multiples of
#: what few effective rows add: the range in which most of five real tables were (experiments/rare_classes.md).
CLEAN_AREA, TIMES_NOISE = 0.8, (0.5, 4.0)
_MOST_ROWS = float(1 << 62)


@dataclass(frozen=True)
class Option:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Name of the mechanism, which ``release`` runs under the same name if it is local.
        detail: Form of the output for a row; empty but for classes that are randomized one by one.
        epsilon: The epsilon requested.
        certified: The epsilon of its integers, never larger.
        suspicion: The most that a suspicion of 5 % about the labels of a unit can become, rounded up.
        noise: Standard deviation of the noise, in the units of labels, or of votes for classes: on each row's released
            label in the local model, on the sum of each cell in the central one.
        effective_rows: Effective rows (effective sample size), rounded down: rows with true labels that are about as
            informative at the class shares (often within a factor of two, ``experiments/effective_rows.md``), or that
            give as good a mean of numeric labels; with queries, rows that give the same error. None if it is unknown.
        share: Effective rows per row; None if it is unknown.
        at_most: An upper bound on the effective rows for any statistic of classes, reached where two of them are
            equally likely; None where the effective rows are the only number.
        most_share: This bound per row.
        truth_probability: Probability that the released label or set contains the true class; None but for classes that
            are randomized one by one.
        variance: Trace of the covariance of one row's unbiased vector, of such classes.
        error: The error with conventional constants: the root mean square in the units of labels, or the excess risk
            over the best classifier. To compare mechanisms; what is lost on real tables is below.
        lost_low: The accuracy that a model of features is expected to lose, as a share of rows: the lower end of the
            range that real tables showed, at most what can be lost; None of numeric labels, and without features.
        lost_high: The upper end.
        log_loss: The log loss in nats that few effective rows add to a logistic model of features, by its asymptotic
            formula (coefficients over twice the rows), at most that of class shares; None of other labels.
        area_low: The area under the ROC that a model of features is expected to have if it were ``CLEAN_AREA`` on true
            labels: the lower end of the range that real tables showed; None of other labels, and where no class has
            nine tenths of the rows.
        area_high: The upper end.
        test_error: Root mean squared error of a model of features against single numeric labels, at most that of
            the mean of released ones; None of classes, and without features.
        best: True if the error is the smallest; False for all if none is below that of the trivial predictor.
        auto: True for the mechanism that ``release`` takes by default at this epsilon.
    """

    mechanism: str
    detail: str
    epsilon: float
    certified: float
    suspicion: float
    noise: float
    effective_rows: int | None
    share: float | None
    at_most: int | None
    most_share: float | None
    truth_probability: float | None
    variance: float | None
    error: float
    lost_low: float | None = None
    lost_high: float | None = None
    log_loss: float | None = None
    area_low: float | None = None
    area_high: float | None = None
    test_error: float | None = None
    best: bool = False
    auto: bool = False


@dataclass(frozen=True)
class Goal:
    """Requirements of a target.

    Attributes:
        target: The target: an error, or the accuracy lost.
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
        classes: The number of classes; None of numeric labels.
        range: The least and the largest numeric label; None of classes.
        rows: Number of rows.
        dimension: Effective dimension of the features; 0 without features: the error of one mean, or of one class, of
            all rows.
        trust: ``"local"``: each label is randomized alone; or ``"central"``: a curator answers from all labels.
        epsilon: The epsilon requested, or the one that the target needs; None if no epsilon reaches it, or none is
            needed.
        options: Every mechanism at that epsilon, least error first.
        sweep: Every mechanism at other epsilons, accurate to a few hundredths; exact at the epsilon of the options, and
            of classes.
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
        shares: The shares of classes or grid points, as stated or estimated; None where they were not.
        units: The rows by the size of their unit, if epsilon covers all rows of one.
        skewed_rows: Effective rows of the default mechanism if one class had 98 % of the rows; None where shares are
            stated, or unknown.
        curator_noise: Standard deviation of the noise that a curator adds to sums at the same epsilon, as ``noise`` of
            an option; None without an epsilon, for queries, and where no query forecasts it.
        alike_noise: Standard deviation of the noise of a row of the default mechanism, where all rows count alike, as
            in shares or a mean of all rows; ``noise`` of an option is that of weighted rows. None where it is the same.
        one_row_each: The default mechanism for one row of each unit alone; None without units of several rows.
    """

    classes: int | None
    range: tuple[float, float] | None
    rows: int
    dimension: float
    trust: str
    epsilon: float | None
    options: tuple[Option, ...]
    sweep: tuple[tuple[Option, ...], ...]
    clean_error: float
    free_epsilon: float | None
    doubled: float | None
    goal: Goal | None
    assumptions: tuple[str, ...]
    defaults: tuple[str, ...] = ()
    spread: float | None = None
    unexplained: float | None = None
    trivial_error: float = math.inf
    shares: tuple[float, ...] | None = None
    units: UnitSizes | None = None
    skewed_rows: int | None = None
    curator_noise: float | None = None
    alike_noise: float | None = None
    one_row_each: OneRowEach | None = None

    @property
    def of_numbers(self) -> bool:
        """True if labels are numeric, and errors in their units."""
        return self.range is not None

    @property
    def randomizes_classes(self) -> bool:
        """True if the class of each row is randomized alone."""
        return self.trust == LOCAL and not self.of_numbers

    @property
    def largest_share(self) -> float:
        """The share of the most common class, even where none was stated; 0 of numbers."""
        return 0.0 if self.of_numbers else 1.0 - self.trivial_error

    @property
    def is_rare(self) -> bool:
        """True if one class has so many of the rows that accuracy says little of a model."""
        return self.largest_share > _RARE

    @property
    def has_area(self) -> bool:
        """True if the area under the ROC is what a model of features of a rare class is judged by."""
        return self.dimension > 0 and self.randomizes_classes and self.is_rare

    @property
    def has_error(self) -> bool:
        """True if errors say more than effective rows: of numbers, with features, for a target, or of a curator."""
        return not self.randomizes_classes or self.dimension > 0 or self.goal is not None

    @property
    def loses_accuracy(self) -> bool:
        """True if accuracy is what a model of features loses, and says something of it."""
        return self.dimension > 0 and not self.of_numbers and not self.is_rare

    @property
    def best(self) -> Option | None:
        """The mechanism with the smallest error; None if no epsilon reaches a target, or none beats the trivial one."""
        return next((option for option in self.options if option.best), None)

    @property
    def over_epsilon(self) -> tuple[Option, ...]:
        """At each epsilon, increasing, the mechanism that ``release`` takes by default; of a curator's, the best."""
        rows = {row[0].epsilon: row for row in (*self.sweep, self.options) if row}
        return tuple(next((each for each in rows[at] if each.auto), rows[at][0]) for at in sorted(rows))

    def against_labels(self, error: float) -> float:
        """Root mean squared error against single labels, for estimated means with an error."""
        return math.hypot(error, self.unexplained or 0.0)

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON values."""
        return dataclasses.asdict(self)


#: No features, and numeric labels uniform over their range.
NO_FEATURES = Conventions()


def forecast(
    space: LabelSpace,
    rows: int,
    epsilon: float | None = None,
    *,
    target: float | None = None,
    trust: str = LOCAL,
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
        target: A target: a root mean square error in the units of labels; of classes with features the accuracy lost,
            as a share of rows (``lost_high``); of others an excess risk over the best classifier.
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
    labels = LabelSpread.of(space, conventions)
    curve = learning_curve(space, labels, conventions, trust)
    if isinstance(curve, CellCurve) and _dimension > math.log2(_rows):
        raise InputError(
            f"expected a dimension of at most {math.log2(_rows):.1f} for {_rows} rows in cells of a grid, found "
            f"{_dimension:g}: cutting each axis in two gives more cells than rows; take clusters, or a grid of a few "
            "principal components, and give their dimension"
        )
    inputs = _ForecastInputs(space, _rows, trust, curve, labels, _dimension, conventions.shares, units)
    goal = None if target is None else _goal(inputs, _checks.positive(target, "target"), epsilon)
    chosen = _checks.epsilon(epsilon) if epsilon is not None else goal.epsilon if goal else None
    options = () if chosen is None else inputs.options(chosen)
    if chosen is not None and not options:
        raise EpsilonError(f"expected an epsilon that some mechanism can express, found {chosen!r}; choose another")
    return Forecast(
        classes=None if isinstance(space, Interval) else space.size,
        range=(float(space.low), float(space.high)) if isinstance(space, Interval) else None,
        rows=_rows,
        dimension=_dimension,
        trust=trust,
        epsilon=chosen,
        options=options,
        sweep=tuple(options if each == chosen else inputs.options(each, roughly=True) for each in epsilons),
        clean_error=curve.error(_rows),
        free_epsilon=inputs.free_epsilon(),
        doubled=min((curve.error(2 * _rows, **_noise_of(each, trust)) for each in options), default=None),
        goal=goal,
        assumptions=conventions.sentences(labels),
        defaults=conventions.defaults(labels),
        spread=labels.spread if labels else None,
        unexplained=labels.unexplained if labels else None,
        trivial_error=curve.most,
        shares=None if conventions.shares is None else tuple(conventions.shares),
        units=units,
        skewed_rows=inputs.skewed_rows(chosen),
        curator_noise=inputs.curator_noise(chosen),
        alike_noise=inputs.alike_noise(chosen),
        one_row_each=inputs.one_row_each(chosen),
    )


def plan(
    classes: int,
    rows: int,
    epsilon: float,
    epsilons: Sequence[float] = EPSILONS,
    shares: Sequence[float] | None = None,
    units: UnitSizes | None = None,
) -> Forecast:
    """Compare the local mechanisms for ``rows`` labels of ``classes`` classes: a forecast without features.

    Args:
        classes: Number of classes, at least 2.
        rows: Number of rows, at least 1.
        epsilon: The epsilon to spend on each label, or on all labels of each unit.
        epsilons: Epsilons of the sweep.
        shares: The shares of the classes, stated or estimated (``label_shares``); even by default.
        units: The rows by the size of their unit; by default each row is one. Epsilon is divided among the rows of a
            unit, and figures are means over rows.

    Raises:
        InputError: The numbers are out of range, or there is no share for each class.

    Example:
        >>> from labeldp.bounds import plan
        >>> chosen = next(option for option in plan(10, 1000, 1.0).options if option.auto)
        >>> chosen.mechanism, chosen.detail, chosen.at_most, chosen.effective_rows
        ('subset', '4 of 10 classes', 125, 27)

    References:
        Zhao et al. 2025 and Chua et al. 2025 for the mechanisms; the shares are derived in
        ``privacy.channels._utility``.
    """
    space = Classes(range(_checks.whole(classes, "classes", 2, _MOST_CLASSES)))
    return forecast(space, rows, epsilon, conventions=Conventions(shares=shares), epsilons=epsilons, units=units)


def _noise_of(option: Option, trust: str) -> dict[str, float]:
    return {"each" if trust == LOCAL else "total": option.noise**2}


@dataclass(frozen=True)
class _ForecastInputs:
    """Label space, rows, trust model, learning curve and privacy units of a forecast."""

    space: LabelSpace
    rows: int
    trust: str
    curve: LearningCurve
    labels: LabelSpread | None
    dimension: float
    shares: Sequence[float] | None
    units: UnitSizes | None = None

    def noises(self, epsilon: float, *, roughly: bool = False, coarse: bool = False) -> Iterator[Noise]:
        """The noise of every mechanism at an epsilon; coarsely, that of units of few sizes."""
        shares = None if self.shares is None else tuple(self.shares)
        if self.units is not None:
            units = self.units.coarse() if coarse else self.units
            return noises_of_units(self.space, self.trust, epsilon, units, self.curve.variance, shares)
        return mechanism_noises(self.space, self.trust, epsilon, shares, roughly=roughly)

    def options(self, epsilon: float, *, roughly: bool = False) -> tuple[Option, ...]:
        """All mechanisms at an epsilon."""
        options = [self._option(noise, epsilon) for noise in self.noises(epsilon, roughly=roughly)]
        options.sort(key=lambda each: (each.error, each.noise))
        best = bool(options) and options[0].error < self.curve.most
        most = None if self.units is None else self.units.most
        auto = auto_name(self.space, epsilon, most, roughly=roughly) if self.trust == LOCAL else ""
        return tuple(replace(each, best=best and not i, auto=each.mechanism == auto) for i, each in enumerate(options))

    def skewed_rows(self, epsilon: float | None) -> int | None:
        """Effective rows of the default mechanism if one class had nearly all rows; None if they are unknown."""
        others = self.space.size - 1
        if epsilon is None or self.shares is not None or self.of_numbers or others >= _MOST_SKEWED:
            return None
        skewed = replace(self, shares=(_SKEWED, *[(1.0 - _SKEWED) / others] * others))
        return next((each.effective_rows for each in skewed.options(epsilon) if each.auto), None)

    def curator_noise(self, epsilon: float | None) -> float | None:
        """The noise of a curator's sums at the same epsilon; None without one, and where a curator answers anyway."""
        if epsilon is None or self.trust != LOCAL:
            return None
        of_row = epsilon / (self.units.most if self.units else 1)
        sums = (each.total for each in mechanism_noises(self.space, "central", of_row) if each.mechanism in _SUMS)
        least = min(sums, default=None)
        return None if least is None else math.sqrt(least)

    def alike_noise(self, epsilon: float | None) -> float | None:
        """The noise of a row of the default mechanism if rows of units of all sizes count alike."""
        if epsilon is None or self.units is None or self.trust != LOCAL:
            return None
        auto = auto_name(self.space, epsilon, self.units.most)
        found = (each.alike for each in self.noises(epsilon) if each.mechanism == auto and each.alike is not None)
        return next(map(math.sqrt, found), None)

    def one_row_each(self, epsilon: float | None) -> OneRowEach | None:
        """The default mechanism for one row of each unit alone."""
        if epsilon is None or self.units is None or self.units.most == 1 or self.trust != LOCAL:
            return None
        units = round(sum(rows / size for size, rows in zip(self.units.sizes, self.units.rows, strict=True)))
        alone = replace(self, rows=max(units, 1), units=None).options(epsilon, roughly=True)
        found = next((each for each in alone if each.auto and each.effective_rows is not None), None)
        return None if found is None else OneRowEach(units, found.effective_rows or 0, found.noise)

    def reaches(self, target: float, epsilon: float, *, roughly: bool = True) -> bool:
        """True if some mechanism reaches the target."""
        return self.some_reach(target, self.rows, self.noises(epsilon, roughly=roughly, coarse=roughly))

    def some_reach(self, target: float, rows: float, noises: Iterable[Noise]) -> bool:
        """True if with so many rows one of these noises reaches the target."""
        return any(self.judged(rows, each.each, each.total) <= target for each in noises)

    def judged(self, rows: float, each: float = 0.0, total: float = 0.0) -> float:
        """The quantity that a target is for: the error; of classes with features the upper end of the accuracy lost."""
        error = self.curve.error(rows, each, total)
        if self.of_numbers or not self.dimension or error >= self.curve.most:
            return error
        return min(TIMES_LOST[1] * max(error - self.curve.error(rows), 0.0), self.curve.most)

    def free_epsilon(self) -> float | None:
        """The epsilon from which on the error is at most that of nine tenths of the rows without noise."""
        most = self.curve.error(_NEARLY_CLEAN * self.rows)

        def holds(epsilon: float) -> bool:
            noises = self.noises(epsilon, roughly=True, coarse=True)
            return any(self.curve.error(self.rows, each.each, each.total) <= most for each in noises)

        return bisect_threshold(holds, _LEAST, _MOST, _CLOSE) if most < self.curve.most and holds(_MOST) else None

    @property
    def of_numbers(self) -> bool:
        """True of numeric labels."""
        return isinstance(self.space, Interval)

    def _option(self, noise: Noise, epsilon: float) -> Option:
        error = self.curve.error(self.rows, noise.each, noise.total)
        share = min(1.0, self.curve.effective_rows(self.rows, noise.each, noise.total) / self.rows)
        utility = ClassUtility(noise.certified, share=share)
        if self.trust == LOCAL and not self.of_numbers:
            utility = class_utility(noise.mechanism, self.space, epsilon, self.shares, self.units)
        return Option(
            mechanism=noise.mechanism,
            epsilon=epsilon,
            suspicion=Guarantee(epsilon).posterior(SUSPICION),
            noise=math.sqrt(noise.each + noise.total),
            effective_rows=_rounded_down(self.rows, utility.share),
            at_most=_rounded_down(self.rows, utility.most_share),
            error=error,
            **vars(utility),
            **self._with_features(noise, error, utility.share),
        )

    def _with_features(self, noise: Noise, error: float, share: float | None) -> dict[str, Any]:
        """The error of a model of features, which is not larger than that of the best constant that labels show."""
        labels, more = self.labels, max(error - self.curve.error(self.rows), 0.0)
        if not self.dimension:
            return {}
        if labels is not None:
            mean = math.sqrt((labels.spread**2 + noise.each + noise.total / self.rows) / self.rows)
            of_mean = math.hypot(labels.spread, min(mean, labels.furthest))
            return {"test_error": min(math.hypot(error, labels.unexplained), of_mean)}
        low, high = (min(times * more, self.curve.most) for times in TIMES_LOST)
        shares = self.shares or [1.0 / self.space.size] * self.space.size
        entropy = -sum(each * math.log(each) for each in shares if each)
        coefficients = (self.space.size - 1) * (self.dimension + 1.0)
        added = None if share is None else min(entropy, coefficients / (2.0 * self.rows * share) if share else math.inf)
        lost = {"lost_low": low, "lost_high": high, "log_loss": added}
        if max(shares) <= _RARE or not share:
            return lost
        loss = (self.dimension + 1.0) / (2.0 * self.rows * share)
        area_high, area_low = (noisy_area(CLEAN_AREA, 1.0 - max(shares), times * loss) for times in TIMES_NOISE)
        return {**lost, "area_low": area_low, "area_high": area_high}


def _rounded_down(rows: int, share: float | None) -> int | None:
    return None if share is None else math.floor(rows * share)


def _goal(inputs: _ForecastInputs, target: float, epsilon: float | None) -> Goal:
    """The epsilon and the rows that a target needs."""
    if target >= inputs.curve.most:
        return Goal(target, None, 0)
    least = _least_epsilon(inputs, target)
    if epsilon is None:
        return Goal(target, least, _fewest_rows(lambda n: inputs.judged(n) <= target))
    noises = tuple(inputs.noises(_checks.epsilon(epsilon)))
    return Goal(target, least, _fewest_rows(lambda rows: inputs.some_reach(target, rows, noises)))


def _least_epsilon(inputs: _ForecastInputs, target: float) -> float | None:
    """The smallest epsilon that reaches a target, found approximately and then raised until it does exactly."""
    if inputs.judged(inputs.rows) > target or not inputs.reaches(target, _MOST, roughly=False):
        return None
    epsilon_found = bisect_threshold(lambda epsilon: inputs.reaches(target, epsilon), _LEAST, _MOST, _CLOSE)
    while not inputs.reaches(target, epsilon_found, roughly=False):
        epsilon_found = min(_MOST, epsilon_found * (1 + _CLOSE))
    return epsilon_found


def _fewest_rows(enough: Callable[[float], bool]) -> int | None:
    return math.ceil(bisect_threshold(enough, 1.0, _MOST_ROWS)) if enough(_MOST_ROWS) else None
