"""Channels that release classes or sets of classes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from labeldp._shapes import Bool, Float, Int
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.privacy.channels._bitsets import set_mask
from labeldp.privacy.channels._channel import (
    Channel,
    Levels,
    Membership,
    NumberLaw,
    candidate_sizes,
    released_labels,
    row_arrays,
)


@dataclass(frozen=True)
class Covariance:
    """The covariance of k indicators that is symmetric in all but the first, one entry for each row.

    Attributes:
        first: Variance of the first.
        rest: Variance of each other.
        across: Covariance of the first and another.
        within: Covariance of two others.
        count: k.
    """

    first: np.ndarray
    rest: np.ndarray
    across: np.ndarray
    within: np.ndarray
    count: np.ndarray

    def projected(self) -> Covariance:
        """The covariance after the mean of the k entries was subtracted from each."""
        k = self.count
        one = (self.first + (k - 1) * self.across) / k
        two = (self.across + self.rest + (k - 2) * self.within) / k
        mean = (one + (k - 1) * two) / k
        first, rest = self.first - 2 * one + mean, self.rest - 2 * two + mean
        return Covariance(first, rest, self.across - one - two + mean, self.within - 2 * two + mean, k)


def largest_traces(covariance: Covariance, *, projected: bool) -> Float[np.ndarray, "2 *rows"]:
    """The largest ``trace(C G)`` over Gram matrices of k vectors of length 1, and ``trace(C)``."""
    c = covariance.projected() if projected else covariance
    k, n = c.count, c.count - 1
    trace, slope = c.first + n * c.rest, np.abs(c.across)
    above = trace + 2 * n * slope + n * (k - 2) * c.within  # b = 1: the others are equal
    bend = np.where(c.within < 0, -n * c.within, 0.0)
    a = np.where(slope < bend, slope / np.where(bend > 0, bend, 1.0), 1.0)
    below = trace + 2 * n * slope * a + n * c.within * (n * a**2 - 1) * (k > 2)  # b = (n a^2 - 1) / (k - 2)
    return np.stack([np.where(k > 1, np.where(c.within > 0, above, below), 0.0), np.where(k > 1, trace, 0.0)])


@dataclass(frozen=True, eq=False)
class ClassChannel(Channel):
    """A channel whose released label is a class, or a set of classes."""

    #: True if each class is in the released set independently of the others, so that sizes of sets can be audited too.
    independent_members: ClassVar[bool] = False
    bins: ClassVar[None] = None  # classes are released

    @property
    @abstractmethod
    def even(self) -> bool:
        """True if all classes but the true one are equally likely, so that ``membership`` gives unbiased vectors."""

    @property
    @abstractmethod
    def identifies(self) -> bool:
        """True if ``unbiased`` is unbiased for every true class, so that no two classes have the same distribution."""

    @property
    def merged(self) -> tuple[tuple[int, ...], ...]:
        """Sets of classes, as codes, that have the same distribution in every row; none if ``identifies`` is true."""
        return ()

    @property
    @abstractmethod
    def membership(self) -> Membership:
        """Probabilities that the true class, and another class, are released."""

    @abstractmethod
    def mask(self, released: np.ndarray) -> Bool[np.ndarray, "n k"]:
        """Classes of each released label: one class, or all classes of a set."""

    @abstractmethod
    def holds(self, released: np.ndarray, classes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows whose released label is, or contains, a class, one class for each row."""

    def sums(self, released: np.ndarray, values: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
        """The sum of one value for each class over the classes of each released label, block by block."""
        parts = [self.mask(released[rows]) @ values for rows in blocks(len(released), self.classes)]
        return np.concatenate(parts) if parts else np.empty(0)

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """None, where the distribution differs between rows or classes.

        Raises:
            InputError: It does.
        """
        if row_arrays(self) or not self.even:
            raise InputError("expected a channel that is the same for all rows and classes, found another")
        return ()

    @abstractmethod
    def levels(self, released: np.ndarray) -> Levels:
        """The likelihood of released labels in compressed form."""

    @abstractmethod
    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
        """Probabilities that a row's released label is or contains a class: if it is the true one, and if it is not."""

    @abstractmethod
    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """Vectors ``w`` with ``E[w | true = j] = one_hot(j)``, for each row (backward correction).

        With candidates, that holds for true labels among them, and the entries outside are zero.

        Args:
            released: A release, or released labels in the channel's form, one for each row.

        References:
            Natarajan et al. 2013, Lemma 1, for two classes; Patrini et al. 2017, section 4, for k classes; Chua et al.
            2025, Algorithm 1, line 10, for bits.
        """

    @abstractmethod
    def traces(self, *, projected: bool) -> Float[np.ndarray, "2 *rows"]:
        """Variance of unbiased gradients for the worst true class: in any directions, and at right angles.

        They are the largest ``trace(C G)`` over Gram matrices G of vectors of length 1, or an upper bound on it, and
        ``trace(C)``, for the covariance C of the unbiased vector; see ``gradient_noise``.

        Args:
            projected: Unbiased vectors are projected to entries that sum to one.
        """

    def likelihood(self, released: object) -> Float[np.ndarray, "n k"]:
        """P(released | true = j) for each row and class, up to a factor for each row; see ``Channel``."""
        levels = self.levels(released_labels(released))
        if levels.values is not None:
            return levels.values
        values = np.where(levels.mask, _column(levels.high), 1.0)
        if levels.support is None or levels.outside is None:
            return values
        return np.where(levels.support, values, _column(levels.outside))

    def numbers(self, released: object) -> Float[np.ndarray, "n"]:
        """The sum of the grid points, weighted by the unbiased vector."""
        return self._weighted(released, 1)

    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """The sum of the squares of the grid points, weighted by the unbiased vector."""
        return self._weighted(released, 2)

    def _weighted(self, released: object, power: int) -> Float[np.ndarray, "n"]:
        """The sum of the powers of the grid points, weighted by the unbiased vector."""
        labels, points = released_labels(released), np.arange(self.classes, dtype=np.float64) ** power
        if self.even and not row_arrays(self):
            chance = self.membership
            return np.asarray((self.sums(labels, points) - chance.other * points.sum()) / (chance.true - chance.other))
        parts = [self.take(rows).unbiased(labels[rows]) @ points for rows in blocks(len(labels), self.classes)]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True, eq=False)
