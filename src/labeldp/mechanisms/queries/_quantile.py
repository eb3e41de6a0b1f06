"""Quantiles of labels on an interval, chosen by the exponential mechanism over all points of its grid."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp._words import Words
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries._noise import PARTS
from labeldp.mechanisms.queries._query import CellQuery
from labeldp.privacy import Interval, LabelSpace

_BITS = 64
#: Words that every cell begins with: those of the number that chooses a level, and one that chooses a point of it.
_LEVEL_WORDS, _POINT_WORDS = 3, 1
_CELL_WORDS = _LEVEL_WORDS + _POINT_WORDS
#: Words beyond, which a cell hardly ever needs; its two numbers have half of them each.
_MORE_WORDS = 1 << 20


@dataclass(frozen=True, eq=False, init=False)
class NoisyQuantile(CellQuery):
    """A quantile of the labels of each cell, for labels on an interval: a point of the grid; shape (cells,).

    With n labels in a cell, the quantile at a level is the label of rank t = max(1, ceil(level n)) from below. Every
    point v of the grid is released with a probability proportional to ``exp(-rate d(v))``, where d(v) says by how many
    ranks v misses t::

        d(v) = max(0, #(labels < v) - (t - 1), t - #(labels <= v))

    Args:
        space: A declared ``Interval``; labels beyond it are clipped to it.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        level: Between 0 and 1: 0.5 for the median.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        around: A point of the grid, public: then it is a quantile of how far labels are from it, on either side, as is
            needed to clip them; what is said here of labels and points holds of these distances, which are a function
            of one label each.

    Guarantee:
        * epsilon-label-DP. A replaced label moves #(labels < v) and #(labels <= v) by at most one, for every v, and
          leaves t, which follows from the public n. So it moves d(v) by at most one, that of some points up and that of
          others down: the weight of a point moves by a factor of at most exp(rate), and so does the sum of all weights
          the other way. With rate = epsilon / 2 the ratio is at most exp(epsilon), and comes close to it where most
          points lie beyond the labels. m labels of one unit move d(v) by at most m, and the rate is a m-th of that.
        * The draw is exact: integers with proven bounds decide, and more digits are taken where they do not.
        * How many rows a cell has is public. How many words are used, and the number of operations, follow from that
          and from the law, but for sorting labels, whose time may depend on them, and for further digits: of the level
          with a probability below 2^-128, of the point with one below k / 2^64. None of it is seen in the answer.
          Memory is in proportion to the rows, however many points the grid has.

    References:
        McSherry and Talwar 2007; Smith 2011, for quantiles by the exponential mechanism.

    Example:
        >>> from labeldp import Curator, Interval, NoisyQuantile
        >>> space = Interval(0.0, 10.0, 0.5)
        >>> curator = Curator([2.0] * 400 + [3.0] * 600, space)
        >>> float(curator.answer(NoisyQuantile(space, epsilon=1.0, level=0.5)).value[0])
        3.0
    """

    level: float = 0.5  # the constructor asks for it; fields of its bases have defaults
    around: float | None = None

    name: ClassVar[str] = "noisy-quantile"

    def __init__(
        self,
        space: LabelSpace,
        epsilon: float,
        level: float,
        cells: object = None,
        cell_count: int = 0,
        around: float | None = None,
    ) -> None:
        found = {"space": space, "epsilon": epsilon, "cells": cells, "cell_count": cell_count, "around": around}
        for name, value in found.items():
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
                f"expected around to be a point of the grid from {space.low} to {space.high} in steps of {space.step}, "
                f"found {around!r}"
            )

    @property
    def sensitivity(self) -> int:
        """The ranks that two points miss move against each other by two."""
        return 2

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the choice, the level, and the code of the point that distances are from."""
        around = {} if self.around is None else {"around": str(self.space.points.index(self.around))}
        return super().law(labels_of_a_unit) | {"level": repr(self.level)} | around

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "cells"]:
        """A point of the grid for each cell that has rows; NaN for those that have none."""
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
        begun = words.block(0, _CELL_WORDS * self.cell_count).reshape(-1, _CELL_WORDS).tolist()
        found, stop = np.full(self.cell_count, np.nan), 0
        for cell in np.flatnonzero(rows).tolist():
            start, stop = stop, stop + int(rows[cell])
            place = _CELL_WORDS * self.cell_count + _MORE_WORDS * cell
            chooses = Uniform(words, begun[cell][:_LEVEL_WORDS], place)
            places = Uniform(words, begun[cell][_LEVEL_WORDS:], place + _MORE_WORDS // 2)
            ranks = Ranks(keys[start:stop] - cell * k, rank_of(self.level, int(rows[cell])), k)
            found[cell] = points[drawn_point(ranks, decay, chooses, places)]
        return found


def quantile_points(law: Mapping[str, Any], space: LabelSpace) -> Float[np.ndarray, "points"]:
    """What quantiles can be: the points of the grid, or how far they can be from the one that a law names."""
    points = np.asarray(space.points, dtype=np.float64)
    if "around" not in law:
        return points
    centre = int(law["around"])
    above, below = points[centre:] - points[centre], (points[centre] - points[: centre + 1])[::-1]
    return np.asarray(above if len(above) >= len(below) else below)


def rank_of(level: float, rows: int) -> int:
    """The rank of a quantile among so many labels, from 1; the level is the decimal that it prints."""
    return max(1, math.ceil(Context(prec=800).multiply(Decimal(repr(level)), Decimal(rows))))


class Uniform:
    """A uniform number in [0, 1) whose binary digits are words, read as far as they are asked for."""

    def __init__(self, words: Words, begun: Sequence[int], place: int) -> None:
        self._words, self._begun, self._place = words, begun, place

    def digits(self, count: int) -> int:
        """Its first ``64 count`` binary digits, as an integer u: it is in [u, u + 1) / 2^(64 count)."""
        read = list(self._begun[:count])
        if count > len(read):
            read += self._words.block(self._place, count - len(read)).tolist()
        found = 0
        for word in read:
            found = found << _BITS | word
        return found


class Decay:
    """Lower bounds of the powers of ``q = exp(-rate / PARTS)``, in steps of ``2^-bits``."""

    def __init__(self, rate: int) -> None:
        self._exponent = Context(prec=800).divide(Decimal(-rate), Decimal(PARTS))
        self._known: dict[int, list[int]] = {}

    def below(self, bits: int, count: int) -> list[int]:
        """Integers a_m of at most ``q^m 2^bits``, for m below ``count``; those that are left out at the end are zero.

        They are at least ``q^m 2^bits - 3 m``: exp is rounded correctly, so the next number below is within two digits
        of it, and a_1 within two steps. Of a_(m+1) = floor(a_m a_1 / 2^bits), with e_m for what a_m lacks, it lacks at
        most one for the floor, e_1 a_m / 2^bits <= 2, and e_m q <= e_m.
        """
        found = self._known.setdefault(bits, [1 << bits, self._once(bits)])
        while len(found) < count and found[-1]:
            found.append(found[-1] * found[1] >> bits)
        return found[: found.index(0) if not found[-1] else None][:count]

    def _once(self, bits: int) -> int:
        context = Context(prec=100 + bits // 3)
        top, bottom = context.next_minus(context.exp(self._exponent)).as_integer_ratio()
        return (top << bits) // bottom


class Ranks:
    """The points of a grid by how many ranks they miss, from the sorted labels of a cell.

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
        #: No point misses more ranks than this.
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

    First a level m, the number of ranks that are missed, with probability proportional to ``q^m`` times the number of
    points that miss m; then one of these, uniformly.

    Let S_m be the sum of the weights of the levels up to m, in steps of 2^-bits, and s_m the sum computed from
    ``Decay.below``. No s_m exceeds S_m, and none lacks more than ``error``, three times the number of levels for each
    point of the grid; levels that were left out lack no more. The level is the first whose S_m exceeds x = U S, for U
    uniform and S the sum of all. The digits of U put x between two integers. Level m is the one if the lower is at
    least ``s_(m-1) + error``, and so at least S_(m-1), and the upper at most ``s_m``, and so at most S_m. If no level
    is proven to be the one, twice as many digits and bits decide; that has a probability of about error / 2^192.
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
    place = _below(sizes[level], places)
    left = int(low[level - 1] - low[level])
    return int(low[level]) + place if place < left else int(high[level - 1]) + 1 + place - left


def _below(bound: int, uniform: Uniform) -> int:
    """The whole part of ``bound`` times a uniform number, exactly: a uniform integer below ``bound``."""
    count = _POINT_WORDS
    while True:
        digits, bits = uniform.digits(count), _BITS * count
        least, most = digits * bound >> bits, ((digits + 1) * bound - 1) >> bits
        if least == most:
            return least
        count *= 2
