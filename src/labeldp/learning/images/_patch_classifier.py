"""Linear classifier of features of patches, averaged over numbers of components and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.learning.images._patch_features import PatchFeatures
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn import Held, ScoreClassifier, SoftmaxRegression, check_released_rows, group_folds
from labeldp.learning.sklearn import softmax as probabilities_of
from labeldp.release import Release

#: Folds, of which one is held out to weigh heads.
_FOLDS = 5
#: Weights of heads below this are taken for none.
_LEAST = 0.02
#: Features have one length, and a tenth of the iterations of a finer tolerance finds heads that are as accurate.
_TOLERANCE = 1e-3


@documented_in("labeldp.learning.images")
@dataclass(eq=False, repr=False)
class PatchClassifier(ScoreClassifier):
    """Linear classifier of ``PatchFeatures``, an average over numbers of components that released labels weigh.

    A head is a ``SoftmaxRegression`` of some leading components under some penalty. Heads that are fitted to four
    fifths of the rows predict the rest, and each weighs in proportion to the likelihood of the released labels there.
    Where labels tell heads apart, the best one decides, and where they do not, all do. The coefficients are the
    weighted mean of those of heads that are fitted to all rows.

    Args:
        components: Numbers of leading components to average over.
        filters: Number of filters.

    Attributes:
        classes_: The declared classes.
        features_: The features, learned from all images.
        coef_: Coefficients of leading components, shape (k, d).
        intercept_: Intercepts, shape (k,).
        weights_: Weights of the numbers of components.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the weights.

    References:
        See ``PatchFeatures`` and ``SoftmaxRegression``; Yang 2000, Combining different procedures for adaptive
        regression, for weights by held-out likelihood, whose mixture is at most the logarithm of the number of heads
        behind the best of them in sum.

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

    components: Sequence[int] = (64, 256, 512)
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
        self.features_ = PatchFeatures(max(self._counts()), filters=self.filters).fit(X)
        return self.fit_head(self.features_.transform(X), y, groups)

    def fit_head(self, features: Float[np.ndarray, "n d"], y: Release, groups: Any = None) -> Self:
        """Fit the head alone, to features of n rows by ``features_``: those of one table serve several releases."""
        release = require_release(y)
        check_released_rows(features, release)
        counts = sorted({min(each, features.shape[1]) for each in self._counts()})
        weights = self._weights(counts, features, release, groups)
        self._set_classes(release.space)
        self.coef_ = np.zeros((len(self.classes_), counts[np.flatnonzero(weights.any(axis=1))[-1]]))
        self.intercept_ = np.zeros(len(self.classes_))
        for place, setting in np.argwhere(weights):
            head = _head().fit_setting(int(setting), features[:, : counts[place]], release)
            self.coef_[:, : counts[place]] += weights[place, setting] * head.coef_
            self.intercept_ += weights[place, setting] * head.intercept_
        self.weights_ = dict(zip(counts, weights.sum(axis=1).tolist(), strict=True))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803 (scikit-learn's name)
        """Probabilities of the true classes, shape (n, k), in the order of ``classes_``."""
        return probabilities_of(self._scores(X))

    def predict_features(self, features: Float[np.ndarray, "n d"]) -> np.ndarray:
        """The most likely true class of each row of features by ``features_``."""
        return np.asarray(self.classes_[self._feature_scores(features).argmax(axis=1)])

    def _scores(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        check_is_fitted(self)
        return self._feature_scores(self.features_.transform(X))

    def _feature_scores(self, features: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        return np.asarray(features[:, : self.coef_.shape[1]] @ self.coef_.T + self.intercept_)

    def _counts(self) -> list[int]:
        return [_checks.whole(each, "components", 1) for each in self.components]

    def _weights(
        self, counts: Sequence[int], features: Float[np.ndarray, "n d"], release: Release, groups: Any
    ) -> Float[np.ndarray, "counts settings"]:
        """Weights of heads by number of components and penalty, from the likelihood of a held-out fifth."""
        fit, held = group_folds(len(release), _FOLDS, groups)[0]
        every, gains = np.zeros(len(held), np.int64), []
        for count in counts:
            part = Held(features[held, :count], release[held], every, 1)
            gains.append(_head().path(features[fit, :count], release[fit], part).gains.sums[:, 0])
        weights = np.asarray(softmax(gains))
        weights = np.where(weights < _LEAST, 0.0, weights)
        return np.asarray(weights / weights.sum())


def _head() -> SoftmaxRegression:
    return SoftmaxRegression(tol=_TOLERANCE)
