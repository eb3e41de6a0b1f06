"""Laws of the features of each class: Gaussian copulas, and distributions over finitely many rows.

A law is a few arrays of numbers, so that its file holds nothing else; the first axis is that of the classes. Those over
finitely many rows are in integers, so that draws have exactly the stated probabilities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata
from sklearn.covariance import ledoit_wolf

from labeldp import _checks
from labeldp._shapes import Float, Int, UInt64
from labeldp.columns import floats
from labeldp.errors import InputError
from labeldp.learning.generators._columns import FEW, FormEncoder, FreshNumbers
from labeldp.privacy import log_above

_SLACK = 1e-4
_KNOTS = 1001
_AVERAGINGS = 20
_FARTHEST = 8.0


@dataclass(frozen=True, eq=False)
class CopulaLaw:
    """For each class the marginals of its rows, and the correlations of a latent normal vector.

    A category is an interval between two thresholds of its latent variable; a number is the quantile at the level of
    its latent variable, linear between knots; a missing number is an interval below all numbers.

    Attributes:
        order: Order of the values of each category column along its latent variable, shape (s,), the same for all
            classes.
        ends: Cumulated shares of the values in that order, shape (k, s).
        absent: Share of missing values of each number, shape (k, d).
        knots: Quantiles of the numbers at even levels, shape (k, d, q).
        roots: Lower triangular roots of the correlations, categories behind numbers, shape (k, d + c, d + c).
    """

    name: ClassVar[str] = "copula"
    few: ClassVar[int] = FEW

    order: Int[np.ndarray, "s"]
    ends: Float[np.ndarray, "k s"]
    absent: Float[np.ndarray, "k d"]
    knots: Float[np.ndarray, "k d q"]
    roots: Float[np.ndarray, "k v v"]

    def check(self, columns: FormEncoder, classes: int) -> None:
        """Refuse arrays that do not form such a distribution."""
        numbers, values = len(columns.of_numbers), sum(columns.sizes)
        both = numbers + len(columns.sizes)
        wanted = {
            "order": (values,),
            "ends": (classes, values),
            "absent": (classes, numbers),
            "knots": (classes, numbers, self.knots.shape[2]),
            "roots": (classes, both, both),
        }
        _check_arrays(self, wanted)
        if self.knots.shape[2] < 1 or ((self.absent < 0) | (self.absent > 1)).any():
            raise ValueError("no quantiles")
        for part, size in zip(columns.parts, columns.sizes, strict=True):
            if sorted(self.order[part].tolist()) != list(range(size)):
                raise ValueError("no order")
            _check_shares(np.diff(self.ends[:, part], axis=1, prepend=0.0))

    def draw(
        self, columns: FormEncoder, codes: Int[np.ndarray, "m"], fresh: FreshNumbers
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the numbers and codes of rows of these classes."""
        numbers = np.empty((len(codes), len(columns.of_numbers)))
        found = np.empty((len(codes), len(columns.sizes)), dtype=np.int64)
        normals = fresh.normals(len(codes), self.roots.shape[1])
        for label in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == label)
            levels = ndtr(normals[rows] @ self.roots[label].T)
            for place, level in enumerate(levels.T[: numbers.shape[1]]):
                numbers[rows, place] = self._quantile(label, place, level)
            for place, level in enumerate(levels.T[numbers.shape[1] :]):
                part = columns.parts[place]
                found[rows, place] = self.order[part][np.searchsorted(self.ends[label, part][:-1], level, side="right")]
        return numbers, found

    def _quantile(self, label: int, place: int, level: Float[np.ndarray, "m"]) -> Float[np.ndarray, "m"]:
        absent, knots = self.absent[label, place], self.knots[label, place]
        inside = (level - absent) / max(1.0 - absent, np.finfo(float).tiny)
        return np.where(level < absent, np.nan, np.interp(inside, np.linspace(0.0, 1.0, len(knots)), knots))


