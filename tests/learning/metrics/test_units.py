"""Intervals of rows in units of several."""

import dataclasses
from contextlib import nullcontext

import numpy as np
import pytest

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release
from labeldp.errors import InputError
from labeldp.learning import metrics
from labeldp.learning.metrics import UnitsWarning
from labeldp.privacy.channels import GroupedChannel, ResponseChannel


def of(name, release, predicted, scores, units=None):
    """A metric of two classes by its name."""
    chance = np.stack([1 - scores, scores], axis=1)
    if name in ("log_loss", "log_likelihood"):
        return getattr(metrics, name)(release, chance, units=units)
    return {
        "accuracy": lambda: metrics.accuracy(release, predicted, units=units),
        "recall": lambda: metrics.recall(release, predicted, units=units)[1],
        "auc": lambda: metrics.auc(release, scores, 1, units=units),
        "confusion": lambda: metrics.confusion_matrix(release, predicted, units=units)[1, 1],
        "calibration": lambda: metrics.calibration(release, chance, 1, bins=1, units=units).frequency[0],
    }[name]()


OF_UNITS = ("accuracy", "recall", "auc", "log_loss", "log_likelihood", "confusion", "calibration")
OF_NUMBERS = ("mean_label", "squared_gain", "mean_squared_error", "r2", "mean_absolute_error")


def in_units(rng, units, size, share, together):
    """Codes of two classes: a row has the label of its unit with this probability, and else its own."""
    common = np.repeat(rng.random(units) < share, size)
    own = rng.random(units * size) < share
    return np.where(rng.random(units * size) < together, common, own).astype(np.int32)


@pytest.mark.parametrize("name", OF_UNITS)
def test_units_of_one_row_are_no_units(make_channel, randomized, name):
    """If each row is named as a unit of its own, estimates, errors and intervals are those without units."""
    rng, n = np.random.default_rng(40), 300
    codes = rng.integers(0, 2, n)
    release = randomized(codes, make_channel("response", 2, n, 2.0), 41)
    predicted, scores = rng.integers(0, 2, n), rng.random(n)
    alone = of(name, release, predicted, scores)
    found = of(name, release, predicted, scores, rng.permutation(n))
    np.testing.assert_allclose(dataclasses.astuple(found), dataclasses.astuple(alone), rtol=1e-9)


