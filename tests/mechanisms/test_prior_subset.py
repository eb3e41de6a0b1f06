"""Subsets of the candidates of a prior, against enumeration of what released sets tell of the class."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from labeldp import Classes, PriorResponse, PriorSubsetResponse, SubsetResponse
from labeldp.privacy.channels import CandidateChannel, pack, pair_share, prior_subset_candidates, unpack
from labeldp.privacy.channels._subset import _pair_values

EPSILONS = (0.2, 0.5, 1.0, 2.0, 4.0)


def rows(k, shape, count=12):
    """Priors of a shape: nearly sure of a class, flat, mixed, or of two classes alone."""
    rng = np.random.default_rng(k)
    made = {
        "sharp": lambda: rng.dirichlet(np.full(k, 0.1), count),
        "mixed": lambda: rng.dirichlet(np.full(k, 0.5), count),
        "flat": lambda: rng.dirichlet(np.full(k, 5.0), count),
        "peak": lambda: np.hstack([np.full((count, 1), 0.9), 0.1 * rng.dirichlet(np.ones(k - 1), count)]),
        "two": lambda: np.hstack([rng.dirichlet(np.ones(2), count), np.zeros((count, k - 2))]),
    }
    return made[shape]()


def information(channel, prior):
    """The mutual information of class and released label in each row, in nats, by enumeration of the outcomes."""
    found = []
    for row, p in enumerate(prior):
        matrix = channel.matrix(row)
        released = p @ matrix
        ratios = np.where(matrix > 0, matrix / released, 1.0)
        found.append(float((p[:, None] * matrix * np.log(ratios)).sum()))
    return np.array(found)


def best_information(prior, epsilon):
    """The most that any number of candidates, the most likely ones, with any size of subset tells of the class."""
    e, best = math.exp(epsilon), []
    for row in prior:
        p, found = np.sort(row)[::-1], [0.0]
        for m, d in [(count, size) for count in range(2, p.size + 1) for size in range(1, count)]:
            true = e * d / (m - d + e * d)
            inside, other = true / math.comb(m - 1, d - 1), (1 - true) / math.comb(m - 1, d)
            outside, mass = 1 / math.comb(m, d), p[:m].sum()
            held = np.array([p[list(subset)].sum() for subset in itertools.combinations(range(m), d)])
            released = held * inside + (mass - held) * other + (1 - mass) * outside
            known = mass * (true * math.log(inside) + (1 - true) * math.log(other)) + (1 - mass) * math.log(outside)
            found.append(known - float(released @ np.log(released)))
        best.append(max(found))
    return np.array(best)


def space(k):
    """A space of k classes."""
    return Classes(range(k))


@pytest.mark.parametrize("shape", ["sharp", "mixed", "flat", "peak", "two"])
@pytest.mark.parametrize("k", [3, 4, 6])
def test_the_released_set_tells_nearly_all_that_one_can(k, shape):
    """Over priors of each shape: nine tenths of the best information, and never less than RRWithPrior's by a tenth."""
    prior = rows(k, shape)
    for epsilon in EPSILONS:
        mine = information(PriorSubsetResponse(space(k), epsilon, prior).channel(), prior).mean()
        assert mine >= 0.9 * best_information(prior, epsilon).mean()
        assert mine >= 0.9 * information(PriorResponse(space(k), epsilon, prior).channel(), prior).mean()


@pytest.mark.parametrize("k", [2, 3, 5, 10, 30, 100])
def test_a_uniform_prior_gives_subsets_of_all_classes(k):
    """All classes are candidates at every epsilon, and the size and weight are those of ``SubsetResponse``."""
    uniform = np.full((1, k), 1 / k)
    for epsilon in (0.01, *EPSILONS, 8.0):
        channel, alone = PriorSubsetResponse(space(k), epsilon, uniform).channel(), SubsetResponse(space(k), epsilon)
        assert channel.sizes.tolist() == [k]
        assert (channel.size[k], channel.member[k]) == (alone.channel().size, alone.channel().member)


