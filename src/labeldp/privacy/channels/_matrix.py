"""Channels of single classes that are not equally likely: of a matrix of probabilities, and of cluster response.

A matrix is for labels that were randomized elsewhere. Cluster response releases the true class, or one drawn from the
public class distribution of the row's cluster.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from labeldp._shapes import Float, Int, UInt64
from labeldp.errors import InputError
from labeldp.privacy._rounding import log_above
from labeldp.privacy.channels._calibration import accept, bounds_resampled, cluster_weights, resampled_weights
from labeldp.privacy.channels._channel import Columns, Levels, Membership, NumberLaw, TransitionTable, released_labels
from labeldp.privacy.channels._class_channel import SingleClassChannel
from labeldp.privacy.channels._kernels import draw_cluster

#: The most classes: a certificate has the square of them as integers.
MOST_CLASSES = 256
#: Largest distance of a sum of probabilities from 1, beyond what rounding of each explains.
_TOLERANCE = Fraction(1, 10**9)


@dataclass(frozen=True, eq=False)
class MatrixChannel(SingleClassChannel):
    """Each class for each true class with a weight of its own, out of ``2**bits``.

    Attributes:
        weights: For each true class the weights of all released classes.
        slack: The most by which a weight may differ from the truth, as probabilities that people state are rounded. The
            odds are the largest that any such weights have.
    """

    weights: tuple[tuple[int, ...], ...]
    slack: int = 0

    kind: ClassVar[str] = "matrix"
    words_per_row: ClassVar[int] = 1  # which decides everything
    even: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 2 <= self.classes == len(self.weights) <= MOST_CLASSES:
            raise ValueError(f"expected weights for each of 2 to {MOST_CLASSES} true classes")
        for line in self.weights:
            if len(line) != self.classes or sum(line) != self.word:
                raise ValueError("expected a weight of each class that use every word once")
        if not 0 <= self.slack < min(map(min, self.weights)):
            raise ValueError("expected weights above their slack")

    @classmethod
    def of(cls, probabilities: Sequence[Sequence[float]], rounded: float = 0.0, bits: int = 64) -> Self:
        """The channel of stated probabilities, each of which is off by at most ``rounded``.

        A float stands for its binary value and for the decimal that it prints as: the slack covers both.

        Raises:
            InputError: A line does not sum to 1, or a probability may be 0, which has no epsilon.
        """
        word, off = 1 << bits, max(_readings(rounded))
        lines = [[Fraction(each) for each in line] for line in probabilities]
        if any(abs(sum(line, start=Fraction(-1))) > _TOLERANCE + len(line) * off or min(line) < 0 for line in lines):
            raise InputError("expected probabilities that sum to 1 for each true class, found others")
        weights, slack = [], 0
        for stated, line in zip(probabilities, lines, strict=True):
            whole = [round(each * word) for each in line]
            whole[line.index(max(line))] += word - sum(whole)
            slack = max(slack, *(_distance(w, each, word) for w, each in zip(whole, stated, strict=True)))
            weights.append(tuple(whole))
        slack += math.ceil(off * word)
        if min(map(min, weights)) <= slack:
            raise InputError(
                "expected probabilities above 0, also within their rounding, found one that may be 0: such labels have "
                "no epsilon"
            )
        return cls(len(weights), tuple(weights), slack, bits=bits)

    @cached_property
    def odds(self) -> Fraction:
        """The largest ratio of a class's weights under two true classes, with all slack."""
        columns = list(zip(*self.weights, strict=True))
        return max(Fraction(max(column) + self.slack, min(column) - self.slack) for column in columns)

    @property
    def detail(self) -> str:
        """One class."""
        return f"one of {self.classes} classes, by a matrix of probabilities"

    def columns(self) -> Columns:
        """Each class from all true classes, the likeliest with all slack, and the others without."""
        for z, column in enumerate(zip(*self.weights, strict=True)):
            most = max(column)
            yield f"class number {z}", [w + self.slack if w == most else w - self.slack for w in column]

    @property
    def identifies(self) -> bool:
        """True if no line of the matrix follows from the others."""
        return bool(np.linalg.matrix_rank(self._chances) == self.classes)

    @property
    def merged(self) -> tuple[tuple[int, ...], ...]:
        """The true classes that have the same weights."""
        alike = [tuple(code for code, line in enumerate(self.weights) if line == one) for one in self.weights]
        return tuple(sorted({codes for codes in alike if len(codes) > 1}))

    @cached_property
    def membership(self) -> Membership:
        """Averages over pairs of different classes, one of which is true."""
        true = np.trace(self._chances) / self.classes
        other = (1.0 - true) / (self.classes - 1)
        return Membership(np.array(true), np.array(other), np.array(true + other))

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """For the true class, and averaged over all others."""
        true, total = np.diag(self._chances), self._chances.sum(axis=0)
        return true[codes], ((total - true) / (self.classes - 1))[codes]

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write released class codes."""
        for code, line in enumerate(self.weights):
            limits = np.array([sum(line[: z + 1]) for z in range(self.classes - 1)], dtype=np.uint64)
            rows = codes == code
            out[rows] = np.searchsorted(limits, words[rows, 0], side="right")

    def levels(self, released: Int[np.ndarray, "n"]) -> Levels:
        """The column of the released class; with two classes, its two entries are two levels."""
        values = np.ascontiguousarray(self._chances[:, released].T)
        own, other = (each[released] for each in self.holding(np.arange(self.classes)))
        return Levels(self.mask(released), own / other, values=values if self.classes > 2 else None)

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """The line of the inverse matrix; the entries sum to one.

        Raises:
            InputError: The matrix has no inverse.
        """
        return np.asarray(self._inverse[released_labels(released)])

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2"]:
        """The largest over true classes; in any directions, at most k times the largest eigenvalue."""
        del projected
        found = []
        for code, line in enumerate(self._chances):
            covariance = (self._inverse.T * line) @ self._inverse
            covariance[code, code] -= 1.0
            found.append((self.classes * np.linalg.eigvalsh(covariance)[-1], np.trace(covariance)))
        return np.asarray(np.max(found, axis=0))

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """The grid points, and the variance of the line's number."""
        points = np.arange(self.classes, dtype=np.float64)
        return (NumberLaw(points, self._chances @ (self._inverse @ points) ** 2 - points**2),)

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every class as an outcome."""
        return TransitionTable(np.arange(self.classes, dtype=np.int32), self._chances)

    @cached_property
    def _chances(self) -> Float[np.ndarray, "k k"]:
        chances = np.array([[float(Fraction(weight, self.word)) for weight in line] for line in self.weights])
        chances.flags.writeable = False
        return chances

    @cached_property
    def _inverse(self) -> Float[np.ndarray, "k k"]:
        if not self.identifies:
            raise InputError(
                "expected released labels that identify the true class, found a matrix in which one line follows from "
                "others, which has no unbiased vectors; learn with method='likelihood'"
            )
        return np.linalg.inv(self._chances)


def _readings(number: float) -> tuple[Fraction, Fraction]:
    """The binary value of a float, and the decimal that it prints as."""
    return Fraction(number), Fraction(repr(number))


def _distance(weight: int, probability: float, word: int) -> int:
    """The distance of a weight from a probability out of so many words, rounded up."""
    return math.ceil(max(abs(weight - each * word) for each in _readings(probability)))


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
