"""The channel: the distribution of the released label given the true one, and what can be computed from it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp.errors import InputError
from labeldp.privacy._rounding import log_above
from labeldp.privacy.channels._bitsets import sizes

_ENTRIES_PER_BLOCK = 1 << 22


@dataclass(frozen=True)
class Membership:
    """Probabilities that a class is released, given the true class; one entry, or one for each row.

    Attributes:
        true: Probability that the released class or set contains the true class.
        other: Probability that it contains a given other class.
        apart: Probability that it contains exactly one of the true class and a given other class.
    """

    true: Float[np.ndarray, "*rows"]
    other: Float[np.ndarray, "*rows"]
    apart: Float[np.ndarray, "*rows"]

    @classmethod
    def of(cls, true: Fraction, other: Fraction, apart: Fraction) -> Self:
        """One entry for all rows, from exact probabilities."""
        return cls(np.array(float(true)), np.array(float(other)), np.array(float(apart)))


@dataclass(frozen=True)
class Levels:
    """The likelihood of released labels in compressed form: two levels on a mask, three with a support.

    ``P(released | true = j)``, up to a factor for each row, is ``high`` where ``mask[:, j]``, 1 elsewhere, and
    ``outside`` where there is a ``support`` and ``support[:, j]`` is false.
    """

    mask: Bool[np.ndarray, "n k"]
    high: Float[np.ndarray, "*rows"]
    support: Bool[np.ndarray, "n k"] | None = None
    outside: Float[np.ndarray, "*rows"] | None = None


@dataclass(frozen=True)
class NumberLaw:
    """Mean and variance of a released number given each grid point, in steps and squared steps."""

    mean: Float[np.ndarray, "k"]
    variance: Float[np.ndarray, "k"]


@dataclass(frozen=True)
class TransitionTable:
    """A channel's transition matrix: every outcome, and its probability given each true class."""

    outcomes: np.ndarray
    matrix: Float[np.ndarray, "k m"]


