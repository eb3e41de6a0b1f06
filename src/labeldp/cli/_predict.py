"""``labeldp predict``: predictions of a model for a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labeldp import results
from labeldp._new_files import check_new_file, write_new_file
from labeldp.cli._command import Place
from labeldp.cli._options import FileOptions, ImageOptions
from labeldp.cli._terminal import printed_warnings, result
from labeldp.errors import InputError


def predict(
    model: Path,
    table: Place | None = None,
    *,
    output: Path,
    images: ImageOptions,
    file: FileOptions,
    json_: bool = False,
) -> None:
    """Predict the label of each row of a table, with the probability of each class.

    The output has a row for each row of TABLE, in the same order, and no column of it. No label is read.

    Args:
        model (MODEL): A model that 'labeldp learn' wrote.
        table ([TABLE]): CSV, Parquet or a folder of either with the columns that the model was learned from; a path or
            an address. Left out to predict images in their own order.
        output: A new file for the predictions, such as predictions.csv or predictions.parquet.
        images: The images of the rows.
        file: How CSV files are written.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import tables  # noqa: PLC0415 (first, as its extra has all of them)
    from labeldp.learning.features import UnseenValueWarning  # noqa: PLC0415

    write = _writer(output)
    check_new_file(output)
    loaded = tables.open_model(model)
    with printed_warnings(UnseenValueWarning):
        found = tables.predict_table(loaded, None if table is None else file.of(table), **images.read())
    write_new_file(output, lambda path: write(found, path), private=True)
    predicted, label = results.Predicted.of(loaded, found, str(output)), loaded.certificate.label
    result(
        json_,
        lambda: predicted,
        lambda: results.predicted_part(predicted, label, str(model), of_images=not loaded.columns),
    )


def _writer(output: Path) -> Any:
    """The function that writes a table to a file of a kind."""
    from pyarrow import csv, parquet  # noqa: PLC0415 (they load slowly)

    known = {".csv": csv.write_csv, ".parquet": parquet.write_table}
    if output.suffix not in known:
        raise InputError(f"expected an output file that ends in {' or '.join(known)}, found {output.name}; rename it")
    return known[output.suffix]
