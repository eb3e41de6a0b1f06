"""Classifier of images by features of patches: an average of heads that released labels weigh."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float, Int
from labeldp.learning.cells import ClusterTree
from labeldp.learning.heads import SoftmaxFit, SoftmaxProblem
from labeldp.learning.heads import softmax as probabilities_of
from labeldp.learning.images._kernel_features import KernelFeatures
from labeldp.learning.images._patch_features import PatchFeatures
from labeldp.learning.losses import TargetLoss, gain, require_release, row_loss
from labeldp.learning.sklearn import (
    POWER,
    ClusterLeaves,
    Held,
    ScoreClassifier,
    SoftmaxRegression,
    TreeClassifier,
    check_released_rows,
    group_folds,
)
from labeldp.privacy import columns_in_order
from labeldp.privacy.channels import pair_share
from labeldp.release import Release

#: Folds, of which one is held out to weigh heads.
_FOLDS = 5
#: Weights of heads below this are taken for none.
_LEAST = 0.02
#: Tolerance of fits, relative to the length of rows: a finer one takes ten times as many iterations and is no better.
_TOLERANCE = 2.5e-4
#: Leading components that clusters are found in.
_CLUSTERED = 50
#: Penalty of the head that learns from clusters, relative to the squared length of rows. It matters little, as its
#: targets have no noise of their own.
_PENALTY = 1e-5
#: Pulls towards the head of clusters when it goes on to learn from released labels, relative to the usual penalty; zero
#: is the usual centre of heads.
_PULLS = (math.inf, 30.0, 10.0, 3.0, 1.0, 0.3)
#: Prior variances of a logit and of an intercept.
_LOGIT_VARIANCE, _INTERCEPT_VARIANCE = 4.0, 2.0


@documented_in("labeldp.learning.images")
@dataclass(frozen=True, eq=False)
class ImageRows:
    """All that is learned from images alone: features of rows, and their clusters.

    Attributes:
        features: Features of rows, the leading ones first, and then those of the kernel, shape (n, d).
        leaves: The leaf of each row in each tree of clusters, shape (n, trees).
        trees: The trees.
        kernel: The kernel of the features as they were given; None if there are no others.

    Guarantee:
        A function of public features: no label is seen.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import ImageRows, PatchClassifier
        >>> own = np.repeat([[0.0, 1.0], [1.0, 0.0]], 500, axis=0)  # the features of your own public encoder
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> model = PatchClassifier().fit_head(ImageRows.of(own), release)
        >>> model.predict_features(own[[0, 999]]).tolist()
        ['no', 'yes']
    """

    features: Float[np.ndarray, "n d"]
    leaves: Int[np.ndarray, "n t"]
    trees: Sequence[ClusterTree]
    kernel: KernelFeatures | None = None

    @classmethod
    def of(cls, features: Float[np.ndarray, "n d"], *, kernel: KernelFeatures | None = None) -> ImageRows:
        """Features of rows, from ``PatchFeatures`` or any public encoder, with clusters of them.

        Args:
            features: Features of rows, shape (n, d).
            kernel: How linear models of the features are made curved, such as ``KernelFeatures()``; None: they stay
                linear, which suffices where an encoder was made for it.
        """
        curved = features if kernel is None else kernel.fit(features).transform(features)
        clusters = ClusterLeaves()
        leaves = clusters.fit_transform(curved[:, :_CLUSTERED])
        rows = features if kernel is None else np.hstack([features, curved])
        return cls(rows, leaves, clusters.trees_, kernel)

    @property
    def length(self) -> float:
        """Root of the mean squared length of rows."""
        return float(np.linalg.norm(self.features)) / math.sqrt(len(self.features))

    @property
    def tolerance(self) -> float:
        """Largest entry of the gradient at convergence, for labels without noise.

        It is no larger than the sampling error of the gradient, ``1 / sqrt(n d)`` in the root mean square for n
        rows of length one with d features: else fits to many features would stop where they begin.
        """
        return self.length * min(_TOLERANCE, 1.0 / math.sqrt(self.features.size))


@documented_in("labeldp.learning.images")
@dataclass(eq=False, repr=False)
class PatchClassifier(ScoreClassifier):
    """Classifier of images by ``PatchFeatures``: an average of heads that released labels weigh.

    Some heads are ``SoftmaxRegression`` of leading components. Another one, of ``KernelFeatures`` too, learns from all
    images the class distributions of public clusters of them (``TreeClassifier``), which labels of little information
    suffice for, and goes on from there to learn from the released labels, pulled back as much as is likeliest on
    held-out rows. Heads that are fitted to four fifths of the rows predict the rest, and a head weighs the more the
    likelier the released labels are there. So the best one decides where labels can tell, and elsewhere all do. The
    coefficients are the weighted mean of those of heads that are fitted to all rows.

    Args:
        components: Numbers of leading components, one for each head.
        filters: Number of filters.

    Attributes:
        classes_: The declared classes.
        features_: The features of patches, learned from all images.
        kernel_: The kernel of these features; None for an encoder of one's own without a kernel.
        coef_: Coefficients of components and of the features of the kernel, shape (k, d).
        intercept_: Intercepts, shape (k,).
        weights_: Weights of heads by number of components, and of the one of ``"clusters"``.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the weights.

    References:
        See ``PatchFeatures``, ``KernelFeatures``, ``SoftmaxRegression`` and ``TreeClassifier``; Yang 2004, Aggregating
        regression procedures to improve performance, for weights by held-out likelihood; Hinton, Vinyals and Dean 2015,
        for a model that learns from the probabilities of another one.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.images import PatchClassifier
        >>> across = np.tile([[0], [250]], (300, 6, 12)).astype(np.uint8)
        >>> images = np.concatenate([across, np.moveaxis(across, 1, 2)])
        >>> space = Classes(["across", "upright"])
        >>> release = Curator(["across"] * 300 + ["upright"] * 300, space).randomize(epsilon=2.0)
        >>> PatchClassifier((1, 2), filters=4).fit(images, release).predict(images[[0, 300]]).tolist()
        ['across', 'upright']

    Raises:
        InputError: See ``PatchFeatures``.
    """

    components: Sequence[int] = (64, 256)
    _: KW_ONLY
    filters: int = 256

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Learn features from images, and fit the head.

        Args:
            X: The images, in a form that ``PatchFeatures`` takes.
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,), which is then on one side of the split; by default each
                row is one.
        """
        check_released_rows(X, require_release(y))
        self.features_ = PatchFeatures(filters=self.filters).fit(X)
        rows = ImageRows.of(self.features_.transform(X), kernel=KernelFeatures())
        return self.fit_head(rows, y, groups)

    def fit_head(self, rows: ImageRows, y: Release, groups: Any = None) -> Self:
        """Fit the head alone to n rows, whose features then serve several releases.

        Args:
            rows: Rows with features by ``PatchFeatures`` or your public encoder; ``predict_features`` predicts then.
            y: A release of n rows.
            groups: As in ``fit``.
        """
        release = require_release(y)
        self.kernel_: Any = rows.kernel
        check_released_rows(rows.features, release)
        counts = sorted({min(each, rows.features.shape[1]) for each in self._counts()})
        fit, held = group_folds(len(release), _FOLDS, groups)[0]
        every, gains, settings = np.zeros(len(held), np.int64), [], []
        for count in counts:
            part = Held(rows.features[held, :count], release[held], every, 1)
            path = _head(rows).path(rows.features[fit, :count], release[fit], part)
            settings.append(replace(path.gains, fallback=None).best())
            gains.append(float(path.gains.sums[settings[-1], 0]))
        pulled = [
            float(gain(release[held], probabilities_of(head.scores(rows.features[held]))).sum())
            for head in _of_clusters(rows, release, fit, _PULLS)
        ]
        pull = _PULLS[int(np.argmax(pulled))]
        weights = softmax([POWER * each for each in (*gains, max(pulled))])
        weights = np.where(weights < _LEAST, 0.0, weights)
        weights /= weights.sum()
        self._average(rows, release, dict(zip(counts, settings, strict=True)), pull, weights)
        self.weights_ = dict(zip((*counts, "clusters"), weights.tolist(), strict=True))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        return probabilities_of(self._scores(X))

    def predict_features(self, features: Float[np.ndarray, "n d"]) -> np.ndarray:
        """The most likely true class of each row of features, as they were given to ``ImageRows.of``."""
        return np.asarray(self.classes_[self._feature_scores(features).argmax(axis=1)])

    def _average(
        self,
        rows: ImageRows,
        release: Release,
        settings: dict[int, int],
        pull: float,
        weights: Float[np.ndarray, "heads"],
    ) -> None:
        """Set coefficients to the weighted mean of those of heads that are fitted to all rows."""
        order = self._set_classes(release.space)
        self.coef_ = np.zeros((len(order), rows.features.shape[1]))
        self.intercept_ = np.zeros(len(order))
        for weight, (count, setting) in zip(weights, settings.items(), strict=False):
            if weight > 0.0:
                head = _head(rows).fit_setting(setting, rows.features[:, :count], release)
                self.coef_[:, :count] += weight * head.coef_
                self.intercept_ += weight * head.intercept_
        if weights[-1] > 0.0:
            *_, named = _of_clusters(rows, release, np.arange(len(release)), (pull,))
            self.coef_ += weights[-1] * named.coefficients.T[order]
            self.intercept_ += weights[-1] * named.intercepts[order]

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        return self._feature_scores(self.features_.transform(X))

    def _feature_scores(self, features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        rows = features if self.kernel_ is None else np.hstack([features, self.kernel_.transform(features)])
        return np.asarray(rows @ self.coef_.T + self.intercept_)

    def _counts(self) -> list[int]:
        return [_checks.whole(each, "components", 1) for each in self.components]


def _head(rows: ImageRows) -> SoftmaxRegression:
    return SoftmaxRegression(tol=rows.tolerance)


def _of_clusters(
    rows: ImageRows, release: Release, fit: Int[np.ndarray, "m"], pulls: Sequence[float]
) -> Iterator[SoftmaxFit]:
    """Linear heads of the class distributions that clusters of all rows have by the labels of some, in their order.

    Each goes on to learn from these labels, pulled towards where it began; an infinite pull leaves it there.
    """
    tree = TreeClassifier(rows.trees, power=POWER).fit(rows.leaves[fit], release[fit])
    targets = columns_in_order(tree.predict_proba(rows.leaves), tree.classes_, release.space.points)
    every, tolerance = np.ones(len(targets)), rows.tolerance
    problem = SoftmaxProblem(rows.features, TargetLoss(targets), every, release.space.size, _PENALTY * rows.length**2)
    centre = head = problem.fit(tolerance=tolerance)
    share = float(np.mean(pair_share(release.class_channel.membership)))
    features, loss = rows.features[fit], row_loss(release[fit], "likelihood")
    for pull in pulls:
        if math.isfinite(pull):
            l2 = pull * rows.length**2 / (_LOGIT_VARIANCE * len(fit))
            penalty = 1.0 / (_INTERCEPT_VARIANCE * len(fit))
            refined = SoftmaxProblem(features, loss, every[fit], release.space.size, l2, True, penalty, centre)
            head = refined.fit(head, tolerance * math.sqrt(share))
        yield head
