"""The default classifier: models of several families, combined by the likelihood of released labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.errors import InputError
from labeldp.learning.losses import require_release
from labeldp.learning.sklearn._boosting import BoostingClassifier
from labeldp.learning.sklearn._members import POWER, Member, MemberFits, Progress, encoders_of
from labeldp.learning.sklearn._mixture import Mixture, cross_fitted_mixture
from labeldp.learning.sklearn._soft_labels import ProbabilityClassifier
from labeldp.learning.sklearn._softmax import SoftmaxRegression
from labeldp.learning.sklearn._tree import TreeClassifier
from labeldp.privacy import Interval
from labeldp.release import Release


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class AutoClassifier(MemberFits, ProbabilityClassifier):
    """Classifier that combines models of several families by released labels, at no privacy cost.

    The models are a linear one (``SoftmaxRegression``), boosted trees (``BoostingClassifier``), and class distributions
    of public clusters, of features and in the graph of their neighbours (``TreeClassifier``). Each is fitted through
    the channel on all folds but one and predicts that one; the released labels of these rows decide how much it is
    sharpened and how much it weighs in the mean. A model that predicts the same for every row weighs nothing.

    A model that fails, or does not give finite probabilities, is left out and named in ``left_out_``.

    Args:
        minutes: No further fit is begun after this time, and an unfinished model is left out; None for no limit.
            Without one, the same release and rows give the same classifier.
        folds: Folds; from 100 000 rows on only one of them is held out, if it has as many units as there are folds.
        every_row: True to hold out every fold in turn however many rows there are.

    Attributes:
        classes_: The declared classes.
        members_: The fitted models by name, each a pipeline that begins with an encoder of features.
        weights_: The weight of each model in the mean.
        left_out_: Models that were not used, with reasons.
        held_out_: Probabilities for ``held_out_rows_`` by models and weights that were fitted on other rows, in the
            order of ``classes_``; not kept in files.
        held_out_rows_: The rows, all of them or one fold.
        held_out_folds_: The fold of each of these rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including every choice.
        Features are public, so models may use those of all rows, including rows without labels.

    References:
        Wolpert 1992; van der Laan, Polley and Hubbard 2007, for the combination; see also each model.

    Example:
        >>> import pandas as pd
        >>> from labeldp import Classes, Curator
        >>> from labeldp.learning.sklearn import AutoClassifier
        >>> features = pd.DataFrame({"age": [30.0, 70.0] * 500, "city": ["Rome", "Oslo"] * 500})
        >>> release = Curator(["no", "yes"] * 500, Classes(["no", "yes"])).randomize(epsilon=2.0)
        >>> model = AutoClassifier().fit(features, release)
        >>> model.predict(features[:2]).tolist()
        ['no', 'yes']

    Raises:
        InputError: Labels are numeric, there are fewer rows or units than folds, or every model fails.
        MissingExtraError: pandas is not installed.
    """

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Release,
        groups: Any = None,
        *,
        unlabelled: Any = None,
        report: Progress | None = None,
    ) -> Self:
        """Fit all models, and the weights of their mean.

        Args:
            X: Features of n rows: a frame, whose columns of text are categories, an array or a sparse matrix of
                numbers.
            y: A release of n rows.
            groups: The privacy unit of each row, shape (n,), which is then on one side of every fold; by default each
                row is one.
            unlabelled: Features of further rows without labels, in the form of X: clusters are found among these too.
            report: Called with the name of the work, the number of fits done, and the number of all fits.
        """
        release = require_release(y)
        if isinstance(release.space, Interval):
            raise InputError("expected released classes, found numeric labels; use AutoRegressor")
        found, folded = self._fit_members(X, release, groups, unlabelled, report)
        codes, labels = self._set_classes(release.space), release[self.held_out_rows_]
        every = np.reshape([each.held_out for each in found], (len(found), len(labels), release.space.size))
        used = np.array([each.varies for each in found], dtype=bool)
        mixture = Mixture.fit(labels, every, used)
        self.mixture_ = replace(mixture, shares=mixture.shares[codes])
        self.weights_ = dict(zip(self.members_, mixture.weights.tolist(), strict=True))
        self.held_out_ = cross_fitted_mixture(labels, every, used, folded)[:, codes]
        return self

    def predict_proba(self, X: Any) -> Float[np.ndarray, "n k"]:  # noqa: N803
        """Probabilities of the true classes, shape (n, k)."""
        return np.asarray(self._mixed(X, "predict_proba"))

    def _family(self, columns: Mapping[str, str] | None) -> Mapping[str, Member]:
        return members_of(columns)


def members_of(columns: Mapping[str, str] | None) -> dict[str, Member]:
    """The models for columns of some kinds, or for sparse features, by name."""
    encoders = encoders_of(columns)
    return {
        "linear": Member(encoders.scaled, SoftmaxRegression, lambda _: SoftmaxRegression()),
        "boosting": Member(
            encoders.coded, BoostingClassifier, lambda _: BoostingClassifier(categorical=encoders.categorical)
        ),
        "clusters": Member(
            encoders.leaves,
            TreeClassifier,
            lambda encoder: TreeClassifier(encoder[-1].trees_, power=POWER),
        ),
    }
