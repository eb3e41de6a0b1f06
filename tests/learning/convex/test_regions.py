"""Regions of parameters: the nearest point, and how far from zero points may be."""

import math

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.learning.convex import Ball, Unconstrained

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
