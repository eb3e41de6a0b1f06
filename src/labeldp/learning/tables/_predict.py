"""Predictions of a model for the rows of a table, or for images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from labeldp.errors import InputError
from labeldp.learning.tables._evaluate import columns_to_read, images_of_rows
from labeldp.learning.tables._files import TableModel
from labeldp.release import some_columns
from labeldp.release.tables import Place, TableFile

if TYPE_CHECKING:  # PyTorch is an extra of its own
    from labeldp.learning.features import Images
    from labeldp.learning.torch import NetworkModel


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
        names of images from a folder in their own order.

    Raises:
        InputError: The table lacks a column, or there is no table or no images where the model needs them.
    """
    names = columns_to_read(model, image_column)
    if (source is None) != (not names):
        raise InputError(
            "expected a table to predict from, found none; name it after the model"
            if names
            else "expected no table for images in their own order, found one; leave it out, or pass --image-column"
        )
    if source is not None:
        table = some_columns(source, names)
        rows = images_of_rows(model, table, table.num_rows, images, image_column)
        return _predicted(model, table if rows is None else rows)
    if images is None or images.names is None:
        return _predicted(model, images)
    return _predicted(model, images).add_column(0, "image", pa.array(images.names))


def _predicted(model: TableModel | NetworkModel, rows: object) -> pa.Table:
    """The predictions for a table, or for images."""
    label = f"{model.certificate.label}_predicted"
    if isinstance(model, TableModel) and model.of_numbers:
        return pa.table({label: model.predict(rows)})
    chances, classes = model.predict_proba(rows), model.classes_
    columns = {f"{model.certificate.label}_probability_{name}": chances[:, i] for i, name in enumerate(classes)}
    return pa.table({label: classes[np.argmax(chances, axis=1)].tolist(), **columns})
