"""Noise of the mechanisms that a forecast compares, from their integers."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.mechanisms.queries import QUERIES
from labeldp.mechanisms.randomizers import (
    ClassRandomizer,
    NumberRandomizer,
    RandomizedResponse,
    Randomizer,
    best_number_response,
    class_randomizers,
    number_randomizers,
)
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import pair_share

#: The default mechanism of ``release``.
AUTO = "auto"


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


#: Computes the noise of a mechanism for a label space at an epsilon.
NoiseFunction = Callable[[LabelSpace, float], Noise]


def mechanism_noises(space: LabelSpace, trust: str, epsilon: float, *, roughly: bool = False) -> Iterator[Noise]:
    """Yield the noise of every applicable mechanism, except those that cannot express the epsilon.

    Args:
        space: Classes, or an interval.
        trust: ``"local"`` or ``"central"``.
        epsilon: The epsilon of each label.
        roughly: If True, a mechanism found by a search is searched for on a few grid points and at a few epsilons, once
            for all calls: its variance is within a few hundredths of that on the whole grid up to epsilon 4, and beyond
            there is hardly any.
    """
    if trust == "central":
        yield from _query_noises(space, epsilon)
        return
    for functions in _local_functions(isinstance(space, Interval)):
        with suppress(EpsilonError):
            yield functions[-1 if roughly else 0](space, epsilon)


def _number_noise(make: Callable[[Any, float], Randomizer]) -> NoiseFunction:
    """Noise of a randomizer whose numbers are averaged: the mean square over the grid, bias included."""

    def noise(space: LabelSpace, epsilon: float) -> Noise:
        randomizer = make(space, epsilon)
        channel = randomizer.channel()
        (law,) = channel.number_laws()
        squares = law.variance + (law.mean - np.arange(space.size)) ** 2
        return Noise(randomizer.name, channel.epsilon, each=float(np.mean(squares)) * _step(space) ** 2)

    return noise


def _search_noise(name: str, make: Callable[[Any, float], Randomizer]) -> tuple[NoiseFunction, NoiseFunction]:
    """Noise of a randomizer found by a search: exact, and interpolated between a few epsilons on a small grid."""
    noise_of = _number_noise(make)

    def exact(space: LabelSpace, epsilon: float) -> Noise:
        return dataclasses.replace(noise_of(space, epsilon), mechanism=name)

    def rough(space: LabelSpace, epsilon: float) -> Noise:
        if not _SOLVED[0] <= epsilon <= _SOLVED[-1]:
            return exact(space, epsilon)
        few = Interval(0, min(space.size, _FEW) - 1, 1)
        scale = _step(space) * (space.size - 1) / (few.size - 1)
        closed = _least_closed(few, epsilon)
        return dataclasses.replace(
            closed, mechanism=name, each=closed.each * _interpolated_share(make, few, epsilon) * scale**2
        )

    return exact, rough


def _interpolated_share(make: Callable[[Any, float], Randomizer], space: Interval, epsilon: float) -> float:
    """Its variance as a share of the least in closed form, interpolated between a few epsilons."""
    below, above = _SOLVED[bisect_right(_SOLVED, epsilon) - 1], _SOLVED[bisect_left(_SOLVED, epsilon)]
    shares = [_solved_share(make, space, each) for each in (below, above)]
    return float(np.interp(np.log(epsilon), np.log([below, above]), shares))


@lru_cache(maxsize=256)
def _solved_share(make: Callable[[Any, float], Randomizer], space: Interval, epsilon: float) -> float:
    return _number_noise(make)(space, epsilon).each / _least_closed(space, epsilon).each


def _least_closed(space: Interval, epsilon: float) -> Noise:
    return min((_number_noise(make)(space, epsilon) for make in _closed()), key=lambda noise: noise.each)


def _closed() -> list[type[NumberRandomizer]]:
    """The randomizers of numbers in closed form."""
    return [kind for kind in number_randomizers() if not kind.searched]


def _class_noise(make: Callable[[LabelSpace, float], ClassRandomizer]) -> NoiseFunction:
    """Noise of released classes or sets: a row counts as a share of one without noise, whose variance is 1."""

    def noise(space: LabelSpace, epsilon: float) -> Noise:
        randomizer = make(space, epsilon)
        channel = randomizer.channel()
        return Noise(randomizer.name, channel.epsilon, each=1 / float(pair_share(channel.membership)) - 1)

    return noise


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


@lru_cache
def _local_functions(numeric: bool) -> tuple[tuple[NoiseFunction, ...], ...]:
    """The local mechanisms that a label space and an epsilon determine, each exact and, if it is searched, roughly.

    Those found by a search are last: among them the default of ``release``, the least worst-case variance.
    """
    if not numeric:
        return tuple((_class_noise(kind),) for kind in class_randomizers())
    return (
        *((_number_noise(kind),) for kind in _closed()),
        (_number_noise(RandomizedResponse),),
        *(_search_noise(kind.name, kind) for kind in number_randomizers() if kind.searched),
        _search_noise(AUTO, best_number_response),
    )