def test_a_prior_without_doubt_wastes_nothing():
    """A class that is certain is the only candidate, and classes that are impossible are none."""
    prior = [[0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.2, 0.3, 0.0, 0.5]]
    for epsilon in EPSILONS:
        held = unpack(PriorSubsetResponse(space(4), epsilon, prior).channel().candidates, 4)
        assert held[0].tolist() == [False, True, False, False]
        assert not (held & (np.array(prior) == 0)).any()
        assert held[1].tolist() == [True, False, True, False]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_number_of_candidates_is_that_of_the_most_pairs(epsilon):
    """No other set of candidates has a larger sum over pairs, each counted for what a set is worth for it."""
    prior = np.vstack([rows(5, shape, 5) for shape in ("sharp", "mixed", "flat", "peak", "two")])
    packed, mass = prior_subset_candidates(prior, epsilon)
    channel = PriorSubsetResponse(space(5), epsilon, prior).channel()
    every = np.array([mask for mask in itertools.product((False, True), repeat=5) if sum(mask) > 1])
    shares = pair_share(dataclasses.replace(channel, candidates=pack(every)).membership)
    worth = dict(zip(every.sum(axis=1).tolist(), shares.tolist(), strict=True))
    for row, p in enumerate(prior):
        values = [worth[int(mask.sum())] * (p[mask].sum() ** 2 - (p[mask] ** 2).sum()) for mask in every]
        mask = unpack(packed[row : row + 1], 5)[0]
        mine = worth[int(mask.sum())] * (p[mask].sum() ** 2 - (p[mask] ** 2).sum())
        assert mine == pytest.approx(max(values), rel=1e-9)
        assert mass[row] == pytest.approx(p[mask].sum(), rel=1e-12)


@pytest.mark.parametrize("classes", [2, 10, 32, 33, 300, 1000])
def test_candidates_of_many_classes_are_those_of_a_sort(classes):
    """A stable sort of each row and running sums give the same candidates and mass, with ties and zeros too."""
    rng = np.random.default_rng(classes)
    even = np.full((1, classes), 1 / classes)
    prior = np.vstack([rng.dirichlet(np.ones(classes), 20), rng.dirichlet(np.full(classes, 0.05), 20), even])
    few = rng.integers(0, 3, (20, classes)) + np.eye(1, classes)
    prior = np.vstack([prior, few / few.sum(axis=1, keepdims=True), np.eye(2, classes)])
    values = _pair_values(classes, 1.0)
    order = np.argsort(-prior, axis=1, kind="stable")
    ranked = np.take_along_axis(prior, order, axis=1)
    total = np.cumsum(ranked, axis=1)
    most = (values * (total**2 - np.cumsum(ranked**2, axis=1))).argmax(axis=1)
    mask = np.zeros(prior.shape, dtype=np.bool_)
    np.put_along_axis(mask, order, np.arange(classes) <= most[:, None], axis=1)
    packed, mass = prior_subset_candidates(prior, 1.0)
    assert np.array_equal(packed, pack(mask))
    assert mass == pytest.approx(total[np.arange(len(most)), most], rel=1e-12)


def test_many_rows_are_chosen_in_chunks(monkeypatch):
    """Candidates do not depend on the rows beside them."""
    prior = rows(4, "mixed", 50)
    whole = prior_subset_candidates(prior, 1.0)
    monkeypatch.setattr("labeldp.privacy.channels._subset.ENTRIES_PER_CHUNK", 28)
    parts = prior_subset_candidates(prior, 1.0)
    assert all(np.array_equal(one, other) for one, other in zip(whole, parts, strict=True))


@pytest.mark.parametrize("epsilon", [3.0, 5.0])
def test_subsets_of_one_candidate_are_randomized_response_on_candidates(epsilon):
    """With one class in a set the law is that of ``CandidateChannel``, labels outside included."""
    channel = PriorSubsetResponse(space(4), epsilon, rows(4, "mixed")).channel()
    assert channel.size == (1,) * 5
    alone = CandidateChannel.at(4, epsilon, channel.candidates)
    for row in range(len(channel.candidates)):
        assert channel.matrix(row) == pytest.approx(alone.matrix(row), rel=1e-14)
