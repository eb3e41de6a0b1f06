"""Projective-geometry response: subsets that are hyperplanes, released by their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from labeldp._shapes import Bool, Float, Int, UInt64
from labeldp._threads import blocks
from labeldp.privacy.channels._calibration import accept, subset_weight
from labeldp.privacy.channels._channel import Columns, Membership, NumberLaw, TransitionTable, require_words
from labeldp.privacy.channels._class_channel import EvenChannel
from labeldp.privacy.channels._kernels import draw_points, write_masks
from labeldp.privacy.channels._subset import LARGEST_TABLE, subset_odds, words_for_picks
from labeldp.privacy.channels._utility import pair_share, total_variance

#: The largest order of a field that is tried, and the largest number of points.
_LARGEST_ORDER, _MOST_POINTS = 1 << 12, (1 << 31) - 1


class Geometry(NamedTuple):
    """Arithmetic of a projective space, for compiled functions.

    Attributes:
        order: The order q of the field.
        firsts: The first point with each number of free coordinates behind the leading 1.
        normals: For each class the coordinates of its point before the last that is not zero, as digits in base q; q to
            the number of zeros behind that one; and its inverse.
    """

    order: int
    firsts: Int[np.ndarray, "t"]
    normals: Int[np.ndarray, "k 3"]


@dataclass(frozen=True, eq=False)
class ProjectiveChannel(EvenChannel):
    """A point of a projective space that is orthogonal to the point of the true class with weight ``member``.

    The space has t dimensions over the integers modulo the prime ``order`` q, and t is the least number (from 2 on) for
    which its ``N = (q^t - 1) / (q - 1)`` points suffice for the classes; class j is point j, and further points stand
    for no class. A released point u is the set of all classes whose points are orthogonal to u: hyperplanes, of
    ``(q^(t-1) - 1) / (q - 1)`` points, so that classes are released as among subsets of a fixed size of N classes.
    A row takes a word and one uniform integer, and one integer is stored, whatever the number of classes.

    Two hyperplanes have ``(q^(t-2) - 1) / (q - 1)`` points in common, whichever they are: so all classes but the true
    one are alike. Pairs of them are not: if the line through two of them holds the true class, both are orthogonal to u
    only if the true class is, too.

    References:
        Feldman, Nelson, Nguyen and Talwar 2022, section 3, there for prime powers q.
    """

    order: int
    member: int

    kind: ClassVar[str] = "projective"
    whole_words: ClassVar[int] = 1  # the one for membership
    form: ClassVar[Literal["index"]] = "index"

    def __post_init__(self) -> None:
        if not (self.classes >= 2 and self.points <= _MOST_POINTS):
            raise ValueError(f"expected two classes or more, and at most {_MOST_POINTS} points")
        if not (0 < self.member < self.word and self.odds >= 1):
            raise ValueError("expected a weight that favours points orthogonal to that of the true class")

    @classmethod
    def at(cls, classes: int, order: int, epsilon: float, bits: int = 64) -> Self:
        """The channel with the largest weight whose epsilon is within the requested one."""
        points, favoured, _ = _counts(order, _dimension(classes, order))
        member = subset_weight(points, favoured, epsilon, bits)
        accept(subset_odds(points, favoured, member, 1 << bits), epsilon, bits)
        return cls(classes, order, member, bits=bits)

    @cached_property
    def dimension(self) -> int:
        """Number of coordinates of a point."""
        return _dimension(self.classes, self.order)

    @property
    def points(self) -> int:
        """Number of points N, which is that of outcomes."""
        return _counts(self.order, self.dimension)[0]

    @property
    def favoured(self) -> int:
        """Number of points that are orthogonal to a given one."""
        return _counts(self.order, self.dimension)[1]

    @property
    def odds(self) -> Fraction:
        """``A (N - f) / ((W - A) f)`` with f favoured points, as of subsets of f among N classes."""
        return subset_odds(self.points, self.favoured, self.member, self.word)

    @property
    def detail(self) -> str:
        """The number of a set."""
        return f"sets of 1 in {self.order} of {self.classes} classes, by number"

    @cached_property
    def words_per_row(self) -> int:
        """One word for membership; halves of words for one pick, and spare ones for rejections."""
        return words_for_picks(1, self.points)

    @property
    def usual_words(self) -> int:
        """The first word decides a point; it hardly ever is one of those left over."""
        return 1

    def columns(self) -> Columns:
        """A point from a class in its set, and from one outside."""
        others = self.points - self.favoured
        yield (
            "a point from a class that is orthogonal to it",
            (self.member * others, (self.word - self.member) * self.favoured),
        )

    @property
    def losses(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The true class is out, and the other label is in."""
        return ((self.odds, self._pairs[1]),)

    @cached_property
    def _pairs(self) -> tuple[Fraction, Fraction]:
        """Probabilities that the set contains another class, together with the true one and without it."""
        points, favoured, shared = _counts(self.order, self.dimension)
        true = Fraction(self.member, self.word)
        return true * Fraction(shared, favoured), (1 - true) * Fraction(favoured - shared, points - favoured)

    @cached_property
    def membership(self) -> Membership:
        """``A / W`` for the true class; for another one from the points that two hyperplanes share."""
        true, (together, alone) = Fraction(self.member, self.word), self._pairs
        return Membership.of(true, together + alone, true - together + alone)

    def draw_into(
        self, out: Int[np.ndarray, "n"], codes: Int[np.ndarray, "n"], words: UInt64[np.ndarray, "n w"]
    ) -> None:
        """Write numbers of points."""
        weights = self.member, self.word - self.member, self.favoured, self.points - self.favoured
        require_words(draw_points(codes, words, *self._geometry, *weights, out))

    @cached_property
    def _geometry(self) -> Geometry:
        q = self.order
        firsts = [(q**free - 1) // (q - 1) for free in range(self.dimension)]
        inverses = np.array([0, *(pow(value, -1, q) for value in range(1, q))])
        classes = np.arange(self.classes)
        free = np.searchsorted(firsts, classes, side="right") - 1
        digits, powers = classes - np.array(firsts)[free] + q**free, np.ones_like(classes)
        for _ in range(1, self.dimension):
            zeros = digits % q == 0
            digits, powers = np.where(zeros, digits // q, digits), np.where(zeros, powers * q, powers)
        normals = np.stack([digits // q, powers, inverses[digits % q]], axis=1)
        return Geometry(q, np.array(firsts, dtype=np.int64), normals.astype(np.int32))

    def _vectors(self, numbers: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n t"]:
        """Points by number: the leading 1, with digits in base q behind it."""
        firsts = self._geometry.firsts
        free = np.searchsorted(firsts, numbers, side="right") - 1
        powers = self.order ** np.arange(self.dimension - 1, -1, -1)
        vectors = (numbers - firsts[free])[:, None] // powers % self.order
        np.put_along_axis(vectors, self.dimension - 1 - free[:, None], 1, axis=1)
        return np.asarray(vectors)

    def mask(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n k"]:
        """The classes whose points are orthogonal to the released one."""
        mask = np.empty((len(released), self.classes), dtype=np.bool_)
        write_masks(released, self._geometry.order, self._geometry.firsts, mask)
        return mask

    def holds(self, released: np.ndarray, classes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows whose point is orthogonal to that of the class."""
        one, two = self._vectors(released), self._vectors(classes)
        return np.asarray((one * two).sum(axis=1) % self.order == 0)

    def possible(self, released: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Every point."""
        return np.asarray((released >= 0) & (released < self.points))

    def table(self, row: int = 0) -> TransitionTable:  # noqa: ARG002 (all rows are alike)
        """Every point, if there are few."""
        if self.points * self.classes > LARGEST_TABLE:
            raise ValueError(f"expected few outcomes, found {self.points}; use levels")
        outcomes = np.arange(self.points, dtype=np.int32)
        return TransitionTable(outcomes, np.where(self.mask(outcomes).T, *self._chances))

    @property
    def _chances(self) -> tuple[float, float]:
        """P(point | true class), if the two are orthogonal and if they are not."""
        true = Fraction(self.member, self.word)
        return float(true / self.favoured), float((1 - true) / (self.points - self.favoured))

    def number_laws(self) -> tuple[NumberLaw, ...]:
        """The mean is the grid point; the second moment is a sum over all points, block by block."""
        return self._number_laws

    @cached_property
    def _number_laws(self) -> tuple[NumberLaw, ...]:
        codes, second = np.arange(self.classes, dtype=np.float64), np.zeros(self.classes)
        inside, outside = self._chances
        for part in blocks(self.points, self.classes):
            points = np.arange(part.start, part.stop, dtype=np.int32)
            squares = self.numbers(points) ** 2
            second += outside * squares.sum() + (inside - outside) * (squares @ self.mask(points))
        return (NumberLaw(codes, second - codes**2),)

    def traces(self, *, projected: bool) -> Float[np.ndarray, "2"]:
        """For all points as classes the largest variance, which bounds that for fewer.

        Let C be the covariance of the indicators of all N points given the true class y, and n = N - 1. It is symmetric
        under the maps that fix y, so it has four eigenspaces: ``e_y - 1/n`` on the others, with the variance
        ``K = p (1 - p)`` of y; all ones, with 0, since sets have one size; and on the n others, which form lines of q
        points through y, vectors whose sum is zero on each line, and vectors that are constant on lines and whose sum
        is zero. With c the larger eigenvalue of the latter two and ``sum_j g_j = -n x g_y`` over k - 1 others, the
        variance is at most ``c (k - 1 - n x^2) + K (1 + x)^2``, and equal for k = N. Projected, the gradients are
        centred: with ``-b g_y`` the mean of all k, it is at most ``c k (1 - b^2) + K (1 + 1/n)^2 (1 + b)^2``.
        """
        q, p, other, n = self.order, float(self.membership.true), float(self.membership.other), self.points - 1
        triple = self._geometry.firsts[-3] if self.dimension > 2 else 0
        shared, k = int(self._geometry.firsts[-2]), self.classes
        on_line = float(self._pairs[0]) - other**2
        apart = p * triple / self.favoured + (1 - p) * (shared - triple) / (n + 1 - self.favoured) - other**2
        within = other - other**2 - on_line
        largest = max(within, within + q * (on_line - apart)) if self.dimension > 2 else within
        first = p - p**2
        if projected and k <= n:
            first *= (1 + 1 / n) ** 2
            x = min(1.0, first / max(largest * k - first, first))
            most = largest * k * (1 - x**2) + first * (1 + x) ** 2
        else:
            x = min((k - 1) / n, first / max(largest * n - first, first))
            most = largest * (k - 1 - n * x**2) + first * (1 + x) ** 2
        with np.errstate(divide="ignore"):
            return np.asarray(np.array([most, p - p**2 + (k - 1) * (other - other**2)]) / np.square(p - other))


@lru_cache
def projective_order(classes: int, epsilon: float, *, counting: bool = False) -> int:
    """The prime order with the most effective rows, or with the least total variance for estimating frequencies."""
    odds, best = math.exp(min(epsilon, 700.0)), (-math.inf, -2)
    for q in _primes():
        dimension = _dimension(classes, q)
        points, favoured, shared = _counts(q, dimension)
        if points > _MOST_POINTS:
            continue
        true = odds * favoured / (odds * favoured + points - favoured)
        together, alone = true * shared / favoured, (1 - true) * (favoured - shared) / (points - favoured)
        chance = Membership(*map(np.array, (true, together + alone, true - together + alone)))
        value = -total_variance(chance, classes) if counting else float(pair_share(chance))
        best = max(best, (value, -q))
        if dimension == 2:
            break  # larger orders add points and nothing else
    return -best[1]


def is_order(order: int) -> bool:
    """True for the primes that may be the order of a space."""
    return order in _primes()


@lru_cache
def _primes() -> dict[int, None]:
    return {q: None for q in range(2, _LARGEST_ORDER) if all(q % divisor for divisor in range(2, math.isqrt(q) + 1))}


def _dimension(classes: int, order: int) -> int:
    """The least number of dimensions, from 2 on, whose points suffice for the classes."""
    if not is_order(order):
        raise ValueError(f"expected a prime order below {_LARGEST_ORDER}")
    dimension = 2
    while _counts(order, dimension)[0] < classes:
        dimension += 1
    return dimension


def _counts(order: int, dimension: int) -> tuple[int, int, int]:
    """Numbers of points of the space, of a hyperplane, and of two hyperplanes in common."""
    points, favoured, shared = ((order ** (dimension - less) - 1) // (order - 1) for less in range(3))
    return points, favoured, shared
