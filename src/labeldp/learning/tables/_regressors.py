"""Regressors of the real label of a table: which there are, how they are judged on released labels, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.convex import ConvexRegressor
from labeldp.learning.features import scaling_transformer, tree_transformer
from labeldp.learning.losses import decoded_numbers, is_decodable, is_unbiased, require_numeric_labels
from labeldp.learning.metrics import Bounds, Estimate, gains_of, mean_of_rows
from labeldp.learning.sklearn import (
    NeighborsRegressor,
    ReleasedLabelRegressor,
    clearly_best,
    usual_boosting,
    usual_ridge,
)
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

#: Models of real labels and their methods; the first is the default. ``"auto"`` chooses between the two after it.
NUMBER_METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "auto": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "ridge": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "boosting": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "neighbours": ("auto", "unbiased"),
        "convex": ("unbiased",),
    }
)
#: Those that take each number for the label.
_UNBIASED = ("neighbours", "convex")
#: How often descent sees each row: tables in memory gain by it, where one pass of a few rows leads half way.
_PASSES = 5
_CHOSEN_AMONG = ("ridge", "boosting")
#: Inner folds, for what predictions are drawn towards their mean.
_FOLDS = 2


@dataclass(frozen=True, eq=False)
class NumberScores:
    """How good predicted numbers are, as far as labels tell.

    Attributes:
        rows: How many rows they were judged on.
        squared_error: Mean squared error on true labels; bounds where the law does not tell squares of labels.
        baseline: That of always saying the mean label.
        gain: How far the first is below the second: known wherever numbers are unbiased.
        r2: The share of the variance of labels that is explained, where squares are told.
        absolute_error: Mean absolute error, where labels are public or were released as points of their grid.
        mean: The mean label.
    """

    rows: int
    squared_error: Estimate | Bounds
    baseline: Estimate | Bounds
    gain: Estimate
    r2: Estimate | None
    absolute_error: Estimate | None
    mean: Estimate | Bounds


def number_scores(release: Release, predicted: Float[np.ndarray, "n"]) -> NumberScores:
    """All metrics of numbers that the law identifies.

    Args:
        release: Released real labels of n rows, or public ones.
        predicted: Predicted labels, shape (n,).
    """
    constant = np.full(len(release), float(decoded_numbers(require_numeric_labels(release)).mean()))
    over = mean_of_rows(gains_of(release, predicted) - gains_of(release, constant), 0.95)
    squared = metrics.mean_squared_error(release, predicted)
    exact = isinstance(squared, Estimate)
    return NumberScores(
        len(release),
        squared,
        metrics.mean_squared_error(release, constant),
        over,
        metrics.r2(release, predicted) if exact else None,
        metrics.mean_absolute_error(release, predicted) if isinstance(release.channel, ClassChannel) else None,
        metrics.mean_label(release),
    )


def number_estimators(columns: Mapping[str, str], model: str, method: str, ratio: float = 1.0) -> dict[str, Pipeline]:
    """What is to be chosen among, by name.

    Args:
        columns: The kind of each column.
        model: One of ``NUMBER_METHODS``.
        method: How it learns.
        ratio: How many times as much as labels released numbers vary.
    """
    trees, places = tree_transformer(columns)
    boosting = usual_boosting(ratio).set_params(categorical_features=places)
    made: dict[str, Pipeline] = {
        "ridge": Pipeline([("columns", scaling_transformer(columns)), ("model", _regressor(usual_ridge(), method))]),
        "boosting": Pipeline([("columns", trees), ("model", _regressor(boosting, method))]),
        "neighbours": Pipeline(
            [("columns", scaling_transformer(columns, dense=True)), ("model", NeighborsRegressor())]
        ),
        "convex": Pipeline([("columns", scaling_transformer(columns)), ("model", ConvexRegressor(passes=_PASSES))]),
    }
    return {name: made[name] for name in (_CHOSEN_AMONG if model == "auto" else (model,))}


def check_number_model(model: str, method: str | None, release: Release) -> str:
    """The method of a model of real labels.

    Raises:
        InputError: There is no such model or method, or it can not learn from this law.
    """
    if model not in NUMBER_METHODS:
        raise InputError(f"expected a model of real labels among {', '.join(NUMBER_METHODS)}, found {model!r}")
    if method is not None and method not in NUMBER_METHODS[model]:
        known = ", ".join(NUMBER_METHODS[model])
        raise InputError(f"expected a method of {model} among {known}, found {method!r}")
    if not is_decodable(release):
        raise InputError(
            "expected released labels that tell the mean of labels, found candidates or clusters; use the model softmax"
        )
    if model in _UNBIASED and not is_unbiased(release):
        raise InputError(
            f"expected a law under which the mean of a released number is the label for {model}, found bins, "
            "candidates or clusters; use ridge or boosting"
        )
    return method or NUMBER_METHODS[model][0]


def number_setting(fitted: Pipeline) -> str:
    """What was chosen on released labels, in words."""
    last = fitted.steps[-1][1]
    if isinstance(last, NeighborsRegressor):
        return f"{last.k_:,} neighbours, chosen on released labels"
    if isinstance(last, ConvexRegressor):
        return f"coefficients within {last.region_.reach(last.coef_.shape):.3g} of zero, chosen on released labels"
    return f"{last.share_:.0%} of the way from the mean to what it says, chosen on released labels"


def judged_numbers(
    release: Release, found: Float[np.ndarray, "m n"], parts: Sequence[tuple[np.ndarray, np.ndarray]]
) -> tuple[Float[np.ndarray, "n"], int]:
    """Numbers of each row by the model that is clearly best on the other folds, and which is on all rows."""
    gains = np.stack([gains_of(release, each) for each in found])
    chosen = np.empty(len(release))
    for fit, held in parts:
        chosen[held] = found[clearly_best(gains[:, fit]), held]
    return chosen, clearly_best(gains)


def is_behind_first(release: Release, found: Float[np.ndarray, "m n"], place: int, held: np.ndarray) -> bool:
    """Whether a model is no better than the first one on some rows, as ``is_behind`` judges."""
    over = gains_of(release[held], found[place, held]) - gains_of(release[held], found[0, held])
    return float(over.mean()) <= 0.0


def _regressor(estimator: Any, method: str) -> ReleasedLabelRegressor:
    return ReleasedLabelRegressor(estimator, method=method, folds=_FOLDS)  # type: ignore[arg-type]
