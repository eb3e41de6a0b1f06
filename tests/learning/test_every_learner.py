"""Every learner of released labels holds the laws of learners, and so may a foreign one."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from labeldp.learning import convex, sklearn
from labeldp.learning.losses import class_shares, require_release
from labeldp.learning.metrics import Units
from labeldp.testing import check_learner

#: Learners that are no learners of any features: of cells, answers and leaves, and of resampled rows.
OTHERS = {"CellClassifier", "CellRegressor", "MomentClassifier", "MomentRegressor", "SoftLabelClassifier"}
OTHERS |= {"TreeClassifier", "TreeRegressor", "ResampledClassifier"}
LEARNERS = [
    getattr(package, name)
    for package in (sklearn, convex)
    for name in package.__all__
    if name.endswith(("Classifier", "Regressor", "SoftmaxRegression")) and name not in OTHERS
]
#: Learners that choose nothing that keeps noise out.
PLAIN = {"ReleasedLabelClassifier", "ConvexClassifier", "ConvexRegressor"}
pytestmark = [
    pytest.mark.usefixtures("as_users_call"),
    pytest.mark.filterwarnings("ignore::labeldp.learning.convex.FewRowsWarning"),
]


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_a_learner_holds_the_laws(kind):
    """It refuses what it must, predicts the same again, and finds nothing in noise that is constant within people."""
    check_learner(kind(), chooses=kind.__name__ not in PLAIN)


class Shares(ClassifierMixin, BaseEstimator):
    """A foreign learner: class shares, or the names of rows where it is told to break a law."""

    def __init__(self, broken=""):
        self.broken = broken

    def fit(self, X, y, groups=None):  # noqa: N803 (scikit-learn's name)
        """Take the shares of classes."""
        release = require_release(y)
        if self.broken != "silent":
            Units.of(groups, release)
        if not len(X):
            raise ValueError("expected rows, found none")
        order = np.arange(release.space.size) if self.broken == "unsorted" else release.space.sorted_codes
        self.classes_ = np.array(release.space.points)[order]
        self.shares_ = class_shares(release)[order]
        if (self.broken == "few" and len(X) == 1) or (self.broken == "texts" and np.asarray(X).dtype.kind == "O"):
            self.shares_ = np.full(len(order), np.nan)
        return self

    def predict_proba(self, X):  # noqa: N803
        """The same for every row."""
        if self.broken == "gaps":
            return np.where(np.isfinite(X[:, :1].astype(float)), self.shares_, np.nan)
        if self.broken == "mean" and len(X) > 1:
            return np.tile(np.eye(len(self.shares_))[0], (len(X), 1))
        if self.broken == "noisy":  # names of rows, of the first two classes
            first = np.where(X[:, :1] > 0, 0.99, 0.01)
            return np.hstack([first, 1.0 - first, np.zeros((len(X), len(self.classes_) - 2))])
        return np.tile(self.shares_, (len(X), 1))


def test_a_foreign_learner_holds_the_laws():
    """A learner of another package is checked too."""
    check_learner(Shares())


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        ("silent", "warns if it gets no units"),
        ("unsorted", "classes are sorted"),
        ("gaps", "rows with nan are refused"),
        ("mean", "a row alone is predicted as among others"),
        ("few", "a fit to one row is refused"),
        ("texts", "a fit to texts is refused"),
        ("noisy", "predicted by class shares"),
    ],
)
def test_a_broken_law_is_stated(broken, law):
    """The error says which law does not hold."""
    with pytest.raises(AssertionError, match=law):
        check_learner(Shares(broken))
