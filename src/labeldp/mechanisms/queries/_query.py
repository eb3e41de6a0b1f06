"""Queries: what a trusted curator may be asked of many labels at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Float, Int

from labeldp import _checks
from labeldp._words import Words
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries._noise import PARTS, discrete_laplace, epsilon_of, noisy_best, rate_below
from labeldp.privacy import Guarantee, Interval, LabelSpace
from labeldp.privacy.accounting import rho_above

#: Cells are numbered with at most so many gaps.
_MOST_EMPTY = 1 << 20
#: Rows that are counted at a time, or as many as there are counts if that is more.
_BLOCK = 1 << 18

Method = Literal["permute-and-flip", "exponential"]


@dataclass(frozen=True, eq=False)
class Query(ABC):
    """A question about many labels at once. It is asked through ``Curator.answer``, which charges for it.

    Attributes:
        space: The declared label space.
    """

    space: LabelSpace

    name: ClassVar[str]

    @abstractmethod
    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """What its answer promises of each row's label, where a unit of protection has at most so many labels."""

    @abstractmethod
    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers that it draws with: a certificate's words for it."""

    @abstractmethod
    def check_rows(self, rows: int) -> None:
        """Refuse another number of rows than it was made for.

        Raises:
            InputError: It was.
        """

    @abstractmethod
    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer for the class codes of the true labels."""

    def asked(self, labels_of_a_unit: int) -> float:
        """The epsilon that was asked for; without any other budget it is the budget."""
        return self.promise(labels_of_a_unit).epsilon


@dataclass(frozen=True, eq=False)
class CellQuery(Query):
    """A question about the labels of each cell, answered with exact noise.

    Cells hold different rows, so that the answer for all of them costs what it costs for one.

    Attributes:
        epsilon: The epsilon that was asked for; the certified one is never larger.
        cells: The number of each row's cell, from 0, computed without these labels; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
    """

    epsilon: float
    cells: Int[np.ndarray, "n"] | None = None
    cell_count: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            found = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {found}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))
        if self.cells is not None:
            object.__setattr__(self, "cells", cell_numbers(self.cells))
        least = 1 if self.cells is None else int(self.cells.max()) + 1
        count = _checks.whole(self.cell_count or least, "cell_count", least, least + _MOST_EMPTY)
        object.__setattr__(self, "cell_count", count)

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """How much one replaced label moves what noise is added to, in the steps that the noise counts."""

    def rate(self, labels_of_a_unit: int) -> int:
        """The rate of the noise, in ``PARTS``, where a unit of protection has at most so many labels."""
        return rate_below(self.epsilon, self.sensitivity * labels_of_a_unit)

    def certified(self, labels_of_a_unit: int) -> float:
        """What it costs, from the integers of the noise, rounded up."""
        return epsilon_of(self.rate(labels_of_a_unit), self.sensitivity * labels_of_a_unit)

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the noise: a certificate's words for it."""
        return {
            "kind": self.name,
            "rate": str(self.rate(labels_of_a_unit)),
            "parts": str(PARTS),
            "sensitivity": str(self.sensitivity),
            "labels_of_a_unit": str(labels_of_a_unit),
        }

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """A trusted curator's guarantee."""
        declared = "which row is in which cell is public and was not computed from these labels"
        assumed = () if self.cells is None else (declared,)
        epsilon = self.certified(labels_of_a_unit)
        return Guarantee(epsilon, trust="central", assumptions=assumed, rho=_rho(self.name, epsilon))

    def asked(self, labels_of_a_unit: int) -> float:
        """The epsilon that was asked for."""
        del labels_of_a_unit
        return self.epsilon

    def check_rows(self, rows: int) -> None:
        """Refuse another number of rows than there are cells for."""
        if self.cells is not None and len(self.cells) != rows:
            raise InputError(f"expected a cell for each of the {rows} rows, found {len(self.cells)}")

    def rows_of_cells(self, rows: int) -> Int[np.ndarray, "cells"]:
        """How many of so many rows each cell has, which is public."""
        if self.cells is None:
            return np.array([rows, *[0] * (self.cell_count - 1)], dtype=np.int64)
        return np.bincount(self.cells, minlength=self.cell_count)


