"""Answers as Arrow columns, and back; one form for each shape of answer."""

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
from labeldp.release.folder._columns import CODES, column_name

#: How far a product of floats may be from a whole number, as a share of it.
_ROUNDING = 2.0**-51

#: The column that says in which cluster peers exchanged a row's label.
CLUSTERS = "clusters"


@dataclass(frozen=True)
class Form:
    """How the answers to a query are written.

    Attributes:
        names: The columns of an answer about a label.
        write: Their values, in that order.
        read: The answer from its columns.
        by_row: Whether there is a line for each row of the table, and not for each cell.
        in_steps: Whether its numbers are whole multiples of a step, which is 1 where the law says no ``bits``.
        fits: Whether its numbers are such as the law can give.
        entries: Whether its columns are the entries of a vector.
    """

    names: Callable[[str, LabelSpace], list[str]]
    write: Callable[[np.ndarray, LabelSpace], list[pa.Array]]
    read: Callable[[list[pa.Array], LabelSpace], np.ndarray]
    by_row: bool = False
    in_steps: bool = False
    fits: Callable[[np.ndarray, LabelSpace, Mapping[str, Any]], bool] = lambda *_: True
    entries: bool = False

    def mistakable(self, label: str, space: LabelSpace, public: Iterable[str]) -> set[str]:
        """Names of public columns that are those of the answer, or that a law of more entries would have."""
        numbered = re.compile(rf"{re.escape(label)}_[0-9]+")
        taken = {label, *self.names(label, space)}
        return {name for name in public if name in taken or (self.entries and numbered.fullmatch(name))}


def form_of(law: Mapping[str, Any]) -> Form:
    """The form of the answers that a law is of.

    Raises:
        VerificationError: It is of no known query.
    """
    if law.get("kind") not in _FORMS:
        raise VerificationError("expected the answer to a query that is known here, found another; upgrade labeldp")
    form = _FORMS[law["kind"]]
    return dataclasses.replace(form, names=_for_each_entry(int(law["dimension"]))) if "dimension" in law else form


def _for_each_class(label: str, space: LabelSpace) -> list[str]:
    return [f"{label}_{point}" for point in space.points]


def _for_each_entry(dimension: int) -> Callable[[str, LabelSpace], list[str]]:
    """Names of the entries of a vector: by class if it has one for each, else by number from 1 on."""

    def names(label: str, space: LabelSpace) -> list[str]:
        if dimension == space.size:
            return _for_each_class(label, space)
        return [f"{label}_{number}" for number in range(1, dimension + 1)]

    return names


def _released(label: str, _: LabelSpace) -> list[str]:
    return [column_name(label, CODES)]


def _numbers(value: np.ndarray, _: LabelSpace) -> list[pa.Array]:
    return [pa.array(np.ascontiguousarray(column)) for column in np.atleast_2d(value.T)]


def _columns_read(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    found = [_complete(column).to_numpy(zero_copy_only=False) for column in columns]
    if not all(np.isfinite(column).all() for column in found):
        raise VerificationError("expected finite numbers in an answer, found another")
    return np.stack(found, axis=1)


def _reals_read(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    return np.asarray(_complete(columns[0]).to_numpy(zero_copy_only=False))


def _inside(means: np.ndarray, space: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Whether means, of cells that have rows, are inside what labels were clipped to."""
    low, high = (float(space.points[end]) for end in clip_of(law, space))
    return not ((means < low) | (means > high)).any()


def _in_parts_of_steps(sums: np.ndarray, _: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Whether sums are whole in parts of steps, but for the rounding of floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.ldexp(sums, int(law["bits"])) * int(law["parts"])
        return bool((np.abs(found - np.rint(found)) <= _ROUNDING * np.abs(found)).all())


def _points(quantiles: np.ndarray, space: LabelSpace, law: Mapping[str, Any]) -> bool:
    """Whether quantiles, of cells that have rows, are points of the grid, or distances of such."""
    return bool(np.isin(quantiles[~np.isnan(quantiles)], quantile_points(law, space)).all())


def _classes(value: np.ndarray, space: LabelSpace) -> list[pa.Array]:
    codes = pa.array(value.astype(np.int64), mask=value < 0)
    return [pa.array(space.points, space.arrow_type()).take(codes)]


def _classes_read(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _codes(_complete(columns[0]), space)


def _some_classes_read(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _codes(columns[0], space).astype(np.int8)


def _codes(column: pa.Array, space: LabelSpace) -> np.ndarray:
    """Codes of classes, -1 where there is none."""
    codes = pc.index_in(column, value_set=pa.array(space.points, space.arrow_type()))
    if codes.null_count != column.null_count:
        raise VerificationError("expected only declared labels in an answer, found others")
    return np.asarray(codes.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def _complete(column: pa.Array) -> pa.Array:
    if column.null_count:
        raise VerificationError(f"expected a value in every line of an answer, found {column.null_count} nulls")
    return column


_FOR_EACH_CLASS = Form(_for_each_class, _numbers, _columns_read, in_steps=True)

_FORMS: Mapping[str, Form] = MappingProxyType(
    {
        NoisyHistogram.name: _FOR_EACH_CLASS,
        LabelMoments.name: _FOR_EACH_CLASS,
        NoisyGradients.name: Form(_for_each_class, _numbers, _columns_read, by_row=True, entries=True),
        NumberMoments.name: Form(
            lambda label, _: [f"{label}_low", f"{label}_high"], _numbers, _columns_read, fits=_in_parts_of_steps
        ),
        NoisyArgmax.name: Form(_released, _classes, _classes_read),
        NoisyMean.name: Form(lambda label, _: [f"{label}_mean"], _numbers, _reals_read, fits=_inside),
        NoisyQuantile.name: Form(lambda label, _: [f"{label}_quantile"], _numbers, _reals_read, fits=_points),
        ExchangedLabels.name: Form(_released, _classes, _some_classes_read, by_row=True),
    }
)
