"""The most common classes of each cell, chosen with noise at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.errors import VerificationError
from labeldp.mechanisms.queries._noise import discrete_laplace, least_margin
from labeldp.mechanisms.queries._query import CountQuery, up_to_rows
from labeldp.mechanisms.queries._readings import Choices
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, integer
from labeldp.privacy import LabelSpace

#: The place in the stream of the words that decide between equal noisy counts; noise never reaches it.
_TIES = 1 << 60


@dataclass(frozen=True, eq=False)
class NoisyTopK(CountQuery):
    """The m most common classes of each cell in order, chosen with noise; class codes, shape (cells, m).

    Args:
        space: The declared label space, of k classes.
        epsilon: Natural logarithm of the allowed ratio, above 0.
        cells: The number of each row's cell, from 0, public; by default all rows are in one.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
        top: The number m of classes to name for each cell, from 1 to k.

    Guarantee:
        epsilon-label-DP. Each count gets an independent geometric number z of at least 0, with ``P(z)`` proportional to
        ``exp(-rate z)``, and the m largest sums are named in order; words decide between equal ones. Fix these words,
        and the noise on all classes but the m of an outcome S. Replacing the labels of a unit moves the counts of its
        cell by whole numbers d, whose positive parts sum to at most u, the number of its labels, and whose negative
        parts do too. Add ``t - d_j >= 0`` to the noise on each class j of S, where t is the largest d. Then every sum
        in S has moved by t and no other by more, so the outcome is S again. This maps noise one to one to noise, whose
        probability is smaller by the factor ``exp(-rate sum_j (t - d_j))``, and the sum is at most ``m t`` and the
        negative parts: ``(m + 1) u``. So epsilon is ``rate (m + 1) u``. Choosing m times at epsilon / m each would need
        a rate that is smaller by ``(m + 1) / (2 m)``.

        Of a unit with rows in several cells, each cell has its own t and u, and these sum to at most those of the unit.
        If all k classes are named, the last follows from the others, so m is then k - 1.

    References:
        Durfee and Rogers 2019, for the m largest noisy counts at once, with Gumbel noise; Ding et al. 2021 and McKenna
        and Sheldon 2020: at m = 1 this is permute-and-flip, since an exponential variable is a geometric number plus an
        independent fraction, so that equal numbers are in any order with the same probability.

    Raises:
        InputError: A number of classes that is not from 1 to k.

    Example:
        >>> from labeldp import Classes, Curator, NoisyTopK
        >>> space = Classes(["a", "b", "c"])
        >>> curator = Curator(["a"] * 300 + ["b"] * 900 + ["c"] * 100, space)
        >>> curator.answer(NoisyTopK(space, epsilon=1.0, top=2)).points()
        [['b', 'a']]
    """

    top: int = field(kw_only=True)

    name: ClassVar[str] = "noisy-top-k"
    margin_text: ClassVar[str] = "in rows, a named class is at most {} behind any class that is not named before it"
    about: ClassVar[str] = "The m most common classes of each cell in order, chosen with noise at once"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "top", _checks.whole(self.top, "top", 1, self.space.size))

    @property
    def parameters(self) -> dict[str, Any]:
        """The number of classes for each cell."""
        return {"top": str(self.top)}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The number of classes for each cell."""
        return LawFields({"top": integer}, {})

    @classmethod
    def sensitivity_of(cls, parameters: Mapping[str, Any], space: LabelSpace) -> int:
        """One for each class that is chosen and does not follow from the others, and one for the count that falls.

        Raises:
            ValueError: There are more classes than in the space, or none.
        """
        if not 1 <= int(parameters["top"]) <= space.size:
            raise ValueError("expected a number of classes of the space, found another")
        return min(int(parameters["top"]), space.size - 1) + 1

    def values(self, counts: Int[np.ndarray, "cells k"], rate: int, words: Words) -> Int[np.ndarray, "cells m"]:
        """The classes with the largest noisy counts; words decide between equal ones."""
        noisy = counts + _geometric(counts.size, rate, words).reshape(counts.shape)
        ties = words.block(_TIES, counts.size).reshape(counts.shape)
        return np.asarray(np.lexsort((ties, -noisy), axis=-1)[:, : self.top])

    @classmethod
    def stored(cls, law: Mapping[str, Any], _: LabelSpace) -> StoredForm:
        """A column for each rank."""
        return StoredForm(tuple(f"rank{rank}" for rank in range(1, int(law["top"]) + 1)), "classes", by_row=False)

    @classmethod
    def check_value(cls, value: np.ndarray, _: Mapping[str, Any], __: LabelSpace) -> None:
        """The classes of a cell differ."""
        if (np.diff(np.sort(value, axis=1), axis=1) == 0).any():
            raise VerificationError("expected different classes for each cell, found one twice")

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, "..."]:
        """The rows by which any named class of a cell is behind any class that is not named before it.

        If class j is g = m + 1 or more rows behind such a class, its noise exceeds that of the other by g or more, so
        it is at least g. Class j is not the most common one. So one of the k - 1 other classes has noise of at least g,
        with a probability of ``1 - (1 - exp(-rate g))^(k - 1)``.
        """
        rate, k = int(law["rate"]) / int(law["parts"]), space.size
        found = least_margin(lambda m: -math.expm1((k - 1) * math.log1p(-math.exp(-rate * (m + 1)))), confidence)
        return up_to_rows(found, rows)[..., None]

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], _: LabelSpace) -> Choices:
        """Common classes of each cell."""
        return Choices(value, int(law["rate"]) / int(law["parts"]))


def _geometric(count: int, rate: int, words: Words) -> Int[np.ndarray, "count"]:
    """Independent integers of at least 0, with ``P(z)`` proportional to ``exp(-z rate / PARTS)``.

    They are the first draws of discrete Laplace noise that are not negative, more than half of all.
    """
    drawn = 2 * count + 64
    while True:
        found = discrete_laplace(drawn, rate, words)
        found = found[found >= 0]
        if len(found) >= count:
            return found[:count]
        drawn *= 2
