"""Public columns beside released labels, as comparisons and regressions read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from labeldp._arrow import Columns, array_or_none
from labeldp.columns import texts_or_none
from labeldp.errors import InputError
from labeldp.learning.losses import require_release
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


def public_table(release: Release, table: object) -> pa.Table:
    """The public columns of released rows.

    Raises:
        InputError: They are no table, or one of other rows.
    """
    check_same_rows(table, release, "the table")
    columns = Columns(table).table()
    if columns.num_rows != len(release):
        raise InputError(f"expected a table of {len(release)} rows, one for each label, found {columns.num_rows}")
    return columns


def texts_of(values: object, name: str, rows: int) -> np.ndarray:
    """A value for each row as text; an empty text for a missing one."""
    column = array_or_none(values)
    texts = None if column is None else texts_or_none(column)
    if texts is None or len(texts) != rows:
        raise InputError(f"expected a number, a text or a date for each of the {rows} rows as {name}, found others")
    return np.array(texts.fill_null("").to_pylist(), dtype=object)


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """A column by its name."""
    if name not in table.column_names:
        raise InputError(no_such_column(name, table.column_names))
    return table[name]
