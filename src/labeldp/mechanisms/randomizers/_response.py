"""The randomizer of k-ary randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy.channels import ResponseChannel


@dataclass(frozen=True, eq=False)
class RandomizedResponse(ClassRandomizer):
    """k-ary randomized response: the true class, or a uniform other class.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features are public.

    References:
        Warner 1965; Ghazi et al. 2021, section 2.

    Example:
        >>> from labeldp import Classes, RandomizedResponse
        >>> channel = RandomizedResponse(Classes(["no", "yes"]), epsilon=1.0).channel()
        >>> channel.epsilon <= 1.0
        True
        >>> channel.matrix().round(3).tolist()
        [[0.731, 0.269], [0.269, 0.731]]

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
    """

    name: ClassVar[str] = "randomized-response"
    draws_from: ClassVar[type[ResponseChannel]] = ResponseChannel
    about: ClassVar[str] = "k-ary randomized response: the true class, or a uniform other class"
    detail: ClassVar[str] = "one class"

    @kept
    def channel(self) -> ResponseChannel:
        """The channel from the true class to the released one."""
        return ResponseChannel.at(self.space.size, self.epsilon)
