"""The most common class of each cell, chosen with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.mechanisms.queries._noise import PARTS, least_margin, noisy_best
from labeldp.mechanisms.queries._query import CountQuery, up_to_rows
from labeldp.mechanisms.queries._readings import Choices
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm
from labeldp.privacy import Interval, LabelSpace

#: A probability below which a bound replaces a difference of nearly equal numbers.
_TINY = 1e-4

Method = Literal["permute-and-flip", "exponential"]


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
    margin_text: ClassVar[str] = "in rows, the named class is at most {} behind the most common one"
    about: ClassVar[str] = "Most common class of each cell, by permute-and-flip or the exponential mechanism"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in get_args(Method):
            raise InputError(f"expected a method among {', '.join(get_args(Method))}, found {self.method!r}")

    @property
    def parameters(self) -> dict[str, Any]:
        """The method."""
        return {"method": self.method}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The method, one of two."""
        return LawFields({"method": lambda value: value in get_args(Method)}, {})

    @classmethod
    def sensitivity_of(cls, _: Mapping[str, Any], __: LabelSpace) -> int:
        """The best count and another move against each other by two."""
        return 2

    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> Int[np.ndarray, "cells"]:
        """One class for each cell."""
        return noisy_best(counts, rate, words, again=self.method == "exponential")

    @classmethod
    def stored(cls, _: Mapping[str, Any], __: LabelSpace) -> StoredForm:
        """A column of classes."""
        return StoredForm(("released",), "class", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """Every class is possible."""

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, "..."]:
        """The rows by which the class of a cell is behind its most common one.

        Let g = m + 1 and a = exp(-rate g). The probability that the class is g or more behind is largest if all k - 1
        other classes are exactly g behind. For the exponential mechanism it is then ``(k - 1) a / (1 + (k - 1) a)``,
        since classes that are g or more behind have a total weight of at most (k - 1) a times that of the best class.
        Permute-and-flip names the largest count with exponential noise; lowering the count of a class that is less than
        g behind, other than the best one, to g, and raising those beyond g to g, only adds to the outcomes at which
        some class that is g or more behind is the largest. The best class then wins with probability
        ``integral_0^1 (1 - a u)^(k - 1) du = (1 - (1 - a)^k) / (k a)``, where u is the exponential of its noise.

        References:
            Ding et al. 2021, for permute-and-flip as a maximum of counts with exponential noise.
        """
        rate, k = int(law["rate"]) / int(law["parts"]), space.size

        def exponential(m: int) -> float:
            odds = (k - 1) * math.exp(-rate * (m + 1))
            return odds / (1.0 + odds)

        def permute_and_flip(m: int) -> float:
            a = math.exp(-rate * (m + 1))
            most = (k - 1) * a / 2.0  # (1 - a)^k <= 1 - k a + k (k - 1) a^2 / 2
            return most if most < _TINY else 1.0 + math.expm1(k * math.log1p(-a)) / (k * a)

        found = least_margin(exponential if law["method"] == "exponential" else permute_and_flip, confidence)
        return up_to_rows(found, rows)

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> Choices:
        """One common class of each cell."""
        return Choices(value[:, None], int(law["rate"]) / int(law["parts"]))

    @classmethod
    def forecast(cls, space: LabelSpace, epsilon: float) -> tuple[float, float] | None:
        """The noise on the difference of two counts; nothing about sums.

        Permute-and-flip is the maximum of counts with exponential noise, whose differences are Laplace (Ding 2021).
        """
        if isinstance(space, Interval):
            return None
        query = cls(space, epsilon)
        return query.certified(1), 2 * (PARTS / query.rate(1)) ** 2