@dataclass(frozen=True, eq=False)
class Channel(ABC):
    """The distribution P(released label | true label), in integers that random words are compared with.

    A final channel is a frozen dataclass. Its integer fields define the distribution; an array field has one entry for
    each row, where rows differ in public parameters. It is a ``ClassChannel`` or a ``NumberChannel``. Released labels
    have one of three forms: ``"class"``, an integer array of class codes, ``"set"``, sets of classes as packed bits (a
    boolean mask is accepted too), or ``"number"``, an integer array of outcome indices, each of which stands for a
    number.

    Attributes:
        classes: Number of classes, or of grid points, k.
        bits: Length of the words: 64, or 16 in tests that enumerate all words.
    """

    classes: int
    bits: int = dataclasses.field(default=64, kw_only=True)

    kind: ClassVar[str]
    form: ClassVar[Literal["class", "set", "number"]]

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """The exact largest ratio of an outcome's probabilities when the labels of one unit are replaced."""

    @property
    @abstractmethod
    def words_per_row(self) -> int:
        """Number of random words that each row uses, whatever its label."""

    @abstractmethod
    def draw(self, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> np.ndarray:
        """Released labels for class codes, a function of the words alone; for the curator."""

    @abstractmethod
    def likelihood(self, released: object) -> Float[np.ndarray, "n k"]:
        """P(released | true = j) for each row and class, up to a factor for each row.

        Args:
            released: A release, or released labels in the channel's form, one for each row.

        References:
            Patrini et al. 2017, section 4: it enters the forward correction ``-log sum_j v_j p_j``.
        """

    @abstractmethod
    def numbers(self, released: object) -> Float[np.ndarray, "n"]:
        """Unbiased estimates of labels on a grid, in steps above its first point.

        The mean given the true label is the true label, unless the channel states a bias (``NumberChannel``).
        """

    @abstractmethod
    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """Unbiased estimates of the squared labels, in squared steps.

        Raises:
            InputError: The channel does not identify squares.
        """

    @abstractmethod
    def number_laws(self) -> tuple[NumberLaw, ...]:
        """Mean and variance of ``numbers`` given each grid point, for each different distribution among the rows."""

    def law_numbers(self, rows: int) -> Int[np.ndarray, "n"]:
        """Index into ``number_laws`` for each of ``rows`` rows."""
        return np.zeros(rows, dtype=np.int32)

    @abstractmethod
    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Mask of the released labels that have positive probability."""

    @abstractmethod
    def table(self, row: int = 0) -> TransitionTable:
        """The transition matrix of one row, if it is small."""

    @property
    def epsilon(self) -> float:
        """The certified epsilon of one unit's released labels, from the integers of the draw, rounded up."""
        return log_above(self.odds)

    def matrix(self, row: int = 0) -> Float[np.ndarray, "k m"]:
        """P(outcome | true class) for one row, if it is small; the outcomes are ``table(row).outcomes``."""
        return self.table(row).matrix

    def take(self, rows: slice | Int[np.ndarray, "m"]) -> Self:
        """The channel of a subset of its rows."""
        arrays: dict[str, Any] = {
            field.name: value[rows]
            for field in dataclasses.fields(self)
            if isinstance(value := getattr(self, field.name), np.ndarray)
        }
        return dataclasses.replace(self, **arrays) if arrays else self


@dataclass(frozen=True, eq=False)
class ClassChannel(Channel):
    """A channel whose released label is a class, or a set of classes."""

    form: ClassVar[Literal["class", "set"]]
    #: True if all classes but the true one are equally likely, so that three numbers determine the unbiased vector.
    even: ClassVar[bool] = True
    #: True if all released sets have one size, as single classes do, so that entries of unbiased vectors sum to one.
    #: Otherwise each class is in the set by its own coin.
    fixed_size: ClassVar[bool] = True

    @property
    @abstractmethod
    def membership(self) -> Membership:
        """Probabilities that the true class, and another class, are released."""

    @abstractmethod
    def levels(self, released: np.ndarray) -> Levels:
        """The likelihood of released labels in compressed form."""

    def holding(self, codes: Int[np.ndarray, "n"]) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
        """Probabilities that a row's released label is or contains a class: if it is the true one, and if it is not.

        Args:
            codes: A class for each row.
        """
        del codes  # all classes are alike
        return self.membership.true, self.membership.other

    def likelihood(self, released: object) -> Float[np.ndarray, "n k"]:
        """P(released | true = j) for each row and class, up to a factor for each row; see ``Channel``."""
        levels = self.levels(released_labels(released))
        values = np.where(levels.mask, _column(levels.high), 1.0)
        if levels.support is None or levels.outside is None:
            return values
        return np.where(levels.support, values, _column(levels.outside))

    def unbiased(self, released: object) -> Float[np.ndarray, "n k"]:
        """Vectors ``w`` with ``E[w | true = j] = one_hot(j)``, for each row (backward correction).

        With candidates, that holds for true labels among them, and the entries outside are zero.

        Args:
            released: A release, or released labels in the channel's form, one for each row.

        References:
            Natarajan et al. 2013, Lemma 1, for two classes; Patrini et al. 2017, section 4, for k classes; Chua et al.
            2025, Algorithm 1, line 10, for bits.
        """
        levels, chance = self.levels(released_labels(released)), self.membership
        true, other = _column(chance.true), _column(chance.other)
        values = (levels.mask - other) / (true - other)
        return values if levels.support is None else np.where(levels.support, values, 0.0)

    def numbers(self, released: object) -> Float[np.ndarray, "n"]:
        """The sum of the grid points, weighted by the unbiased vector."""
        return self._weighted(released, 1)

    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """The sum of the squares of the grid points, weighted by the unbiased vector."""
        return self._weighted(released, 2)

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """The distribution's moments, for channels that are the same for all rows and classes.

        ``numbers`` is ``(sum_j m_j j - q s) / (p - q)`` for the mask m, ``s = sum_j j``: its variance follows from the
        probabilities that one, or both, of two classes are in the mask.
        """
        if row_arrays(self) or not self.even:
            raise InputError("expected a channel that is the same for all rows and classes, found another")
        chance, points = self.membership, np.arange(self.classes, dtype=np.float64)
        true, other, apart = (float(each) for each in (chance.true, chance.other, chance.apart))
        pair = (true + other - apart) / 2  # the true class and a given other one are both in the mask
        both = self.pair_of_others
        total, squares = points.sum(), (points**2).sum()
        rest, rest_squares = total - points, squares - points**2
        second = true * points**2 + other * rest_squares + 2 * pair * points * rest + both * (rest**2 - rest_squares)
        mean = true * points + other * rest
        return (NumberLaw(points, (second - mean**2) / (true - other) ** 2),)

    @property
    def pair_of_others(self) -> float:
        """Probability that two given classes, neither of them true, are both released; above zero for sets alone."""
        return 0.0

    def _weighted(self, released: object, power: int) -> Float[np.ndarray, "n"]:
        """The sum of the powers of the grid points, weighted by the unbiased vector, block by block."""
        labels, points = released_labels(released), np.arange(self.classes, dtype=np.float64) ** power
        if self.form == "class" and self.even and not row_arrays(self):
            chance = self.membership
            return np.asarray((points[labels] - chance.other * points.sum()) / (chance.true - chance.other))
        step = max(1, _ENTRIES_PER_BLOCK // self.classes)
        blocks = [slice(low, low + step) for low in range(0, len(labels), step)]
        parts = [self.take(rows).unbiased(labels[rows]) @ points for rows in blocks]
        return np.concatenate(parts) if parts else np.empty(0)


def row_arrays(channel: Channel) -> dict[str, np.ndarray]:
    """The arrays with one entry for each row, by field name."""
    fields = {field.name: getattr(channel, field.name) for field in dataclasses.fields(channel)}
    return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}


def candidate_sizes(channel: Channel) -> Int[np.ndarray, "n"] | None:
    """The number of candidates of each row; None for channels without candidates, where any class may be released."""
    packed = row_arrays(channel).get("candidates")
    return None if packed is None else sizes(packed)


def released_labels(released: object) -> np.ndarray:
    """The labels of a release, or an array unchanged."""
    return np.asarray(getattr(released, "codes", released))


def _column(values: Float[np.ndarray, "*rows"]) -> Float[np.ndarray, "..."]:
    """One entry for each row as a column; a single entry unchanged."""
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim else array