@dataclass(frozen=True, eq=False)
class CountQuery(CellQuery):
    """A question about the labels of each cell that the counts of classes answer."""

    @abstractmethod
    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> np.ndarray:
        """The noisy answer for the true counts of each class in each cell; only what noise hides may leave."""

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> np.ndarray:
        """The answer, from the counts of each class in each cell."""
        self.check_rows(len(codes))
        return self.values(self._counts(codes), self.rate(labels_of_a_unit), words)

    def _counts(self, codes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "cells k"]:
        """The true counts of each class in each cell, block by block: the numbers of pairs would take much memory."""
        k = self.space.size
        counts = np.zeros(self.cell_count * k, dtype=np.int64)
        step = max(_BLOCK, counts.size)
        for low in range(0, len(codes), step):
            pairs = codes[low : low + step].astype(np.int64)
            if self.cells is not None:
                pairs += self.cells[low : low + step].astype(np.int64) * k
            counts += np.bincount(pairs, minlength=counts.size)
        return counts.reshape(self.cell_count, k)


def promise_of_cells(law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
    """What the answer to a query by cell promises, from the integers of its law.

    Raises:
        ValueError: They are not those of such a query.
    """
    rate, parts, sensitivity, labels = (int(law[name]) for name in ("rate", "parts", "sensitivity", "labels_of_a_unit"))
    moved = _range_of(law, space) if law["kind"] == NoisyMean.name else 2
    if not 0 <= int(law.get("around", 0)) < space.size:
        raise ValueError("expected distances from a point of the grid, found another")
    if (parts, sensitivity) != (PARTS, moved) or rate < 1 or labels < 1:
        raise ValueError(f"expected noise for a sensitivity of {moved}, found other integers")
    epsilon = epsilon_of(rate, sensitivity * labels)
    return Guarantee(epsilon, trust="central", rho=_rho(law["kind"], epsilon))


def clip_of(law: Mapping[str, Any], space: LabelSpace) -> tuple[int, int]:
    """The codes that the labels of a mean are clipped to: the ends of the interval where its law says no others."""
    return int(law.get("lowest", 0)), int(law.get("highest", space.size - 1))


def _range_of(law: Mapping[str, Any], space: LabelSpace) -> int:
    """How far one replaced label moves the sum of clipped labels: from one of their ends to the other.

    Raises:
        ValueError: The ends are not two points of the grid in their order, or not written in the one form: both are
            written where labels are clipped, and neither where they are not.
    """
    low, high = clip_of(law, space)
    written = [name in law for name in ("lowest", "highest")]
    clipped = (low, high) != (0, space.size - 1)
    if not 0 <= low < high < space.size or written != [clipped, clipped]:
        raise ValueError("expected labels clipped to a part of the interval, found other ends")
    return high - low


def _rho(kind: str, epsilon: float) -> float | None:
    """The rho of a histogram, which is half of what its epsilon alone says; of others nothing better is known.

    A unit of m labels moves counts by numbers d of which those above 0 add up to at most m, and those below 0 too, so
    the sum of d^2 is at most 2 m^2. A count with noise of rate r that moves by d is pure at r |d|. The noise is
    independent, so rho is at most r^2 m^2, where 2 m r is epsilon: that of two counts that are pure at epsilon / 2.
    """
    return rho_above(epsilon, 2) if kind == NoisyHistogram.name else None


@dataclass(frozen=True, eq=False)
class NoisyHistogram(CountQuery):
    """How many labels of each class are in each cell, with discrete Laplace noise; shape (cells, k).

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
        """Counts with noise on each."""
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
        """One class of each cell."""
        return noisy_best(counts, rate, words, again=self.method == "exponential")


@dataclass(frozen=True, eq=False)
class NoisyMean(CellQuery):
    """The mean label of each cell, for labels on an interval, with discrete Laplace noise on sums; shape (cells,).

    Args:
        space: A declared ``Interval``; labels beyond it are clipped to it.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        clip: Two points of the grid that labels are clipped to, from below and from above, before they are summed; by
            default the ends of the interval. It must not have been computed from these labels, except by answers that
            were charged, such as those to ``NoisyQuantile``: a narrower range needs less noise.

    Guarantee:
        epsilon-label-DP: with lo and hi the ends of ``clip``, a cell's sum of ``min(max(y, lo), hi) - lo`` is counted
        in steps of the grid. Every term is between 0 and hi - lo, whatever the label, so a replaced label moves the sum
        of its cell by at most the number of steps from lo to hi, and the noise has that number over epsilon for its
        scale. How many rows a cell has is public, so the mean has noise of scale (hi - lo) / (rows epsilon). Means are
        cut to the clipped range. Labels of a unit are in steps too, and move sums by at most so much each.

    References:
        Dwork et al. 2006; Zhao et al. 2025, equation (23) with the scale that its sensitivity asks for, and equation
        (28) clipped on both sides: from above alone, one label far below moves a mean as far as it likes.

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
        """From one end of what labels are clipped to, to the other."""
        low, high = self.ends
        return high - low

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The integers of the noise, and the codes that labels are clipped to if they are not the ends of the grid."""
        low, high = self.ends
        clipped = {} if self.sensitivity == self.space.size - 1 else {"lowest": str(low), "highest": str(high)}
        return super().law(labels_of_a_unit) | clipped

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "cells"]:
        """Means of the cells that have rows; NaN for those that have none."""
        self.check_rows(len(codes))
        low, high = self.ends
        sums = self._sums(codes, low, high) + discrete_laplace(self.cell_count, self.rate(labels_of_a_unit), words)
        rows, points = self.rows_of_cells(len(codes)), np.asarray(self.space.points, dtype=np.float64)
        means = np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0)
        return np.asarray(np.interp(low + np.clip(means, 0, high - low), np.arange(len(points)), points))

    def _sums(self, codes: Int[np.ndarray, "n"], low: int, high: int) -> Int[np.ndarray, "cells"]:
        """In each cell the sum of what clipped codes are above the lower end, in whole numbers.

        A block's sums are below 2^18 times 2^24, which floats add exactly.
        """
        sums = np.zeros(self.cell_count, dtype=np.int64)
        for first in range(0, len(codes), _BLOCK):
            above = np.clip(codes[first : first + _BLOCK], low, high).astype(np.int64) - low
            cells = np.zeros(len(above), np.int64) if self.cells is None else self.cells[first : first + _BLOCK]
            sums += np.bincount(cells, weights=above, minlength=self.cell_count).astype(np.int64)
        return sums


def _grid_range(clip: object, space: Interval) -> tuple[float, float]:
    """Two points of the grid, the lower first."""
    found = clip if isinstance(clip, tuple | list | np.ndarray) and np.shape(clip) == (2,) else ()
    ends = [_checks.number(end, "clip") for end in found]
    if len(ends) != 2 or not all(end in space.points for end in ends) or not ends[0] < ends[1]:
        raise InputError(
            f"expected clip to be two points of the grid from {space.low} to {space.high} in steps of {space.step}, "
            f"the lower one first, found {clip!r}; the labels are clipped to both"
        )
    return ends[0], ends[1]


def cell_numbers(cells: object) -> Int[np.ndarray, "n"]:
    """Cells as numbers from 0, in four bytes each where that is enough; of clusters, their ``numbers``."""
    cells = getattr(cells, "numbers", cells)
    array = np.asarray(cells)
    if np.ma.is_masked(cells):
        raise InputError("expected the number of each row's cell, found rows without one; give them a cell")
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
