"""Gradient boosting of released numbers, by LightGBM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from labeldp import _checks
from labeldp._documented import documented_in
from labeldp._shapes import Float
from labeldp.learning.losses import decoded_numbers, ends_of, expected_mean, require_numeric_labels
from labeldp.learning.sklearn._boosting import LEAVES, PATIENCE, TreeBoosting, any_varies
from labeldp.learning.sklearn._regressor import NumberRegressor, fold_splits, noise_ratio, precisions
from labeldp.learning.sklearn._soft_labels import check_released_rows
from labeldp.release import Release

#: Features, numbers and weights of rows.
_Numbers = tuple[Any, Float[np.ndarray, "_"], Float[np.ndarray, "_"]]


@documented_in("labeldp.learning.sklearn")
@dataclass(eq=False, repr=False)
class BoostingRegressor(TreeBoosting, NumberRegressor):
    """Gradient-boosted trees that minimise the squared error against released numbers, by LightGBM.

    A released number has the label as its mean, so a least-squares fit to numbers targets the same function as one to
    labels. Starts from the mean. The number of trees and of their leaves are chosen on released labels; with no tree,
    the mean is predicted. Every leaf holds so many rows that the mean of their numbers is about as certain as one
    label, so that trees are as fine as the noise allows. Bins are decoded.

    Args:
        categorical: Columns of category codes.
        rounds: Most rounds of boosting.
        learning_rate: Factor of each tree's contribution.
        information: Least effective rows in a leaf: rows over the ratio of the variances of numbers and labels.
        penalty: Effective rows at the mean that are added to each leaf.
        folds: Folds for the choice of trees.

    Attributes:
        rounds_: Number of rounds; 0 where the mean is predicted.
        leaves_: Most leaves of a tree.
        centre_: The mean label, from which boosting starts.
        model_: The trees in LightGBM's text form; empty without any.
        range_: Ends of the declared range, to which predictions are clipped.

    Guarantee:
        Post-processing of a release: covered by the release's guarantee at no further cost, including the choice of
        trees.

    References:
        Friedman 2001; Ke et al. 2017 (LightGBM); Badanidiyuru et al. 2023, for unbiased numbers.

    Example:
        >>> import numpy as np
        >>> from labeldp import Curator, Interval
        >>> from labeldp.learning.sklearn import BoostingRegressor
        >>> features = np.repeat([[0.0], [1.0]], 1000, axis=0)
        >>> release = Curator([2.0] * 1000 + [8.0] * 1000, Interval(0.0, 10.0, 1.0)).randomize(epsilon=4.0)
        >>> BoostingRegressor().fit(features, release).predict([[0.0], [1.0]]).round(0).tolist()
        [2.0, 8.0]

    Raises:
        MissingExtraError: LightGBM is not installed.
    """

    def fit(self, X: Any, y: Release) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fit on features of shape (n, d), with NaN for missing values, and a release of n rows."""
        release = require_numeric_labels(y)
        features = self._checked(X, reset=True)
        check_released_rows(X, release)
        most = _checks.whole(self.rounds, "rounds", 1)
        self.range_, numbers = ends_of(release), decoded_numbers(release)
        weights = precisions(release, numbers)
        self.centre_ = expected_mean(numbers, weights, *self.range_)
        self._ratio = noise_ratio(release, numbers)
        self.leaves_, self.rounds_ = self._best(features, numbers, weights, most)
        rows = (features, numbers - self.centre_, weights)
        self.model_ = self._grow(rows, self.leaves_, self.rounds_).model_to_string() if self.rounds_ else ""
        return self

    def predict(self, X: Any) -> Float[np.ndarray, "n"]:  # noqa: N803
        """The estimated mean label of each row, within the declared range."""
        check_is_fitted(self)
        features = self._checked(X, reset=False)
        numbers = np.full(features.shape[0], self.centre_)
        if (trees := self._trees()) is not None:
            numbers += np.asarray(trees.predict(features))
        return np.asarray(np.clip(numbers, *self.range_))

    def _best(
        self, features: Any, numbers: Float[np.ndarray, "n"], weights: Float[np.ndarray, "n"], most: int
    ) -> tuple[int, int]:
        """The number of leaves and of rounds with the least squared error against held-out released numbers."""
        losses = np.zeros((len(LEAVES), most + 1))
        for fit, held in fold_splits(len(numbers), _checks.whole(self.folds, "folds", 2)):
            if not any_varies(features[fit]):
                continue
            offsets = numbers - expected_mean(numbers[fit], weights[fit], *self.range_)
            fitted, others = ((features[rows], offsets[rows], weights[rows]) for rows in (fit, held))
            total = float(weights[held].sum())
            for place, leaves in enumerate(LEAVES):
                curve = [float(np.average(offsets[held] ** 2, weights=weights[held]))]
                self._grow(fitted, leaves, most, others, curve)
                losses[place] += total * np.pad(curve, (0, most + 1 - len(curve)), mode="edge")
        place, best = divmod(int(np.argmin(losses)), most + 1)
        return LEAVES[place], best

    def _grow(
        self, rows: _Numbers, leaves: int, rounds: int, others: _Numbers | None = None, curve: list[float] | None = None
    ) -> Any:
        """Trees fitted to numbers; the squared error of other rows after each round is appended to a list."""
        import lightgbm  # noqa: PLC0415 (an extra)

        features, numbers, weights = rows
        settings = {
            **self._settings(leaves, len(numbers)),
            "objective": "regression",
            "boost_from_average": False,
            "metric": "l2",
            "min_sum_hessian_in_leaf": self.information * self._ratio,
            "lambda_l2": self.penalty * self._ratio,
        }
        data, found = self._data(features, numbers, weight=weights), dict[str, Any]()
        if others is None or curve is None:
            return lightgbm.train(settings, data, rounds)
        watch = [lightgbm.early_stopping(PATIENCE, verbose=False), lightgbm.record_evaluation(found)]
        judges = self._data(*others[:2], data, weight=others[2])
        trees = lightgbm.train(settings, data, rounds, valid_sets=[judges], callbacks=watch)
        curve += found["valid_0"]["l2"]
        return trees
