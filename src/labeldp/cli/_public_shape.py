"""The public shape of a table for a plan: its rows, and the effective dimension of its numeric columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from labeldp.errors import TableError
from labeldp.release.tables import Table, typed

if TYPE_CHECKING:
    from labeldp.bounds.planning import EffectiveDimension

_ROWS_PER_BATCH = 1 << 16


def public_shape(table: Table, columns: list[str]) -> tuple[int, EffectiveDimension | None]:
    """Count rows and compute the effective dimension of the numeric columns; None if none varies. Reads no label.

    Raises:
        TableError: The table is empty, or has no public column.
    """
    from labeldp.bounds.planning import effective_dimension  # noqa: PLC0415 (commands load what they need)

    if not columns:
        raise TableError(f"expected a public column in {table.path}, found none; give --rows and --dimension instead")
    readable = typed(table, columns)
    numeric = [name for name in columns if _is_number(readable.schema.field(name).type)]
    rows, known, sums = 0, np.zeros(len(numeric)), np.zeros(len(numeric))
    for values in _batches(readable, columns, numeric):
        rows += len(values)
        known += np.isfinite(values).sum(axis=0)
        sums += np.where(np.isfinite(values), values, 0.0).sum(axis=0)
    if rows == 0:
        raise TableError(f"expected at least one row in {table.path}, found none")
    means = sums / np.maximum(known, 1)
    total = np.zeros((len(numeric), len(numeric)))
    for values in _batches(readable, columns, numeric):
        centred = np.where(np.isfinite(values), values - means, 0.0)  # a missing value adds to no direction
        total += centred.T @ centred
    varying = bool((np.diag(total) > 0).any())
    return rows, effective_dimension(total / rows) if varying else None


def _batches(table: Table, columns: list[str], numeric: list[str]) -> Iterator[np.ndarray]:
    """Numeric columns in batches, with missing values as NaN."""
    for batch in table.batches(columns, _ROWS_PER_BATCH):
        columns_of = [batch[name].cast(pa.float64(), safe=False) for name in numeric]
        values = [np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64) for column in columns_of]
        yield np.stack(values, axis=1) if values else np.empty((batch.num_rows, 0))


def _is_number(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))
