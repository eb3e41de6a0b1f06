"""Regressors of numeric labels of a table: models, methods, and metrics on released labels."""

from __future__ import annotations

from collections.abc import Mapping
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
from labeldp.learning.losses import decoded_numbers, is_unbiased, require_decodable, require_numeric_labels
from labeldp.learning.metrics import (
    Bounds,
    Estimate,
    NumberCalibration,
    Units,
    folds_to_choose_on,
    gains_of,
    mean_of_rows,
    sums_of_others,
)
from labeldp.learning.sklearn import (
    AutoRegressor,
    NeighborsRegressor,
    NumberMixture,
    ReleasedLabelRegressor,
    usual_boosting,
    usual_ridge,
)
from labeldp.learning.tables._classifiers import AUTO
from labeldp.privacy.channels import ClassChannel
from labeldp.release import Release

#: Models of numeric labels and their methods; the first is the default.
NUMBER_METHODS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "auto": ("auto",),
        "ridge": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "boosting": ("auto", "unbiased", "likelihood", "decoded", "plain"),
        "neighbours": ("auto", "unbiased"),
        "convex": ("unbiased",),
    }
)
#: Models that need unbiased released numbers.
UNBIASED = ("neighbours", "convex")
#: The linear model of numbers.
OF_NUMBERS = "ridge"
#: Passes of descent over the rows: on few rows, one pass stops half way.
_PASSES = 5
#: Fewest units in a bin of predictions on average, and the most bins.
_UNITS_OF_A_BIN, _MOST_BINS = 100, 10
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
        calibration: Mean prediction and estimated mean label, in bins of about equally many rows, as many as the labels
            can tell apart; None of released bins.
    """

    rows: int
    squared_error: Estimate | Bounds
    baseline: Estimate | Bounds
    gain: Estimate
    r2: Estimate | None
    absolute_error: Estimate | None
    mean: Estimate | Bounds
    calibration: NumberCalibration | None = None


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
        _calibration(release, predicted, sample),
    )


def _calibration(release: Release, predicted: Float[np.ndarray, "n"], units: Units) -> NumberCalibration | None:
    """Mean labels in so many bins that the standard error of each is about a quarter of the predictions' deviation."""
    error = mean_of_rows(decoded_numbers(release), 0.95, units=units).error
    told = (float(predicted.std()) / max(4.0 * error, np.finfo(float).tiny)) ** 2
    count = int(np.clip(min(told, units.count / _UNITS_OF_A_BIN), 1, _MOST_BINS))
    limits = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, count + 1)[1:-1]))
    return metrics.number_calibration(release, predicted, limits.tolist(), units=units)


def number_estimator(columns: Mapping[str, str], model: str, method: str, ratio: float = 1.0) -> Any:
    """The pipeline of a model, or the regressor that combines several.

    Args:
        columns: The kind of each column.
        model: One of ``NUMBER_METHODS``.
        method: Training method.
        ratio: Variance of released numbers over that of labels.
    """
    if model == AUTO:
        return AutoRegressor()
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
    return pipelines[model]


def check_number_model(model: str, method: str | None, release: Release) -> str:
    """The method of a model of numeric labels.

    Raises:
        InputError: There is no such model or method, or it cannot learn from this channel.
    """
    known = NUMBER_METHODS[_checks.among(model, "a model of numeric labels", NUMBER_METHODS)]
    method = _checks.among(method or known[0], f"a method of {model}", known)
    require_decodable(release)
    if model in UNBIASED and not is_unbiased(release):
        raise InputError(
            f"expected unbiased released numbers for {model}, found bins, candidates or clusters; use ridge or boosting"
        )
    return method


def share_of_model(fitted: Any, mixture: NumberMixture | None = None) -> float:
    """The weight of a pipeline's predictions beside the mean label: 0 where that is all that is predicted."""
    return float(mixture.weights[0] if mixture is not None else fitted.steps[-1][1].share_)


def number_setting(fitted: Any, mixture: NumberMixture | None = None) -> str:
    """Description of what was chosen on released labels.

    Args:
        fitted: A pipeline.
        mixture: Its shrinkage towards the mean label, if that is not its own.
    """
    last, chosen = fitted.steps[-1][1], "chosen on released labels"
    shrinkage = f"{max(0.0, 1.0 - share_of_model(fitted, mixture)):.0%}"
    amount = f"{'no' if shrinkage == '0%' else shrinkage} shrinkage towards the mean"
    if isinstance(last, NeighborsRegressor):
        return f"{last.k_:,} neighbours, {amount}, both {chosen}"
    if isinstance(last, ConvexRegressor):
        return f"coefficients within {last.region_.radius:.3g} of zero among {BALLS}, {amount}, both {chosen}"
    return f"{amount}, {chosen}"


def number_mixture_from(body: Any, release_range: tuple[float, float]) -> NumberMixture | None:
    """A mixture from plain data; None if there is none.

    Raises:
        ValueError: It is not of one model, or not of finite numbers.
    """
    if body is None:
        return None
    found = NumberMixture(np.asarray(body["weights"], dtype=np.float64), float(body["centre"]), *release_range)
    if found.weights.shape != (1,) or not np.isfinite([*found.weights, found.centre]).all():
        raise ValueError("a mixture of other models")
    return found


def _regressor(estimator: Any, method: str) -> ReleasedLabelRegressor:
    return ReleasedLabelRegressor(estimator, method=method, folds=_FOLDS)  # type: ignore[arg-type]
