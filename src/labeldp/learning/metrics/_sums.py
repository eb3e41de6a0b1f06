"""Unbiased class weights of released labels, by row and summed over rows, from which metrics are computed."""

from __future__ import annotations

import numpy as np

from labeldp import _checks
from labeldp._confidence_intervals import clopper_pearson_lower, clopper_pearson_upper
from labeldp._shapes import Bool, Float, Int
from labeldp.learning.metrics._estimates import Estimates, quantile, quotient_estimates, score_covariance
from labeldp.learning.metrics._units import FEW_UNITS, Units
from labeldp.privacy.channels import candidate_sizes, row_arrays
from labeldp.release import Release

#: Folds for the choice of a constant prediction.
_FOLDS = 5


def code_of(release: Release, positive: object) -> int:
    """The code of one class."""
    return int(release.space.encode([positive])[0])


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


def weights_with_noise(
    release: Release, codes: Int[np.ndarray, "n"]
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
    """``class_weights``, and unbiased estimates of the variance that the noise of each has."""
    true, other = holding_probabilities(release, codes)
    weight = class_weights(release, codes)
    least, most = (each * (1.0 - each) / (true - other) ** 2 for each in (other, true))
    return weight, np.asarray(least + weight * (most - least))


def ranked_below(scores: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """The weight of other rows with a lower score, and half that of other rows with the same score."""
    _, place = np.unique(scores, return_inverse=True)
    level = np.bincount(place, weights=weights)
    return np.asarray((np.cumsum(level) - level)[place] + 0.5 * (level[place] - weights))


def folds_to_choose_on(
    release: Release, folds: Int[np.ndarray, "n"] | None = None, units: object = None
) -> Int[np.ndarray, "n"]:
    """Fold of each row, for a constant prediction that is chosen on the other folds; one fold for public labels.

    A constant that is chosen on noisy labels and judged by the same ones looks better than it is. On public labels the
    difference is of no account, and the constant is the usual one. Rows of one unit are in one fold.
    """
    if release.is_public:
        return np.zeros(len(release), dtype=np.int64)
    if folds is not None:
        return folds
    sample = Units.of(units, release)
    chosen = np.random.default_rng(0).permutation(sample.count) % _FOLDS
    return chosen if sample.numbers is None else chosen[sample.numbers]


def shares_of_groups(
    release: Release,
    codes: Int[np.ndarray, "n"],
    place: Int[np.ndarray, "n"],
    groups: int,
    units: Units,
    level: float,
) -> Estimates:
    """Share of rows in each group whose true class is the one given by ``codes``; NaN for a group without rows.

    If all rows have one channel, whether a released label holds the class is Bernoulli with probability
    ``other + (true - other) * share``, and the interval is Clopper and Pearson's for the number that do: exact if rows
    are independent. Units of several rows count as fewer: as the number of independent rows with the same variance,
    less the imprecision of that variance (Korn and Graubard 1998, section 2.2).
    """
    true, other = holding_probabilities(release, codes)
    holds = holds_class(release, codes)
    rows = np.bincount(place, minlength=groups)
    some = np.maximum(rows, 1)
    weight = (holds - other) / (true - other)
    value = np.bincount(place, weights=weight, minlength=groups) / some
    squares, count = units.squares(weight - value[place], place, groups)
    free = np.maximum(count - 1, 1)
    variance = squares * count / free
    error, sizes = np.where(count > 1, np.sqrt(variance) / some, np.inf), units.sizes(place, groups)
    if true.ndim:
        noise = np.bincount(place, weights=weights_with_noise(release, codes)[1], minlength=groups)
        parts = np.zeros((2, groups, 2, 2))
        parts[0, :, 0, 0], parts[1, :, 0, 0] = noise, variance
        each = zip(value * some, some + 0.0, *parts, *sizes, strict=True)
        within = np.stack([score_covariance(*its) for its in each])
        found = quotient_estimates(value * some, some + 0.0, parts[1], count > 1, level, free, within)
        low, high = found.low, found.high
    else:
        share, tail = np.bincount(place, weights=holds, minlength=groups) / some, (1 - _checks.level(level)) / 2
        seen = np.minimum(*(units.present(each, place, groups) for each in (holds, ~holds)))
        of_labels = (true - other) ** 2 * np.clip(value * (1.0 - value), 0.0, None)
        size = _effective_rows(share, some, sizes, count, seen, (true - other) ** 2 * variance, of_labels, level)
        bounds = (end(share * size, size, tail) for end in (clopper_pearson_lower, clopper_pearson_upper))
        low, high = (np.clip((bound - other) / (true - other), 0.0, 1.0) for bound in bounds)
    value = np.where(rows > 0, value, np.nan)
    return Estimates(value, error, np.where(rows > 0, low, 0.0), np.where(rows > 0, high, 1.0))


def _effective_rows(
    share: Float[np.ndarray, "g"],
    rows: Int[np.ndarray, "g"],
    sizes: tuple[Float[np.ndarray, "g"], Float[np.ndarray, "g"]],
    units: Int[np.ndarray, "g"],
    seen: Int[np.ndarray, "g"],
    variance: Float[np.ndarray, "g"],
    of_labels: Float[np.ndarray, "g"],
    level: float,
) -> Float[np.ndarray, "g"]:
    """Number of independent rows that show a share as precisely as the rows of some units do, at most all rows.

    The design effect is the variance of the share over that of as many independent rows, less the imprecision of that
    variance. Only the labels of a unit depend on each other, not the noise of these, which limits it. Where the rarer
    of hits and misses is in few units, or few hold most rows, nothing shows how dependent rows are: labels of a unit
    are taken to be alike.

    Args:
        share: Share of rows in each group.
        rows: Number of rows.
        sizes: The size of units, in the mean over rows, and that of the largest.
        units: Number of units.
        seen: Number of units with the rarer of hits and misses.
        variance: Variance of the number of hits.
        of_labels: Part of the variance of a row that is of its label, and not of noise.
        level: Coverage of the intervals.

    References:
        Korn and Graubard 1998, section 2.2.
    """
    free, alone, spread = np.maximum(units - 1, 1), np.maximum(rows - 1, 1), share * (1.0 - share)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(spread > 0.0, np.minimum(of_labels / spread, 1.0), 1.0)
        alike, most = (1.0 + (size - 1.0) * part for size in sizes)
        found = variance / (rows * spread * rows / alone)
        shown = np.minimum(seen, rows / sizes[0]) >= FEW_UNITS
        effect = np.where(shown, np.minimum(found, most), alike)
        size = rows / effect * (quantile(level, alone) / quantile(level, free)) ** 2
    return np.asarray(np.minimum(size, rows))
