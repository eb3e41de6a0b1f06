"""Means of all rows alike, where the labels of some rows say more than those of others."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from labeldp._shapes import Float
from labeldp.learning.heads import share_logits, softmax
from labeldp.learning.metrics import Units
from labeldp.release import Release

#: Prior variance of the difference of a mean over all rows from a precise one, beside the variance of labels.
_OF_SPREAD = 0.25


def differ_by_row(release: Release) -> bool:
    """True if the labels of some rows say more than those of others, as of units with fewer rows."""
    return len(release.channel.units) > 1


def shares_of_rows(release: Release, units: Units) -> Float[np.ndarray, "k"]:
    """Class shares of all rows alike, in declared order: the likeliest ones, moved (``towards_all``)."""
    likeliest = np.asarray(softmax(share_logits(release)[None])[0])
    if not differ_by_row(release) or not release.class_channel.identifies:
        return likeliest
    more = towards_all(likeliest, release.unbiased(), 1.0 - float(likeliest @ likeliest), units)
    shares = np.maximum(likeliest + more, likeliest.min() / 2.0)
    return np.asarray(shares / shares.sum())


def towards_all(
    precise: Float[np.ndarray, "*shape"] | float,
    rows: Float[np.ndarray, "n *shape"],
    spread: float,
    units: Units,
    weights: Float[np.ndarray, "n"] | None = None,
) -> Float[np.ndarray, "*shape"]:
    """The expected difference of the mean of all rows from a precise mean of some.

    Precise means weigh rows by what their labels say. Where units of few rows say more of each row than those of many,
    these are means of the former, and units may differ by their size. Means of unbiased values weigh all rows alike,
    with more noise: their difference d from the precise one is nearly normal around the true one, with a variance of at
    most theirs. The result is the posterior mean of the true difference, which is none with a probability of a half,
    and else normal with a standard deviation of half that of labels.

    Args:
        precise: The precise mean.
        rows: Unbiased values of all rows.
        spread: The variance of labels; of class shares, the sum of those of all classes.
        units: The privacy units of rows.
        weights: Weights of rows; None for even ones.

    References:
        Hausman 1978, for the variance of such a difference; Mitchell and Beauchamp 1988, for the prior.
    """
    scale = np.full(len(rows), 1.0 / len(rows)) if weights is None else weights / weights.sum()
    mean = np.tensordot(scale, rows, axes=1)
    sums = units.totals((rows - mean) * scale.reshape(-1, *[1] * (rows.ndim - 1)))
    noise, prior = float((sums**2).sum()) * units.count / units.free, _OF_SPREAD * spread
    if not noise > 0.0:
        return np.asarray(mean - precise)
    free, ratio = max(1, mean.size - 1), prior / noise
    log_odds = free / 2.0 * (float(np.sum((mean - precise) ** 2)) / noise * ratio / (1.0 + ratio) - math.log1p(ratio))
    return np.asarray(expit(log_odds) * ratio / (1.0 + ratio) * (mean - precise))
