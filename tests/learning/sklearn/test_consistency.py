"""With more rows, what is learned comes closer to the model of true labels; where it cannot, it does not."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from labeldp import Classes, Release
from labeldp.learning.sklearn import ReleasedLabelClassifier, SoftmaxRegression

SPACE = Classes(range(3))
APART = 2.0 * np.eye(3, 4)


def problem(rows, seed):
    """Features of three classes that overlap, and class codes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 3, rows).astype(np.int32)
    return rng.normal(size=(rows, 4)) + APART[codes], codes


def clean_model(features, codes):
    """Softmax regression on true labels."""
    return SoftmaxRegression(l2=1e-4).fit(features, Release.public(codes, SPACE))


def distance(model, other):
    """The mean difference of probabilities, on features of their own."""
    grid = problem(500, 99)[0]
    return np.abs(model.predict_proba(grid) - other.predict_proba(grid)).mean()


@pytest.mark.parametrize("kind", ["response", "symmetric", "grouped sets", "candidates"])
def test_expectation_maximisation_comes_closer(kind, make_channel, randomized):
    """For classes, sets, groups of rows and candidates, 16 times the rows come closer to the clean model.

    The errors fall from about 0.03 to 0.005, and must fall below 0.012 and below half of what they were; a start that
    was never improved stays at 0.02 to 0.13. The words have seeds, so it passes always or never.
    """
    errors = []
    for rows in (800, 12_800):
        features, codes = problem(rows, 4)
        release = randomized(codes, make_channel(kind, 3, rows, 3.0), 5)
        with threadpool_limits(1):  # on busy cores threads that wait for each other take minutes
            found = ReleasedLabelClassifier(LogisticRegression(C=1e3), max_iter=15, folds=1).fit(features, release)
        errors.append(distance(found, clean_model(features, codes)))
    assert errors[1] < 0.012
    assert errors[1] < 0.5 * errors[0]
