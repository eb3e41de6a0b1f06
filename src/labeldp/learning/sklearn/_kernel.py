"""Bayesian linear and kernel regression, averaged by marginal likelihood: nothing is chosen on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp._threads import blocks, one_thread_for_algebra
from labeldp.learning.features import row_weights
from labeldp.learning.losses import class_shares, clipped_mean, require_identified, require_release
from labeldp.learning.metrics import ROWS, Units
from labeldp.learning.sklearn._soft_labels import (
    ProbabilityClassifier,
    SparseInput,
    check_released_rows,
    checked_features,
)
from labeldp.release import Release

#: Squared widths of Gaussian kernels over the median squared distance of two landmarks.
WIDTHS = (0.1, 0.3, 1.0, 3.0)
#: Rows that serve as landmarks, and most columns of which a linear kernel needs none.
_LANDMARKS, _FEW_COLUMNS = 100, 300
#: Shares of the variance of what targets estimate that features explain, with even prior probabilities.
_EXPLAINED = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.99])
#: Rows that are fitted at most, and effective ones in Gaussian kernels; of more, evenly spaced ones, since more change
#: nothing that can be seen.
_MOST_ROWS, _MOST_EFFECTIVE = 200_000, 10_000
#: Directions of landmarks with less of the largest variance are left out, and so are models of less weight.
_LEAST_VARIANCE, _LEAST_WEIGHT = 1e-6, 1e-3
#: Least probability of a class: sums of unbiased vectors may be negative.
_LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class _Kernel:
    """Features of rows in a kernel: products with the columns of a map, once nearness to landmarks is taken.

    Attributes:
        width: Squared width of a Gaussian kernel, of which nearness to landmarks is taken; infinite for a linear one.
        map: Coefficients of the features, shape (d or landmarks, f).
    """

    width: float
    map: Float[np.ndarray, "c f"]

    def __call__(self, rows: Any, distances: Float[np.ndarray, "n l"]) -> Float[np.ndarray, "n f"]:
        return np.asarray(_nearness(rows, distances, self.width) @ self.map)


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class EvidenceRidge(SparseInput, RegressorMixin, BaseEstimator):
    """Bayesian ridge regression in a linear and in Gaussian kernels, averaged by marginal likelihood.

    Coefficients are normal around zero, and so is the noise of targets. In each kernel features explain one of some
    shares of the variance of what targets estimate, and every pair of kernel and share weighs in proportion to its
    marginal likelihood at the likeliest noise. So no row is held out and nothing is tuned; where targets are noise,
    predictions are about their mean. Gaussian kernels are approximated from landmarks (Nyström).

    It is fitted to numbers, such as those that ``ReleasedLabelRegressor`` hands on.

    Args:
        widths: Squared widths of Gaussian kernels over the median squared distance of two rows; none for a model that
            is linear.
        signal: Share of the variance of targets that is not noise: 1 for labels, less for released ones.

    Attributes:
        landmarks_: Rows that serve as landmarks.
        widths_: Squared width of each kernel that has a weight; infinite for the linear one.
        coefficients_: Coefficients of each: of columns in a linear kernel, else of nearness to landmarks.
        intercept_: Predictions without features, shape (k,).
        mean_: Mean target, shape (k,).
        weights_: Weight of each of these kernels.
        deviation_: Standard deviation of predictions given the targets, a mean over rows, shape (k,).

    References:
        MacKay 1992, Bayesian interpolation; Williams and Seeger 2001, Using the Nyström method to speed up kernel
        machines; Kish 1965, for the effective rows of units.

    Example:
        >>> import numpy as np
        >>> from labeldp.learning.sklearn import EvidenceRidge
        >>> features = np.linspace(-1.0, 1.0, 200)[:, None]
        >>> model = EvidenceRidge().fit(features, features[:, 0] ** 2)
        >>> model.predict([[0.0], [1.0]]).round(1).tolist()
        [0.0, 1.0]
    """

    widths: Sequence[float] = WIDTHS
    signal: float = 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = ROWS) -> Self:  # noqa: N803
        """Fit on features of shape (n, d), dense or sparse, and targets of shape (n,) or (n, k).

        Args:
            X: Features.
            y: Targets; those of several columns sum to one.
            sample_weight: Weights of rows.
            groups: The unit of each row, shape (n,). The more alike the targets of a unit are, the less its rows count.
        """
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64)
        targets = np.asarray(y, dtype=np.float64)
        _checks.positive(self.signal, "signal")
        self.columns_ = targets.shape[1:]
        weights = row_weights(sample_weight, len(targets))
        offsets = weights[:, None] * (targets.reshape(len(targets), -1) - np.average(targets, axis=0, weights=weights))
        weights = weights / Units.of(groups, len(targets)).design_effect(offsets)
        most = min(_MOST_ROWS, _MOST_EFFECTIVE / self.signal) if self.widths else _MOST_ROWS
        step = math.ceil(len(targets) / most)
        with one_thread_for_algebra():  # so that sums are added in one order
            self._fit(features[::step], targets.reshape(len(targets), -1)[::step], step * weights[::step])
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n ..."]:  # noqa: N803
        """The expected target of each row, shape (n,) or (n, k)."""
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        found = np.tile(self.intercept_, (features.shape[0], 1))
        with one_thread_for_algebra():
            for part in blocks(len(found), len(self.landmarks_)):
                rows = features[part]
                distances = _distances(rows, self.landmarks_)
                for width, coefficients in zip(self.widths_, self.coefficients_, strict=True):
                    found[part] += _nearness(rows, distances, width) @ coefficients
        return found.reshape(len(found), *self.columns_)

    def _fit(self, features: Any, targets: Float[np.ndarray, "n k"], weights: Float[np.ndarray, "n"]) -> None:
        self.landmarks_ = _landmarks(features)
        kernels = list(self._kernels(features.shape[1]))
        sums = _Sums.of(features, targets, weights, kernels, self.landmarks_)
        explained = _EXPLAINED * self.signal
        ratios = explained / (1.0 - explained)
        evidence, coefficients, variances = zip(*(each.posteriors(ratios) for each in sums), strict=True)
        shares = softmax(np.array(evidence))
        self.widths_, self.coefficients_, self.weights_ = [], [], []
        self.deviation_ = np.sqrt(np.tensordot(shares, np.array(variances), axes=2))
        self.mean_, self.intercept_ = sums[0].mean, sums[0].mean.copy()
        for kernel, each, share, some in zip(kernels, sums, shares, coefficients, strict=True):
            if share.sum() >= _LEAST_WEIGHT:
                inner = np.tensordot(share, some, axes=1)
                self.intercept_ -= each.centre @ inner
                self.widths_.append(kernel.width)
                self.coefficients_.append(kernel.map @ inner)
                self.weights_.append(float(share.sum()))

    def _kernels(self, columns: int) -> Iterator[_Kernel]:
        """The linear kernel, and Gaussian ones."""
        distances = _distances(self.landmarks_, self.landmarks_)
        far = distances[distances > 0.0]
        if columns <= _FEW_COLUMNS:
            yield _Kernel(np.inf, np.eye(columns))
        else:
            yield _Kernel(np.inf, self.landmarks_.T @ _whitening(self.landmarks_ @ self.landmarks_.T))
        for width in self.widths if len(far) else ():
            size = _checks.positive(width, "widths") * float(np.median(far))
            yield _Kernel(size, _whitening(np.exp(-distances / (2.0 * size))))


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over rows that a linear model in the features of a kernel needs.

    Attributes:
        rows: Effective number of rows.
        mean: Mean target, shape (k,).
        squares: Sum of squared targets around it, shape (k,).
        centre: Mean of the features, shape (f,).
        gram: Sums of products of features around it, over their scale squared.
        moments: Sums of products of these and of targets, over their scale.
        scale: Root of the mean square of a row of a linear kernel; 1 in others, whose rows have one of at most 1.
    """

    rows: float
    mean: Float[np.ndarray, "k"]
    squares: Float[np.ndarray, "k"]
    centre: Float[np.ndarray, "f"]
    gram: Float[np.ndarray, "f f"]
    moments: Float[np.ndarray, "f k"]
    scale: float

    @classmethod
    def of(
        cls,
        features: Any,
        targets: Float[np.ndarray, "n k"],
        weights: Float[np.ndarray, "n"],
        kernels: Sequence[_Kernel],
        landmarks: Float[np.ndarray, "l d"],
    ) -> list[_Sums]:
        """The sums of each kernel."""
        rows, mean = float(weights.sum()), np.average(targets, axis=0, weights=weights)
        offsets = targets - mean
        weighed = weights[:, None] * offsets
        sizes = [kernel.map.shape[1] for kernel in kernels]
        firsts, grams = [np.zeros(size) for size in sizes], [np.zeros((size, size)) for size in sizes]
        moments = [np.zeros((size, len(mean))) for size in sizes]
        for part in blocks(len(targets), max(sizes)):
            some = features[part]
            distances, root = _distances(some, landmarks), np.sqrt(weights[part])
            for place, kernel in enumerate(kernels):
                found = kernel(some, distances)
                firsts[place] += weights[part] @ found
                moments[place] += found.T @ weighed[part]
                found *= root[:, None]
                grams[place] += found.T @ found
        squares = np.einsum("nk,nk->k", weighed, offsets)
        return [
            cls._of(rows, mean, squares, *each, linear=bool(np.isinf(kernel.width)))
            for kernel, *each in zip(kernels, firsts, grams, moments, strict=True)
        ]

    @classmethod
    def _of(
        cls,
        rows: float,
        mean: np.ndarray,
        squares: np.ndarray,
        first: np.ndarray,
        gram: np.ndarray,
        moments: np.ndarray,
        *,
        linear: bool,
    ) -> _Sums:
        centre = first / rows
        around = gram - rows * np.outer(centre, centre)
        scale = float(np.sqrt(max(np.trace(around), 0.0) / rows)) if linear else 1.0
        scale = scale or 1.0
        return cls(rows, mean, squares, centre, around / scale**2, moments / scale, scale)

    def posteriors(
        self, ratios: Float[np.ndarray, "r"]
    ) -> tuple[Float[np.ndarray, "r"], Float[np.ndarray, "r f k"], Float[np.ndarray, "r k"]]:
        """Log marginal likelihood under each ratio of variances, and means of what follows from the targets.

        These are coefficients, and the variance of predictions as a mean over rows. With eigenvalues l of the Gram
        matrix, projections q of the moments on its eigenvectors and a ratio t, the squares that noise has to explain
        are ``s = squares - sum t q^2 / (1 + t l)``, and the likelihood at the likeliest noise is ``-1/2 (n log s + sum
        log(1 + t l))``. Of k targets that sum to one, k - 1 count.
        """
        values, vectors = np.linalg.eigh(self.gram)
        values, projected = np.maximum(values, 0.0), vectors.T @ self.moments
        shrunk = ratios[:, None] / (1.0 + ratios[:, None] * values)
        left = np.maximum(self.squares - shrunk @ projected**2, 1e-12 * np.maximum(self.squares, 1e-300))
        count = len(self.mean)
        free = (count - 1) / count if count > 1 else 1.0
        sizes = self.rows * np.log(left).sum(axis=1) + count * np.log1p(ratios[:, None] * values).sum(axis=1)
        degrees = 1.0 + shrunk @ values
        variances = left / self.rows * degrees[:, None] / self.rows
        return -0.5 * free * sizes, vectors @ (shrunk[:, :, None] * projected) / self.scale, variances


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class KernelClassifier(SparseInput, ProbabilityClassifier):
    """Bayesian regression on unbiased vectors in a linear and in Gaussian kernels, averaged by marginal likelihood.

    An unbiased vector has the one-hot vector of the true class as its mean, so a regression on it targets the
    probabilities of classes. No row is held out: see ``EvidenceRidge``.

    Args:
        widths: Squared widths of Gaussian kernels over the median squared distance of two rows.

    Attributes:
        classes_: The declared classes.
        shares_: Their estimated shares in declared order, which are predicted where features say nothing.
        ridge_: The regression of vectors in declared order.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        MacKay 1992 and Williams and Seeger 2001, for the regression; Natarajan et al. 2013, for unbiased vectors.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.sklearn import KernelClassifier
        >>> features = np.linspace(-1.0, 1.0, 2000)[:, None]
        >>> labels = np.where(np.abs(features[:, 0]) < 0.5, "near", "far")
        >>> release = Curator(labels, Classes(["near", "far"])).randomize(epsilon=2.0)
        >>> KernelClassifier().fit(features, release).predict([[-0.9], [0.0], [0.9]]).tolist()
        ['far', 'near', 'far']

    Raises:
        InputError: Rows have candidates, so that no vector is unbiased.
    """

    _: KW_ONLY
    widths: Sequence[float] = WIDTHS

    def fit(self, X: Any, y: Release, sample_weight: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Fit on features of shape (n, d), dense or sparse, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            sample_weight: Weights of rows.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        units = Units.of(groups, release)
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64)
        check_released_rows(X, release)
        require_identified(release)
        self._codes = self._set_classes(release.space)
        self.shares_, vectors = class_shares(release), release.unbiased()
        signal = float((self.shares_ * (1.0 - self.shares_)).sum() / np.maximum(vectors.var(axis=0).sum(), 1e-300))
        ridge = EvidenceRidge(self.widths, float(np.clip(signal, 1e-6, 1.0)))
        self.ridge_ = ridge.fit(features, vectors, sample_weight, units)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        offsets = self.ridge_.predict(features) - self.ridge_.mean_
        found = np.empty_like(offsets)
        for place, (share, deviation) in enumerate(zip(self.shares_, self.ridge_.deviation_, strict=True)):
            found[:, place] = clipped_mean(share + offsets[:, place], deviation, 0.0, 1.0)
        found = np.maximum(found, _LEAST)[:, self._codes]
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def _landmarks(features: Any) -> Float[np.ndarray, "l d"]:
    """Some rows, by public chance."""
    rows = features.shape[0]
    chosen = np.sort(np.random.default_rng(0).permutation(rows)[:_LANDMARKS])  # of public rows
    return np.asarray(features[chosen].toarray() if issparse(features) else features[chosen])


def _distances(rows: Any, landmarks: Float[np.ndarray, "l d"]) -> Float[np.ndarray, "n l"]:
    """Squared distances of rows and landmarks."""
    own = rows.multiply(rows).sum(axis=1) if issparse(rows) else np.einsum("nd,nd->n", rows, rows)
    products = np.asarray(rows @ landmarks.T)
    found = np.asarray(own).reshape(-1, 1) + np.einsum("ld,ld->l", landmarks, landmarks) - 2.0 * products
    return np.asarray(np.maximum(found, 0.0))


def _nearness(rows: Any, distances: Float[np.ndarray, "n l"], width: float) -> Any:
    """The nearness of rows to landmarks in a Gaussian kernel; in a linear one the rows themselves."""
    return rows if np.isinf(width) else np.exp(-distances / (2.0 * width))


def _whitening(kernel: Float[np.ndarray, "l l"]) -> Float[np.ndarray, "l f"]:
    """The map from nearness to landmarks to features whose products are about those of the kernel."""
    values, vectors = np.linalg.eigh(kernel + 1e-8 * np.eye(len(kernel)))
    some = values > _LEAST_VARIANCE * values.max()
    return np.asarray(vectors[:, some] / np.sqrt(values[some]))
