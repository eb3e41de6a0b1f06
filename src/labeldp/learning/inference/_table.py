"""Public columns beside released labels, as comparisons and regressions read them, and means of true labels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from labeldp._shapes import Bool, Float, Int
from labeldp.columns import Columns, array_or_none, result_or_none, texts_or_none
from labeldp.errors import InputError
from labeldp.learning.losses import ends_of, require_release, unbiased_numbers
from labeldp.learning.metrics import (
    Estimate,
    Units,
    class_weights,
    difference_of,
    mean_of_numbers,
    shares_of_groups,
)
from labeldp.release import Release, check_same_rows
from labeldp.release.tables import no_such_column


def require_original_features(release: Release) -> Release:
    """The release itself, if features beside it are the rows' own."""
    certificate = require_release(release).certificate
    if certificate is not None and certificate.features is not None:
        raise InputError(
            "expected original features, found resampled ones: they mix rows of all groups, so effects would look "
            "smaller than they are; use a release of labels alone"
        )
    return release


@dataclass(frozen=True, eq=False)
class PublicColumns:
    """The public columns of released rows, each of which is read where it is needed."""

    columns: Columns
    rows: int

    @classmethod
    def of(cls, release: Release, table: object) -> PublicColumns:
        """The columns of a table beside released labels, whose rows must not be in another order."""
        check_same_rows(table, release, "the table")
        return cls(Columns(table), len(release))

    def table(self, names: Sequence[str]) -> pa.Table:
        """Some columns by their names.

        Raises:
            InputError: One does not exist, or there is not one value for each label.
        """
        if missing := [name for name in names if name not in self.columns.names]:
            raise InputError(no_such_column(missing[0], self.columns.names))
        found = self.columns.table(names)
        if found.num_rows != self.rows:
            raise InputError(f"expected a table of {self.rows} rows, one for each label, found {found.num_rows}")
        return found

    def texts(self, name: str) -> np.ndarray:
        """A column as text; an empty text for a missing value."""
        return texts_of(self.table([name])[name], name, self.rows)


def in_order(names: Iterable[str]) -> list[str]:
    """Names of groups, by size if all are numbers, else as texts; that of missing values, an empty one, is last."""
    texts = sorted(set(names), key=lambda text: (not text, text))
    numbers = result_or_none(lambda: {text: float(text) for text in texts if text})
    if numbers is None or not all(map(math.isfinite, numbers.values())):
        return texts
    return sorted(texts, key=lambda text: numbers.get(text, math.inf))


def texts_of(values: object, name: str, rows: int) -> np.ndarray:
    """A value for each row as text; an empty text for a missing one."""
    column = array_or_none(values)
    texts = None if column is None else texts_or_none(column)
    if texts is None or len(texts) != rows:
        raise InputError(f"expected a number, a text or a date for each of the {rows} rows as {name}, found others")
    return np.array(texts.fill_null("").to_pylist(), dtype=object)


@dataclass(frozen=True, eq=False)
class TrueMean:
    """The share of a class among true labels, or the mean of numeric ones, in groups of rows.

    Attributes:
        release: The released labels.
        units: Their privacy units.
        code: The code of the class; None for numeric labels.
        level: Coverage of each interval.
    """

    release: Release
    units: Units
    code: int | None
    level: float

    def of(self, rows: Int[np.ndarray, "m"]) -> Estimate:
        """The mean of some rows."""
        if self.code is None:
            return mean_of_numbers(self.release, rows, self.units, self.level)
        codes, place = np.full(len(rows), self.code), np.zeros(len(rows), dtype=np.int64)
        return shares_of_groups(self.release[rows], codes, place, 1, self.units.take(rows), self.level)[0]

    def difference(self, inside: Bool[np.ndarray, "n"]) -> tuple[Estimate, Estimate, Estimate]:
        """The means of the marked rows and of all others, and their difference; units may have rows in both."""
        one, other = (self.of(np.flatnonzero(its)) for its in (inside, ~inside))
        correlation = 0.0 if self.units.numbers is None else self.units.correlation(self._values, inside)
        ends = ends_of(self.release) if self.code is None else (0.0, 1.0)
        return one, other, difference_of(one, other, *ends, correlation)

    @property
    def _values(self) -> Float[np.ndarray, "n"]:
        """A value for each row, whose mean is the true one."""
        if self.code is None:
            return unbiased_numbers(self.release)
        return class_weights(self.release, np.full(len(self.release), self.code))
