"""Tight composition of requests that were fixed beforehand, by privacy-loss distributions.

The loss of several draws is the sum of their losses. Every error claims less privacy: losses are rounded up,
probability is only ever moved to a larger loss, and floating-point error is added to delta.

**With zero-concentrated mechanisms.** Let L be the sum of the losses of mechanisms with a known loss distribution, R
the sum of the rhos of the others, and D_R(x) the largest hockey-stick divergence at exp(x) of all pairs of
distributions that are R-zCDP in both orders. Then the total divergence at epsilon is at most ``E[D_R(epsilon - L)]``,
in any order and for any adaptive choice of mechanisms, as long as their losses and rhos are fixed. By induction over
the first mechanism with distributions P and Q, whose outcome z leaves the rest with the threshold
``x - log(P(z) / Q(z))``:

* It is rho-zCDP: for each z take a pair that is (R - rho)-zCDP and nearly worst at that threshold. Both together are
  R-zCDP, so ``E[D_(R - rho)(x - log(P/Q))] <= D_R(x)``.
* It has a loss L': as a function of Q/P the bound for the rest is convex, since ``D_R(log s)`` is convex in s as a
  supremum of convex functions. So its mean over P is largest for the pair of L', whose hockey-stick divergences are
  the largest at every order (Zhu, Dong and Wang 2022, theorem 10).

``concentrated_delta``, which is at least D_R, is computed. The grid is valid here too, since D_R is convex in
exp(-loss) and does not grow with x.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.errors import EpsilonError, InputError, MissingExtraError
from labeldp.privacy._guarantee import Guarantee
from labeldp.privacy._rounding import EXACT, exp_above, float_above, least_float, log_above, sum_of
from labeldp.privacy.accounting._account import Charge, compose, together
from labeldp.privacy.accounting._concentrated import ConcentratedLoss, concentrated_delta
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


#: Distributions with more values than this are discretised on a grid.
_MOST_VALUES = 1 << 16
#: The largest number of points of that grid.
_POINTS = 1 << 15
_MOST_DRAWS = 1 << 14
#: More sets of charges than this are merged into one set that contains them all.
_MOST_SETS = 64
#: Twice the relative error of one rounding of a float.
_ROUNDING = 2.0**-52
#: An upper bound on the sum of all underflowed products.
_UNDERFLOW = 2.0**-900
#: The end of the search for an epsilon.
_FARTHEST = 1e9

#: The loss of one request: its distribution, or a bound by rho.
Loss = PrivacyLoss | ConcentratedLoss


@dataclass(frozen=True)
class Composition:
    """The joint guarantee of requests that were fixed beforehand.

    Attributes:
        charges: The requests: guarantees and rows.
        losses: The privacy loss of each for one unit.

    Guarantee:
        * (epsilon, ``delta_at(epsilon)``)-label-DP of one unit, for every epsilon of at least 0: the unit and the
          neighbours are those of the charges. It holds also where a mechanism was chosen by earlier results, as
          long as the number of requests, their rows and their losses were not.
        * Where they were, only ``epsilon`` and ``delta`` hold, which are the sums of ``compose``.
        * A charge with a delta and a rho counts by its rho: many queries with Gaussian noise cost what their sum of
          rhos does. Pure charges with a rho count by their losses or by their rhos, whichever total is less.
        * Requests meet in a unit as they do in ``compose``: on the same rows; all of them if a unit has several rows.
          The replaced pair of labels is the same for all requests; each loss bounds every pair, so their sum does.

    References:
        Koskela, Jälkö and Honkela 2020 and Gopi, Lee and Wutschitz 2021, for delta from sums of losses (there by FFT,
        here by direct sums, whose error is relative); Doroshenko et al. 2022 for the grid; Kairouz, Oh and
        Viswanath 2015, theorem 3.3, for charges without a channel; Bun and Steinke 2016 for rhos.

    Example:
        >>> from labeldp import Charge, Guarantee
        >>> from labeldp.privacy.accounting import Composition, RowRanges
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> channel = ResponseChannel.at(10, 1.0)
        >>> charge = Charge(Guarantee(channel.epsilon), RowRanges.all(1000))
        >>> hundred = Composition.of([(charge, channel)] * 100)
        >>> hundred.epsilon, round(hundred.epsilon_at(1e-6), 1)
        (100.0, 39.9)
        >>> noisy = Charge(Guarantee(1.0, 1e-6, rho=0.02), RowRanges.all(1000))
        >>> hundred = Composition.of([(noisy, None)] * 100)
        >>> hundred.epsilon, round(hundred.epsilon_at(1e-6), 1)
        (100.0, 11.7)
    """

    charges: tuple[Charge, ...]
    losses: tuple[Loss, ...]

    @classmethod
    def of(cls, draws: Iterable[tuple[Charge, Channel | None]]) -> Self:
        """The composition of charges and the channels that were drawn from.

        A charge that has no channel, is not for single rows or is not pure counts as the worst mechanism with its
        guarantee, or with its rho.

        Raises:
            InputError: The epsilon of a charge is below that of its channel.
        """
        pairs = list(draws)
        return cls(
            tuple(charge for charge, _ in pairs), tuple(_charge_loss(charge, channel) for charge, channel in pairs)
        )

    @property
    def epsilon(self) -> float:
        """The epsilon by sums, which holds for adaptively chosen requests too."""
        return self._sums[0]

    @property
    def delta(self) -> float:
        """The delta by sums; 0 if every request is pure."""
        return self._sums[1]

    def delta_at(self, epsilon: float) -> float:
        """The smallest known delta at an epsilon; 0 from the sum of pure requests on."""
        epsilon = _checks.number(epsilon, "epsilon")
        if epsilon < 0:
            raise EpsilonError(f"expected an epsilon of at least 0, found {epsilon!r}")
        delta = self._delta_at(epsilon)
        return min(delta, self.delta) if epsilon >= self.epsilon else delta

    def epsilon_at(self, delta: float) -> float:
        """The smallest known epsilon at a delta; at delta 0, the sum of pure requests.

        It is infinite if requests without a rho fail with a larger probability.

        Raises:
            EpsilonError: The delta is not in [0, 1).
        """
        delta = _checks.delta(delta)
        if delta == 0.0 == self.delta:
            return self.epsilon
        low, high = 0.0, self.epsilon
        if self._delta_at(low) <= delta:
            return low
        while self.delta_at(high) > delta:
            low, high = high, max(2 * high, 1.0)
            if high > _FARTHEST or self._failure > delta:
                return math.inf
        return least_float(lambda epsilon: self._delta_at(epsilon) <= delta, low, high)

    @cached_property
    def _sums(self) -> tuple[float, float]:
        return compose(self.charges)

    @cached_property
    def _readings(self) -> tuple[tuple[_Law, ...], ...]:
        """Loss distributions by two valid readings: by the losses, and with rhos for all charges that have one."""
        rhos = (charge.guarantee.rho for charge in self.charges)
        by_rho = (
            _concentrated_loss(rho) if rho is not None else loss for rho, loss in zip(rhos, self.losses, strict=True)
        )
        return tuple(self._laws(losses) for losses in dict.fromkeys((self.losses, tuple(by_rho))))

    def _laws(self, losses: Sequence[Loss]) -> tuple[_Law, ...]:
        """The distribution of the sum of losses, for each set of charges that meet in a unit."""
        kinds = {loss: number for number, loss in enumerate(dict.fromkeys(losses))}
        numbers = np.array([kinds[loss] for loss in losses], dtype=np.int64)
        sets = [np.bincount(numbers[list(places)], minlength=len(kinds)) for places in together(self.charges)]
        return tuple(_law_of_losses(dict(zip(kinds, times.tolist(), strict=True))) for times in _undominated(sets))

    def _delta_at(self, epsilon: float) -> float:
        # a float also stands for the decimal that it prints as, which may be a little less
        smaller = math.nextafter(epsilon, 0.0)
        delta = min(max((law.delta_at(smaller) for law in laws), default=0.0) for laws in self._readings)
        return float_above(Decimal(delta))  # an upper bound as the decimal that it prints as, too

    @property
    def _failure(self) -> float:
        """The limit of delta for large epsilon."""
        return min(max((law.failure for law in laws), default=0.0) for laws in self._readings)


@dataclass(frozen=True)
class _Law:
    """A distribution that dominates that of a sum of losses.

    The masses were computed by additions and products of numbers that are not negative. Each rounding is a factor
    of at least 1 - 2**-53, so after n of them a mass is at least the true one times ``1 - n 2**-53``, and n times
    ``_ROUNDING`` makes up for it (Higham 2002, lemma 3.1). Beside the losses there may be mechanisms with a rho.
    """

    losses: Float[np.ndarray, "n"]
    masses: Float[np.ndarray, "n"]
    failure: float
    roundings: int
    rho: float = 0.0

    def delta_at(self, epsilon: float) -> float:
        """``E[(1 - exp(epsilon - loss))+]``, rounded up; with a rho, the mean of the rho's delta at epsilon - loss."""
        above = self.losses > (-math.inf if self.rho else epsilon)
        gaps = epsilon - self.losses[above]
        shares = concentrated_delta(self.rho, np.nextafter(gaps, -np.inf)) if self.rho else -np.expm1(gaps)
        delta = self.failure + float(self.masses[above] @ shares)
        error = (self.roundings + shares.size + 16) * _ROUNDING
        return min(1.0, delta * (1 + error) + _UNDERFLOW) if shares.size or self.failure else 0.0


