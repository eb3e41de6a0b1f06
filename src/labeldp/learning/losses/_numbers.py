"""Numeric labels from a release: unbiased or decoded numbers, their noise, and the likelihood of predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtr

from labeldp._shapes import Float, Int
from labeldp._threads import blocks
from labeldp.columns import result_or_none
from labeldp.errors import InputError
from labeldp.learning.losses._own_features import require_release
from labeldp.privacy import Interval, LabelSpace
from labeldp.privacy.channels import Bins, Channel, ClassChannel, SingleNumberChannel
from labeldp.release import Release

#: Numbers count as unbiased if the bias is nowhere larger than this share of a grid step.
_SMALL_BIAS = 0.5
#: The variance of labels is between these shares of the squared range; the larger is the uniform one's.
_LEAST_VARIANCE, _MOST_VARIANCE = 0.0025, 1.0 / 12.0
#: Most cells of a range in a likelihood.
_MOST_CELLS = 64
_SQRT_2PI = np.sqrt(2.0 * np.pi)
#: Standard deviations beyond which a normal density is left out, and the nodes of an integral over it.
_FAR, _NODES = 12.0, 64


def require_numeric_labels(y: object) -> Release:
    """The release itself, if its labels are numeric."""
    release = require_release(y)
    if not isinstance(release.space, Interval):
        raise InputError(
            "expected a release of numeric labels, declared as an Interval, found classes; learn those with "
            "AutoClassifier, SoftmaxRegression or ReleasedLabelClassifier"
        )
    return release


def class_numbers(space: LabelSpace) -> Float[np.ndarray, "k"] | None:
    """The classes as the numbers that they are, or spell, such as "0.5"; None if they are others, or two are equal."""
    points = np.array(space.points)
    try:
        numbers = points.astype(np.float64) if points.dtype.kind in "iufU" else np.empty(0)
    except ValueError:
        return None
    return numbers if len(np.unique(numbers)) == space.size and np.isfinite(numbers).all() else None


def ends_of(release: Release) -> tuple[float, float]:
    """Lower and upper end of the declared range."""
    points = release.space.points
    return float(points[0]), float(points[-1])


def is_unbiased(release: Release) -> bool:
    """True if a released number has its label as mean, as none has under bins, candidates or clusters."""
    codes = np.arange(release.space.size)
    try:
        laws = release.channel.number_laws()
    except InputError:
        return False
    return all(float(np.abs(law.mean - codes).max()) <= _SMALL_BIAS for law in laws)


def is_decodable(release: Release) -> bool:
    """True if released labels identify the mean label, or the bin that holds it."""
    return is_unbiased(release) or release.channel.bins is not None


def require_decodable(y: object) -> Release:
    """The release itself, if it has numeric labels and identifies the mean label."""
    release = require_numeric_labels(y)
    if not is_decodable(release):
        raise InputError(
            "expected released labels that identify the mean label, found candidates or clusters; learn them as "
            "classes, with SoftmaxRegression or the model softmax"
        )
    return release


def unbiased_numbers(release: Release) -> Float[np.ndarray, "n"]:
    """Released numbers whose mean, given the label, is the label."""
    if not is_unbiased(release):
        raise InputError(
            "expected a channel whose released numbers have the label as mean, found bins, candidates or "
            "clusters; learn with method='likelihood', or release with 'optimal', 'piecewise' or 'one-bit'"
        )
    return np.asarray(release.numbers())


def noise_variances(release: Release) -> Float[np.ndarray, "n"]:
    """Approximate variance of each row's number given its label; zero for public labels."""
    return np.zeros(len(release)) if release.is_public else np.asarray(release.noise_variance())


def label_variance(release: Release, numbers: Float[np.ndarray, "n"]) -> float:
    """Expected variance of labels, which only scales regularisation: few noisy squares leave it amid what it can be."""
    (low, high), even = ends_of(release), np.ones(len(numbers))
    mean = expected_mean(numbers, even, low, high)
    squares = result_or_none(lambda: release.numbers(power=2)) if is_unbiased(release) else None
    squares = numbers**2 - noise_variances(release) if squares is None else squares
    size = (high - low) ** 2
    return expected_mean(squares - 2.0 * mean * numbers + mean**2, even, _LEAST_VARIANCE * size, _MOST_VARIANCE * size)


