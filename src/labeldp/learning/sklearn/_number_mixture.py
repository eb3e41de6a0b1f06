"""Combination of models' predicted numbers and of the mean label, with weights chosen on released numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Bool, Float, Int
from labeldp.learning.choice import Fitted, Parts, Problem
from labeldp.learning.losses import decoded_numbers, ends_of, expected_mean
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._regressor import precisions, shrinkage, shrinkage_setting
from labeldp.release import Release

#: Prior variance of each weight.
_VARIANCE = 0.03


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

    @property
    def is_constant(self) -> bool:
        """True if the mean label is predicted for every row."""
        return not self.weights.any()

    def setting(self) -> str:
        """The shrinkage of one model towards the mean label, in words."""
        return shrinkage_setting(float(self.weights.sum()))

    def plain(self) -> dict[str, Any]:
        """The mixture as plain data for a file."""
        return {"weights": self.weights.tolist(), "centre": self.centre}


@dataclass(frozen=True, eq=False)
class HeldOutNumbers(Problem):
    """Predictions of rows by models that were fitted on others, beside the released numbers of these rows.

    Attributes:
        numbers: Numbers of h rows, whose means are the labels.
        precisions: Their weights, in inverse proportion to their variances.
        predictions: Predictions of m models.
        centres: For each row the mean label of the rows that the models were fitted on.
        units: The privacy units of the rows.
        mixture: The mean label of all rows, and the declared range; no weights.
        posterior: True for models whose predictions are means given the released numbers, which need no shrinkage.
    """

    numbers: Float[np.ndarray, "h"]
    precisions: Float[np.ndarray, "h"]
    predictions: Float[np.ndarray, "m h"]
    centres: Float[np.ndarray, "h"]
    units: Units
    mixture: NumberMixture
    posterior: Bool[np.ndarray, "m"]

    @classmethod
    def of(
        cls,
        release: Release,
        fitted: Sequence[Fitted],
        rows: Int[np.ndarray, "h"],
        parts: Parts,
        units: Units,
        sample_weight: Float[np.ndarray, "n"] | float = 1.0,
    ) -> HeldOutNumbers:
        """The problem of rows that were held out from members in some folds."""
        numbers = decoded_numbers(release)
        weights = sample_weight * precisions(release, numbers)
        (low, high), centres = ends_of(release), np.empty(len(numbers))
        for fit, held in parts:
            centres[held] = expected_mean(numbers[fit], weights[fit], low, high)
        mixture = NumberMixture(np.empty(0), expected_mean(numbers, weights, low, high), low, high)
        predicted = np.clip(np.reshape([each.held_out for each in fitted], (len(fitted), len(rows))), low, high)
        posterior = np.array([each.posterior for each in fitted], dtype=bool)
        return cls(numbers[rows], weights[rows], predicted, centres[rows], units.take(rows), mixture, posterior)

    def best(self) -> NumberMixture:
        """The mixture of least squared error against released numbers, in doubt near the mean label.

        Released numbers have labels as their means, so the squared error against them targets the one against labels.
        Two steps decide. First weights of at least 0 with a normal prior: they minimise
        ``sum_i p_i (z_i - c_i - sum_j a_j d_ij)^2 / (2 s^2) + sum_j (a_j - b_j)^2 / (2 v)`` for the numbers z with
        precisions p, means c of other folds, predictions ``c + d``, variance ``s^2`` of weighted residuals, and prior
        variance v: few effective rows move weights little. The prior means b are equal and sum to one for models whose
        predictions are posterior means, and 0 for others, unless there are others alone. Then the expected factor
        towards the mean label (``shrinkage``).

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
        rows, usual = np.concatenate([matrix, prior * np.eye(models)]), bool(self.posterior.any())
        before = self.posterior / self.posterior.sum() if usual else np.full(models, 1.0 / models)
        weights = nnls(rows, np.append(goal, prior * before))[0]
        factor = shrinkage(weights @ offsets, targets, self.precisions, self.units, calibrated=usual)
        return replace(self.mixture, weights=factor * weights)

    def mixed(self, combination: NumberMixture) -> Float[np.ndarray, "h"]:
        """Predictions of the rows by the weights of a mixture, around the means of other rows."""
        offsets = self.predictions - self.centres
        return np.asarray(np.clip(self.centres + combination.weights @ offsets, self.mixture.low, self.mixture.high))

    def take(self, rows: np.ndarray) -> Self:
        """The problem of some of the rows."""
        return type(self)(
            self.numbers[rows],
            self.precisions[rows],
            self.predictions[:, rows],
            self.centres[rows],
            self.units.take(rows),
            self.mixture,
            self.posterior,
        )
