"""Cluster response: each label kept, or replaced by one from its cluster's distribution."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float, Int

from labeldp.errors import InputError, PriorError
from labeldp.mechanisms._prior import checked_prior
from labeldp.mechanisms._queries import cell_numbers
from labeldp.mechanisms._randomizer import Randomizer
from labeldp.privacy import ClusterChannel, LabelSpace

#: The least probability of a class in a cluster's distribution, times the number of classes, by default.
_SHARE_OF_EVEN = 0.5


@dataclass(frozen=True, eq=False)
class ClusterResponse(Randomizer):
    """The response of Esfandiari et al.: the true class, or one drawn from the distribution of the row's cluster.

    The distributions are public: a noisy histogram that was paid for (``cluster_response`` does both), or released
    labels of other rows. The probability to draw is set for each cluster so that all of epsilon is used.

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0: of the response alone.
        distributions: Public probabilities of the classes in each cluster, shape (clusters, k).
        clusters: The number of each row's cluster, from 0, public.
        floor: The least probability that a class has in a cluster; the distributions are raised to it. By default half
            of ``1 / k``. With ``1 / k`` it is randomized response. With less, more released labels are right where
            clusters are good, and each says less about its row than its cluster does.

    Guarantee:
        * epsilon-label-DP of each label alone, with ``channel().epsilon <= epsilon``: in a cluster whose least
          probability is q, a label is redrawn with probability ``1 / (1 + (exp(epsilon) - 1) q)``.
        * Neighbours differ in the label of one row; features, clusters and distributions are public, and were not
          computed from these labels but through answers and releases that were charged for.

    References:
        Esfandiari et al. 2022, Algorithm 1, lines 16-28, Corollary 1 (``floor=1/k``) and Corollary 2.

    Example:
        >>> from labeldp import Classes, ClusterResponse
        >>> randomizer = ClusterResponse(Classes(["a", "b", "c"]), 1.0, [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], [0, 0, 1])
        >>> randomizer.channel().epsilon <= 1.0
        True

    Raises:
        EpsilonError: The epsilon is not a number above 0 that the integers of a word can express.
        PriorError: The distributions have another shape, or a row that is not a distribution.
        InputError: Clusters are not numbered by the rows of the distributions, or the floor is above ``1 / k``.
    """

    distributions: Float[np.ndarray, "clusters k"] = field(repr=False)
    clusters: Int[np.ndarray, "n"] = field(repr=False)
    floor: float | None = None

    name: ClassVar[str] = "cluster"

    def __post_init__(self) -> None:
        if isinstance(self.space, LabelSpace):
            k = self.space.size
            floor = _SHARE_OF_EVEN / k if self.floor is None else self.floor
            if isinstance(floor, bool) or not isinstance(floor, int | float) or not 0 < floor <= (1 + 1e-9) / k:
                raise InputError(f"expected a floor above 0 and at most 1/k = {1 / k:g}, found {floor!r}")
            checked = checked_prior(self.distributions, k)
            clusters = cell_numbers(self.clusters).astype(np.int32)
            if len(checked) == 0 or clusters.max() >= len(checked):
                raise PriorError(
                    f"expected a distribution for each cluster, found {len(checked)} and a cluster {clusters.max()}"
                )
            clusters.flags.writeable = False
            object.__setattr__(self, "floor", floor)
            object.__setattr__(self, "distributions", checked)
            object.__setattr__(self, "clusters", clusters)
        super().__post_init__()

    @classmethod
    def uniform(cls, space: LabelSpace, epsilon: float, clusters: object) -> Self:
        """UniformRR (Corollary 1): randomized response, whatever the clusters."""
        numbers = cell_numbers(clusters)
        return cls(
            space, epsilon, np.full((int(numbers.max()) + 1, space.size), 1 / space.size), numbers, 1 / space.size
        )

    @cached_property
    def _channel(self) -> ClusterChannel:
        k, floor = self.space.size, float(self.floor or 0.0)
        over = np.maximum(self.distributions - floor, 0.0)
        total = over.sum(axis=1, keepdims=True)
        shares = np.divide(over, total, out=np.full(over.shape, 1 / k), where=total > 0)
        return ClusterChannel.at(floor + (1 - k * floor) * shares, self.epsilon, self.clusters)

    def channel(self) -> ClusterChannel:
        """The law of each row's released class given the true one."""
        return self._channel

    @property
    def mass(self) -> np.ndarray:
        """Every class can be released."""
        return np.ones(())
