"""Releases of every kind of channel, made from chosen outcomes or from a chosen tape of words."""

import numpy as np
import pytest

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp._random_words import TapeWords
from labeldp.mechanisms import draw
from labeldp.privacy.channels import (
    BitChannel,
    CandidateChannel,
    ClusterChannel,
    GroupedChannel,
    ResponseChannel,
    SubsetChannel,
    pack,
)

#: Every kind of channel; the one with candidates is last.
KINDS = ("response", "independent", "symmetric", "subset", "grouped", "grouped sets", "cluster", "candidates")


def pytest_collection_modifyitems(items):
    """Let rows of channels of units stand alone: here nobody has several of them."""
    for item in items:
        if "grouped" in item.nodeid:
            item.add_marker(pytest.mark.filterwarnings("ignore::labeldp.learning.metrics.UnitsWarning"))


def channel_of_kind(kind, classes, rows, epsilon=1.0):
    """A channel of that many rows."""
    half = np.arange(rows, dtype=np.int32) % 2
    if kind in ("response", "independent", "symmetric", "subset"):
        return {
            "response": lambda: ResponseChannel.at(classes, epsilon),
            "independent": lambda: BitChannel.independent(classes, epsilon),
            "symmetric": lambda: BitChannel.symmetric(classes, epsilon),
            "subset": lambda: SubsetChannel.at(classes, max(1, classes // 2), epsilon),
        }[kind]()
    if kind == "grouped":
        laws = tuple(ResponseChannel.at(classes, epsilon / m) for m in (1, 2))
        return GroupedChannel(classes, laws, (1, 2), half)
    if kind == "grouped sets":
        laws = tuple(SubsetChannel.at(classes, m, epsilon / m) for m in (1, 2))
        return GroupedChannel(classes, laws, (1, 2), half)
    if kind == "cluster":
        distributions = np.array([np.arange(1, classes + 1), np.ones(classes)]) / classes
        distributions /= distributions.sum(axis=1, keepdims=True)
        return ClusterChannel.at(distributions, epsilon, half)
    size = 1 + np.arange(rows) % classes
    return CandidateChannel.at(classes, epsilon, pack(np.arange(classes)[::-1] < size[:, None]))


@pytest.fixture(scope="session", params=KINDS)
def kind(request):
    """Each kind of channel."""
    return request.param


@pytest.fixture(scope="session", params=KINDS[:-1])
def full_kind(request):
    """Each kind of channel that identifies true labels."""
    return request.param


@pytest.fixture(scope="session")
def make_channel():
    """The function that makes a channel of a kind."""
    return channel_of_kind


@pytest.fixture(scope="session")
def make_release():
    """The function that makes a release of given released labels, which counts as randomized."""
    space = Classes(["no", "yes"])
    certificate = Curator(["no"], space).randomize(RandomizedResponse(space, 1.0)).certificate

    def make(codes, channel, classes=None):
        return Release(codes, channel, classes or Classes(range(channel.classes)), certificate)

    return make


@pytest.fixture(scope="session")
def randomized(make_release):
    """The function that draws a release with words of a seed: the same in every run, and not private."""

    def make(codes, channel, seed):
        words = np.random.default_rng(seed).integers(0, 2**64, 1 << 16, dtype=np.uint64)
        if len(codes) * channel.words_per_row > words.size:
            words = np.random.default_rng(seed).integers(0, 2**64, len(codes) * channel.words_per_row, dtype=np.uint64)
        return make_release(draw(channel, np.asarray(codes, dtype=np.int32), TapeWords(words)), channel)

    return make
