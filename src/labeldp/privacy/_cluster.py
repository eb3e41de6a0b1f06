"""Cluster response: the true class, or one drawn from the public class distribution of the row's cluster."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal, Self

import numpy as np
from jaxtyping import Bool, Float, Int, UInt64

from labeldp.privacy._calibration import accept, cluster_weights
from labeldp.privacy._channel import Channel, Levels, Membership, Table


@dataclass(frozen=True, eq=False)
class ClusterChannel(Channel):
    """The true class with weight ``keep`` of the row's cluster, else a class by its weights there, out of ``2**bits``.

    The class that is drawn may be the true one, so it is released with ``keep`` plus its own weight.

    Attributes:
        keep: Weight of the true class, for each cluster.
        weights: Weights of all classes, for each cluster.
        clusters: The cluster of each row, a public number.

    References:
        Esfandiari et al. 2022, Algorithm 1, for given cluster distributions. Its cost here is exact: the likeliest
        change is to the class of the least weight, so the odds of a cluster are ``(keep + least) / least``.
    """

    keep: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    clusters: Int[np.ndarray, "n"]

    kind: ClassVar[str] = "cluster"
    form: ClassVar[Literal["class", "set"]] = "class"
    even: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.keep) != len(self.weights) or not self.keep:
            raise ValueError("expected a weight of the true class for each cluster")
        for keep, weights in zip(self.keep, self.weights, strict=True):
            if len(weights) != self.classes or min(keep, *weights) < 1 or keep + sum(weights) != 1 << self.bits:
                raise ValueError("expected weights of at least 1 that use every word once")
        if self.clusters.size and not (self.clusters.min() >= 0 and self.clusters.max() < len(self.keep)):
            raise ValueError("expected cluster numbers that count the distributions from 0")

    @classmethod
    def at(
        cls,
        distributions: Float[np.ndarray, "clusters k"],
        epsilon: float,
        clusters: Int[np.ndarray, "n"],
        bits: int = 64,
    ) -> Self:
        """The channel whose every cluster spends the epsilon that was asked for, and keeps as much truth as it buys."""
        found = [cluster_weights(line.tolist(), epsilon, bits) for line in distributions]
        keep, weights = tuple(keep for keep, _ in found), tuple(weights for _, weights in found)
        channel = cls(distributions.shape[1], keep, weights, clusters, bits=bits)
        accept(channel.odds, epsilon, bits)
        return channel

    @cached_property
    def odds(self) -> Fraction:
        """The largest of ``(keep + least) / least`` over all clusters that were declared."""
        pairs = zip(self.keep, self.weights, strict=True)
        return max(1 + Fraction(keep, min(weights)) for keep, weights in pairs)

    @property
    def words_per_row(self) -> int:
        """One word decides everything."""
        return 1

    @cached_property
    def membership(self) -> Membership:
        """Of each row, where true classes are distributed as in its cluster."""
        kept, drawn = self._chances
        match = (drawn**2).sum(axis=1) / drawn.sum(axis=1)
        true, other, apart = kept + match, match, kept + 2 * match
        return Membership(true[self.clusters], other[self.clusters], apart[self.clusters])

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """By the weight of the class in the row's cluster."""
        kept, drawn = self._chances
        other = drawn[self.clusters, codes]
        return other + kept[self.clusters], other

    def draw(self, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> Int[np.ndarray, "n"]:
        """Released class codes."""
        from labeldp.privacy._kernels import draw_cluster  # noqa: PLC0415 (the compiler loads at the first draw)

        released = np.empty(codes.size, dtype=np.int32)
        limits = np.array([list(accumulate(weights)) for weights in self.weights], dtype=np.uint64)
        draw_cluster(codes, words, self.clusters, np.array(self.keep, dtype=np.uint64), limits, released)
        return released

    def levels(self, released: Int[np.ndarray, "n"]) -> Levels:
        """The released class at ``1 + keep / weight``."""
        kept, drawn = self._chances
        high = 1.0 + kept[self.clusters] / drawn[self.clusters, released]
        return Levels(released[:, None] == np.arange(self.classes), high)

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """``(one_hot(z) - drawn) / kept``: what was drawn from the cluster is taken off; the entries sum to one."""
        codes = np.asarray(getattr(released, "codes", released))
        kept, drawn = self._chances
        hit = codes[:, None] == np.arange(self.classes)
        return np.asarray((hit - drawn[self.clusters]) / kept[self.clusters, None])

    def possible(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Every class."""
        return (released >= 0) & (released < self.classes)

    def table(self, row: int = 0) -> Table:
        """Every class as an outcome."""
        kept, drawn = self._chances
        cluster = int(self.clusters[row])
        matrix = np.tile(drawn[cluster], (self.classes, 1)) + kept[cluster] * np.eye(self.classes)
        return Table(np.arange(self.classes, dtype=np.int32), matrix)

    @cached_property
    def _chances(self) -> tuple[Float[np.ndarray, "clusters"], Float[np.ndarray, "clusters k"]]:
        """Chances to keep, and to draw each class, in each cluster."""
        word = 1 << self.bits
        kept = np.array([float(Fraction(keep, word)) for keep in self.keep])
        return kept, np.array([[float(Fraction(w, word)) for w in weights] for weights in self.weights])
