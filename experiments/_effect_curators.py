"""Answers of a trusted curator about the effect of a treatment, beside which released outcomes are measured.

Both use the efficient score with ridge outcome models in five folds and logistic propensities, cut at 0.1 and 0.9.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

FOLDS, PENALTY, CUT = 5, 1.0, 0.1
#: Shares of epsilon for the effect, of both curators; the rest is for its variance.
FOR_THE_EFFECT, OF_A_ROW = 0.9, 0.8
#: Of a row's guarantee: delta, and bounds at which its score is clipped, in ranges of the outcome. They are public, and
#: chosen with a knowledge of these tables that no curator has: about four and six standard deviations of the scores.
DELTA, BOUND_OF_CLASSES, BOUND_OF_NUMBERS = 1e-5, 4.0, 1.5
_DRAWN = 100_000

#: An effect and half the width of its interval at 95 %.
Effect = tuple[float, float]


class Scores:
    """Efficient scores with outcome models that are linear in the outcomes, so that the effect is too.

    Attributes:
        slopes: The derivative of the estimated effect by each outcome, which features and treatments decide.
        models: Predicted outcomes without and with the treatment, shape (n, 2).
        weights: Signed inverse propensities.
    """

    def __init__(self, features: pd.DataFrame, treated: np.ndarray, outcomes: np.ndarray, rng: np.random.Generator):
        columns = pd.get_dummies(features, dtype=float).fillna(0.0).to_numpy()
        columns = (columns - columns.mean(axis=0)) / np.maximum(columns.std(axis=0), 1e-9)
        design = np.concatenate([np.ones((len(columns), 1)), columns], axis=1)
        chance = cross_val_predict(LogisticRegression(), columns, treated, cv=FOLDS, method="predict_proba")[:, 1]
        chance = np.clip(chance, CUT, 1.0 - CUT)
        self.treated, self.outcomes = treated, outcomes
        self.weights = np.where(treated, 1.0 / chance, -1.0 / (1.0 - chance))
        self.models, slopes = np.zeros((len(outcomes), 2)), self.weights.copy()
        penalty = PENALTY * np.diag([0.0, *np.ones(columns.shape[1])])
        folds = rng.permutation(len(outcomes)) % FOLDS
        for fold in range(FOLDS):
            here = folds == fold
            for arm in (0, 1):
                fitted = ~here & (treated == arm)
                ridge = np.linalg.solve(design[fitted].T @ design[fitted] + penalty, design[fitted].T)
                self.models[here, arm] = design[here] @ (ridge @ outcomes[fitted])
                slopes[fitted] += ((2 * arm - 1 - self.weights * (treated == arm))[here] @ design[here]) @ ridge
        self.slopes = slopes / len(outcomes)

    @property
    def values(self) -> np.ndarray:
        """The scores, whose mean is the effect."""
        own = np.take_along_axis(self.models, self.treated[:, None].astype(int), axis=1)[:, 0]
        return self.models[:, 1] - self.models[:, 0] + self.weights * (self.outcomes - own)


def by_outcomes(scores: Scores, low: float, high: float, epsilon: float, rng: np.random.Generator) -> Effect:
    """An answer that hides each outcome alone, with delta 0: features and treatments are public, as for releases.

    The effect is linear in the outcomes, so its sensitivity is exact. Its variance follows from the variance of the
    outcomes with each treatment, of which sums and sums of squares are answered.
    """
    reach = high - low
    scale = reach * float(np.abs(scores.slopes).max()) / (FOR_THE_EFFECT * epsilon)
    value = float(scores.slopes @ scores.outcomes) + rng.laplace(scale=scale)
    variance, each = 0.0, (1.0 - FOR_THE_EFFECT) * epsilon / 2  # a row is in one group, and in two sums of it
    for arm in (False, True):
        inside = scores.treated == arm
        shares, one = (scores.outcomes[inside] - low) / reach - 0.5, 1.0 / (each * inside.sum())
        mean, square = shares.mean() + rng.laplace(scale=one), np.mean(shares**2) + rng.laplace(scale=one / 4)
        spread = min(max(float(square) - min(abs(float(mean)), 0.5) ** 2, 0.0), 0.25)
        variance += spread * reach**2 * float(np.sum(scores.slopes[inside] ** 2))
    errors = np.sqrt(variance) * rng.normal(size=_DRAWN) + rng.laplace(scale=scale, size=_DRAWN)
    return value, float(np.quantile(np.abs(errors), 0.95))


def by_rows(scores: Scores, low: float, high: float, epsilon: float, rng: np.random.Generator) -> Effect:
    """An answer like that of PrivATE, which hides a whole row: noise on the mean and on the mean square of the scores.

    A row changes its own clipped score. What it changes in the fitted models is not counted, as if they were public.
    """
    bound = (high - low) * (BOUND_OF_CLASSES if high - low == 1 else BOUND_OF_NUMBERS)
    values, rows = np.clip(scores.values, -bound, bound), len(scores.values)
    spread = 2 * bound / rows * deviation(epsilon * OF_A_ROW, DELTA * OF_A_ROW)
    error = bound**2 / rows * deviation(epsilon * (1 - OF_A_ROW), DELTA * (1 - OF_A_ROW))
    value = float(values.mean()) + rng.normal(scale=spread)
    square = float(np.mean(values**2)) + rng.normal(scale=error)
    variance = min(max(square - value**2, 0.0), bound**2)
    return value, float(norm.ppf(0.975) * np.sqrt(variance / rows + spread**2))


def deviation(epsilon: float, delta: float) -> float:
    """The standard deviation of Gaussian noise for a sensitivity of 1 (Balle and Wang 2018, theorem 8)."""

    def excess(spread: float) -> float:
        near, far = 0.5 / spread, epsilon * spread
        return float(norm.cdf(near - far) - np.exp(epsilon) * norm.cdf(-near - far) - delta)

    return float(brentq(excess, 1e-3, 1e6))


#: The curators by the name of what they hide.
CURATORS: dict[str, Callable[[Scores, float, float, float, np.random.Generator], Effect]] = {
    "curator, outcomes": by_outcomes,
    "curator, rows": by_rows,
}
