"""The default regressor: models of several families, combined by their squared error against released numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.learning.losses import require_decodable
from labeldp.learning.sklearn._boosting_regressor import BoostingRegressor
from labeldp.learning.sklearn._members import POWER, Member, MemberFits, Progress, encoders_of
from labeldp.learning.sklearn._number_mixture import HeldOutNumbers
from labeldp.learning.sklearn._regressor import NumberRegressor, ReleasedLabelRegressor, usual_ridge
from labeldp.learning.sklearn._tree_regressor import TreeRegressor
from labeldp.release import Release


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class AutoRegressor(MemberFits, NumberRegressor):
    """Regressor that combines models of several families by released labels, at no privacy cost.

    The models are a linear one (ridge in a ``ReleasedLabelRegressor``), boosted trees (``BoostingRegressor``), and mean
    labels of public clusters, of features and in the graph of their neighbours (``TreeRegressor``). Each is fitted
    through the channel on all folds but one and predicts that one; the released numbers of these rows decide how much
    it weighs beside the others and beside the mean label. The less they show that features help, the nearer
    predictions are to the mean label.

    A model that fails, or does not give finite numbers, is left out and named in ``left_out_``.

    Args:
        minutes: No further fit is begun after this time, and an unfinished model is left out; None for no limit.
            Without one, the same release and rows give the same regressor.
        folds: Folds; from 100 000 rows on only one of them is held out, if it has as many units as there are folds.
        every_row: True to hold out every fold in turn however many rows there are.

    Attributes:
        members_: The fitted models by name, each a pipeline that begins with an encoder of features.
        weights_: The weight of each model; that of the mean label is what they lack to 1. They exceed 1 together where
            models are too cautious.
        mean_: The mean label, expected from the released numbers and the range: near its middle if they say little.
        range_: Ends of the declared range, to which predictions are clipped.
        left_out_: Models that were not used, with reasons.
        held_out_: Predictions for ``held_out_rows_`` by models and weights that were fitted on other rows; not kept in
            files.
        held_out_rows_: The rows, all of them or one fold.
        held_out_folds_: The fold of each of these rows.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including every choice.
        Features are public, so models may use those of all rows, including rows without labels.

    References:
        Wolpert 1992; Breiman 1995 and 1996; van der Laan, Polley and Hubbard 2007, for the combination; see also each
        model.

    Example:
        >>> import pandas as pd
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.sklearn import AutoRegressor
        >>> features = pd.DataFrame({"age": [30.0, 70.0] * 500, "city": ["Rome", "Oslo"] * 500})
        >>> release = Curator([20.0, 80.0] * 500, Interval(0.0, 100.0, 1.0)).randomize(epsilon=4.0)
        >>> model = AutoRegressor().fit(features, release)
        >>> model.predict(features[:2]).round(-1).tolist()
        [20.0, 80.0]

    Raises:
        InputError: There are fewer rows or units than folds, released labels do not identify the mean label, or every
            model fails.
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
        """Fit all models, and their weights.

        Args:
            X: Features of n rows: a frame, whose columns of text are categories, an array or a sparse matrix of
                numbers.
            y: A release of n rows with numeric labels; bins are decoded.
            groups: The privacy unit of each row, shape (n,), which is then on one side of every fold; by default each
                row is one.
            unlabelled: Features of further rows without labels, in the form of X: clusters are found among these too.
            report: Called with the name of the work, the number of fits done, and the number of all fits.
        """
        release = require_decodable(y)
        members, folded = self._fit_members(X, release, groups, unlabelled, report)
        parts = self._parts(len(release), groups)[0]
        rows = self.held_out_rows_
        predicted = np.reshape([each.held_out for each in members], (len(members), len(rows)))
        found = HeldOutNumbers.of(release, predicted, rows, parts, groups)
        self.mixture_ = found.best()
        self.weights_ = dict(zip(self.members_, self.mixture_.weights.tolist(), strict=True))
        self.mean_, self.range_ = self.mixture_.centre, (self.mixture_.low, self.mixture_.high)
        self.held_out_ = found.cross_fitted(folded)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        return np.asarray(self._mixed(X, "predict"))

    def _family(self, columns: Mapping[str, str] | None) -> Mapping[str, Member]:
        return number_members_of(columns)


def number_members_of(columns: Mapping[str, str] | None) -> dict[str, Member]:
    """The models for columns of some kinds, or for sparse features, by name."""
    encoders = encoders_of(columns)
    return {
        "linear": Member(
            encoders.scaled,
            ReleasedLabelRegressor,
            lambda _: ReleasedLabelRegressor(usual_ridge(), folds=2, shrink=False),
        ),
        "boosting": Member(
            encoders.coded, BoostingRegressor, lambda _: BoostingRegressor(categorical=encoders.categorical)
        ),
        "clusters": Member(
            encoders.leaves, TreeRegressor, lambda encoder: TreeRegressor(encoder[-1].trees_, power=POWER)
        ),
    }
