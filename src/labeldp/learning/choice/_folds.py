"""Folds of privacy units, and predictions of rows that a fit did not see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold

from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning.metrics import Units

#: Number of rows from which one held-out fold is precise enough, so that cross-validation is not worth its time.
_ENOUGH_ROWS = 20_000
#: Rows to fit on, and held-out rows, of each fold.
Parts = Sequence[tuple[np.ndarray, np.ndarray]]


def folds_of(units: Units, count: int) -> Parts:
    """Rows to fit on and held-out rows of each fold, with each unit on one side. Labels play no part."""
    if units.count < count:
        raise InputError(
            f"expected at least {count} units, one for each fold, found {units.count} in {units.rows} rows"
        )
    if units.numbers is None:
        return list(KFold(count, shuffle=True, random_state=0).split(np.zeros(units.rows)))
    return list(GroupKFold(count, shuffle=True, random_state=0).split(units.numbers, groups=units.numbers))


def in_folds(units: Units, count: int) -> Parts:
    """All folds of few rows and one of many; fewer folds of fewer units, and none of a single one."""
    count = min(count, units.count)
    parts = folds_of(units, count) if count > 1 else []
    return parts if units.rows < _ENOUGH_ROWS else parts[:1]


def some_rows(units: Units, most: int, seed: Sequence[int]) -> Int[np.ndarray, "m"]:
    """Numbers of at most so many rows, in whole units, by public chance: without a look at labels."""
    groups = np.arange(units.rows) if units.numbers is None else units.numbers
    sizes = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(len(sizes))
    taken = np.zeros(len(sizes), dtype=np.bool_)
    taken[order[np.cumsum(sizes[order]) <= most]] = True
    return np.flatnonzero(taken[groups])


def numbers_of(parts: Parts, rows: int) -> Int[np.ndarray, "n"]:
    """The number of the fold in which each row is held out."""
    numbers = np.zeros(rows, dtype=np.int64)
    for number, (_, held) in enumerate(parts):
        numbers[held] = number
    return numbers


def predict_others(
    parts: Parts, rows: int, predict: Callable[[np.ndarray, np.ndarray], Float[np.ndarray, "m ..."]]
) -> Float[np.ndarray, "n ..."]:
    """Predictions of held-out rows by what was fitted to others, for rows in folds.

    Args:
        parts: Rows to fit on and held-out rows of each fold.
        rows: Number of rows.
        predict: Function of the rows to fit on and the held-out rows that predicts these.
    """
    predicted: Any = None
    for fit, held in parts:
        found = predict(fit, held)
        predicted = np.empty((rows, *found.shape[1:])) if predicted is None else predicted
        predicted[held] = found
    return np.asarray(predicted)
