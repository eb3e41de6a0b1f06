"""The unbiased randomizers of numbers with the least variance, on average or at worst, by linear programmes."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np

from labeldp._arrays import read_only
from labeldp._shapes import Float
from labeldp.columns import floats
from labeldp.errors import EpsilonError, PriorError
from labeldp.mechanisms.randomizers._column_generation import RestrictedProgramme, even, least_variance, projected
from labeldp.mechanisms.randomizers._numbers import LaplaceResponse, OneBitResponse, PiecewiseResponse
from labeldp.mechanisms.randomizers._randomizer import NumberRandomizer
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import GridChannel, column_channel

#: Intervals between knots on a fine grid: more of them hardly lower the variance, and the search takes longer.
_PIECES = 32
#: Epsilons below and above which no search is needed: one bit is within 1/1000 of the least mean variance below, and
#: windows are close to it above.
_SMALL, _LARGE = 0.1, 10.0
#: Largest accepted bias, as a share of the range; and largest accepted error of the sum of a prior.
_BIAS, _TOLERANCE = 1e-9, 1e-3

#: The randomizers in closed form.
CLOSED = (OneBitResponse, PiecewiseResponse, LaplaceResponse)
#: In place of their name, where the linear programme has less variance.
SEARCHED = "linear programme"


#: The declaration about a prior over grid points.
PRIOR_DECLARED = (
    "the prior over grid points is public and was not computed from these labels, but through answers and releases "
    "that cost extra"
)


class SolverWarning(UserWarning):
    """The linear programme was not solved, and a mechanism in closed form is used instead."""


@dataclass(frozen=True, eq=False)
class SearchedRandomizer(NumberRandomizer):
    """A randomizer of numbers whose channel a linear programme finds."""

    draws_from: ClassVar[type[GridChannel]] = GridChannel
    searched: ClassVar[bool] = True

    @property
    @abstractmethod
    def _chosen(self) -> tuple[str, GridChannel]:
        """The channel, and the name of what has it."""

    def channel(self) -> GridChannel:
        """The channel from the true label to the released number."""
        return self._chosen[1]

    @property
    def used(self) -> str:
        """The name of the mechanism in closed form whose channel is used, or ``"linear programme"``."""
        return self._chosen[0]


@dataclass(frozen=True, eq=False)
class OptimalResponse(SearchedRandomizer):
    """The unbiased randomizer of numbers with the least mean variance, found by a linear programme.

    It minimises the mean variance over labels that follow the prior, to within 1/1000 of the least possible value on 33
    knots. If a mechanism in closed form is as good, its channel is used, such as that of ``OneBitResponse`` below
    epsilon 0.1 and of ``PiecewiseResponse`` above 10; ``used`` is its name.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the k grid points; uniform by default.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: it follows from the integers of
          the draw, whatever the solver's result.
        * Neighbours differ in the label of one row; features and the prior are public, and the prior was not
          computed from these labels.

    References:
        Badanidiyuru et al. 2023, section 3.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import OptimalResponse
        >>> randomizer = OptimalResponse(Interval(-1, 1, 0.25), epsilon=1.0)
        >>> channel = randomizer.channel()
        >>> randomizer.used, channel.epsilon <= 1.0, channel.bias < 1e-9
        ('linear programme', True, True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
        PriorError: The prior is not a distribution of the grid points.
    """

    prior: Float[np.ndarray, "k"] | None = field(default=None, repr=False)

    name: ClassVar[str] = "optimal"
    about: ClassVar[str] = "Unbiased randomizer of least mean variance over the range, by linear programming"

    def __post_init__(self) -> None:
        if self.prior is not None and isinstance(self.space, Interval):
            object.__setattr__(self, "prior", checked_distribution(self.prior, self.space.size))
        super().__post_init__()

    @property
    def declared(self) -> tuple[str, ...]:
        """The declaration about the prior, if there is one."""
        return () if self.prior is None else (PRIOR_DECLARED,)

    @cached_property
    def _chosen(self) -> tuple[str, GridChannel]:
        return best_channel(self.space, self.epsilon, self.prior, worst=False)


def checked_distribution(
    prior: object, points: int, what: str = "probabilities of the grid points"
) -> Float[np.ndarray, "k"]:
    """A prior over grid points as a read-only copy in floats that sums to one; errors name what it is."""
    array = np.array(floats(prior, f"a prior of the {points} grid points", PriorError))
    if array.shape != (points,):
        raise PriorError(
            f"expected a prior of {points} numbers, one for each grid point, found shape {array.shape}; give "
            "probabilities on the declared grid"
        )
    total = float(array.sum())
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise PriorError(f"expected {what} that sum to 1, found one that is below 0 or not finite")
    if abs(total - 1) > _TOLERANCE:
        cure = "divide percentages by 100" if abs(total - 100) <= 1 else "normalize them"
        raise PriorError(f"expected {what} that sum to 1, found a sum of {total:g}; {cure}")
    array /= total
    return read_only(array)


def best_channel(
    space: LabelSpace, epsilon: float, prior: Float[np.ndarray, "k"] | None, *, worst: bool
) -> tuple[str, GridChannel]:
    """The channel with the least mean or largest variance, and the name of the mechanism in closed form that has it."""
    objective = _Objective(space.size, prior, worst)
    laws = {kind.name: kind(space, epsilon).channel() for kind in CLOSED}
    name = min(laws, key=lambda name: objective.variance(laws[name]))
    if space.size == 2 or not _SMALL <= epsilon <= _LARGE:
        return name, laws[name]
    solution = _solved(objective, epsilon)
    if solution is not None:
        better = objective.variance(solution) < objective.variance(laws[name])
        return (SEARCHED, solution) if better else (name, laws[name])
    warnings.warn(
        f"expected a solution of the linear program for the least variance, found none; the mechanism {name!r} is used "
        "instead, at the same epsilon",
        SolverWarning,
        stacklevel=2,
    )
    return name, laws[name]


def _solved(objective: _Objective, epsilon: float) -> GridChannel | None:
    """The solution of the linear programme as a channel of integers; None if there is none of small bias."""
    columns = _solved_columns(objective.knots(min(objective.classes - 1, _PIECES)).tobytes(), epsilon, objective.worst)
    if columns is None:
        return None
    try:
        channel = column_channel(objective.classes, columns.masses, columns.inside, (columns.numbers + 1) / 2, epsilon)
    except (EpsilonError, ValueError, ArithmeticError):
        return None
    return channel if channel.bias <= _BIAS * (objective.classes - 1) else None


@lru_cache(maxsize=64)
def _solved_columns(prior: bytes, epsilon: float, worst: bool) -> RestrictedProgramme | None:
    """The columns of least variance for a prior over knots."""
    return least_variance(np.frombuffer(prior), epsilon, worst)


@dataclass(frozen=True)
class _Objective:
    """The objective: the mean variance under a prior over grid points, or the largest variance."""

    classes: int
    prior: Float[np.ndarray, "k"] | None
    worst: bool

    def knots(self, pieces: int) -> Float[np.ndarray, "knots"]:
        """The prior over knots."""
        return even(pieces) if self.prior is None else projected(self.prior, pieces)

    def variance(self, channel: GridChannel) -> float:
        """The mean or the largest variance of a channel, in squared ranges.

        Stochastic rounding of labels to knots adds the difference of the mean squares to the mean variance, and at most
        a quarter of the squared knot distance to the largest.
        """
        pieces, last = len(channel.weights) - 1, self.classes - 1
        places = np.linspace(0.0, 1.0, pieces + 1)
        away = channel.steps[0] / last - places[:, None]
        variances = np.einsum("km,km->k", channel.chances, away**2)
        if self.worst:
            return float(variances.max()) + (0.25 / pieces**2 if pieces < last else 0.0)
        points = even(last) if self.prior is None else self.prior
        knots = self.knots(pieces)
        return float(knots @ variances + knots @ places**2 - points @ np.linspace(0.0, 1.0, self.classes) ** 2)


@dataclass(frozen=True, eq=False)
class MinimaxResponse(SearchedRandomizer):
    """The unbiased randomizer of numbers whose largest variance over all labels is least, by a linear programme.

    It needs no prior: its variance is about the same for every label. The largest variance is within 1/1000 of the
    least possible value on 33 knots. If a mechanism in closed form is as good, its channel is used; ``used`` is its
    name.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: it follows from the integers of
          the draw, whatever the solver's result.
        * Neighbours differ in the label of one row; features are public.

    References:
        Badanidiyuru et al. 2023, section 3, with the largest variance in place of the mean.

    Example:
        >>> from labeldp import Interval, MinimaxResponse, OptimalResponse
        >>> space = Interval(-1, 1, 0.25)
        >>> worst, mean = (kind(space, 2.0).channel().variances for kind in (MinimaxResponse, OptimalResponse))
        >>> bool(worst.max() < mean.max()), bool(worst.mean() > mean.mean())
        (True, True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
    """

    name: ClassVar[str] = "minimax"
    about: ClassVar[str] = "Unbiased randomizer of least variance for the worst label, by linear programming"

    @cached_property
    def _chosen(self) -> tuple[str, GridChannel]:
        return best_channel(self.space, self.epsilon, None, worst=True)


def best_number_response(
    space: Interval, epsilon: float, prior: Float[np.ndarray, "k"] | None = None
) -> NumberRandomizer:
    """The default unbiased randomizer of numbers.

    With a prior it has the least mean variance over labels that follow it. Without one its largest variance, over all
    labels, is least: the distribution of labels is not known, and often most of them are near one end of the range,
    such as amounts that are mostly small. The best mechanism for uniform labels has its largest variance there; this
    one has about the same variance for every label, and its mean over uniform labels is a few hundredths larger at
    epsilon 1, and a fifth larger at epsilon 4.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the k grid points.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import best_number_response
        >>> [best_number_response(Interval(0, 10, 1), epsilon).name for epsilon in (0.01, 1.0, 12.0)]
        ['one-bit', 'minimax', 'piecewise']
    """
    best = MinimaxResponse(space, epsilon) if prior is None else OptimalResponse(space, epsilon, prior)
    return next((kind(space, epsilon) for kind in CLOSED if kind.name == best.used), best)
