"""Randomized response over bins of a range: the least mean squared error of a released number, under a prior."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.mechanisms.randomizers._optimal import PRIOR_DECLARED, checked_distribution
from labeldp.mechanisms.randomizers._randomizer import NumberRandomizer, kept
from labeldp.privacy import Interval
from labeldp.privacy.channels import PARTS, BinChannel, bin_channel

#: The largest number of blocks of grid points that bins are made of.
_BLOCKS = 1024
#: The largest number of rounds of Dinkelbach's method; it converges in fewer than ten in practice.
_ROUNDS = 100
#: A smaller relative improvement than this is rounding error.
_GAIN = 1e-14


@dataclass(frozen=True, eq=False)
class BinResponse(NumberRandomizer):
    """Randomized response over bins of neighbouring grid points: the least mean squared error, at the price of a bias.

    Of all epsilon-DP randomizers it has the least expected squared difference of the released number and the label, for
    labels that follow the prior. Released numbers are shrunk towards the prior's mean: if means matter, as in training
    by squared error, use ``OptimalResponse``, or the likelihood of released labels.

    Args:
        space: The declared range and its grid.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        prior: Public probabilities of the k grid points, shape (k,).

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``.
        * Neighbours differ in the label of one row; features and the prior are public, and the prior was not
          computed from these labels.

    References:
        Ghazi et al. 2023, Algorithm 2 and Theorem 2.

    Example:
        >>> from labeldp import Interval
        >>> from labeldp import BinResponse
        >>> channel = BinResponse(Interval(0, 4, 1), 2.0, [0.2, 0.2, 0.2, 0.2, 0.2]).channel()
        >>> channel.starts, channel.steps[0].round(3).tolist()
        ((0, 2, 3), [0.922, 2.0, 3.078])

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        LabelError: The space is not an interval.
        PriorError: The prior is not a distribution of the grid points.
    """

    prior: Float[np.ndarray, "k"] = field(repr=False)

    name: ClassVar[str] = "bins"
    draws_from: ClassVar[type[BinChannel]] = BinChannel
    about: ClassVar[str] = "RR-on-Bins: randomized response over bins, of least squared error under a prior; biased"
    declared: ClassVar[tuple[str, ...]] = (PRIOR_DECLARED,)

    def __post_init__(self) -> None:
        if isinstance(self.space, Interval):
            object.__setattr__(self, "prior", checked_distribution(self.prior, self.space.size))
        super().__post_init__()

    @kept
    def channel(self) -> BinChannel:
        """The channel from the true label to the released number."""
        starts, numbers = best_bins(self.prior, self.epsilon)
        values: list[int] = []
        for number in numbers.tolist():
            values.append(max(round(number * PARTS), values[-1] + 1 if values else 0))
        return bin_channel(self.space.size, starts.tolist(), values, self.epsilon)


def best_bins(
    prior: Float[np.ndarray, "k"], epsilon: float
) -> tuple[Int[np.ndarray, "bins"], Float[np.ndarray, "bins"]]:
    """The first grid point and the number, in grid steps, of each bin, for the least expected squared error.

    With ``r = exp(-epsilon)``, a bin B with the number o has the expected error ``sum_j w_j (j - o)**2`` up to a
    factor, where ``w_j = p_j`` in B and ``r p_j`` elsewhere; the best o is the mean under w, and the error L(B) is then
    the variance. Over m bins the error is ``sum L(B) / (1 + (m - 1) r)``. Dinkelbach's method minimises this ratio: at
    a ratio x that some bins attain, take the bins of the least ``sum (L(B) - x r)``; their ratio is at most x, and if
    it is x, it is minimal. Dynamic programming over bin ends gives the best bins at x.
    """
    moments, edges = _block_moments(prior)
    rest = math.exp(-epsilon)
    first, ratio = np.zeros(1, dtype=np.int64), math.inf
    for _ in range(_ROUNDS):
        errors = _bin_errors(moments, first, np.append(first[1:], len(edges) - 1), rest)[0]
        value = float(errors.sum()) / (1 + (len(first) - 1) * rest)
        if not value < ratio * (1 - _GAIN):
            break
        best, ratio = first, value
        first = _least_sum(moments, ratio * rest, rest)
    numbers = _bin_errors(moments, best, np.append(best[1:], len(edges) - 1), rest)[1]
    return edges[best], numbers * max(1, len(prior) - 1)


def _block_moments(prior: Float[np.ndarray, "k"]) -> tuple[Float[np.ndarray, "3 edges"], Int[np.ndarray, "edges"]]:
    """Cumulative sums of p, p x and p x**2 at each edge of blocks of grid points, x from 0 to 1; and the edges."""
    points = np.linspace(0.0, 1.0, len(prior))
    edges = np.unique(np.linspace(0, len(prior), min(len(prior), _BLOCKS) + 1).round().astype(np.int64))
    sums = np.cumsum([prior, prior * points, prior * points**2], axis=1)
    return np.concatenate([np.zeros((3, 1)), sums], axis=1)[:, edges], edges


def _bin_errors(
    moments: Float[np.ndarray, "3 edges"], first: Int[np.ndarray, "b"], last: Int[np.ndarray, "b"], rest: float
) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "b"]]:
    """The errors and the numbers of bins between two edges each."""
    mass, line, square = rest * moments[:, -1:] + (1 - rest) * (moments[:, last] - moments[:, first])
    numbers = line / mass
    return np.maximum(square - line * numbers, 0.0), numbers


def _least_sum(moments: Float[np.ndarray, "3 edges"], credit: float, rest: float) -> Int[np.ndarray, "bins"]:
    """The first edges of the bins that minimise the sum of errors less a credit per bin."""
    ends = moments.shape[1]
    least, come_from = np.zeros(ends), np.zeros(ends, dtype=np.int64)
    for end in range(1, ends):
        sums = least[:end] + _bin_errors(moments, np.arange(end), np.full(end, end), rest)[0]
        come_from[end] = np.argmin(sums)
        least[end] = sums[come_from[end]] - credit
    starts = [ends - 1]
    while starts[-1]:
        starts.append(int(come_from[starts[-1]]))
    return np.array(starts[:0:-1], dtype=np.int64)
