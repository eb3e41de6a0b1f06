"""The noise of unbiased gradients: closed forms, against laws written out and gradients that were searched for."""

import math

import numpy as np
import pytest

from labeldp import Classes, RandomizedResponse, Release, SubsetResponse, gradient_noise, gradient_response
from labeldp.privacy.channels import (
    BitChannel,
    CandidateChannel,
    CandidateSubsetChannel,
    ClusterChannel,
    GroupedChannel,
    ResponseChannel,
    SubsetChannel,
    estimation_size,
    pack,
    total_variance,
)
from labeldp.privacy.channels._gradient_noise import GradientNoise


def sets(*members, classes):
    """Candidate sets as packed bits."""
    return pack(np.array([[j in row for j in range(classes)] for row in members]))


CHANNELS = {
    "two classes": ResponseChannel.at(2, 1.0),
    "response": ResponseChannel.at(5, 0.5),
    "response, nearly certain": ResponseChannel.at(4, 4.0),
    "pairs": SubsetChannel.at(5, 2, 1.0),
    "all but one": SubsetChannel.at(4, 3, 3.0),
    "bits": BitChannel.independent(4, 1.0),
    "two bits": BitChannel.independent(2, 1.0),
    "symmetric bits": BitChannel.symmetric(5, 3.0),
    "clusters": ClusterChannel.at(np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4]]), 2.0, np.array([0, 1, 1])),
    "candidates": CandidateChannel.at(5, 3.0, sets({0, 1}, {1, 2, 4}, {3}, set(range(5)), classes=5)),
    "subsets of candidates": CandidateSubsetChannel.at(5, 0.5, sets({0, 1}, {0, 1, 2, 4}, {2}, classes=5)),
    "groups": GroupedChannel(
        4, (SubsetChannel.at(4, 2, 1.0), SubsetChannel.at(4, 1, 0.5)), (1, 2), np.array([0, 1, 1])
    ),
    "groups of bits": GroupedChannel(
        3, (BitChannel.independent(3, 1.0), BitChannel.independent(3, 0.5)), (1, 2), np.array([1, 0])
    ),
}


def covariances(channel, row, *, projected=True):
    """The covariance of the unbiased vector given each class, summed over the law of a row."""
    table = channel.table(row)
    every = channel.take(np.full(len(table.outcomes), row))
    w = every.unbiased(table.outcomes)
    if projected:
        w = w + (1 - w.sum(axis=1, keepdims=True)) / channel.classes * (candidates_of(channel) is None)
    means = table.matrix @ w
    return [(law[:, None] * (w - mean)).T @ (w - mean) for law, mean in zip(table.matrix, means, strict=True)]


def candidates_of(channel):
    """The candidates of rows, where they have some."""
    return getattr(channel, "candidates", None)


def rows_of(channel):
    """The rows whose laws differ."""
    each = next(
        (
            v
            for v in (candidates_of(channel), *(getattr(channel, n, None) for n in ("clusters", "groups")))
            if v is not None
        ),
        [0],
    )
    return range(len(each))


def searched(covariance, rng):
    """The largest ``trace(C G)`` that an ascent over unit vectors finds, from a few random starts.

    Each step turns every vector into the direction in which the sum grows: it is convex in each of them.
    """
    best = 0.0
    for _ in range(6):
        g = rng.normal(size=covariance.shape)
        for _ in range(400):
            g /= np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300)
            g = covariance @ g + 1e-9 * g
        g /= np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-300)
        best = max(best, np.trace(covariance @ g @ g.T))
    return best


@pytest.mark.parametrize("name", CHANNELS)
def test_the_noise_is_the_largest_of_all_gradients(name):
    """No gradients of length 1 have more noise, a search finds some that have as much, and right angles the trace."""
    channel, rng = CHANNELS[name], np.random.default_rng(7)
    laws = [covariances(channel, row) for row in rows_of(channel)]
    noise = gradient_noise(channel)
    most = np.mean([max(searched(covariance, rng) for covariance in law) for law in laws])
    assert most == pytest.approx(noise.any, rel=1e-3)
    assert most <= noise.any * (1 + 1e-9)
    assert np.mean([max(map(np.trace, law)) for law in laws]) == pytest.approx(noise.right_angled, rel=1e-9)


