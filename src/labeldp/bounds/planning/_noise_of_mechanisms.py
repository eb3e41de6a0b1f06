"""Mechanisms that a forecast compares: how much noise each has, from its integers."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.mechanisms.queries import NoisyArgmax, NoisyHistogram, NoisyMean, Query, noise_deviation, sum_deviation
from labeldp.mechanisms.randomizers import (
    BitResponse,
    ClassRandomizer,
    LaplaceResponse,
    OneBitResponse,
    OptimalResponse,
    PiecewiseResponse,
    RandomizedResponse,
    Randomizer,
    SubsetResponse,
    best_number_response,
)
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import pair_share

#: What ``release`` takes if no mechanism is named.
AUTO = "auto"


@dataclass(frozen=True)
class Noise:
    """What a mechanism adds at one epsilon.

    Attributes:
        mechanism: Its name.
        certified: The epsilon of its integers, never larger than what was asked for.
        each: The variance of the noise on one row's number, or on the difference of two classes.
        total: The same of noise that is drawn once for each cell, on its sum.
    """

    mechanism: str
    certified: float
    each: float = 0.0
    total: float = 0.0


#: What says the noise of a mechanism for a label space at an epsilon.
Maker = Callable[[LabelSpace, float], Noise]


def noises(space: LabelSpace, trust: str, epsilon: float, *, roughly: bool = False) -> Iterator[Noise]:
    """The noise of every mechanism that fits, but of those that cannot express the epsilon.

    Args:
        space: Classes, or an interval.
        trust: ``"local"`` or ``"central"``.
        epsilon: What each label may cost.
        roughly: Whether what takes a search may be searched for on a few points of the range and at a few epsilons,
            once for all questions: its variance is within a few hundredths of that on the whole grid up to epsilon 4,
            and beyond there is hardly any.
    """
    makers = _MAKERS[trust, isinstance(space, Interval)]
    for maker in (_ROUGH.get(each, each) for each in makers) if roughly else makers:
        try:
            yield maker(space, epsilon)
        except EpsilonError:
            continue


def _of_numbers(make: Callable[[Any, float], Randomizer]) -> Maker:
    """Of a randomizer whose numbers are averaged: the mean square over the grid, a bias included."""

    def noise(space: LabelSpace, epsilon: float) -> Noise:
        randomizer = make(space, epsilon)
        channel = randomizer.channel()
        (law,) = channel.number_laws()
        squares = law.variance + (law.mean - np.arange(space.size)) ** 2
        return Noise(randomizer.name, channel.epsilon, each=float(np.mean(squares)) * _step(space) ** 2)

    return noise


def _searched(name: str, make: Callable[[Any, float], Randomizer]) -> tuple[Maker, Maker]:
    """Of a randomizer that a search finds: at its own epsilon and grid, and between few of both."""
    found = _of_numbers(make)

    def exact(space: LabelSpace, epsilon: float) -> Noise:
        return dataclasses.replace(found(space, epsilon), mechanism=name)

    def rough(space: LabelSpace, epsilon: float) -> Noise:
        if not _SOLVED[0] <= epsilon <= _SOLVED[-1]:
            return exact(space, epsilon)
        few = Interval(0, min(space.size, _FEW) - 1, 1)
        scale = _step(space) * (space.size - 1) / (few.size - 1)
        closed = _least_closed(few, epsilon)
        return dataclasses.replace(closed, mechanism=name, each=closed.each * _share(make, few, epsilon) * scale**2)

    return exact, rough


def _share(make: Callable[[Any, float], Randomizer], space: Interval, epsilon: float) -> float:
    """Its variance as a share of the least in closed form, which changes little between two of a few epsilons."""
    below, above = _SOLVED[bisect_right(_SOLVED, epsilon) - 1], _SOLVED[bisect_left(_SOLVED, epsilon)]
    shares = [_solved_share(make, space, each) for each in (below, above)]
    return float(np.interp(np.log(epsilon), np.log([below, above]), shares))


@lru_cache(maxsize=256)
def _solved_share(make: Callable[[Any, float], Randomizer], space: Interval, epsilon: float) -> float:
    return _of_numbers(make)(space, epsilon).each / _least_closed(space, epsilon).each


def _least_closed(space: Interval, epsilon: float) -> Noise:
    return min((_of_numbers(make)(space, epsilon) for make in _STARTS), key=lambda noise: noise.each)


def _of_classes(make: Callable[[LabelSpace, float], ClassRandomizer]) -> Maker:
    """Of released classes or sets: a row is worth a share of a clean one, whose variance is 1."""

    def noise(space: LabelSpace, epsilon: float) -> Noise:
        randomizer = make(space, epsilon)
        channel = randomizer.channel()
        return Noise(randomizer.name, channel.epsilon, each=1 / float(pair_share(channel.membership)) - 1)

    return noise


def _argmax(space: LabelSpace, epsilon: float) -> Noise:
    """Permute-and-flip is the largest of counts with exponential noise, whose differences are Laplace (Ding 2021)."""
    law = (query := NoisyArgmax(space, epsilon)).law(1)
    return Noise(query.name, _promised(query), total=2 * (int(law["parts"]) / int(law["rate"])) ** 2)


def _counts(space: LabelSpace, epsilon: float) -> Noise:
    """The difference of two counts."""
    query = NoisyHistogram(space, epsilon)
    return Noise(query.name, _promised(query), total=2 * noise_deviation(query.law(1)) ** 2)


def _mean(space: LabelSpace, epsilon: float) -> Noise:
    query = NoisyMean(space, epsilon)
    return Noise(query.name, _promised(query), total=sum_deviation(query.law(1), space) ** 2)


def _counted_mean(space: LabelSpace, epsilon: float) -> Noise:
    """The mean of a histogram: noise on each count, weighted by how far the grid point is from the middle."""
    query, points = NoisyHistogram(space, epsilon), np.asarray(space.points, dtype=np.float64)
    weight = float(np.sum((points - points.mean()) ** 2))
    return Noise(query.name, _promised(query), total=weight * noise_deviation(query.law(1)) ** 2)


def _promised(query: Query) -> float:
    return query.promise(1).epsilon


def _step(space: LabelSpace) -> float:
    return float(space.points[-1] - space.points[0]) / (space.size - 1)


#: How many points are few, and the epsilons that are solved: beyond them closed forms are taken without a search.
_FEW = 11
_SOLVED = (0.1, 0.25, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 2.8, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0)
#: Laws in closed form: those that a search starts from, and all that are compared.
_STARTS = (LaplaceResponse, OneBitResponse, PiecewiseResponse)
_CLOSED = (*_STARTS, RandomizedResponse)
#: Those that take a search: the least mean variance, and what ``release`` takes, the least largest variance.
_SEARCHED = (_searched(OptimalResponse.name, OptimalResponse), _searched(AUTO, best_number_response))
_ROUGH: dict[Maker, Maker] = dict(_SEARCHED)
#: By who is trusted, and whether labels are numbers.
_MAKERS: dict[tuple[str, bool], tuple[Maker, ...]] = {
    ("local", True): (*(_of_numbers(make) for make in _CLOSED), *_ROUGH),
    ("local", False): tuple(_of_classes(make) for make in (RandomizedResponse, SubsetResponse, BitResponse)),
    ("central", True): (_mean, _counted_mean),
    ("central", False): (_argmax, _counts),
}
