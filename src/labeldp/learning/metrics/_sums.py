"""Unbiased class weights of released labels, by row and summed over rows, from which metrics are computed."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Bool, Float, Int
from labeldp.learning.losses import blocks_of, unbiased_rows
from labeldp.learning.metrics._estimates import Estimates, check_level, normal_estimates
from labeldp.privacy.channels import candidate_sizes, row_arrays
from labeldp.release import Release

#: Folds for the choice of a constant prediction.
_FOLDS = 5


def candidates_of(release: Release, codes: Int[np.ndarray, "n"]) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Number of candidates of each row, and a mask of the rows where the given class is one of several."""
    channel = release.channel
    sizes = candidate_sizes(channel)
    if sizes is None:
        return np.full(len(codes), channel.classes), np.ones(len(codes), dtype=np.bool_)
    packed = row_arrays(channel)["candidates"]
    held = packed[np.arange(len(codes)), codes >> 3] >> (codes & 7).astype(np.uint8) & 1
    return sizes, (held == 1) & (sizes > 1)


def holds_class(release: Release, codes: Int[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
    """Mask of the rows whose released label is the given class, or a set that holds it."""
    return release.class_channel.holds(release.codes, codes)


def holding_probabilities(
    release: Release, codes: Int[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "*rows"], Float[np.ndarray, "*rows"]]:
    """P(released label holds a class | it is the true class) and P(... | it is not); scalars if all rows agree."""
    true, other = (np.asarray(probability) for probability in release.class_channel.holding(codes))
    alike = true.size > 0 and bool((true == true.flat[0]).all() and (other == other.flat[0]).all())
    return (np.array(true.flat[0]), np.array(other.flat[0])) if alike else (true, other)


def class_weights(release: Release, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Unbiased estimate for each row of the indicator that a class is the true one: an unbiased vector's entry."""
    true, other = holding_probabilities(release, codes)
    return np.asarray((holds_class(release, codes) - other) / (true - other))


def moments_by_prediction(release: Release, predicted: Int[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the unbiased vectors and of their squares, by entry and predicted class; shape (k, k)."""
    k = release.space.size
    sums, squares = np.zeros((k, k)), np.zeros((k, k))
    for rows in blocks_of(release):
        vectors, codes = unbiased_rows(release, rows), predicted[rows]
        select = csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))), shape=(k, len(codes)))
        sums += (select @ vectors).T
        squares += (select @ vectors**2).T
    return sums, squares


def ranked_below(scores: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The weight of other rows with a lower score, and half that of other rows with the same score."""
    _, place = np.unique(scores, return_inverse=True)
    level = np.bincount(place, weights=weights)
    return np.asarray((np.cumsum(level) - level)[place] + 0.5 * (level[place] - weights))


def folds_to_choose_on(release: Release, folds: Int[np.ndarray, "n"] | None = None) -> Int[np.ndarray, "n"]:
    """Fold of each row, for a constant prediction that is chosen on the other folds; one fold for public labels.

    A constant that is chosen on noisy labels and judged by the same ones looks better than it is. On public labels the
    difference is of no account, and the constant is the usual one.
    """
    if release.is_public:
        return np.zeros(len(release), dtype=np.int64)
    return np.random.default_rng(0).permutation(len(release)) % _FOLDS if folds is None else folds


def sums_of_others(values: Float[np.ndarray, "n"], folds: Int[np.ndarray, "n"]) -> Float[np.ndarray, "f"]:
    """For each fold the sum over the rows of the others; over all rows if there is one fold."""
    own = np.bincount(folds, weights=values)
    return np.asarray(own if len(own) == 1 else own.sum() - own)


def shares_of_groups(
    release: Release, codes: Int[np.ndarray, "n"], place: Int[np.ndarray, "n"], groups: int, level: float
) -> Estimates:
    """Share of rows in each group whose true class is the one given by ``codes``."""
    true, other = holding_probabilities(release, codes)
    holds = holds_class(release, codes)
    rows = np.bincount(place, minlength=groups)
    weight = (holds - other) / (true - other)
    value = np.bincount(place, weights=weight, minlength=groups) / rows
    spread = np.bincount(place, weights=(weight - value[place]) ** 2, minlength=groups)
    error = np.sqrt(spread / np.maximum(rows - 1, 1) / rows)
    error[rows < 2] = np.inf
    if true.ndim:
        return normal_estimates(value, error, level, 0.0, 1.0)
    # Whether a released label holds the class is Bernoulli with probability other + (true - other) * share.
    count, tail = np.bincount(place, weights=holds, minlength=groups), (1 - check_level(level)) / 2
    ends = clopper_pearson_lower(count, rows, tail), clopper_pearson_upper(count, rows, tail)
    low, high = (np.clip((end - other) / (true - other), 0.0, 1.0) for end in ends)
    return Estimates(value, error, low, high)


def exact_row_counts(
    release: Release, predicted: Int[np.ndarray, "n"], level: float
) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]] | None:
    """Exact intervals for the rows of each true and predicted class, [true, predicted]; None if channels differ by row.

    Among the rows predicted as one class, the number whose released label holds a class is binomial.
    """
    k, tail = release.space.size, (1 - check_level(level)) / 2
    rows, low, high = np.bincount(predicted, minlength=k), np.zeros((k, k)), np.zeros((k, k))
    for code in range(k):
        codes = np.full(len(release), code)
        true, other = holding_probabilities(release, codes)
        if true.ndim:
            return None
        count = np.bincount(predicted, weights=holds_class(release, codes), minlength=k)
        low[code], high[code] = (
            rows * np.clip((end(count, np.maximum(rows, 1), tail) - other) / (true - other), 0.0, 1.0)
            for end in (clopper_pearson_lower, clopper_pearson_upper)
        )
    return low, high