@pytest.mark.parametrize("name", [*OF_UNITS, *OF_NUMBERS])
@pytest.mark.parametrize(("repeats", "units", "warned"), [(2, None, True), (2, "rows", False), (1, None, False)])
def test_rows_that_may_share_a_unit_are_warned_of(name, repeats, units, warned):
    """A metric of a release in units of several rows warns unless it is told the units, or that rows are meant."""
    labels, space = np.tile([0.0, 1.0], 40), Interval(0.0, 1.0, 1.0) if name in OF_NUMBERS else Classes([0, 1])
    curator = Curator(labels if name in OF_NUMBERS else labels.astype(int), space, units=np.arange(80) // repeats)
    release = curator.randomize(RandomizedResponse(space, 4.0))
    chance = np.linspace(0.1, 0.9, 80)
    with pytest.warns(UnitsWarning, match="groups=") if warned else nullcontext():
        if name in OF_NUMBERS:
            getattr(metrics, name)(release, *([] if name == "mean_label" else [chance]), units=units)
        else:
            of(name, release, labels.astype(int), chance, units)


@pytest.mark.parametrize("name", OF_UNITS)
def test_rows_given_twice_say_no_more(make_release, make_channel, name):
    """If each row stands there twice, as one unit, the interval is about as wide as that of the rows once.

    Twice as many independent rows would have one that is narrower by the root of two. Intervals of shares count the
    imprecision of the design effect; with 400 units the difference is below 5 %.
    """
    rng, n = np.random.default_rng(42), 400
    codes = rng.integers(0, 2, n)
    predicted = np.where(rng.random(n) < 0.7, codes, 1 - codes)
    scores = np.where(predicted == 1, 0.9, 0.05) + 0.05 * rng.random(n)
    channel = make_channel("response", 2, n, 30.0)
    once = of(name, make_release(codes, channel), predicted, scores)
    pairs = make_release(np.tile(codes, 2), channel)
    twice = of(name, pairs, np.tile(predicted, 2), np.tile(scores, 2), np.tile(range(n), 2))
    scale = 2.0 if name == "confusion" else 1.0
    assert twice.value == pytest.approx(scale * once.value, rel=2e-3)
    assert twice.error == pytest.approx(scale * once.error, rel=0.01)
    assert twice.high - twice.low == pytest.approx(scale * (once.high - once.low), rel=0.05)


@pytest.mark.usefixtures("as_users_call")
def test_intervals_hold_in_units():
    """Over 300 samples of 60 public units of 10 dependent rows, 280 intervals of accuracy hold, and 230 without units.

    A right interval of level 0.95 holds in fewer than 268 with probability 1e-4; words and rows have seeds.
    """
    rng, space, units, held = np.random.default_rng(43), Classes([0, 1]), np.repeat(range(60), 10), np.zeros(2)
    for _ in range(300):
        release = Release.public(in_units(rng, 60, 10, 0.3, 0.7), space)
        found = [metrics.accuracy(release, np.ones(600, dtype=int), units=each) for each in (units, None)]
        held += [each.low <= 0.3 <= each.high for each in found]
    assert held[0] >= 268
    assert held[1] < 240


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("epsilon", [None, 20.0], ids=["public", "noise"])
def test_intervals_hold_in_units_of_many_sizes(epsilon):
    """Of 600 units a tenth have 20 rows, which predictions fit less well: of 100 intervals of each metric 83 hold.

    A right interval of level 0.95 holds in fewer with probability 1e-5. As if units had their mean size, 66 to 74 hold.
    """
    rng, space, held = np.random.default_rng(44), Classes([0, 1]), np.zeros(3)
    chances, rows = np.array([[0.2, 0.9], [0.6, 0.6]]), np.array([0.9, 2.0]) / 2.9  # of a 1, and of a right prediction
    truth = [rows @ chances[:, 1], rows @ chances.prod(axis=1) / (rows @ chances[:, 0])]
    truth.append(rows @ ((1 - chances[:, 0]) * chances[:, 1]) / (rows @ (1 - chances[:, 0])))
    for _ in range(100):
        large = (rng.random(600) < 0.1).astype(int)
        units = np.repeat(np.arange(600), np.where(large, 20, 1))
        labels, right = ((rng.random((600, 2)) < chances[large]).astype(int)[units]).T
        curator = Curator(labels, space, units=units)
        release = Release.public(labels, space) if epsilon is None else curator.randomize(epsilon=epsilon)
        predicted = np.where(right, labels, 1 - labels)
        recall = metrics.recall(release, predicted, units=units)
        found = (metrics.accuracy(release, predicted, units=units), recall[1], recall[0])
        held += [each.low <= true <= each.high for each, true in zip(found, truth, strict=True)]
    assert (held >= 83).all(), held


def test_folds_keep_units_together():
    """Rows of one unit are in one fold of those that the most common class is chosen on."""
    space = Classes(["a", "b"])
    release = Curator(["a", "b"] * 50, space).randomize(RandomizedResponse(space, 1.0))
    units = np.repeat(range(20), 5)
    folds = metrics.folds_to_choose_on(release, None, units)
    assert {len(set(folds[units == unit])) for unit in range(20)} == {1}
    assert len(set(folds)) == 5


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("units", "message"),
    [
        ([1, 2], "a unit for each of the 4 labels, found 2"),
        (["a", None, "b", "c"], "1 rows without one"),
        ([1, "a", 2.0, 3], "all numbers, all texts"),
    ],
)
def test_units_that_cannot_be_used_are_refused(units, message):
    """A unit is needed for each row; the message names what was found."""
    release = Release.public(["a", "b", "a", "b"], Classes(["a", "b"]))
    for ask in (metrics.accuracy, metrics.recall, metrics.confusion_matrix):
        with pytest.raises(InputError, match=message):
            ask(release, ["a"] * 4, units=units)
    with pytest.raises(InputError, match=message):
        metrics.log_loss(release, np.full((4, 2), 0.5), units=units)


def test_a_class_in_few_units_leaves_open_how_alike_they_are():
    """Three of 200 public rows in three units of ten: the interval is that of 20 rows, if the others are alike."""
    space, labels = Classes(["no", "yes"]), np.array(["no"] * 200, dtype=object)
    labels[[5, 77, 130]] = "yes"
    units = np.repeat(range(20), 10)
    found = metrics.accuracy(Release.public(labels, space), ["yes"] * 200, units=units)
    alone = metrics.accuracy(Release.public(labels, space), ["yes"] * 200)
    assert alone.high < 0.05
    assert found.high > 0.1
    single = metrics.accuracy(Release.public(labels, space), ["yes"] * 200, units=[1] * 200)
    assert (single.low, single.high) == (pytest.approx(0.0, abs=1e-6), pytest.approx(1.0))


def test_few_large_units_among_many_small_ones_have_students_quantile():
    """Twelve units of twenty rows carry all variance beside 588 of one row: eleven degrees of freedom, 2.201 errors."""
    values = np.concatenate([np.repeat([-2.0, -1.0, 0.0, 0.0, 1.0, 2.0], 40), np.zeros(588)])
    units = np.concatenate([np.repeat(np.arange(12), 20), np.arange(12, 600)])
    found = metrics.mean_of_rows(values, 0.95, units=units)
    assert found.high / found.error == pytest.approx(2.201, abs=1e-3)


