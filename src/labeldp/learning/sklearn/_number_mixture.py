"""Combination of models' predicted numbers and of the mean label, with weights chosen on released numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.learning.losses import decoded_numbers, ends_of, expected_mean
from labeldp.learning.sklearn._members import Parts
from labeldp.learning.sklearn._regressor import precisions, shrinkage
from labeldp.release import Release

#: Prior variance of each weight around an equal share.
_VARIANCE = 0.1


@documented_in("labeldp.learning.sklearn")
@dataclass(frozen=True, eq=False)
class NumberMixture:
    """Combination of models' predicted numbers and of the mean label, within the declared range.

    Attributes:
        weights: Weight of each of m models, at least 0; that of the mean label is what they lack to 1. Above 1 together
            they move predictions away from the mean label, where models are too cautious.
        centre: The expected mean label.
        low: Lower end of the declared range.
        high: Upper end.
    """

    weights: Float[np.ndarray, "m"]
    centre: float
    low: float
    high: float

    def __post_init__(self) -> None:
        freeze_arrays(self, weights=np.float64)

    def __call__(self, predictions: Float[np.ndarray, "m n"]) -> Float[np.ndarray, "n"]:
        """The mixture of predictions; without models, the mean label."""
        offsets = np.clip(predictions, self.low, self.high) - self.centre
        return np.asarray(np.clip(self.centre + self.weights @ offsets, self.low, self.high))

    def plain(self) -> dict[str, Any]:
        """The mixture as plain data for a file."""
        return {"weights": self.weights.tolist(), "centre": self.centre}


@dataclass(frozen=True, eq=False)
class HeldOutNumbers:
    """Predictions of rows by models that were fitted on others, beside the released numbers of these rows.

    Attributes:
        numbers: Numbers of h rows, whose means are the labels.
        precisions: Their weights, in inverse proportion to their variances.
        predictions: Predictions of m models.
        centres: For each row the mean label of the rows that the models were fitted on.
        units: The privacy unit of each row.
        mixture: The mean label of all rows, and the declared range; no weights.
    """

    numbers: Float[np.ndarray, "h"]
    precisions: Float[np.ndarray, "h"]
    predictions: Float[np.ndarray, "m h"]
    centres: Float[np.ndarray, "h"]
    units: Int[np.ndarray, "h"]
    mixture: NumberMixture

    @classmethod
    def of(
        cls,
        release: Release,
        predictions: Float[np.ndarray, "m h"],
        rows: Int[np.ndarray, "h"],
        parts: Parts,
        groups: Any = None,
    ) -> HeldOutNumbers:
        """The problem of rows that were held out in some folds.

        Args:
            release: Released labels of n rows.
            predictions: Predictions of m models for the held-out rows.
            rows: These rows.
            parts: Rows that models were fitted on, and those that were held out, of each fold.
            groups: The privacy unit of each of the n rows; None if each row is its own.
        """
        numbers = decoded_numbers(release)
        weights = precisions(release, numbers)
        (low, high), centres = ends_of(release), np.empty(len(numbers))
        for fit, held in parts:
            centres[held] = expected_mean(numbers[fit], weights[fit], low, high)
        units = np.arange(len(numbers)) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
        mean = expected_mean(numbers, weights, low, high)
        mixture = NumberMixture(np.empty(0), mean, low, high)
        bounded = np.clip(predictions, mixture.low, mixture.high)
        return cls(numbers[rows], weights[rows], bounded, centres[rows], units[rows], mixture)

    def best(self) -> NumberMixture:
        """The mixture of least squared error against released numbers, in doubt near the mean label.

        Released numbers have labels as their means, so the squared error against them targets the one against labels.
        Two steps decide. First weights of at least 0 with a normal prior around equal ones: they minimise
        ``sum_i p_i (z_i - c_i - sum_j a_j d_ij)^2 / (2 s^2) + sum_j (a_j - 1/m)^2 / (2 v)`` for the numbers z with
        precisions p, means c of other folds, predictions ``c + d``, variance ``s^2`` of weighted residuals, and prior
        variance v: few effective rows move weights little. Then the expected factor towards the mean label, under even
        odds that features say nothing (``shrinkage``).

        References:
            Wolpert 1992 and Breiman 1996 (stacking with weights of at least 0).
        """
        models = len(self.predictions)
        scale = np.sqrt(self.precisions)
        offsets, targets = self.predictions - self.centres, self.numbers - self.centres
        matrix, goal = (offsets * scale).T, targets * scale
        if not models:
            return self.mixture
        residual = goal - matrix @ nnls(matrix, goal)[0]
        prior = np.sqrt(max(float((residual**2).mean()), np.finfo(float).tiny) / _VARIANCE)
        rows = np.concatenate([matrix, prior * np.eye(models)])
        weights = nnls(rows, np.append(goal, np.full(models, prior / models)))[0]
        factor = shrinkage(weights @ offsets, targets, self.precisions, self.units)
        return replace(self.mixture, weights=factor * weights)

    def cross_fitted(self, parts: Parts) -> Float[np.ndarray, "h"]:
        """Predictions for rows that neither the models nor the weights were fitted on.

        Weights are fitted on the rows of other folds. Their predictions are by models that saw these rows, so a
        held-out number has a small influence on the weights that it is judged by, as in any stacking without nested
        folds.

        Args:
            parts: Places among the held-out rows to fit weights on, and places that are held out from them.
        """
        mixed = np.empty(len(self.numbers))
        low, high = self.mixture.low, self.mixture.high
        for fit, held in parts:
            offsets = self.predictions[:, held] - self.centres[held]
            mixed[held] = np.clip(self.centres[held] + self._of_rows(fit).best().weights @ offsets, low, high)
        return mixed

    def _of_rows(self, rows: np.ndarray) -> HeldOutNumbers:
        """The problem of some of the rows."""
        names = ("numbers", "precisions", "centres", "units")
        return replace(
            self, predictions=self.predictions[:, rows], **{name: getattr(self, name)[rows] for name in names}
        )
