"""Channels that release numbers for labels on a grid: matrices of integers on a few knots, and bins."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp._threads import blocks
from labeldp.errors import InputError
from labeldp.privacy.channels._channel import (
    Bins,
    Channel,
    Columns,
    NumberLaw,
    TransitionTable,
    released_labels,
)
from labeldp.privacy.channels._kernels import draw_grid, draw_response

#: The numbers of outcomes are multiples of one grid step over this.
PARTS = 1 << 32
MOST_KNOTS, MOST_OUTCOMES = 257, 1024
#: Larger tables are not written out.
LARGEST_TABLE = 1 << 26
#: Grid points whose means and variances are computed at a time.
_POINTS_AT_ONCE = 1 << 20
#: Largest error of the mean of squares, relative to the squared range.
_TOLERANCE = 1e-6
#: With fewer pieces, linear interpolation of a square is too far off: here by at most a 6000th of the squared range.
_PIECES_FOR_SQUARES = 32

#: For each of some grid points two of a few output distributions, and the share of the second in their mixture.
Mixture = tuple[Int[np.ndarray, "n"], Int[np.ndarray, "n"], Float[np.ndarray, "n"]]


@dataclass(frozen=True, eq=False)
class NumberChannel(Channel):
    """A channel whose released label is one of a few numbers, for labels on a grid."""

    form: ClassVar[Literal["number"]] = "number"

    @property
    @abstractmethod
    def steps(self) -> tuple[Float[np.ndarray, "m"], ...]:
        """The numbers of the outcomes, in grid steps above the first point, for each distribution among the rows."""

    def numbers(self, released: object) -> Float[np.ndarray, "n"]:
        """The number of each outcome, in grid steps above the first point."""
        labels = released_labels(released)
        if len(self.steps) == 1:
            return np.asarray(self.steps[0][labels])
        laws, numbers = self.law_numbers(len(labels)), np.empty(len(labels))
        for law, steps in enumerate(self.steps):
            rows = laws == law
            numbers[rows] = steps[labels[rows]]
        return numbers


@dataclass(frozen=True, eq=False)
class SingleNumberChannel(NumberChannel):
    """A channel of numbers that is the same for all rows.

    Attributes:
        values: The numbers of the outcomes in ``PARTS`` of a grid step above the first point, increasing.
    """

    values: tuple[int, ...]

    @property
    def detail(self) -> str:
        """A number."""
        return f"one of {len(self.values)} numbers"

    @cached_property
    def steps(self) -> tuple[Float[np.ndarray, "m"], ...]:
        """The numbers of the outcomes, in grid steps above the first point."""
        return (np.array([float(Fraction(value, PARTS)) for value in self.values]),)

    @property
    @abstractmethod
    def vertices(self) -> Float[np.ndarray, "r m"]:
        """A few output distributions; that of each label is a mixture of two of them."""

    @abstractmethod
    def mixture(self, codes: Int[np.ndarray, "n"]) -> Mixture:
        """The two distributions that the labels at grid points have, and the share of the second."""

    def rows_of(self, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n m"]:
        """P(outcome | true label) for grid points."""
        (one, other, share), vertices = self.mixture(codes), self.vertices
        return np.asarray((1.0 - share)[:, None] * vertices[one] + share[:, None] * vertices[other])

    @property
    @abstractmethod
    def bias(self) -> float:
        """The largest absolute bias of a released number over all true labels, in steps, rounded up."""

    @cached_property
    def law(self) -> NumberLaw:
        """Mean and variance of a released number given each grid point, from those of the few distributions.

        A mixture of two whose means are d apart, with the shares 1 - t and t, has the mean of their variances and
        ``t (1 - t) d^2`` more. So the work does not grow with outcomes times grid points.
        """
        steps, vertices = self.steps[0], self.vertices
        means = vertices @ steps
        variances = np.einsum("rm,rm->r", vertices, (steps[None, :] - means[:, None]) ** 2)
        law = NumberLaw(np.empty(self.classes), np.empty(self.classes))
        for part in blocks(self.classes, entries=_POINTS_AT_ONCE):
            one, other, share = self.mixture(np.arange(part.start, part.stop))
            apart = means[other] - means[one]
            law.mean[part] = means[one] + share * apart
            law.variance[part] = (1.0 - share) * variances[one] + share * (variances[other] + (1.0 - share) * apart**2)
        return law

    @property
    def means(self) -> Float[np.ndarray, "k"]:
        """The mean of a released number given each grid point, in steps."""
        return self.law.mean

    @property
    def variances(self) -> Float[np.ndarray, "k"]:
        """The variance of a released number given each grid point, in squared steps."""
        return self.law.variance

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """One distribution for all rows."""
        return (self.law,)

    def possible(self, released: np.ndarray) -> Bool[np.ndarray, "n"]:
        """Every outcome."""
        return np.asarray((released >= 0) & (released < len(self.values)))

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every outcome, if there are few."""
        if self.classes * len(self.values) > LARGEST_TABLE:
            raise InputError(
                f"expected a coarser grid for a transition matrix, found {self.classes} points and "
                f"{len(self.values)} outcomes; declare a larger step"
            )
        return TransitionTable(np.arange(len(self.values), dtype=np.int16), self.rows_of(np.arange(self.classes)))

    def likelihood(self, released: object) -> Float[np.ndarray, "n k"]:
        """P(released | true = j) for each row and grid point."""
        return np.asarray(self.table().matrix.T[released_labels(released)])


