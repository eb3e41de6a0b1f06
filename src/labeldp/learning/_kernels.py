"""The loops of the losses, compiled: over rows, with logits turned into gradients in place."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def forward(logits, mask, high, support, outside, weights):
    """Sum of ``-log sum_j v_j p_j`` over rows; logits become its gradient, ``p - posterior``.

    The logits are taken relative to their largest, so neither sum can overflow, and the largest class keeps both
    away from zero: this is ``logaddexp`` over all classes at once.
    """
    n, k = logits.shape
    supported = support.shape[1] > 0
    loss = 0.0
    for i in range(n):
        top = logits[i, 0]
        for j in range(1, k):
            top = max(top, logits[i, j])
        total, hit = 0.0, 0.0
        for j in range(k):
            e = np.exp(logits[i, j] - top)
            logits[i, j] = e
            total += e
            value = 1.0
            if mask[i, j >> 3] >> np.uint8(j & 7) & 1:
                value = high[i]
            elif supported and not support[i, j >> 3] >> np.uint8(j & 7) & 1:
                value = outside[i]
            hit += e * value
        loss += weights[i] * (np.log(total) - np.log(hit))
        for j in range(k):
            value = 1.0
            if mask[i, j >> 3] >> np.uint8(j & 7) & 1:
                value = high[i]
            elif supported and not support[i, j >> 3] >> np.uint8(j & 7) & 1:
                value = outside[i]
            logits[i, j] *= weights[i] * (1.0 / total - value / hit)
    return loss


@njit(cache=True, nogil=True)
def linear(logits, mask, inside, other, support, outside, weights):
    """Sum of ``sum_j t_j (-log p_j)`` for targets that sum to one; logits become its gradient, ``p - t``."""
    n, k = logits.shape
    supported = support.shape[1] > 0
    loss = 0.0
    for i in range(n):
        top = logits[i, 0]
        for j in range(1, k):
            top = max(top, logits[i, j])
        total, aimed = 0.0, 0.0
        for j in range(k):
            target = other[i]
            if mask[i, j >> 3] >> np.uint8(j & 7) & 1:
                target = inside[i]
            elif supported and not support[i, j >> 3] >> np.uint8(j & 7) & 1:
                target = outside[i]
            aimed += target * (logits[i, j] - top)
            logits[i, j] = np.exp(logits[i, j] - top)
            total += logits[i, j]
        loss += weights[i] * (np.log(total) - aimed)
        for j in range(k):
            target = other[i]
            if mask[i, j >> 3] >> np.uint8(j & 7) & 1:
                target = inside[i]
            elif supported and not support[i, j >> 3] >> np.uint8(j & 7) & 1:
                target = outside[i]
            logits[i, j] = weights[i] * (logits[i, j] / total - target)
    return loss
