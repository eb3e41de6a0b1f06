"""Regressors of numeric labels of a table: models, methods, and metrics on released labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from labeldp import _checks
from labeldp._shapes import Float, Int
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.convex import BALLS, ConvexRegressor
from labeldp.learning.features import scaling_transformer, tree_transformer
from labeldp.learning.losses import decoded_numbers, is_decodable, is_unbiased, require_numeric_labels
from labeldp.learning.metrics import (
    Bounds,
    Estimate,
    Units,
    folds_to_choose_on,
    gains_of,
    mean_of_rows,
    sums_of_others,
)
from labeldp.learning.sklearn import (
    NeighborsRegressor,
    ReleasedLabelRegressor,
    usual_boosting,
    usual_ridge,
)
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

#: Models of numeric labels and their methods; the first is the default. ``"auto"`` chooses between the two after it.
NUMBER_METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "auto": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "ridge": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "boosting": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "neighbours": ("auto", "unbiased"),
        "convex": ("unbiased",),
    }
)
#: Models that need unbiased released numbers.
_UNBIASED = ("neighbours", "convex")
#: Passes of descent over the rows: on few rows, one pass stops half way.
_PASSES = 5
_CHOSEN_AMONG = ("ridge", "boosting")
#: Inner folds, for the shrinkage of predictions towards their mean.
_FOLDS = 2


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
    """

    rows: int
    squared_error: Estimate | Bounds
    baseline: Estimate | Bounds
    gain: Estimate
    r2: Estimate | None
    absolute_error: Estimate | None
    mean: Estimate | Bounds


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
        units: The privacy unit of each row, whose rows are dependent; None if each row is its own.

    Raises:
        InputError: There is no unit for each row.
    """
    sample = Units.of(units, len(require_numeric_labels(release)))
    values, place = decoded_numbers(release), folds_to_choose_on(release, folds, sample)
    constant = (sums_of_others(values, place) / np.maximum(sums_of_others(np.ones(len(values)), place), 1.0))[place]
    over = mean_of_rows(gains_of(release, predicted) - gains_of(release, constant), 0.95, units=sample)
    squared = metrics.mean_squared_error(release, predicted, units=sample)
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
    )


def number_estimators(columns: Mapping[str, str], model: str, method: str, ratio: float = 1.0) -> dict[str, Pipeline]:
    """Candidate pipelines by name.

    Args:
        columns: The kind of each column.
        model: One of ``NUMBER_METHODS``.
        method: Training method.
        ratio: Variance of released numbers over that of labels.
    """
    trees, places = tree_transformer(columns)
    boosting = usual_boosting(ratio).set_params(categorical_features=places)
    pipelines: dict[str, Pipeline] = {
        "ridge": Pipeline([("columns", scaling_transformer(columns)), ("model", _regressor(usual_ridge(), method))]),
        "boosting": Pipeline([("columns", trees), ("model", _regressor(boosting, method))]),
        "neighbours": Pipeline(
            [("columns", scaling_transformer(columns, dense=True)), ("model", NeighborsRegressor())]
        ),
        "convex": Pipeline([("columns", scaling_transformer(columns)), ("model", ConvexRegressor(passes=_PASSES))]),
    }
    return {name: pipelines[name] for name in (_CHOSEN_AMONG if model == "auto" else (model,))}


def check_number_model(model: str, method: str | None, release: Release) -> str:
    """The method of a model of numeric labels.

    Raises:
        InputError: There is no such model or method, or it cannot learn from this channel.
    """
    known = NUMBER_METHODS[_checks.among(model, "a model of numeric labels", NUMBER_METHODS)]
    method = _checks.among(method or known[0], f"a method of {model}", known)
    if not is_decodable(release):
        raise InputError(
            "expected released labels that identify the mean label, found candidates or clusters; use the model softmax"
        )
    if model in _UNBIASED and not is_unbiased(release):
        raise InputError(
            f"expected unbiased released numbers for {model}, found bins, candidates or clusters; use ridge or boosting"
        )
    return method


def number_setting(fitted: Pipeline, names: Sequence[str]) -> str:
    """Description of what was chosen, among models of some names."""
    last, chosen = fitted.steps[-1][1], "chosen on released labels"
    if isinstance(last, NeighborsRegressor):
        return f"{last.k_:,} neighbours, {chosen}"
    if isinstance(last, ConvexRegressor):
        return f"coefficients within {last.region_.radius:.3g} of zero, chosen among {BALLS} on released labels"
    shrinkage = f"{1.0 - last.share_:.0%}"
    amount = "no shrinkage" if shrinkage == "0%" else f"{shrinkage} shrinkage"
    among = f"the model among {len(names)} ({', '.join(names)}) and " if len(names) > 1 else ""
    return f"{amount} towards the mean; {among}the shrinkage {chosen}"


def is_behind_first(release: Release, predicted: Float[np.ndarray, "m n"], place: int, held: np.ndarray) -> bool:
    """True if a model has no larger mean gain than the first one on held-out rows."""
    over = gains_of(release[held], predicted[place, held]) - gains_of(release[held], predicted[0, held])
    return float(over.mean()) <= 0.0


def _regressor(estimator: Any, method: str) -> ReleasedLabelRegressor:
    return ReleasedLabelRegressor(estimator, method=method, folds=_FOLDS)  # type: ignore[arg-type]
