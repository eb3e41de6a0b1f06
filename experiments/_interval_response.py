"""RPWithPrior of Liu and Huang 2026, written anew: a response on an interval that a prior chooses, on the line.

A label is clipped to an interval [low, high]. The response has the density ``exp(epsilon) rate`` within ``reach`` of
the clipped label and ``rate`` elsewhere in [low - reach, high + reach], so any two labels differ by a factor of
exp(epsilon) at most. The interval maximizes the prior probability that a response is within reach of its label. Numbers
are drawn in floats, for comparison alone: do not release them.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Histogram:
    """A prior over the line: the probability of each bin, which is spread evenly over the bin.

    Attributes:
        edges: Increasing edges of the bins, shape (k + 1,).
        masses: Probabilities of the bins, shape (k,).
    """

    edges: np.ndarray
    masses: np.ndarray

    @property
    def below(self) -> np.ndarray:
        """The probability below each edge, shape (k + 1,)."""
        return np.append(0.0, np.cumsum(self.masses))


@dataclass(frozen=True)
class IntervalResponse:
    """The response.

    Attributes:
        low: Lower end of the interval.
        high: Upper end.
        reach: Largest distance from the clipped label at which a response is likelier.
        epsilon: Natural logarithm of the ratio of the two densities.
    """

    low: float
    high: float
    reach: float
    epsilon: float

    @property
    def rate(self) -> float:
        """The density away from the label: densities sum to one over the interval and its margins."""
        return 1.0 / (2.0 * self.reach * math.exp(self.epsilon) + self.high - self.low)

    def density(self, number: np.ndarray, label: np.ndarray) -> np.ndarray:
        """The density of a response, given a label."""
        near = np.abs(number - np.clip(label, self.low, self.high)) <= self.reach
        inside = (number >= self.low - self.reach) & (number <= self.high + self.reach)
        return self.rate * np.where(near, math.exp(self.epsilon), 1.0) * inside

    def draw(self, labels: np.ndarray, chance: np.random.Generator) -> np.ndarray:
        """A response for each label: the inverse of its distribution function at an even number."""
        clipped = np.clip(labels, self.low, self.high)
        even, tall = chance.random(len(clipped)) / self.rate, math.exp(self.epsilon)
        left, window = clipped - self.low, 2.0 * self.reach * tall
        place = np.where(even < left, even, left + np.minimum(even - left, window) / tall)
        return self.low - self.reach + place + np.maximum(even - left - window, 0.0)


def best_interval(prior: Histogram, reach: float, epsilon: float) -> IntervalResponse:
    """The interval of the largest probability, under the prior, that a response is within reach of its label.

    That is ``P(low <= label <= high) / (2 reach + exp(-epsilon) (high - low))`` up to a factor. While either end moves
    in one bin it is a quotient of two linear functions, which has no maximum inside: the best ends are edges. A reach
    of more than half the interval is cut to that, and the interval is chosen again.
    """
    first, last = np.triu_indices(len(prior.edges), 1)
    widths, masses = (each[last] - each[first] for each in (prior.edges, prior.below))
    while True:
        best = int(np.argmax(masses / (2.0 * reach + math.exp(-epsilon) * widths)))
        if widths[best] >= 2.0 * reach * (1.0 - 1e-12):
            return IntervalResponse(float(prior.edges[first[best]]), float(prior.edges[last[best]]), reach, epsilon)
        reach = float(widths[best]) / 2.0


def noisy_numbers(labels: np.ndarray, width: float, epsilon: float, chance: np.random.Generator) -> np.ndarray:
    """Each label, of a range of this width, with Laplace noise of the scale of that width over epsilon."""
    return labels + chance.laplace(scale=width / epsilon, size=len(labels))


def prior_of(numbers: np.ndarray) -> Histogram:
    """A histogram of noisy numbers: bins of one standard deviation, from the mean to the least and the largest."""
    mean, deviation = float(numbers.mean()), float(numbers.std())
    first = math.floor((numbers.min() - mean) / deviation)
    last = math.ceil((numbers.max() - mean) / deviation)
    inner = mean + deviation * np.arange(first + 1, last)
    edges = np.concatenate([[numbers.min()], inner, [numbers.max()]])
    return Histogram(edges, np.histogram(numbers, edges)[0] / len(numbers))
