"""Cluster response whole: the epsilon that was asked for, on every split, and nothing charged where it cannot be."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from labeldp import Classes, ClusterResponse, Curator, NoisyHistogram, RandomizedResponse, Release, verify
from labeldp.errors import BudgetError, EpsilonError, InputError, PriorError
from labeldp.release import accounted, cluster_response

SPACE = Classes(["a", "b", "c"])
CLUSTERS = np.repeat([0, 1, 2], 400)
LABELS = np.array(["a", "b", "c"])[np.where(np.arange(1200) % 10 < 8, CLUSTERS, (CLUSTERS + 1) % 3)]


def test_all_of_epsilon_is_spent_and_no_more():
    """Split by epsilon: the sum of both; the response costs what its integers say."""
    curator = Curator(LABELS, SPACE, budget=1.0)
    found = cluster_response(curator, CLUSTERS, 1.0, share=0.3)
    assert 1 - 1e-9 < curator.spent[0] <= 1.0
    assert found.histogram.guarantee.epsilon == pytest.approx(0.3)
    assert found.release.guarantee.epsilon == curator.spent[0]
    assert (len(found.release), found.epsilon) == (1200, 1.0)
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 0.1))


def test_rows_that_are_counted_do_not_respond():
    """Split by rows: each label is used once, and the cost is the largest."""
    curator = Curator(LABELS, SPACE, budget=1.0)
    found = cluster_response(curator, CLUSTERS, 1.0, split="rows", share=0.25)
    assert curator.spent == (1.0, 0.0)
    assert (found.histogram.rows, len(found.release), len(found.rows)) == (300, 900, 900)
    assert found.histogram.value.shape == (3, 3)
    assert np.array_equal(cluster_response(Curator(LABELS, SPACE), CLUSTERS, 1.0, split="rows", share=0.25).rows,
                          found.rows)  # fmt: skip


@pytest.mark.parametrize("split", ["epsilon", "rows"])
def test_the_first_release_sets_the_budget_to_the_whole(split):
    """Without a budget both requests are allowed, and nothing beyond them."""
    curator = Curator(LABELS, SPACE)
    cluster_response(curator, CLUSTERS, 0.7, split=split, share=0.1)
    assert curator.spent[0] <= 0.7
    with pytest.raises(BudgetError):
        curator.randomize(RandomizedResponse(SPACE, 0.5))


def test_released_labels_resemble_their_clusters():
    """At the same epsilon more of them are right than under randomized response, where clusters are good."""
    right = []
    for _ in range(5):
        found = cluster_response(Curator(LABELS, SPACE), CLUSTERS, 1.0, floor=0.02)
        right.append(np.mean(np.array(found.release.to_arrow().to_pylist()) == LABELS))
    plain = math.e / (math.e + 2)
    assert np.mean(right) > plain + 0.05
    assert found.histogram.distributions().argmax(axis=1).tolist() == [0, 1, 2]


def test_the_release_is_written_and_verified(tmp_path):
    """Its law has the weights of each cluster, its rows their clusters, and both are checked."""
    found = cluster_response(Curator(LABELS, SPACE, name="y"), CLUSTERS, 1.0)
    folder = found.release.save(tmp_path / "shared")
    assert verify(folder).holds
    (account,) = accounted([folder])
    assert account.composition.epsilon == found.release.guarantee.epsilon
    again = Release.load(folder)
    assert np.array_equal(again.likelihood(), found.release.likelihood())
    assert np.array_equal(again.channel.clusters, CLUSTERS)


def test_corollary_one_is_randomized_response():
    """With even distributions the law is that of randomized response at the same epsilon."""
    for epsilon in (0.2, 1.0, 4.0):
        matrix = ClusterResponse.uniform(SPACE, epsilon, [0, 1]).channel().matrix()
        assert matrix == pytest.approx(RandomizedResponse(SPACE, epsilon).channel().matrix(), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_each_cluster_spends_all_of_epsilon(epsilon):
    """The exact cost of a cluster is the ratio at its least likely class, and the paper's formula for it."""
    distributions = np.array([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]])
    channel = ClusterResponse(SPACE, epsilon, distributions, [0, 1]).channel()
    for keep, weights in zip(channel.keep, channel.weights, strict=True):
        ratio = 1 + Fraction(keep, min(weights))
        assert epsilon - 1e-9 < math.log(ratio) <= epsilon + 1e-12
        drawn = sum(weights) / 2**64
        least = min(weights) / sum(weights)
        assert math.log(1 + (1 - drawn) / (drawn * least)) == pytest.approx(epsilon, rel=1e-9)


def test_the_floor_keeps_every_class_possible():
    """A class that no noisy count showed still has its floor, and distributions still sum to one."""
    channel = ClusterResponse(SPACE, 1.0, [[1.0, 0.0, 0.0]], [0, 0], floor=0.05).channel()
    weights = np.array(channel.weights[0], dtype=float)
    assert (weights / weights.sum()).tolist() == pytest.approx([0.9, 0.05, 0.05])


