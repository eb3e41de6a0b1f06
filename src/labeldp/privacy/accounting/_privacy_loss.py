"""Privacy-loss distributions of single draws, as exact distributions on three values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import exp_above
from labeldp.privacy.channels import Channel


@dataclass(frozen=True)
class PrivacyLoss:
    """The privacy-loss distribution of one draw, for a worst pair of labels.

    The loss of an outcome z is ``log(P(z | y) / P(z | y'))``, with z drawn given y. It is infinite with
    probability ``failure``; else it is ``log(odds)`` with probability ``odds * least``, ``-log(odds)`` with
    probability ``least``, and 0 otherwise. Swapping y and y' gives the same distribution.

    Attributes:
        odds: The exact largest ratio of probabilities.
        least: The probability, given y, of the outcomes that favour y'.
        failure: The probability of an outcome that is impossible given y'.

    Guarantee:
        * **Every pair.** A channel with two levels on a mask has the likelihood ratio ``odds`` for y over y' if the
          mask contains y alone, its inverse if it contains y' alone, and 1 otherwise. Permuting the classes does not
          change the channel, so all pairs have the same distribution.
        * **Every order.** At a factor x >= 1 the hockey-stick divergence is ``least * (odds - x)+``, and at x < 1 it
          follows by swapping y and y'. It grows with ``odds`` and with ``least``, so a distribution with more of either
          dominates one with less in any composition, also an adaptive one.

    References:
        Sommer, Meiser and Mohammadi 2019, section 4, for the distribution; Zhu, Dong and Wang 2022, theorem 10, for
        pairs that bound others at every order, and so under adaptive composition.

    Example:
        >>> from labeldp.privacy.accounting import PrivacyLoss
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> loss = PrivacyLoss.of(ResponseChannel.at(10, 1.0))
        >>> round(float(loss.odds), 4), round(float(loss.least), 4)
        (2.7183, 0.0853)
    """

    odds: Fraction
    least: Fraction
    failure: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if not (self.odds >= 1 and self.least >= 0 and (1 + self.odds) * self.least <= 1 and 0 <= self.failure <= 1):
            raise ValueError("expected odds of at least 1, and probabilities from 0 to 1 that sum to at most 1")

    @classmethod
    def of(cls, channel: Channel) -> Self:
        """The loss of one draw from any row of a channel, from its integers.

        It dominates those that the channel states for the different distributions among its rows
        (``Channel.losses``): it has the largest odds, and the largest ``least`` that is possible with them.
        """
        odds, least = zip(*(channel.losses or ((Fraction(1), Fraction(0)),)), strict=True)
        return cls(max(odds), min(max(least), 1 / (1 + max(odds))))

    @classmethod
    def within(cls, odds: Fraction, failure: Fraction = Fraction(0)) -> Self:
        """The worst loss of all mechanisms with these odds and this failure probability.

        References:
            Kairouz, Oh and Viswanath 2015, theorem 3.3 and its proof: all such mechanisms are post-processings of this.
        """
        return cls(odds, 1 / (1 + odds), failure)

    @classmethod
    def promised(cls, guarantee: Guarantee) -> Self:
        """The worst loss of all mechanisms with a guarantee, in any trust model."""
        failure = max(Fraction(guarantee.delta), Fraction(repr(guarantee.delta)))  # binary value and printed decimal
        return cls.within(Fraction(exp_above(guarantee.epsilon)), failure)