def copula_law(
    columns: FormEncoder,
    numbers: Float[np.ndarray, "n d"],
    codes: Int[np.ndarray, "n c"],
    classes: list[np.ndarray],
    shrinkage: float | None,
) -> CopulaLaw:
    """Fit a copula for each class.

    Args:
        columns: Encoder of the rows.
        numbers: Numbers of all rows, NaN where missing.
        codes: Codes of all rows.
        classes: Row numbers of each class, at least two.
        shrinkage: Shrinkage of correlations towards zero, from 0 to 1; None for the optimum of Ledoit and Wolf (2004).
    """
    width, values = numbers.shape[1], sum(columns.sizes)
    both = width + len(columns.sizes)
    levels = np.linspace(0.0, 1.0, min(_KNOTS, max(map(len, classes))))
    law = CopulaLaw(
        _value_order(columns, numbers, codes),
        np.zeros((len(classes), values)),
        np.isnan(numbers).mean(axis=0) * np.ones((len(classes), 1)),
        np.zeros((len(classes), width, len(levels))),
        np.zeros((len(classes), both, both)),
    )
    for label, rows in enumerate(classes):
        scores = np.empty((len(rows), both))
        for place, values_of in enumerate(numbers[rows].T):
            there = values_of[~np.isnan(values_of)]
            law.absent[label, place] = 1 - len(there) / len(rows)
            pooled = numbers[~np.isnan(numbers[:, place]), place]
            law.knots[label, place] = np.quantile(there if len(there) else pooled if len(pooled) else [0.0], levels)
            scores[:, place] = _number_scores(values_of)
        for place, part in enumerate(columns.parts):
            size = part.stop - part.start
            ranks = np.argsort(law.order[part])[codes[rows, place]]
            shares = (np.bincount(ranks, minlength=size) + 1 / size) / (len(rows) + 1)
            law.ends[label, part] = np.cumsum(shares)
            law.ends[label, part.stop - 1] = 1.0
            scores[:, width + place] = _interval_scores(np.cumsum(shares))[ranks]
        law.roots[label] = _correlation_root(scores, shrinkage)
    return law


def _value_order(
    columns: FormEncoder, numbers: Float[np.ndarray, "n d"], codes: Int[np.ndarray, "n c"]
) -> Int[np.ndarray, "s"]:
    """An order of the values of each category: numbers by size, texts by reciprocal averaging (Greenacre 1984).

    The score of a text is the mean score of its rows; the score of a row is the sum of the scores of its texts, and of
    its numbers weighted by their correlation with the axis. Repeating this is the power method for the leading axis of
    all columns together.
    """
    scaled = np.column_stack([rankdata(np.nan_to_num(column)) for column in [*numbers.T, *codes.T]]).astype(float)
    scaled -= scaled.mean(axis=0)
    scaled /= np.maximum(scaled.std(axis=0), 1e-9)
    axis = scaled.sum(axis=1)
    places = [np.zeros(size) for size in columns.sizes]
    for _ in range(_AVERAGINGS):
        axis = (axis - axis.mean()) / max(axis.std(), 1e-9)
        width = numbers.shape[1]
        total = scaled[:, :width] @ (scaled[:, :width].T @ axis) / len(axis)
        for place, size in enumerate(columns.sizes):
            counts = np.bincount(codes[:, place], minlength=size)
            places[place] = np.bincount(codes[:, place], axis, size) / np.maximum(counts, 1)
            total = total + places[place][codes[:, place]]
        axis = total
    orders = [
        np.argsort(place, kind="stable") if isinstance((column.values or [0])[0], str) else np.arange(len(place))
        for column, place in zip(columns.of_categories, places, strict=True)
    ]
    return np.concatenate([*orders, np.empty(0)]).astype(np.int64)


