"""The arithmetic of charges, against a loop over single rows and single charges."""

import math
import re
import sys
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as distributions
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp import Account, Budget, Charge, Guarantee, compose, dp_events
from labeldp.errors import BudgetError, EpsilonError, InputError, MissingExtraError, RowsError
from labeldp.privacy.accounting import Composition, PrivacyLoss, RowRanges
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel

LAST = 12
prices = st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.0, 2.3])
row_sets = st.sets(st.integers(0, LAST), max_size=LAST)


def charge(epsilon, rows, delta=0.0, unit="row"):
    """A charge to a collection of rows."""
    return Charge(Guarantee(epsilon, delta, unit=unit), RowRanges.of(np.array(sorted(rows), dtype=np.int64)))


def row_by_row(requests):
    """The largest exact sum over rows, of the printed epsilons of (epsilon, rows) pairs."""
    return max(sum((Fraction(repr(e)) for e, rows in requests if row in rows), Fraction(0)) for row in range(LAST + 1))


@given(st.lists(st.tuples(prices, row_sets), max_size=8))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_the_composition_is_the_largest_sum_over_rows(requests):
    """Disjoint rows cost the maximum and repeated rows the sum, as a loop over rows finds."""
    epsilon, delta = compose([charge(e, rows) for e, rows in requests])
    exact = row_by_row(requests)
    assert Fraction(repr(epsilon)) >= exact
    assert epsilon <= float(exact) * (1 + 1e-15)
    assert delta == 0.0
    assert compose([charge(e, rows) for e, rows in requests[::-1]]) == (epsilon, delta)


@pytest.mark.parametrize("times", [1, 2, 7, 100])
def test_a_repeated_request_costs_again(times):
    """T times the same request cost T times its epsilon and delta, as T single compositions do."""
    one = charge(0.25, range(5), 1e-7)
    together = compose([one] * times)
    assert together == (0.25 * times, pytest.approx(1e-7 * times))
    account = Account(Budget(1e2, 0.5))
    for _ in range(times):
        account = account.admit(one)
    assert account.spent == together


def test_many_charges_of_scattered_rows_add_up():
    """What a forged certificate may have, 30,000 ranges of 1,500 charges, is summed at once."""
    random, rows = np.random.default_rng(0), np.zeros(10**6, dtype=np.int64)
    charges = []
    for _ in range(1500):
        ranges = np.sort(random.choice(len(rows), (1, 40), replace=False)).reshape(20, 2)
        for start, stop in ranges:
            rows[start:stop] += 1
        charges.append(Charge(Guarantee(2**-10), RowRanges(tuple(map(tuple, ranges.tolist())))))
    assert compose(charges) == (rows.max() / 2**10, 0.0)


def test_units_of_several_rows_are_summed():
    """Rows do not tell units apart, so disjoint rows cost the sum; charges of different units cannot be added."""
    assert compose([charge(1.0, [0], unit="user"), charge(0.5, [5], unit="user")]) == (1.5, 0.0)
    with pytest.raises(BudgetError):
        compose([charge(1.0, [0]), charge(0.5, [5], unit="user")])


@given(st.lists(st.tuples(prices, row_sets.filter(bool)), min_size=1, max_size=8), st.sampled_from([0.5, 1.0, 1.5]))
@settings(derandomize=True, max_examples=200, deadline=None)
def test_the_account_admits_exactly_what_the_budget_allows(requests, limit):
    """A request is admitted if no row would be above the budget in printed decimals, and a refusal changes nothing."""
    account, admitted = Account(Budget(limit)), []
    for request in requests:
        fits = row_by_row([*admitted, request]) <= Fraction(repr(limit))
        if fits:
            account = account.admit(charge(*request))
            admitted.append(request)
        else:
            before = account
            with pytest.raises(BudgetError, match="budget exceeded"):
                account.admit(charge(*request))
            assert account == before
    assert len(account.charges) == len(admitted)


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.7, 1.0, 2.3, 4.35])
def test_one_charge_fits_a_budget_of_its_size(epsilon):
    """What was asked for fits a budget of the same number, and a second request of the same rows does not."""
    account = Account(Budget(epsilon)).admit(charge(epsilon, range(4)))
    with pytest.raises(BudgetError):
        account.admit(charge(epsilon, [3]))
    assert account.admit(charge(epsilon, [4])).spent == (epsilon, 0.0)


def test_ten_tenths_fit_a_budget_of_one_and_an_eleventh_does_not():
    """Printed epsilons add up exactly, where floats would refuse or give away."""
    account = Account(Budget(1.0))
    for _ in range(10):
        account = account.admit(charge(0.1, [0]))
    with pytest.raises(BudgetError):
        account.admit(charge(1e-9, [0]))


