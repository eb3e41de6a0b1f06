"""Queries to a trusted curator about many labels at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries._noise import PARTS, discrete_laplace, epsilon_of, noisy_best, rate_below
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.privacy.accounting import rho_above

#: The largest number of cells without rows.
_MOST_EMPTY = 1 << 20
#: Rows that are counted at a time, or the number of counts if that is more.
_BLOCK = 1 << 18

Method = Literal["permute-and-flip", "exponential"]


@dataclass(frozen=True, eq=False)
class Query(ABC):
    """A query about many labels at once; ``Curator.answer`` answers it and charges for it.

    Attributes:
        space: The declared label space.
    """

    space: LabelSpace

    name: ClassVar[str]

    @abstractmethod
    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee of the answer, if a privacy unit has at most ``labels_of_a_unit`` labels."""

    @abstractmethod
    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of the draw, for the certificate."""

    @abstractmethod
    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that the query is not for.

        Raises:
            InputError: The number differs.
        """

    @abstractmethod
    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer for the class codes of the true labels."""

    def requested_epsilon(self, labels_of_a_unit: int) -> float:
        """The requested epsilon; it is the default budget."""
        return self.promise(labels_of_a_unit).epsilon


@dataclass(frozen=True, eq=False)
class CellQuery(Query):
    """A query about the labels of each cell, answered with exact noise.

    Cells are disjoint sets of rows, so the answer for all of them costs as much as for one.

    Attributes:
        epsilon: The requested epsilon; the certified one is never larger.
        cells: The number of each row's cell, from 0, computed without these labels; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
    """

    epsilon: float
    cells: Int[np.ndarray, "n"] | None = None
    cell_count: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            kind = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {kind}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        if self.cells is not None:
            object.__setattr__(self, "cells", cell_numbers(self.cells))
        least = 1 if self.cells is None else int(self.cells.max()) + 1
        count = _checks.whole(self.cell_count or least, "cell_count", least, least + _MOST_EMPTY)
        object.__setattr__(self, "cell_count", count)

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """The sensitivity to one replaced label, in steps of the noise."""

    def rate(self, labels_of_a_unit: int) -> int:
        """The rate of the noise, in ``PARTS``, if a privacy unit has at most ``labels_of_a_unit`` labels."""
        return rate_below(self.epsilon, self.sensitivity * labels_of_a_unit)

    def certified(self, labels_of_a_unit: int) -> float:
        """The certified epsilon, from the integers of the noise, rounded up."""
        return epsilon_of(self.rate(labels_of_a_unit), self.sensitivity * labels_of_a_unit)

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of the noise, for the certificate."""
        return {
            "kind": self.name,
            "rate": str(self.rate(labels_of_a_unit)),
            "parts": str(PARTS),
            "sensitivity": str(self.sensitivity),
            "labels_of_a_unit": str(labels_of_a_unit),
        }

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee of a trusted curator."""
        declared = "which row is in which cell is public and was not computed from these labels"
        assumed = () if self.cells is None else (declared,)
        epsilon = self.certified(labels_of_a_unit)
        return Guarantee(epsilon, trust="central", assumptions=assumed, rho=_rho(self.name, epsilon))

    def requested_epsilon(self, labels_of_a_unit: int) -> float:
        """The requested epsilon."""
        del labels_of_a_unit
        return self.epsilon

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that differs from that of the cells."""
        if self.cells is not None and len(self.cells) != rows:
            raise InputError(f"expected a cell for each of the {rows} rows, found {len(self.cells)}")

    def rows_of_cells(self, rows: int) -> Int[np.ndarray, "cells"]:
        """The public number of rows in each cell, of ``rows`` in total."""
        if self.cells is None:
            return np.array([rows, *[0] * (self.cell_count - 1)], dtype=np.int64)
        return np.bincount(self.cells, minlength=self.cell_count)