def _number_scores(values: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
    """Normal scores of numbers; missing ones have the mean score of an interval below all others."""
    absent = np.isnan(values)
    share, ranks = absent.mean(), rankdata(values[~absent]) if not absent.all() else np.empty(0)
    scores = np.empty(len(values))
    scores[~absent] = ndtri(share + (1 - share) * (ranks - 0.5) / max(len(ranks), 1))
    if absent.any():
        scores[absent] = _interval_scores(np.array([share, 1.0]))[0]
    return scores


def _interval_scores(ends: Float[np.ndarray, "s"]) -> Float[np.ndarray, "s"]:
    """The mean of a normal variable in each interval between levels: (phi(a) - phi(b)) / P(a < Z < b)."""
    bounds = np.clip(ndtri(np.clip(np.concatenate([[0.0], ends]), 0.0, 1.0)), -_FARTHEST, _FARTHEST)
    heights = np.exp(-(bounds**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray((heights[:-1] - heights[1:]) / np.maximum(np.diff(ndtr(bounds)), 1e-300))


def _correlation_root(scores: Float[np.ndarray, "n v"], shrinkage: float | None) -> Float[np.ndarray, "v v"]:
    """A root of the shrunken correlations of the latent normal variables of scores.

    A category's score s is the mean of its latent variable, so that ``Cov(s, t) = r Var(s) Var(t)`` to first order,
    where r is the latent correlation: dividing by the variances corrects the attenuation. The result is made a
    correlation matrix by setting negative eigenvalues to zero (Higham 2002). A constant column has correlation zero
    with all others.
    """
    varied = scores - scores.mean(axis=0)
    deviations = np.maximum(varied.std(axis=0), 1e-9)
    varied /= deviations
    if shrinkage is None:
        shrinkage = float(ledoit_wolf(varied, assume_centered=True)[1])
    share = min(max(shrinkage, _SLACK), 1.0)
    behind = np.clip(varied.T @ varied / len(varied) / np.outer(deviations, deviations), -1.0, 1.0)
    np.fill_diagonal(behind, 1.0)
    sizes, axes = np.linalg.eigh(behind)
    latent = (axes * np.maximum(sizes, 0.0)) @ axes.T
    lengths = np.sqrt(np.maximum(np.diag(latent), 1e-9))
    latent = (1 - share) * latent / np.outer(lengths, lengths) + share * np.eye(len(latent))
    np.fill_diagonal(latent, 1.0)
    return np.asarray(np.linalg.cholesky(latent))


def _check_arrays(law: CopulaLaw, wanted: dict[str, tuple[int, ...]]) -> None:
    """Refuse arrays of other shapes, or with numbers that are not finite."""
    for name, shape in wanted.items():
        found = getattr(law, name)
        kind = "i" if name == "order" else "f"
        if found.shape != shape or found.dtype.kind != kind or not np.isfinite(found).all():
            raise ValueError(f"other numbers in {name}")


def _check_shares(shares: Float[np.ndarray, "... s"]) -> None:
    """Refuse shares that do not add up to one."""
    if (shares < -1e-9).any() or (np.abs(shares.sum(axis=-1) - 1) > 1e-6).any():
        raise ValueError("shares that do not add up to one")


MOST_CELLS = 1 << 20
_BITS = 63
_WORDS = 1 << _BITS
_EXACT = 53
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class CellLaw:
    """The probability of each row that the form allows, given the class, as a number of words out of 2**63.

    Attributes:
        weights: Words of each row, shape (k, cells); those of a class add up to 2**63. Rows are in the order of their
            columns' values, the last column changing fastest; a missing value comes last.
    """

    name: ClassVar[str] = "cells"
    #: All listed numbers are categories here.
    few: ClassVar[int] = MOST_CELLS

    weights: UInt64[np.ndarray, "k cells"]

    def check(self, columns: FormEncoder, classes: int) -> None:
        """Refuse arrays that do not form such a distribution."""
        if self.weights.dtype != np.uint64 or self.weights.shape != (classes, math.prod(columns.sizes)):
            raise ValueError("other weights")
        halves = [(self.weights >> np.uint64(32)), self.weights & np.uint64(0xFFFFFFFF)]
        high, low = (half.sum(axis=1).tolist() for half in halves)
        if any((upper << 32) + lower != _WORDS for upper, lower in zip(high, low, strict=True)):
            raise ValueError("weights that do not add up")

    def draw(
        self, columns: FormEncoder, codes: Int[np.ndarray, "m"], fresh: FreshNumbers
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw rows of these classes, from one word each: an empty matrix of numbers, and codes."""
        words, cells = fresh.words(len(codes)) >> np.uint64(64 - _BITS), np.empty(len(codes), dtype=np.int64)
        for label in np.unique(codes).tolist():
            rows = codes == label
            cells[rows] = np.searchsorted(np.cumsum(self.weights[label])[:-1], words[rows], side="right")
        return np.empty((len(codes), 0)), cell_codes(columns, cells)

    @property
    def density(self) -> Float[np.ndarray, "k cells"]:
        """Q(row | class), to the nearest doubles."""
        return np.asarray(self.weights / float(_WORDS))

    def log_floor(self) -> float | None:
        """Logarithm of the least probability of a row in the mean over classes, rounded down; None if it is 0."""
        least = float(self.weights.astype(np.float64).sum(axis=0).min()) / len(self.weights) / _WORDS
        return math.log(least) - _MARGIN if least > 0 else None

    def divergence_bound(self, conditional: object, alpha: float) -> float:
        """See ``FittedGenerator.divergence_bound``."""
        stated = _stated_probabilities(conditional, self.weights.shape)
        if not alpha > 1:
            raise InputError(f"expected an order alpha above 1, found {alpha}; math.inf is the largest")
        pooled = [sum(column) for column in zip(*self.weights.tolist(), strict=True)]  # of k 2^63 words
        if any(share and not words for row in stated.tolist() for share, words in zip(row, pooled, strict=True)):
            return math.inf
        worst = max(_largest_ratio(row, pooled, len(self.weights)) for row in stated.tolist())
        pure = log_above(max(worst, Fraction(1)))
        if math.isinf(alpha):
            return pure
        mean = np.array([float(Fraction(words, len(self.weights) * _WORDS)) for words in pooled])
        return min(pure, max(_renyi_above(row / row.sum(), mean, alpha) for row in stated))


def _largest_ratio(row: list[float], pooled: list[int], classes: int) -> Fraction:
    """The largest P / Qbar where P is not 0, exactly."""
    total = sum(map(Fraction, row))
    ratios = (Fraction(share) / words for share, words in zip(row, pooled, strict=True) if share)
    return max(ratios) * classes * _WORDS / total


def _renyi_above(row: Float[np.ndarray, "cells"], mean: Float[np.ndarray, "cells"], alpha: float) -> float:
    """The divergence of order alpha, plus a bound on the rounding error."""
    there = row > 0
    exponents = alpha * np.log(row[there]) - (alpha - 1) * np.log(mean[there])
    largest = float(exponents.max())
    divergence = (largest + math.log(math.fsum(np.exp(exponents - largest)))) / (alpha - 1)
    sizes = alpha * np.abs(np.log(row[there])) + (alpha - 1) * np.abs(np.log(mean[there]))
    return max(0.0, divergence) + 1e-13 * (1.0 + float(sizes.max())) * alpha / (alpha - 1)


def _stated_probabilities(conditional: object, shape: tuple[int, ...]) -> Float[np.ndarray, "k cells"]:
    """Check the stated probabilities of rows given classes."""
    probabilities = floats(conditional, "probabilities")
    if probabilities.shape != shape:
        raise InputError(f"expected probabilities of shape {shape}, a row for each class, found {probabilities.shape}")
    sums = probabilities.sum(axis=1)
    if not np.isfinite(probabilities).all() or (probabilities < 0).any() or (np.abs(sums - 1) > 1e-9).any():
        raise InputError("expected probabilities that add up to 1 in each class, found others")
    return probabilities


def cell_codes(columns: FormEncoder, cells: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m c"]:
    """The codes of rows from their cell numbers."""
    return np.column_stack(np.unravel_index(cells, columns.sizes)).astype(np.int64)


def cell_law(
    columns: FormEncoder, codes: Int[np.ndarray, "n c"], classes: list[np.ndarray], smoothing: float
) -> CellLaw:
    """The frequencies of rows in each class, mixed with the uniform distribution."""
    cells = columns.form.cells
    if cells is None or cells > MOST_CELLS:
        found = "columns of numbers" if cells is None else f"{cells} rows"
        raise InputError(
            f"expected a form of at most {MOST_CELLS} different rows, whose columns all list their values, found "
            f"{found}; keep fewer columns, put numbers into bins, or fit a copula"
        )
    numbers = np.ravel_multi_index(tuple(codes.T), columns.sizes)
    counts = np.stack([np.bincount(numbers[rows], minlength=cells) / len(rows) for rows in classes])
    return CellLaw(np.stack([_words_of((1 - smoothing) * row + smoothing / cells) for row in counts]))


def _words_of(shares: Float[np.ndarray, "cells"]) -> UInt64[np.ndarray, "cells"]:
    """Shares as whole numbers that add up to 2**63; the likeliest row absorbs the rounding."""
    words = np.floor(shares * 2.0**_EXACT).astype(np.uint64) << np.uint64(_BITS - _EXACT)
    largest = int(np.argmax(words))
    words[largest] = 0
    words[largest] = _WORDS - sum(words.tolist())
    return words


def check_smoothing(smoothing: float) -> float:
    """Check a share from 0 to below 1."""
    return _checks.share(smoothing, "smoothing", "[)", "; 0.01 makes one row in a hundred uniform")