def test_a_release_that_costs_nothing_is_admitted():
    """A charge of epsilon zero, where a channel says nothing about labels, is no error."""
    account = Account(Budget(1e-9)).admit(charge(0.0, range(3)))
    assert account.spent == (0.0, 0.0)


def test_a_delta_beyond_the_budget_is_refused():
    """The failure probability has a budget of its own, zero where none was stated."""
    account = Account(Budget(10.0, 1e-6)).admit(charge(1.0, [0], 6e-7))
    with pytest.raises(BudgetError):
        account.admit(charge(1.0, [0], 6e-7))
    assert account.admit(charge(1.0, [1], 6e-7)).spent == (1.0, 6e-7)
    with pytest.raises(BudgetError):
        Account(Budget(10.0)).admit(charge(1.0, [0], 1e-12))


@pytest.mark.parametrize("bad", [(0.0, 0.0), (math.nan, 0.0), (math.inf, 0.0), (1.0, 1.0), (1.0, math.nan), ("1", 0.0)])
def test_a_budget_that_bounds_nothing_is_refused(bad):
    """A budget is an epsilon above zero and a delta below one."""
    with pytest.raises(EpsilonError):
        Budget(*bad)


@given(st.sets(st.integers(0, 3000), max_size=200))
@settings(derandomize=True, max_examples=100, deadline=None)
def test_rows_are_the_ranges_of_their_indices(indices):
    """Ranges are sorted, disjoint and not empty, and hold exactly the given rows in any order."""
    given_rows = np.array(sorted(indices, key=hash), dtype=np.int64)
    rows = RowRanges.of(given_rows[::-1])
    assert [i for start, stop in rows.ranges for i in range(start, stop)] == sorted(indices)
    assert all(a[1] < b[0] for a, b in zip(rows.ranges, rows.ranges[1:], strict=False))


@pytest.mark.parametrize("kind", [np.int8, np.uint32, np.int64])
def test_rows_that_follow_one_another_are_one_range(kind):
    """In order or not, they are the same rows; a repeated row is refused, also where it takes the place of another."""
    for given_rows in ([4, 5, 6], [6, 5, 4], [5, 4, 6]):
        assert RowRanges.of(np.array(given_rows, dtype=kind)) == RowRanges.between(4, 7) == RowRanges(((4, 7),))
    assert RowRanges.of(np.array([9], dtype=kind)) == RowRanges.between(9, 10)
    assert RowRanges.of(np.zeros(0, dtype=kind)) == RowRanges.between(3, 3) == RowRanges(())
    for repeated in ([4, 5, 5, 7], [4, 4], [4, 6, 5, 7, 4], [7, 5, 5, 4]):
        with pytest.raises(RowsError, match="each row at most once"):
            RowRanges.of(np.array(repeated, dtype=kind))
    with pytest.raises(RowsError):
        RowRanges.of(np.array([-1, 0, 1]))


def test_scattered_rows_are_covered(monkeypatch):
    """Too many ranges are charged as one that covers them all: never fewer rows than were touched."""
    monkeypatch.setattr("labeldp.privacy.accounting._account._MOST_RANGES", 1001)
    rows = RowRanges.of(np.arange(0, 5000, 2))
    assert rows.ranges == ((0, 4999),)
    assert len(RowRanges.of(np.arange(0, 2000, 2)).ranges) == 1000


def test_random_halves_cost_the_maximum():
    """Rows that were parted by chance are told apart, also where they interleave in tens of thousands of ranges."""
    rows = np.random.default_rng(0).permutation(60_000)
    one, other = (Charge(Guarantee(1.0), RowRanges.of(part)) for part in (rows[:30_000], rows[30_000:]))
    assert len(one.rows.ranges) > 10_000
    assert compose([one, other]) == (1.0, 0.0)
    assert compose([one, other, Charge(Guarantee(0.5), RowRanges.of(rows[29_999:30_001]))]) == (1.5, 0.0)


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint64])
def test_row_numbers_do_not_wrap(kind):
    """The end of a range at the type's largest number is one more, not the smallest number."""
    last = min(np.iinfo(kind).max, 2**31 - 1)
    assert RowRanges.of(np.array([last - 1, last], dtype=kind)).ranges == ((last - 1, last + 1),)


def test_rows_that_repeat_or_are_negative_are_refused():
    """A row twice would be drawn twice, and a negative row is no row."""
    for bad in ([1, 2, 1], [-1, 3]):
        with pytest.raises(RowsError, match="at most once"):
            RowRanges.of(np.array(bad))
    for ranges in (((0, 3), (2, 5)), ((3, 3),), ((5, 4),), ((-2, 4),), ((6, 8), (0, 2))):
        with pytest.raises(RowsError, match="sorted, disjoint"):
            RowRanges(ranges)


