"""Closed forms of efficiency, against sums over written-out laws."""

import itertools

import numpy as np
import pytest

from labeldp import Classes, PriorResponse, ProjectiveResponse, SubsetResponse
from labeldp.privacy.channels import (
    BitChannel,
    GroupedChannel,
    ResponseChannel,
    SubsetChannel,
    estimation_size,
    pair_share,
    prior_subset_candidates,
    share_at,
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


SKEWED = {k: 0.4 ** np.arange(k) / (0.4 ** np.arange(k)).sum() for k in (2, 5, 6)}


def linear_share(channel, shares):
    """The ratio of total variances of estimated class shares, from the law written out: memberships, summing to one."""
    k = len(shares)
    held = np.asarray(channel.mask(channel.table().outcomes), dtype=float)
    law = shares @ channel.matrix()
    chance = channel.membership
    vectors = (held - chance.other) / (chance.true - chance.other)
    np.testing.assert_allclose(law @ vectors, shares, atol=1e-12)
    covariance = (vectors - shares).T @ (law[:, None] * (vectors - shares))
    within = np.linalg.svd(np.ones((1, k)))[2][1:]  # an orthonormal basis of what sums to zero
    information = np.linalg.pinv(covariance, hermitian=True)
    if covariance.sum() < 1e-9:
        best = covariance
    else:
        best = within.T @ np.linalg.inv(within @ information @ within.T) @ within
    return (shares * (1 - shares)).sum() / np.trace(best)


@pytest.mark.parametrize("channel", CHANNELS, ids=repr)
@pytest.mark.parametrize("skewed", [False, True])
def test_the_share_at_class_shares_is_a_ratio_of_variances(channel, skewed):
    """Of the best linear estimate of the class shares and of counts of true labels, by sums over all outcomes."""
    k = channel.classes
    shares = SKEWED[k] if skewed else np.full(k, 1 / k)
    found = share_at(channel, shares)
    assert found == pytest.approx(linear_share(channel, shares), rel=1e-8)
    assert found <= float(pair_share(channel.membership)) * (1 + 1e-12)
    if not skewed:
        assert share_at(channel, np.array([1 / k])) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("positives", [0.5, 0.24, 0.05, 0.01])
def test_the_share_of_two_classes_is_the_fisher_information(positives):
    """It is the squared correlation of true and released label, and the upper bound at even classes alone."""
    channel, shares = ResponseChannel.at(2, 1.0), np.array([1 - positives, positives])
    p, q = channel.matrix()[:, 1]
    released = p * shares[0] + q * shares[1]
    fisher = (q - p) ** 2 * shares.prod() / (released * (1 - released))
    assert share_at(channel, shares) == pytest.approx(fisher, rel=1e-12)
    assert (fisher == pytest.approx(float(pair_share(channel.membership)))) == (positives == 0.5)


@pytest.mark.parametrize("channel", [c for c in CHANNELS if not isinstance(c, BitChannel)], ids=repr)
def test_no_estimate_from_single_classes_or_even_sets_is_better(channel):
    """At even shares it is the information of the whole law, not only of memberships."""
    k, law = channel.classes, channel.matrix()
    within = np.linalg.svd(np.ones((1, k)))[2][1:]
    information = within @ ((law / law.mean(axis=0)) @ law.T) @ within.T
    share = (1 - 1 / k) / np.trace(np.linalg.inv(information))
    assert share_at(channel, np.full(k, 1 / k)) == pytest.approx(share, rel=1e-9)


def test_the_share_of_rows_with_different_channels():
    """Of units of several sizes it is the mean over rows; with candidates it is unknown, of one class alone 0."""
    one, two = ResponseChannel.at(3, 1.0), ResponseChannel.at(3, 0.5)
    grouped = GroupedChannel(3, (one, two), (1, 2), np.array([0, 0, 1, 0]))
    shares = SKEWED[5][:3] / SKEWED[5][:3].sum()
    assert share_at(grouped, shares) == pytest.approx((3 * share_at(one, shares) + share_at(two, shares)) / 4)
    space = Classes(["a", "b", "c"])
    assert share_at(PriorResponse(space, 1.0, prior=np.full((4, 3), 1 / 3)).channel(), shares) is None
    assert share_at(one, np.array([1.0, 0.0, 0.0])) == 0.0


def test_the_share_of_many_classes_is_quick_and_finite():
    """A million classes are a sum of a million numbers; so are projective sets, without the constraint on their sum."""
    shares = np.random.default_rng(0).dirichlet(np.full(1_000_000, 0.1))
    for channel in (ResponseChannel.at(1_000_000, 4.0), SubsetChannel.at(1_000_000, 1000, 4.0)):
        assert 0 < share_at(channel, shares) < float(pair_share(channel.membership))
    projective = ProjectiveResponse(Classes(range(300)), 1.0).channel()
    subset = SubsetResponse(Classes(range(300)), 1.0).channel()
    even = np.array([1 / 300])
    assert share_at(projective, even) == pytest.approx(share_at(subset, even), rel=0.05)
