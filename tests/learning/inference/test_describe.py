"""Shares, means and quantiles of the true labels of public groups."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from labeldp import Classes, Curator, Interval, RandomizedResponse, Release, release_table
from labeldp.cli import main
from labeldp.errors import InputError
from labeldp.learning.inference import describe
from labeldp.mechanisms.randomizers import RANDOMIZERS
from labeldp.testing import check_result

SPACE = Classes(["no", "yes"])
WARDS = np.array(["east", "west", "west", "west"] * 500)


def ill(rng):
    """Labels of which 20 % are yes in the east, and 60 % in the west."""
    return np.where(rng.random(2000) < np.where(WARDS == "east", 0.2, 0.6), "yes", "no")


def of(found, group, outcome):
    """The summary of an outcome in a group."""
    return next(each for each in found.summaries if (each.group, each.outcome) == (group, outcome))


def test_shares_of_groups_and_their_differences_are_recovered():
    """All intervals of a release hold the true shares together, in nearly every release."""
    truth = {"": 0.5, "east": 0.2, "west": 0.6}
    held = []
    for draw in range(20):
        labels = ill(np.random.default_rng(draw))
        release = Curator(labels, SPACE, budget=2.0).randomize(RandomizedResponse(SPACE, 2.0))
        found = describe(release, WARDS)
        shares = [of(found, group, "yes").estimate for group in truth]
        difference = of(found, "east", "yes").difference
        inside = [each.low <= share <= each.high for each, share in zip(shares, truth.values(), strict=True)]
        held.append(all([*inside, difference.low <= -0.4 <= difference.high]))
        assert difference.high < 0.0
    assert sum(held) >= 17


def test_public_shares_are_those_of_the_rows():
    """Of public labels the estimates are the shares of rows, and a difference that of two shares."""
    labels = ill(np.random.default_rng(3))
    found = describe(Release.public(labels.tolist(), SPACE), WARDS)
    share, others = (np.mean(labels[which] == "yes") for which in (WARDS == "east", WARDS != "east"))
    east = of(found, "east", "yes")
    assert math.isclose(east.estimate.value, share)
    assert math.isclose(east.difference.value, share - others)
    assert math.isclose(
        east.difference.error, math.sqrt(share * (1 - share) / 500 + others * (1 - others) / 1500), rel_tol=0.01
    )
    assert found.intervals == 5  # three shares and two differences: one of two classes tells the other


def test_more_intervals_are_wider():
    """Intervals that hold together are wider than one alone."""
    release = Release.public(ill(np.random.default_rng(4)).tolist(), SPACE)
    alone, together = (of(describe(release, by), "", "yes").estimate for by in (None, WARDS))
    assert together.high - together.low > alone.high - alone.low


def test_rows_of_a_unit_count_as_fewer():
    """Ten copies of each row give no narrower intervals than one of each."""
    labels = ill(np.random.default_rng(5))[:100].tolist()
    copies = np.repeat(np.arange(100), 10)
    one, many = Release.public(labels, SPACE), Release.public([labels[row] for row in copies], SPACE)
    widths = [
        (found := of(describe(each, units=units), "", "yes").estimate).high - found.low
        for each, units in ((one, None), (many, copies))
    ]
    assert widths[1] >= 0.95 * widths[0]


@pytest.mark.parametrize("mechanism", [None, "optimal", "piecewise"])
def test_means_and_quantiles_of_numbers_are_recovered(mechanism):
    """The intervals hold the true mean, median and ninth decile, and say something of them."""
    space, rng = Interval(0, 100, 5), np.random.default_rng(7)
    true = np.round(np.clip(rng.gamma(4.0, 10.0, 20_000), 0, 100) / 5) * 5
    release = (
        Release.public(true, space)
        if mechanism is None
        else Curator(true, space, budget=4.0).randomize(RANDOMIZERS.own[mechanism](space, 4.0))
    )
    found = describe(release, quantiles=(0.5, 0.9))
    mean, median, decile = (each.estimate for each in found.summaries)
    assert mean.low <= true.mean() <= mean.high
    for estimate, share in ((median, 0.5), (decile, 0.9)):
        exact = np.quantile(true, share, method="inverted_cdf")
        assert estimate.low <= exact <= estimate.high
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.high - estimate.low <= (10.0 if mechanism is None else 60.0)


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_differences_of_few_rows_are_as_open_as_their_shares(rows):
    """Of 60 releases 48 intervals of a difference hold it at the least: fewer come once in a million (binomial).

    The point is the difference of both shares as they are shown, and its interval is no narrower than that of the rows.
    """
    rng, space, held = np.random.default_rng(10), Classes(["a", "b", "c"]), 0
    group = ["few"] * rows + ["many"] * 400
    for _ in range(60):
        labels = [*rng.choice(["b", "c"], rows, p=[0.3, 0.7]), *rng.choice(["a", "b", "c"], 400, p=[0.1, 0.35, 0.55])]
        found = describe(Curator(labels, space).randomize(RandomizedResponse(space, 1.0)), group, level=0.25)
        few, many = of(found, "few", "a"), of(found, "many", "a")
        held += few.difference.low <= -0.1 <= few.difference.high
        assert math.isclose(few.difference.value, few.estimate.shown - many.estimate.shown)
        width = few.estimate.high - few.estimate.low
        assert few.difference.high - few.difference.low >= width - 1e-9
        assert few.estimate.low - many.estimate.high - 1e-9 <= few.difference.low
    assert held >= 48


def test_equal_numbers_of_few_rows_leave_their_mean_and_quantiles_open():
    """A bit that is the same in three rows is no proof of it: each bit comes in one row of four at the least."""
    space = Interval(0, 100, 25)
    while True:
        release = Curator([25.0] * 3, space).randomize(RANDOMIZERS.own["one-bit"](space, 0.5))
        if len(set(release.codes.tolist())) == 1:
            break
    mean, median = (each.estimate for each in describe(release, quantiles=(0.5,)).summaries)
    assert (median.low, median.high) == (0.0, 100.0)
    assert mean.low <= 25.0 <= mean.high
    public = of(describe(Release.public([50.0] * 10, space)), "", "mean").estimate
    missed = 1.0 - 0.025 ** (1.0 / 10)  # Clopper and Pearson, of ten units none of which is elsewhere
    assert (public.low, public.high) == pytest.approx((50.0 - 50.0 * missed, 50.0 + 50.0 * missed))


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ([10, 2, 1, 11], ["1", "2", "10", "11"]),
        (["10", "2.5", "-1", None], ["-1", "2.5", "10", "missing"]),
        (["10", "2", "1", "b"], ["1", "10", "2", "b"]),
        (["a", "missing", "(missing)", None], ["(missing)", "a", "missing", "((missing))"]),
    ],
)
def test_groups_that_are_numbers_are_in_their_order(by, order):
    """Numbers, also as texts, by their size, with missing values last; others as texts."""
    found = describe(Release.public(["no", "yes"] * 20, SPACE), pd.Series(by * 10))
    assert [each.group for each in found.summaries[2::2]] == order


def test_few_public_rows_do_not_tell_a_high_quantile():
    """Ten equal labels do not show that nine tenths of all labels are no larger."""
    found = describe(Release.public([20.0] * 10, Interval(0, 100, 20)), quantiles=(0.9,))
    assert of(found, "", "quantile 0.9").estimate.high == 100.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantiles": (0.5,)}, "found classes"),
        ({"by": ["east"]}, "for each of the 2000 rows as its group"),
        ({"by": np.arange(2000)}, "at most 200 groups, found 2000"),
    ],
)
def test_what_cannot_be_described_is_refused(options, message):
    """Quantiles of classes, groups of other rows, and groups without end."""
    with pytest.raises(InputError, match=message):
        describe(Release.public(ill(np.random.default_rng(1)).tolist(), SPACE), **options)


def test_a_folder_is_described_by_a_public_column(tmp_path, capsys):
    """The command states the same in text and in JSON, and names the columns where there is no such one."""
    frame = pd.DataFrame({"ward": WARDS, "ill": ill(np.random.default_rng(9))})
    frame.to_csv(tmp_path / "t.csv", index=False)
    release_table(tmp_path / "t.csv", "ill", SPACE, 4.0, tmp_path / "out", drop=[], budget=4.0, unit="row")
    assert main(["describe", str(tmp_path / "out"), "--by", "ward"]) == 0
    text = capsys.readouterr().out
    assert "Described the true 'ill' of 2,000 released rows, by 2 values of ward" in text
    assert main(["describe", str(tmp_path / "out"), "--by", "ward", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    east = next(
        each for each in described["described"]["summaries"] if (each["group"], each["outcome"]) == ("east", "yes")
    )
    assert east["estimate"]["low"] <= 0.2 <= east["estimate"]["high"]
    assert f"{east['estimate']['value']:.1%}" in text
    assert main(["describe", str(tmp_path / "out"), "--by", "warden"]) == 1
    assert "ward" in capsys.readouterr().err


def test_a_description_is_shown_alike_in_every_form():
    """A terminal, a page and a notebook state the same estimates, with intervals rounded outward."""
    release = Curator(ill(np.random.default_rng(2)), SPACE).randomize(RandomizedResponse(SPACE, 1.0))
    check_result(describe(release, WARDS))
    check_result(describe(Release.public([10.0, 20.0, 30.0] * 9, Interval(0, 100, 10)), quantiles=(0.5,)))


@pytest.mark.parametrize(("space", "labels"), [(SPACE, ["no", "yes"]), (Interval(0, 10, 1), [2, 7])])
def test_few_rows_that_make_most_of_the_noise_are_named(space, labels):
    """Without them the interval is far narrower; where units are alike, none are named."""
    sizes = np.repeat([1, 2, 12], [900, 200, 5])
    units = np.repeat(np.arange(len(sizes)), sizes)
    release = Curator(np.resize(labels, len(units)), space, units=units).randomize(epsilon=1.0)
    found = describe(release, units=units)
    whose = "60 of 1,360 rows make half of the noise or more: those of each unit with 12 rows or more"
    assert found.noisy.startswith(whose)
    rows_of = np.repeat(sizes, sizes)
    rest = describe(release[rows_of < 12], units=units[rows_of < 12])
    assert rest.summaries[0].estimate.error < 0.8 * found.summaries[0].estimate.error
    assert not describe(release[rows_of == 1], units=units[rows_of == 1]).noisy
    assert not describe(Release.public(["no", "yes"], SPACE)).noisy
