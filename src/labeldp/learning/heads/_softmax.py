"""Softmax regression under any row loss, by L-BFGS on dense or sparse features in blocks of rows.

Linear heads also follow from noisy moments: ridge and softmax losses depend on labels through
``S = sum_i f_i one_hot(y_i)^T``.

With F the features, shape (n, p), and W the coefficients, shape (p, k), the losses of true labels are

    softmax   sum_i logsumexp(W^T f_i) - <W, S> + l2/2 |W|^2
    squared   1/2 |F W|^2 - <W, S - F^T 1/k> + l2/2 |W|^2       (up to a constant; one-hot labels less 1/k)

and each is fitted to its optimum with noisy moments in the place of S. At the optimum, F^T P + l2 W = S, where P are
the predicted probabilities (or, with the squared loss, scores): the residual moments are ``l2 W``.

All computations use the eigenvectors of F^T F, in which the squared loss is solved by a division and the softmax loss
is nearly isotropic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import chdtri

from labeldp._shapes import Float
from labeldp._threads import blocks, one_thread_for_algebra
from labeldp.errors import InputError
from labeldp.learning.losses import row_loss
from labeldp.release import Release

#: Features and logits of a block, few enough to stay in the cache for the second product.
_ENTRIES_PER_BLOCK = 1 << 19
#: Prior variance of intercepts, and of the logarithms of class shares around uniform ones: with few effective rows the
#: likeliest shares are extreme by chance. A class of one row in a hundred costs 2.6 nats under it.
INTERCEPT_VARIANCE = 2.0
_SHARE_TOLERANCE = 1e-7


@dataclass(frozen=True)
class SoftmaxFit:
    """A fitted softmax model: coefficients of shape (d, k), intercepts of shape (k,), and the number of iterations."""

    coefficients: Float[np.ndarray, "d k"]
    intercepts: Float[np.ndarray, "k"]
    iterations: int

    def scores(self, features: Any) -> Float[np.ndarray, "n k"]:
        """Logits of rows with features of shape (n, d)."""
        return np.asarray(features @ self.coefficients + self.intercepts)


@dataclass(frozen=True, eq=False)
class SoftmaxProblem:
    """Minimisation of the weighted mean of a row loss plus squared penalties.

    Attributes:
        features: Array or sparse matrix of floats, shape (n, d), multiplied in their own precision.
        loss: Loss of each row.
        weights: Weight of each row.
        classes: Number of classes, k.
        l2: Weight of half the squared coefficients.
        intercept: True to fit intercepts.
        intercept_l2: Weight of half the squared intercepts, needed for a loss that is unbounded below.
        centre: The fit that penalties pull towards: a prior mean; None for zero.
    """

    features: Any
    loss: AnyLoss
    weights: Float[np.ndarray, "n"]
    classes: int
    l2: float
    intercept: bool = True
    intercept_l2: float = 0.0
    centre: SoftmaxFit | None = None

    def objective(self) -> Callable[[Float[np.ndarray, "p"]], tuple[float, Float[np.ndarray, "p"]]]:
        """Value and gradient as a function of flattened coefficients and intercepts."""
        features, weights, classes = self.features, self.weights, self.classes
        n, d = features.shape
        scale = 1.0 / weights.sum()
        penalties = np.array([[self.l2]] * d + [[self.intercept_l2]])
        centre = self._flat(self.centre)
        # A block is at least as large as the coefficients, whose gradient each block adds to.
        parts = blocks(n, features.size // n + classes, max(_ENTRIES_PER_BLOCK, d * classes))
        split = [(features[rows], self.loss.take(rows), weights[rows]) for rows in parts]

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            parameters = flat.reshape(d + 1, classes)
            narrow = parameters.astype(features.dtype, copy=False)  # else all features would be copied to wider floats
            gradient = np.zeros_like(parameters)
            value = 0.0
            for rows, row_losses, row_weights in split:
                logits = np.asarray(rows @ narrow[:d], dtype=np.float64)
                logits += parameters[d]
                value += row_losses(logits, row_weights)
                gradient[:d] += rows.T @ logits.astype(features.dtype, copy=False)
                gradient[d] += logits.sum(axis=0)
            gradient *= scale
            offsets = parameters - centre
            gradient += penalties * offsets
            if not self.intercept:
                gradient[d] = 0.0
            return value * scale + 0.5 * float(np.vdot(penalties * offsets, offsets)), gradient.ravel()

        return objective

    def fit(self, start: SoftmaxFit | None = None, tolerance: float = 1e-4, iterations: int = 500) -> SoftmaxFit:
        """Minimise by L-BFGS.

        Args:
            start: Starting point; zero by default.
            tolerance: Largest entry of the gradient at convergence.
            iterations: Maximum number of iterations.
        """
        d = self.features.shape[1]
        first = self._flat(start)
        options = {"maxiter": iterations, "gtol": tolerance, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
        with one_thread_for_algebra():  # blocks are small
            result = minimize(self.objective(), first.ravel(), method="L-BFGS-B", jac=True, options=options)
        if not np.isfinite(result.fun):
            raise FloatingPointError("the loss is not finite; scale the features, or increase l2")
        solution = result.x.reshape(d + 1, self.classes)
        return SoftmaxFit(solution[:d].copy(), solution[d].copy(), int(result.nit))

    def _flat(self, fit: SoftmaxFit | None) -> Float[np.ndarray, "p k"]:
        """Coefficients above intercepts; zero for None."""
        if fit is None:
            return np.zeros((self.features.shape[1] + 1, self.classes))
        return np.vstack([fit.coefficients, fit.intercepts])


def share_logits(release: Release, weights: Float[np.ndarray, "n"] | None = None) -> Float[np.ndarray, "k"]:
    """Logits of the likeliest class shares of weighted rows, with the prior of intercepts, in declared order."""
    nothing, loss = np.empty((len(release), 0)), row_loss(release, "likelihood")
    weights = np.ones(len(release)) if weights is None else weights
    penalty = 1.0 / (INTERCEPT_VARIANCE * float(weights.sum()))
    problem = SoftmaxProblem(nothing, loss, weights, release.space.size, 0.0, intercept_l2=penalty)
    return problem.fit(tolerance=_SHARE_TOLERANCE).intercepts


def softmax(logits: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
    """Softmax of logits: class probabilities."""
    columns = np.ascontiguousarray(logits.T)  # reductions over few classes are fast along rows alone
    columns = np.exp(columns - columns.max(axis=0))
    return np.asarray((columns / columns.sum(axis=0)).T)


HeadLoss = Literal["softmax", "squared"]

#: Relative accuracy of the residual in the search for a penalty, and the maximum number of steps.
_RELATIVE_ACCURACY, _STEPS = 0.01, 30
#: Range of penalties, relative to the largest eigenvalue.
_LEAST, _MOST = 1e-6, 1e3
#: Least tolerance of fits in the search for a penalty.
_SEARCH_TOLERANCE = 3e-4
#: Weight of the entropy that smooths a projection, relative to the noise.
_SMOOTHING = 0.1
#: Features are wrongly refused as others than those of the moments with probability below exp(-30), about 1e-13.
_LOG_FALSE_ALARM = 30.0
#: Probability that the norm of the noise exceeds the bound that the fit assumes.
_EXCEEDANCE = 0.05


@dataclass(frozen=True, eq=False)
class RotatedFeatures:
    """Features in the basis of the eigenvectors of their Gram matrix.

    Attributes:
        features: Features with orthogonal columns, shape (n, p).
        values: Eigenvalues, at least 0, ascending.
        vectors: Eigenvectors, the rotation.
    """

    features: Float[np.ndarray, "n p"]
    values: Float[np.ndarray, "p"]
    vectors: Float[np.ndarray, "p p"]

    @classmethod
    def of(cls, features: Float[np.ndarray, "n p"]) -> Self:
        """Rotated features."""
        values, vectors = np.linalg.eigh(features.T @ features)
        return cls(features @ vectors, np.maximum(values, 0.0), vectors)


@dataclass(frozen=True, eq=False)
class Moments:
    """Noisy moments of rotated features, with their public row sums.

    Attributes:
        value: ``S``, shape (p, k), rotated.
        deviation: Standard deviation of the noise on each entry, before the correction of the row sums.
    """

    value: Float[np.ndarray, "p k"]
    deviation: float

    @classmethod
    def of(cls, noisy: Float[np.ndarray, "p k"], deviation: float, rotated: RotatedFeatures, slack: float) -> Self:
        """Noisy moments with corrected row sums: S 1 = F^T 1 is public, which removes a k-th of the noise.

        Args:
            noisy: Moments as released.
            deviation: The standard deviation of the noise on each entry.
            rotated: The features that they are moments of.
            slack: Largest rounding error of sums of features.

        Raises:
            InputError: Row sums differ from those of the features by more than noise explains.
        """
        value = rotated.vectors.T @ noisy
        p, k = value.shape
        excess = value.sum(axis=1) - rotated.features.sum(axis=0)
        # chi-squared with p degrees of freedom, see Laurent and Massart 2000, lemma 1
        quantile = p + 2.0 * math.sqrt(p * _LOG_FALSE_ALARM) + 2.0 * _LOG_FALSE_ALARM
        if float(np.linalg.norm(excess)) > math.sqrt(k * quantile) * deviation + slack * math.sqrt(p):
            raise InputError(
                "expected the features that the moments were computed from, found others, whose sums differ by more "
                "than noise; give the same rows in the same form"
            )
        return cls(value - excess[:, None] / k, deviation)

    @property
    def noise(self) -> float:
        """The 95 % quantile of the norm of the noise, with rows that sum to zero."""
        p, k = self.value.shape
        return self.deviation * math.sqrt(chdtri(p * (k - 1), _EXCEEDANCE))


Head = Callable[[RotatedFeatures, Moments, float, float, Float[np.ndarray, "p k"] | None], Float[np.ndarray, "p k"]]


def softmax_head(
    rotated: RotatedFeatures,
    moments: Moments,
    l2: float,
    tolerance: float,
    start: Float[np.ndarray, "p k"] | None = None,
) -> Float[np.ndarray, "p k"]:
    """Rotated coefficients of the softmax loss, by L-BFGS on coefficients scaled by the curvature at zero.

    Args:
        rotated: Features.
        moments: Their moments.
        l2: Penalty, above 0.
        tolerance: Largest entry of the scaled gradient at convergence, per square root of the number of rows.
        start: Starting point; zero by default.
    """
    p, k = moments.value.shape
    scale = 1.0 / np.sqrt(rotated.values / k + l2)[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        head = scale * flat.reshape(p, k)
        logits = rotated.features @ head
        top = logits.max(axis=1, keepdims=True)
        np.exp(logits - top, out=logits)
        total = logits.sum(axis=1, keepdims=True)
        logits /= total
        value = float((top + np.log(total)).sum() + 0.5 * l2 * np.vdot(head, head) - np.vdot(head, moments.value))
        return value, (scale * (rotated.features.T @ logits + l2 * head - moments.value)).ravel()

    first = np.zeros((p, k)) if start is None else start / scale
    rows = len(rotated.features)
    options = {"gtol": tolerance * math.sqrt(rows), "ftol": 0.0, "maxiter": 2000, "maxfun": 4000, "maxcor": 20}
    result = minimize(objective, first.ravel(), method="L-BFGS-B", jac=True, options=options)
    return np.asarray(scale * result.x.reshape(p, k))


def squared_head(
    rotated: RotatedFeatures,
    moments: Moments,
    l2: float,
    tolerance: float = 0.0,
    start: Float[np.ndarray, "p k"] | None = None,
) -> Float[np.ndarray, "p k"]:
    """Rotated coefficients of the squared loss on one-hot labels less 1/k, in closed form."""
    del tolerance, start
    centred = moments.value - moments.value.mean(axis=1, keepdims=True)
    return np.asarray(centred / (rotated.values[:, None] + l2))


def project_moments(rotated: RotatedFeatures, moments: Moments, longest: float, tolerance: float) -> Moments:
    """Project noisy moments onto the moments of probabilities, smoothed by a little entropy.

    True moments lie in the set of all ``F^T Y`` whose rows of Y are distributions. The point there nearest to S,
    ``min_Y 1/2 |F^T Y - S|^2 - t H(Y)`` with H the entropy, has softmax regression with the penalty t as its dual, and
    is ``F^T P``. So it is computed as a head is, at a penalty that is small beside the noise.
    """
    head = softmax_head(rotated, moments, _SMOOTHING * moments.deviation * longest, tolerance)
    return Moments(rotated.features.T @ softmax(rotated.features @ head), moments.deviation)


def penalty_at_noise(rotated: RotatedFeatures, moments: Moments, fit: Head, tolerance: float) -> float:
    """The penalty at which the residual moments have the norm of the noise, at its 95 % quantile.

    With true labels the residual is the noise, so a head with a smaller residual has fitted noise. With pure noise, a
    target at the median norm would be below the norm of every second draw, which leaves no penalty. The residual is
    ``l2 W`` and increases with the penalty, so the secant rule on logarithms finds it, safeguarded by bounds.

    References:
        Morozov 1966, for the discrepancy principle.
    """
    largest = float(rotated.values[-1])
    low, high = math.log(_LEAST * largest), math.log(_MOST * largest)
    k = moments.value.shape[1]
    # start where the noise has the norm of the features' share of the curvature
    at = min(max(math.log(moments.noise / math.sqrt(k * len(rotated.features)) * math.sqrt(largest)), low), high)
    head = None
    for _ in range(_STEPS):
        l2 = math.exp(at)
        head = fit(rotated, moments, l2, max(tolerance, _SEARCH_TOLERANCE), head)
        excess = math.log(max(l2 * float(np.linalg.norm(head)), np.finfo(float).tiny) / moments.noise)
        if abs(excess) < _RELATIVE_ACCURACY:
            break
        low, high = (low, at) if excess > 0 else (at, high)
        step = at - 1.5 * excess
        at = step if low < step < high else 0.5 * (low + high)
        if high - low < _RELATIVE_ACCURACY:
            break
    return l2


#: The fit of a head for each loss.
HEADS: Mapping[str, Head] = MappingProxyType({"softmax": softmax_head, "squared": squared_head})
