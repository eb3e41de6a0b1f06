"""Cross-validation in which no privacy unit is on both sides of a fold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.convex import FewRowsWarning
from labeldp.learning.losses import gain
from labeldp.learning.sklearn import Calibrator
from labeldp.privacy import predicted_columns
from labeldp.release import Release, unit_numbers
from labeldp.release.folder import Certificate

FOLDS = 5

Progress = Callable[[str, int, int], None]


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release, which must have enough rows for cross-validation."""
    if release.certificate is None or len(release) < 2 * FOLDS:
        raise InputError(f"expected at least {2 * FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def units_in(table: pa.Table, unit: str | None) -> Int[np.ndarray, "n"] | None:
    """The number of each row's privacy unit, as releases tell units apart, or None if its column was not kept."""
    if unit is None or unit not in table.column_names:
        return None
    return unit_numbers(table[unit], table.num_rows)


def chosen_rows(certificate: Certificate, units: Int[np.ndarray, "n"] | None, most: int) -> Int[np.ndarray, "m"]:
    """Numbers of at most so many rows, in whole units: by chance, without a look at labels, and equal for one release.

    Raises:
        InputError: So many rows do not suffice for cross-validation.
    """
    most = _checks.whole(most, "rows", 2 * FOLDS)
    groups = np.arange(certificate.rows) if units is None else units
    sizes = np.bincount(groups)
    order = np.random.default_rng(list(certificate.release.encode())).permutation(len(sizes))
    taken = np.zeros(len(sizes), dtype=np.bool_)
    taken[order[np.cumsum(sizes[order]) <= most]] = True
    return np.flatnonzero(taken[groups])


def fold_numbers(parts: Sequence[tuple[np.ndarray, np.ndarray]], rows: int) -> Int[np.ndarray, "n"]:
    """Number of the fold in which each row is held out."""
    numbers = np.empty(rows, dtype=np.int64)
    for number, (_, held) in enumerate(parts):
        numbers[held] = number
    return numbers


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Predictions of rows by models that were fitted on other folds, and the choices made on them.

    Attributes:
        predicted: Predicted numbers of n rows, or probabilities in declared order, shape (n, k). The model of a fold,
            and its calibration, are chosen on the other folds, so that the choice hardly depends on the row.
        folds: The fold of each row.
        best: Index of the best estimator on all rows.
        calibrator: Calibration of the best estimator, by all rows; None without one.
        without: Function that fits models without each pair of folds, and returns for each fold the predictions by
            models that were fitted neither on it nor on the row's own fold, for ``class_scores``; None if that is slow.
    """

    predicted: Float[np.ndarray, "n ..."]
    folds: Int[np.ndarray, "n"]
    best: int
    calibrator: Calibrator | None = None
    without: Callable[[], Float[np.ndarray, "folds n k"]] | None = None


def cross_validated(
    estimators: Sequence[Any],
    frame: Any,
    release: Release,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    report: Progress,
    *,
    numbers: bool = False,
    calibrate: bool = False,
    pairs: bool = False,
) -> CrossValidation:
    """Predict each row by models that were fitted on other folds.

    Args:
        estimators: The candidates; of numbers one.
        frame: Features of the n rows.
        release: Their released labels.
        parts: Rows to fit on and held-out rows of each fold.
        report: Called with the name of the work, the number of fits done, and the number of all fits.
        numbers: True for regressors.
        calibrate: True to calibrate probabilities, or to replace them by class shares, which stay in doubt.
        pairs: True for a single estimator that is quickly fitted without each pair of folds too, so that
            ``class_scores`` can estimate the error of cross-validation.
    """
    shape = (len(release),) if numbers else (len(release), release.space.size)
    predicted = np.empty((len(estimators), *shape))
    folds = fold_numbers(parts, len(release))
    fits, total = 0, len(estimators) * len(parts) + 1
    for place, estimator in enumerate(estimators):
        for fit, held in parts:
            report("learn", fits, total)
            predicted[place, held] = _predictions(estimator, frame, release, fit, held, numbers=numbers)
            fits += 1
    report("learn", fits, fits + 1)
    if numbers:
        return CrossValidation(predicted[0], folds, 0)
    gains = np.stack([gain(release, each) for each in predicted])
    chosen = np.empty(predicted.shape[1:])
    for fit, held in parts:
        best = predicted[_best(gains[:, fit])]
        chosen[held] = Calibrator.fit(release[fit], best[fit])(best[held]) if calibrate else best[held]
    best = _best(gains)
    calibrator = Calibrator.fit(release, predicted[best]) if calibrate else None
    without = partial(_without_pairs, estimators[0], frame, release, folds, chosen) if pairs else None
    return CrossValidation(chosen, folds, best, calibrator, without)


def _without_pairs(
    estimator: Any, frame: Any, release: Release, folds: Int[np.ndarray, "n"], predicted: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "folds n k"]:
    """For each fold, predictions of rows by copies fitted neither on it nor on the row's own fold."""
    count = int(folds.max()) + 1
    without = np.repeat(predicted[None], count, axis=0)
    for first, second in combinations(range(count), 2):
        fit, held = (np.flatnonzero(np.isin(folds, (first, second), invert=apart)) for apart in (True, False))
        found, own = _predictions(estimator, frame, release, fit, held), folds[held] == first
        without[second, held[own]], without[first, held[~own]] = found[own], found[~own]
    return without


def _predictions(
    estimator: Any,
    frame: Any,
    release: Release,
    fit: Int[np.ndarray, "_"],
    held: Int[np.ndarray, "_"],
    *,
    numbers: bool = False,
) -> Float[np.ndarray, "m ..."]:
    """Predictions of held-out rows by a copy that was fitted on others."""
    with warnings.catch_warnings():  # the fit on all rows warns again
        warnings.simplefilter("ignore", FewRowsWarning)
        fitted = clone(estimator).fit(frame.iloc[fit], release[fit])
    rows = frame.iloc[held]
    return np.asarray(fitted.predict(rows)) if numbers else predicted_columns(fitted, rows, release.space)


def _best(gains: Float[np.ndarray, "m n"]) -> int:
    """The model with the largest mean gain."""
    return int(np.argmax(gains.mean(axis=1)))
