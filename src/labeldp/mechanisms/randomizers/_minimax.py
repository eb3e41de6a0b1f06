"""The unbiased randomizer of numbers whose largest variance is least, and the default randomizer of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from labeldp._shapes import Float
from labeldp.mechanisms.randomizers._optimal import CLOSED, OptimalResponse, SearchedRandomizer, best_channel
from labeldp.mechanisms.randomizers._randomizer import NumberRandomizer
from labeldp.privacy import Interval
from labeldp.privacy.channels import GridChannel


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
