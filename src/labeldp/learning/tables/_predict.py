"""Predictions of a model for the rows of a table, or for images."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from labeldp.columns import KINDS
from labeldp.errors import InputError
from labeldp.learning.features import UnseenValueWarning
from labeldp.privacy import columns_in_order
from labeldp.release import some_columns
from labeldp.release.tables import Place, TableFile

if TYPE_CHECKING:
    from labeldp.learning.features import Images
    from labeldp.learning.tables._network_model import NetworkModel
    from labeldp.learning.tables._table_model import TableModel

T = TypeVar("T")


def predict_table(
    model: TableModel | NetworkModel,
    source: str | Place | TableFile | None = None,
    *,
    images: Images | None = None,
    image_column: str | None = None,
) -> pa.Table:
    """Predict the label of each row of a table, or of each image.

    No other column of the table is read, such as one of labels.

    Args:
        model: The model.
        source: A CSV or Parquet file or a folder of either; None for images in their own order.
        images: Images, for a model of images.
        image_column: The column of the table that names the image of each row.

    Returns:
        ``LABEL_predicted``, and for classes the probability of each, ``LABEL_probability_CLASS``; before them the file
        names of images from a folder in their own order. Of a model with prediction sets also ``LABEL_set``, the
        classes of the set as a JSON list, or the interval from ``LABEL_low`` to ``LABEL_high``.

    Raises:
        InputError: The table lacks a column, or there is no table or no images where the model needs them.
    """
    return pa.concat_tables(predicted_batches(model, source, images=images, image_column=image_column))


def predicted_batches(
    model: TableModel | NetworkModel,
    source: str | Place | TableFile | None = None,
    *,
    images: Images | None = None,
    image_column: str | None = None,
) -> Iterator[pa.Table]:
    """The predictions of ``predict_table`` in batches, in bounded memory, but for those of images.

    A warning of values that the model did not learn from is given for the first batch that has such values.
    """
    names = columns_to_read(model, image_column)
    if (source is None) != (not names):
        raise InputError(
            "expected a table to predict from, found none; name it after the model"
            if names
            else "expected no table for images in their own order, found one; leave it out, or pass --image-column"
        )
    if source is not None:
        return _predicted_tables(model, some_columns(source, names), images, image_column)
    found = _predicted(model, images)
    named = images is not None and images.names is not None
    return iter([found.add_column(0, "image", pa.array(images.names)) if images is not None and named else found])


def _predicted_tables(
    model: TableModel | NetworkModel, tables: Iterator[pa.Table], images: Images | None, image_column: str | None
) -> Iterator[pa.Table]:
    """Predictions for tables of columns, one after the other; for images these are put together first."""

    def predicted(table: pa.Table) -> pa.Table:
        rows = images_of_rows(model, table, table.num_rows, images, image_column)
        return _predicted(model, table if rows is None else rows)

    return in_batches(predicted, tables if model.columns else iter([pa.concat_tables(tables)]))


def in_batches(predict: Callable[[pa.Table], T], tables: Iterator[pa.Table]) -> Iterator[T]:
    """Predictions for tables, one after the other; of each kind of warning of values, the first one."""
    seen = set[type[Warning]]()
    for table in tables:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UnseenValueWarning)
            predicted = predict(table)
        for each in caught:
            if each.category not in seen:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        seen |= {each.category for each in caught}
        yield predicted


def columns_to_read(model: TableModel | NetworkModel, image_column: str | None) -> dict[str, pa.DataType]:
    """The columns that a model predicts from, and that of the names of images, with their types in a CSV file."""
    names = {image_column: pa.string()} if image_column else {}
    return names | {name: KINDS[kind] for name, kind in model.columns.items()}


def images_of_rows(
    model: TableModel | NetworkModel, table: pa.Table, rows: int, images: Images | None, image_column: str | None
) -> np.ndarray | None:
    """The image of each row, or None without images."""
    if images is None:
        if image_column is not None:
            raise InputError(f"expected images that the column {image_column!r} names, found none (--images)")
        return None
    if model.columns:
        raise InputError("expected no images for a model of columns, found some; leave them out")
    return images.of_rows(rows, image_names(table, image_column, images))


def image_names(table: pa.Table, column: str | None, images: Images) -> list[object] | None:
    """The image names of the rows from a column, if one is given."""
    if column is None and images.names is None:
        return None
    found = ", ".join(filter(None, table.column_names))
    if column is None:
        known = f"; columns: {found}" if found else ""
        raise InputError(
            f"a folder of images needs --image-column COLUMN, the one with the file name of each row{known}"
        )
    if column not in table.column_names:
        raise InputError(f"expected the names of images in a public column {column!r}, found {found or 'none'}")
    return list(table[column].to_pylist())


def _predicted(model: TableModel | NetworkModel, rows: object) -> pa.Table:
    """The predictions for a table, or for images."""
    label = f"{model.certificate.label}_predicted"
    if model.of_numbers:
        predicted = model.predict(rows)
        return pa.table({label: predicted, **_set_columns(model, predicted)})
    chances, classes = model.predict_proba(rows), model.classes_
    columns = {f"{model.certificate.label}_probability_{name}": chances[:, i] for i, name in enumerate(classes)}
    sets = _set_columns(model, columns_in_order(chances, classes, model.space.points))
    return pa.table({label: classes[np.argmax(chances, axis=1)].tolist(), **sets, **columns})


def _set_columns(model: TableModel | NetworkModel, predicted: np.ndarray) -> dict[str, object]:
    """The set of each row: its classes as a JSON list, or the ends of its interval."""
    if model.sets is None:
        return {}
    label = model.certificate.label
    if model.sets.classes is None:
        ends = model.sets.intervals(predicted)
        return {f"{label}_low": ends[:, 0], f"{label}_high": ends[:, 1]}
    members, points = model.sets.members(predicted), model.space.points
    texts = [json.dumps([points[code] for code in np.flatnonzero(row)], ensure_ascii=False) for row in members]
    return {f"{label}_set": texts}
