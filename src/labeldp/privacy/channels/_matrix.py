"""The channel of a matrix of probabilities, for labels that were randomized elsewhere."""

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
from labeldp.privacy.channels._channel import Columns, Levels, Membership, NumberLaw, TransitionTable, released_labels
from labeldp.privacy.channels._class_channel import SingleClassChannel

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
