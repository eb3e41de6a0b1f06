"""Softmax regression under any row loss: L-BFGS on dense or sparse features, in blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from labeldp.learning._losses import RowLoss

_ENTRIES_PER_BLOCK = 1 << 24


@dataclass(frozen=True)
class Fit:
    """A fitted softmax model: coefficients of shape (d, k), intercepts of shape (k,), and the iterations it took."""

    coefficients: Float[np.ndarray, "d k"]
    intercepts: Float[np.ndarray, "k"]
    iterations: int
    converged: bool


def fit_softmax(
    features: Any,
    loss: RowLoss,
    weights: Float[np.ndarray, "n"],
    classes: int,
    l2: float,
    *,
    intercept: bool = True,
    start: Fit | None = None,
    tolerance: float = 1e-4,
    iterations: int = 500,
) -> Fit:
    """Minimise the weighted mean of a row loss plus ``l2 / 2`` times the squared coefficients.

    Args:
        features: Array or sparse matrix of shape (n, d).
        loss: The loss of each row.
        weights: Weight of each row.
        classes: Number of classes, k.
        l2: Weight of the penalty; intercepts are not penalised.
        intercept: Whether to fit intercepts.
        start: Where to start; by default at zero.
        tolerance: Largest entry of the gradient at which it stops.
        iterations: Most iterations.
    """
    n, d = features.shape
    scale = 1.0 / weights.sum()
    block = max(1, _ENTRIES_PER_BLOCK // classes)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = flat.reshape(d + 1, classes)
        gradient = np.zeros_like(parameters)
        value = 0.0
        for low in range(0, n, block):
            rows = slice(low, min(low + block, n))
            logits = np.asarray(features[rows] @ parameters[:d] + parameters[d], dtype=np.float64)
            value += loss.take(rows)(logits, weights[rows])
            gradient[:d] += features[rows].T @ logits
            gradient[d] += logits.sum(axis=0)
        gradient *= scale
        gradient[:d] += l2 * parameters[:d]
        if not intercept:
            gradient[d] = 0.0
        penalty = 0.5 * l2 * float(np.vdot(parameters[:d], parameters[:d]))
        return value * scale + penalty, gradient.ravel()

    first = np.zeros((d + 1, classes)) if start is None else np.vstack([start.coefficients, start.intercepts])
    options = {"maxiter": iterations, "gtol": tolerance, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
    found = minimize(objective, first.ravel(), method="L-BFGS-B", jac=True, options=options)
    if not np.isfinite(found.fun):
        raise FloatingPointError("the loss is not finite; scale the features, or use more l2")
    solved = found.x.reshape(d + 1, classes)
    return Fit(solved[:d].copy(), solved[d].copy(), int(found.nit), bool(found.status == 0))
