"""Judging by folds: every row by a model that was fitted on other rows, and no unit on both sides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from labeldp.errors import InputError
from labeldp.learning.convex import FewRowsWarning
from labeldp.learning.losses import gain
from labeldp.learning.tables._regressors import is_behind_first, judged_numbers
from labeldp.release import Release
from labeldp.release.folder import Certificate

FOLDS = 5
_TENTH = 10

Progress = Callable[[str, int, int], None]


def enough_rows(release: Release) -> Certificate:
    """The certificate of a release that has rows enough to learn from and to judge by."""
    if release.certificate is None or len(release) < 2 * FOLDS:
        raise InputError(f"expected at least {2 * FOLDS} rows to learn from, found {len(release)}")
    return release.certificate


def unit_of(certificate: Certificate) -> str | None:
    """The column that tells units apart, where a unit is not a row."""
    return None if certificate.guarantee.unit == "row" else certificate.guarantee.unit


def units_in(table: pa.Table, unit: str | None) -> pa.ChunkedArray | None:
    """The unit of each row, where its column was kept."""
    return table[unit] if unit is not None and unit in table.column_names else None


def folds_of(rows: int, units: pa.ChunkedArray | None, folds: int = FOLDS) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit on and rows to judge by: every row is judged once, and a unit is never on both sides."""
    if units is None:
        yield from KFold(folds, shuffle=True, random_state=0).split(np.zeros(rows))
        return
    groups = pc.rank(units, tiebreaker="dense").to_numpy()
    if len(np.unique(groups)) < folds:
        raise InputError(f"expected at least {folds} units to learn from, found {len(np.unique(groups))}")
    yield from GroupKFold(folds, shuffle=True, random_state=0).split(np.zeros(rows), groups=groups)


def one_part(rows: int, units: pa.ChunkedArray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit on, and a tenth of the rows to judge by, without a unit on both sides."""
    return next(folds_of(rows, units, _TENTH))


def judged(
    estimators: Sequence[Any],
    frame: Any,
    release: Release,
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
    report: Progress,
    numbers: bool = False,
) -> tuple[Float[np.ndarray, "n ..."], int]:
    """Probabilities, or numbers, of each row by a model fitted on other rows, and which estimator is best on all rows.

    For each fold, the estimator is the one that is best on the other folds, so that its choice owes little to the
    rows that judge it. A regressor that is behind the first one on the first fold is not tried on others.
    """
    shape = (len(release),) if numbers else (len(release), release.space.size)
    found = np.empty((len(estimators), *shape))
    fits = 0
    for place, estimator in enumerate(estimators):
        for fit, held in parts:
            report("learn", fits, len(estimators) * len(parts) + 1)
            with warnings.catch_warnings():  # what a fit on all rows says is enough
                warnings.simplefilter("ignore", FewRowsWarning)
                fitted = clone(estimator).fit(frame.iloc[fit], release[fit])
            say = fitted.predict if numbers else fitted.predict_proba
            found[place, held] = say(frame.iloc[held])
            fits += 1
            if numbers and place > 0 and fit is parts[0][0] and is_behind_first(release, found, place, held):
                found[place] = found[0]
                break
    report("learn", fits, fits + 1)
    if numbers:
        return judged_numbers(release, found, parts)
    gains = np.stack([gain(release, each) for each in found])
    chosen = np.empty(found.shape[1:])
    for fit, held in parts:
        chosen[held] = found[np.argmax(gains[:, fit].mean(axis=1)), held]
    return chosen, int(np.argmax(gains.mean(axis=1)))
