"""Softmax regression under any row loss, by L-BFGS on dense or sparse features in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from labeldp._shapes import Float
from labeldp._threads import blocks, one_thread_for_algebra
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
