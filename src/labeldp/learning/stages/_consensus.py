"""Fitting again on what was predicted: on predictions alone, where the released label agrees."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from jaxtyping import Float
from sklearn.base import MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp.errors import InputError
from labeldp.learning.features import indexable_rows, row_count, take_rows
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn import ProbabilityClassifier, fitted_copy, for_released_labels
from labeldp.learning.stages._priors import declared_probabilities
from labeldp.privacy.channels import ResponseChannel
from labeldp.release import Release

Keep = Literal["agreeing", "all"]


class ConsensusRetraining(MetaEstimatorMixin, ProbabilityClassifier):
    """A learner that is fitted, predicts, and is fitted again on what it predicted where released labels agree.

    A row whose released label (or set) holds the predicted class is probably right, and its prediction is then taken
    for its label, without noise; the other rows are left out.

    Args:
        learner: A learner for released labels, by default ``SoftmaxRegression``; a scikit-learn classifier is put in a
            ``ReleasedLabelClassifier``.
        rounds: How often it predicts and is fitted again.
        keep: ``"agreeing"``: rows whose released label agrees with the prediction (consensus-based retraining);
            ``"all"``: all rows (full retraining).

    Attributes:
        learner_: The learner that was fitted last.
        kept_: The number of rows that each round was fitted on; a round without any ends the fit.
        classes_: The declared classes.

    Guarantee:
        What it learns is computed from the release and features alone, and covered by the release's guarantee at no
        further cost. Predicted classes are handed to the learner as labels that are public: they are no labels of these
        rows, but functions of what is released.

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
        """Fit on features of n rows, in any form that the learner takes, and a release of n rows."""
        release, features = require_release(y), indexable_rows(X)
        rounds = _checks.whole(self.rounds, "rounds", 0, 1000)
        if self.keep not in get_args(Keep):
            raise InputError(f"expected keep among {', '.join(get_args(Keep))}, found {self.keep!r}")
        if row_count(features) != len(release):
            raise InputError(
                f"expected a released label for each of {row_count(features)} rows of features, found {len(release)}"
            )
        learner = for_released_labels(self.learner)
        self.classes_, self.space_ = np.array(release.space.points), release.space
        self.learner_, self.kept_ = fitted_copy(learner, features, release), []
        mask = release.class_channel.levels(release.codes).mask
        for _ in range(rounds):
            codes = np.argmax(declared_probabilities(self.learner_, features, release.space), axis=1)
            agree = mask[np.arange(len(codes)), codes] if self.keep == "agreeing" else np.ones(len(codes), np.bool_)
            if not agree.any():
                break
            rows = np.flatnonzero(agree)
            self.learner_ = fitted_copy(learner, take_rows(features, rows), _as_labels(codes[rows], release))
            self.kept_.append(len(rows))
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        check_is_fitted(self)
        return declared_probabilities(self.learner_, indexable_rows(X), self.space_)


def _as_labels(codes: np.ndarray, release: Release) -> Release:
    """Predicted classes in the form of labels without noise."""
    return Release(codes.astype(np.int32), ResponseChannel.nearly_certain(release.space.size), release.space, None)
