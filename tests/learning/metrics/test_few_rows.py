"""Intervals of few rows of a class, and of skewed rows."""

import numpy as np
import pytest
from scipy.special import ndtr

from labeldp import Classes, Release
from labeldp.learning import metrics


def test_all_of_five_are_no_proof_of_all():
    """Recall of 5 of 5 public rows is 48 to 100 % (Clopper and Pearson), and an area of 1 may be less."""
    release = Release.public(["no"] * 95 + ["yes"] * 5, Classes(["no", "yes"]))
    predicted, scores = ["no"] * 95 + ["yes"] * 5, np.arange(100)
    assert metrics.recall(release, predicted)[1].low == pytest.approx(0.4782, abs=1e-4)
    area = metrics.auc(release, scores, "yes")
    assert (area.value, area.high) == (pytest.approx(1.0), 1.0)
    assert 0.5 < area.low < 0.95


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("epsilon", [3.0, 8.0])
def test_intervals_hold_few_rows_of_a_class(make_channel, randomized, epsilon):
    """Over 400 samples with about 20 rows of the class, 363 intervals of recall and area hold the truth at the least.

    A right interval of level 0.95 holds in fewer with probability 1e-4; words and rows have seeds. Fieller's interval
    with the variance that was seen held the recall in 75 of 100 at an epsilon of 8, and the area in 85.
    """
    rng, n, held = np.random.default_rng(44), 1000, np.zeros(2)
    channel, truth = make_channel("response", 2, n, epsilon), np.array([0.95, ndtr(2 / np.sqrt(2))])
    for seed in range(400):
        codes = (rng.random(n) < 0.02).astype(np.int32)
        predicted = (rng.random(n) < np.where(codes == 1, truth[0], 0.3)).astype(np.int32)
        release = randomized(codes, channel, 90_000 + seed)
        found = metrics.recall(release, predicted)[1], metrics.auc(release, rng.normal(size=n) + 2 * codes, 1)
        held += [each.low <= true <= each.high for each, true in zip(found, truth, strict=True)]
    assert (held >= 363).all()


@pytest.mark.usefixtures("as_users_call")
def test_intervals_of_skewed_rows_hold():
    """Over 400 samples of 40 squares of exponential rows, 352 intervals hold the mean at the least, Student's in fewer.

    An interval that holds in 0.93 does in fewer than 352 with probability 1e-4; rows have seeds.
    """
    rng, held, student = np.random.default_rng(45), 0, 0
    for _ in range(400):
        values = rng.exponential(size=40) ** 2
        found = metrics.mean_of_rows(values, 0.95)
        held += found.low <= 2.0 <= found.high
        student += abs(found.value - 2.0) <= 2.0227 * found.error
    assert held >= 352
    assert student < 352


def test_a_rare_error_that_is_not_seen_is_counted():
    """Without any row of a class that a model expects, the standard error of the log loss is at least the expected one.

    Of 100 rows the model expects 2 of the class; each would add log(0.98 / 0.02).
    """
    release = Release.public(["no"] * 100, Classes(["no", "yes"]))
    chance = np.tile([0.98, 0.02], (100, 1))
    expected = np.log(0.98 / 0.02) * np.sqrt(100 * 0.98 * 0.02) / 100
    for found in (metrics.log_loss(release, chance), metrics.log_likelihood(release, chance)):
        assert found.error == pytest.approx(expected, rel=1e-6)
