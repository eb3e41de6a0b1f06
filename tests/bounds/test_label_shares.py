"""The distribution of labels from releases and answers, against the labels."""

import re

import numpy as np
import pytest

import labeldp as dp
from labeldp.bounds import Conventions, UnitSizes, counting_space, forecast, label_shares
from labeldp.bounds.planning import check_counts
from labeldp.errors import InputError

ROWS = 20_000
LETTERS, SCALE = dp.Classes(["a", "b", "c"]), dp.Interval(0, 100, 1)
AMOUNTS = np.minimum(np.random.default_rng(2).exponential(15.0, ROWS), 100.0)
NAMES = np.array(["a", "b", "c"])[np.digitize(np.random.default_rng(3).random(ROWS), (0.7, 0.9))].tolist()
POINTS = np.arange(101.0)


def moments(shares):
    """Mean and standard deviation on the scale."""
    mean = shares @ POINTS
    return mean, np.sqrt(shares @ (POINTS - mean) ** 2)


@pytest.mark.parametrize(
    "released",
    [
        lambda asked: asked.answer(dp.NoisyHistogram(LETTERS, 0.5, np.arange(ROWS) % 3)),
        lambda asked: asked.randomize(dp.SubsetResponse(LETTERS, 3.0)),
    ],
    ids=["histogram", "sets"],
)
def test_shares_of_classes_are_theirs(released):
    """Noisy counts of cells, and released sets, give the shares; by six standard errors, below 0.03."""
    shares = label_shares(released(dp.Curator(NAMES, LETTERS)))
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.03)
    assert shares.sum() == pytest.approx(1)


def test_moments_are_those_of_released_numbers():
    """Released numbers give a distribution with the mean and the variance of the labels, through the channel."""
    release = dp.Curator(AMOUNTS, SCALE).randomize(dp.PiecewiseResponse(SCALE, 4.0))
    shares = label_shares(release)
    assert moments(shares) == pytest.approx((AMOUNTS.mean(), AMOUNTS.std()), rel=0.1)
    numbers, squares = release.numbers(), release.numbers(2)
    stated = numbers.mean(), np.sqrt(squares.mean() - numbers.mean() ** 2)
    assert moments(shares) == pytest.approx(stated, rel=1e-3)
    assert shares[:20].sum() > 0.6  # most labels are small


def test_mean_and_quantiles_are_those_of_the_answers():
    """Of all distributions with one mean and two quantiles, the one of most entropy has exactly these."""
    asked = dp.Curator(AMOUNTS, SCALE, budget=2.0)
    levels = (0.5, 0.9)
    answers = [
        asked.answer(dp.NoisyMean(SCALE, 0.5)),
        *(asked.answer(dp.NoisyQuantile(SCALE, 0.5, each)) for each in levels),
    ]
    shares = label_shares(*answers)
    assert moments(shares)[0] == pytest.approx(float(answers[0].value[0]), abs=0.05)
    for level, answer in zip(levels, answers[1:], strict=True):
        assert shares[: int(answer.value[0]) + 1].sum() == pytest.approx(level, abs=1e-3)
    assert moments(shares)[1] == pytest.approx(AMOUNTS.std(), rel=0.15)


def test_counts_on_another_grid():
    """Counts on 33 points stand for 101 and for 5: mass is neither lost nor moved by more than half a point."""
    coarse = counting_space(SCALE)
    assert (coarse.size, counting_space(LETTERS), counting_space(dp.Interval(0, 32, 1)).size) == (33, LETTERS, 33)
    answer = dp.Curator(AMOUNTS, coarse).answer(dp.NoisyHistogram(coarse, 1.0))
    for space in (SCALE, dp.Interval(0, 100, 25)):
        shares, points = label_shares(answer, space=space), np.array(space.points)
        assert shares.sum() == pytest.approx(1)
        assert shares.min() >= 0
        assert shares @ points == pytest.approx(AMOUNTS.mean(), abs=2.0)
        assert shares[points <= 50].sum() == pytest.approx((50 + space.step / 2 >= AMOUNTS).mean(), abs=0.02)
    same = label_shares(answer, space=coarse)
    np.testing.assert_array_equal(same, label_shares(answer))
    np.testing.assert_allclose(same, answer.distributions()[0])


