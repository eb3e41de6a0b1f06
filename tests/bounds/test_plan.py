"""The planner, against laws written out and against closed forms."""

import itertools
import math

import numpy as np
import pytest

from labeldp import (
    BitResponse,
    Classes,
    Curator,
    Interval,
    LaplaceResponse,
    RandomizedResponse,
    SubsetResponse,
    best_response,
)
from labeldp.bounds import Conventions, UnitSizes, forecast, plan
from labeldp.bounds.planning import EPSILONS
from labeldp.errors import EpsilonError, InputError
from labeldp.mechanisms.randomizers import ProjectiveResponse, class_expectation, grouped, per_unit
from labeldp.privacy.channels import share_at, unpack


def size_of(option):
    """The size that an option of sets names."""
    return int(option.detail.split()[0])


def randomizer_of(option, classes):
    """The mechanism that an option describes, made anew."""
    space = Classes(range(classes))
    if option.mechanism == "subset":
        return SubsetResponse(space, option.epsilon, size_of(option))
    if option.mechanism == "projective":
        return ProjectiveResponse(space, option.epsilon, int(option.detail.removeprefix("1 in ").split()[0]))
    if option.mechanism == "bits":
        return BitResponse(space, option.epsilon, option.detail.split()[0])
    return RandomizedResponse(space, option.epsilon)


def law_of(option, classes):
    """Every outcome as a mask of classes, and its probability given each true class."""
    table = randomizer_of(option, classes).channel().table()
    if option.mechanism in ("subset", "bits"):
        return unpack(table.outcomes, classes), table.matrix
    return (table.matrix > table.matrix.min() * 1.00001).T, table.matrix


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_numbers_are_those_of_the_law_written_out(classes, epsilon):
    """Truth probability, share, clean rows, variance and certified epsilon are sums over all outcomes."""
    found = plan(classes, 12_345, epsilon)
    assert len(found.options) == 4
    for option in found.options:
        mask, matrix = law_of(option, classes)
        np.testing.assert_allclose(matrix.sum(axis=1), 1)
        inside = matrix @ mask
        p, q = inside[0, 0], inside[0, 1]
        assert option.truth_probability == pytest.approx(p, rel=1e-9)
        one = matrix[0] @ (mask[:, 0] != mask[:, 1])
        assert option.most_share == pytest.approx((p - q) ** 2 / one, rel=1e-7)
        assert option.at_most == math.floor(12_345 * option.most_share)
        vectors = (mask - q) / (p - q)
        spread = matrix[0] @ ((vectors - np.eye(classes)[0]) ** 2).sum(axis=1)
        np.testing.assert_allclose(matrix[0] @ vectors, np.eye(classes)[0], atol=1e-7)
        assert option.variance == pytest.approx(spread, rel=1e-7)
        worst = max(np.log(matrix[a] / matrix[b]).max() for a, b in itertools.permutations(range(classes), 2))
        assert option.certified == pytest.approx(worst, rel=1e-6)
        assert 0.99 * epsilon <= option.certified <= epsilon


@pytest.mark.parametrize("classes", [2, 4, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0, 8.0])
def test_the_best_is_what_auto_takes(classes, epsilon):
    """The marked option has the kind and the size that auto takes, and no option has more effective rows."""
    found = plan(classes, 100, epsilon)
    chosen = best_response(Classes(range(classes)), epsilon)
    marked = [option for option in found.options if option.auto]
    assert marked
    for option in marked:
        again = randomizer_of(option, classes)
        assert type(again) is type(chosen)
        assert again.channel().epsilon == chosen.channel().epsilon
        assert getattr(again.channel(), "size", 1) == getattr(chosen.channel(), "size", 1)
        assert option.most_share >= max(other.most_share for other in found.options) * (1 - 1e-12)


@pytest.mark.parametrize("classes", [2, 10, 300])
def test_the_most_effective_comes_first(classes):
    """At every epsilon, options are in the order of their effective rows, and each has a name of its own."""
    found = plan(classes, 1000, 1.0)
    for options in (found.options, *found.sweep):
        shares = [option.most_share for option in options]
        assert shares == sorted(shares, reverse=True)
        assert len({option.mechanism for option in options}) == len(options)


def test_options_that_cannot_be_expressed_are_left_out():
    """At an epsilon too small for the integers of randomized response, the others are still there."""
    names = [option.mechanism for option in plan(10, 100, 1e-16).options]
    assert "randomized-response" not in names
    assert "bits" in names


def test_a_sweep_is_where_it_was_asked_for():
    """Other epsilons may be looked at; the plan says what it was made for."""
    found = plan(4, 77, 0.5, [0.3, 0.6])
    assert (found.classes, found.rows, found.epsilon) == (4, 77, 0.5)
    assert [{option.epsilon for option in row} for row in found.sweep] == [{0.3}, {0.6}]
    assert plan(4, 77, 0.5, []).sweep == ()


@pytest.mark.parametrize("classes", [1, 0, -1, (1 << 24) + 1, True])
def test_bad_classes(classes):
    """Fewer than two classes, or more than a space can have, are refused."""
    with pytest.raises(InputError, match="expected classes"):
        plan(classes, 10, 1.0)


@pytest.mark.parametrize("rows", [0, -1, (1 << 62) + 1, True])
def test_bad_rows(rows):
    """No rows, or more than can be, are refused."""
    with pytest.raises(InputError, match="expected rows"):
        plan(3, rows, 1.0)


@pytest.mark.parametrize("epsilon", [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 800.0])
def test_bad_epsilons(epsilon):
    """An epsilon that is none, or that no mechanism can express, is refused."""
    with pytest.raises(EpsilonError):
        plan(3, 10, epsilon)


def test_effective_rows_are_those_at_the_class_shares():
    """For two classes the squared correlation of true and released label; never above the bound for any statistic."""
    e = math.exp(1.0)
    for shares in (None, (0.5, 0.5), (0.9, 0.1), (0.99, 0.01)):
        found = plan(2, 100_000, 1.0, shares=shares)
        (option,) = (each for each in found.options if each.mechanism == "randomized-response")
        p = 0.5 if shares is None else shares[1]
        q = (p * e + 1 - p) / (e + 1)
        expected = ((e - 1) / (e + 1)) ** 2 * p * (1 - p) / (q * (1 - q))
        assert option.share == pytest.approx(expected, rel=1e-6)
        assert option.effective_rows == math.floor(100_000 * option.share)
        assert found.shares == shares
        assert all(each.share <= each.most_share * (1 + 1e-12) for each in found.options)


@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.4], [0.5, -0.5], [math.nan, 1.0], [0.2, 0.3, 0.5]])
def test_shares_that_are_no_distribution_are_refused(shares):
    """Of another number of classes, or no probabilities."""
    with pytest.raises(InputError, match="expected"):
        plan(2, 100, 1.0, shares=shares)


# Plans for privacy units of several rows: figures against the grouped channel of a release, and naive sums.


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
