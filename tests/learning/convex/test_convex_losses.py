"""Convex losses: gradients against differences and tangents, what they say of lengths, and pulls without bias."""

import math

import numpy as np
import pytest

from labeldp import Classes, Interval
from labeldp.errors import InputError
from labeldp.learning.convex import Ball, ConvexClassifier, ConvexRegressor, Unconstrained
from labeldp.learning.convex._kernels import mean_gradient
from labeldp.learning.convex._losses import LOSSES

CLASSES = 4
POINTS = np.linspace(-1.0, 1.0, CLASSES)
OF_CLASSES = [name for name, loss in LOSSES.items() if loss.of_classes]


def drawn_scores(loss, rng, size):
    """Scores of a row; a single one for a real label."""
    return size * rng.normal(size=CLASSES if loss.of_classes else 1)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_those_of_the_values(name):
    """Differences of values are the gradient at points without kinks, and tangents are never above the loss."""
    loss, rng, step = LOSSES[name], np.random.default_rng(1), 1e-6
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
    """Differences of gradients have the lengths and angles of unit vectors, times the stated length."""
    loss, rng = LOSSES[name], np.random.default_rng(3)
    original = loss.orthogonal_length(CLASSES)
    gram = np.eye(CLASSES - 1) + 1.0
    for size in (0.0, 1.0, 9.0):
        found = loss.gradients(drawn_scores(loss, rng, size), POINTS)
        apart = found[1:] - found[0]
        np.testing.assert_allclose(apart @ apart.T, original**2 * gram, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_compiled_pulls_are_weighted_gradients(name):
    """For any weights, and where all scores are the same, the compiled mean gradient is ``sum_j w_j g_j``."""
    loss, rng = LOSSES[name], np.random.default_rng(4)
    for size in (0.0, 0.3, 30.0):
        scores, weights = drawn_scores(loss, rng, size), rng.normal(size=CLASSES)
        found = np.empty(scores.size)
        mean_gradient(loss.number, scores, weights, POINTS, found)
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
            mean_gradient(loss.number, scores, weights, targets.bound.points, found)
        within = table.outcomes if kind == "candidates" else range(CLASSES)
        expected = loss.gradients(scores, POINTS)
        np.testing.assert_allclose((table.matrix @ pulls)[within], expected[within], atol=1e-10)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ConvexClassifier("squared"), "a loss among softmax, linear, found 'squared'"),
        (ConvexClassifier(abs), "a loss among softmax, linear"),
        (ConvexRegressor("softmax"), "a loss among squared, absolute, found 'softmax'"),
        (ConvexRegressor(None), "a loss among squared"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("as_users_call")
def test_losses_are_of_their_kind_of_labels(model, words):
    """Names of losses of numeric labels are none of classes, and the other way round; a function is no name."""
    with pytest.raises(InputError, match=words):
        model._loss()


# Regions of parameters: the nearest point, and how far from zero points may be.


SHAPES = [(1, 1), (4,), (3, 2)]


def points_of(region, shape, rng):
    """Points of a ball, half of them on its surface."""
    drawn = rng.normal(size=(40, math.prod(shape)))
    points = drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * region.radius
    points[20:] *= rng.uniform(size=(20, 1))
    return points.reshape(-1, *shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_projections_are_the_nearest_points(shape):
    """``<x - P(x), z - P(x)> <= 0`` for all points z, which P(x) alone fulfils; inside, points stay where they are."""
    region, rng = Ball(1.5), np.random.default_rng(3)
    points = points_of(region, shape, rng)
    for scale in (0.1, 1.0, 30.0):
        outside = scale * rng.normal(size=shape)
        kept = outside.copy()
        nearest = region.project(outside)
        np.testing.assert_array_equal(outside, kept)
        assert nearest is not outside
        assert max(((outside - nearest) * (point - nearest)).sum() for point in points) <= 1e-9
        np.testing.assert_allclose(region.project(nearest), nearest, atol=1e-12)
    for point in points:
        np.testing.assert_allclose(region.project(point), point, atol=1e-12)


def test_unconstrained_parameters_are_left_as_they_are():
    """Nothing is moved, and the distance from zero has no limit."""
    region, point = Unconstrained(0.1), np.array([1e9, -2.0])
    assert region.project(point).tolist() == point.tolist()
    assert region.project(point) is not point
    assert region.radius == math.inf


@pytest.mark.parametrize("make", [Ball, Unconstrained])
@pytest.mark.parametrize("length", [0, -1.0, math.inf, math.nan, "5", True])
def test_lengths_that_are_none_are_refused(make, length):
    """A radius or a penalty is a finite number above 0."""
    with pytest.raises(InputError, match=r"expected .* to be a (finite number above 0|number), found"):
        make(length)
