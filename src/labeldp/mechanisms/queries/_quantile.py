"""Quantiles of labels on an interval, by the exponential mechanism over all grid points."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries._noise import PARTS, least_margin
from labeldp.mechanisms.queries._query import AnswerText, CellQuery, cell_rows, up_to_rows
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, check_possible, decimal, integer
from labeldp.privacy import EXACT, Interval, LabelSpace

_BITS = 64
#: First words of every cell: those of the number that chooses a level, and one that chooses a point of it.
_LEVEL_WORDS, _POINT_WORDS = 3, 1
_CELL_WORDS = _LEVEL_WORDS + _POINT_WORDS
#: Chance that a warning of noise beyond all labels is not needed.
_CONFIDENCE = 0.95
#: Further words of a cell, hardly ever needed; its two numbers have half of them each.
_MORE_WORDS = 1 << 20


@dataclass(frozen=True, eq=False, init=False)
class NoisyQuantile(CellQuery):
    """A quantile of the labels of each cell, for labels on an interval: a point of the grid; shape (cells,).

    With n labels in a cell, the quantile at a level is the label of rank t = max(1, ceil(level n)) from below. Every
    point v of the grid is released with a probability proportional to ``exp(-rate d(v))``, where d(v) is the number of
    ranks by which v misses t::

        d(v) = max(0, #(labels < v) - (t - 1), t - #(labels <= v))

    Args:
        space: A declared ``Interval``; labels beyond it are clipped to it.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        level: Between 0 and 1: 0.5 for the median.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        around: A public point of the grid: then the answer is a quantile of the distances of labels from it, on either
            side, as is needed for clipping; everything here about labels and points holds for these distances, each of
            which is a function of one label.

    Guarantee:
        * epsilon-label-DP. A replaced label moves #(labels < v) and #(labels <= v) by at most one, for every v, and
          leaves t, which follows from the public n. So it moves d(v) by at most one, up for some points and down for
          others: the weight of a point changes by a factor of at most exp(rate), and so does the sum of all weights in
          the other direction. With rate = epsilon / 2 the ratio is at most exp(epsilon), and close to it if most points
          lie beyond the labels. m labels of one unit move d(v) by at most m, and the rate is an m-th of that.
        * The draw is exact: integers with proven bounds decide, and more digits are drawn if they do not suffice.
        * The number of rows of a cell is public. The numbers of words and of operations follow from it and from the
          parameters, except for sorting labels, whose time may depend on them, and for further digits: of the level
          with a probability below 2^-128, of the point with one below k / 2^64. None of it shows in the answer. Memory
          is proportional to the rows, however many points the grid has.

    References:
        McSherry and Talwar 2007; Smith 2011, for quantiles by the exponential mechanism.

    Example:
        >>> from labeldp import Curator, Interval, NoisyQuantile
        >>> space = Interval(0.0, 10.0, 0.5)
        >>> curator = Curator([2.0] * 400 + [3.0] * 600, space)
        >>> float(curator.answer(NoisyQuantile(space, epsilon=1.0, level=0.5)).value[0])
        3.0
    """

    level: float = 0.5  # required by the constructor; a default is needed after fields of the bases
    around: float | None = None

    name: ClassVar[str] = "noisy-quantile"
    margin_text: ClassVar[str] = "the released point misses the rank of its quantile by at most {}"
    about: ClassVar[str] = "Quantile of numeric labels of each cell, by the exponential mechanism"

    def __init__(
        self,
        space: LabelSpace,
        epsilon: float,
        level: float,
        cells: object = None,
        cell_count: int = 0,
        around: float | None = None,
    ) -> None:
        fields = {"space": space, "epsilon": epsilon, "cells": cells, "cell_count": cell_count, "around": around}
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        super().__post_init__()
        if not isinstance(space, Interval):
            raise LabelError(f"expected labels on an Interval for a quantile, found {type(space).__name__}")
        level = _checks.number(level, "level")
        if not 0.0 <= level <= 1.0:
            raise InputError(f"expected level between 0 and 1, found {level!r}; 0.5 asks for the median")
        object.__setattr__(self, "level", level)
        if around is not None and _checks.number(around, "around") not in space.points:
            raise InputError(
                f"expected around= to be a point of the grid from {space.low} to {space.high} in steps of "
                f"{space.step}, found {around!r}"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """The level, and the code of the point that distances are measured from."""
        around = {} if self.around is None else {"around": str(self.space.points.index(self.around))}
        return {"level": repr(self.level), **around}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The level, and the code of the point that distances are measured from, if they are."""
        return LawFields({"level": lambda value: decimal(value) and 0.0 <= float(value) <= 1.0}, {"around": integer})

    @classmethod
    def sensitivity_of(cls, parameters: Mapping[str, Any], space: LabelSpace) -> int:
        """The ranks that two points miss move against each other by two.

        Raises:
            ValueError: Distances are from no point of the grid.
        """
        if not 0 <= int(parameters.get("around", 0)) < space.size:
            raise ValueError("expected distances from a point of the grid, found another")
        return 2

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "cells"]:
        """A grid point for each cell with rows; NaN for cells without."""
        self.check_rows(len(codes))
        law = self.law(labels_of_a_unit)
        rows, points = self.rows_of_cells(len(codes)), quantile_points(law, self.space)
        keys, k = codes.astype(np.int64), len(points)
        if "around" in law:
            keys = np.abs(keys - int(law["around"]))
        if self.cells is not None:
            keys += self.cells.astype(np.int64) * k
        keys.sort()
        decay = Decay(int(law["rate"]))
        first_words = words.block(0, _CELL_WORDS * self.cell_count).reshape(-1, _CELL_WORDS).tolist()
        quantiles, stop = np.full(self.cell_count, np.nan), 0
        for cell in np.flatnonzero(rows).tolist():
            start, stop = stop, stop + int(rows[cell])
            place = _CELL_WORDS * self.cell_count + _MORE_WORDS * cell
            chooses = Uniform(words, first_words[cell][:_LEVEL_WORDS], place)
            places = Uniform(words, first_words[cell][_LEVEL_WORDS:], place + _MORE_WORDS // 2)
            ranks = Ranks(keys[start:stop] - cell * k, rank_of(self.level, int(rows[cell])), k)
            quantiles[cell] = points[drawn_point(ranks, decay, chooses, places)]
        return quantiles

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column of points."""
        return StoredForm(("quantile",), "number", by_row=False)

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, "..."]:
        """The ranks by which the released point of a cell misses that of its quantile.

        A point that misses at most m ranks lies between the labels of ranks t - m and t + m. With q = exp(-rate), the
        points that miss more than m have a total weight A of at most ``(k - 1) q^(m + 1)``, and the label of rank t
        itself has weight 1. So they have a probability of at most ``A / (1 + A)``, which grows with A.
        """
        rate, k = int(law["rate"]) / int(law["parts"]), len(quantile_points(law, space))

        def chance(m: int) -> float:
            weight = (k - 1) * math.exp(-rate * (m + 1))
            return weight / (1.0 + weight)

        return up_to_rows(least_margin(chance, confidence), rows)

    @classmethod
    def in_words(
        cls, read: Callable[[], np.ndarray], law: Mapping[str, Any], space: LabelSpace, rows: int
    ) -> AnswerText:
        """The quantile, and the range that ends at one above the median, or begins at one below it."""
        level, quantile, warning = float(law["level"]), float(read()[0]), ""
        share, following = min(level, 1.0 - level), ""
        if float(cls.margin(law, space, cell_rows(law, rows), _CONFIDENCE).max()) >= rows * share:
            warning = (
                f"The noise reaches beyond the {'largest' if level > 0.5 else 'least'} label, so the quantile may be "
                "far off: take a level nearer to 0.5, a narrower --interval, or a larger epsilon."
            )
        assert isinstance(space, Interval)  # noqa: S101 (quantiles are of numeric labels)
        low, high = (quantile, space.high) if level < 0.5 else (space.low, quantile)
        if level != 0.5 and low < high:
            following = (
                f"Next: release the labels with --interval {','.join(map(_exactly, (low, high, space.step)))} and a "
                f"--budget for both. About {100 * share:.2g} % of the labels lie beyond that range. They get clipped "
                "to its end, so means of what is released leave out what they have beyond it."
            )
        return AnswerText("quantile", quantile, f"{_exactly(quantile)} at level {law['level']}", warning, following)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """The quantiles of cells with rows are grid points, or distances of grid points."""
        check_possible(bool(np.isin(value[~np.isnan(value)], quantile_points(law, space)).all()))


def _exactly(number: float) -> str:
    """A grid point in the notation of options: all digits, no exponent."""
    return f"{Decimal(repr(number)).normalize():f}"


def quantile_points(law: Mapping[str, Any], space: LabelSpace) -> Float[np.ndarray, "points"]:
    """The possible values of quantiles: the grid points, or their possible distances from the centre of a law."""
    points = np.asarray(space.points, dtype=np.float64)
    if "around" not in law:
        return points
    centre = int(law["around"])
    above, below = points[centre:] - points[centre], (points[centre] - points[: centre + 1])[::-1]
    return np.asarray(above if len(above) >= len(below) else below)


def rank_of(level: float, rows: int) -> int:
    """The rank of a quantile among ``rows`` labels, from 1; the level is the decimal that it prints as."""
    return max(1, math.ceil(EXACT.multiply(Decimal(repr(level)), Decimal(rows))))


class Uniform:
    """A uniform number in [0, 1) whose binary digits are words, read on demand."""

    def __init__(self, words: Words, first: Sequence[int], place: int) -> None:
        self._words, self._first, self._place = words, first, place

    def digits(self, count: int) -> int:
        """Its first ``64 count`` binary digits, as an integer u: it is in [u, u + 1) / 2^(64 count)."""
        words = list(self._first[:count])
        if count > len(words):
            words += self._words.block(self._place, count - len(words)).tolist()
        number = 0
        for word in words:
            number = number << _BITS | word
        return number


class Decay:
    """Lower bounds of the powers of ``q = exp(-rate / PARTS)``, in steps of ``2^-bits``."""

    def __init__(self, rate: int) -> None:
        self._exponent = EXACT.divide(Decimal(-rate), Decimal(PARTS))
        self._cache: dict[int, list[int]] = {}

    def below(self, bits: int, count: int) -> list[int]:
        """Integers a_m of at most ``q^m 2^bits``, for m below ``count``; zeros at the end are omitted.

        They are at least ``q^m 2^bits - 3 m``: exp is rounded correctly, so the next number below is within two digits
        of it, and a_1 within two steps. With e_m for the error of a_m, that of a_(m+1) = floor(a_m a_1 / 2^bits) is at
        most one for the floor, plus e_1 a_m / 2^bits <= 2, plus e_m q <= e_m.
        """
        powers = self._cache.setdefault(bits, [1 << bits, self._once(bits)])
        while len(powers) < count and powers[-1]:
            powers.append(powers[-1] * powers[1] >> bits)
        return powers[: powers.index(0) if not powers[-1] else None][:count]

    def _once(self, bits: int) -> int:
        context = Context(prec=100 + bits // 3)
        top, bottom = context.next_minus(context.exp(self._exponent)).as_integer_ratio()
        return (top << bits) // bottom


class Ranks:
    """The grid points by the number of ranks that they miss, from the sorted labels of a cell.

    The points that miss at most m ranks are those from the label of rank t - m to the label of rank t + m: at v, fewer
    than t + m labels are below if and only if the label of that rank is at least v, and at least t - m labels are at
    most v if and only if the label of rank t - m is. Where there is no such rank, they reach to the end of the grid.

    Args:
        ordered: Codes of the labels, sorted.
        rank: t, from 1.
        size: The number of points, k.
    """

    def __init__(self, ordered: Int[np.ndarray, "n"], rank: int, size: int) -> None:
        self._ordered, self._rank, self.size = ordered, rank, size
        #: The largest number of ranks that a point misses.
        self.most = max(rank, len(ordered) - rank + 1)

    def ends(self, count: int) -> tuple[Int[np.ndarray, "count"], Int[np.ndarray, "count"]]:
        """The lowest and the highest point that misses at most m ranks, for m below ``count``."""
        low, high = np.zeros(count, dtype=np.int64), np.full(count, self.size - 1, dtype=np.int64)
        below = self._ordered[max(0, self._rank - count) : self._rank][::-1]
        above = self._ordered[self._rank - 1 : self._rank - 1 + count]
        low[: len(below)], high[: len(above)] = below, above
        return low, high


def drawn_point(ranks: Ranks, decay: Decay, chooses: Uniform, places: Uniform) -> int:
    """A point v with probability proportional to ``q^d(v)``, exactly.

    First a level m, the number of missed ranks, with probability proportional to ``q^m`` times the number of
    points that miss m; then one of these, uniformly.

    Let S_m be the sum of the weights of the levels up to m, in steps of 2^-bits, and s_m the sum computed from
    ``Decay.below``. No s_m exceeds S_m, and each is at least S_m less ``error``, three times the number of levels for
    each grid point, also with omitted levels. The level is the first whose S_m exceeds x = U S, for U uniform and S the
    sum of all. The digits of U enclose x between two integers. Level m is proven if the lower is at least
    ``s_(m-1) + error``, and so at least S_(m-1), and the upper at most ``s_m``, and so at most S_m. If no level is
    proven, twice as many digits and bits decide; that has a probability of about error / 2^192.
    """
    count, error = _LEVEL_WORDS, 3 * (ranks.most + 1) * ranks.size
    while True:
        bits = _BITS * count
        powers = decay.below(bits, ranks.most + 1)
        low, high = ranks.ends(len(powers))
        sizes = np.diff(high - low + 1, prepend=0).tolist()
        sums = list(accumulate(size * power for size, power in zip(sizes, powers, strict=True)))
        digits = chooses.digits(count)
        at_least = digits * sums[-1] >> bits
        at_most = ((digits + 1) * (sums[-1] + error) >> bits) + 1
        level = bisect_left(sums, at_most)
        if level < len(sums) and (not level or sums[level - 1] + error <= at_least):
            break
        count *= 2
    if not level:
        return int(low[0])
    place = _uniform_below(sizes[level], places)
    left = int(low[level - 1] - low[level])
    return int(low[level]) + place if place < left else int(high[level - 1]) + 1 + place - left


def _uniform_below(bound: int, uniform: Uniform) -> int:
    """A uniform integer below ``bound``: exactly the integer part of ``bound`` times a uniform number."""
    count = _POINT_WORDS
    while True:
        digits, bits = uniform.digits(count), _BITS * count
        least, most = digits * bound >> bits, ((digits + 1) * bound - 1) >> bits
        if least == most:
            return least
        count *= 2