def _concentrated_loss(rho: float) -> ConcentratedLoss:
    return ConcentratedLoss(Decimal(repr(rho)))


def _charge_loss(charge: Charge, channel: Channel | None) -> Loss:
    guarantee = charge.guarantee
    if channel is not None and channel.epsilon > guarantee.epsilon:
        raise InputError(f"expected a charge of at least epsilon {channel.epsilon}, found {guarantee.epsilon}")
    if guarantee.delta and guarantee.rho is not None:
        return _concentrated_loss(guarantee.rho)
    if channel is None or guarantee.delta or (guarantee.unit, guarantee.trust) != ("row", "local"):
        return PrivacyLoss.promised(guarantee)
    return PrivacyLoss.of(channel)


def _undominated(sets: Sequence[Int[np.ndarray, "kinds"]]) -> Int[np.ndarray, "sets kinds"]:
    """The counts of draws that no other dominates; more than ``_MOST_SETS`` are merged into one that dominates all."""
    if not sets:
        return np.empty((0, 0), dtype=np.int64)
    unlike = np.array(sorted({tuple(each.tolist()) for each in sets}), dtype=np.int64)
    if len(unlike) > _MOST_SETS:
        return np.asarray(unlike.max(axis=0, keepdims=True))
    dominators = (unlike[:, None, :] <= unlike[None, :, :]).all(axis=2).sum(axis=1)
    return np.asarray(unlike[dominators == 1])  # each dominates itself


