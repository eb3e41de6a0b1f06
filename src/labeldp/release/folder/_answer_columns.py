"""Conversion of answers to Arrow columns and back, by the kind of values that their query states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from labeldp.columns import arrow
from labeldp.errors import VerificationError
from labeldp.mechanisms.queries import QUERIES, StoredForm
from labeldp.privacy import LabelSpace
from labeldp.release.folder._columns import points_of

#: The column with the cluster in which peers exchanged a row's label.
CLUSTERS = "clusters"


def stored_form(law: Mapping[str, Any], space: LabelSpace) -> StoredForm:
    """The stored form of answers with a law.

    Raises:
        VerificationError: It is the law of no known query.
    """
    return QUERIES.of_law(law).stored(law, space)


def answer_columns(value: np.ndarray, label: str, law: Mapping[str, Any], space: LabelSpace) -> dict[str, pa.Array]:
    """The columns of an answer by name."""
    form = stored_form(law, space)
    columns = np.atleast_2d(value.T)
    return {name: _write(column, form, space) for name, column in zip(form.names(label), columns, strict=True)}


def answer_from(columns: list[pa.Array], law: Mapping[str, Any], space: LabelSpace) -> np.ndarray:
    """The answer from its columns.

    Raises:
        VerificationError: The columns hold no answer with this law.
    """
    query = QUERIES.of_law(law)
    value = _READ[query.stored(law, space).values](columns, space)
    query.check_value(value, law, space)
    return value


def _write(column: np.ndarray, form: StoredForm, space: LabelSpace) -> pa.Array:
    if form.values in ("number", "numbers"):
        return arrow(column)
    codes = pa.array(column.astype(np.int64), mask=column < 0)
    return points_of(space).take(codes)


def _read_numbers(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    arrays = [_without_nulls(column).to_numpy(zero_copy_only=False) for column in columns]
    if not all(np.isfinite(array).all() for array in arrays):
        raise VerificationError("expected finite numbers in an answer, found others")
    return np.stack(arrays, axis=1)


def _read_number(columns: list[pa.Array], _: LabelSpace) -> np.ndarray:
    return np.asarray(_without_nulls(columns[0]).to_numpy(zero_copy_only=False))


def _read_classes(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return np.stack([_read_class([column], space) for column in columns], axis=1)


def _read_class(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
    return _class_codes(_without_nulls(columns[0]), space)


def _read_optional_class(columns: list[pa.Array], space: LabelSpace) -> np.ndarray:
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


_READ: Mapping[str, Callable[[list[pa.Array], LabelSpace], np.ndarray]] = MappingProxyType(
    {
        "number": _read_number,
        "numbers": _read_numbers,
        "class": _read_class,
        "classes": _read_classes,
        "class or none": _read_optional_class,
    }
)
