"""Calibration of class probabilities by released labels, at no privacy cost; class shares stay in doubt."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.learning.choice import Fitted, fit_in_units, folds_of, predict_others
from labeldp.learning.features import indexable_rows, take_rows
from labeldp.learning.losses import require_release
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn._adapter import for_released_labels
from labeldp.learning.sklearn._mixture import held_out_classes
from labeldp.learning.sklearn._soft_labels import MetaEstimator, ProbabilityClassifier, check_released_rows
from labeldp.privacy import columns_in_order, predicted_columns
from labeldp.release import Release


class UnguardedFitWarning(UserWarning):
    """A network has more weights than its released labels have effective rows, and none were held out."""


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class CalibratedClassifier(MetaEstimator, ProbabilityClassifier):
    """A classifier with probabilities calibrated by released labels, or class shares in doubt.

    Many learners rank rows well but are over- or under-confident, above all with few effective rows: boosting, forests,
    networks, expectation maximisation that stops early. Copies of the learner predict rows that they were not fitted
    on. A slope for the log probabilities and a shift for each class then maximise the likelihood of the *released*
    labels of these rows under the channel, times a prior; no true label is needed. Where these labels do not clearly
    show that the predictions help, every row gets the class shares instead.

    Args:
        estimator: A learner of released labels; or any scikit-learn classifier, which ``ReleasedLabelClassifier`` fits;
            or a pipeline that ends in one; by default ``SoftmaxRegression``.
        folds: Folds for the predictions of rows that a copy was not fitted on.

    Attributes:
        classes_: The declared classes.
        estimator_: The learner, fitted on all rows.
        slope_: Factor of its log probabilities: above 1 where it was under-confident, below 1 where it was
            over-confident, and 0 where class shares are predicted.
        shifts_: What is added to the log probabilities of ``classes_``, shape (k,).

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost.

    References:
        Platt 1999; Guo et al. 2017; Alexandari, Kundaje and Shrikumar 2020 (shifts); Patrini et al. 2017, for the
        likelihood under the channel.

    Example:
        >>> import numpy as np
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.sklearn import CalibratedClassifier
        >>> features, space = np.repeat([[0.0], [1.0]], 500, axis=0), Classes(["no", "yes"])
        >>> curator = Curator(["no"] * 500 + ["yes"] * 500, space)
        >>> release = curator.randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = CalibratedClassifier(RandomForestClassifier(n_estimators=10, random_state=0))
        >>> bool(model.fit(features, release).predict_proba([[0.0], [1.0]])[:, 1].max() > 0.8)
        True
        >>> noise = np.random.default_rng(0).normal(size=(1000, 5))  # features that say nothing
        >>> model.fit(noise, release).slope_
        0.0
    """

    estimator: Any = None
    _: KW_ONLY
    folds: int = 5

    def fit(self, X: Any, y: Release, groups: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of n rows, in any form that the learner takes, and a release of n rows.

        Args:
            X: Features.
            y: A release.
            groups: The privacy unit of each row, shape (n,); ``"rows"`` if each row is its own.

        Raises:
            InputError: There are fewer rows or units than folds.
        """
        release, learner = require_release(y), self._inner()
        features = indexable_rows(X)
        check_released_rows(features, release)
        units = Units.of(groups, release)

        def others(fit: np.ndarray, held: np.ndarray) -> Float[np.ndarray, "m k"]:
            copy, rows = clone(learner, safe=False), take_rows(features, fit)
            fitted = fit_in_units(copy, rows, release[fit], units.take(fit))
            return predicted_columns(fitted, take_rows(features, held), release.space)

        with warnings.catch_warnings():  # held-out rows are the guard
            warnings.simplefilter("ignore", UnguardedFitWarning)
            parts = folds_of(units, _checks.whole(self.folds, "folds", 2))
            predicted = predict_others(parts, len(release), others)
            self.estimator_ = fit_in_units(clone(learner, safe=False), features, release, units)
        rows, model = np.arange(len(release)), Fitted(self.estimator_, predicted, varies=True)
        self._calibrator = held_out_classes(release, [model], rows, parts, units, doubt=True).best()
        codes, self.space_ = self._set_classes(release.space), release.space
        self.slope_, self.shifts_ = self._calibrator.slope, np.asarray(self._calibrator.shifts)[codes]
        self._count_features()
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        declared = self._calibrator(predicted_columns(self.estimator_, indexable_rows(X), self.space_)[None])
        return columns_in_order(declared, self.space_.points, self.classes_)

    def _inner(self) -> Any:
        return for_released_labels(self.estimator)
