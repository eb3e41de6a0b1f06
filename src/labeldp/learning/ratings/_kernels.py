"""Compiled loops over rows of the sampler; random numbers come from outside."""

# Compiled functions take their types from the call, so the type checker has nothing to hold on to here.
# mypy: disallow-untyped-defs=False, disallow-untyped-decorators=False, disallow-untyped-calls=False

from __future__ import annotations

import math

import numpy as np

from labeldp._compile import compiled

_LEAST = 1e-12
_ROOT = math.sqrt(0.5)


@compiled()
def scores_of(users, items, of_users, of_items, out):
    """The score of each pair: both biases, and the product of the factors."""
    for i in range(out.size):
        u, v = of_users[users[i]], of_items[items[i]]
        score = u[0] + v[0]
        for one in range(1, u.size):
            score += u[one] * v[one]
        out[i] = score


@compiled()
def normal_equations(own, other, values, latent, weights, products, sums):
    """Add to each user's (or item's) precision and sum what its rows add, given the other side and latent numbers.

    ``weights`` are the precisions of the latent numbers.
    """
    d = values.shape[1]
    for i in range(own.size):
        row, to_products, to_sums = values[other[i]], products[own[i]], sums[own[i]]
        aim = latent[i] - row[0]
        for one in range(d):
            x = weights[i] * (row[one] if one else 1.0)
            to_sums[one] += x * aim
            for two in range(one, d):
                to_products[two, one] += x * (row[two] if two else 1.0)


@compiled()
def below_cuts(score, rate, cuts, out):
    """The probabilities that a normal number around a score is below each cut point, with both ends.

    ``rate`` is the inverse of its standard deviation.
    """
    out[0], out[out.size - 1] = 0.0, 1.0
    for j in range(cuts.size):
        out[j + 1] = 0.5 * math.erfc((score - cuts[j]) * rate * _ROOT)


@compiled()
def add_probabilities(scores, rates, cuts, out):
    """Add the class probabilities of each score."""
    below = np.empty(cuts.size + 2)
    for i in range(scores.size):
        below_cuts(scores[i], rates[i], cuts, below)
        for j in range(out.shape[1]):
            out[i, j] += max(below[j + 1] - below[j], _LEAST)


@compiled()
def log_likelihood(scores, rates, cuts, likelihood):
    """The log likelihood of cut points, with latent numbers integrated out."""
    below, total = np.empty(cuts.size + 2), 0.0
    for i in range(scores.size):
        below_cuts(scores[i], rates[i], cuts, below)
        chance = 0.0
        for j in range(likelihood.shape[1]):
            chance += max(below[j + 1] - below[j], _LEAST) * likelihood[i, j]
        total += math.log(chance)
    return total


@compiled()
def slopes_of_cuts(scores, rates, cuts, likelihood, gradient, information):
    """Add the gradient of the log likelihood in the cut points, and the sum of its outer products over rows."""
    k = likelihood.shape[1]
    below, slopes = np.empty(cuts.size + 2), np.empty(cuts.size)
    for i in range(scores.size):
        below_cuts(scores[i], rates[i], cuts, below)
        chance = 0.0
        for j in range(k):
            chance += max(below[j + 1] - below[j], _LEAST) * likelihood[i, j]
        for j in range(k - 1):
            density = rates[i] * math.exp(-0.5 * (rates[i] * (cuts[j] - scores[i])) ** 2) / math.sqrt(2 * math.pi)
            slopes[j] = density * (likelihood[i, j] - likelihood[i, j + 1]) / chance
            gradient[j] += slopes[j]
            for other in range(j + 1):
                information[j, other] += slopes[j] * slopes[other]
    for j in range(k - 1):
        for other in range(j):
            information[other, j] = information[j, other]


@compiled()
def draw_places(scores, rates, cuts, likelihood, uniform, out):
    """The quantile of a latent number around each score, of a class drawn in proportion to the weights.

    ``uniform`` has two numbers for each row: one for the class, one for the place inside it.
    """
    k = likelihood.shape[1]
    below, sums = np.empty(cuts.size + 2), np.empty(k)
    for i in range(scores.size):
        below_cuts(scores[i], rates[i], cuts, below)
        total = 0.0
        for j in range(k):
            total += max(below[j + 1] - below[j], _LEAST) * likelihood[i, j]
            sums[j] = total
        drawn = 0
        while drawn < k - 1 and uniform[i, 0] * total >= sums[drawn]:
            drawn += 1
        place = below[drawn] + uniform[i, 1] * (below[drawn + 1] - below[drawn])
        out[i] = min(max(place, _LEAST), 1.0 - _LEAST)
