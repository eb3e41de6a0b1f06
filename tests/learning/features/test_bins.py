"""Bins of columns, one byte a value."""

import numpy as np
import pytest

from labeldp import Classes, Curator
from labeldp.learning.choice import Held
from labeldp.learning.features import Bins
from labeldp.learning.metrics import Units
from labeldp.learning.sklearn import BoostingClassifier


def test_few_values_are_their_own_bins():
    """Columns of at most 254 values, and categories, come back as they were, and missing ones as missing."""
    chance = np.random.default_rng(0)
    points = np.column_stack([chance.integers(0, 254, 5000) / 7.0, chance.integers(0, 200, 5000)]).astype(float)
    points[::17, 0] = np.nan
    bins = Bins.of(points, [1])
    assert bins.codes(points).dtype == np.uint8
    np.testing.assert_allclose(bins.points(bins.codes(points)), points, rtol=1e-12)


def test_many_values_are_near_those_of_their_bins():
    """A value is within its bin, and bins hold about equally many rows; values beyond the sample are in the last."""
    points = np.random.default_rng(1).normal(size=(20_000, 1))
    bins = Bins.of(points, [])
    codes = bins.codes(points)
    sizes = np.bincount(codes[:, 0])
    assert len(sizes) == 254
    assert sizes.max() < 2 * 20_000 / 254
    assert np.abs(bins.points(codes) - points).mean() < 0.01
    assert bins.codes(np.array([[99.0], [-99.0]])).tolist() == [[253], [0]]


def test_a_constant_column_is_one_bin():
    """One value, or none, has one bin."""
    points = np.array([[3.0, np.nan]] * 5)
    bins = Bins.of(points, [])
    np.testing.assert_array_equal(bins.points(bins.codes(points)), points)


def test_boosting_on_bins_is_boosting_on_their_values():
    """A fit to bins has the trees of a fit to the values, and both stop where other rows say."""
    pytest.importorskip("lightgbm")
    chance = np.random.default_rng(2)
    points = np.column_stack([chance.integers(0, 50, 6000), chance.integers(0, 5, 6000)]).astype(float)
    labels = np.where((points[:, 0] > 20) ^ (points[:, 1] == 2), "yes", "no")
    release = Curator(labels, Classes(["no", "yes"])).randomize(epsilon=2.0)
    bins, fit, held = Bins.of(points, [1]), np.arange(4500), np.arange(4500, 6000)
    judges = Held.of(points, release, Units.of("rows", 6000), held)
    model = BoostingClassifier(categorical=[1]).fit_bins(bins, bins.codes(points)[fit], release[fit], judges)
    assert 0 < model.rounds_ <= 300
    path = BoostingClassifier(categorical=[1])
    same = path.path(points[fit], release[fit], judges)
    setting = 301 + model.rounds_  # the second number of leaves
    np.testing.assert_allclose(same.predict(setting), model.predict_proba(points[held]), atol=1e-9)
    assert (model.predict(points[held]) == labels[held]).mean() > 0.95
