"""The most common class of each cell, chosen with noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from labeldp._random_words import Words
from labeldp._shapes import Int
from labeldp.errors import InputError
from labeldp.mechanisms.queries._law_fields import LawFields
from labeldp.mechanisms.queries._noise import PARTS, noisy_best
from labeldp.mechanisms.queries._query import CountQuery
from labeldp.mechanisms.queries._readings import Choices
from labeldp.mechanisms.queries._stored_form import StoredForm
from labeldp.privacy import Interval, LabelSpace

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