class SingleClassChannel(ClassChannel):
    """A channel that releases a class."""

    form: ClassVar[Literal["class"]] = "class"

    @property
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """Zero: one class is released."""
        return np.zeros(())

    def mask(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n k"]:
        """The released class."""
        return np.asarray(released[:, None] == np.arange(self.classes))

    def holds(self, released: np.ndarray, classes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows that released the class."""
        return np.asarray(released == classes)

    def sums(self, released: np.ndarray, values: Float[np.ndarray, "k"]) -> Float[np.ndarray, "n"]:
        """The value of the released class."""
        return np.asarray(values[released])

    def possible(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Every class."""
        return (released >= 0) & (released < self.classes)


@dataclass(frozen=True, eq=False)
class ClassSetChannel(ClassChannel):
    """A channel that releases a set of classes, as packed bits."""

    form: ClassVar[Literal["set"]] = "set"

    def mask(self, released: np.ndarray) -> Bool[np.ndarray, "n k"]:
        """The bits."""
        return set_mask(released, self.classes)

    def holds(self, released: np.ndarray, classes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """The bit of the class."""
        byte = released[np.arange(len(classes)), classes >> 3]
        return np.asarray(byte >> (classes & 7).astype(np.uint8) & 1 == 1)


@dataclass(frozen=True, eq=False)
class EvenChannel(ClassChannel):
    """A channel in which all classes but the true one are equally likely to be released."""

    even: ClassVar[bool] = True

    @property
    def identifies(self) -> bool:
        """True: the true class is likelier than all others."""
        return True

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
        """The two probabilities of ``membership``, whatever the class."""
        del codes
        return self.membership.true, self.membership.other

    def levels(self, released: np.ndarray) -> Levels:
        """``odds`` for the classes in the mask: every other factor is common to all true classes."""
        return Levels(self.mask(released), np.array(float(self.odds)))

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """``(mask - other) / (true - other)``, and zero outside the support; see ``ClassChannel``."""
        levels, chance = self.levels(released_labels(released)), self.membership
        true, other = _column(chance.true), _column(chance.other)
        values: np.ndarray = (levels.mask - other) / (true - other)
        return values if levels.support is None else np.where(levels.support, values, 0.0)


@dataclass(frozen=True, eq=False)
class ExchangeableChannel(EvenChannel):
    """An even channel in which all pairs of classes but the true one are equally likely to be released together."""

    @property
    @abstractmethod
    def pair_of_others(self) -> Float[np.ndarray, "*rows"]:
        """Probability that two given classes, neither of them true, are both released; one entry, or one a row."""

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """The distribution's moments, for channels that are the same for all rows.

        ``numbers`` is ``(sum_j m_j j - q s) / (p - q)`` for the mask m, ``s = sum_j j``: its variance follows from the
        probabilities that one, or both, of two classes are in the mask.
        """
        super().number_laws()  # which refuses others
        chance, points = self.membership, np.arange(self.classes, dtype=np.float64)
        true, other, apart = (float(each) for each in (chance.true, chance.other, chance.apart))
        pair = (true + other - apart) / 2  # the true class and a given other one are both in the mask
        both = float(self.pair_of_others)
        total, squares = points.sum(), (points**2).sum()
        rest, rest_squares = total - points, squares - points**2
        second = true * points**2 + other * rest_squares + 2 * pair * points * rest + both * (rest**2 - rest_squares)
        mean = true * points + other * rest
        return (NumberLaw(points, (second - mean**2) / (true - other) ** 2),)

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2 *rows"]:
        """From the covariance of membership, which has four different entries.

        With C symmetric in all classes but the true one y, the Gram matrix may be averaged over permutations of them:
        ``G_yj = -a`` and ``G_jl = b``, which is a Gram matrix if and only if ``a^2 <= (1 + (k-2) b) / (k-1)`` and
        ``b <= 1``. The sum ``trace(C) - 2 (k-1) C_yj a + (k-1) (k-2) C_jl b`` is largest at one end of b for each a.
        """
        sizes = candidate_sizes(self)
        k = np.asarray(self.classes if sizes is None else sizes, dtype=np.float64)
        chance, both = self.membership, self.pair_of_others
        k, p, q, both = np.broadcast_arrays(np.atleast_1d(k), chance.true, chance.other, both)
        pair = np.where(k > 1, (p + q - np.where(np.isfinite(chance.apart), chance.apart, p + q)) / 2, 0.0)
        traces = largest_traces(Covariance(p - p**2, q - q**2, pair - p * q, both - q**2, k), projected=projected)
        if sizes is not None:  # a label outside the candidates gives the mean of their distributions
            each = np.where(k < self.classes, (p + (k - 1) * q) / k, 0.0)
            two = np.where(k < self.classes, (2 * pair + (k - 2) * both) / k, 0.0)
            uniform = Covariance(each - each**2, each - each**2, two - each**2, two - each**2, k)
            traces = np.maximum(traces, largest_traces(uniform, projected=projected))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(traces > 0, traces / (p - q) ** 2, 0.0))


def _column(values: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "..."]:
    """One entry for each row as a column; a single entry unchanged."""
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim else array