def _law_of_losses(times: Mapping[Loss, int]) -> _Law:
    """The distribution of the sum of independent losses with their counts, and the sum of rhos."""
    rhos = {loss.rho: count for loss, count in times.items() if isinstance(loss, ConcentratedLoss)}
    losses = {loss: count for loss, count in times.items() if isinstance(loss, PrivacyLoss)}
    rho = sum_of(EXACT.multiply(rho, Decimal(count)) for rho, count in rhos.items())
    return replace(_law_of_sum(losses), rho=float_above(rho))


def _law_of_sum(times: Mapping[PrivacyLoss, int]) -> _Law:
    """The distribution of the sum of independent losses with their counts."""
    if (draws := sum(times.values())) > _MOST_DRAWS:
        raise InputError(f"expected at most {_MOST_DRAWS} releases of one row, found {draws}; use sums")
    lossy = {loss: count for loss, count in times.items() if count and (loss.odds > 1 or loss.failure)}
    parts = sorted((_repeated(loss, count) for loss, count in lossy.items()), key=lambda part: part.losses.size)
    width = sum(float(part.losses[-1] - part.losses[0]) for part in parts)
    # a power of two, so that grid points are exact
    step = 2.0 ** math.ceil(math.log2(width / _POINTS)) if width else 1.0
    nothing = _Law(np.zeros(1), np.ones(1), 0.0, 0)
    return reduce(lambda one, other: _sum(one, other, step), parts, nothing)


def _repeated(loss: PrivacyLoss, times: int) -> _Law:
    """The sum of ``times`` equal losses: multiples of one number, so floats are rounded and nothing else."""
    stays = 1 - loss.failure
    values = (loss.least, 1 - (1 + loss.odds) * loss.least, loss.odds * loss.least)
    masses, roundings = _power(np.array([float(stays * value) for value in values]), times)
    size = log_above(loss.odds)
    counts = np.arange(-times, times + 1)
    # the smallest float above a logarithm, less four units in its last place, is below it
    products = counts * np.where(counts > 0, size, size * (1 - 2.0**-50))
    failure = -math.expm1(times * math.log1p(-float(loss.failure))) if loss.failure < 1 else 1.0
    return _Law(np.nextafter(products, np.inf), masses, failure, roundings + 16)


