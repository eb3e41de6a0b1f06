"""Self-training: fit again on predicted labels, by default only where the released label agrees."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._shapes import Float
from labeldp.learning.features import indexable_rows, take_rows
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn import ProbabilityClassifier, check_released_rows, for_released_labels
from labeldp.learning.stages._priors import declared_probabilities
from labeldp.privacy import columns_in_order
from labeldp.privacy.channels import ResponseChannel
from labeldp.release import Release

Keep = Literal["agreeing", "all"]


class ConsensusRetraining(MetaEstimatorMixin, ProbabilityClassifier):
    """Retraining of a learner on its own predictions for the rows where the released label agrees.

    If the released label (or set) of a row contains the predicted class, the prediction is probably right and is used
    as a label without noise; the other rows are left out.

    Args:
        learner: A learner for released labels, by default ``SoftmaxRegression``; a scikit-learn classifier is put in a
            ``ReleasedLabelClassifier``.
        rounds: Number of rounds of prediction and retraining.
        keep: ``"agreeing"``: rows whose released label agrees with the prediction (consensus-based retraining);
            ``"all"``: all rows (full retraining).

    Attributes:
        learner_: The learner of the last round.
        kept_: Number of rows that each round was fitted on; the fit ends early if no row agrees.
        classes_: The declared classes.

    Guarantee:
        The model is computed from the release and features alone, and covered by the release's guarantee at no further
        cost. Predicted classes are passed to the learner as public labels: they are functions of the release, not true
        labels of these rows.

    References:
        Das et al. 2024, Retraining with Predicted Hard Labels Provably Increases Model Accuracy, for both ways.

    Example:
        >>> import numpy as np
        >>> from labeldp import Classes, Curator, RandomizedResponse
        >>> from labeldp.learning.stages import ConsensusRetraining
        >>> features = np.repeat([[0.0], [1.0]], 500, axis=0)
        >>> space = Classes(["no", "yes"])
        >>> release = Curator(["no"] * 500 + ["yes"] * 500, space).randomize(RandomizedResponse(space, epsilon=2.0))
        >>> model = ConsensusRetraining().fit(features, release)
        >>> model.predict([[0.0], [1.0]]).tolist(), model.kept_[0] < 1000
        (['no', 'yes'], True)
    """

    def __init__(self, learner: Any = None, *, rounds: int = 1, keep: Keep = "agreeing") -> None:
        self.learner = learner
        self.rounds = rounds
        self.keep = keep

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of n rows, in any form that the learner accepts, and a release of n rows."""
        release, features = require_release(y), indexable_rows(X)
        rounds = _checks.whole(self.rounds, "rounds", 0, 1000)
        _checks.among(self.keep, "keep", get_args(Keep))
        check_released_rows(features, release)
        learner = for_released_labels(self.learner)
        self._set_classes(release.space)
        self.space_ = release.space
        self.learner_, self.kept_ = _fitted_copy(learner, features, release), []
        mask = release.class_channel.levels(release.codes).mask
        for _ in range(rounds):
            codes = np.argmax(declared_probabilities(self.learner_, features, release.space), axis=1)
            agree = mask[np.arange(len(codes)), codes] if self.keep == "agreeing" else np.ones(len(codes), np.bool_)
            if not agree.any():
                break
            rows = np.flatnonzero(agree)
            self.learner_ = _fitted_copy(learner, take_rows(features, rows), _as_labels(codes[rows], release))
            self.kept_.append(len(rows))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        declared = declared_probabilities(self.learner_, indexable_rows(X), self.space_)
        return columns_in_order(declared, self.space_.points, self.classes_)


def _as_labels(codes: np.ndarray, release: Release) -> Release:
    """A release of predicted classes as labels without noise."""
    return Release(codes.astype(np.int32), ResponseChannel.nearly_certain(release.space.size), release.space, None)


def _fitted_copy(learner: Any, features: Any, labels: Any) -> Any:
    """A fitted copy of a learner, whose ``fit`` may return nothing."""
    model = clone(learner, safe=False)
    model.fit(features, labels)
    return model
