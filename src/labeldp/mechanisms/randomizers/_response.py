"""The randomizer of k-ary randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers._randomizer import ClassRandomizer, kept
from labeldp.privacy import LabelSpace, log_above
from labeldp.privacy.channels import ResponseChannel, accept

_BITS = 64


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

    @classmethod
    def keeping(cls, space: LabelSpace, probability: float) -> Self:
        """Randomized response that keeps a label with a given probability, as surveys and devices state it.

        Its odds are at least those of the probability, as a float and as the decimal that it prints as: labels that
        were drawn elsewhere have no larger epsilon.

        Args:
            space: The declared label space.
            probability: The probability that the true class is reported: above 1/k and below 1. "On heads answer
                truthfully, on tails say yes or no by a second coin" keeps with probability 0.75.

        Raises:
            InputError: The probability is not in that range.

        Example:
            >>> from labeldp import Classes, RandomizedResponse
            >>> round(RandomizedResponse.keeping(Classes(["no", "yes"]), 0.75).epsilon, 4)
            1.0986
        """
        share = _checks.share(probability, "probability")
        exact = max(Fraction(share), Fraction(repr(share)))
        if not 1 < exact * space.size < space.size:
            raise InputError(
                f"expected a probability above 1/{space.size} and below 1 of keeping one of {space.size} classes, "
                f"found {probability!r}"
            )
        odds, others = exact * (space.size - 1) / (1 - exact), space.size - 1
        other = (1 << _BITS) // (odds + others)  # rounded down, so that the odds are not
        if not other:
            accept(Fraction(1), log_above(odds), _BITS)
        return cls(space, ResponseChannel(space.size, (1 << _BITS) - others * other, other).epsilon)

    @kept
    def channel(self) -> ResponseChannel:
        """The channel from the true class to the released one."""
        return ResponseChannel.at(self.space.size, self.epsilon)
