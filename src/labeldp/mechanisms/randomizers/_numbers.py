"""Randomizers that release numbers for labels on an interval, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labeldp.mechanisms.randomizers._randomizer import NumberRandomizer
from labeldp.privacy.channels import GridChannel, laplace_channel, one_bit_channel, piecewise_channel


@dataclass(frozen=True, eq=False)
class LaplaceResponse(NumberRandomizer):
    """Unbiased Laplace noise on the grid: the usual baseline; a bounded range allows much less variance.

    All outcomes at or below the lowest label carry the same information about the label, and are released as one
    number, their mean; so are those above the highest. That loses nothing, and reduces the variance by about a third at
    epsilon 1.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio for labels at the two ends, above 0.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Dwork et al. 2006 for the noise; Zhao et al. 2025, section 5, for labels; Ghosh et al. 2009 for the grid.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import LaplaceResponse
        >>> channel = LaplaceResponse(Interval(0, 10, 1), epsilon=1.0).channel()
        >>> channel.epsilon <= 1.0
        True
        >>> channel.numbers([0, 1, 10]).round(2).tolist()
        [-9.51, 1.0, 19.51]

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
    """

    name: ClassVar[str] = "laplace"
    draws_from: ClassVar[type[GridChannel]] = GridChannel
    about: ClassVar[str] = "Laplace noise on the grid, with merged ends"

    def channel(self) -> GridChannel:
        """The channel from the true label to the released number."""
        return laplace_channel(self.space.size, self.epsilon)


@dataclass(frozen=True, eq=False)
class OneBitResponse(NumberRandomizer):
    """One of two numbers beyond the two ends of the range, unbiased: one bit for each label.

    Its mean identifies the label, but no other moment, such as the square, is identified. At epsilon 1 its mean
    variance is an eighth above the least possible, at smaller epsilons less than that.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Duchi et al. 2013, section 3.1, and 2018, section 4.2.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import OneBitResponse
        >>> channel = OneBitResponse(Interval(-1, 1, 0.5), epsilon=1.0).channel()
        >>> (channel.numbers([0, 1]) * 0.5 - 1).round(3).tolist()
        [-2.164, 2.164]

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
    """

    name: ClassVar[str] = "one-bit"
    draws_from: ClassVar[type[GridChannel]] = GridChannel
    about: ClassVar[str] = "One of two numbers, unbiased (Duchi et al.)"

    def channel(self) -> GridChannel:
        """The channel from the true label to the released number."""
        return one_bit_channel(self.space.size, self.epsilon)


@dataclass(frozen=True, eq=False)
class PiecewiseResponse(NumberRandomizer):
    """A number from a window around the label, or from the rest of a longer range, unbiased.

    The window's width minimises the mean variance for uniform labels.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Wang et al. 2019, Algorithm 2.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import PiecewiseResponse
        >>> channel = PiecewiseResponse(Interval(0, 1, 0.25), epsilon=2.0).channel()
        >>> channel.means.round(6).tolist(), channel.epsilon <= 2.0
        ([0.0, 1.0, 2.0, 3.0, 4.0], True)

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
    """

    name: ClassVar[str] = "piecewise"
    draws_from: ClassVar[type[GridChannel]] = GridChannel
    about: ClassVar[str] = "Piecewise mechanism (Wang et al.): a window around the label is more likely"

    def channel(self) -> GridChannel:
        """The channel from the true label to the released number."""
        return piecewise_channel(self.space.size, self.epsilon)
