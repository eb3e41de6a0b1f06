"""The channel: the distribution of the released label given the true one, and what can be computed from it."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp.privacy._rounding import log_above
from labeldp.privacy.channels._bitsets import sizes

#: Kinds of outcomes by name, each with its weights under the labels that it distinguishes, up to a common factor.
Columns = Iterator[tuple[str, Sequence[int | Fraction]]]
#: The entries of released labels of each form.
_ENTRIES = {"class": np.int32, "set": np.uint8, "index": np.int32, "number": np.int16}


class WordsError(RuntimeError):
    """Random words that do not suffice for a row, whatever its label; nothing of it is released."""


def require_words(suffice: bool) -> None:
    """Refuse what a kernel drew without enough words."""
    if not suffice:
        raise WordsError("a row ran out of random words; draw again")


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
    ``outside`` where there is a ``support`` and ``support[:, j]`` is false. Where levels do not suffice, as for a
    matrix of more than two classes, it is ``values[:, j]``.
    """

    mask: Bool[np.ndarray, "n k"]
    high: Float[np.ndarray, "*rows"]
    support: Bool[np.ndarray, "n k"] | None = None
    outside: Float[np.ndarray, "*rows"] | None = None
    values: Float[np.ndarray, "n k"] | None = None


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
class Bins:
    """Bins of neighbouring grid points: the label's own is released, or another one.

    Attributes:
        firsts: First grid point of each bin.
        lasts: Last grid point of each bin.
        steps: The number that is released for each bin, in grid steps above the first point.
        keep: Probability of the label's own bin.
        other: Probability of each other bin.
    """

    firsts: Int[np.ndarray, "b"]
    lasts: Int[np.ndarray, "b"]
    steps: Float[np.ndarray, "b"]
    keep: float
    other: float


@dataclass(frozen=True, eq=False)
class Channel(ABC):
    """The distribution P(released label | true label), in integers that random words are compared with.

    A final channel is a frozen dataclass. Its integer fields define the distribution; an array field has one entry for
    each row, where rows differ in public parameters. It is a ``ClassChannel`` or a ``NumberChannel``. Released labels
    have one of four forms: ``"class"``, an integer array of class codes, ``"set"``, sets of classes as packed bits (a
    boolean mask is accepted too), ``"index"``, an integer array of numbers of sets, which ``mask`` writes out, or
    ``"number"``, an integer array of outcome indices, each of which stands for a number.

    What a kind does not derive from its output distribution it must state: no member has a default that claims
    something. The contract suite compares each statement with the transition table of small channels.

    Attributes:
        classes: Number of classes, or of grid points, k.
        bits: Length of the words: 64, or 16 in tests that enumerate all words.
    """

    classes: int
    bits: int = dataclasses.field(default=64, kw_only=True)

    kind: ClassVar[str]
    #: What is computed once from arrays by row, if the arrays of other rows need no check.
    of_rows: ClassVar[tuple[str, ...]] = ()

    @property
    @abstractmethod
    def form(self) -> Literal["class", "set", "index", "number"]:
        """The form of released labels."""

    @property
    @abstractmethod
    def detail(self) -> str:
        """A released label in a few words, for people."""

    @property
    @abstractmethod
    def odds(self) -> Fraction:
        """The exact largest ratio of an outcome's probabilities when the labels of one unit are replaced."""

    @property
    @abstractmethod
    def words_per_row(self) -> int:
        """Number of random words that each row may use, whatever its label."""

    @property
    def usual_words(self) -> int:
        """Number of the first of these words, which decide nearly every row alone; it depends on them if they do."""
        return self.words_per_row

    @property
    def whole_words(self) -> int:
        """Number of leading words of a row that are compared as a whole; halves of the other words are used."""
        return self.words_per_row

    @abstractmethod
    def columns(self) -> Columns:
        """The kinds of outcomes that an exact audit compares, from the integers and apart from ``odds``."""

    def empty(self, rows: int) -> np.ndarray:
        """Room for released labels."""
        width = ((self.classes + 7) // 8,) if self.form == "set" else ()
        return np.empty((rows, *width), dtype=_ENTRIES[self.form])

    def draw(self, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> np.ndarray:
        """Released labels for class codes, a function of the words alone; for the curator.

        If one word decides a row, the words of an outcome form at most two ranges for each label.

        Raises:
            WordsError: The words of a row do not suffice. Words that follow change nothing in any other row.
        """
        released = self.empty(codes.size)
        self.draw_into(released, codes, words)
        return released

    @abstractmethod
    def draw_into(self, out: np.ndarray, codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]) -> None:
        """Write released labels, as ``draw`` returns them, over what an array holds."""

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

    @property
    @abstractmethod
    def bins(self) -> Bins | None:
        """The bins, if released labels are bins, which disclose nothing of a label but its bin; else None."""

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

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Bounds on the privacy loss of one row, for each distribution among the rows, as ``PrivacyLoss`` has them.

        A pair has the largest odds, and the probability of the outcomes that favour another label over the true one. By
        default it is that of the worst mechanism with these odds (Kairouz et al. 2015, theorem 3.3).
        """
        return ((self.odds, 1 / (1 + self.odds)),)

    @property
    def units(self) -> tuple[tuple[Channel, int], ...]:
        """The channel of a row and the number of rows of a privacy unit, for each group of rows."""
        return ((self, 1),)

    @property
    def word(self) -> int:
        """Number of different words."""
        return 1 << self.bits

    def matrix(self, row: int = 0) -> Float[np.ndarray, "k m"]:
        """P(outcome | true class) for one row, if it is small; the outcomes are ``table(row).outcomes``."""
        return self.table(row).matrix

    def take(self, rows: slice | Int[np.ndarray, "m"]) -> Self:
        """The channel of a subset of its rows."""
        return self.with_rows(**{name: values[rows] for name, values in row_arrays(self).items()})

    def with_rows(self, **arrays: Any) -> Self:
        """The channel of other rows, by their arrays: all those of ``row_arrays``."""
        if not arrays:
            return self
        if not self.of_rows:
            return dataclasses.replace(self, **arrays)
        part = copy.copy(self)
        for name in self.of_rows:
            vars(part).pop(name, None)
        vars(part).update(arrays)
        return part


def row_arrays(channel: Channel) -> dict[str, np.ndarray]:
    """The arrays with one entry for each row, by field name."""
    fields = {field.name: getattr(channel, field.name) for field in dataclasses.fields(channel)}
    return {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}


def candidate_sizes(channel: Channel) -> Int[np.ndarray, "n"] | None:
    """The number of candidates of each row; None for channels without candidates, where any class may be released."""
    packed = row_arrays(channel).get("candidates")
    return None if packed is None else sizes(packed)


def candidate_numbers(candidates: Int[np.ndarray, "n"], classes: int) -> list[int]:
    """The numbers of candidates of some rows, from two on; all numbers if there are no rows."""
    present = {int(m) for m in np.unique(candidates)} or set(range(1, classes + 1))
    return sorted(present - {1})


def released_labels(released: object) -> np.ndarray:
    """The labels of a release, or an array unchanged."""
    return np.asarray(getattr(released, "codes", released))
