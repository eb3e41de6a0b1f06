"""Ridge regression from number moments: the optimum of its loss, and a use for every epsilon."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

from labeldp import Classes, Curator, Interval, LabelMoments, NumberMoments
from labeldp.errors import InputError
from labeldp.learning.sklearn import MomentRegressor

SPACE = Interval(-5.0, 15.0, 0.5)


def problem(rows):
    """Features with a column of ones, and labels that are linear in them but for noise."""
    random = np.random.default_rng(0)
    features = np.column_stack([random.uniform(-1, 1, (rows, 2)), np.ones(rows)])
    labels = 5 + features @ [4.0, -2.0, 0.0] + random.normal(size=rows)
    return features, np.clip(np.round(labels * 2) / 2, -5, 15)


def asked(features, labels, epsilon):
    """What a curator says of them."""
    return Curator(labels, SPACE).answer(NumberMoments(SPACE, epsilon, 1e-6, features))


def test_without_noise_it_is_ridge_regression():
    """At a very large epsilon coefficients are those of scikit-learn, on shares of the range less one half.

    What noise is left moves predictions by 0.002; they are off by ten times that in no draw that is ever seen.
    """
    features, labels = problem(3000)
    model = MomentRegressor(l2=2.0, project=False).fit(features, asked(features, labels, 650.0))
    theirs = Ridge(alpha=2.0, fit_intercept=False).fit(features, (labels + 5) / 20 - 0.5)
    predicted = -5 + 20 * np.clip(theirs.predict(features) + 0.5, 0, 1)
    np.testing.assert_allclose(model.predict(features), predicted, atol=0.02)


@pytest.mark.parametrize(("epsilon", "error"), [(0.3, 1.4), (1.0, 1.06)])
def test_it_learns_at_small_epsilons(epsilon, error):
    """Errors are near those of labels around their mean, 1.0, and those of no features are 2.8.

    In 200 draws the largest was 1.16 at epsilon 0.3, with a mean of 1.05, and 1.03 at 1.
    """
    features, labels = problem(8000)
    model = clone(MomentRegressor()).fit(features, asked(features, labels, epsilon))
    assert np.sqrt(np.mean((model.predict(features) - labels) ** 2)) < error


def test_other_answers_and_features_are_refused():
    """Moments of classes, other features, and predictions before a fit."""
    features, labels = problem(500)
    space = Classes(["no", "yes"])
    answer = Curator(["no"] * 500, space).answer(LabelMoments(space, 1.0, 1e-6, features))
    with pytest.raises(InputError, match="expected an answer of sums of features by the ends of an interval"):
        MomentRegressor().fit(features, answer)
    with pytest.raises(InputError, match="expected the features that the moments were computed from"):
        MomentRegressor().fit(features + 10, asked(features, labels, 5.0))
