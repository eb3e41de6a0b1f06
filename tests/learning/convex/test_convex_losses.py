"""Convex losses: gradients against differences and tangents, what they say of lengths, and pulls without bias."""

import math

import numpy as np
import pytest

from labeldp import Classes, Interval
from labeldp.errors import InputError
from labeldp.learning.convex import ConvexClassifier, ConvexRegressor, CustomLoss, HuberLoss
from labeldp.learning.convex._kernels import mean_gradient
from labeldp.learning.convex._losses import LOSSES

CLASSES = 4
POINTS = np.linspace(-1.0, 1.0, CLASSES)
OF_CLASSES = [name for name, loss in LOSSES.items() if loss.of_classes]


def logistic(scores, code):
    """The cross entropy, as a user would write it."""
    top = np.logaddexp.reduce(scores)
    return top - scores[code], np.exp(scores - top) - np.eye(scores.size)[code]


EVERY = {**LOSSES, "wide huber": HuberLoss(0.5), "custom": CustomLoss(logistic, constant=1.5)}


def drawn_scores(loss, rng, size):
    """Scores of a row; a single one for a real label."""
    return size * rng.normal(size=CLASSES if loss.of_classes else 1)


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_those_of_the_values(name):
    """Differences of values are the gradient at points without kinks, and tangents are never above the loss."""
    loss, rng, step = EVERY[name], np.random.default_rng(1), 1e-6
    for size in (0.3, 1.0, 3.0):
        near, far = drawn_scores(loss, rng, size), drawn_scores(loss, rng, size)
        found = loss.gradients(near, POINTS)
        moves = step * np.eye(near.size)
        differences = [
            loss.values(near + move, POINTS)[0] - loss.values(near - move, POINTS)[0] for move in moves[:, None]
        ]
        np.testing.assert_allclose(found, np.transpose(differences) / (2 * step), atol=1e-8)
        here, there = loss.values(np.stack([near, far]), POINTS)
        assert (there >= here + found @ (far - near) - 1e-12).all()


