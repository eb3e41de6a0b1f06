"""The mean label of each cell, for labels on an interval, with noise on sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import InputError, LabelError
from labeldp.mechanisms.queries._noise import discrete_laplace, laplace_deviation, laplace_margin
from labeldp.mechanisms.queries._query import CellQuery, cell_rows
from labeldp.mechanisms.queries._readings import Means
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, check_possible, integer
from labeldp.privacy import Interval, LabelSpace

#: Rows that are summed at a time.
_BLOCK = 1 << 18
#: The probability below which an answer is refused.
_IMPLAUSIBLE = 1e-9


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
        epsilon. The number of rows of a cell is public, so the mean has noise of scale (hi - lo) / (rows epsilon). It
        is unbiased, and may lie beyond the range; ``Answer.means`` cuts it. Each label of a unit moves sums by at most
        that many steps.

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
    margin_text: ClassVar[str] = "any one mean of clipped labels is off by at most {}"
    about: ClassVar[str] = "Mean of (clipped) numeric labels of each cell, with discrete Laplace noise"

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
    def parameters(self) -> dict[str, Any]:
        """The codes that labels are clipped to, unless these are the grid's ends."""
        low, high = self.ends
        return {} if high - low == self.space.size - 1 else {"lowest": str(low), "highest": str(high)}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The codes that labels are clipped to, if they are."""
        return LawFields({}, dict.fromkeys(("lowest", "highest"), integer))

    @classmethod
    def sensitivity_of(cls, parameters: Mapping[str, Any], space: LabelSpace) -> int:
        """The range that labels are clipped to, in steps.

        Raises:
            ValueError: The ends are not two grid points in increasing order, or not in canonical form: both ends are
                present if labels are clipped, and neither if not.
        """
        low, high = _ends(parameters, space)
        present = [name in parameters for name in ("lowest", "highest")]
        clipped = (low, high) != (0, space.size - 1)
        if not 0 <= low < high < space.size or present != [clipped, clipped]:
            raise ValueError("expected labels clipped to a part of the interval, found other ends")
        return high - low

    def answer(self, codes: Int[np.ndarray, "n"], labels_of_a_unit: int, words: Words) -> Float[np.ndarray, "cells"]:
        """The unbiased means of cells with rows, which noise can move beyond the range; NaN for cells without."""
        self.check_rows(len(codes))
        low, high = self.ends
        sums = self._sums(codes, low, high) + discrete_laplace(self.cell_count, self.rate(labels_of_a_unit), words)
        rows, points = self.rows_of_cells(len(codes)), np.asarray(self.space.points, dtype=np.float64)
        codes_of_means = low + np.divide(sums, rows, out=np.full(len(rows), np.nan), where=rows > 0)
        inside = np.interp(codes_of_means, np.arange(len(points)), points)
        beyond = codes_of_means - np.clip(codes_of_means, 0, len(points) - 1)
        return np.asarray(inside + beyond * _step(self.space))

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

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column of means."""
        return StoredForm(("mean",), "number", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """Means are no farther beyond the interval that labels are clipped to than noise is, but for 1e-9.

        Cells have the listed number of rows, or one at least. Before laws listed rows, means were cut.
        """
        low, high = (float(space.points[end]) for end in _ends(law, space))
        doubt, rows = _IMPLAUSIBLE / max(len(value), 1), cell_rows(law, 1, len(value))
        of_sum = laplace_margin(int(law["rate"]), int(law["parts"]), 1.0 - doubt) * _step(space) * (1.0 + 1e-9)
        beyond = np.asarray(of_sum if "rows" in law else 0.0) / np.maximum(1 if rows is None else rows, 1)
        check_possible(beyond.shape in ((), value.shape))
        check_possible(not ((value < low - beyond) | (value > high + beyond) | np.isinf(value)).any())

    @classmethod
    def sum_deviation(cls, law: Mapping[str, Any], space: LabelSpace) -> float:
        """The standard deviation of the noise on the sum of a cell's labels, in their units."""
        return laplace_deviation(int(law["rate"]), int(law["parts"])) * _step(space)

    @classmethod
    def standard_error(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None
    ) -> Float[np.ndarray, "cells"] | None:
        """The standard deviation of the noise on each mean: that on a sum over the rows; NaN for cells without."""
        return None if rows is None else _over(cls.sum_deviation(law, space), rows)

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, "cells"] | None:
        """The quantile of the noise on each sum, over the rows."""
        of_sum = laplace_margin(int(law["rate"]), int(law["parts"]), confidence) * _step(space)
        return None if rows is None else _over(of_sum, rows)

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> Means:
        """Means of cells."""
        low, high = (float(space.points[end]) for end in _ends(law, space))
        return Means(value, cls.sum_deviation(law, space), low, high)

    @classmethod
    def forecast(cls, space: LabelSpace, epsilon: float) -> tuple[float, float] | None:
        """The noise on the sum of a cell's labels; nothing about classes."""
        if not isinstance(space, Interval):
            return None
        query = cls(space, epsilon)
        return query.certified(1), cls.sum_deviation(query.law(1), space) ** 2


def _ends(parameters: Mapping[str, Any], space: LabelSpace) -> tuple[int, int]:
    """The codes that the labels of a mean are clipped to, by default the ends of the interval."""
    return int(parameters.get("lowest", 0)), int(parameters.get("highest", space.size - 1))


def _step(space: LabelSpace) -> float:
    return float(space.points[-1] - space.points[0]) / (space.size - 1)


def _over(size: float, rows: Int[np.ndarray, "cells"]) -> Float[np.ndarray, "cells"]:
    """The size of noise on a sum over the number of rows, NaN for cells without."""
    return np.asarray(np.divide(size, rows, out=np.full(len(rows), np.nan), where=rows > 0))


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
