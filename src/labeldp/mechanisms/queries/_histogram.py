"""Histograms: the counts of each class in each cell, with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import VerificationError
from labeldp.mechanisms.queries._noise import discrete_laplace, laplace_deviation, laplace_margin
from labeldp.mechanisms.queries._query import CountQuery
from labeldp.mechanisms.queries._readings import Counts
from labeldp.mechanisms.queries._stored_form import StoredForm, check_steps, class_columns
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.accounting import rho_above

#: The probability below which an answer is refused.
_IMPLAUSIBLE = 1e-9


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
    about: ClassVar[str] = "Class counts of each cell, with discrete Laplace noise"
    margin_text: ClassVar[str] = "any one count is off by at most {}"

    @classmethod
    def sensitivity_of(cls, _: Mapping[str, Any], __: LabelSpace) -> int:
        """Two counts move by one."""
        return 2

    @classmethod
    def rho_of(cls, epsilon: float) -> float:
        """Half of the rho that epsilon implies.

        A unit of m labels moves counts by numbers d whose positive parts sum to at most m, and so do the negative
        parts, so the sum of d^2 is at most 2 m^2. A count with noise of rate r that moves by d is pure at ``r |d|``.
        The noise is independent, so rho is at most r^2 m^2, where 2 m r is epsilon: that of two counts that are pure at
        epsilon / 2.
        """
        return rho_above(epsilon, 2)

    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> Int[np.ndarray, "cells k"]:
        """The counts with independent noise on each."""
        return np.asarray(counts + discrete_laplace(counts.size, rate, words).reshape(counts.shape))

    @classmethod
    def stored(cls, _: Mapping[str, Any], space: LabelSpace) -> StoredForm:
        """A column for each class."""
        return StoredForm(class_columns(space), "numbers", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, _: Mapping[str, Any], __: LabelSpace) -> None:
        """Counts are whole numbers."""
        check_steps(value, 0)

    @classmethod
    def check_plausible(cls, value: np.ndarray, law: Mapping[str, Any], rows: int) -> None:
        """The sum of all counts, less the public number of rows, is a sum of noise: it is seldom too small.

        A single noise is any one number with a probability of at most ``(1 - q) / (1 + q) = tanh(r / 2)``, for
        ``q = exp(-r)``, and so is a sum of independent ones. So the sum is at most d in size with a probability of at
        most ``(2 d + 1) tanh(r / 2)``, whatever the labels.
        """
        super().check_plausible(value, law, rows)
        distance = abs(sum(map(int, value.ravel().tolist())) - rows)
        chance = (2 * distance + 1) * math.tanh(int(law["rate"]) / int(law["parts"]) / 2)
        if chance < _IMPLAUSIBLE:
            raise VerificationError(
                f"expected counts with noise of standard deviation {cls.deviation(law):.3g}, found a sum of them "
                f"that is only {distance} off the number of rows, which has a probability of at most {chance:.2g}"
            )

    @classmethod
    def deviation(cls, law: Mapping[str, Any]) -> float:
        """The standard deviation of the noise on each count."""
        return laplace_deviation(int(law["rate"]), int(law["parts"]))

    @classmethod
    def standard_error(
        cls, law: Mapping[str, Any], _: LabelSpace, __: Int[np.ndarray, "cells"] | None
    ) -> Float[np.ndarray, ""]:
        """The standard deviation of the noise, the same on each count."""
        return np.asarray(cls.deviation(law))

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], _: LabelSpace, __: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, ""]:
        """The quantile of the noise, the same for each count."""
        return np.asarray(float(laplace_margin(int(law["rate"]), int(law["parts"]), confidence)))

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> Counts:
        """Counts of classes."""
        return Counts(value, cls.deviation(law))

    @classmethod
    def forecast(cls, space: LabelSpace, epsilon: float) -> tuple[float, float]:
        """The noise on the difference of two counts; on a sum, weighted by a point's distance from the middle."""
        query, weight = cls(space, epsilon), 2.0
        if isinstance(space, Interval):
            points = np.asarray(space.points, dtype=np.float64)
            weight = float(np.sum((points - points.mean()) ** 2))
        return query.certified(1), weight * cls.deviation(query.law(1)) ** 2