@dataclass(frozen=True, eq=False)
class GridChannel(SingleNumberChannel):
    """An integer matrix with the outcome distribution at a few knots; labels between knots are rounded stochastically.

    Knots are evenly spaced from the first grid point to the last. A label between two knots is rounded to one of them
    at random, with probability linear in the distance, and then drawn as a label there: its distribution is a mixture
    of theirs. A mixture of rows has no larger ratio than the rows, and the mean of a released number is linear between
    knots: numbers that are unbiased at knots are unbiased everywhere. Rounding adds at most a quarter of the squared
    knot distance to the variance. So the matrix is small however fine the grid is.

    Attributes:
        weights: For each knot, the number of words, of ``2**bits``, for each outcome.

    References:
        Duchi et al. 2018, section 4.2, for two knots and two outcomes.
    """

    weights: tuple[tuple[int, ...], ...]

    kind: ClassVar[str] = "grid"
    bins: ClassVar[None] = None  # any number may be released for any label

    def __post_init__(self) -> None:
        knots, outcomes, word = len(self.weights), len(self.values), self.word
        if not (2 <= knots <= min(self.classes, MOST_KNOTS) and 1 <= outcomes <= MOST_OUTCOMES):
            raise ValueError(f"expected 2 to {MOST_KNOTS} knots, and 1 to {MOST_OUTCOMES} outcomes")
        if any(len(row) != outcomes or min(row) < 1 or sum(row) != word for row in self.weights):
            raise ValueError("expected for each knot weights of at least 1 that use every word once")
        if not _increasing(self.values):
            raise ValueError("expected outcomes whose numbers increase")

    @cached_property
    def odds(self) -> Fraction:
        """The largest ratio of two weights of one outcome; labels between knots have mixtures of the rows."""
        return max(Fraction(max(column), min(column)) for column in zip(*self.weights, strict=True))

    @property
    def pieces(self) -> int:
        """Number of intervals between knots."""
        return len(self.weights) - 1

    @property
    def words_per_row(self) -> int:
        """One word for the outcome, and one for the knot unless every point is a knot."""
        return 1 if self.pieces == self.classes - 1 else 2

    def columns(self) -> Columns:
        """Each outcome from every knot; between knots the distribution is a mixture of those of two knots."""
        for z, weights in enumerate(zip(*self.weights, strict=True)):
            yield f"outcome {z}, for a label at the knot that makes it most likely", weights

    @property
    def vertices(self) -> Float[np.ndarray, "knots m"]:
        """Those of the knots."""
        return self.chances

    @cached_property
    def chances(self) -> Float[np.ndarray, "knots m"]:
        """P(outcome | knot)."""
        return np.array([[weight / self.word for weight in row] for row in self.weights])

    @cached_property
    def bias(self) -> float:
        """Exact at knots; between them the probability of a knot is off by less than one word."""
        word, gap = self.word, Fraction(self.classes - 1, self.pieces)
        means = [
            Fraction(sum(w * v for w, v in zip(row, self.values, strict=True)), word * PARTS) for row in self.weights
        ]
        largest = max(abs(mean - i * gap) for i, mean in enumerate(means))
        between = Fraction(0) if self.words_per_row == 1 else (gap + 2 * largest) / word
        return _float_above(largest + between)

    def mixture(self, codes: Int[np.ndarray, "n"]) -> Mixture:
        """The two knots around each grid point."""
        lower, rest = np.divmod(np.asarray(codes, dtype=np.int64) * self.pieces, self.classes - 1)
        return lower, np.minimum(lower + 1, self.pieces), self._limits_of_knots(rest) / float(self.word)

    def _limits_of_knots(self, rest: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Number of words that round a label to the upper knot: ``rest * 2**bits / (k - 1)``, rounded up."""
        whole, over = divmod(self.word, self.classes - 1)
        return rest * float(whole) + np.ceil(rest * over / (self.classes - 1))

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write indices of outcomes."""
        whole, over = divmod(self.word, self.classes - 1) if self.words_per_row == 2 else (0, 0)
        draw_grid(codes, words, self._limits, self.classes - 1, whole, over, out)

    @cached_property
    def _limits(self) -> UInt64[np.ndarray, "knots m"]:
        """Cumulative weights of the outcomes, without the last: word limits for each outcome."""
        sums = [list(itertools.accumulate(row[:-1])) for row in self.weights]  # as whole numbers: arrays may round them
        return np.array(sums, dtype=np.uint64).reshape(len(self.weights), -1)

    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """Numbers whose mean is the square of the true label at knots, and near it between them.

        Of all solutions that are right at the knots it is the one of least mean square. Between knots the mean is
        linear, which exceeds the square by up to a quarter of the squared knot distance g, and by g^2 / 6 on average:
        that is subtracted, and the remaining error is at most g^2 / 6.

        Raises:
            InputError: The channel does not identify squares, as with two outcomes, or knots are far apart.
        """
        return np.asarray(self._squares[released_labels(released)])

    @cached_property
    def _squares(self) -> Float[np.ndarray, "m"]:
        gap, close = (self.classes - 1) / self.pieces, self.words_per_row == 1 or self.pieces >= _PIECES_FOR_SQUARES
        targets = (np.arange(self.pieces + 1) * gap) ** 2 - (gap**2 / 6 if self.words_per_row == 2 else 0.0)
        root = np.sqrt(self.chances.mean(axis=0))
        solution = np.linalg.pinv(self.chances / root) @ targets / root
        if not close or np.abs(self.chances @ solution - targets).max() > _TOLERANCE * (self.classes - 1) ** 2:
            raise InputError(
                f"expected a channel that identifies the squares of labels, found one with {len(self.values)} outcomes "
                f"for {self.pieces + 1} knots, which determine only their means; compare models by their gain, or "
                "evaluate on public labels"
            )
        return np.asarray(solution)


@dataclass(frozen=True, eq=False)
class BinChannel(SingleNumberChannel):
    """Randomized response over bins of neighbouring grid points; each bin has a number.

    The mean of a released number is constant in a bin and shrunk towards the middle: numbers are biased, by ``bias``.

    Attributes:
        keep: Weight of the label's own bin, out of ``2**bits``.
        other: Weight of each other bin.
        starts: The first grid point of each bin, increasing from 0.

    References:
        Ghazi et al. 2023, definition 1.
    """

    keep: int
    other: int
    starts: tuple[int, ...]

    kind: ClassVar[str] = "bins"
    words_per_row: ClassVar[int] = 1  # which decides everything

    def __post_init__(self) -> None:
        bins = len(self.starts)
        if not 1 <= bins <= min(self.classes, MOST_OUTCOMES) or len(self.values) != bins:
            raise ValueError(f"expected 1 to {MOST_OUTCOMES} bins and a number for each")
        if self.keep + (bins - 1) * self.other != self.word or (bins > 1 and not self.keep >= self.other >= 1):
            raise ValueError("expected keep >= other >= 1 that use every word once")
        if bins == 1 and self.other:
            raise ValueError("expected no weight for other bins, where there is one")
        if not _increasing(self.starts) or self.starts[0] or self.starts[-1] >= self.classes:
            raise ValueError("expected bins that start at 0 and at increasing grid points")
        if not _increasing(self.values):
            raise ValueError("expected bins whose numbers increase")

    @property
    def odds(self) -> Fraction:
        """``keep / other``."""
        return Fraction(self.keep, self.other) if self.other else Fraction(1)

    def columns(self) -> Columns:
        """A bin from itself, and from another one."""
        yield "an output equal to the bin of the true label", (self.keep, self.other) if self.other else (1, 1)

    @property
    def vertices(self) -> Float[np.ndarray, "bins m"]:
        """``keep`` for a bin itself, ``other`` for the others."""
        return np.where(np.eye(len(self.starts), dtype=np.bool_), self.keep / self.word, self.other / self.word)

    def mixture(self, codes: Int[np.ndarray, "n"]) -> Mixture:
        """That of the label's bin alone."""
        bins = self.bins_of(codes)
        return bins, bins, np.zeros(len(bins))

    @property
    def bins(self) -> Bins:
        """The bins, with their probabilities."""
        firsts, word = np.array(self.starts), float(self.word)
        lasts = np.append(firsts[1:], self.classes) - 1
        return Bins(firsts, lasts, self.steps[0], self.keep / word, self.other / word)

    def bins_of(self, codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
        """The bin of each grid point."""
        return np.asarray(np.searchsorted(np.array(self.starts), codes, side="right") - 1).astype(np.int32)

    @cached_property
    def bias(self) -> float:
        """The largest distance of a bin's mean from the points in the bin."""
        word, total = self.word, sum(self.values)
        ends = zip(self.starts, (*(start - 1 for start in self.starts[1:]), self.classes - 1), strict=True)
        distances = [
            abs(Fraction(self.other * total + (self.keep - self.other) * value, word * PARTS) - end)
            for value, pair in zip(self.values, ends, strict=True)
            for end in pair
        ]
        return _float_above(max(distances))

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write indices of bins."""
        drawn = np.zeros(codes.size, dtype=np.int32)
        if self.other:
            weights = len(self.starts), self.keep, self.other
            draw_response(self.bins_of(codes), words, *weights, drawn)
        out[:] = drawn

    def squares(self, released: object) -> Float[np.ndarray, "n"]:
        """Undefined: the position of a label within its bin is not disclosed."""
        del released
        raise InputError(
            "expected a channel that identifies the squares of labels, found bins of labels; compare models by "
            "their likelihood, or evaluate on public labels"
        )


def _increasing(values: tuple[int, ...]) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))


def _float_above(value: Fraction) -> float:
    """A float upper bound on an exact number."""
    number = float(value)
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)
