"""What a release is worth before anything is spent: clean rows, an expected error, the epsilon a target asks for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labeldp import _checks
from labeldp.bounds._arguments import chance, not_negative, positive, rows_of
from labeldp.bounds._curves import Curve, bisected
from labeldp.bounds._plan import EPSILONS
from labeldp.bounds._prospects import Noise, noises
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
        clean_rows: How many clean rows are as good, rounded down.
        clean_share: The same as a share of the rows.
        error: What is expected: the root mean square in the units of labels, or the chance of a wrong class beyond
            that of the best classifier.
        best: Whether no other mechanism has a smaller error.
    """

    mechanism: str
    epsilon: float
    certified: float
    noise: float
    clean_rows: int
    clean_share: float
    error: float
    best: bool = False


@dataclass(frozen=True)
class Goal:
    """What a target error asks for.

    Attributes:
        target: The error that is asked for.
        epsilon: The smallest epsilon that reaches it with these rows; None if none does.
        rows: The fewest rows that reach it at the epsilon that was asked for; without one, the fewest that reach it at
            all, where labels are not protected. None if that is more than anybody has.
    """

    target: float
    epsilon: float | None
    rows: int | None


@dataclass(frozen=True)
class Forecast:
    """What each mechanism is worth, at one epsilon and over a sweep.

    Attributes:
        space: The label space, as declared.
        rows: The number of rows.
        dimension: Of the features, effectively; 0 for no features: the error of one mean, or of one class, of all rows.
        trust: ``"local"``, each label is randomized alone; or ``"central"``, a curator answers from all.
        epsilon: What was asked for, or what the target asks for; None if no epsilon reaches it.
        options: Every mechanism at that epsilon.
        sweep: Every mechanism at other epsilons.
        clean_error: The error without privacy.
        free_epsilon: From where on privacy is nearly free: what leaves is worth 90 % of the rows without noise. None if
            that is nowhere. Without constants, and for a curator, it is ``free_epsilon(rows, dimension)``.
        doubled: The error with twice the rows, at the same epsilon; None where there is none.
        goal: What the target asks for, if there is one.
        assumptions: The conventions that stand for what nobody knows.
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

    @property
    def of_numbers(self) -> bool:
        """Whether labels are numbers, and errors in their units."""
        return bool(self.space["kind"] == "interval")

    @property
    def best(self) -> Prospect | None:
        """The mechanism with the smallest error."""
        return next((option for option in self.options if option.best), None)

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
    epsilons: Sequence[float] = EPSILONS,
) -> Forecast:
    """What mechanisms for a label space are worth, from public numbers alone, with conventional constants.

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
        explained: The share of the variance of numbers that features explain.
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
    curve = _curve(space, _dimension, smoothness, margin, explained)
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
        sweep=tuple(asked.prospects(each, roughly=True) for each in epsilons),
        clean_error=curve.error(_rows),
        free_epsilon=asked.free_epsilon(),
        doubled=min((curve.error(2 * _rows, **_noise_of(each, trust)) for each in options), default=None),
        goal=goal,
        assumptions=_conventions(space, _dimension, smoothness, margin, explained),
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
        first = next((i for i, each in enumerate(found) if each.error == least), None)
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

        return bisected(holds, _LEAST, _MOST, _CLOSE) if holds(_MOST) else None

    def _prospect(self, noise: Noise, epsilon: float) -> Prospect:
        clean = min(float(self.rows), self.curve.clean_rows(self.rows, noise.each, noise.total))
        return Prospect(
            mechanism=noise.mechanism,
            epsilon=epsilon,
            certified=noise.certified,
            noise=math.sqrt(noise.each + noise.total),
            clean_rows=math.floor(clean),
            clean_share=clean / self.rows,
            error=self.curve.error(self.rows, noise.each, noise.total),
        )


def _goal(asked: _Question, target: float, epsilon: float | None) -> Goal:
    """The epsilon and the rows that a target asks for."""
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


def _curve(space: LabelSpace, dimension: float, smoothness: float, margin: float, explained: float) -> Curve:
    """The curve of a label space, with the conventional constants."""
    smooth = chance(smoothness, "smoothness", zero=False)
    if not isinstance(space, Interval):
        return Curve(dimension, 1.0, 1.0, smooth, 1 - 1 / space.size, positive(margin, "margin"))
    share, length = chance(explained, "the share explained", one=False), float(space.high - space.low)
    return Curve(dimension, (1 - share) * length**2 / 12, length * math.sqrt(share), smooth, length / 2)


def _conventions(
    space: LabelSpace, dimension: float, smoothness: float, margin: float, explained: float
) -> tuple[str, ...]:
    features = f"features fill a cube of dimension {dimension:.3g} evenly" if dimension else "no features: one cell"
    smooth = f"the function is smooth of order {smoothness:g}, and changes evenly"
    if isinstance(space, Interval):
        about = f"labels spread evenly over their range, and features explain {explained:.0%} of their variance"
    else:
        about = f"two classes compete, and small gaps between them are as rare as margin {margin:g} says"
    return (about, features, *((smooth,) if dimension else ()), "constants are conventional: compare, do not promise")
