"""The loop of descent, compiled: a step for each row, on sparse rows, with a running mean of all points.

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
def pull(loss, width, scores, weights, points, found):
    """Write ``sum_j w_j g_j(z)`` of a row; see ``_convex_losses`` for each loss."""
    if loss == 0:
        _softmax(scores, weights, found)
    elif loss == 1:
        _hinge(scores, weights, found)
    elif loss == 2:
        _linear(weights, found)
    else:
        found[0] = _slope(loss, width, scores[0], weights, points)


@compiled()
def _softmax(scores, weights, found):
    top, total, mass = scores[0], 0.0, 0.0
    for j in range(scores.size):
        top = max(top, scores[j])
        total += weights[j]
    for j in range(scores.size):
        found[j] = np.exp(scores[j] - top)
        mass += found[j]
    for j in range(scores.size):
        found[j] = total * found[j] / mass - weights[j]


@compiled()
def _hinge(scores, weights, found):
    """All classes but the first are beaten by the first, which is beaten by the second where that is near."""
    first, second, total = 0, 1, 0.0
    if scores[1] > scores[0]:
        first, second = 1, 0
    for j in range(2, scores.size):
        if scores[j] > scores[first]:
            first, second = j, first
        elif scores[j] > scores[second]:
            second = j
    for j in range(scores.size):
        found[j] = -weights[j]
        total += weights[j]
    found[first] = total - weights[first]
    if scores[second] + 1.0 > scores[first]:
        found[second] += weights[first]
        found[first] -= weights[first]


@compiled()
def _linear(weights, found):
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
    for j in range(weights.size):
        found[j] = -0.5 * (weights[j] - total / weights.size)


@compiled()
def _slope(loss, width, score, weights, points):
    """Of the squared loss (3), the absolute (4) and Huber's (5)."""
    slope = 0.0
    for j in range(weights.size):
        difference = score - points[j]
        if loss == 4:
            difference = np.sign(difference)
        elif loss == 5:
            difference = min(max(difference, -width), width)
        slope += weights[j] * difference
    return slope


@compiled()
def descend(rows, part, loss, width, weights, points, rates, shares, pace, radius, box, l2, core, rest, state):
    """One step for each row of a part of the rows.

    Args:
        rows: All of them: ``indptr`` and ``indices`` of a CSR matrix, whether they are meant (else rows are dense), its
            ``data``, and the number that each row ends with, 0 for none.
        part: Numbers of rows, in the order in which they are taken.
        loss: The number of the loss.
        width: Where the Huber loss turns.
        weights: The unbiased vector of each row of the part, shape (m, k).
        points: What the label may be, shape (k,) on the scale of the scores; for losses of real labels.
        rates: The length of each step, where ``pace`` is 0.
        shares: The weight of the point before each step in the mean.
        pace: If above 0, steps are this over the root of the sum of squared gradients so far, the row's included.
        radius: If above 0, parameters stay in the ball of this radius.
        box: If above 0, entries stay between minus this and this; then ``l2`` and ``radius`` are 0.
        l2: Half the squared parameters, times this, are added to the loss.
        core: See above; overwritten, as are the next two.
        rest: See above.
        state: Scale, weight, squared length of the parameters, sum of squared gradients.
    """
    indptr, indices, sparse, data, end = rows
    last, outputs = core.shape[0] - 1, core.shape[1]
    scores, found = np.empty(outputs), np.empty(outputs)
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
        pull(loss, width, scores, weights[i], points, found)
        steep, along = 0.0, 0.0
        for j in range(outputs):
            steep += found[j] * found[j]
            along += found[j] * scores[j]
        state[WEIGHT] += shares[i] * state[SCALE]
        state[GRADIENTS] += steep * length
        rate = rates[i]
        if pace > 0.0:
            rate = pace / np.sqrt(state[GRADIENTS]) if state[GRADIENTS] > 0.0 else 0.0
        kept = 1.0 - rate * l2
        _shrink(kept, core, rest, state)
        step = rate / state[SCALE]
        for at in range(low, high):
            if data[at] != 0.0:
                column = indices[at] if sparse else at - low
                _move(core, rest, column, step * data[at], box, found, state[WEIGHT])
        if end != 0.0:
            _move(core, rest, last, step * end, box, found, state[WEIGHT])
        state[SQUARED] = max(kept * (kept * state[SQUARED] - 2.0 * rate * along) + rate * rate * steep * length, 0.0)
        if radius > 0.0 and state[SQUARED] > radius * radius:
            _shrink(radius / np.sqrt(state[SQUARED]), core, rest, state)
            state[SQUARED] = radius * radius


@compiled()
def _shrink(factor, core, rest, state):
    """Multiply all parameters, and not the sum, by a factor."""
    state[SCALE] *= factor
    if state[SCALE] < _SMALL:
        for row in range(core.shape[0]):
            for j in range(core.shape[1]):
                rest[row, j] += state[WEIGHT] * core[row, j]
                core[row, j] *= state[SCALE]
        state[WEIGHT], state[SCALE] = 0.0, 1.0


@compiled(inline="always")  # as a call it would take most of the time
def _move(core, rest, column, step, box, found, weight):
    """Move a column's entries of the core against what pulls, cut off at the box, and keep the sum as it was."""
    for j in range(found.size):
        moved = core[column, j] - step * found[j]
        if box > 0.0:
            moved = min(max(moved, -box), box)
        rest[column, j] += weight * (core[column, j] - moved)
        core[column, j] = moved
