"""Metrics of predicted numbers on released labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.learning import metrics
from labeldp.learning.losses import decoded_numbers, require_numeric_labels
from labeldp.learning.metrics import (
    Bounds,
    Estimate,
    NumberCalibration,
    Units,
    folds_to_choose_on,
    gains_of,
    mean_of_rows,
)
from labeldp.learning.tables._class_scores import constants_of_others
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

#: Fewest units in a bin of predictions on average, and the most bins.
_UNITS_OF_A_BIN, _MOST_BINS = 100, 10


@dataclass(frozen=True, eq=False)
class NumberScores:
    """Metrics of predicted numbers, estimated on released labels.

    Attributes:
        rows: Number of rows.
        squared_error: Mean squared error on true labels; bounds if the channel does not identify squares of labels.
        baseline: Mean squared error of always predicting the mean label, estimated for each fold of rows on the others
            unless labels are public.
        gain: Improvement of the squared error over the baseline; known whenever released numbers are unbiased.
        r2: Explained share of the variance of labels, if the channel identifies squares.
        absolute_error: Mean absolute error, if labels are public or were released as grid points.
        mean: Mean label.
        calibration: Mean prediction and estimated mean label, in bins of about equally many rows, as many as the labels
            can tell apart; None of released bins.
        of_rows: Number of rows that these were chosen from by a public hash; None where all are judged.
    """

    rows: int
    squared_error: Estimate | Bounds
    baseline: Estimate | Bounds
    gain: Estimate
    r2: Estimate | None
    absolute_error: Estimate | None
    mean: Estimate | Bounds
    calibration: NumberCalibration | None = None
    of_rows: int | None = None


def number_scores(
    release: Release,
    predicted: Float[np.ndarray, "n"],
    folds: Int[np.ndarray, "n"] | None = None,
    units: object = None,
) -> NumberScores:
    """All metrics of numbers that the channel identifies.

    Args:
        release: Released numeric labels of n rows, or public ones.
        predicted: Predicted labels, shape (n,).
        folds: The fold of each row, if its prediction is from a model that was fitted on the other folds.
        units: The privacy unit of each row, whose rows are dependent; ``"rows"`` if each row is its own.

    Raises:
        InputError: There is no unit for each row.
    """
    sample = Units.of(units, require_numeric_labels(release))
    values, place = decoded_numbers(release), folds_to_choose_on(release, folds, sample)
    squared = metrics.mean_squared_error(release, predicted, units=sample)
    constant = constants_of_others(place, lambda others: values[others].mean(keepdims=True))
    over = mean_of_rows(gains_of(release, predicted) - gains_of(release, constant), 0.95, units=sample)
    exact = isinstance(squared, Estimate)
    return NumberScores(
        len(release),
        squared,
        metrics.mean_squared_error(release, constant, units=sample),
        over,
        metrics.r2(release, predicted, units=sample) if exact else None,
        metrics.mean_absolute_error(release, predicted, units=sample)
        if isinstance(release.channel, ClassChannel)
        else None,
        metrics.mean_label(release, units=sample),
        _calibration(release, predicted, sample),
    )


def _calibration(release: Release, predicted: Float[np.ndarray, "n"], units: Units) -> NumberCalibration | None:
    """Mean labels in so many bins that the standard error of each is about a quarter of the predictions' deviation."""
    error = mean_of_rows(decoded_numbers(release), 0.95, units=units).error
    told = (float(predicted.std()) / max(4.0 * error, np.finfo(float).tiny)) ** 2
    count = int(np.clip(min(told, units.count / _UNITS_OF_A_BIN), 1, _MOST_BINS))
    limits = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, count + 1)[1:-1]))
    return metrics.number_calibration(release, predicted, limits.tolist(), units=units)
