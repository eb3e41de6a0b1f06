"""Compiled loops of the losses over rows, which overwrite logits with their gradient."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled


@compiled()
def _fill_values(values, i, mask, inside, other, support, outside):
    """Write the values of all classes in row ``i``, by selection: random bits would defeat branch prediction."""
    high, middle, low = inside[i], other[i], outside[i]
    supported = support.shape[1] > 0
    for j in range(values.size):
        byte, bit = j >> 3, np.uint8(j & 7)
        value = middle
        if supported:
            value = middle if support[i, byte] >> bit & 1 else low
        values[j] = high if mask[i, byte] >> bit & 1 else value


@compiled()
def forward(logits, mask, inside, other, support, outside, weights):
    """Weighted sum of ``-log sum_j v_j p_j`` over rows; logits become its gradient, ``p - posterior``.

    The largest logit is subtracted first, so neither sum can overflow, and its class keeps both away from zero: this
    is ``logaddexp`` over all classes at once.
    """
    n, k = logits.shape
    values = np.empty(k)
    loss = 0.0
    for i in range(n):
        _fill_values(values, i, mask, inside, other, support, outside)
        top = logits[i, 0]
        for j in range(1, k):
            top = max(top, logits[i, j])
        total, hit = 0.0, 0.0
        for j in range(k):
            e = np.exp(logits[i, j] - top)
            logits[i, j] = e
            total += e
            hit += e * values[j]
        loss += weights[i] * (np.log(total) - np.log(hit))
        for j in range(k):
            logits[i, j] *= weights[i] * (1.0 / total - values[j] / hit)
    return loss


@compiled()
def linear(logits, mask, inside, other, support, outside, weights):
    """Weighted sum of ``sum_j t_j (-log p_j)``, targets summing to one; logits become its gradient, ``p - t``."""
    n, k = logits.shape
    targets = np.empty(k)
    loss = 0.0
    for i in range(n):
        _fill_values(targets, i, mask, inside, other, support, outside)
        top = logits[i, 0]
        for j in range(1, k):
            top = max(top, logits[i, j])
        total, aimed = 0.0, 0.0
        for j in range(k):
            aimed += targets[j] * (logits[i, j] - top)
            logits[i, j] = np.exp(logits[i, j] - top)
            total += logits[i, j]
        loss += weights[i] * (np.log(total) - aimed)
        for j in range(k):
            logits[i, j] = weights[i] * (logits[i, j] / total - targets[j])
    return loss