def precisions(release: Release, numbers: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Inverse-variance weights of rows, with mean 1."""
    weights = 1.0 / (noise_variances(release) + label_variance(release, numbers))
    return np.asarray(weights / weights.mean())


def decoded_numbers(release: Release, means: Float[np.ndarray, "bins"] | None = None) -> Float[np.ndarray, "n"]:
    """Numbers whose mean is the estimated mean label of the label's bin; unbiased or plain numbers without bins.

    The released bin is the label's with probability p and each other one with probability q, so
    ``(1[bin] - q) / (p - q)`` has mean one for the label's bin and zero for others; the numbers sum these over all
    bins, times the means of the bins.

    Args:
        release: Released numbers.
        means: The means of the bins; by default those that these rows show.
    """
    bins = release.channel.bins
    if bins is None or len(bins.firsts) == 1:
        return np.asarray(release.numbers()) if is_unbiased(release) else plain_numbers(release)
    means = means_of_bins(release.space, bins, release.codes) if means is None else means
    return np.asarray((means[release.codes] - bins.other * means.sum()) / (bins.keep - bins.other))


def means_of_bins(space: LabelSpace, bins: Bins, codes: Int[np.ndarray, "n"]) -> Float[np.ndarray, "bins"]:
    """The mean label of each bin, if a released number is the mean label of the rows that it is released for.

    That holds for ``BinResponse`` where labels follow its prior. With the share s_b of a bin, the mean m_b of its
    labels and the mean M of all labels, its number is ``((p - q) s_b m_b + q M) / (q + (p - q) s_b)``; the denominators
    are the probabilities of releasing the bins, and the numerators sum to M. Shares are estimated from released bins.
    Means are clipped to their bins, which bounds the error if the numbers have another origin; a bin without rows has
    its midpoint.
    """
    points, keep, other = np.asarray(space.points), bins.keep, bins.other
    firsts, lasts = points[bins.firsts], points[bins.lasts]
    often = np.bincount(codes, minlength=len(firsts)) / max(len(codes), 1)
    shares = np.maximum((often - other) / (keep - other), 0.0)
    shares /= max(float(shares.sum()), np.finfo(float).tiny)
    often = other + (keep - other) * shares
    numbers = points[0] + bins.steps * (points[-1] - points[0]) / (len(points) - 1)
    sums = (often * numbers - other * float(often @ numbers)) / (keep - other)
    middles = (firsts + lasts) / 2
    means = np.divide(sums, shares, out=middles.copy(), where=shares > 0.0)
    return np.asarray(np.clip(means, firsts, lasts))


def plain_numbers(release: Release) -> Float[np.ndarray, "n"]:
    """Released labels taken for true ones: a grid point, the mean of a set of points, or a number."""
    points, channel = np.asarray(release.space.points, dtype=np.float64), release.channel
    if not isinstance(channel, ClassChannel):
        return np.asarray(release.numbers())
    sizes = channel.sums(release.codes, np.ones(len(points)))
    means = channel.sums(release.codes, points) / np.maximum(sizes, 1.0)
    return np.asarray(np.where(sizes > 0, means, points.mean()))


@dataclass(frozen=True, eq=False)
class Latent:
    """The likelihood of predictions, for labels that are normal around them and rounded to the declared grid.

    A number beyond the range is put on its nearer end, as declared, so the outer cells are unbounded. With the cells
    ``[e_j, e_j+1)`` of the grid, or of bins, the likelihood is
    ``sum_j P(released | cell j) (N((e_j+1 - f) / s) - N((e_j - f) / s))`` for a prediction f and a standard deviation
    s. A range of many points is divided into a few dozen cells.

    Attributes:
        channel: Channel of n rows.
        released: Their released labels.
        edges: Inner edges of the cells.
        points: Code of a grid point in each cell.
    """

    channel: Channel
    released: np.ndarray
    edges: Float[np.ndarray, "e"]
    points: Int[np.ndarray, "c"]

    @classmethod
    def of(cls, release: Release) -> Self:
        """The likelihood of a release, on the cells of its bins or of the grid."""
        grid, channel = np.asarray(release.space.points), release.channel
        k = len(grid)
        firsts = _first_points(k) if channel.bins is None else channel.bins.firsts
        edges = (grid[firsts[1:] - 1] + grid[firsts[1:]]) / 2
        return cls(channel, release.codes, edges, (firsts + np.append(firsts[1:], k) - 1) // 2)

    def of_rows(self, rows: slice) -> Self:
        """The likelihood of selected rows."""
        return replace(self, channel=self.channel.take(rows), released=self.released[rows])

    def at(
        self, centres: Float[np.ndarray, "n"], deviation: float
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Log likelihood of each row and its derivative with respect to the prediction."""
        parts = [
            self.of_rows(rows)._at(centres[rows], deviation) for rows in blocks(len(centres), self.channel.classes)
        ]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _at(self, centres: np.ndarray, deviation: float) -> tuple[np.ndarray, np.ndarray]:
        ends = (self.edges - centres[:, None]) / deviation
        below = np.pad(ndtr(ends), ((0, 0), (1, 1)), constant_values=((0, 0), (0.0, 1.0)))
        density = np.pad(np.exp(-0.5 * ends**2) / _SQRT_2PI, ((0, 0), (1, 1)))
        likelihood = self.likelihood()
        hit = np.maximum((likelihood * np.diff(below, axis=1)).sum(axis=1), np.finfo(float).tiny)
        return np.log(hit), -(likelihood * np.diff(density, axis=1)).sum(axis=1) / (deviation * hit)

    def likelihood(self) -> Float[np.ndarray, "n c"]:
        """P(released | label) for each row and cell, up to a factor for the row."""
        if isinstance(self.channel, SingleNumberChannel):  # without all points of the grid
            return np.asarray(self.channel.rows_of(self.points).T[self.released])
        return np.asarray(self.channel.likelihood(self.released)[:, self.points])


def _first_points(points: int) -> Int[np.ndarray, "c"]:
    """The first grid point of each of at most a few dozen cells of about equal width."""
    cells = min(points, _MOST_CELLS)
    return np.arange(cells) * points // cells


def clipped_mean(centres: Float[np.ndarray, "n"], deviation: float, low: float, high: float) -> Float[np.ndarray, "n"]:
    """The mean of a normal number clipped to a range."""
    if deviation == 0.0:
        return np.asarray(np.clip(centres, low, high))
    left, right = (low - centres) / deviation, (high - centres) / deviation
    inside, above = ndtr(right) - ndtr(left), ndtr(-right)
    slope = (np.exp(-0.5 * left**2) - np.exp(-0.5 * right**2)) / _SQRT_2PI
    return np.asarray(low * ndtr(left) + high * above + centres * inside + deviation * slope)


def expected_mean(numbers: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"], low: float, high: float) -> float:
    """The expected mean label given numbers whose means are labels, under a uniform prior on the range.

    Their weighted mean m is nearly normal around the mean label, with a variance ``s^2`` that its residuals tell: the
    result is the mean of a normal number around m cut to the range. Few noisy numbers thus give about the middle of the
    range, which errs by half of it at most, where m clipped to the range is often one of its ends. Where the mean label
    is near an end itself, clipping errs less.
    """
    mean = float(np.average(numbers, weights=weights))
    deviation = float(np.sqrt((weights**2 * (numbers - mean) ** 2).sum()) / weights.sum())
    first, last = np.clip([mean - _FAR * deviation, mean + _FAR * deviation], low, high)
    if first == last:
        return float(first)
    nodes, sizes = np.polynomial.legendre.leggauss(_NODES)
    places = (first + last + (last - first) * nodes) / 2
    logs = -0.5 * ((places - mean) / deviation) ** 2
    return float(np.average(places, weights=sizes * np.exp(logs - logs.max())))
