"""Queries to a trusted curator about many labels at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from labeldp import _checks
from labeldp._arrays import read_only
from labeldp._random_words import Words
from labeldp._shapes import Float, Int
from labeldp.columns import row_names
from labeldp.errors import InputError, LabelError, VerificationError
from labeldp.mechanisms.queries._noise import PARTS, epsilon_of, rate_below
from labeldp.mechanisms.queries._readings import Reading
from labeldp.mechanisms.queries._stored_form import LawFields, StoredForm, integer
from labeldp.privacy import Guarantee, LabelSpace

#: The largest number of cells without rows.
_MOST_EMPTY = 1 << 20
#: The most cells whose numbers of rows are listed in a law.
_MOST_LISTED = 1 << 16
#: The number of rows of each cell, in place of a list: all rows are in the first one; or there are too many cells.
_ALL, _NOT_LISTED = "all", "not listed"
#: Rows that are counted at a time, or the number of counts if that is more.
_BLOCK = 1 << 18

_NOISE_FIELDS = ("rate", "parts", "sensitivity", "labels_of_a_unit")


@dataclass(frozen=True)
class AnswerText:
    """An answer about all labels of a table, in words.

    Attributes:
        name: The noun for the answer.
        number: The answer.
        text: The answer as it is printed.
        warning: A warning that it may be far off; empty without one.
        following: What usually comes next; empty if nothing does.
    """

    name: str
    number: float
    text: str
    warning: str = ""
    following: str = ""


@dataclass(frozen=True, eq=False)
class Query(ABC):
    """A query about many labels at once; ``Curator.answer`` answers it and charges for it.

    The class methods are the facts about its answers that other packages need. None has a default but the last six,
    whose default is that there is nothing to check, to state or to read. Queries of another distribution are found by
    entry points in the group ``labeldp.mechanisms``.

    Attributes:
        space: The declared label space.
        row_names: The index of each public parameter with a value for each row, which a curator compares with that of
            the labels; None without one.
    """

    space: LabelSpace
    row_names: Mapping[str, Any] = field(default_factory=dict, init=False, repr=False)

    #: The name of the query in certificates, and a description for lists of mechanisms.
    name: ClassVar[str]
    about: ClassVar[str]

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

    @classmethod
    @abstractmethod
    def fields(cls) -> LawFields:
        """The fields of its law, with their formats."""

    @classmethod
    @abstractmethod
    def promise_of(cls, law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from a law whose fields are in their formats.

        Raises:
            ValueError: They are not valid parameters of such a query.
        """

    @classmethod
    @abstractmethod
    def stored(cls, law: Mapping[str, Any], space: LabelSpace) -> StoredForm:
        """The columns in which an answer is stored."""

    @classmethod
    @abstractmethod
    def check_value(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> None:
        """Refuse an answer that is impossible under the law.

        Raises:
            VerificationError: It is.
        """

    @classmethod
    def check_plausible(cls, value: np.ndarray, law: Mapping[str, Any], rows: int) -> None:
        """Refuse an answer that is practically impossible, given public facts such as the number of rows.

        An honest answer is refused with a probability of at most 1e-9.

        Raises:
            VerificationError: It is.
        """
        del value, law, rows

    #: A sentence about ``margin``, with a place for the number; empty if there is none.
    margin_text: ClassVar[str] = ""

    @classmethod
    def standard_error(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None
    ) -> Float[np.ndarray, "..."] | None:
        """The standard deviation of the noise on each entry; None if the answer is not a sum of numbers and noise.

        Args:
            law: The law of the answer.
            space: The label space.
            rows: The public number of rows of each cell (``cell_rows``); None where it is unknown.
        """
        del law, space, rows
        return None

    @classmethod
    def margin(
        cls, law: Mapping[str, Any], space: LabelSpace, rows: Int[np.ndarray, "cells"] | None, confidence: float
    ) -> Float[np.ndarray, "..."] | None:
        """The error that noise exceeds with a probability of at most ``1 - confidence``, whatever the labels.

        It is that of each entry, and the unit is said by ``margin_text``. None if no such bound is known.
        """
        del law, space, rows, confidence
        return None

    @classmethod
    def in_words(
        cls, read: Callable[[], np.ndarray], law: Mapping[str, Any], space: LabelSpace, rows: int
    ) -> AnswerText | None:
        """An answer about so many rows, which ``read`` reads, in words; None if the size of its noise says all."""
        del read, law, space, rows
        return None

    @classmethod
    def reading(cls, value: np.ndarray, law: Mapping[str, Any], space: LabelSpace) -> Reading | None:
        """The statistic that learners read from an answer; None if there is none."""
        del value, law, space
        return None

    @classmethod
    def forecast(cls, space: LabelSpace, epsilon: float) -> tuple[float, float] | None:
        """The certified epsilon, and the variance of the noise drawn once for a cell, for plans.

        It is that on the sum of a cell's labels on an interval, and on the difference of the counts of two classes.
        None if the answer gives neither.
        """
        del space, epsilon
        return None

    def requested_epsilon(self, labels_of_a_unit: int) -> float:
        """The requested epsilon; it is the default budget."""
        return self.promise(labels_of_a_unit).epsilon


@dataclass(frozen=True, eq=False)
class CalibratedQuery(Query):
    """A query whose noise is calibrated to a requested epsilon.

    Attributes:
        epsilon: The requested epsilon; the certified one is never larger.
    """

    epsilon: float

    def __post_init__(self) -> None:
        if not isinstance(self.space, LabelSpace):
            kind = type(self.space).__name__
            raise LabelError(f"expected a declared label space first, such as Classes(['a', 'b']), found {kind}")
        object.__setattr__(self, "epsilon", _checks.epsilon(self.epsilon))

    def requested_epsilon(self, labels_of_a_unit: int) -> float:
        """The requested epsilon."""
        del labels_of_a_unit
        return self.epsilon


@dataclass(frozen=True, eq=False)
class CellQuery(CalibratedQuery):
    """A query about the labels of each cell, answered with exact noise.

    Cells are disjoint sets of rows, so the answer for all of them costs as much as for one. Its guarantee follows from
    ``sensitivity_of`` and ``rho_of``.

    Attributes:
        cells: The number of each row's cell, from 0, computed without these labels; by default all rows are in one. The
            number of rows of each cell is public: the certificate lists it.
        cell_count: The number of cells, those without rows included; by default one more than the largest.
    """

    cells: Int[np.ndarray, "n"] | None = None
    cell_count: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells is not None:
            object.__setattr__(self, "row_names", {"cells": row_names(self.cells)})
            object.__setattr__(self, "cells", cell_numbers(self.cells))
        least = 1 if self.cells is None else int(self.cells.max()) + 1
        count = _checks.whole(self.cell_count or least, "cell_count", least, least + _MOST_EMPTY)
        object.__setattr__(self, "cell_count", count)

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields of the law beside the integers of the noise."""
        return {}

    @classmethod
    def parameter_fields(cls) -> LawFields:
        """The formats of ``parameters``."""
        return LawFields({}, {})

    @classmethod
    @abstractmethod
    def sensitivity_of(cls, parameters: Mapping[str, Any], space: LabelSpace) -> int:
        """The sensitivity to one replaced label, in steps of the noise.

        Raises:
            ValueError: They are not valid parameters of such a query.
        """

    @classmethod
    def rho_of(cls, epsilon: float) -> float | None:
        """The rho of zero-concentrated privacy, if it is better than the one that epsilon implies."""
        del epsilon
        return None

    @property
    def sensitivity(self) -> int:
        """The sensitivity to one replaced label, in steps of the noise."""
        return self.sensitivity_of(self.parameters, self.space)

    def rate(self, labels_of_a_unit: int) -> int:
        """The rate of the noise, in ``PARTS``, if a privacy unit has at most ``labels_of_a_unit`` labels."""
        return rate_below(self.epsilon, self.sensitivity * labels_of_a_unit)

    def certified(self, labels_of_a_unit: int) -> float:
        """The certified epsilon, from the integers of the noise, rounded up."""
        return epsilon_of(self.rate(labels_of_a_unit), self.sensitivity * labels_of_a_unit)

    def law(self, labels_of_a_unit: int) -> dict[str, Any]:
        """The parameters of the noise and of the query, for the certificate."""
        integers = (self.rate(labels_of_a_unit), PARTS, self.sensitivity, labels_of_a_unit)
        noise = dict(zip(_NOISE_FIELDS, map(str, integers), strict=True))
        return {"kind": self.name, **noise, **self.parameters, "rows": self._listed_rows}

    @property
    def _listed_rows(self) -> str | list[str]:
        """The public number of rows of each cell, for the law."""
        if self.cells is None:
            return _ALL
        if self.cell_count > _MOST_LISTED:
            return _NOT_LISTED
        return list(map(str, self.rows_of_cells(len(self.cells)).tolist()))

    def promise(self, labels_of_a_unit: int) -> Guarantee:
        """The guarantee of a trusted curator."""
        declared = "which row is in which cell is public and was not computed from these labels"
        assumed = () if self.cells is None else (declared,)
        epsilon = self.certified(labels_of_a_unit)
        return Guarantee(epsilon, trust="central", assumptions=assumed, rho=self.rho_of(epsilon))

    @classmethod
    def fields(cls) -> LawFields:
        """The integers of the noise, the parameters of the query, and the rows of cells, which old laws lack."""
        further = cls.parameter_fields()
        optional = {**further.optional, "rows": _are_rows}
        return LawFields({**dict.fromkeys(_NOISE_FIELDS, integer), **further.required}, optional)

    @classmethod
    def check_plausible(cls, value: np.ndarray, law: Mapping[str, Any], rows: int) -> None:
        """Refuse numbers of rows of cells that are not those of the answer."""
        listed = cell_rows(law, rows, len(value))
        if listed is not None and (len(listed), int(listed.sum())) != (len(value), rows):
            raise VerificationError(
                f"expected the rows of {len(value)} cells, {rows} in total, found {len(listed)} cells with "
                f"{listed.sum()} rows"
            )

    @classmethod
    def promise_of(cls, law: Mapping[str, Any], space: LabelSpace) -> Guarantee:
        """The guarantee, recomputed from the integers of the noise."""
        rate, parts, sensitivity, labels = (int(law[name]) for name in _NOISE_FIELDS)
        expected = cls.sensitivity_of(law, space)
        if (parts, sensitivity) != (PARTS, expected) or min(rate, labels, sensitivity) < 1:
            raise ValueError(f"expected noise for a sensitivity of {expected}, found other integers")
        epsilon = epsilon_of(rate, sensitivity * labels)
        return Guarantee(epsilon, trust="central", rho=cls.rho_of(epsilon))

    def check_rows(self, rows: int) -> None:
        """Refuse a number of rows that differs from that of the cells."""
        if self.cells is not None and len(self.cells) != rows:
            raise InputError(f"expected a cell for each of the {rows} rows, found {len(self.cells)}")

    def rows_of_cells(self, rows: int) -> Int[np.ndarray, "cells"]:
        """The public number of rows in each cell, of ``rows`` in total."""
        if self.cells is None:
            return np.array([rows, *[0] * (self.cell_count - 1)], dtype=np.int64)
        return np.bincount(self.cells, minlength=self.cell_count)


def cell_rows(law: Mapping[str, Any], rows: int, cells: int | None = None) -> Int[np.ndarray, "cells"] | None:
    """The public number of rows of each cell of an answer, by its law; None where it is unknown.

    Args:
        law: The law.
        rows: The number of rows of the answer.
        cells: The number of cells, if it is known; all but the first have no rows if the law says so.
    """
    listed = law.get("rows")
    if isinstance(listed, list):
        return np.array([int(each) for each in listed], dtype=np.int64)
    if listed == _ALL or (listed is None and cells == 1):
        return np.array([rows, *[0] * ((cells or 1) - 1)], dtype=np.int64)
    return None


def up_to_rows(margin: int, rows: Int[np.ndarray, "cells"] | None) -> Float[np.ndarray, "..."]:
    """A number of rows or ranks, which is at most the number of rows of each cell, where that is known."""
    return np.asarray(margin if rows is None else np.minimum(margin, rows), dtype=np.float64)


def _are_rows(value: object) -> bool:
    """True for the rows of cells in a law in canonical notation."""
    return value in (_ALL, _NOT_LISTED) or (
        isinstance(value, list)
        and 0 < len(value) <= _MOST_LISTED
        and all(integer(each) and int(each) >= 0 for each in value)
    )


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
        raise InputError("expected cells numbered from 0 without large gaps, found others; number them anew")
    return read_only(array.astype(np.int32 if array.max() <= np.iinfo(np.int32).max else np.int64))
