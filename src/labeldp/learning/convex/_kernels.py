"""The compiled loop of descent: a step for each row, dense or sparse, with a running mean of all points.

The parameters are ``scale * core`` and the weighted sum of all points so far is ``weight * core + rest``. So a step
touches only the entries of the row's features: shrinking all parameters is a change of ``scale``, and a change of the
core by D leaves the sum as it was if ``weight * D`` is taken off the rest.
"""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import numpy as np

from labeldp._compile import compiled

#: Scales below this are multiplied out: the sum of points is then made of numbers that are not much larger than it.
_SMALL = 1e-3

#: Places in the state: the scale, the weight, the squared length of the parameters, the sum of squared gradients.
SCALE, WEIGHT, SQUARED, GRADIENTS = range(4)


@compiled()
def mean_gradient(loss, scores, weights, points, gradient):
    """Write ``sum_j w_j g_j(z)`` of a row; see ``_losses`` for each loss."""
    if loss == 0:
        _softmax(scores, weights, gradient)
    elif loss == 2:
        _linear(weights, gradient)
    else:
        gradient[0] = _slope(loss, scores[0], weights, points)


@compiled()
def _softmax(scores, weights, gradient):
    top, total, mass = scores[0], 0.0, 0.0
    for j in range(scores.size):
        top = max(top, scores[j])
        total += weights[j]
    for j in range(scores.size):
        gradient[j] = np.exp(scores[j] - top)
        mass += gradient[j]
    for j in range(scores.size):
        gradient[j] = total * gradient[j] / mass - weights[j]


@compiled()
def _linear(weights, gradient):
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
    for j in range(weights.size):
        gradient[j] = -0.5 * (weights[j] - total / weights.size)


@compiled()
def _slope(loss, score, weights, points):
    """Weighted sum of the slopes of the squared loss (3) or the absolute loss (4)."""
    slope = 0.0
    for j in range(weights.size):
        difference = score - points[j]
        if loss == 4:
            difference = np.sign(difference)
        slope += weights[j] * difference
    return slope


@compiled()
def descend(rows, part, loss, targets, steps, region, parameters):
    """One step for each row of a part of the rows.

    Args:
        rows: All rows: ``indptr`` and ``indices`` of a CSR matrix, whether rows are sparse (else ``indices`` is
            unused), its ``data``, and the number appended to each row for the intercept, 0 for none.
        part: Numbers of the rows to visit, in order.
        loss: The number of the loss.
        targets: The unbiased vector of each row of the part, shape (m, k), and the possible labels on the scale of the
            scores, shape (k,), for losses of numeric labels.
        steps: The length of each step, if the third is 0; its weight in the mean of the point before it; and, if above
            0, the number that steps are over the root of the sum of squared gradients so far, this row's included.
        region: The radius of the ball in which parameters stay; and the penalty: this times half the squared length of
            the parameters is added to the loss.
        parameters: ``core`` and ``rest``, see the module; and scale, weight, squared length of the parameters, and sum
            of squared gradients; all overwritten.
    """
    indptr, indices, sparse, data, end = rows
    (weights, points), (rates, shares, pace) = targets, steps
    (radius, l2), (core, rest, state) = region, parameters
    last, outputs = core.shape[0] - 1, core.shape[1]
    scores, gradient = np.empty(outputs), np.empty(outputs)
    for i in range(part.size):
        low, high = indptr[part[i]], indptr[part[i] + 1]
        length = end * end
        for j in range(outputs):
            scores[j] = end * core[last, j] if end != 0.0 else 0.0
        for at in range(low, high):
            value, column = data[at], indices[at] if sparse else at - low
            if value != 0.0:
                length += value * value
                for j in range(outputs):
                    scores[j] += value * core[column, j]
        for j in range(outputs):
            scores[j] *= state[SCALE]
        mean_gradient(loss, scores, weights[i], points, gradient)
        steep, along = 0.0, 0.0
        for j in range(outputs):
            steep += gradient[j] * gradient[j]
            along += gradient[j] * scores[j]
        state[WEIGHT] += shares[i] * state[SCALE]
        state[GRADIENTS] += steep * length
        rate = rates[i]
        if pace > 0.0:
            rate = pace / np.sqrt(state[GRADIENTS]) if state[GRADIENTS] > 0.0 else 0.0
        decay = 1.0 - rate * l2
        _shrink(decay, core, rest, state)
        step = rate / state[SCALE]
        for at in range(low, high):
            if data[at] != 0.0:
                column = indices[at] if sparse else at - low
                _move(core, rest, column, step * data[at], gradient, state[WEIGHT])
        if end != 0.0:
            _move(core, rest, last, step * end, gradient, state[WEIGHT])
        state[SQUARED] = max(decay * (decay * state[SQUARED] - 2.0 * rate * along) + rate * rate * steep * length, 0.0)
        if state[SQUARED] > radius * radius:
            _shrink(radius / np.sqrt(state[SQUARED]), core, rest, state)
            state[SQUARED] = radius * radius


@compiled()
def _shrink(factor, core, rest, state):
    """Multiply all parameters by a factor, and leave the sum of points."""
    state[SCALE] *= factor
    if state[SCALE] < _SMALL:
        for row in range(core.shape[0]):
            for j in range(core.shape[1]):
                rest[row, j] += state[WEIGHT] * core[row, j]
                core[row, j] *= state[SCALE]
        state[WEIGHT], state[SCALE] = 0.0, 1.0


@compiled(inline="always")  # as a call it would take most of the time
def _move(core, rest, column, step, gradient, weight):
    """Move a column of the core against the gradient, and leave the sum of points."""
    for j in range(gradient.size):
        core[column, j] -= step * gradient[j]
        rest[column, j] += weight * step * gradient[j]
