"""The expected mean label: a normal number cut to the range, from numbers however many and however noisy."""

import numpy as np
import pytest
from scipy.stats import truncnorm

from labeldp import Curator, Interval
from labeldp.learning.losses import decoded_numbers, expected_mean


def numbers_of(mean, deviation, rows=4):
    """Numbers whose mean and its standard error are given."""
    offsets = np.tile([-1.0, 1.0], rows // 2)
    return mean + offsets * deviation * np.sqrt(rows), np.ones(rows)


@pytest.mark.parametrize("mean", [-30.0, 0.0, 20.0, 50.0, 99.0, 140.0])
@pytest.mark.parametrize("deviation", [5.0, 20.0, 90.0])
def test_it_is_the_mean_of_a_normal_number_cut_to_the_range(mean, deviation):
    """It agrees with scipy's truncated normal distribution."""
    found = expected_mean(*numbers_of(mean, deviation), 0.0, 100.0)
    assert found == pytest.approx(
        truncnorm.mean(-mean / deviation, (100 - mean) / deviation, mean, deviation), abs=1e-6
    )


@pytest.mark.parametrize(
    ("mean", "deviation", "expected"),
    [
        (20.0, 0.0, 20.0),
        (20.0, 1e-9, 20.0),
        (-1.0, 0.0, 0.0),
        (-50.0, 1e-6, 0.0),
        (200.0, 3.0, 100.0),
        (30.0, 1e9, 50.0),
    ],
)
def test_it_is_within_the_range_whatever_the_numbers(mean, deviation, expected):
    """Exact numbers give their mean, numbers beyond the range its end, and hopeless ones its middle."""
    assert expected_mean(*numbers_of(mean, deviation), 0.0, 100.0) == pytest.approx(expected, abs=1e-4)


def test_few_noisy_numbers_err_less_than_their_clipped_mean():
    """Of 100 labels at epsilon 0.25 it errs less over mean labels all over the range (3 standard errors)."""
    rows, weights, means = 100, np.ones(100), np.linspace(5, 95, 1_000).round()
    release = Curator(np.repeat(means, rows), Interval(0.0, 100.0, 1.0)).randomize(epsilon=0.25)
    numbers = decoded_numbers(release).reshape(-1, rows)
    expected = np.array([expected_mean(each, weights, 0.0, 100.0) for each in numbers])
    less = (np.clip(numbers.mean(axis=1), 0.0, 100.0) - means) ** 2 - (expected - means) ** 2
    assert less.mean() > 3 * less.std() / np.sqrt(len(means))
