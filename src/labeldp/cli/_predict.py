"""``labeldp predict`` and ``labeldp evaluate``: predictions of a model for a table, and its scores on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp import results
from labeldp._own_files import check_new_file, write_new_file
from labeldp.cli._command import Place
from labeldp.cli._options import FileOptions, ImageOptions, check_one_of
from labeldp.cli._terminal import complain, printed_warnings, result
from labeldp.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


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

    writer = _writer(output)
    check_new_file(output)
    from labeldp.learning.features import UnseenValueWarning  # noqa: PLC0415 (loads slowly)

    loaded = images.open_model(model)
    predictions = _Predictions(writer)
    with printed_warnings(UnseenValueWarning):
        found = tables.predicted_batches(loaded, None if table is None else file.of(table), **images.read())
        write_new_file(output, lambda path: predictions.write(path, found), private=True)
    predicted = results.Predicted.of(loaded, predictions.columns, predictions.rows, str(output))
    label = loaded.certificate.label
    result(
        json_,
        lambda: predicted,
        lambda: results.predicted_part(predicted, label, str(model), of_images=not loaded.columns),
    )


@dataclass
class _Predictions:
    """The predictions that are written to a file, batch by batch.

    Attributes:
        writer: Function of a path and a schema that opens a writer of tables.
        rows: Number of rows that were written.
        columns: Their columns.
    """

    writer: Callable[[Path, pa.Schema], Any]
    rows: int = 0
    columns: tuple[str, ...] = ()

    def write(self, path: Path, tables: Iterator[pa.Table]) -> None:
        """Write all tables, of which there is at least one."""
        first = next(tables)
        self.columns = tuple(first.column_names)
        with self.writer(path, first.schema) as out:
            for table in chain([first], tables):
                out.write_table(table)
                self.rows += table.num_rows


def _writer(output: Path) -> Callable[[Path, pa.Schema], Any]:
    """The function that opens a writer of files of a kind."""
    from pyarrow import csv, parquet  # noqa: PLC0415 (they load slowly)

    known: dict[str, Callable[[Path, pa.Schema], Any]] = {".csv": csv.CSVWriter, ".parquet": parquet.ParquetWriter}
    if output.suffix not in known:
        raise InputError(f"expected an output file that ends in {' or '.join(known)}, found {output.name}; rename it")
    return known[output.suffix]


def evaluate(
    model: Path,
    table: Place,
    *,
    label: str | None = None,
    labels_are_public: bool = False,
    released: bool = False,
    images: ImageOptions,
    file: FileOptions,
    json_: bool = False,
) -> None:
    """Score a model on public labels, or on released ones.

    Args:
        model (MODEL): A model that 'labeldp learn' wrote.
        table (TABLE): CSV, Parquet, a folder of either, IDX labels; or a release folder with --released; a
            path or an address.
        label: Name of the label column; default: that of the release which the model was learned from.
        labels_are_public: Declare that the labels of TABLE are public.
        released: TABLE is the folder of a release.
        images: The images of the rows.
        file: How CSV files are written.
        json_: Print JSON; 'labeldp schema' describes it.
    """
    from labeldp.learning import tables  # noqa: PLC0415 (first, as its extra has all of them)
    from labeldp.learning.features import UnseenValueWarning  # noqa: PLC0415
    from labeldp.learning.metrics import UnitsWarning  # noqa: PLC0415

    check_one_of(
        f"either --labels-are-public or --released to say what the labels of {table} are",
        labels_are_public or None,
        released or None,
        "; labels that are not public must be released first",
    )
    loaded = images.open_model(model)
    label, source = label or loaded.certificate.label, file.of(table) if labels_are_public else table
    with printed_warnings(UnseenValueWarning, UnitsWarning) as warned:
        scores = tables.evaluate(loaded, source, label, public=labels_are_public, **images.read())
    rows = scores.of_rows or scores.rows
    if labels_are_public and rows == loaded.certificate.rows:
        complain(
            f"note: the model was learned from as many rows ({rows:,}): if from these, the scores are too good "
            "for others; evaluate it on other people's rows"
        )
    by = "labels that you declared public" if labels_are_public else "released labels"
    by += "" if scores.of_rows is None else f" of rows that a public hash chose among {scores.of_rows:,}"
    mixed = any(issubclass(each.category, UnitsWarning) for each in warned)
    found = results.Evaluated.of(scores, by, loaded.certificate.space, public=labels_are_public, mixed=mixed)
    result(json_, lambda: found, lambda: results.evaluation_part(found))
