"""Evaluation of a model on another table, one with public labels or a release."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp._progress import silent
from labeldp.errors import InputError, LabelError
from labeldp.learning.inference import share_in_intervals
from labeldp.learning.metrics import estimate, of_true_class, recall
from labeldp.learning.tables._part_sums import chosen_units
from labeldp.learning.tables._predict import columns_to_read, images_of_rows, in_batches
from labeldp.learning.tables._scores import ClassScores, NumberScores, class_scores, number_scores
from labeldp.learning.tables._stored import StoredRelease, rows_in_memory
from labeldp.privacy import ClassProbabilities, Interval
from labeldp.release import Release, public_batches, public_rows, unit_numbers
from labeldp.release.engines import InProcess
from labeldp.release.folder import Certificate, group_column, is_release, local_copy, read_certificate
from labeldp.release.tables import Place, TableFile, place_of

if TYPE_CHECKING:
    from labeldp.learning.features import Images
    from labeldp.learning.tables._network_model import NetworkModel
    from labeldp.learning.tables._table_model import TableModel

_SHOWN_CLASSES, _LEVEL = 12, 0.95
#: The most rows with public labels that are judged, and rows of a batch.
_MOST_PUBLIC, _ROWS = 1 << 22, 1 << 16


def evaluate(
    model: TableModel | NetworkModel,
    source: str | Place | TableFile,
    label: str,
    *,
    public: bool,
    images: Images | None = None,
    image_column: str | None = None,
) -> ClassScores | NumberScores:
    """Evaluate a model on a table.

    Intervals take rows of one privacy unit as dependent, if the release kept the column of its unit, or the table with
    public labels has the column of the units that the model was learned from. Where rows do not
    fit in memory, some are judged, in whole units, which a public hash chooses without a look at labels.

    Args:
        model: The model.
        source: With ``public`` a CSV or Parquet file or a folder of either, else the folder of a release; each
            a path or an address.
        label: The label column.
        public: Whether you declare the labels of this table public. Otherwise they are the labels of a release.
        images: Images of the rows, for a model of images.
        image_column: The column that names the image of each row; by default they are in the order of the rows.

    Guarantee:
        On a release there is no further cost. Labels that were declared public get no guarantee.

    Raises:
        InputError: The table lacks a column, or has another label space.
        VerificationError: The folder of the release and its certificate do not agree.
    """
    if label in model.columns:
        raise InputError(f"expected a label column, found {label!r}, which the model predicts from")
    path = place_of(source.path if isinstance(source, TableFile) else source)
    if public:
        if isinstance(path, Path) and is_release(path):
            raise InputError(
                f"expected a table with public labels in {path}, found the folder of a release; use --released"
            )
        try:
            unit = group_column(model.certificate)
            batches = public_rows(source, label, model.space, columns_to_read(model, image_column), unit)
            rows = _Rows(batches, unit, most=_MOST_PUBLIC)
            predicted = rows.predictions(model, images, image_column)
        except LabelError:
            shown = ", ".join(map(str, model.space.points[:_SHOWN_CLASSES]))
            wanted = "a number" if isinstance(model.space, Interval) else f"a class of the model ({shown})"
            raise InputError(
                f"expected {wanted} in every row of {label!r}, found another value or none; leave such rows out"
            ) from None
        labels, count = rows.labels(), rows.count
    else:
        with local_copy(path) as folder:
            certificate = _check_other(model.certificate, read_certificate(folder), label)
            labels, tables = _released(folder, certificate, some=images is None)
            rows, count = _Rows(((table, None) for table in tables), group_column(certificate)), certificate.rows
            predicted = rows.predictions(model, images, image_column)
    units = rows.units()
    of_rows = None if count == len(labels) else count
    if model.of_numbers:
        held = None if model.sets is None else share_in_intervals(labels, predicted, model.sets, units)
        return replace(number_scores(labels, predicted, units=units), coverage=held, of_rows=of_rows)
    scores = replace(class_scores(labels, predicted, units=units), of_rows=of_rows)
    if model.sets is None or scores.better is None:  # where rows have candidates, no coverage is told
        return scores
    metric = of_true_class("coverage", _as_mask, lambda _, held: held * 1.0, likely=_likely, least=0.0, most=1.0)
    members = model.sets.members(predicted)
    scores = replace(scores, coverage=estimate(metric, labels, members, units, _LEVEL))
    if not public:
        return scores
    # What a set does not hold counts as predicted to be another class: the recall of a class is then its coverage.
    held, points = members[np.arange(len(labels)), labels.codes], np.asarray(labels.space.points)
    codes = np.where(held, labels.codes, (labels.codes + 1) % len(points))
    return replace(scores, class_coverage=recall(labels, points[codes], units=units))


def _released(folder: Path, certificate: Certificate, *, some: bool) -> tuple[Release, Iterator[pa.Table]]:
    """The labels of a release, and its public columns in batches; of some rows where not all fit in memory."""
    most = rows_in_memory(certificate, None)
    if not some or certificate.rows <= most:
        return Release.load(folder), public_batches(folder, certificate)
    sampled = StoredRelease.of(folder, InProcess(), silent).sample(most)
    return sampled.release, (pa.Table.from_batches([each]) for each in sampled.table.to_batches(_ROWS))


@dataclass(eq=False)
class _Rows:
    """Rows to evaluate on, which are read in batches: labels and units are kept, features are not.

    Attributes:
        batches: Public columns, and labels that were declared public.
        unit: The column of privacy units.
        most: The most rows that are kept, each a unit of its own.
        count: Number of rows that were read.
    """

    batches: Iterator[tuple[pa.Table, Release | None]]
    unit: str | None = None
    most: float = math.inf
    count: int = 0
    _labels: list[Release] = field(default_factory=list)
    _units: list[pa.ChunkedArray] = field(default_factory=list)
    _places: list[np.ndarray] = field(default_factory=list)

    def predictions(self, model: TableModel | NetworkModel, images: Images | None, image_column: str | None) -> Any:
        """Numbers, or probabilities in declared order, of all rows that are kept; images are predicted together."""

        def predict(table: pa.Table) -> Any:
            if model.of_numbers:
                return model.predict(table)
            return ClassProbabilities.of(model, table).in_order(model.space.points)

        if model.columns:
            images_of_rows(model, pa.table({}), 0, images, image_column)  # which it has none of
            return self._kept(in_batches(predict, self._tables()))
        tables = list(self._tables())
        rows = sum(map(len, self._labels)) or sum(table.num_rows for table in tables)
        pixels = images_of_rows(model, pa.concat_tables(tables), rows, images, image_column)
        return ClassProbabilities.of(model, pixels).in_order(model.space.points)

    def _kept(self, batches: Iterator[np.ndarray]) -> np.ndarray:
        """The predictions of batches; of too many rows half of the share that was kept before, until they are few.

        Which rows are kept depends on their places alone, and not on how they are cut.
        """
        share, kept = 1.0, list[np.ndarray]()
        for each in batches:
            kept.append(each)
            self._keep(kept, len(kept) - 1, share)
            while sum(map(len, kept)) > self.most:
                share /= 2.0
                for place in range(len(kept)):
                    self._keep(kept, place, share)
        return np.concatenate(kept)

    def _keep(self, predicted: list[np.ndarray], batch: int, share: float) -> None:
        """Keep the rows of a batch that are in a share of all."""
        if share < 1.0:
            some = np.flatnonzero(chosen_units(self._places[batch], share))
            predicted[batch], self._places[batch] = predicted[batch][some], self._places[batch][some]
            self._labels[batch] = self._labels[batch][some]
            self._units[batch : batch + 1] = [each.take(some) for each in self._units[batch : batch + 1]]

    def _tables(self) -> Iterator[pa.Table]:
        for table, labels in self.batches:
            if labels is not None:
                self._labels.append(labels)
                self._places.append(np.arange(self.count, self.count + table.num_rows, dtype=np.uint64))
            if self.unit in table.column_names:
                self._units.append(table[self.unit])
            self.count += table.num_rows
            yield table

    def labels(self) -> Release:
        """The public labels of the rows that are kept."""
        first = self._labels[0]
        return Release(np.concatenate([each.codes for each in self._labels]), first.channel, first.space, None)

    def units(self) -> np.ndarray | None:
        """The unit of each row that was read, if a column tells."""
        if not self._units:
            return None
        every = pa.chunked_array([chunk for column in self._units for chunk in column.chunks])
        return unit_numbers(every, len(every))


def _as_mask(_: Release, members: object) -> np.ndarray:
    """Sets of classes, as they are."""
    return np.asarray(members)


def _likely(_: Release, members: np.ndarray) -> np.ndarray:
    """Distributions of true classes of which a tenth is outside the sets, where anything is."""
    outside = np.where(members.all(axis=1), 0.0, 0.1)[:, None]
    sizes = members.sum(axis=1, keepdims=True)
    return np.asarray(
        np.where(members, (1.0 - outside) / sizes, outside / np.maximum((~members).sum(axis=1, keepdims=True), 1))
    )


def _check_other(learned_from: Certificate, certificate: Certificate | None, label: str) -> Certificate:
    """The certificate of a release of the same label and label space, which the model was not fitted on."""
    if certificate is None or certificate.label != label:
        found = certificate.label if certificate else "public labels"
        raise InputError(f"expected a release of the label {label!r}, found {found!r}")
    if certificate.space != learned_from.space:
        raise InputError("expected a release with the label space of the model, found another")
    if certificate.may_share_rows(learned_from):
        raise InputError(
            "expected rows that the model was not fitted on, found the release that it was learned from; "
            "for that one, see the cross-validated scores that 'labeldp learn' printed"
        )
    return certificate
