"""Whatever a plan lists under a name is what ``release --mechanism`` runs: channel, variance, effective rows."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from labeldp import Classes, Interval, Release, release_table
from labeldp.bounds import forecast, plan
from labeldp.mechanisms.randomizers import RANDOMIZERS, class_randomizers, number_expectation, number_randomizers

ROWS = 60
SCALE, LETTERS = Interval(-2, 3, 0.5), Classes(["a", "b", "c", "d"])
NUMBERS = [*(kind.name for kind in number_randomizers()), "randomized-response", "auto"]
CLASSES = [*(kind.name for kind in class_randomizers()), "auto"]


@pytest.fixture
def released(tmp_path):
    """A release of a small table by the mechanism of a name."""

    def releasing(space, mechanism, epsilon):
        source = tmp_path / "t.csv"
        pacsv.write_csv(pa.table({"y": [space.points[row % space.size] for row in range(ROWS)]}), source)
        done = release_table(source, "y", space, epsilon, tmp_path / "out", keep=[], mechanism=mechanism)
        return Release.load(done.output)

    return releasing


def planned(options, mechanism):
    """The row of a plan for a name; auto is no row of its own, but marks one."""
    (row,) = (each for each in options if (each.auto if mechanism == "auto" else each.mechanism == mechanism))
    return row


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("mechanism", NUMBERS)
def test_numbers_are_released_as_planned(released, mechanism, epsilon):
    """The noise and the effective rows of a forecast are those of the channel that the release was drawn with."""
    row = planned(forecast(SCALE, ROWS, epsilon, epsilons=()).options, mechanism)
    release = released(SCALE, mechanism, epsilon)
    (law,) = release.channel.number_laws()
    squares = law.variance + (law.mean - np.arange(SCALE.size)) ** 2
    assert row.noise == pytest.approx(math.sqrt(squares.mean()) * SCALE.step, rel=1e-9)
    assert row.certified == release.channel.epsilon == release.guarantee.epsilon
    expected = number_expectation(release.channel)
    assert row.share == pytest.approx(expected.clean_share, rel=1e-6)
    assert release.certificate.draws[-1].mechanism == row.mechanism


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("mechanism", CLASSES)
def test_classes_are_released_as_planned(released, mechanism, epsilon):
    """The form, the certified epsilon and the effective rows of a plan are those of the release."""
    row = planned(plan(LETTERS.size, ROWS, epsilon).options, mechanism)
    release = released(LETTERS, mechanism, epsilon)
    expects = release.certificate.expects
    assert row.detail == RANDOMIZERS.find(row.mechanism)(LETTERS, epsilon).detail
    assert (row.certified, row.mechanism) == (release.channel.epsilon, release.certificate.draws[-1].mechanism)
    assert (row.truth_probability, row.most_share) == pytest.approx((expects.truth_probability, expects.clean_share))
    assert row.at_most == math.floor(ROWS * row.most_share)