@dataclass(frozen=True, eq=False)
class CountQuery(CellQuery):
    """A query about the labels of each cell that is a function of class counts."""

    @abstractmethod
    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> np.ndarray:
        """The noisy answer from the true counts of each class in each cell."""

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer, from the counts of each class in each cell."""
        self.check_rows(len(codes))
        return self.values(self.counts(codes), self.rate(labels_of_a_unit), words)

    def counts(self, codes: Int[np.ndarray, "n"], first: int = 0) -> Int[np.ndarray, "cells k"]:
        """The true counts of each class in each cell, of rows from ``first`` on, block by block to save memory."""
        k = self.space.size
        counts = np.zeros(self.cell_count * k, dtype=np.int64)
        step = max(_BLOCK, counts.size)
        for low in range(0, len(codes), step):
            pairs = codes[low : low + step].astype(np.int64)
            if self.cells is not None:
                pairs += self.cells[first + low : first + low + len(pairs)].astype(np.int64) * k
            counts += np.bincount(pairs, minlength=counts.size)
        return counts.reshape(self.cell_count, k)


def promise_of_cells(law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
    """The guarantee of the answer to a query by cell, recomputed from the parameters in a certificate.

    Raises:
        ValueError: They are not valid parameters of such a query.
    """
    rate, parts, sensitivity, labels = (int(law[name]) for name in ("rate", "parts", "sensitivity", "labels_of_a_unit"))
    expected = _clipped_range(law, space) if law["kind"] == NoisyMean.name else 2
    if not 0 <= int(law.get("around", 0)) < space.size:
        raise ValueError("expected distances from a point of the grid, found another")
    if (parts, sensitivity) != (PARTS, expected) or rate < 1 or labels < 1:
        raise ValueError(f"expected noise for a sensitivity of {expected}, found other integers")
    epsilon = epsilon_of(rate, sensitivity * labels)
    return Guarantee(epsilon, trust="central", rho=_rho(law["kind"], epsilon))


def clip_of(law: Mapping[str, Any], space: LabelSpace) -> tuple[int, int]:
    """The codes that the labels of a mean are clipped to, by default the ends of the interval."""
    return int(law.get("lowest", 0)), int(law.get("highest", space.size - 1))


def _clipped_range(law: Mapping[str, Any], space: LabelSpace) -> int:
    """The sensitivity of a sum of clipped labels: the range that they are clipped to.

    Raises:
        ValueError: The ends are not two grid points in increasing order, or not in canonical form: both ends are
            present if labels are clipped, and neither if not.
    """
    low, high = clip_of(law, space)
    present = [name in law for name in ("lowest", "highest")]
    clipped = (low, high) != (0, space.size - 1)
    if not 0 <= low < high < space.size or present != [clipped, clipped]:
        raise ValueError("expected labels clipped to a part of the interval, found other ends")
    return high - low


def _rho(kind: str, epsilon: float) -> float | None:
    """The rho of a histogram, half of the one that its epsilon implies; None for other queries.

    A unit of m labels moves counts by numbers d whose positive parts sum to at most m, and so do the negative parts, so
    the sum of d^2 is at most 2 m^2. A count with noise of rate r that moves by d is pure at r |d|. The noise is
    independent, so rho is at most r^2 m^2, where 2 m r is epsilon: that of two counts that are pure at epsilon / 2.
    """
    return rho_above(epsilon, 2) if kind == NoisyHistogram.name else None


@dataclass(frozen=True, eq=False)
class NoisyHistogram(CountQuery):
    """The counts of each class in each cell, with discrete Laplace noise; shape (cells, k).

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.

    Guarantee:
        epsilon-label-DP: a replaced label moves two counts of its cell by one, so the noise has scale 2 / epsilon. Each
        count takes half of epsilon, so it is zero-concentrated with a rho of epsilon^2 / 4.

    References:
        Dwork et al. 2006; Ghosh et al. 2009 for integer noise; Ghazi et al. 2021, Algorithm 4, for its use as prior.

    Example:
        >>> from labeldp import Classes, Curator, NoisyHistogram
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 900 + ["yes"] * 100, space)
        >>> answer = curator.answer(NoisyHistogram(space, epsilon=1.0))
        >>> answer.value.shape, answer.guarantee.epsilon
        ((1, 2), 1.0)
    """

    name: ClassVar[str] = "noisy-histogram"

    @property
    def sensitivity(self) -> int:
        """Two counts move by one."""
        return 2

    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> Int[np.ndarray, "cells k"]:
        """The counts with independent noise on each."""
        return np.asarray(counts + discrete_laplace(counts.size, rate, words).reshape(counts.shape))


@dataclass(frozen=True, eq=False)
class NoisyArgmax(CountQuery):
    """The most common class of each cell, chosen with noise; class codes, shape (cells,).

    Args:
        space: The declared label space.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        method: ``"permute-and-flip"``, or ``"exponential"`` for the exponential mechanism, which is never better.

    Guarantee:
        epsilon-label-DP: a replaced label moves each count by at most one, one up and one down.

    References:
        McSherry and Talwar 2007; McKenna and Sheldon 2020, theorem 1; Zhao et al. 2025, equation (17).

    Example:
        >>> from labeldp import Classes, Curator, NoisyArgmax
        >>> space = Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 900 + ["yes"] * 100, space)
        >>> curator.answer(NoisyArgmax(space, epsilon=1.0)).points()
        ['no']
    """

    method: Method = "permute-and-flip"

    name: ClassVar[str] = "noisy-argmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in get_args(Method):
            raise InputError(f"expected a method among {', '.join(get_args(Method))}, found {self.method!r}")

    @property
    def sensitivity(self) -> int:
        """The best count and another move against each other by two."""
        return 2

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the noise, and the method."""
        return super().law(labels_of_a_unit) | {"method": self.method}

    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> Int[np.ndarray, "cells"]:
        """One class for each cell."""
        return noisy_best(counts, rate, words, again=self.method == "exponential")


