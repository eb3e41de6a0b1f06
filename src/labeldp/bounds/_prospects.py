"""Mechanisms that a forecast compares: how much noise each has, from its integers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.mechanisms import (
    LaplaceResponse,
    NoisyArgmax,
    NoisyHistogram,
    NoisyMean,
    OneBitResponse,
    PiecewiseResponse,
    Query,
    RandomizedResponse,
    Randomizer,
    best_response,
    noise_deviation,
    sum_deviation,
)
from labeldp.privacy import Interval, LabelSpace, pair_share


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


def noises(space: LabelSpace, trust: str, epsilon: float) -> Iterator[Noise]:
    """The noise of every mechanism that fits, but of those that cannot express the epsilon."""
    for maker in _MAKERS[trust, isinstance(space, Interval)]:
        try:
            yield maker(space, epsilon)
        except EpsilonError:
            continue


def _of_numbers(make: Callable[[LabelSpace, float], Randomizer]) -> Callable[[LabelSpace, float], Noise]:
    """Of a randomizer whose numbers are averaged: the mean square over the grid, a bias included."""

    def noise(space: LabelSpace, epsilon: float) -> Noise:
        randomizer = make(space, epsilon)
        channel = randomizer.channel()
        (law,) = channel.number_laws()
        squares = law.variance + (law.mean - np.arange(space.size)) ** 2
        return Noise(randomizer.name, channel.epsilon, each=float(np.mean(squares)) * _step(space) ** 2)

    return noise


def _of_classes(space: LabelSpace, epsilon: float) -> Noise:
    """Of released classes or sets: a row is worth a share of a clean one, whose variance is 1."""
    randomizer = best_response(space, epsilon)
    channel = randomizer.channel()
    return Noise(randomizer.name, channel.epsilon, each=1 / float(pair_share(channel.membership)) - 1)


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


_LOCAL_NUMBERS = (LaplaceResponse, OneBitResponse, PiecewiseResponse, RandomizedResponse)
#: By who is trusted, and whether labels are numbers.
_MAKERS: dict[tuple[str, bool], tuple[Callable[[LabelSpace, float], Noise], ...]] = {
    ("local", True): tuple(_of_numbers(make) for make in _LOCAL_NUMBERS),
    ("local", False): (_of_classes,),
    ("central", True): (_mean, _counted_mean),
    ("central", False): (_argmax, _counts),
}
