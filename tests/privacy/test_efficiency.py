"""Closed forms of efficiency, against sums over written-out laws."""

import itertools

import numpy as np
import pytest

from labeldp.privacy.channels import (
    BitChannel,
    ResponseChannel,
    SubsetChannel,
    estimation_size,
    pair_share,
    prior_subset_candidates,
    total_variance,
    training_size,
)
from labeldp.privacy.channels._channel import Membership
from labeldp.privacy.channels._utility import training_sizes

CHANNELS = [
    ResponseChannel.at(2, 1.0),
    ResponseChannel.at(6, 2.0),
    SubsetChannel.at(6, 2, 1.0),
    SubsetChannel.at(5, 4, 0.5),
    BitChannel.independent(5, 1.0),
    BitChannel.symmetric(6, 3.0),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_total_variance_is_the_trace_of_the_covariance(channel):
    """The closed form is the variance of the unbiased vectors, summed over the written-out law."""
    law, w = channel.matrix()[0], channel.unbiased(channel.table().outcomes)
    mean = law @ w
    assert total_variance(channel.membership, channel.classes) == pytest.approx(law @ ((w - mean) ** 2).sum(axis=1))


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
def test_pair_share_is_a_squared_signal_over_a_second_moment(channel):
    """For two equally likely classes, the share is that of the difference of their two memberships."""
    held = channel.unbiased(channel.table().outcomes)
    signal = held[:, 0] - held[:, 1]  # proportional to the difference of memberships
    law = channel.matrix()[:2]
    share = (law[0] @ signal) ** 2 / (law.mean(axis=0) @ signal**2)
    assert float(pair_share(channel.membership)) == pytest.approx(share, rel=1e-12)


def test_a_law_that_says_nothing_is_worth_nothing():
    """Where two classes are released alike, the share is zero and the variance infinite, without a warning."""
    nothing = Membership(np.array([0.5, 0.0]), np.array([0.5, 0.0]), np.array([0.5, 0.0]))
    assert pair_share(nothing).tolist() == [0.0, 0.0]
    assert total_variance(nothing, 4) == np.inf


@pytest.mark.parametrize(("classes", "epsilon"), list(itertools.product([2, 3, 10, 40], [0.1, 1.0, 2.0, 5.0])))
def test_sizes_for_all_numbers_of_classes_are_those_for_each(classes, epsilon):
    """The formula for all numbers of classes finds what trying every size finds, or one that is as good."""
    sizes = training_sizes(classes, epsilon)
    assert sizes[:2].tolist() == [1, 1]
    for m in range(2, classes + 1):
        shares = [float(pair_share(SubsetChannel.at(m, d, epsilon).membership)) for d in range(1, m)]
        assert shares[sizes[m] - 1] == pytest.approx(max(shares), rel=1e-12)
        assert shares[training_size(m, epsilon) - 1] == pytest.approx(max(shares), rel=1e-12)


@pytest.mark.parametrize(("classes", "epsilon"), list(itertools.product([2, 3, 10, 40], [0.1, 1.0, 2.0, 5.0])))
def test_sizes_are_the_best_of_all_channels(classes, epsilon):
    """No other subset size has a better share, or a smaller variance, among the channels that would be drawn with."""
    every = [SubsetChannel.at(classes, size, epsilon).membership for size in range(1, classes)]
    shares = [float(pair_share(chance)) for chance in every]
    variances = [total_variance(chance, classes) for chance in every]
    assert shares[training_size(classes, epsilon) - 1] == pytest.approx(max(shares), rel=1e-12)
    assert variances[estimation_size(classes, epsilon) - 1] == pytest.approx(min(variances), rel=1e-12)


def test_shares_by_row_are_by_row():
    """Membership by row gives a share for each row and the mean variance."""
    one, two = ResponseChannel.at(4, 1.0).membership, ResponseChannel.at(4, 2.0).membership
    both = Membership(*(np.array([getattr(c, n) for c in (one, two)]) for n in ("true", "other", "apart")))
    assert pair_share(both).tolist() == [float(pair_share(one)), float(pair_share(two))]
    assert total_variance(both, 4) == pytest.approx((total_variance(one, 4) + total_variance(two, 4)) / 2)


def test_sizes_at_an_epsilon_past_all_numbers():
    """They are one, and nothing overflows in anybody's sight."""
    assert training_sizes(5, 800.0).tolist() == [1] * 6
    assert prior_subset_candidates(np.full((1, 5), 0.2), 800.0)[0].tolist() == [[1]]
