"""What a release is worth before anything is spent: clean rows, an expected error, the epsilon a target asks for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp import _checks
from labeldp.bounds._checks import chance, not_negative, positive, rows_of
from labeldp.bounds.planning._curves import Curve, bisected
from labeldp.bounds.planning._noise_of_mechanisms import Noise, noises
from labeldp.bounds.planning._plan import EPSILONS
from labeldp.errors import EpsilonError, InputError
from labeldp.privacy import Interval, LabelSpace

_TRUSTED = ("local", "central")
_NEARLY_CLEAN = 0.9
_LEAST, _MOST = 1e-4, 30.0
_CLOSE = 5e-3
_MOST_ROWS = float(1 << 62)


@dataclass(frozen=True)
class Prospect:
    """One mechanism at one epsilon.

    Attributes:
        mechanism: Its name.
        epsilon: The epsilon that was asked for.
        certified: The epsilon that its integers give, never larger.
        noise: The deviation of the noise, in the units of labels, or of votes for classes: on each row's released
            label in the local model, on the sum of each cell in the central one.
        effective_rows: How many clean rows are as good, rounded down.
        clean_share: The same as a share of the rows.
        error: What is expected: the root mean square in the units of labels, or the chance of a wrong class beyond
            that of the best classifier.
        best: Whether no other mechanism has a smaller error; none is where all are as bad as learning nothing.
    """

    mechanism: str
    epsilon: float
    certified: float
    noise: float
    effective_rows: int
    clean_share: float
    error: float
    best: bool = False


@dataclass(frozen=True)
class Goal:
    """What a target error asks for.

    Attributes:
        target: The error that is asked for.
        epsilon: The smallest epsilon that reaches it with these rows; None if none does, or none is needed.
        rows: The fewest rows that reach it at the epsilon that was asked for; without one, the fewest that reach it at
            all, where labels are not protected. None if that is more than anybody has; 0 if who learns nothing
            reaches it.
    """

    target: float
    epsilon: float | None
    rows: int | None

    @property
    def trivial(self) -> bool:
        """Whether who learns nothing reaches it already."""
        return self.rows == 0


@dataclass(frozen=True)
class Forecast:
    """What each mechanism is worth, at one epsilon and over a sweep.

    Attributes:
        space: The label space, as declared.
        rows: The number of rows.
        dimension: Of the features, effectively; 0 for no features: the error of one mean, or of one class, of all rows.
        trust: ``"local"``, each label is randomized alone; or ``"central"``, a curator answers from all.
        epsilon: What was asked for, or what the target asks for; None if no epsilon reaches it, or none is needed.
        options: Every mechanism at that epsilon.
        sweep: Every mechanism at other epsilons: up to a few hundredths, but at the epsilon of the options as there.
        clean_error: The error without privacy.
        free_epsilon: From where on privacy is nearly free: what leaves is worth 90 % of the rows without noise. None if
            that is nowhere. Without constants, and for a curator, it is ``free_epsilon(rows, dimension)``.
        doubled: The error with twice the rows, at the same epsilon; None where there is none.
        goal: What the target asks for, if there is one.
        assumptions: The conventions that stand for what nobody knows.
        spread: The deviation of labels that are numbers; None for classes.
        unexplained: Of it the deviation that features do not explain; None for classes.
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
    spread: float | None = None
    unexplained: float | None = None

    @property
    def of_numbers(self) -> bool:
        """Whether labels are numbers, and errors in their units."""
        return bool(self.space["kind"] == "interval")

    @property
    def best(self) -> Prospect | None:
        """The mechanism with the smallest error; None if no epsilon reaches a target, or no mechanism teaches much."""
        return next((option for option in self.options if option.best), None)

    def against_labels(self, error: float) -> float:
        """The root mean square of what is left of single labels, where their estimated means have an error."""
        return math.hypot(error, self.unexplained or 0.0)

    def to_json(self) -> dict[str, Any]:
        """All of it in what JSON knows."""
        return dataclasses.asdict(self)


