"""Conversion of compositions to events of the library dp_accounting."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from labeldp.errors import InputError, MissingExtraError
from labeldp.privacy._rounding import float_above
from labeldp.privacy.accounting._account import together
from labeldp.privacy.accounting._composition import Composition, PrivacyLoss
from labeldp.privacy.accounting._concentrated import ConcentratedLoss


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
