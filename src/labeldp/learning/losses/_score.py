"""Model selection by released labels, which is post-processing of a release and costs nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from labeldp._shapes import Float, Int
from labeldp.learning.losses._own_features import OriginalFeatures
from labeldp.release import Release

#: Number of rows from which one held-out fold is precise enough, so that cross-validation is not worth its time.
_ENOUGH_ROWS = 20_000

Judge = Callable[[np.ndarray, np.ndarray], Float[np.ndarray, "penalties held"]]


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
    likelihood = release.likelihood() if original is None else original.mixed(release.likelihood())
    hit = (likelihood * probabilities).sum(axis=1)
    return np.asarray(np.log(np.maximum(hit, np.finfo(float).tiny)) - np.log(likelihood.mean(axis=1)))


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


def splits(rows: int, folds: int) -> Iterator[tuple[Int[np.ndarray, "a"], Int[np.ndarray, "b"]]]:
    """Rows to fit on and rows to hold out: all folds of few rows, one fold of many. Labels play no part."""
    order = np.random.default_rng(0).permutation(rows)
    parts = np.array_split(order, folds)
    for held in parts if rows < _ENOUGH_ROWS else parts[:1]:
        rest = np.ones(rows, dtype=np.bool_)
        rest[held] = False
        yield np.flatnonzero(rest), np.sort(held)


def best_penalty(
    penalties: Sequence[float], usual: float, rows: int, folds: int, judge: Judge, fallback: float | None = None
) -> float:
    """The penalty with the best mean gain on held-out rows, if it is clearly better than the default.

    With few effective rows the best of many noisy means is often a bad choice. So the default stays unless the gain
    over it exceeds its standard error. The fallback, a model that fits no noise, replaces the result if that has no
    larger mean gain. To ask for a clearly larger one costs more where features help than it saves where they do not.

    Args:
        penalties: Penalties from the largest to the smallest, the default and the fallback among them.
        usual: The default penalty.
        rows: Number of rows.
        folds: Number of folds.
        judge: Function of the rows to fit on and the rows to hold out; it returns the gain of each held-out row under
            each penalty, shape (penalties, held-out rows), and minus infinity under penalties that were given up.
        fallback: The penalty of class shares, which predicts from no feature; None for no such candidate.
    """
    gains = np.concatenate([judge(fit, held) for fit, held in splits(rows, folds)], axis=1)
    first, best = penalties.index(usual), int(np.argmax(gains.mean(axis=1)))
    chosen = best if is_clearly_better(gains[best], gains[first]) else first
    if fallback is None or gains[chosen].mean() > gains[penalties.index(fallback)].mean():
        return penalties[chosen]
    return fallback


def is_clearly_better(gains: Float[np.ndarray, "n"], others: Float[np.ndarray, "n"]) -> bool:
    """True if the mean gain of rows exceeds that of another model on them by more than the standard error."""
    over = gains - others
    return float(np.mean(over)) > float(np.std(over)) / math.sqrt(len(over))
