"""The public shape of a table for a plan: its rows and privacy units, and the effective dimension of its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.types as kinds

from labeldp._progress import Progress, silent
from labeldp._spelling import spelled_as
from labeldp.columns import is_number, number_matrix
from labeldp.errors import TableError
from labeldp.release import tables

if TYPE_CHECKING:
    from labeldp.bounds.planning import EffectiveDimension, UnitSizes
    from labeldp.release.tables import Identity, Table

_ROWS_PER_BATCH = 1 << 16


@dataclass(frozen=True)
class PublicShape:
    """The facts about public columns of a table that a plan uses.

    Attributes:
        rows: Number of rows.
        dimension: The effective dimension of the numeric columns; None if none varies.
        units: The rows by the size of their unit, if a unit was named.
        people: Columns that may be people with several rows.
    """

    rows: int
    dimension: EffectiveDimension | None = None
    units: UnitSizes | None = None
    people: tuple[Identity, ...] = ()


def public_shape(table: Table, columns: list[str], unit: str | None = None, report: Progress = silent) -> PublicShape:
    """Read the shape of a table. Reads no label; columns that identify people are no features.

    Args:
        table: The table.
        columns: The public columns.
        unit: The column of the privacy unit.
        report: Receives the name of the pass, the rows done, and the total (0 while unknown).

    Raises:
        TableError: The table is empty, or has no such column.
    """
    from labeldp.bounds.planning import UnitSizes, effective_dimension  # noqa: PLC0415 (commands load what they need)

    others = [name for name in table.schema.names if name != table.label]
    own = None if unit is None else spelled_as(unit, others)
    if unit is not None and own is None:
        raise TableError(tables.no_such_column(unit, others))
    unit = own
    if not others:
        raise TableError(f"expected a column beside the label in {table.path}, found none; give --rows instead")
    named = [name for name in others if name == unit or tables.tells_people_apart(name)]
    readable = tables.typed(table, others)
    people = [name for name in named if name == unit or not kinds.is_floating(readable.schema.field(name).type)]
    features = [name for name in columns if name not in people and is_number(readable.schema.field(name).type)]
    public = readable.schema.remove(readable.schema.get_field_index(table.label))
    finder, units = tables.IdentityFinder(public), tables.Units()
    rows, known, sums = 0, np.zeros(len(features)), np.zeros(len(features))
    stated = sum(part.rows or 0 for part in tables.parts_of(table))
    for batch in readable.batches(others, _ROWS_PER_BATCH):
        rows, values = rows + batch.num_rows, number_matrix(batch, features)
        known += np.isfinite(values).sum(axis=0)
        sums += np.where(np.isfinite(values), values, 0.0).sum(axis=0)
        finder.add(batch)
        if unit is not None:
            units.add(tables.unit_keys(batch[unit]))
        report("look", rows, stated)
    if rows == 0:
        raise TableError(f"{table.path} has column names and no rows; check how it was saved")
    units.settle()
    means = sums / np.maximum(known, 1)
    total, done = np.zeros((len(features), len(features))), 0
    for batch in readable.batches(features, _ROWS_PER_BATCH) if features else ():
        values = number_matrix(batch, features)
        centred = np.where(np.isfinite(values), values - means, 0.0)  # a missing value adds to no direction
        total, done = total + centred.T @ centred, done + batch.num_rows
        report("columns", done, rows)
    varying = bool((np.diag(total) > 0).any())
    return PublicShape(
        rows,
        effective_dimension(total / rows) if varying else None,
        None if unit is None else UnitSizes.of(units.counts),
        tables.people_in(finder.result()),
    )
