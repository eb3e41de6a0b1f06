"""Noise of the mechanisms that a forecast compares, from their integers."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from labeldp._shapes import Float
from labeldp.bounds.planning._conventions import UnitSizes
from labeldp.errors import EpsilonError
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers import (
    ClassRandomizer,
    RandomizedResponse,
    Randomizer,
    best_randomizer,
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
        alike: Of rows of units of several sizes, whose ``each`` is that of weighted rows: the mean variance of a row.
    """

    mechanism: str
    certified: float
    each: float = 0.0
    total: float = 0.0
    alike: float | None = None


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


def noises_of_units(
    space: LabelSpace, trust: str, epsilon: float, units: UnitSizes, variance: float, shares: Shares = None
) -> Iterator[Noise]:
    """Yield the noise of every mechanism whose epsilon covers all rows of a unit, as one number for all rows.

    In the local model a row of a unit of m rows has an m-th of epsilon. An estimate that weights rows by their
    precision has the error of as many rows with the harmonic mean of ``variance`` and noise together (Gauss-Markov);
    mechanisms that are found by a search are interpolated. A curator's sums change by up to the most rows of a unit.

    Args:
        space: Classes, or an interval.
        trust: ``"local"`` or ``"central"``.
        epsilon: The epsilon of each unit.
        units: The rows by the size of their unit.
        variance: The variance of a row without noise.
        shares: Probabilities of grid points.
    """
    if trust == "central":
        for noise in mechanism_noises(space, trust, epsilon / units.most):
            yield Noise(noise.mechanism, noise.certified * units.most, total=noise.total)
        return
    parts = [
        (share, size, {each.mechanism: each for each in mechanism_noises(space, trust, of_row, shares, roughly=True)})
        for share, size in units.shares()
        for of_row in [math.nextafter(epsilon / size, 0.0) if size > 1 else epsilon]
    ]
    for name in parts[0][2]:
        if all(name in noises for _, _, noises in parts):
            precision = sum(share / (variance + noises[name].each) for share, _, noises in parts)
            certified = max(noises[name].certified * size for _, size, noises in parts)
            each = max(0.0, 1 / precision - variance) if precision else math.inf
            alike = sum(share * noises[name].each for share, _, noises in parts)
            yield Noise(name, min(certified, epsilon), each=each, alike=alike)


def auto_name(space: LabelSpace, epsilon: float, most_rows: int | None = None, *, roughly: bool = False) -> str:
    """The name of the mechanism that ``release`` takes by default; empty if none can express the epsilon.

    Roughly, that of numbers is found on a few grid points.
    """
    few = Interval(0, min(space.size, _FEW) - 1, 1) if roughly and isinstance(space, Interval) else space
    try:
        return best_randomizer(few, epsilon, most_rows).name
    except EpsilonError:
        return ""


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

    What is interpolated is its share of the least noise in closed form, which is the same for all small epsilons: there
    both grow with the inverse square of epsilon.
    """
    if not epsilon <= _SOLVED[-1]:
        return _number_noise(kind, space, epsilon, weights)
    few = Interval(0, min(space.size, _FEW) - 1, 1)
    on_few = projected(weights, few.size - 1)
    scale = _step(space) * (space.size - 1) / (few.size - 1)
    below, above = _SOLVED[max(0, bisect_right(_SOLVED, epsilon) - 1)], _SOLVED[bisect_left(_SOLVED, epsilon)]
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
    row = float(pair_share(channel.membership))
    return Noise(kind.name, channel.epsilon, each=1 / row - 1 if row else math.inf)


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
