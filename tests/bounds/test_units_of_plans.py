"""Plans for privacy units of several rows: figures against the grouped channel of a release, and naive sums."""

import itertools
import math

import numpy as np
import pytest

from labeldp import BitResponse, Classes, Curator, Interval, LaplaceResponse, SubsetResponse
from labeldp.bounds import Conventions, UnitSizes, forecast, plan
from labeldp.bounds.planning import EPSILONS
from labeldp.errors import InputError
from labeldp.mechanisms.randomizers import class_expectation, grouped, per_unit
from labeldp.privacy.channels import share_at

ROWS_PER_UNIT = np.repeat([1, 2, 5], [30, 20, 8])
UNITS = UnitSizes.of(ROWS_PER_UNIT)
ROWS = int(ROWS_PER_UNIT.sum())


def test_rows_are_counted_by_the_size_of_their_unit():
    """Rounded up to powers of two, as in a release, where there are more than 64 sizes."""
    assert UNITS.sizes == (1, 2, 5)
    assert UNITS.rows == (30, 40, 40)
    assert UNITS.coarse() == UnitSizes((1, 2, 8), (30, 40, 40))
    many = UnitSizes.of(np.arange(1, 101))
    assert many.sizes == (1, 2, 4, 8, 16, 32, 64, 128)
    assert sum(many.rows) == 5050


@pytest.mark.parametrize("wrong", [((), ()), ((1,), (1, 2)), ((0,), (3,)), ((1,), (-1,))])
def test_sizes_that_are_none_are_refused(wrong):
    """Empty, of different lengths, or negative."""
    with pytest.raises(InputError, match="expected the number of rows in units of each size"):
        UnitSizes(*wrong)


@pytest.mark.parametrize("kind", [SubsetResponse, BitResponse])
@pytest.mark.parametrize("shares", [None, (0.5, 0.2, 0.1, 0.1, 0.1)])
def test_a_plan_states_the_channel_of_its_release(kind, shares):
    """The means over rows, and the certified epsilon, of the channel that a release groups by units."""
    randomizer = kind(Classes(range(5)), 2.0)
    channel = grouped(per_unit(randomizer, UNITS.sizes), np.repeat(ROWS_PER_UNIT, ROWS_PER_UNIT))
    found = plan(5, ROWS, 2.0, shares=shares, units=UNITS)
    (option,) = (each for each in found.options if each.mechanism == randomizer.name)
    at = np.full(5, 0.2) if shares is None else np.array(shares)
    expected = class_expectation(channel, np.ones(()))
    assert option.share == pytest.approx(share_at(channel, at), rel=1e-9)
    assert option.most_share == pytest.approx(expected.clean_share, rel=1e-9)
    assert option.truth_probability == pytest.approx(expected.truth_probability, rel=1e-9)
    assert option.certified == channel.epsilon
    assert 2.0 * (1 - 1e-9) < option.certified <= 2.0
    assert option.most_share < plan(5, ROWS, 2.0).options[0].most_share


@pytest.mark.parametrize("space", [Classes(range(5)), Interval(0, 10, 1)])
def test_one_row_of_each_unit_is_planned_beside_all(space):
    """As if units were rows; and sums of all rows have the mean variance of these, not that of weighted ones."""
    found, alone = (forecast(space, rows, 1.0, epsilons=(), units=units) for rows, units in ((ROWS, UNITS), (58, None)))
    (single,) = (each for each in alone.options if each.auto)
    assert found.one_row_each.rows == 58
    assert found.one_row_each.effective_rows == pytest.approx(single.effective_rows, abs=1)
    assert found.one_row_each.noise == pytest.approx(single.noise, rel=1e-2)
    of_sizes = (forecast(space, 1, 1.0 / size, epsilons=()).options for size in UNITS.sizes)
    (name,) = {each.mechanism for each in found.options if each.auto}
    each = [option.noise**2 for options in of_sizes for option in options if option.mechanism == name]
    assert found.alike_noise**2 == pytest.approx(np.average(each, weights=UNITS.rows), rel=1e-2)
    assert (alone.one_row_each, alone.alike_noise) == (None, None)
    assert forecast(space, 58, 1.0, epsilons=(), units=UnitSizes((1,), (58,))).one_row_each is None


def test_shares_of_all_rows_err_by_the_noise_that_a_plan_states():
    """The standard error that releases of people with several rows print; a forecast to a fiftieth, by its formula."""
    units = np.repeat(np.arange(ROWS_PER_UNIT.size), ROWS_PER_UNIT)
    release = Curator(np.arange(ROWS) % 2, Classes([0, 1]), units=units).randomize(epsilon=1.0)
    channel = release.channel
    variances = np.asarray(channel.membership.other * (1 - channel.membership.other))
    variances = variances / np.asarray(channel.membership.true - channel.membership.other) ** 2
    found = forecast(Classes([0, 1]), ROWS, 1.0, epsilons=(), units=UNITS)
    assert found.alike_noise == pytest.approx(2.0 * math.sqrt(variances.mean()), rel=0.02)


def test_the_error_of_numbers_is_that_of_weighted_rows():
    """A mean of all labels that weights rows by one over their variance has this error."""
    space, spread = Interval(0, 10, 1), math.sqrt(10.0)
    found = forecast(space, ROWS, 2.0, epsilons=(), units=UNITS)
    (laplace,) = (each for each in found.options if each.mechanism == "laplace")
    weight = 0.0
    for size in ROWS_PER_UNIT:
        (law,) = LaplaceResponse(space, 2.0 if size == 1 else math.nextafter(2.0 / size, 0)).channel().number_laws()
        noise = float(np.mean(law.variance + (law.mean - np.arange(11)) ** 2))
        weight += size / (spread**2 + noise)
    assert laplace.error == pytest.approx(math.sqrt(1 / weight), rel=1e-9)
    assert laplace.certified <= 2.0
    ignored = next(each for each in forecast(space, ROWS, 2.0, epsilons=()).options if each.mechanism == "laplace")
    assert laplace.error > 1.2 * ignored.error


def test_a_curators_noise_grows_with_the_largest_unit():
    """An answer changes by as many labels as the largest unit has, so epsilon counts for a fifth here."""
    space, plane = Interval(0, 10, 1), Conventions(dimension=2)
    found = forecast(space, 10_000, 2.0, trust="central", conventions=plane, epsilons=(), units=UNITS)
    fifth = forecast(space, 10_000, 0.4, trust="central", conventions=plane, epsilons=())
    assert [each.error for each in found.options] == [each.error for each in fifth.options]
    assert all(each.certified <= 2.0 for each in found.options)


def test_one_row_for_each_epsilon():
    """The mechanism is the default, its error that of the options, and epsilons are in order."""
    conventions = Conventions(dimension=2)
    planned = forecast(Classes(range(3)), 5000, 0.7, conventions=conventions, units=UNITS)
    rows = planned.over_epsilon
    assert [row.epsilon for row in rows] == sorted({0.7, *EPSILONS})
    (row,) = (row for row in rows if row.epsilon == 0.7)
    assert row == next(option for option in planned.options if option.auto)
    assert all(later.error <= earlier.error for earlier, later in itertools.pairwise(rows))
    central = forecast(Classes(range(3)), 5000, 0.7, conventions=conventions, trust="central")
    assert next(row for row in central.over_epsilon if row.epsilon == 0.7) == central.best