@pytest.mark.parametrize("name", CHANNELS)
def test_second_moments_are_bounded_by_the_noise(name):
    """The mean squared length of unbiased gradients is at most ``L^2 + L^2 any``, and that of softmax has the trace."""
    channel, rng = CHANNELS[name], np.random.default_rng(8)
    noise, k = gradient_noise(channel), channel.classes
    chances = rng.dirichlet(np.ones(k))
    drawn = rng.normal(size=(k, 2))
    softmax, opposed = chances - np.eye(k), (-1.0) ** np.arange(k)[:, None]
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    worst = {"softmax": [], "opposed": [], "drawn": []}
    for row in rows_of(channel):
        table = channel.table(row)
        w = channel.take(np.full(len(table.outcomes), row)).unbiased(table.outcomes)
        if candidates_of(channel) is None:
            w = w + (1 - w.sum(axis=1, keepdims=True)) / k
        for called, g in (("softmax", softmax), ("opposed", opposed), ("drawn", drawn)):
            worst[called].append((table.matrix @ ((w @ g) ** 2).sum(axis=1)).max())
    longest = np.linalg.norm(softmax, axis=1).max()
    assert np.mean(worst["softmax"]) <= noise.second_moment(longest, right_angled=1.0) * (1 + 1e-9)
    assert max(np.mean(worst["opposed"]), np.mean(worst["drawn"])) <= noise.second_moment() * (1 + 1e-9)
    assert noise.second_moment(3.0) == pytest.approx(9 * (1 + noise.any))


def test_opposed_gradients_have_twice_the_trace():
    """Of two classes with opposed gradients the variance is twice the trace, which is no bound; ours is met."""
    channel = RandomizedResponse(Classes(["no", "yes"]), 1.0).channel()
    trace = total_variance(channel.membership, 2)
    covariance = covariances(channel, 0)[0]
    opposed = np.array([[1.0], [-1.0]])
    assert gradient_noise(channel).any == pytest.approx(2 * trace)
    assert np.trace(covariance @ opposed @ opposed.T) == pytest.approx(2 * trace)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 0.5), (10, 1.0), (1000, 4.0)])
def test_independent_bits_have_the_variance_that_theorem_1_displays(classes, epsilon):
    """Not projected, that of Chua et al. in any direction; projected, ``1 - 1/K`` times as much at right angles."""
    channel, e = BitChannel.independent(classes, epsilon), math.exp(epsilon)
    shown = (2 * (e + 1) / (e - 1)) ** 2 * ((classes - 1) * e / (e + 1) ** 2 + 1 / 4)
    plain, projected = gradient_noise(channel, projected=False), gradient_noise(channel)
    assert plain.any == pytest.approx(plain.right_angled, rel=1e-12)
    assert plain.right_angled == pytest.approx(shown) == total_variance(channel.membership, classes)
    assert projected.right_angled == pytest.approx((1 - 1 / classes) * shown)


def test_labels_that_are_public_have_no_noise():
    """A public release, rows of one candidate, and no rows at all: nothing is added to a gradient."""
    public = Release.public(["a", "b", "c"], Classes(["a", "b", "c"])).class_channel
    assert gradient_noise(public).any < 1e-15
    assert gradient_noise(CandidateChannel.at(3, 1.0, sets({0}, {2}, classes=3))) == GradientNoise(0.0, 0.0)
    assert gradient_noise(CHANNELS["candidates"].take(slice(0, 0))) == GradientNoise(0.0, 0.0)


@pytest.mark.parametrize(("classes", "epsilon"), [(3, 0.5), (10, 1.0), (10, 3.0), (100, 2.0)])
def test_the_response_for_gradients_has_the_least_noise(classes, epsilon):
    """No size of subsets, and no bits, put less noise on gradients of softmax; size one is randomized response."""
    chosen = gradient_response(Classes(range(classes)), epsilon)
    size = estimation_size(classes, epsilon)
    assert isinstance(chosen, RandomizedResponse if size == 1 else SubsetResponse)
    least = gradient_noise(chosen.channel()).right_angled
    assert least == pytest.approx(total_variance(chosen.channel().membership, classes))
    others = [SubsetChannel.at(classes, d, epsilon) for d in range(1, classes)]
    others += [BitChannel.independent(classes, epsilon), BitChannel.symmetric(classes, epsilon)]
    assert least <= min(gradient_noise(other).right_angled for other in others) * (1 + 1e-9)


def test_the_second_moment_grows_with_the_square_of_right_angled_parts():
    """Parts of twice the length have four times the noise, up to that of any gradients."""
    noise = GradientNoise(any=10.0, right_angled=0.5)
    assert noise.second_moment(3.0) == 9.0 + 90.0
    assert noise.second_moment(3.0, right_angled=2.0) == 9.0 + 2.0
    assert noise.second_moment(3.0, right_angled=100.0) == 9.0 + 90.0
