"""Log likelihood of released labels, and the posterior of true ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

from labeldp._shapes import Float
from labeldp.learning.losses._own_features import OriginalFeatures
from labeldp.release import Release

#: Steps towards a mean probability, and the change of logits at which they end.
_STEPS, _TOLERANCE = 100, 1e-6

#: Function of class probabilities for released rows: their gains.
Judge = Callable[[Float[np.ndarray, "n k"]], Float[np.ndarray, "n"]]


def gain(
    release: Release, probabilities: Float[np.ndarray, "n k"], original: OriginalFeatures | None = None
) -> Float[np.ndarray, "n"]:
    """Log likelihood of each released label, in nats over the uniform model: ``log(sum_j v_j p_j / mean_j v_j)``.

    A constant factor of the likelihoods v cancels.

    Args:
        release: Released labels of n rows.
        probabilities: A model's P(true class | true features) in declared order, shape (n, k).
        original: Probabilities that the features are the original ones, where some were resampled.
    """
    return judge(release, original)(probabilities)


def judge(release: Release, original: OriginalFeatures | None = None) -> Judge:
    """The function ``gain`` of probabilities for one release, whose likelihoods are computed once."""
    likelihood = release.likelihood() if original is None else original.mixed(release.likelihood())
    even = np.log(likelihood.mean(axis=1))

    def gains(probabilities: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
        hit = np.einsum("nk,nk->n", likelihood, probabilities)
        return np.asarray(np.log(np.maximum(hit, np.finfo(float).tiny)) - even)

    return gains


def posterior(
    release: Release, probabilities: Float[np.ndarray, "n k"], original: OriginalFeatures | None = None
) -> Float[np.ndarray, "n k"]:
    """P(true = j | released, features), for a model's P(true = j | features); both in declared order.

    Where features may have been resampled, it is P(true = j and the features are the original ones | released): a row
    then sums to less than one, and expectation maximisation with it increases the likelihood of the mixture.

    References:
        Malek et al. 2021, section 3.2, for its use in training (ALIBI); by Fisher's identity it gives the gradient of
        the likelihood.
    """
    joint = release.likelihood() * np.maximum(probabilities, np.finfo(float).tiny)
    if original is None:
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))
    resampled = (1.0 - original.shares) * (release.likelihood() @ original.prior)
    joint *= original.shares[:, None]
    return np.asarray(joint / (joint.sum(axis=1) + resampled)[:, None])


def shifts_to(
    shares: Float[np.ndarray, "k"], logits: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"] | None = None
) -> Float[np.ndarray, "k"]:
    """Shifts of logits with which the mean probability of each class is its share."""
    shifts = np.zeros(len(shares))
    for _ in range(_STEPS):
        means = np.average(softmax(logits + shifts, axis=1), axis=0, weights=weights)
        change = np.log(shares) - np.log(means)
        shifts = shifts + change
        if np.abs(change).max() < _TOLERANCE:
            break
    return shifts