def test_noise_is_that_at_the_labels():
    """With shares, the noise in a forecast is the mean over labels that follow them."""
    shares = np.zeros(101)
    shares[[0, 10]] = 0.9, 0.1
    law = dp.PiecewiseResponse(SCALE, 3.0).channel()
    even, known = (
        {each.mechanism: each for each in forecast(SCALE, 900, 3.0, epsilons=(), conventions=told).options}
        for told in (Conventions(), Conventions(shares=shares))
    )
    assert known["piecewise"].noise ** 2 == pytest.approx(shares @ law.variances)
    assert known["optimal"].noise > even["optimal"].noise  # its largest variance is at the ends
    assert known["minimax"].error < known["optimal"].error
    assert forecast(SCALE, 900, 3.0, conventions=Conventions(shares=shares)).spread == pytest.approx(3.0)


@pytest.mark.parametrize(
    "sources",
    [
        lambda asked, _: [asked.randomize(dp.PiecewiseResponse(SCALE, 0.02))],
        lambda asked, _: [asked.answer(dp.NoisyHistogram(SCALE, 0.001))],
        lambda asked, _: [asked.randomize(dp.OneBitResponse(SCALE, 4.0))],
        lambda asked, _: [asked.answer(dp.NoisyMean(SCALE, 1.0, np.arange(ROWS) % 2))],
        lambda _, asked: [asked.answer(dp.NoisyArgmax(LETTERS, 1.0))],
        lambda _, asked: [asked.randomize(dp.PriorResponse(LETTERS, 1.0, np.full((ROWS, 3), 1 / 3)))],
        lambda one, other: [one.answer(dp.NoisyMean(SCALE, 1.0)), other.answer(dp.NoisyHistogram(LETTERS, 1.0))],
        lambda _, asked: [asked.answer(dp.NoisyHistogram(LETTERS, 1.0)), asked.answer(dp.NoisyHistogram(LETTERS, 1.0))],
        lambda *_: [],
    ],
    ids=["noise", "noisy counts", "one bit", "cells", "argmax", "candidates", "two spaces", "two histograms", "none"],
)
def test_what_tells_no_distribution_is_refused(sources):
    """Noise that hides the spread, a channel without squares, and other answers are refused in words."""
    with pytest.raises(InputError, match=r"expected .* found"):
        label_shares(*sources(dp.Curator(AMOUNTS, SCALE, budget=9.0), dp.Curator(NAMES, LETTERS, budget=9.0)))


@pytest.mark.parametrize(("rows", "most", "space"), [(2000, 4, SCALE), (100, 1, dp.Interval(0, 2, 1)), (60, 7, SCALE)])
def test_counts_whose_noise_hides_even_labels_are_refused_before(rows, most, space):
    """The message names the least epsilon, in two digits, at which labels on every point alike have a clear spread."""
    units = UnitSizes((1, most), (rows - most, most))
    with pytest.raises(InputError, match="noise hides") as refused:
        check_counts(space, rows, 0.01, units)
    least = float(re.search(r"--buy (\S+)", str(refused.value))[1])
    check_counts(space, rows, least, units)
    check_counts(LETTERS, rows, 0.01, units)
    places = np.array(counting_space(space).points) / space.high * 2 - 1
    query = dp.NoisyHistogram(counting_space(space), 0.8 * least)
    noise = query.deviation(query.law(most)) * np.sqrt(np.sum(places**4)) / rows
    assert 1.0 < 2.0 * noise / np.mean(places**2) < 1.3
    with pytest.raises(InputError, match="noise hides"):
        check_counts(space, rows, 0.8 * least, units)
