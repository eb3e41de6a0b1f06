"""Nearest neighbours on released labels: means of unbiased numbers or vectors, over enough rows to average noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp._smoothing import neighbour_count, participation
from labeldp._threads import blocks
from labeldp.learning.losses import (
    ends_of,
    label_variance,
    noise_variances,
    precisions,
    require_identified,
    require_numeric_labels,
    require_release,
    unbiased_numbers,
)
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._regressor import NumberRegressor
from labeldp.learning.sklearn._soft_labels import (
    ProbabilityClassifier,
    SparseInput,
    check_released_rows,
    checked_features,
)
from labeldp.privacy.channels import nearest_distributions, pair_share
from labeldp.release import Release

#: Ratio of successive numbers of neighbours to try, and the largest of them; half of the rows is a limit too.
_FACTOR, _MOST = math.sqrt(2.0), 8192
#: Rows for the comparison of numbers of neighbours: few, since the loss is flat around its minimum.
_COMPARED_ROWS = 2_500
#: Most columns and neighbours for which a tree is faster than computing all distances.
_TREE_COLUMNS, _TREE_NEIGHBOURS = 6, 256
#: Rows from which the effective dimension of features is estimated.
_DIMENSION_ROWS = 1_000
#: Largest noise variance of a mean with ``k="theory"``, as a share of the variance of labels.
_NOISE = 0.25
#: Smallest variance of features that counts, as a share of their squared norm.
_LEAST_SPREAD = 1e-9
#: Lower bound for the probability that the classes of two rows differ.
_LEAST_MIXED = 0.01


class _Neighbors(SparseInput):
    """Base of both learners: search, sums over neighbours, and choice of their number.

    Each row has targets and a weight; the prediction for a point is the weighted mean of its neighbours' targets.
    """

    index_: NearestNeighbors
    targets_: Float[np.ndarray, "n t"]
    weights_: Float[np.ndarray, "n"]
    k_: int

    def __init__(self, k: int | Literal["auto", "theory"] = "auto") -> None:
        self.k = k

    def setting(self) -> str:
        """The number of neighbours in words."""
        return f"{self.k_:,} neighbours, chosen on released labels"

    def _fit_index(
        self,
        features: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray,
        variance: float,
        least: float,
        units: Units,
    ) -> None:
        """Store rows, and choose the number of neighbours.

        Args:
            features: Shape (n, d).
            targets: Targets to average, shape (n, t).
            weights: One for each row.
            variance: Approximate variance of a target given the features, in units in which the regression function
                changes by 1.
            least: Approximate number of neighbours whose averaged noise has the variance of labels.
            units: The privacy units of the rows.
        """
        rows, columns = features.shape
        most = min(rows, _MOST) if self.k in ("auto", "theory") else _checks.whole(self.k, "k", 1, rows)
        few = columns <= _TREE_COLUMNS and most <= _TREE_NEIGHBOURS and not issparse(features)
        self.targets_, self.weights_ = targets, weights
        self.index_ = NearestNeighbors(algorithm="kd_tree" if few else "brute").fit(features)
        if self.k == "theory":
            count = neighbour_count(rows, effective_dimension(_dense(features)), variance)
            self.k_ = min(max(count, math.ceil(least / _NOISE)), rows)
        else:
            self.k_ = self._best_count(features, units) if self.k == "auto" and rows > 1 else most

    def _best_count(self, features: np.ndarray, units: Units) -> int:
        """The number of neighbours with the least error on released labels of units that are left out one by one.

        The row itself is its own nearest neighbour and is left out with the others of its unit, so ``f**2 - 2 f Z``
        summed over targets is unbiased for a row's squared error up to a constant that is the same for all numbers.
        Sums over more neighbours contain those over fewer, so one pass over neighbours is enough.
        """
        rows = features.shape[0]
        counts = _candidate_counts(max(1, rows // 2))
        sample = np.sort(np.random.default_rng(0).permutation(rows)[:_COMPARED_ROWS])
        losses = np.zeros(len(counts))
        largest = 1 if units.numbers is None else int(np.bincount(units.numbers).max())
        for part, near in self._nearest(features[sample], min(int(counts[-1]) + largest, rows)):
            held = sample[part]
            others = _drop_self(near, held)
            if units.numbers is not None:  # others of the unit are put last, and not reached
                own = units.numbers[others] == units.numbers[held][:, None]
                others = np.take_along_axis(others, np.argsort(own, axis=1, kind="stable"), axis=1)
            for place, means in enumerate(self._means_at(others, counts)):
                losses[place] += self.weights_[held] @ (means**2 - 2.0 * means * self.targets_[held]).sum(axis=1)
        return int(counts[int(np.argmin(losses))])

    def _means(self, features: np.ndarray) -> Float[np.ndarray, "m t"]:
        """The weighted mean of the targets of the neighbours of each point."""
        means = np.empty((features.shape[0], self.targets_.shape[1]))
        for part, near in self._nearest(features, self.k_):
            means[part] = next(self._means_at(near, np.array([self.k_])))
        return means

    def _means_at(self, near: Int[np.ndarray, "m k"], counts: Int[np.ndarray, "c"]) -> Iterator[np.ndarray]:
        """Weighted means over the nearest neighbours, for each number of them in turn."""
        sums, total, start = np.zeros((len(near), self.targets_.shape[1])), np.zeros(len(near)), 0
        for count in counts:
            ring = near[:, start:count]
            weights = self.weights_[ring]
            total += weights.sum(axis=1)
            sums += np.einsum("mk,mkt->mt", weights, self.targets_[ring])
            start = int(count)
            yield sums / total[:, None]

    def _nearest(self, features: np.ndarray, count: int) -> Iterator[tuple[slice, Int[np.ndarray, "m k"]]]:
        """The nearest rows of each point, nearest first, in blocks of points."""
        for part in blocks(features.shape[0], count * self.targets_.shape[1]):
            with threadpool_limits(1):
                yield part, self.index_.kneighbors(features[part], count, return_distance=False)


def _dense(features: Any) -> np.ndarray:
    """Features as a dense array."""
    return np.asarray(features.toarray() if issparse(features) else features)


@documented_in("labeldp.learning.sklearn")
class NeighborsRegressor(_Neighbors, NumberRegressor):
    """Nearest-neighbour regressor on released numbers.

    Labels are randomized one by one before they are averaged, so overlapping neighbourhoods cost nothing. Noise calls
    for far more neighbours than clean labels do: several thousand are common. For so many, approximate indexes miss too
    many of the nearest rows to be worth building, so each point is compared with every row, in time proportional to the
    product of both numbers. Boosted trees in ``ReleasedLabelRegressor`` predict much faster.

    Args:
        k: Number of neighbours. ``"auto"``: the number of a geometric grid with the least leave-one-out error.
            ``"theory"``: the number of the minimax rate, for features that fill a cube of their effective dimension and
            a label that changes by its whole range over its side, but at least so many that the averaged noise has a
            quarter of the variance of labels. That is quick, and too few if only some directions matter for the label.

    Attributes:
        k_: The number of neighbours used.
        index_: Index for the search: all distances in blocks, or a tree for few columns.
        range_: Ends of the declared range, to which predictions are clipped.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of the
        number of neighbours. This holds because labels were randomized one by one; means over neighbours of a curator's
        true labels would cost more, since each label is in many of them.

    References:
        Zhao et al. 2025, theorem 6 and its estimator.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval, RandomizedResponse
        >>> from labeldp.learning.sklearn import NeighborsRegressor
        >>> features, space = np.linspace(0.0, 1.0, 4000)[:, None], Interval(0, 1, 0.2)
        >>> curator = Curator((features[:, 0] > 0.5) * 0.6 + 0.2, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=4.0))
        >>> NeighborsRegressor(k=1000).fit(features, release).predict([[0.1], [0.9]]).round(1).tolist()
        [0.2, 0.8]
    """

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Store features of shape (n, d) and the released numbers of n rows, and choose the number of neighbours.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_numeric_labels(y)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_released_rows(X, release)
        numbers = unbiased_numbers(release)
        self.range_ = ends_of(release)
        noise, variance = float(np.mean(noise_variances(release))), label_variance(release, numbers)
        scaled = (variance + noise) / (self.range_[1] - self.range_[0]) ** 2
        units = Units.of(groups, release)
        self._fit_index(features, numbers[:, None], precisions(release, numbers), scaled, noise / variance, units)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return np.asarray(np.clip(self._means(features)[:, 0], *self.range_))


class NeighborsClassifier(_Neighbors, ProbabilityClassifier):
    """Nearest-neighbour classifier by the mean unbiased vector, as in backward loss correction.

    Args:
        k: Number of neighbours. ``"auto"``: the number of a geometric grid with the least leave-one-out squared error.
            ``"theory"``: the number of the minimax rate, for features that fill a cube of their effective dimension and
            class probabilities that change from 0 to 1 over its side, but at least so many that the averaged noise has
            a quarter of the variance of labels.

    Attributes:
        classes_: The declared classes.
        k_: The number of neighbours used.
        index_: Index for the search: all distances in blocks, or a tree for few columns.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of the
        number of neighbours. This holds because labels were randomized one by one; votes of a curator's true labels
        would cost more, since each label is in many neighbourhoods.

    References:
        Zhao et al. 2025, theorem 2, with neighbours for cells and any channel for its bits; Patrini et al. 2017, for
        backward correction.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, SubsetResponse
        >>> from labeldp.learning.sklearn import NeighborsClassifier
        >>> features, space = np.linspace(0.0, 1.0, 4000)[:, None], Classes(["no", "yes"])
        >>> curator = Curator(np.where(features[:, 0] > 0.5, "yes", "no"), space)
        >>> release = curator.randomize(SubsetResponse(space, epsilon=1.0))
        >>> NeighborsClassifier(k=500).fit(features, release).predict([[0.1], [0.9]]).tolist()
        ['no', 'yes']
    """

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Store features of shape (n, d) and the unbiased vectors of n rows, and choose the number of neighbours.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.
        """
        release = require_release(y)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        check_released_rows(X, release)
        require_identified(release)
        shares = np.broadcast_to(pair_share(release.class_channel.membership), len(release))
        codes = self._set_classes(release.space)
        variance = 1.0 / max(float(shares.mean()), np.finfo(float).tiny)
        vectors = release.unbiased()
        mixed = max(1.0 - float((nearest_distributions(vectors.mean(axis=0)[None]) ** 2).sum()), _LEAST_MIXED)
        noise = float((vectors**2).sum(axis=1).mean()) - 1.0
        weights, units = np.asarray(shares / shares.mean()), Units.of(groups, release)
        self._fit_index(features, vectors[:, codes], weights, variance, noise / mixed, units)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k): the distributions nearest to the mean vectors."""
        check_is_fitted(self)
        features = checked_features(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        means = self._means(features)
        return nearest_distributions(means + (1.0 - means.sum(axis=1, keepdims=True)) / means.shape[1])


def effective_dimension(features: Any) -> float:
    """Effective dimension of features: the participation ratio of the spectrum of their covariance.

    Columns are not scaled, as in distances; a thousand rows suffice.
    """
    few = features[np.linspace(0, features.shape[0] - 1, min(features.shape[0], _DIMENSION_ROWS)).astype(np.int64)]
    few = few.astype(np.float64) / max(float(abs(few).max()), np.finfo(float).tiny)
    products = few @ few.T
    products = products.toarray() if issparse(products) else products
    centred = products - products.mean(axis=0) - products.mean(axis=1)[:, None] + products.mean()
    return participation(centred) if np.trace(centred) > _LEAST_SPREAD * max(1.0, np.trace(products)) else 1.0


def _candidate_counts(most: int) -> Int[np.ndarray, "c"]:
    """Numbers of neighbours to try, from 1 to the most."""
    most = min(most, _MOST)
    steps = int(math.log(most) / math.log(_FACTOR)) if most > 1 else 0
    return np.asarray(np.unique(np.round(_FACTOR ** np.arange(steps + 1)).astype(np.int64).clip(1, most)))


def _drop_self(near: Int[np.ndarray, "m k"], rows: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m rest"]:
    """Neighbours without the row itself, or without the last one if identical rows displaced it."""
    same = near == rows[:, None]
    same[~same.any(axis=1), -1] = True
    return np.asarray(near[~same].reshape(len(near), -1))