@dataclass(frozen=True, eq=False)
class NoisyMean(CellQuery):
    """The mean label of each cell, for labels on an interval, with discrete Laplace noise on sums; shape (cells,).

    Args:
        space: A declared ``Interval``; labels beyond it are clipped to it.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        clip: Two grid points that labels are clipped to before they are summed; by default the ends of the interval. It
            must not have been computed from these labels, except by answers that were charged, such as those to
            ``NoisyQuantile``: a narrower range needs less noise.

    Guarantee:
        epsilon-label-DP: with lo and hi the ends of ``clip``, a cell's sum of ``min(max(y, lo), hi) - lo`` is counted
        in steps of the grid. Every term is between 0 and hi - lo, whatever the label, so a replaced label moves the sum
        of its cell by at most the number of steps from lo to hi, and the scale of the noise is that number over
        epsilon. The number of rows of a cell is public, so the mean has noise of scale (hi - lo) / (rows epsilon).
        Means are clipped to the same range. Each label of a unit moves sums by at most that many steps.

    References:
        Dwork et al. 2006; Zhao et al. 2025, equation (23) with the scale that its sensitivity requires, and equation
        (28) clipped on both sides: clipped from above alone, one label far below moves a mean arbitrarily far.

    Example:
        >>> from labeldp import Curator, Interval, NoisyMean
        >>> space = Interval(0.0, 10.0, 0.5)
        >>> curator = Curator([2.0, 3.0] * 500, space)
        >>> round(float(curator.answer(NoisyMean(space, epsilon=1.0)).value[0]), 0) in (2.0, 3.0)
        True
    """

    clip: tuple[float, float] | None = None

    name: ClassVar[str] = "noisy-mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.space, Interval):
            raise LabelError(f"expected labels on an Interval for a mean, found {type(self.space).__name__}")
        if self.clip is not None:
            object.__setattr__(self, "clip", _grid_range(self.clip, self.space))

    @property
    def ends(self) -> tuple[int, int]:
        """The codes that labels are clipped to."""
        if self.clip is None:
            return 0, self.space.size - 1
        return self.space.points.index(self.clip[0]), self.space.points.index(self.clip[1])

    @property
    def sensitivity(self) -> int:
        """The range that labels are clipped to, in steps."""
        low, high = self.ends
        return high - low

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of the noise, and the codes that labels are clipped to unless these are the grid's ends."""
        low, high = self.ends
        clipped = {} if self.sensitivity == self.space.size - 1 else {"lowest": str(low), "highest": str(high)}
        return super().law(labels_of_a_unit) | clipped

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "cells"]:
        """The means of cells with rows; NaN for cells without."""
        self.check_rows(len(codes))
        low, high = self.ends
        sums = self._sums(codes, low, high) + discrete_laplace(self.cell_count, self.rate(labels_of_a_unit), words)
        rows, points = self.rows_of_cells(len(codes)), np.asarray(self.space.points, dtype=np.float64)
        means = np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0)
        return np.asarray(np.interp(low + np.clip(means, 0, high - low), np.arange(len(points)), points))

    def _sums(self, codes: Int[np.ndarray, "n"], low: int, high: int) -> Int[np.ndarray, "cells"]:
        """The sum, in each cell, of clipped codes above the lower end, as integers.

        A block's sums are below 2^18 times 2^24, which floats add exactly.
        """
        sums = np.zeros(self.cell_count, dtype=np.int64)
        for first in range(0, len(codes), _BLOCK):
            above = np.clip(codes[first : first + _BLOCK], low, high).astype(np.int64) - low
            cells = np.zeros(len(above), np.int64) if self.cells is None else self.cells[first : first + _BLOCK]
            sums += np.bincount(cells, weights=above, minlength=self.cell_count).astype(np.int64)
        return sums


def _grid_range(clip: object, space: Interval) -> tuple[float, float]:
    """Two grid points in increasing order, checked."""
    values = clip if isinstance(clip, tuple | list | np.ndarray) and np.shape(clip) == (2,) else ()
    ends = [_checks.number(end, "clip") for end in values]
    if len(ends) != 2 or not all(end in space.points for end in ends) or not ends[0] < ends[1]:
        raise InputError(
            f"expected clip to be two points of the grid from {space.low} to {space.high} in steps of {space.step}, "
            f"the lower one first, found {clip!r}; labels are clipped to this range"
        )
    return ends[0], ends[1]


def cell_numbers(cells: object) -> Int[np.ndarray, "n"]:
    """Cell numbers from 0, in four bytes each if that is enough; for clusters, their ``numbers``."""
    cells = getattr(cells, "numbers", cells)
    array = np.asarray(cells)
    if np.ma.is_masked(cells):
        raise InputError("expected the number of each row's cell, found masked rows; assign them a cell")
    if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
        raise InputError(
            f"expected the number of each row's cell as integers of shape (rows,), found {array.dtype} of shape "
            f"{array.shape}; number the cells from 0, as pandas.factorize does"
        )
    if array.min() < 0 or array.max() > array.size + _MOST_EMPTY:
        raise InputError(f"expected cells numbered from 0 without large gaps, found {array.min()} to {array.max()}")
    fixed = array.astype(np.int32 if array.max() <= np.iinfo(np.int32).max else np.int64)
    fixed.flags.writeable = False
    return fixed
