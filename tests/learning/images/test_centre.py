"""Softmax problems whose penalties pull towards a fit instead of zero."""

import numpy as np
import pytest
from scipy.optimize import check_grad

from labeldp import Classes, Curator
from labeldp.learning.heads import SoftmaxFit, SoftmaxProblem
from labeldp.learning.losses import row_loss


@pytest.fixture
def problem():
    """A function of a penalty, the same for coefficients and intercepts: a problem with a centre, and the centre."""
    random = np.random.default_rng(0)
    features, space = random.normal(size=(200, 3)), Classes(["a", "b"])
    release = Curator(np.where(features[:, 0] > 0, "a", "b"), space).randomize(epsilon=1.0)
    centre = SoftmaxFit(random.normal(size=(3, 2)), random.normal(size=2), 0)

    def of(l2):
        loss = row_loss(release, "likelihood")
        return SoftmaxProblem(features, loss, np.ones(200), 2, l2, intercept_l2=l2, centre=centre), centre

    return of


def test_a_strong_penalty_pulls_to_the_centre(problem):
    """A strong one leaves the fit there, coefficients and intercepts; a weak one leaves it where labels say."""
    strong, centre = problem(1e6)
    found = strong.fit(tolerance=1e-9)
    np.testing.assert_allclose(found.coefficients, centre.coefficients, atol=1e-4)
    np.testing.assert_allclose(found.intercepts, centre.intercepts, atol=1e-4)
    weak = problem(1e-3)[0].fit(tolerance=1e-9)
    assert weak.coefficients[0, 0] > weak.coefficients[0, 1]


def test_the_gradient_is_that_of_the_value(problem):
    """By finite differences, at a point that is not the centre."""
    objective = problem(0.1)[0].objective()
    point = np.random.default_rng(1).normal(size=8)
    assert check_grad(lambda at: objective(at)[0], lambda at: objective(at)[1], point) < 1e-5