def forecast(
    space: LabelSpace,
    rows: int,
    epsilon: float | None = None,
    *,
    dimension: float = 0.0,
    trust: str = "local",
    target: float | None = None,
    smoothness: float = 1.0,
    margin: float = 1.0,
    explained: float = 0.5,
    spread: float | None = None,
    epsilons: Sequence[float] = EPSILONS,
) -> Forecast:
    """What mechanisms for a label space are worth, from public numbers alone, with conventional constants.

    Its ``best`` is None where there is none: no epsilon reaches the target, or saying the mean reaches it already, or
    no mechanism does better than that at this epsilon.

    Args:
        space: Classes, or an interval.
        rows: The number of rows.
        epsilon: What each label may cost; the smallest that reaches the target if it is left out.
        dimension: The effective dimension of the features; 0 for no features at all.
        trust: ``"local"`` or ``"central"``.
        target: An error to reach: a root mean square in the units of labels, or a chance of a wrong class beyond that
            of the best classifier.
        smoothness: beta, above 0 and at most 1.
        margin: gamma of classes, above 0.
        explained: The share of the variance of numbers that features explain, if there are any.
        spread: The deviation of numbers, in their units; by default that of numbers spread evenly over the range.
        epsilons: Where to look as well.

    Raises:
        InputError: Neither an epsilon nor a target is given, or a number is outside its range.
        EpsilonError: No mechanism can express the epsilon.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp.bounds import forecast
        >>> found = forecast(Interval(0, 100, 1), rows=10_000, epsilon=1.0, dimension=2, trust="central")
        >>> found.best.mechanism, round(found.best.error, 2), round(found.clean_error, 2)
        ('noisy-mean', 3.13, 2.89)

    References:
        Zhao et al. 2025, theorems 2, 4, 6 and 8, for how errors fall; the constants are in ``bounds._curves``.
    """
    _rows, _dimension = rows_of(rows), not_negative(dimension, "dimension")
    if trust not in _TRUSTED:
        raise InputError(f"expected trust among {', '.join(_TRUSTED)}, found {trust!r}")
    if epsilon is None and target is None:
        raise InputError("expected an epsilon, or a target to find one for, found neither")
    if _dimension > math.log2(_rows):
        raise InputError(
            f"expected a dimension of at most {math.log2(_rows):.1f} for {_rows} rows in cells of a grid, found "
            f"{_dimension:g}: cutting each axis in two gives more cells than rows; take clusters, or a grid of a few "
            "principal components, and give their dimension"
        )
    labels = _Labels.of(space, explained, spread)
    curve = _curve(space, labels, _dimension, smoothness, margin)
    asked = _Question(space, _rows, trust, curve)
    goal = None if target is None else _goal(asked, positive(target, "target"), epsilon)
    chosen = _checks.epsilon(epsilon) if epsilon is not None else goal.epsilon if goal else None
    options = () if chosen is None else asked.prospects(chosen)
    if chosen is not None and not options:
        raise EpsilonError(f"expected an epsilon that some mechanism can express, found {chosen!r}; ask for another")
    return Forecast(
        space=space.describe(),
        rows=_rows,
        dimension=_dimension,
        trust=trust,
        epsilon=chosen,
        options=options,
        sweep=tuple(options if each == chosen else asked.prospects(each, roughly=True) for each in epsilons),
        clean_error=curve.error(_rows),
        free_epsilon=asked.free_epsilon(),
        doubled=min((curve.error(2 * _rows, **_noise_of(each, trust)) for each in options), default=None),
        goal=goal,
        assumptions=_conventions(labels, _dimension, smoothness, margin, even=spread is None),
        spread=labels.spread if labels else None,
        unexplained=math.sqrt(curve.variance) if labels else None,
    )


def _noise_of(option: Prospect, trust: str) -> dict[str, float]:
    return {"each" if trust == "local" else "total": option.noise**2}


@dataclass(frozen=True)
class _Question:
    """What a forecast is about."""

    space: LabelSpace
    rows: int
    trust: str
    curve: Curve

    def prospects(self, epsilon: float, *, roughly: bool = False) -> tuple[Prospect, ...]:
        """Every mechanism at an epsilon."""
        each_noise = noises(self.space, self.trust, epsilon, roughly=roughly)
        found = [self._prospect(noise, epsilon) for noise in each_noise]
        least = min((each.error for each in found), default=0.0)
        first = next((i for i, each in enumerate(found) if each.error == least < self.curve.most), None)
        return tuple(dataclasses.replace(each, best=i == first) for i, each in enumerate(found))

    def reaches(self, target: float, epsilon: float, *, roughly: bool = True) -> bool:
        """Whether some mechanism has an error of at most the target."""
        each_noise = noises(self.space, self.trust, epsilon, roughly=roughly)
        return any(self.curve.error(self.rows, each.each, each.total) <= target for each in each_noise)

    def free_epsilon(self) -> float | None:
        """From where on privacy is nearly free: its error is that of nine tenths of the rows without noise."""
        most = self.curve.error(_NEARLY_CLEAN * self.rows)

        def holds(epsilon: float) -> bool:
            return self.reaches(most, epsilon)

        return bisected(holds, _LEAST, _MOST, _CLOSE) if most < self.curve.most and holds(_MOST) else None

    def _prospect(self, noise: Noise, epsilon: float) -> Prospect:
        clean = min(float(self.rows), self.curve.effective_rows(self.rows, noise.each, noise.total))
        return Prospect(
            mechanism=noise.mechanism,
            epsilon=epsilon,
            certified=noise.certified,
            noise=math.sqrt(noise.each + noise.total),
            effective_rows=math.floor(clean),
            clean_share=clean / self.rows,
            error=self.curve.error(self.rows, noise.each, noise.total),
        )


