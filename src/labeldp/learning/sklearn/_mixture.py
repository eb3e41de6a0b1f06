"""Mixture of models' class probabilities, with weights of largest likelihood of released labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from labeldp._arrays import freeze_arrays
from labeldp._documented import documented_in
from labeldp._shapes import Bool, Float, Int
from labeldp.learning.choice import Fitted, Problem
from labeldp.learning.heads import softmax
from labeldp.learning.losses import row_loss
from labeldp.learning.sklearn._calibrated import Calibrator
from labeldp.release import Release

#: Probabilities below this are raised to it, so that a few certain mistakes do not decide a slope.
_LEAST = 1e-6
_FLATTEST, _STEEPEST, _TOLERANCE = 0.02, 20.0, 1e-3
#: Scale of the Cauchy prior of the logarithm of a slope: most slopes are near 1, and data can say otherwise.
_SPREAD = 0.25
#: Prior variance of shifts of log probabilities: little beside a hundred effective rows.
_SHIFT_VARIANCE = 0.03
#: Dirichlet prior of weights: each model begins as if it alone had predicted this many rows.
_PRIOR_ROWS = 3.0
#: Rounds of expectation maximisation: their target is concave in the weights, and changes little after fewer.
_ROUNDS = 500


@documented_in("labeldp.learning.sklearn")
@dataclass(frozen=True, eq=False)
class Mixture:
    """Weighted mean of models' class probabilities, each moved towards or away from the class shares.

    Attributes:
        slopes: Factor of the log probabilities of each of m models over the class shares: 0 gives the shares, 1 leaves
            them as they are.
        weights: Weight of each model; they sum to one.
        slope: The same factor of their mean.
        shares: Class shares, shape (k,), in the order of predictions.
        shifts: Added to the log probabilities of the mean, so that classes are as common as released labels say; None
            in files of earlier versions.
    """

    slopes: Float[np.ndarray, "m"]
    weights: Float[np.ndarray, "m"]
    slope: float
    shares: Float[np.ndarray, "k"]
    shifts: Float[np.ndarray, "k"] | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self, slopes=np.float64, weights=np.float64, shares=np.float64)

    @classmethod
    def fit(
        cls,
        release: Release,
        predictions: Float[np.ndarray, "m n k"],
        used: Bool[np.ndarray, "m"] | None = None,
        rows: Float[np.ndarray, "n"] | float = 1.0,
    ) -> Mixture:
        """The mixture of largest likelihood for rows that the models were not fitted on.

        Released labels decide in three steps: the slope of each model, the weights, and the slope and the shifts of the
        mean. The logarithm of a slope has a Cauchy prior around 0, weights have a Dirichlet prior around even ones and
        shifts a normal prior around 0, so that few effective rows change little. The likelihood is that of the released
        labels under the channel, so this is exact for every channel.

        Args:
            release: Released labels of n rows.
            predictions: Predictions of m models for these rows in declared order, each by a model fitted on other rows.
            used: False for models of weight 0; by default all are used. One that predicts the same for every row tells
                nothing of them, and in the mean would move others' predictions towards the most common class.
            rows: Weights of rows.

        References:
            Wolpert 1992 (stacking); Breiman 1996 and van der Laan, Polley and Hubbard 2007, for weights on the simplex
            and why they do nearly as well as the best model in hindsight; Guo et al. 2017 (slopes).
        """
        likelihood = release.likelihood()
        likelihood = likelihood / likelihood.max(axis=1, keepdims=True)
        shares = Calibrator.of_shares(release)(np.ones((1, release.space.size)))[0]
        slopes = np.array([_likeliest_slope(likelihood, each, shares, rows) for each in predictions])
        moved = [_moved(each, slope, shares) for each, slope in zip(predictions, slopes, strict=True)]
        weights, some = np.zeros(len(moved)), np.ones(len(moved), dtype=bool) if used is None else used
        if not some.any():
            return cls(slopes, weights, 1.0, shares)
        chances = np.stack([(likelihood * each).sum(axis=1) for each in moved])
        weights[some] = _likeliest_weights(chances[some], rows)
        mean = _mean(weights, moved)
        slope = _likeliest_slope(likelihood, mean, shares, rows)
        return cls(slopes, weights, slope, shares, _likeliest_shifts(release, _moved(mean, slope, shares), rows))

    def __call__(self, predictions: Float[np.ndarray, "m n k"]) -> Float[np.ndarray, "n k"]:
        """The mixture of predictions; without models of some weight, the class shares."""
        if not self.weights.any():
            return np.tile(self.shares, (np.shape(predictions)[1], 1))
        moved = [_moved(each, slope, self.shares) for each, slope in zip(predictions, self.slopes, strict=True)]
        found = _moved(_mean(self.weights, moved), self.slope, self.shares)
        return found if self.shifts is None else softmax(np.log(np.maximum(found, _LEAST)) + self.shifts)


@dataclass(frozen=True, eq=False)
class HeldOutClasses(Problem):
    """Class probabilities of rows by models that were fitted on others, beside the released labels of these rows.

    Attributes:
        release: Released labels of h rows.
        predictions: Probabilities by m models, in declared order.
        used: False for models of weight 0.
        weights: Weights of rows.
    """

    release: Release
    predictions: Float[np.ndarray, "m h k"]
    used: Bool[np.ndarray, "m"]
    weights: Float[np.ndarray, "h"]

    @classmethod
    def of(
        cls,
        release: Release,
        fitted: Sequence[Fitted],
        rows: Int[np.ndarray, "h"],
        *_: Any,
        sample_weight: Float[np.ndarray, "n"] | None = None,
    ) -> HeldOutClasses:
        """The problem of rows that were held out from members."""
        shape = (len(fitted), len(rows), release.space.size)
        every = np.reshape([each.held_out for each in fitted], shape)
        weights = np.ones(len(rows)) if sample_weight is None else sample_weight[rows]
        return cls(release[rows], every, np.array([each.varies for each in fitted], dtype=bool), weights)

    def take(self, rows: np.ndarray) -> Self:
        """The problem of some of the rows."""
        return type(self)(self.release[rows], self.predictions[:, rows], self.used, self.weights[rows])

    def best(self) -> Mixture:
        """The mixture of largest likelihood."""
        return Mixture.fit(self.release, self.predictions, self.used, self.weights)

    def mixed(self, combination: Mixture) -> Float[np.ndarray, "h k"]:
        """Predictions of the rows by a mixture."""
        return combination(self.predictions)


def _mean(weights: Float[np.ndarray, "m"], parts: Sequence[Float[np.ndarray, "n k"]]) -> Float[np.ndarray, "n k"]:
    return np.asarray(sum(weight * part for weight, part in zip(weights, parts, strict=True)))


def _moved(
    probabilities: Float[np.ndarray, "n k"], slope: float, shares: Float[np.ndarray, "k"]
) -> Float[np.ndarray, "n k"]:
    """Probabilities whose logarithms over the class shares are multiplied by a slope."""
    start = np.log(shares)
    return softmax(start + slope * (np.log(np.maximum(probabilities, _LEAST)) - start))


def _likeliest_slope(
    likelihood: Float[np.ndarray, "n k"],
    probabilities: Float[np.ndarray, "n k"],
    shares: Float[np.ndarray, "k"],
    rows: Float[np.ndarray, "n"] | float,
) -> float:
    """The slope of largest likelihood times its prior."""

    def loss(power: float) -> float:
        hit = (likelihood * _moved(probabilities, math.exp(power), shares)).sum(axis=1)
        return math.log1p((power / _SPREAD) ** 2) - float((rows * np.log(hit)).sum())

    bounds = (math.log(_FLATTEST), math.log(_STEEPEST))
    return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": _TOLERANCE}).x)


def _likeliest_shifts(
    release: Release, probabilities: Float[np.ndarray, "n k"], rows: Float[np.ndarray, "n"] | float
) -> Float[np.ndarray, "k"]:
    """Shifts of log probabilities of largest likelihood times their prior."""
    logarithms, loss = np.log(np.maximum(probabilities, _LEAST)), row_loss(release, "likelihood")
    weights = np.broadcast_to(np.asarray(rows, dtype=np.float64), (len(release),)).copy()

    def objective(shifts: Float[np.ndarray, "k"]) -> tuple[float, Float[np.ndarray, "k"]]:
        slopes = logarithms + shifts
        value = loss(slopes, weights) + 0.5 * float(shifts @ shifts) / _SHIFT_VARIANCE
        return value, slopes.sum(axis=0) + shifts / _SHIFT_VARIANCE  # logits became the gradient

    start = np.zeros(release.space.size)
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B").x)


def _likeliest_weights(
    chances: Float[np.ndarray, "m n"], rows: Float[np.ndarray, "n"] | float
) -> Float[np.ndarray, "m"]:
    """Weights of largest likelihood times their prior, by expectation maximisation from even ones.

    Args:
        chances: P(released label) of each row by each model, up to a factor for each row.
        rows: Weights of rows.
    """
    weights = np.full(len(chances), 1.0 / len(chances))
    for _ in range(_ROUNDS):
        weights = weights * (rows * chances / (weights @ chances)).sum(axis=1) + _PRIOR_ROWS
        weights /= weights.sum()
    return np.asarray(weights)
