"""Compositions as another library's events."""

import sys

import pytest
from dp_accounting.pld import privacy_loss_distribution as distributions

from labeldp import Charge, Guarantee, dp_events
from labeldp.errors import InputError, MissingExtraError
from labeldp.privacy.accounting import Composition, PrivacyLoss, RowRanges
from labeldp.privacy.channels import BitChannel, ResponseChannel, SubsetChannel

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
