"""Cross-validation in which no privacy unit is on both sides of a fold."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.convex import FewRowsWarning
from labeldp.learning.losses import gain
from labeldp.learning.metrics import gains_of
from labeldp.learning.sklearn import clearly_best
from labeldp.learning.tables._regressors import is_behind_first
from labeldp.privacy import predicted_columns
from labeldp.release import Release
from labeldp.release.folder import Certificate

FOLDS = 5
_TENTH = 10

Progress = Callable[[str, int, int], None]


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release, which must have enough rows for cross-validation."""
    if release.certificate is None or len(release) < 2 * FOLDS:
        raise InputError(f"expected at least {2 * FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def unit_of(certificate: Certificate) -> str | None:
    """The column of privacy units, or None if a unit is a row."""
    return None if certificate.guarantee.unit == "row" else certificate.guarantee.unit


def units_in(table: pa.Table, unit: str | None) -> pa.ChunkedArray | None:
    """The privacy unit of each row, or None if its column was not kept."""
    return table[unit] if unit is not None and unit in table.column_names else None


def folds_of(rows: int, units: pa.ChunkedArray | None, folds: int = FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Folds of rows to fit on and held-out rows; every row is held out once, and a unit is never on both sides."""
    if units is None:
        yield from KFold(folds, shuffle=True, random_state=0).split(np.zeros(rows))
        return
    groups = pc.rank(units, tiebreaker="dense").to_numpy()
    if len(np.unique(groups)) < folds:
        raise InputError(f"expected at least {folds} units to learn from, found {len(np.unique(groups))}")
    yield from GroupKFold(folds, shuffle=True, random_state=0).split(np.zeros(rows), groups=groups)


def fold_numbers(parts: Sequence[tuple[np.ndarray, np.ndarray]], rows: int) -> Int[np.ndarray, "n"]:
    """Number of the fold in which each row is held out."""
    numbers = np.empty(rows, dtype=np.int64)
    for number, (_, held) in enumerate(parts):
        numbers[held] = number
    return numbers


def one_part(rows: int, units: pa.ChunkedArray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on and a held-out tenth, without a unit on both sides."""
    return next(folds_of(rows, units, _TENTH))


def cross_validated(
    estimators: Sequence[Any],
    frame: Any,
    release: Release,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    report: Progress,
    numbers: bool = False,
) -> tuple[Float[np.ndarray, "n ..."], int]:
    """Out-of-fold predictions of each row by the best estimator, and the index of the best one on all rows.

    Probabilities are in declared order.

    In each fold the estimator is the one that is best on the other folds, so that the choice hardly depends on the
    held-out rows. A regressor that is behind the first one on the first fold is not fitted on the others.
    """
    shape = (len(release),) if numbers else (len(release), release.space.size)
    predicted = np.empty((len(estimators), *shape))
    fits = 0
    for place, estimator in enumerate(estimators):
        for fit, held in parts:
            report("learn", fits, len(estimators) * len(parts) + 1)
            with warnings.catch_warnings():  # the fit on all rows warns again
                warnings.simplefilter("ignore", FewRowsWarning)
                fitted = clone(estimator).fit(frame.iloc[fit], release[fit])
            rows = frame.iloc[held]
            predicted[place, held] = fitted.predict(rows) if numbers else predicted_columns(fitted, rows, release.space)
            fits += 1
            if numbers and place > 0 and fit is parts[0][0] and is_behind_first(release, predicted, place, held):
                predicted[place] = predicted[0]
                break
    report("learn", fits, fits + 1)
    gain_of, choose = (gains_of, clearly_best) if numbers else (gain, _best)
    gains = np.stack([gain_of(release, each) for each in predicted])
    chosen = np.empty(predicted.shape[1:])
    for fit, held in parts:
        chosen[held] = predicted[choose(gains[:, fit]), held]
    return chosen, choose(gains)


def _best(gains: Float[np.ndarray, "m n"]) -> int:
    """The model with the largest mean gain."""
    return int(np.argmax(gains.mean(axis=1)))
