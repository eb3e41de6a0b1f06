"""Privacy-loss distributions of single draws, as exact distributions on three values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import exp_above
from labeldp.privacy.channels import (
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    Channel,
    ClusterChannel,
    ResponseChannel,
    SubsetChannel,
)


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

        Any other kind of channel, and one of groups, counts as the worst mechanism with its odds.
        """
        word = 1 << channel.bits
        match channel:
            case ResponseChannel():
                least = Fraction(channel.other, word)
            case SubsetChannel():
                # the true class is out, with probability (W - A) / W, and y' is among `size` of the k - 1 others
                least = Fraction(word - channel.member, word) * Fraction(channel.size, channel.classes - 1)
            case BitChannel():
                least = Fraction((word - channel.true) * channel.false, word**2)
            case CandidateChannel():
                return cls._of_candidates(channel, word)
            case CandidateSubsetChannel():
                return cls._of_candidate_subsets(channel, word)
            case ClusterChannel():
                return cls._of_clusters(channel, word)
            case _:
                return cls.within(channel.odds)
        return cls(channel.odds, least)

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

    @classmethod
    def _of_candidates(cls, channel: CandidateChannel, word: int) -> Self:
        """The worst loss over the numbers of candidates of the rows; over all numbers for a channel of no rows.

        Two labels among m candidates have the loss of randomized response on m classes, (a_m / b_m, b_m / W). A
        label outside gives the candidate z with weight u_z, and ``u = sum_j s_j (row of candidate j)`` for the shares
        ``s_j = (u_j - b_m) / (a_m - b_m)``, which sum to 1 and are not negative if ``b_m <= u_z``. So a pair with a
        label outside is a mixture, over j, of pairs among the candidates (or of equals), and at every order at most the
        worst of them, since hockey-stick divergences are jointly convex. Two labels outside have the same distribution.
        If an integer violates ``b_m <= u_z``, the worst loss with the channel's odds is returned.
        """
        weights = [(m, channel.keep[m], channel.other[m]) for m in _candidate_numbers(channel)]
        if not weights:
            return cls(Fraction(1), Fraction(0))
        if any(word - (m - 1) * -(-word // m) < other for m, _, other in weights):
            return cls.within(channel.odds)
        return cls._covering((Fraction(keep, other), Fraction(other, word)) for _, keep, other in weights)

    @classmethod
    def _of_candidate_subsets(cls, channel: CandidateSubsetChannel, word: int) -> Self:
        """The worst loss over the numbers of candidates of the rows; over all numbers for a channel of no rows.

        Two labels among m candidates have the loss of subsets of m classes. The distribution of a label outside is the
        mean of those of the candidates, so a pair with it is at most the worst of them, as above.
        """
        numbers = _candidate_numbers(channel)
        if not numbers:
            return cls(Fraction(1), Fraction(0))
        pairs = []
        for m in numbers:
            member, size = channel.member[m], channel.size[m]
            odds = Fraction(member * (m - size), (word - member) * size)
            pairs.append((odds, Fraction(word - member, word) * Fraction(size, m - 1)))
        return cls._covering(pairs)

    @classmethod
    def _of_clusters(cls, channel: ClusterChannel, word: int) -> Self:
        """The worst loss over all declared clusters.

        With weight a for the true class and w_z for a resampled class, the hockey-stick divergence of y from y' at a
        factor x >= 1 is ``(a - (x - 1) w_y)+ / W``, and at x < 1 it follows from that of y' from y. So it is largest
        for the class of the least weight w, at every order, where it is that of (``1 + a / w``, ``w / W``).
        """
        least = [min(weights) for weights in channel.weights]
        pairs = zip(channel.keep, least, strict=True)
        return cls._covering((1 + Fraction(keep, weight), Fraction(weight, word)) for keep, weight in pairs)

    @classmethod
    def _covering(cls, pairs: Iterable[tuple[Fraction, Fraction]]) -> Self:
        """One loss that dominates several: the largest odds, and the largest ``least`` that is possible with them."""
        odds, least = zip(*pairs, strict=True)
        return cls(max(odds), min(max(least), 1 / (1 + max(odds))))


def _candidate_numbers(channel: CandidateChannel | CandidateSubsetChannel) -> list[int]:
    """The numbers of candidates of the rows, from two on; all numbers for a channel of no rows."""
    present = {int(m) for m in np.unique(channel.sizes)} or set(range(1, channel.classes + 1))
    return sorted(present - {1})
