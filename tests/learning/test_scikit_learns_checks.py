"""Scikit-learn's own checks of estimators pass on a learner of each kind, and none is left out.

The checks fit bare labels, so each learner is put into the form that they expect.
"""

import math

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

import labeldp as dp
from labeldp._random_words import TapeWords
from labeldp.learning.cells import tree_cells
from labeldp.learning.convex import ConvexClassifier
from labeldp.learning.sklearn import (
    CellRegressor,
    MomentClassifier,
    NeighborsRegressor,
    ReleasedLabelClassifier,
    ReleasedLabelRegressor,
    SoftLabelClassifier,
    SoftmaxRegression,
)

FINE = dp.Interval(-512.0, 512.0, 0.015625)


class BareLabels:
    """It takes bare labels, and declares them public."""

    def fit(self, X, y):  # noqa: N803
        """Fit on bare labels."""
        return self.fit_codes(X, y, accept_sparse="csr", dtype=np.float64)

    def fit_codes(self, X, y, *weights, **accepted):  # noqa: N803
        """Fit on codes of the labels that there are."""
        X, y = validate_data(self, X, y, **accepted)  # noqa: N806
        check_classification_targets(y)
        values, codes = np.unique(y, return_inverse=True)
        if len(values) < 2:
            raise ValueError("expected two classes, found one class")
        super().fit(X, *self.released(X, codes, dp.Classes(range(len(values)))), *weights)
        self.classes_ = values
        return self

    def released(self, _, codes, space):
        """What is fitted beside rows."""
        return (dp.Release.public(codes, space),)

    def score(self, X, y, sample_weight=None):  # noqa: N803
        """Accuracy on bare labels."""
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


class WeightedBareLabels(BareLabels):
    """It takes weights too."""

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Fit on bare labels."""
        return self.fit_codes(X, y, sample_weight, accept_sparse="csr", dtype=(np.float64, np.float32))


class Softmax(WeightedBareLabels, SoftmaxRegression):
    """Softmax regression."""


class AnyClassifier(WeightedBareLabels, ReleasedLabelClassifier):
    """Any classifier."""


class SoftLabels(WeightedBareLabels, SoftLabelClassifier):
    """Rows of one label are a cell, counted exactly."""

    def released(self, _, codes, space):
        """Counts of cells, and the cell of each row."""
        return dp.Curator(codes, space).answer(dp.NoisyHistogram(space, 600.0, codes)), codes


class Moments(BareLabels, MomentClassifier):
    """It asks a curator of its own, with hardly any noise and with words from a tape, the same at each fit."""

    def fit(self, X, y):  # noqa: N803
        """Fit on bare labels."""
        return self.fit_codes(X, y, dtype=np.float64)

    def released(self, rows, codes, space):
        """The moments."""
        words = TapeWords(np.random.default_rng(0).integers(0, 2**64, 1 << 17, dtype=np.uint64))
        return (dp.Curator(codes, space)._answer(dp.LabelMoments(space, 600.0, 1e-9, rows), None, words),)


class Convex(BareLabels, ConvexClassifier):
    """A convex learner, which goes on with further labels."""

    def partial_fit(self, X, y, classes=None):  # noqa: N803
        """Go on with bare labels of classes that are said at first."""
        values = getattr(self, "classes_", classes)
        super().partial_fit(X, dp.Release.public(np.searchsorted(values, y), dp.Classes(range(len(values)))))
        self.classes_ = values
        return self

    def _knows(self, space):
        return len(space.points) == len(self.classes_)


class BareNumbers:
    """It takes bare numbers, and declares them public."""

    def fit(self, X, y):  # noqa: N803
        """Fit on bare numbers."""
        return self.fit_numbers(X, y)

    def fit_numbers(self, X, y, **weights):  # noqa: N803
        """Fit on numbers of a fine grid."""
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32), y_numeric=True, accept_sparse="csr")  # noqa: N806
        return super().fit(X, dp.Release.public(y.astype(np.float64), FINE), **weights)

    def score(self, X, y, sample_weight=None):  # noqa: N803
        """R squared on bare labels."""
        return r2_score(y, self.predict(X), sample_weight=sample_weight)


class AnyRegressor(BareNumbers, ReleasedLabelRegressor):
    """Any regressor."""

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Fit on bare numbers with weights."""
        return self.fit_numbers(X, y, sample_weight=sample_weight)


class Neighbors(BareNumbers, NeighborsRegressor):
    """Neighbours, which have no weights."""


class Means(BareNumbers, CellRegressor):
    """Cells of bare labels, counted exactly: half as many as rows."""

    def __init__(self, clusters=None, *, spread=None):
        super().__init__(clusters, spread=spread)

    def fit(self, X, y):  # noqa: N803
        """Fit on a tree of cells."""
        X, y = validate_data(self, X, y, y_numeric=True)  # noqa: N806
        space = dp.Interval(math.floor(y.min()) - 1, math.ceil(y.max()) + 1, 0.5)
        model = clone(self).set_params(spread=0.0, clusters=tree_cells(X, max(1, len(X) // 2)))
        answer = dp.Curator(y, space).answer(dp.NoisyHistogram(space, 600.0, model.clusters))
        CellRegressor.fit(model, X, answer)
        self.table_ = model
        return self

    def predict(self, X):  # noqa: N803
        """The mean of each row's cell."""
        if not hasattr(self, "table_"):
            return super().predict(X)
        return self.table_.predict(validate_data(self, X, reset=False))


@pytest.mark.parametrize(
    "learner",
    [
        Softmax(l2=1e-3),
        AnyClassifier(LogisticRegression(max_iter=1000)),
        SoftLabels(LogisticRegression(max_iter=1000)),
        Moments(l2=1.0),
        Convex(),
        AnyRegressor(Ridge()),
        Neighbors(k=1),
        Means(),
    ],
    ids=lambda learner: type(learner).__name__,
)
@pytest.mark.usefixtures("as_users_call")
def test_scikit_learns_own_checks_pass(learner):
    """The one of array libraries skips itself unless SciPy is told to dispatch to them."""
    check_estimator(learner, on_skip=None)