BAD = {
    "epsilon": (lambda c: cluster_response(c, CLUSTERS, 0.0), EpsilonError, "epsilon"),
    "clusters of other rows": (lambda c: cluster_response(c, CLUSTERS[:5], 1.0), InputError, "each of the 1200 rows"),
    "missing clusters": (lambda c: cluster_response(c, np.full(1200, np.nan), 1.0), InputError, "as integers"),
    "negative clusters": (lambda c: cluster_response(c, CLUSTERS - 1, 1.0), InputError, "numbered from 0"),
    "share": (lambda c: cluster_response(c, CLUSTERS, 1.0, share=1.0), InputError, "between 0 and 1"),
    "split": (lambda c: cluster_response(c, CLUSTERS, 1.0, split="columns"), InputError, "epsilon or rows"),
    "floor": (lambda c: cluster_response(c, CLUSTERS, 1.0, floor=0.5), InputError, "at most 1/k"),
    "negative floor": (lambda c: cluster_response(c, CLUSTERS, 1.0, floor=-0.1), InputError, "above 0"),
    "budget": (lambda c: cluster_response(c, CLUSTERS, 2.5), BudgetError, "within the budget"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_done_costs_nothing(case):
    """The refusal comes before the first charge, also where only the second request would fail."""
    ask, error, message = BAD[case]
    curator = Curator(LABELS, SPACE, budget=2.0)
    with pytest.raises(error, match=message):
        ask(curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.usefixtures("as_users_call")
def test_distributions_are_checked():
    """One for each cluster, each summing to one."""
    with pytest.raises(PriorError, match="a distribution for each cluster"):
        ClusterResponse(SPACE, 1.0, [[0.2, 0.3, 0.5]], [0, 1])
    with pytest.raises(PriorError, match="sum to 1"):
        ClusterResponse(SPACE, 1.0, [[0.2, 0.3, 0.6]], [0, 0])


def test_the_cost_of_an_uneven_cluster_is_that_of_its_rarest_class():
    """One cluster alone: its odds are the largest ratio in its law."""
    channel = ClusterResponse(SPACE, 1.0, [[0.9, 0.08, 0.02]], [0]).channel()
    matrix = channel.matrix()
    assert float(channel.odds) == pytest.approx((matrix[:, None] / matrix[None]).max(), rel=1e-12)
    assert channel.epsilon == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("split", ["epsilon", "rows"])
def test_the_certificate_counts_what_its_law_was_made_from(split, tmp_path):
    """The weights say what the noisy histogram said, so the release promises what both cost, as a curator's."""
    curator = Curator(LABELS, SPACE, name="y")
    found = cluster_response(curator, CLUSTERS, 1.0, split=split, share=0.4)
    guarantee = found.release.guarantee
    assert guarantee.epsilon == curator.spent[0] > 0.99
    assert guarantee.trust == "central"
    assert [draw.mechanism for draw in found.release.certificate.draws] == ["noisy-histogram", "cluster"]
    assert verify(found.release.save(tmp_path / "shared")).holds


def test_a_histogram_that_claims_less_is_noticed(tmp_path):
    """Its epsilon is recomputed from the integers of its noise, and that a curator gave it is not left out."""
    release = cluster_response(Curator(LABELS, SPACE, name="y"), CLUSTERS, 1.0).release
    histogram, response = release.certificate.draws
    cheap = dataclasses.replace(histogram, guarantee=dataclasses.replace(histogram.guarantee, epsilon=0.1))
    narrow = dataclasses.replace(histogram, law={**histogram.law, "sensitivity": "1"})
    local = dataclasses.replace(histogram, guarantee=dataclasses.replace(histogram.guarantee, trust="local"))
    for i, forged in enumerate((cheap, narrow, local)):
        certificate = dataclasses.replace(release.certificate, draws=(forged, response))
        folder = dataclasses.replace(release, certificate=certificate).save(tmp_path / str(i))
        assert not verify(folder).holds


def test_bare_distributions_are_an_assumption():
    """A response towards given distributions says that they are assumed to be public."""
    response = ClusterResponse(SPACE, 1.0, [[0.5, 0.3, 0.2]] * 3, CLUSTERS)
    certificate = Curator(LABELS, SPACE).randomize(response).certificate
    assert any("distribution of classes" in each and "cost extra" in each for each in certificate.assumptions)


def test_units_and_tiny_epsilons_are_refused_before_a_charge():
    """Also what only the second request could not do."""
    curator = Curator(LABELS, SPACE, units=np.arange(1200) // 2)
    with pytest.raises(InputError, match="units of several"):
        cluster_response(curator, CLUSTERS, 1.0)
    alone = Curator(LABELS, SPACE)
    with pytest.raises(EpsilonError):
        cluster_response(alone, CLUSTERS, 1e-11, floor=1e-9)
    assert curator.spent == alone.spent == (0.0, 0.0)


def test_very_many_rows_are_parted_in_runs(monkeypatch):
    """So that the two parts stay apart in the account."""
    monkeypatch.setattr("labeldp.release._cluster_response._MOST_RUNS", 50)
    monkeypatch.setattr("labeldp.privacy._account._MOST_RANGES", 60)
    curator = Curator(LABELS, SPACE, budget=1.0)
    found = cluster_response(curator, CLUSTERS, 1.0, split="rows", share=0.5)
    assert curator.spent == (1.0, 0.0)
    assert len(found.rows) == 600


def test_asking_whether_requests_are_allowed_changes_no_budget(tmp_path):
    """What another curator decided since then holds."""
    ledger = tmp_path / "ledger"
    first = Curator(LABELS, SPACE, budget=1.0, ledger=ledger)
    first.answer(NoisyHistogram(SPACE, 0.1))
    second = Curator(LABELS, SPACE, ledger=ledger)
    second.check([(0.2, None)], 0.2)
    Curator(LABELS, SPACE, budget=0.3, ledger=ledger).answer(NoisyHistogram(SPACE, 0.1))
    with pytest.raises(BudgetError):
        second.answer(NoisyHistogram(SPACE, 0.5))
    with pytest.raises(BudgetError):
        second.check([(0.05, None), (0.06, None)], 0.2)
