"""Regression from cells: means as far as noise allows, their standard errors, and heavy tails that are clipped."""

import math

import numpy as np
import pytest

import labeldp as dp
from labeldp.errors import BudgetError, EpsilonError, InputError, LabelError, NotTrueLabelsError
from labeldp.learning.cells import clip_for, cluster, tree_cells
from labeldp.learning.sklearn import CellRegressor, mean_in_cells

SPACE, RATINGS = dp.Interval(0.0, 10.0, 0.25), dp.Interval(1.0, 5.0, 1.0)


def sloped(rows=4000, seed=0):
    """Features in a square, their means and labels on the grid."""
    rng = np.random.default_rng(seed)
    features = rng.random((rows, 2))
    mean = 2.0 + 6.0 * features[:, 0] * features[:, 1]
    return features, mean, np.clip(mean + rng.normal(size=rows), 0.0, 10.0)


def average(cells, values):
    """The mean in each cell."""
    return np.bincount(cells.numbers, values) / np.bincount(cells.numbers)


@pytest.mark.parametrize("space", [SPACE, RATINGS])
@pytest.mark.parametrize("query", [dp.NoisyMean, dp.NoisyHistogram])
def test_little_noise_gives_the_means_of_cells(space, query):
    """With a large epsilon they are the means of labels on the grid, and each row has that of its cell."""
    features, _, labels = sloped()
    cells = tree_cells(features, 9)
    answer = dp.Curator(labels, space).answer(query(space, 600.0, cells, cells.count))
    model = CellRegressor(cells, spread=0.0).fit(features, answer)
    expected = average(cells, np.array(space.points)[space.encode(labels)])
    np.testing.assert_allclose(model.means_, expected, atol=1e-3)
    np.testing.assert_allclose(model.predict(features), expected[cells.numbers], atol=1e-3)
    assert model.range_ == (space.low, space.high)
    again = CellRegressor(cells, spread=0.0).fit(features, answer, cells.numbers)
    np.testing.assert_array_equal(again.means_, model.means_)