@pytest.mark.parametrize("name", LOSSES)
def test_no_gradient_is_longer_than_said_and_some_are_as_long(name):
    """Over scores within a ball lengths stay below the Lipschitz constant, and come within one percent of it."""
    loss, rng, largest = LOSSES[name], np.random.default_rng(2), 20.0
    longest = 0.0
    for _ in range(300):
        scores = drawn_scores(loss, rng, 1.0)
        scores *= largest / np.linalg.norm(scores)
        longest = max(longest, np.linalg.norm(loss.gradients(scores, POINTS), axis=1).max())
    stated = loss.lipschitz(CLASSES, largest)
    assert 0.99 * stated <= longest <= stated * (1 + 1e-12)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_right_angles_are_where_a_loss_says_so(name):
    """Differences of gradients have the lengths and angles of unit vectors, times what it says; the hinge has not."""
    loss, rng = LOSSES[name], np.random.default_rng(3)
    original = loss.orthogonal_length(CLASSES)
    gram = np.eye(CLASSES - 1) + 1.0
    for size in (0.0, 1.0, 9.0):
        found = loss.gradients(drawn_scores(loss, rng, size), POINTS)
        apart = found[1:] - found[0]
        if original is None:
            assert name == "hinge"
            continue
        np.testing.assert_allclose(apart @ apart.T, original**2 * gram, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_compiled_pulls_are_weighted_gradients(name):
    """For any weights, and where all scores are the same, the compiled mean gradient is ``sum_j w_j g_j``."""
    loss, rng = LOSSES[name], np.random.default_rng(4)
    for size in (0.0, 0.3, 30.0):
        scores, weights = drawn_scores(loss, rng, size), rng.normal(size=CLASSES)
        found = np.empty(scores.size)
        mean_gradient(loss.number, loss.width, scores, weights, POINTS, found)
        np.testing.assert_allclose(found, weights @ loss.gradients(scores, POINTS), atol=1e-12)


@pytest.mark.parametrize("project", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_the_mean_of_all_pulls_is_the_gradient_of_the_true_label(name, project, kind, make_channel, make_release):
    """Over every outcome of a row's law, for every true label; among the candidates, where the row has some."""
    loss, rows = LOSSES[name], 6
    channel = make_channel(kind, CLASSES, rows)
    space = Classes(list("abcd")) if loss.of_classes else Interval(0, 3, 1)
    learner = (ConvexClassifier if loss.of_classes else ConvexRegressor)(name, project=project)
    biased = kind in ("candidates", "cluster") and name == "squared"
    for row in range(rows):
        table = channel.table(row)
        every = np.full(len(table.outcomes), row)
        release = make_release(table.outcomes, channel.take(every), space)
        if biased:
            with pytest.raises(InputError, match="unbiased numbers"):
                learner._targets(release)
            continue
        targets = learner._targets(release)
        scores = drawn_scores(loss, np.random.default_rng(row), 0.8)
        pulls = np.empty((every.size, scores.size))
        for found, weights in zip(pulls, targets.of_rows(np.arange(every.size)), strict=True):
            mean_gradient(loss.number, loss.width, scores, weights, targets.bound.points, found)
        within = table.outcomes if kind == "candidates" else range(CLASSES)
        expected = loss.gradients(scores, POINTS)
        np.testing.assert_allclose((table.matrix @ pulls)[within], expected[within], atol=1e-10)


BROKEN = {
    "a short gradient": (lambda z, j: (z[j], np.ones(2)), "gradient of 3 entries"),
    "a constant too small": (lambda z, j: (3 * z[j], 3 * np.eye(3)[j]), "declare a larger one"),
    "a concave loss": (lambda z, j: (-abs(z[j]), -np.sign(z[j]) * np.eye(3)[j]), "convex in the scores"),
    "another gradient": (lambda z, j: (z[j], -np.eye(3)[j]), "convex in the scores"),
    "no number": (lambda z, j: (z[j] * math.nan, np.eye(3)[j]), "convex in the scores"),
    "no gradient": (lambda z, j: (z[j], np.full(3, math.nan)), "longer than the declared constant"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_custom_loss_that_is_not_what_it_says_is_refused(name):
    """Gradients of a wrong shape or length, and losses below their tangents, are found before descent begins."""
    function, words = BROKEN[name]
    with pytest.raises(InputError, match=words):
        CustomLoss(function, constant=1.0).check(3, 2.0)


def test_a_custom_loss_that_keeps_its_word_passes():
    """The cross entropy with its constant, with a larger one, and at the exact one."""
    for constant in (math.sqrt(2.0), 1.5, 9):
        loss = CustomLoss(logistic, constant)
        loss.check(3, math.inf)
        assert loss.lipschitz(3, 1.0) == constant


@pytest.mark.parametrize("constant", [0, -1.0, math.inf, math.nan, "1", None])
def test_a_constant_is_a_number_above_zero(constant):
    """A loss without a Lipschitz constant is refused, and so is a bare function, which has none."""
    with pytest.raises(InputError, match="Lipschitz constant"):
        CustomLoss(logistic, constant)
    with pytest.raises(InputError, match="write CustomLoss"):
        ConvexClassifier(logistic)._loss()


@pytest.mark.usefixtures("as_users_call")
def test_losses_are_of_their_kind_of_labels():
    """Names and losses of real labels are none of classes, and the other way round; a distance is above 0."""
    with pytest.raises(InputError, match="among softmax, hinge, linear, or a CustomLoss, found 'huber'"):
        ConvexClassifier("huber")._loss()
    with pytest.raises(InputError, match="among squared, absolute, huber, or a HuberLoss"):
        ConvexRegressor(CustomLoss(logistic, 1.5))._loss()
    with pytest.raises(InputError, match="among squared"):
        ConvexRegressor(None)._loss()
    with pytest.raises(InputError, match="expected the distance"):
        HuberLoss(0.0)
