"""Regions of parameters: the nearest point, where descent starts, and how far it may have to go."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from labeldp.errors import InputError
from labeldp.learning.convex import Ball, Box, Simplex, Unconstrained

BOUNDED = {"ball": Ball(1.5), "box": Box(0.7), "simplex": Simplex(2.0), "shares": Simplex()}
SHAPES = [(1, 1), (4,), (3, 2)]


def corners_and_more(region, shape, rng):
    """Points of a region, extreme ones among them."""
    size = math.prod(shape)
    drawn = rng.normal(size=(40, size))
    if isinstance(region, Ball):
        points = drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * region.radius
        points[20:] *= rng.uniform(size=(20, 1))
    elif isinstance(region, Box):
        points = np.clip(drawn, -1, 1) * region.half_width
        points[20:] = np.sign(drawn[20:]) * region.half_width
    else:
        points = rng.dirichlet(np.ones(size), 40) * region.total
        points[:size] = np.eye(size) * region.total
    return points.reshape(-1, *shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BOUNDED)
def test_projections_are_the_nearest_points(name, shape):
    """``<x - P(x), z - P(x)> <= 0`` for all points z, which P(x) alone fulfils; inside, points stay where they are."""
    region, rng = BOUNDED[name], np.random.default_rng(3)
    points = corners_and_more(region, shape, rng)
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


@pytest.mark.parametrize("name", BOUNDED)
def test_projections_are_what_a_solver_finds(name):
    """Sequential quadratic programming finds no other nearest point."""
    region, outside = BOUNDED[name], np.array([0.9, -2.0, 1.3, 0.2])
    limits = {
        Ball: {"constraints": {"type": "ineq", "fun": lambda x: region.radius**2 - x @ x}},
        Box: {"bounds": [(-0.7, 0.7)] * 4},
        Simplex: {"constraints": {"type": "eq", "fun": lambda x: x.sum() - region.total}, "bounds": [(0, None)] * 4},
    }[type(region)]
    found = minimize(
        lambda x: ((x - outside) ** 2).sum(), region.start((4,)) + 0.01, method="SLSQP", tol=1e-12, **limits
    )
    np.testing.assert_allclose(region.project(outside), found.x, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", BOUNDED)
def test_the_reach_is_that_of_the_farthest_point(name, shape):
    """The start is in the region, no point is farther from it than the reach, and some point is as far."""
    region = BOUNDED[name]
    start = region.start(shape)
    np.testing.assert_allclose(region.project(start), start, atol=1e-12)
    points = corners_and_more(region, shape, np.random.default_rng(4))
    far = max(np.linalg.norm(point - start) for point in points)
    assert start.shape == shape
    assert far == pytest.approx(region.reach(shape))


def test_parameters_may_be_everywhere():
    """Nothing is moved, the start is zero, and the reach has no limit."""
    region, point = Unconstrained(0.1), np.array([1e9, -2.0])
    assert region.project(point).tolist() == point.tolist()
    assert region.project(point) is not point
    assert (region.start((2, 1)) == 0).all()
    assert region.reach((2, 1)) == math.inf


@pytest.mark.parametrize("make", [Ball, Box, Simplex, Unconstrained])
@pytest.mark.parametrize("length", [0, -1.0, math.inf, math.nan, "5", True])
def test_lengths_that_are_none_are_refused(make, length):
    """A radius, width, total or penalty is a finite number above 0."""
    with pytest.raises(InputError, match=r"expected .* to be a (finite number above 0|number), found"):
        make(length)