def of_many_cells(query, seed, cells=2000, spread=0.0, epsilon=2.0):
    """A model of cells of very different sizes, their true means, and how many rows each has."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(20, 200, cells)
    numbers = np.repeat(np.arange(cells), rows)
    truth = np.clip(rng.normal(3.0, 0.15, cells), 1.0, 5.0)
    labels = np.clip(truth[numbers] + spread * rng.normal(size=len(numbers)), 1.0, 5.0)
    space = dp.Interval(1.0, 5.0, 1.0 / 64) if query is dp.NoisyMean else RATINGS
    if query is dp.NoisyHistogram:  # rounded up or down by chance, so that labels have the mean and a known spread
        labels = np.floor(labels + rng.random(len(labels)))
    answer = dp.Curator(labels, space).answer(query(space, epsilon, numbers))
    clusters = cluster(np.arange(cells)[:, None], 1)
    model = CellRegressor(clusters, spread=spread if query is dp.NoisyMean else None)
    return model.fit(np.empty((len(numbers), 1)), answer, numbers), truth


@pytest.mark.parametrize(("query", "spread"), [(dp.NoisyMean, 0.0), (dp.NoisyMean, 0.5), (dp.NoisyHistogram, 0.5)])
def test_standard_errors_are_those_of_errors(query, spread):
    """Over two thousand cells, squared errors over squared standard errors are 1 on average.

    Their mean has a standard error of about 0.05, for tails of Laplace noise; it is within 0.3 of 1, so that an alarm
    is false with a chance below 1e-8. How much cells differ, and their mean, are found.
    """
    model, truth = of_many_cells(query, seed=1, spread=spread, epsilon=1.0)
    assert np.mean(((model.means_ - truth) / model.standard_errors_) ** 2) == pytest.approx(1.0, abs=0.3)
    assert model.between_ == pytest.approx(0.15, abs=0.05)
    assert model.overall_ == pytest.approx(3.0, abs=0.05)


def test_cells_that_noise_hides_have_the_mean_of_all_rows():
    """At a small epsilon, cells that do not differ are given one mean; its error is far below that of each cell."""
    numbers = np.arange(20_000) % 200
    space = dp.Interval(0.0, 10.0, 0.5)
    clusters = cluster(np.arange(200.0)[:, None], 1)
    answer = dp.Curator(np.full(20_000, 3.0), space).answer(dp.NoisyMean(space, 0.2, numbers))
    model = CellRegressor(clusters).fit(np.empty((20_000, 1)), answer, numbers)
    assert np.abs(model.means_ - 3.0).mean() < 0.4 * np.abs(answer.value - 3.0).mean()


def test_a_mean_that_was_paid_for_is_what_cells_are_drawn_to():
    """It is the mean of cells without rows, and of cells that the answer does not know."""
    features, _, labels = sloped()
    cells = tree_cells(features, 4)
    numbers = cells.numbers + (cells.numbers > 1)  # the third of five cells has no rows
    curator = dp.Curator(labels, SPACE, budget=10.0)
    answer = curator.answer(dp.NoisyMean(SPACE, 1.0, numbers, 5))
    overall = curator.answer(dp.NoisyMean(SPACE, 0.05))
    model = CellRegressor(cells).fit(features, answer, numbers, overall)
    assert model.overall_ == model.means_[2] == overall.value[0]
    assert model.overall_error_ == pytest.approx(np.sqrt(2) * 10.0 / (4000 * 0.05), rel=1e-2)
    assert model.standard_errors_[2] == pytest.approx(math.hypot(model.between_, model.overall_error_))
    assert model.answers_ == (answer, overall)
    short = dp.Curator(labels[:2], SPACE).answer(dp.NoisyMean(SPACE, 5.0, np.array([0, 1])))
    few = CellRegressor(cells).fit(features[:2], short, np.array([0, 1]))
    np.testing.assert_array_equal(few.predict(features[cells.numbers == 3]), few.overall_)
    assert (few.predict_std(features[cells.numbers == 3]) >= few.overall_error_).all()


def test_heavy_tails_are_clipped_where_most_labels_end():
    """Of labels with a second moment in a range a thousand times as wide, clipped means are far nearer to the truth.

    Their error is about a thirtieth; it exceeds a fifth with a chance far below 1e-9.
    """
    rng = np.random.default_rng(3)
    features = rng.random((40_000, 2))
    mean = 20.0 * features[:, 0]
    labels = mean + rng.standard_t(2.5, 40_000)
    space, cells = dp.Interval(-10_000, 10_000, 0.5), tree_cells(features, 40)
    truth = average(cells, mean)
    curator = dp.Curator(labels, space, budget=1.0)
    model = mean_in_cells(curator, cells, epsilon=1.0)
    assert 0.99 < curator.spent[0] <= 1.0
    assert [answer.query for answer in model.answers_] == ["noisy-mean", "noisy-quantile"]
    assert model.range_[0] == -model.range_[1]
    assert 18.0 < model.range_[1] < 80.0
    assert model.answers_[0].law["sensitivity"] == str(int(2 * (model.range_[1] - model.range_[0])))
    plain = CellRegressor(cells).fit(features, dp.Curator(labels, space).answer(dp.NoisyMean(space, 1.0, cells)))
    assert np.abs(model.means_ - truth).mean() < 0.2 * np.abs(plain.means_ - truth).mean()


def test_few_rows_are_not_clipped():
    """Where quantiles could not be found, all of epsilon goes into means of the whole range."""
    features, _, labels = sloped(60)
    model = mean_in_cells(dp.Curator(labels, SPACE), tree_cells(features, 3), epsilon=0.5)
    assert (model.range_, len(model.answers_)) == ((0.0, 10.0), 1)
    assert model.answers_[0].guarantee.epsilon == pytest.approx(0.5)


def test_labels_on_the_middle_are_clipped_to_a_step_around_it():
    """A quantile of no distance leaves a range all the same, and no end is beyond the interval."""
    cells = tree_cells(np.arange(9000.0)[:, None], 3)
    for label, ends in ((10.0, (9.75, 10.0)), (3.0, (2.75, 3.25)), (0.0, (0.0, 0.25))):
        curator = dp.Curator(np.full(9000, label), SPACE)  # 15 ranks are allowed for, which are missed below 1e-60
        assert mean_in_cells(curator, cells, 20.0, share=0.99, around=label).range_ == ends


def test_a_budget_that_does_not_suffice_draws_nothing():
    """Both requests are checked before the first."""
    features, _, labels = sloped()
    curator = dp.Curator(labels, SPACE, budget=0.5)
    with pytest.raises(BudgetError):
        mean_in_cells(curator, tree_cells(features, 5), epsilon=0.6)
    with pytest.raises(InputError, match="each of the 4000 rows, found 3999"):
        mean_in_cells(curator, tree_cells(features[1:], 5), epsilon=0.5)
    assert curator.spent == (0.0, 0.0)


def test_the_clipping_level_of_a_moment_balances_bias_and_noise():
    """It makes the bound of the squared error least, as the theory prints it, and grows with the p-th root of rows."""
    for p in (2.0, 3.0, 4.5):
        c = (p - 1) ** (p - 1) / p**p
        found = clip_for(500, 0.3, p, 2.0)
        assert found == pytest.approx(((p - 1) * c**2 * 4.0 * (500 * 0.3) ** 2 / 8) ** (1 / (2 * p)))

        def error(level, p=p, c=c):
            return (c * 2.0 * level ** (1 - p)) ** 2 + 8 * (level / (500 * 0.3)) ** 2

        assert error(found) <= min(error(found * by) for by in (0.9, 0.99, 1.01, 1.1))
        assert clip_for(1000, 0.3, p, 2.0) / found == pytest.approx(2 ** (1 / p))


@pytest.mark.parametrize("make", [dp.OneBitResponse, dp.LaplaceResponse, dp.OptimalResponse])
@pytest.mark.parametrize("units", [None, np.repeat(np.arange(15_000), np.resize([1, 3], 15_000))])
def test_released_labels_are_averaged_in_cells(make, units):
    """Means of cells are those of labels within their standard errors: five of them in none of eight cells (5e-6)."""
    space, features = dp.Interval(0.0, 10.0, 0.1), np.linspace(0.0, 1.0, 30_000)[:, None]
    labels, cells = 10.0 * features[:, 0], tree_cells(features, 8)
    curator = dp.Curator(labels, space, units=units)
    model = CellRegressor(cells).fit(features, curator.randomize(make(space, 3.0)))
    truth = np.bincount(cells.numbers, labels) / np.bincount(cells.numbers)
    assert (np.abs(model.means_ - truth) < 5 * model.standard_errors_).all()
    assert model.standard_errors_.max() < 1.5
    assert model.predict([[0.0], [1.0]]).tolist() == [model.means_[0], model.means_[-1]]
    assert model.answers_ == ()


def test_public_labels_have_the_means_of_cells():
    """Without noise the table is that of labels, and a release of bins or with an overall answer is refused."""
    space, features = dp.Interval(0.0, 10.0, 0.1), np.repeat([[0.0], [1.0]], 500, axis=0)
    cells, labels = tree_cells(features, 2), np.repeat([2.0, 7.0], 500)
    release = dp.Release.public(labels, space)
    assert CellRegressor(cells).fit(features, release).means_ == pytest.approx([2.0, 7.0], abs=0.01)
    bins = dp.Curator(labels, space).randomize(dp.BinResponse(space, 1.0, np.full(space.size, 1 / space.size)))
    with pytest.raises(InputError, match="found bins, candidates or clusters"):
        CellRegressor(cells).fit(features, bins)
    with pytest.raises(InputError, match="expected no overall= with a release"):
        CellRegressor(cells).fit(features, release, overall=asked(dp.NoisyMean(SPACE, 1.0)))
    with pytest.raises(InputError, match="expected the 1000 rows"):
        CellRegressor(cells).fit(features[:10], release)


def fitted(y, **options):
    """A model of two cells of two rows each."""
    features = np.array([[0.0], [0.1], [1.0], [1.1]])
    return CellRegressor(options.pop("clusters", tree_cells(features, 2)), **options).fit(features, y)


def asked(query, labels=(1.0, 2.0, 3.0, 4.0)):
    """The answer of a curator."""
    return dp.Curator(list(labels), query.space).answer(query)


TWO = np.array([0, 0, 1, 1])
BAD = {
    "bare labels": (lambda: fitted([1.0, 2.0, 3.0, 4.0]), "expected an Answer as labels", NotTrueLabelsError),
    "quantiles": (
        lambda: fitted(asked(dp.NoisyQuantile(SPACE, 1.0, 0.5, TWO))),
        "answer of means of cells or counts of classes, found that to noisy-quantile",
    ),
    "classes": (
        lambda: fitted(asked(dp.NoisyHistogram(dp.Classes(["a", "b"]), 1.0, TWO), "abab")),
        "on an Interval, found one about classes",
        LabelError,
    ),
    "names": (lambda: fitted(asked(dp.NoisyArgmax(RATINGS, 1.0, TWO))), "found that to noisy-argmax"),
    "other rows": (lambda: fitted(asked(dp.NoisyMean(SPACE, 1.0), [1.0] * 5)), "the 5 rows that the answer"),
    "other cells": (lambda: fitted(asked(dp.NoisyMean(SPACE, 1.0))), "expected cells below 1, the number of cells"),
    "a spread of NaN": (
        lambda: fitted(asked(dp.NoisyMean(SPACE, 1.0, TWO)), spread=math.nan),
        "spread to be a number",
        EpsilonError,
    ),
    "a negative spread": (lambda: fitted(asked(dp.NoisyMean(SPACE, 1.0, TWO)), spread=-1.0), "at least 0, found -1"),
    "no clusters": (lambda: fitted(asked(dp.NoisyMean(SPACE, 1.0, TWO)), clusters=4), "found int"),
    "an overall mean of other rows": (
        lambda: CellRegressor(tree_cells(np.eye(4), 2)).fit(
            np.eye(4), asked(dp.NoisyMean(SPACE, 1.0, TWO)), TWO, asked(dp.NoisyMean(SPACE, 1.0), [1.0] * 5)
        ),
        "all 4 rows in one cell, found 5 rows in 1 cells",
    ),
    "a curator of classes": (
        lambda: mean_in_cells(dp.Curator(["a"] * 4, dp.Classes(["a", "b"])), tree_cells(np.eye(4), 2), 1.0),
        "found classes; request NoisyHistogram",
        LabelError,
    ),
    "cells without numbers": (
        lambda: mean_in_cells(dp.Curator([1.0] * 4, SPACE), TWO, 1.0),
        "with numbers, count and predict, found ndarray",
    ),
    "units": (
        lambda: mean_in_cells(dp.Curator([1.0] * 4, SPACE, units=TWO), tree_cells(np.eye(4), 2), 1.0),
        "found units of several rows",
    ),
    "no share": (
        lambda: mean_in_cells(dp.Curator([1.0] * 4, SPACE), tree_cells(np.eye(4), 2), 1.0, share=1.0),
        "share of epsilon above 0 and below 1, found 1",
    ),
    "a low moment": (lambda: clip_for(10, 1.0, 1.5, 1.0), "order p of the moment to be at least 2, found 1.5"),
    "a moment of NaN": (lambda: clip_for(10, 1.0, math.nan, 1.0), "p to be a number", EpsilonError),
    "no moment": (lambda: clip_for(10, 1.0, 2.0, 0.0), "moment to be a finite number above 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_fitted_is_refused(case):
    """By what was expected and found, and what to ask for instead."""
    ask, message, error = (*BAD[case], InputError)[:3]
    with pytest.raises(error, match=message):
        ask()
