"""Conversion of answers to Arrow columns and back, with one stored form for each query."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import (
    ExchangedLabels,
    LabelMoments,
    NoisyArgmax,
    NoisyGradients,
    NoisyHistogram,
    NoisyMean,
    NoisyQuantile,
    NumberMoments,
    clip_of,
    quantile_points,
)
from labeldp.privacy import LabelSpace
from labeldp.release.folder._columns import CODES, arrow, column_name, points_of

#: Largest relative distance of a product of floats from a whole number.
_ROUNDING = 2.0**-51

#: The column with the cluster in which peers exchanged a row's label.
CLUSTERS = "clusters"


@dataclass(frozen=True)
class StoredForm:
    """The form in which answers to a query are stored.

    Attributes:
        names: The columns of an answer about a label.
        write: Their values, in that order.
        read: The answer from its columns.
        by_row: True if there is a line for each row of the table instead of each cell.
        in_steps: True if its numbers are multiples of a step, which is 1 if the law has no ``bits``.
        fits: Checks that the law can produce the numbers.
        entries: True if its columns are the entries of a vector.
    """

    names: Callable[[str, LabelSpace], list[str]]
    write: Callable[[np.ndarray, LabelSpace], list[pa.Array]]
    read: Callable[[list[pa.Array], LabelSpace], np.ndarray]
    by_row: bool = False
    in_steps: bool = False
    fits: Callable[[np.ndarray, LabelSpace, Mapping[str, Any]], bool] = lambda *_: True
    entries: bool = False

    def clashes(self, label: str, space: LabelSpace, public: Iterable[str]) -> set[str]:
        """Names of public columns that the answer uses, or would use with more entries."""
        numbered = re.compile(rf"{re.escape(label)}_[0-9]+")
        own = {label, *self.names(label, space)}
        return {name for name in public if name in own or (self.entries and numbered.fullmatch(name))}


def stored_form(law: Mapping[str, Any]) -> StoredForm:
    """The stored form of answers with a law.

    Raises:
        VerificationError: It is the law of no known query.
    """
    if law.get("kind") not in _STORED_FORMS:
        raise VerificationError("expected the answer to a known query, found another; upgrade labeldp")
    form = _STORED_FORMS[law["kind"]]
    return dataclasses.replace(form, names=_entry_names(int(law["dimension"]))) if "dimension" in law else form


def _class_names(label: str, space: LabelSpace) -> list[str]:
    return [f"{label}_{point}" for point in space.points]


def _entry_names(dimension: int) -> Callable[[str, LabelSpace], list[str]]:
    """Names of the entries of a vector: classes if there is one entry for each, else numbers from 1."""

    def names(label: str, space: LabelSpace) -> list[str]:
        if dimension == space.size:
            return _class_names(label, space)
        return [f"{label}_{number}" for number in range(1, dimension + 1)]

    return names


def _released_name(label: str, _: LabelSpace) -> list[str]:
    return [column_name(label, CODES)]


def _write_numbers(value: np.ndarray, _: LabelSpace) -> list[pa.Array]:
    return [arrow(column) for column in np.atleast_2d(value.T)]


def _read_numbers(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    arrays = [_without_nulls(column).to_numpy(zero_copy_only=False) for column in columns]
    if not all(np.isfinite(array).all() for array in arrays):
        raise VerificationError("expected finite numbers in an answer, found others")
    return np.stack(arrays, axis=1)


def _read_number(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    return np.asarray(_without_nulls(columns[0]).to_numpy(zero_copy_only=False))


def _inside_interval(means: np.ndarray, space: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Check that the means of cells with rows are inside the clipping interval of labels."""
    low, high = (float(space.points[end]) for end in clip_of(law, space))
    return not ((means < low) | (means > high)).any()


def _in_parts_of_steps(sums: np.ndarray, _: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Check that sums are whole numbers of parts of steps, up to the rounding of floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts = np.ldexp(sums, int(law["bits"])) * int(law["parts"])
        return bool((np.abs(parts - np.rint(parts)) <= _ROUNDING * np.abs(parts)).all())


def _on_grid(quantiles: np.ndarray, space: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Check that the quantiles of cells with rows are grid points, or distances of grid points."""
    return bool(np.isin(quantiles[~np.isnan(quantiles)], quantile_points(law, space)).all())


def _write_classes(value: np.ndarray, space: LabelSpace) -> list[pa.Array]:
    codes = pa.array(value.astype(np.int64), mask=value < 0)
    return [points_of(space).take(codes)]


def _read_classes(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _class_codes(_without_nulls(columns[0]), space)


def _read_optional_classes(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _class_codes(columns[0], space).astype(np.int8)


def _class_codes(column: pa.Array, space: LabelSpace) -> np.ndarray:
    """Codes of classes, with -1 for nulls."""
    codes = pc.index_in(column, value_set=points_of(space))
    if codes.null_count != column.null_count:
        raise VerificationError("expected only declared labels in an answer, found others")
    return np.from_dlpack(codes.fill_null(-1)).astype(np.int64)


def _without_nulls(column: pa.Array) -> pa.Array:
    if column.null_count:
        raise VerificationError(f"expected a value in every line of an answer, found {column.null_count} nulls")
    return column


_BY_CLASS = StoredForm(_class_names, _write_numbers, _read_numbers, in_steps=True)

_STORED_FORMS: Mapping[str, StoredForm] = MappingProxyType(
    {
        NoisyHistogram.name: _BY_CLASS,
        LabelMoments.name: _BY_CLASS,
        NoisyGradients.name: StoredForm(_class_names, _write_numbers, _read_numbers, by_row=True, entries=True),
        NumberMoments.name: StoredForm(
            lambda label, _: [f"{label}_low", f"{label}_high"], _write_numbers, _read_numbers, fits=_in_parts_of_steps
        ),
        NoisyArgmax.name: StoredForm(_released_name, _write_classes, _read_classes),
        NoisyMean.name: StoredForm(
            lambda label, _: [f"{label}_mean"], _write_numbers, _read_number, fits=_inside_interval
        ),
        NoisyQuantile.name: StoredForm(
            lambda label, _: [f"{label}_quantile"], _write_numbers, _read_number, fits=_on_grid
        ),
        ExchangedLabels.name: StoredForm(_released_name, _write_classes, _read_optional_classes, by_row=True),
    }
)