def _power(masses: Float[np.ndarray, "m"], times: int) -> tuple[Float[np.ndarray, "n"], int]:
    """A distribution convolved with itself ``times`` times, and the number of roundings of each mass."""
    if times == 1:
        return masses, 1
    half, roundings = _power(masses, times // 2)
    power, roundings = np.convolve(half, half), 2 * roundings + half.size
    if times % 2:
        power, roundings = np.convolve(power, masses), roundings + masses.size + 1
    return power, roundings


def _sum(one: _Law, other: _Law, step: float) -> _Law:
    """The distribution of a sum of two losses: every pair of values if there are few, else on a grid."""
    failure = one.failure + other.failure * (1 - one.failure)
    roundings = one.roundings + other.roundings + 4
    if one.losses.size * other.losses.size <= _MOST_VALUES:
        losses = np.nextafter(np.add.outer(one.losses, other.losses), np.inf).ravel()
        return _Law(losses, np.multiply.outer(one.masses, other.masses).ravel(), failure, roundings)
    (low, a, more), (lowest, b, most) = _on_grid(one, step), _on_grid(other, step)
    masses = np.convolve(a, b)
    losses = (low + lowest + np.arange(masses.size)) * step
    return _Law(losses, masses, failure, roundings + more + most + min(a.size, b.size))


def _on_grid(law: _Law, step: float) -> tuple[int, Float[np.ndarray, "n"], int]:
    """The masses at integer multiples of a step, from the lowest one on, and the number of added roundings.

    Mass between two points is split between them so that the mean of exp(-loss) stays. Delta is the mean of
    ``(1 - exp(epsilon) exp(-loss))+``, which is convex in exp(-loss), so by Jensen's inequality it can only grow,
    whatever independent losses are added. The upper share is rounded up, which moves mass to a larger loss.
    """
    places = np.floor(law.losses / step).astype(np.int64)
    upper = np.minimum(1.0, np.expm1(places * step - law.losses) / np.expm1(-step) * (1 + 2.0**-48))
    low = int(places.min())
    places -= low
    size = int(places.max()) + 2
    masses = np.bincount(places, law.masses * (1 - upper), size)
    masses += np.bincount(places + 1, law.masses * upper, size)
    return low, masses, 2 * int(np.bincount(places).max()) + 4


def dp_events(composition: Composition) -> list[Any]:
    """A composition as events of the library dp_accounting: one for each set of requests that meet in a unit.

    The joint guarantee is the largest that an accountant computes for these events.

    Args:
        composition: Requests that were fixed beforehand.

    Guarantee:
        Each event costs at least what its request does. A loss with some odds and least probability is at most that of
        randomized response on k classes, k being the largest integer with at least that probability, and the share of
        uniform labels is rounded down; a request with a known rho is an event of that rho. Events are listed one by
        one, since accountants differ in their treatment of counts.

    References:
        Zhu, Dong and Wang 2022, theorem 10, for pairs that bound others.

    Example:
        >>> from labeldp import Charge, Guarantee, dp_events
        >>> from labeldp.privacy.accounting import Composition, RowRanges
        >>> from labeldp.privacy.channels import ResponseChannel
        >>> channel = ResponseChannel.at(10, 1.0)
        >>> charge = Charge(Guarantee(channel.epsilon), RowRanges.all(1000))
        >>> (event,) = dp_events(Composition.of([(charge, channel)] * 3))
        >>> [each.num_buckets for each in event.events]
        [10, 10, 10]

    Raises:
        InputError: A request has a delta and no rho, which these events cannot express.
        MissingExtraError: dp_accounting is not installed.
    """
    try:
        from dp_accounting import dp_event  # noqa: PLC0415 (it is no dependency)
    except ModuleNotFoundError as missing:
        raise MissingExtraError(
            f"expected {missing.name} to be installed, found none; pip install dp-accounting"
        ) from None

    def event(loss: PrivacyLoss | ConcentratedLoss) -> Any:
        if isinstance(loss, ConcentratedLoss):
            return dp_event.ZCDpEvent(float_above(loss.rho))
        share, classes = _response(loss)
        return dp_event.RandomizedResponseDpEvent(share, classes)

    sets = together(composition.charges)
    return [dp_event.ComposedDpEvent([event(composition.losses[place]) for place in places]) for places in sets]


def _response(loss: PrivacyLoss) -> tuple[float, int]:
    """The share of uniform labels, and the number of classes, of a randomized response that costs at least as much.

    On k classes its least probability is ``1 / (odds + k - 1)`` and its share of uniform labels k times that.
    """
    if loss.failure:
        raise InputError("expected requests without a delta, or with a rho, found one that dp_accounting cannot state")
    if not loss.least:
        return 1.0, 2
    classes = math.floor(1 / loss.least - loss.odds + 1)
    share = Fraction(classes) / (loss.odds + classes - 1)
    below = float(share)
    return below if Fraction(below) <= share else math.nextafter(below, 0.0), classes
