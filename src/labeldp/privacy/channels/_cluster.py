"""Cluster response: the true class, or one drawn from the public class distribution of the row's cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Float, Int, UInt64
from labeldp.privacy._rounding import log_above
from labeldp.privacy.channels._calibration import accept, bounds_resampled, cluster_weights, resampled_weights
from labeldp.privacy.channels._channel import Columns, Levels, Membership, TransitionTable
from labeldp.privacy.channels._class_channel import SingleClassChannel
from labeldp.privacy.channels._kernels import draw_cluster


@dataclass(frozen=True, eq=False)
class ClusterChannel(SingleClassChannel):
    """The true class with weight ``keep`` of the row's cluster, else a class by its weights there, out of ``2**bits``.

    The class that is drawn may be the true one, so it is released with ``keep`` plus its own weight.

    Attributes:
        keep: Weight of the true class, for each cluster.
        weights: Weights of all classes, for each cluster.
        clusters: The cluster of each row, a public number.

    References:
        Esfandiari et al. 2022, Algorithm 1, for fixed cluster distributions. The cost here is exact: the worst ratio is
        that of the class of the least weight, so the odds of a cluster are ``(keep + least) / least``.
    """

    keep: tuple[int, ...]
    weights: tuple[tuple[int, ...], ...]
    clusters: Int[np.ndarray, "n"]

    kind: ClassVar[str] = "cluster"
    words_per_row: ClassVar[int] = 1  # which decides everything
    even: ClassVar[bool] = False
    identifies: ClassVar[bool] = True
    of_rows: ClassVar[tuple[str, ...]] = ("membership",)

    def __post_init__(self) -> None:
        if len(self.keep) != len(self.weights) or not self.keep:
            raise ValueError("expected a weight of the true class for each cluster")
        keep, limits = self._numbers
        most = np.uint64(self.word - 1)
        # increasing sums above 0 have not overflowed 2**64, so W less the last one is exactly the required keep
        rising = limits[:, 0].all() and (limits[:, 1:] > limits[:, :-1]).all() and (limits[:, -1] <= most).all()
        if not (rising and keep.all() and (keep == most - limits[:, -1] + np.uint64(1)).all()):
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
        """The channel whose clusters all spend the requested epsilon, keeping the true class as often as possible."""
        pairs = [cluster_weights(line.tolist(), epsilon, bits) for line in distributions]
        keep, weights = tuple(keep for keep, _ in pairs), tuple(weights for _, weights in pairs)
        channel = cls(distributions.shape[1], keep, weights, clusters, bits=bits)
        accept(channel.odds, epsilon, bits)
        return channel

    @classmethod
    def redrawing(
        cls,
        distributions: Float[np.ndarray, "clusters k"],
        floor: float,
        redrawn: float,
        clusters: Int[np.ndarray, "n"],
        bits: int = 64,
    ) -> Self:
        """The channel that resamples a label with the same probability in all clusters, as in the paper.

        A last cluster without rows is declared, with the largest ``keep`` and the smallest weight that any distribution
        of that floor can have. So the odds do not depend on the distributions.
        """
        k = distributions.shape[1]
        most, least = bounds_resampled(k, floor, redrawn, bits)
        possible = most > 2 * k + (1 << bits >> 40)  # for sums that are rounded up, and a floor that is rounded down
        requested = log_above(1 + (1 / Fraction(redrawn) - 1) / Fraction(floor))
        accept(1 + Fraction(most, least) * possible, requested or math.ulp(0.0), bits)
        pairs = [resampled_weights(line.tolist(), floor, redrawn, bits) for line in distributions]
        pairs.append((most, ((1 << bits) - most - (k - 1) * least, *[least] * (k - 1))))
        keep, weights = tuple(keep for keep, _ in pairs), tuple(weights for _, weights in pairs)
        return cls(k, keep, weights, clusters, bits=bits)

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """The epsilon of each declared cluster, rounded up: ``log(1 + (1 - lambda) / (lambda q_min))``."""
        return tuple(log_above(odds) for odds, _ in self.losses)

    @cached_property
    def odds(self) -> Fraction:
        """The largest ``(keep + least) / least`` over all declared clusters."""
        return max(odds for odds, _ in self.losses)

    @property
    def shares(self) -> Float[np.ndarray, "n k"]:
        """The public class distribution of each row's cluster, from which labels are resampled."""
        resample = self._chances[1]
        return np.asarray((resample / resample.sum(axis=1, keepdims=True))[self.clusters])

    @property
    def detail(self) -> str:
        """One class."""
        return f"one of {self.classes} classes, by the shares of {len(self.keep):,} clusters"

    def columns(self) -> Columns:
        """Each class from itself, and from another one, in each cluster."""
        for number, (keep, weights) in enumerate(zip(self.keep, self.weights, strict=True)):
            for z, weight in enumerate(weights):
                yield f"class number {z} in cluster {number}, when it is the true class", (keep + weight, weight)

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """One pair for each declared cluster.

        With weight a for the true class and w_z for a resampled class, the hockey-stick divergence of y from y' at a
        factor x >= 1 is ``(a - (x - 1) w_y)+ / W``, and at x < 1 it follows from that of y' from y. So it is largest
        for the class of the least weight w, at every order, where it is that of (``1 + a / w``, ``w / W``).
        """
        pairs = zip(self.keep, map(min, self.weights), strict=True)
        return tuple((1 + Fraction(keep, weight), Fraction(weight, self.word)) for keep, weight in pairs)

    @cached_property
    def membership(self) -> Membership:
        """For each row, averaged over true classes distributed as in its cluster."""
        keep, resample = self._chances
        match = (resample**2).sum(axis=1) / resample.sum(axis=1)
        true, other, apart = keep + match, match, keep + 2 * match
        return Membership(true[self.clusters], other[self.clusters], apart[self.clusters])

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """From the weight of the class in the row's cluster."""
        keep, resample = self._chances
        other = resample[self.clusters, codes]
        return other + keep[self.clusters], other

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released class codes."""
        draw_cluster(codes, words, self.clusters, *self._numbers, out)

    def levels(self, released: Int[np.ndarray, "n"]) -> Levels:
        """``1 + keep / weight`` for the released class."""
        keep, resample = self._chances
        high = 1.0 + keep[self.clusters] / resample[self.clusters, released]
        return Levels(self.mask(released), high)

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """``(one_hot(z) - resample) / keep``: subtracts the resampling probabilities; the entries sum to one."""
        codes = np.asarray(getattr(released, "codes", released))
        keep, resample = self._chances
        hit = codes[:, None] == np.arange(self.classes)
        return np.asarray((hit - resample[self.clusters]) / keep[self.clusters, None])

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2 n"]:
        """The worst true class is the least likely to be resampled; the entries of unbiased vectors sum to one.

        If one class z is released, with probabilities P, ``w = one_hot(z) / c + constant``, and for gradients of length
        1 the variance is ``(1 - |sum_j P_j g_j|^2) / c^2``. Such gradients can cancel up to the excess of the largest
        probability over the sum of all others, ``2 max_j P_j - 1``.
        """
        del projected
        keep, resample = self._chances
        least, most = resample.min(axis=1), resample.max(axis=1)
        over = np.maximum(2 * np.maximum(keep + least, most) - 1, 0.0)
        alike = (resample**2).sum(axis=1) + 2 * keep * least + keep**2
        return np.asarray((np.stack([1 - over**2, 1 - alike]) / keep**2)[:, self.clusters])

    def table(self, row: int = 0) -> TransitionTable:
        """Every class as an outcome."""
        keep, resample = self._chances
        cluster = int(self.clusters[row])
        matrix = np.tile(resample[cluster], (self.classes, 1)) + keep[cluster] * np.eye(self.classes)
        return TransitionTable(np.arange(self.classes, dtype=np.int32), matrix)

    @cached_property
    def _numbers(self) -> tuple[UInt64[np.ndarray, "clusters"], UInt64[np.ndarray, "clusters k"]]:
        """The weight of the true class, and the cumulative sums of all weights, in each cluster."""
        try:
            keep, weights = np.array(self.keep, dtype=np.uint64), np.array(self.weights, dtype=np.uint64)
        except (OverflowError, TypeError, ValueError):
            raise ValueError("expected weights of at least 1 that use every word once") from None
        if weights.shape != (len(self.keep), self.classes):
            raise ValueError(f"expected weights of {self.classes} classes in each cluster")
        return keep, np.cumsum(weights, axis=1, dtype=np.uint64)

    @cached_property
    def _chances(self) -> tuple[Float[np.ndarray, "clusters"], Float[np.ndarray, "clusters k"]]:
        """Probabilities to keep the true class, and to resample each class, in each cluster."""
        (keep, limits), word = self._numbers, 2.0**self.bits
        return keep / word, np.diff(limits, axis=1, prepend=np.uint64(0)) / word