def _goal(asked: _Question, target: float, epsilon: float | None) -> Goal:
    """The epsilon and the rows that a target asks for."""
    if target >= asked.curve.most:
        return Goal(target, None, 0)
    least = _least_epsilon(asked, target)
    if epsilon is None:
        return Goal(target, least, _fewest(lambda n: asked.curve.error(n) <= target))
    found = tuple(noises(asked.space, asked.trust, _checks.epsilon(epsilon)))

    def enough(rows: float) -> bool:
        return any(asked.curve.error(rows, each.each, each.total) <= target for each in found)

    return Goal(target, least, _fewest(enough))


def _least_epsilon(asked: _Question, target: float) -> float | None:
    """The smallest epsilon that reaches a target, looked for roughly and then raised until it truly does."""
    if asked.curve.error(asked.rows) > target or not asked.reaches(target, _MOST, roughly=False):
        return None
    found = bisected(lambda epsilon: asked.reaches(target, epsilon), _LEAST, _MOST, _CLOSE)
    while not asked.reaches(target, found, roughly=False):
        found = min(_MOST, found * (1 + _CLOSE))
    return found


def _fewest(enough: Callable[[float], bool]) -> int | None:
    return math.ceil(bisected(enough, 1.0, _MOST_ROWS)) if enough(_MOST_ROWS) else None


@dataclass(frozen=True)
class _Labels:
    """What labels that are numbers are like.

    Attributes:
        most: The largest deviation, of labels at both ends of the range.
        spread: Their deviation.
        explained: The share of its square that features explain.
    """

    most: float
    spread: float
    explained: float

    @classmethod
    def of(cls, space: LabelSpace, explained: float, spread: float | None) -> _Labels | None:
        """Of an interval; None for classes, which have no deviation."""
        if not isinstance(space, Interval):
            if spread is not None:
                raise InputError(f"expected no spread with classes, found {spread!r}; leave it out")
            return None
        most = float(space.high - space.low) / 2
        found = most / math.sqrt(3) if spread is None else positive(spread, "spread")
        if found > most:
            raise InputError(
                f"expected a spread of at most half of the range, which is {most:g}, found {found:g}: no labels have a "
                "larger deviation; give it in the units of labels"
            )
        return cls(most, found, chance(explained, "the share explained", zero=False, one=False))


def _curve(space: LabelSpace, labels: _Labels | None, dimension: float, smoothness: float, margin: float) -> Curve:
    """The curve of a label space, with the conventional constants.

    Who learns nothing of numbers says their mean, whose error is the deviation that features explain. Without features
    the mean itself is asked for: who says the middle m of the range R is off by at most ``sqrt(R^2 / 4 - V)`` for
    labels of variance V, since ``E (Y - m)^2 <= R^2 / 4``.
    """
    smooth = chance(smoothness, "smoothness", zero=False)
    if labels is None:
        return Curve(dimension, 1.0, 1.0, smooth, 1 - 1 / space.size, positive(margin, "margin"))
    if not dimension:
        return Curve(dimension, labels.spread**2, 0.0, smooth, math.sqrt(labels.most**2 - labels.spread**2))
    explained = labels.explained * labels.spread**2
    return Curve(dimension, labels.spread**2 - explained, math.sqrt(12 * explained), smooth, math.sqrt(explained))


def _conventions(
    labels: _Labels | None, dimension: float, smoothness: float, margin: float, *, even: bool
) -> tuple[str, ...]:
    features = f"features fill a cube of dimension {dimension:.3g} evenly" if dimension else "no features: one cell"
    smooth = f"the function is smooth of order {smoothness:g}, and changes evenly"
    if labels is None:
        about = f"two classes compete, and small gaps between them are as rare as margin {margin:g} says"
    else:
        like = "labels spread evenly over their range" if even else f"labels have a deviation of {labels.spread:.4g}"
        about = like + (f", and features explain {labels.explained:.0%} of their variance" if dimension else "")
    return (about, features, *((smooth,) if dimension else ()), "constants are conventional: compare, do not promise")
