"""Nearest neighbours on released labels: means of unbiased numbers or vectors, over as many rows as noise asks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import issparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._smoothing import neighbour_count, participation
from labeldp.errors import InputError
from labeldp.learning.losses import (
    ends_of,
    label_variance,
    noise_of,
    real_labels,
    released,
    require_identified,
    unbiased_numbers,
)
from labeldp.learning.sklearn._regressor import NumberRegressor, precisions
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.privacy.channels import nearest_distributions, pair_share
from labeldp.release import Release

#: Numbers of neighbours that are tried: each this many times the one before, up to half of the rows, or so many.
_FACTOR, _MOST = math.sqrt(2.0), 8192
#: Rows that numbers of neighbours are compared on: few, since the best one is flat beside its noise.
_JUDGED = 2_500
#: Columns up to which a tree is faster than all distances, for few neighbours.
_TREE_COLUMNS, _TREE_NEIGHBOURS = 6, 256
_ENTRIES_PER_BLOCK = 1 << 22
#: Rows that the effective dimension of features is found from.
_SEEN = 1_000
#: How much noise theory leaves in a mean at most, as a share of the variance of labels.
_NOISE = 0.25
#: Of what rows are away from zero, a smaller share counts as no spread.
_NO_SPREAD = 1e-9
#: Of classes, the chance that two labels differ is taken to be no less.
_LEAST_MIXED = 0.01


class _Neighbors:
    """What both learners share: the search, sums over neighbours, and how many of them are best.

    Each row has targets and a weight; what is said of a point is the weighted mean of the targets of its neighbours.
    """

    k: int | Literal["auto", "theory"]
    index_: NearestNeighbors
    targets_: Float[np.ndarray, "n t"]
    weights_: Float[np.ndarray, "n"]
    k_: int

    def _fit_index(
        self, features: np.ndarray, targets: np.ndarray, weights: np.ndarray, variance: float, least: float
    ) -> None:
        """Keep rows, and choose the number of neighbours.

        Args:
            features: Shape (n, d).
            targets: What is averaged, shape (n, t).
            weights: One for each row.
            variance: About that of a target given the features, in units in which what is learned changes by 1.
            least: The fewest neighbours over which noise averages to no more than what labels vary by, about.
        """
        rows, columns = features.shape
        most = min(rows, _MOST) if self.k in ("auto", "theory") else _checks.whole(self.k, "k", 1, rows)
        few = columns <= _TREE_COLUMNS and most <= _TREE_NEIGHBOURS and not issparse(features)
        self.targets_, self.weights_ = targets, weights
        self.index_ = NearestNeighbors(algorithm="kd_tree" if few else "brute").fit(features)
        if self.k == "theory":
            found = neighbour_count(rows, effective_dimension(_dense(features)), variance)
            self.k_ = min(max(found, math.ceil(least / _NOISE)), rows)
        else:
            self.k_ = self._best_count(features) if self.k == "auto" and rows > 1 else most

    def _best_count(self, features: np.ndarray) -> int:
        """The number of neighbours for which rows are predicted best from others, by what released labels say.

        The row itself is its own nearest neighbour and is left out, so a row's error is unbiased but for what is the
        same for all numbers: ``f**2 - 2 f Z`` summed over targets. Sums over more neighbours contain those over fewer,
        so one pass over neighbours gives all.
        """
        rows = features.shape[0]
        counts = _counts(max(1, rows // 2))
        judged = np.sort(np.random.default_rng(0).permutation(rows)[:_JUDGED])
        losses = np.zeros(len(counts))
        for part, near in self._nearest(features[judged], int(counts[-1]) + 1):
            original = judged[part]
            others = _without(near, original)
            for place, means in enumerate(self._means_at(others, counts)):
                losses[place] += self.weights_[original] @ (means**2 - 2.0 * means * self.targets_[original]).sum(
                    axis=1
                )
        return int(counts[int(np.argmin(losses))])

    def _means(self, features: np.ndarray) -> Float[np.ndarray, "m t"]:
        """The weighted mean of the targets of the neighbours of each point."""
        found = np.empty((features.shape[0], self.targets_.shape[1]))
        for part, near in self._nearest(features, self.k_):
            found[part] = next(self._means_at(near, np.array([self.k_])))
        return found

    def _means_at(self, near: Int[np.ndarray, "m k"], counts: Int[np.ndarray, "c"]) -> Iterator[np.ndarray]:
        """Means over the nearest few neighbours, for each count in turn."""
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
        step = max(1, _ENTRIES_PER_BLOCK // (count * max(1, self.targets_.shape[1])))
        for low in range(0, features.shape[0], step):
            part = slice(low, low + step)
            with threadpool_limits(1):
                yield part, self.index_.kneighbors(features[part], count, return_distance=False)


def _dense(features: Any) -> np.ndarray:
    """Features as an array."""
    return np.asarray(features.toarray() if issparse(features) else features)


@documented_in("labeldp.learning.sklearn")
class NeighborsRegressor(_Neighbors, NumberRegressor):
    """The mean of the released numbers of the nearest rows.

    Each label was randomized alone before anything is averaged, so overlapping neighbourhoods cost nothing. Noise asks
    for far more neighbours than clean labels do: several thousand are common. For so many, indexes that find nearly the
    nearest rows miss too many of them to be worth their build, so each point is compared with every row, in time that
    grows with the product of both. Boosted trees in ``ReleasedLabelRegressor`` cost little for each point to predict.

    Args:
        k: The number of neighbours. ``"auto"``: of a geometric grid the one that predicts released labels of rows left
            out best. ``"theory"``: that of the minimax rate, for features that fill a cube of their effective dimension
            and a label that changes by its whole range over its side, but at least so many that noise averages to a
            quarter of what labels vary by. That is quick, and too few where only some of the directions tell the label.

    Attributes:
        k_: The number of neighbours that was used.
        index_: The index that neighbours are searched in: all distances in blocks, or a tree for few columns.
        range_: The ends of the declared range, which predictions are cut to.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost; so is choosing the
        number of neighbours. This is so because labels were randomized one by one: means over neighbours of labels that
        a curator holds would be another matter, since each label is in many of them.

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

    def __init__(self, k: int | Literal["auto", "theory"] = "auto") -> None:
        self.k = k

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Keep features of shape (n, d) and the released numbers of n rows, and choose how many to average."""
        release = real_labels(y)
        features = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        _check_rows(features.shape[0], release)
        numbers = unbiased_numbers(release)
        self.range_ = ends_of(release)
        spread = (self.range_[1] - self.range_[0]) ** 2
        noise, vary = float(np.mean(noise_of(release))), label_variance(release, numbers)
        self._fit_index(features, numbers[:, None], precisions(release, numbers), (vary + noise) / spread, noise / vary)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The mean of the true label of each row, between the ends of the declared range."""
        check_is_fitted(self)
        features = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        return np.asarray(np.clip(self._means(features)[:, 0], *self.range_))

    def __sklearn_tags__(self) -> Any:
        """It takes sparse features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class NeighborsClassifier(_Neighbors, ProbabilityClassifier):
    """The mean of the unbiased vectors of the nearest rows, and the class that is largest in it.

    Args:
        k: The number of neighbours. ``"auto"``: of a geometric grid the one that predicts released labels of rows left
            out best, by squared error. ``"theory"``: that of the minimax rate, for features that fill a cube of their
            effective dimension and class probabilities that change from 0 to 1 over its side, but at least so many that
            noise averages to a quarter of what labels vary by.

    Attributes:
        classes_: The declared classes.
        k_: The number of neighbours that was used.
        index_: The index that neighbours are searched in: all distances in blocks, or a tree for few columns.

    Guarantee:
        Whatever is learned from a release is covered by the release's guarantee, at no further cost; so is choosing the
        number of neighbours. This is so because labels were randomized one by one: votes of neighbours that a curator
        holds would be another matter, since each label is in many of them.

    References:
        Zhao et al. 2025, theorem 2, with neighbours for cells and any channel for its bits.

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

    def __init__(self, k: int | Literal["auto", "theory"] = "auto") -> None:
        self.k = k

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Keep features of shape (n, d) and the unbiased vectors of n rows, and choose how many to average."""
        release = released(y)
        features = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        _check_rows(features.shape[0], release)
        require_identified(release)
        shares = np.broadcast_to(pair_share(release.class_channel.membership), len(release))
        self.classes_ = np.array(release.space.points)
        variance = 1.0 / max(float(shares.mean()), np.finfo(float).tiny)
        vectors = release.unbiased()
        vary = max(1.0 - float((nearest_distributions(vectors.mean(axis=0)[None]) ** 2).sum()), _LEAST_MIXED)
        noise = float((vectors**2).sum(axis=1).mean()) - 1.0
        self._fit_index(features, vectors, np.asarray(shares / shares.mean()), variance, noise / vary)
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k): the distributions nearest to the means of vectors."""
        check_is_fitted(self)
        features = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False)
        means = self._means(features)
        return nearest_distributions(means + (1.0 - means.sum(axis=1, keepdims=True)) / means.shape[1])

    def __sklearn_tags__(self) -> Any:
        """It takes sparse features."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def effective_dimension(features: Any) -> float:
    """In how many directions features spread: the participation ratio of the spectrum of their covariance.

    Columns are taken as they are, since distances are; a thousand rows tell it.
    """
    few = features[np.linspace(0, features.shape[0] - 1, min(features.shape[0], _SEEN)).astype(np.int64)]
    few = few.astype(np.float64) / max(float(abs(few).max()), np.finfo(float).tiny)
    products = few @ few.T
    products = products.toarray() if issparse(products) else products
    centred = products - products.mean(axis=0) - products.mean(axis=1)[:, None] + products.mean()
    return participation(centred) if np.trace(centred) > _NO_SPREAD * max(1.0, np.trace(products)) else 1.0


def _check_rows(rows: int, release: Release) -> None:
    """Refuse features and a release of different length."""
    if rows != len(release):
        raise InputError(f"expected a released label for each of {rows} rows of features, found {len(release)}")


def _counts(most: int) -> Int[np.ndarray, "c"]:
    """Numbers of neighbours to try, from 1 to the most."""
    most = min(most, _MOST)
    steps = int(math.log(most) / math.log(_FACTOR)) if most > 1 else 0
    return np.asarray(np.unique(np.round(_FACTOR ** np.arange(steps + 1)).astype(np.int64).clip(1, most)))


def _without(near: Int[np.ndarray, "m k"], original: Int[np.ndarray, "m"]) -> Int[np.ndarray, "m rest"]:
    """Neighbours without the row itself; where many rows are alike and it is not among them, without the last."""
    same = near == original[:, None]
    same[~same.any(axis=1), -1] = True
    return np.asarray(near[~same].reshape(len(near), -1))
