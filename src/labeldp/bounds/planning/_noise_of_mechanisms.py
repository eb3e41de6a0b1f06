"""Noise of the mechanisms that a forecast compares, from their integers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labeldp._shapes import Float
from labeldp.errors import EpsilonError
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers import (
    ClassRandomizer,
    RandomizedResponse,
    Randomizer,
    best_number_response,
    best_response,
    class_randomizers,
    number_randomizers,
    projected,
)
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import Channel, pair_share


@dataclass(frozen=True)
class Noise:
    """Noise of a mechanism at one epsilon.

    Attributes:
        mechanism: Name of the mechanism.
        certified: The epsilon of its integers, never larger than the one requested.
        each: Variance of the noise on one row's number, or on the difference of two classes.
        total: Variance of the noise drawn once for each cell, on its sum.
    """

    mechanism: str
    certified: float
    each: float = 0.0
    total: float = 0.0


#: Probabilities of grid points; None if labels are uniform.
Shares = tuple[float, ...] | None


def mechanism_noises(
    space: LabelSpace, trust: str, epsilon: float, shares: Shares = None, *, roughly: bool = False
) -> Iterator[Noise]:
    """Yield the noise of every applicable mechanism, except those that cannot express the epsilon.

    The local ones are those that ``release`` runs under the same name, from their own channels.

    Args:
        space: Classes, or an interval.
        trust: ``"local"`` or ``"central"``.
        epsilon: The epsilon of each label.
        shares: Probabilities of grid points, over which the noise on numbers is averaged; uniform by default.
        roughly: If True, a mechanism found by a search is searched for on a few grid points and at a few epsilons, once
            for all calls: its variance is within a few hundredths of that on the whole grid up to epsilon 4, and beyond
            there is hardly any.
    """
    if trust == "central":
        yield from _query_noises(space, epsilon)
    elif isinstance(space, Interval):
        weights = np.full(space.size, 1 / space.size) if shares is None else np.array(shares)
        for kind in number_randomizers():
            with suppress(EpsilonError):
                yield (_rough_noise if roughly and kind.searched else _number_noise)(kind, space, epsilon, weights)
        with suppress(EpsilonError):
            yield _number_noise(RandomizedResponse, space, epsilon, weights)
    else:
        for each in class_randomizers():
            with suppress(EpsilonError):
                yield _class_noise(each, space, epsilon)


def auto_name(space: LabelSpace, epsilon: float) -> str:
    """The name of the mechanism that ``release`` takes by default; empty if none can express the epsilon."""
    try:
        best = best_number_response(space, epsilon) if isinstance(space, Interval) else best_response(space, epsilon)
    except EpsilonError:
        return ""
    return best.name


def _number_noise(kind: type[Randomizer], space: Interval, epsilon: float, weights: np.ndarray) -> Noise:
    """Noise of a randomizer whose numbers are averaged: the mean square over labels, bias included."""
    randomizer = kind(space, epsilon)
    each = float(weights @ _squares(randomizer.channel())) * _step(space) ** 2
    return Noise(randomizer.name, randomizer.channel().epsilon, each=each)


def _squares(channel: Channel) -> Float[np.ndarray, "k"]:
    """The mean squared error of a released number for each grid point, in squared steps."""
    (law,) = channel.number_laws()
    return np.asarray(law.variance + (law.mean - np.arange(channel.classes)) ** 2)


def _rough_noise(kind: type[Randomizer], space: Interval, epsilon: float, weights: np.ndarray) -> Noise:
    """Noise of a randomizer found by a search, interpolated between a few epsilons on a small grid.

    What is interpolated is its share of the least noise in closed form.
    """
    if not _SOLVED[0] <= epsilon <= _SOLVED[-1]:
        return _number_noise(kind, space, epsilon, weights)
    few = Interval(0, min(space.size, _FEW) - 1, 1)
    on_few = projected(weights, few.size - 1)
    scale = _step(space) * (space.size - 1) / (few.size - 1)
    below, above = _SOLVED[bisect_right(_SOLVED, epsilon) - 1], _SOLVED[bisect_left(_SOLVED, epsilon)]
    solved = [float(on_few @ _solved_squares(kind, few, each)) for each in (below, above)]
    shares = np.array(solved) / [_least_closed(few, each, on_few).each for each in (below, above)]
    least = _least_closed(few, epsilon, on_few)
    share = float(np.interp(np.log(epsilon), np.log([below, above]), shares))
    return Noise(kind.name, least.certified, each=least.each * share * scale**2)


@lru_cache(maxsize=256)
def _solved_squares(kind: type[Randomizer], space: Interval, epsilon: float) -> Float[np.ndarray, "k"]:
    return _squares(kind(space, epsilon).channel())


def _least_closed(space: Interval, epsilon: float, weights: np.ndarray) -> Noise:
    """The least noise of a randomizer in closed form."""
    closed = (kind for kind in number_randomizers() if not kind.searched)
    return min((_number_noise(kind, space, epsilon, weights) for kind in closed), key=lambda noise: noise.each)


def _class_noise(kind: type[ClassRandomizer], space: LabelSpace, epsilon: float) -> Noise:
    """Noise of released classes or sets: a row counts as a share of one without noise, whose variance is 1."""
    channel = kind(space, epsilon).channel()
    return Noise(kind.name, channel.epsilon, each=1 / float(pair_share(channel.membership)) - 1)


def _query_noises(space: LabelSpace, epsilon: float) -> Iterator[Noise]:
    """Noise that is drawn once for each cell, of every query that forecasts it for such labels."""
    for query in QUERIES.every():
        with suppress(EpsilonError):
            forecast = query.forecast(space, epsilon)
            if forecast is not None:
                yield Noise(query.name, forecast[0], total=forecast[1])


def _step(space: LabelSpace) -> float:
    return float(space.points[-1] - space.points[0]) / (space.size - 1)


#: Size of the small grid, and the epsilons solved on it: outside their range the search runs at the epsilon itself.
_FEW = 11
_SOLVED = (0.1, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 2.8, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
