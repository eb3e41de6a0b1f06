"""Bayesian linear and kernel regression, averaged by marginal likelihood: nothing is chosen on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp._threads import blocks, one_thread_for_algebra
from labeldp.learning.features import row_weights
from labeldp.learning.heads import Grid, Kernels, KernelSums, nearness, squared_distances
from labeldp.learning.losses import class_shares, clipped_mean, require_identified, require_release
from labeldp.learning.metrics import ROWS, Units
from labeldp.learning.sklearn._soft_labels import (
    ProbabilityClassifier,
    SparseInput,
    check_released_rows,
    checked_features,
)
from labeldp.privacy import LabelSpace
from labeldp.privacy.channels import nearest_distributions
from labeldp.release import Release

#: Squared widths of Gaussian kernels over the median squared distance of two landmarks.
WIDTHS = (0.1, 0.3, 1.0, 3.0)
#: Shares of the variance of what targets estimate that features explain, with even prior probabilities.
_EXPLAINED = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.99])
#: Rows that are fitted at most, and effective ones in Gaussian kernels; of more, evenly spaced ones, since more change
#: nothing that can be seen.
_MOST_ROWS, _MOST_EFFECTIVE = 200_000, 10_000
#: Models of less weight are left out.
_LEAST_WEIGHT = 1e-3
#: Least probability of a class: sums of unbiased vectors may be negative.
_LEAST = 1e-4


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
        weights = row_weights(sample_weight, len(targets))
        offsets = weights[:, None] * (targets.reshape(len(targets), -1) - np.average(targets, axis=0, weights=weights))
        weights = weights / Units.of(groups, len(targets)).design_effect(offsets)
        most = min(_MOST_ROWS, _MOST_EFFECTIVE / self.signal) if self.widths else _MOST_ROWS
        step = math.ceil(len(targets) / most)
        with one_thread_for_algebra():  # so that sums are added in one order
            some, numbers, weights = features[::step], targets.reshape(len(targets), -1)[::step], step * weights[::step]
            grid = Grid(Kernels.of(some, self.widths), np.average(numbers, axis=0, weights=weights))
            self.fit_sums(KernelSums.of(grid).add(some, numbers, weights))
        self.columns_ = targets.shape[1:]
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n ..."]:  # noqa: N803
        """The expected target of each row, shape (n,) or (n, k)."""
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        found = np.tile(self.intercept_, (features.shape[0], 1))
        with one_thread_for_algebra():
            for part in blocks(len(found), len(self.landmarks_)):
                rows = features[part]
                distances = squared_distances(rows, self.landmarks_)
                for width, coefficients in zip(self.widths_, self.coefficients_, strict=True):
                    found[part] += nearness(rows, distances, width) @ coefficients
        return found.reshape(len(found), *self.columns_)

    def fit_sums(self, sums: KernelSums, share: float = 1.0) -> Self:
        """Fit on sums over rows, each of which counts as a share of one."""
        each = sums.evidence(share)
        kernels, explained = sums.grid.kernels, _EXPLAINED * self.signal
        ratios = explained / (1.0 - explained)
        evidence, coefficients, variances = zip(*(one.posteriors(ratios) for one in each), strict=True)
        shares = softmax(np.array(evidence))
        self.landmarks_, self.n_features_in_ = kernels.landmarks, kernels.landmarks.shape[1]
        self.widths_, self.coefficients_, self.weights_ = [], [], []
        self.deviation_ = np.sqrt(np.tensordot(shares, np.array(variances), axes=2))
        self.mean_, self.intercept_ = each[0].mean, each[0].mean.copy()
        self.columns_ = self.mean_.shape if len(self.mean_) > 1 else ()
        for kernel, one, weights, some in zip(kernels.each, each, shares, coefficients, strict=True):
            if weights.sum() >= _LEAST_WEIGHT:
                inner = np.tensordot(weights, some, axes=1)
                self.intercept_ -= one.centre @ inner
                self.widths_.append(kernel.width)
                self.coefficients_.append(kernel.of_columns(inner))
                self.weights_.append(float(weights.sum()))
        return self


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
        vectors = release.unbiased()
        ridge = EvidenceRidge(self.widths, self._set_shares(release.space, class_shares(release), vectors.var(axis=0)))
        self.ridge_ = ridge.fit(features, vectors, sample_weight, units)
        return self

    def fit_sums(self, sums: KernelSums, space: LabelSpace, share: float = 1.0) -> Self:
        """Fit on sums over rows whose targets are unbiased vectors, each of which counts as a share of a row."""
        every = sums.evidence()[0]
        signal = self._set_shares(space, nearest_distributions(every.mean[None])[0], every.squares / every.rows)
        self.ridge_ = EvidenceRidge(self.widths, signal).fit_sums(sums, share)
        self.n_features_in_ = self.ridge_.n_features_in_
        return self

    def _set_shares(self, space: LabelSpace, shares: np.ndarray, variances: np.ndarray) -> float:
        """Set classes and their shares; the share of the variance of vectors that is not noise."""
        self._codes, self.shares_ = self._set_classes(space), np.asarray(shares)
        signal = (shares * (1.0 - shares)).sum() / max(float(variances.sum()), 1e-300)
        return float(np.clip(signal, 1e-6, 1.0))

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