@pytest.mark.parametrize("bad", [np.array([0.5, 3.2]), np.array([True, False]), np.array(["1"])])
def test_rows_are_whole_numbers(bad):
    """A mask or fractions would be taken for row numbers that they are not."""
    with pytest.raises(RowsError):
        RowRanges.of(bad)


def test_all_rows_are_one_range():
    """All rows of nothing are none."""
    assert RowRanges.all(3).ranges == ((0, 3),)
    assert RowRanges.all(0).ranges == ()


@pytest.mark.parametrize("allowed", [(100.0, 0.0), (1.0, 1e-6), (0.5, 1e-5), (2.0, 0.1)])
@pytest.mark.parametrize("asked", [(0.5, 1e-6), (3.0, 0.0), (3.0, 1e-3), (1 / 3, 1 / 3)])
def test_the_budget_that_a_refusal_offers_is_no_smaller_than_the_one_in_force(allowed, asked):
    """It admits the request, and takes away neither epsilon nor delta of what was allowed before."""
    charge = Charge(Guarantee(*asked), RowRanges.all(9))
    account = Account(Budget(*allowed))
    if account.allows(charge):
        return
    with pytest.raises(BudgetError) as refused:
        account.admit(charge)
    offered = re.search(r"--budget (\S+) ", str(refused.value))[1].split(",")
    budget = Budget(*map(float, offered))
    assert budget.epsilon >= allowed[0]
    assert budget.delta >= allowed[1]
    assert Account(budget).allows(charge)


# Compositions as another library's events.


ROWS = RowRanges.all(10)


def drawn(channel, rows=ROWS):
    """A charge for a draw from a channel."""
    return Charge(Guarantee(channel.epsilon), rows), channel


CHANNELS = {
    "two classes": ResponseChannel.at(2, 1.0),
    "ten classes": ResponseChannel.at(10, 2.0),
    "subsets": SubsetChannel.at(10, 3, 1.0),
    "bits": BitChannel.independent(5, 1.5),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("times", [1, 7])
def test_another_account_of_the_events_is_ours(name, times):
    """Where a law is that of randomized response the epsilons agree to a hundredth; else theirs is at least ours."""
    ours = Composition.of([drawn(CHANNELS[name])] * times)
    (event,) = dp_events(ours)
    assert len(event.events) == times
    total = distributions.identity()
    for each in event.events:
        one = distributions.from_randomized_response(each.noise_parameter, each.num_buckets)
        total = total.compose(one)
    theirs = total.get_epsilon_for_delta(1e-6)
    assert theirs >= ours.epsilon_at(1e-6) * (1 - 1e-3)
    if "classes" in name:
        assert theirs == pytest.approx(ours.epsilon_at(1e-6), rel=0.01)


@pytest.mark.parametrize("name", CHANNELS)
def test_an_event_is_never_cheaper_than_its_request(name):
    """Its odds are at least as large, and so is its least probability, by no more than one class is worth."""
    loss = PrivacyLoss.of(CHANNELS[name])
    (event,) = dp_events(Composition.of([drawn(CHANNELS[name])]))
    (each,) = event.events
    least = each.noise_parameter / each.num_buckets
    odds = (1 - each.noise_parameter + least) / least
    assert odds >= float(loss.odds) * (1 - 1e-12)
    assert float(loss.least) * (1 - 1e-12) <= least <= 1 / (1 / float(loss.least) - 1) * (1 + 1e-12)


def test_requests_about_other_rows_are_other_events():
    """Those that meet in a row are one event, and the larger of two counts."""
    channel = CHANNELS["two classes"]
    found = dp_events(
        Composition.of([drawn(channel, RowRanges.all(5)), drawn(channel, RowRanges(((5, 10),))), drawn(channel)])
    )
    assert sorted(len(event.events) for event in found) == [2, 2]


def test_a_rho_is_an_event_of_its_own():
    """It is that of the request, rounded up."""
    (event,) = dp_events(Composition.of([(Charge(Guarantee(1.0, 1e-6, rho=0.02), ROWS), None)] * 2))
    assert [each.rho for each in event.events] == [pytest.approx(0.02, rel=1e-12)] * 2
    assert all(each.rho >= 0.02 for each in event.events)


def test_what_says_nothing_costs_nothing():
    """A request of epsilon 0 is a response of uniform labels."""
    (event,) = dp_events(Composition.of([(Charge(Guarantee(0.0), ROWS), None)]))
    assert event.events[0].noise_parameter == 1.0


def test_what_other_events_cannot_say_is_refused(monkeypatch):
    """A delta without a rho, and a missing library."""
    with pytest.raises(InputError, match="found one that dp_accounting cannot state"):
        dp_events(Composition.of([(Charge(Guarantee(1.0, 1e-6), ROWS), None)]))
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtraError, match="pip install dp-accounting"):
        dp_events(Composition.of([drawn(CHANNELS["bits"])]))