def test_few_units_have_students_quantile():
    """The mean of five units of three rows has Student's interval with four degrees of freedom: 2.776 errors."""
    found = metrics.mean_of_rows(np.repeat([-2.0, -1.0, 0.0, 1.0, 2.0], 3), 0.95, units=np.repeat(range(5), 3))
    assert found.error == pytest.approx(np.sqrt(2.5 / 5))
    assert (found.low, found.high) == (pytest.approx(-2.776445 * found.error), pytest.approx(2.776445 * found.error))


NUMBERS = Interval(0, 10, 1)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_given_twice_say_no_more(name):
    """If each row of numbers stands there twice, as one unit, intervals are about those of the rows once."""
    rng = np.random.default_rng(46)
    labels = rng.integers(0, 11, 300).astype(float)
    predicted = [np.clip(labels + rng.integers(-2, 3, 300), 0, 10)] if name != "mean_label" else []
    once = getattr(metrics, name)(Release.public(labels, NUMBERS), *predicted)
    pairs, units = Release.public(np.tile(labels, 2), NUMBERS), np.tile(range(300), 2)
    twice = getattr(metrics, name)(pairs, *(np.tile(each, 2) for each in predicted), units=units)
    np.testing.assert_allclose(dataclasses.astuple(twice), dataclasses.astuple(once), rtol=1e-3)


@pytest.mark.parametrize(("size", "units", "open_"), [(5, 20, True), (5, 160, False), (1, 20, False)])
def test_few_public_units_say_nothing_of_the_largest_errors(size, units, open_):
    """Errors on public labels of few units have no upper end, and their share of the variance no lower one."""
    rng, space = np.random.default_rng(43), Interval(0.0, 20.0, 1.0)
    truth, of_units = rng.integers(0, 21, size * units).astype(float), np.repeat(np.arange(units), size)
    release = Release.public(truth, space)
    squared, absolute, share = (
        metric(release, np.full(len(truth), 10.0), units=of_units)
        for metric in (metrics.mean_squared_error, metrics.mean_absolute_error, metrics.r2)
    )
    assert np.isinf([squared.high, absolute.high, share.low]).tolist() == [open_] * 3
    assert np.isfinite([squared.low, absolute.low, share.high, squared.value, absolute.value, share.value]).all()
    noisy = Curator(truth, space, budget=8.0).randomize(RandomizedResponse(space, 8.0))
    assert np.isfinite(metrics.mean_squared_error(noisy, np.full(len(truth), 10.0), units=of_units).high)


@pytest.mark.parametrize(
    ("epsilon", "units", "open_"),
    [(np.inf, 8, True), (15.0, 8, True), (15.0, 40, False), (2.0, 8, False), (4.0, 8, True)],
)
def test_few_units_say_nothing_of_the_largest_losses(epsilon, units, open_):
    """A model that is too sure may be right in each of eight units: unless noise is most of it, a loss has no end."""
    space, codes = Classes([0, 1]), np.repeat(np.arange(units) % 2, 10)
    sure = np.where(codes[:, None] == [0, 1], 0.97, 0.03)
    release = Release.public(codes.tolist(), space)
    if np.isfinite(epsilon):
        release = Curator(codes.tolist(), space, budget=epsilon).randomize(RandomizedResponse(space, epsilon))
    found = metrics.log_loss(release, sure, units=np.repeat(np.arange(units), 10))
    assert np.isinf(found.high) == open_
    assert np.isfinite([found.low, found.value]).all()


def test_the_noise_of_one_large_unit_shows_in_a_single_total(randomized):
    """Of 60 intervals of an area of 0.8, where a unit with a third of the rows makes the noise, 54 or more hold it.

    Fewer come once in 33 where 95 in 100 do (binomial); with a degree of freedom for each unit 50 do. Draws have seeds.
    """
    rng, groups = np.random.default_rng(47), np.repeat([0, 1], [100, 200])
    channel = GroupedChannel(2, (ResponseChannel.at(2, 0.04), ResponseChannel.at(2, 4.0)), (100, 1), groups)
    units, held = np.concatenate([np.zeros(100, dtype=int), np.arange(1, 201)]), 0
    for seed in range(60):
        labels = rng.random(201) < 0.5
        scores = np.where(rng.random(201) < 0.6, labels, rng.random(201) < 0.5)
        found = metrics.auc(randomized(labels[units], channel, seed), scores[units].astype(float), 1, units=units)
        held += found.low <= 0.8 <= found.high
    assert held >= 54
