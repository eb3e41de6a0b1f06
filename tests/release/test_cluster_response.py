"""Cluster response whole: the epsilon that was asked for, on every split, and nothing charged where it cannot be."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import labeldp as dp
import labeldp.release.curator._curator as curator_module
from labeldp.errors import BudgetError, EpsilonError, InputError, PriorError
from labeldp.privacy.channels import unpack

SPACE = dp.Classes(["a", "b", "c"])
CLUSTERS = np.repeat([0, 1, 2], 400)
LABELS = np.array(["a", "b", "c"])[np.where(np.arange(1200) % 10 < 8, CLUSTERS, (CLUSTERS + 1) % 3)]
PRINTED = dp.ClusterParameters(SPACE, tau=0.1, sigma=4.0, lam=0.8)


def test_all_of_epsilon_is_spent_and_no_more():
    """Split by epsilon: the sum of both; the response costs what its integers say."""
    curator = dp.Curator(LABELS, SPACE, budget=1.0)
    found = dp.cluster_response(curator, CLUSTERS, 1.0, share=0.3)
    assert 1 - 1e-9 < curator.spent[0] <= 1.0
    assert found.histogram.guarantee.epsilon == pytest.approx(0.3)
    assert found.release.guarantee.epsilon == curator.spent[0]
    assert (len(found.release), found.epsilon) == (1200, 1.0)
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(SPACE, 0.1))


def test_rows_that_are_counted_do_not_respond():
    """Split by rows: each label is used once, and the cost is the largest."""
    curator = dp.Curator(LABELS, SPACE, budget=1.0)
    found = dp.cluster_response(curator, CLUSTERS, 1.0, split="rows", share=0.25)
    assert curator.spent == (1.0, 0.0)
    assert (found.histogram.rows, len(found.release), len(found.rows)) == (300, 900, 900)
    assert found.histogram.value.shape == (3, 3)
    assert np.array_equal(dp.cluster_response(dp.Curator(LABELS, SPACE), CLUSTERS, 1.0, split="rows", share=0.25).rows,
                          found.rows)  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_each_cluster_spends_all_of_epsilon(epsilon):
    """The exact cost of a cluster is the ratio at its least likely class, and the paper's formula for it."""
    distributions = np.array([[0.9, 0.05, 0.05], [0.2, 0.3, 0.5]])
    channel = dp.ClusterResponse(SPACE, epsilon, distributions, [0, 1], floor=1 / 6).channel()
    for keep, weights in zip(channel.keep, channel.weights, strict=True):
        ratio = 1 + Fraction(keep, min(weights))
        assert epsilon - 1e-9 < math.log(ratio) <= epsilon + 1e-12
        drawn = sum(weights) / 2**64
        least = min(weights) / sum(weights)
        assert math.log(1 + (1 - drawn) / (drawn * least)) == pytest.approx(epsilon, rel=1e-9)


BAD = {
    "epsilon": (lambda c: dp.cluster_response(c, CLUSTERS, 0.0), "epsilon", EpsilonError),
    "clusters of other rows": (lambda c: dp.cluster_response(c, CLUSTERS[:5], 1.0), "each of the 1200 rows"),
    "missing clusters": (lambda c: dp.cluster_response(c, np.full(1200, np.nan), 1.0), "as integers"),
    "negative clusters": (lambda c: dp.cluster_response(c, CLUSTERS - 1, 1.0), "numbered from 0"),
    "share": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, share=1.5), "between 0 and 1"),
    "no share": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, share=0.0), "takes 1 too, with split='epsilon'"),
    "all rows": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, share=1, split="rows"), "between 0 and 1"),
    "no clusters": (lambda c: dp.cluster_response(c, [], 1.0), "as integers"),
    "unknown clusters": (lambda c: dp.cluster_response(c, [None] * 1200, 1.0), "as integers"),
    "masked clusters": (
        lambda c: dp.cluster_response(c, np.ma.masked_array(CLUSTERS, mask=CLUSTERS == 1), 1.0),
        "found masked rows",
    ),
    "neither": (lambda c: dp.cluster_response(c, CLUSTERS), "found neither"),
    "both": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, parameters=PRINTED), "parameters alone"),
    "floor and tau": (lambda c: dp.cluster_response(c, CLUSTERS, parameters=PRINTED, floor=0.1), "parameters alone"),
    "share and sigma": (lambda c: dp.cluster_response(c, CLUSTERS, parameters=PRINTED, share=0.2), "parameters alone"),
    "parameters of others": (
        lambda c: dp.cluster_response(c, CLUSTERS, parameters=dp.ClusterParameters(dp.Classes([0, 1]), 0.1, 1.0, 0.5)),
        "another",
    ),
    "rows with lambda 1": (
        lambda c: dp.cluster_response(c, CLUSTERS, parameters=dp.ClusterParameters(SPACE, 0, 1.0, 1), split="rows"),
        "lam below 1",
    ),
    "budget of parameters": (
        lambda c: dp.cluster_response(c, CLUSTERS, parameters=dp.ClusterParameters(SPACE, 0.1, 2.0, 0.8)),
        "budget exceeded",
        BudgetError,
    ),
    "prior without labels": (lambda c: dp.cluster_prior_response(c, CLUSTERS, 1.0, share=1.0), "below 1"),
    "prior's split": (lambda c: dp.cluster_prior_response(c, CLUSTERS, 1.0, split="x"), "'epsilon' or 'rows'"),
    "prior's clusters": (lambda c: dp.cluster_prior_response(c, CLUSTERS - 1, 1.0), "numbered from 0"),
    "prior's epsilon": (lambda c: dp.cluster_prior_response(c, CLUSTERS, math.nan), "epsilon", EpsilonError),
    "prior's budget": (lambda c: dp.cluster_prior_response(c, CLUSTERS, 2.5), "budget exceeded", BudgetError),
    "split": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, split="columns"), "'epsilon' or 'rows'"),
    "floor": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, floor=0.5), "at most 1/k"),
    "negative floor": (lambda c: dp.cluster_response(c, CLUSTERS, 1.0, floor=-0.1), "above 0"),
    "budget": (lambda c: dp.cluster_response(c, CLUSTERS, 2.5), "budget exceeded", BudgetError),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_done_costs_nothing(case):
    """The refusal comes before the first charge, also where only the second request would fail."""
    ask, message, error = (*BAD[case], InputError)[:3]
    curator = dp.Curator(LABELS, SPACE, budget=2.0)
    with pytest.raises(error, match=message):
        ask(curator)
    assert curator.spent == (0.0, 0.0)


@pytest.mark.usefixtures("as_users_call")
def test_distributions_are_checked():
    """One for each cluster, each summing to one."""
    with pytest.raises(PriorError, match="a distribution for each cluster"):
        dp.ClusterResponse(SPACE, 1.0, [[0.2, 0.3, 0.5]], [0, 1])
    with pytest.raises(PriorError, match="sum to 1"):
        dp.ClusterResponse(SPACE, 1.0, [[0.2, 0.3, 0.6]], [0, 0])


def test_the_cost_of_an_uneven_cluster_is_that_of_its_rarest_class():
    """One cluster alone: its odds are the largest ratio in its law."""
    channel = dp.ClusterResponse(SPACE, 1.0, [[0.9, 0.08, 0.02]], [0], floor=1 / 6).channel()
    matrix = channel.matrix()
    assert float(channel.odds) == pytest.approx((matrix[:, None] / matrix[None]).max(), rel=1e-12)
    assert channel.epsilon == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("split", ["epsilon", "rows"])
def test_the_certificate_counts_what_its_law_was_made_from(split, tmp_path):
    """The weights say what the noisy histogram said, so the release promises what both cost, as a curator's."""
    curator = dp.Curator(LABELS, SPACE, name="y")
    found = dp.cluster_response(curator, CLUSTERS, 1.0, split=split, share=0.4)
    guarantee = found.release.guarantee
    assert guarantee.epsilon == curator.spent[0] > 0.99
    assert guarantee.trust == "central"
    assert [draw.mechanism for draw in found.release.certificate.draws] == ["noisy-histogram", "cluster"]
    assert dp.verify(found.release.save(tmp_path / "shared")).holds


def test_a_histogram_that_claims_less_is_noticed(tmp_path):
    """Its epsilon is recomputed from the integers of its noise, and that a curator gave it is not left out."""
    release = dp.cluster_response(dp.Curator(LABELS, SPACE, name="y"), CLUSTERS, 1.0).release
    histogram, response = release.certificate.draws
    cheap = dataclasses.replace(histogram, guarantee=dataclasses.replace(histogram.guarantee, epsilon=0.1))
    narrow = dataclasses.replace(histogram, law={**histogram.law, "sensitivity": "1"})
    local = dataclasses.replace(histogram, guarantee=dataclasses.replace(histogram.guarantee, trust="local"))
    for i, forged in enumerate((cheap, narrow, local)):
        certificate = dataclasses.replace(release.certificate, draws=(forged, response))
        folder = dataclasses.replace(release, certificate=certificate).save(tmp_path / str(i))
        assert not dp.verify(folder).holds


def test_bare_distributions_are_an_assumption():
    """A response towards given distributions says that they are assumed to be public."""
    response = dp.ClusterResponse(SPACE, 1.0, [[0.5, 0.3, 0.2]] * 3, CLUSTERS)
    certificate = dp.Curator(LABELS, SPACE).randomize(response).certificate
    assert any("distribution of classes" in each and "cost extra" in each for each in certificate.assumptions)


def test_units_and_tiny_epsilons_are_refused_before_a_charge():
    """Also what only the second request could not do."""
    curator = dp.Curator(LABELS, SPACE, units=np.arange(1200) // 2)
    with pytest.raises(InputError, match="units of several"):
        dp.cluster_response(curator, CLUSTERS, 1.0)
    alone = dp.Curator(LABELS, SPACE)
    with pytest.raises(EpsilonError):
        dp.cluster_response(alone, CLUSTERS, 1e-11, floor=1e-9)
    assert curator.spent == alone.spent == (0.0, 0.0)


def test_asking_whether_requests_are_allowed_changes_no_budget(tmp_path):
    """What another curator decided since then holds."""
    ledger = tmp_path / "ledger"
    first = dp.Curator(LABELS, SPACE, budget=1.0, ledger=ledger)
    first.answer(dp.NoisyHistogram(SPACE, 0.1))
    second = dp.Curator(LABELS, SPACE, ledger=ledger)
    second.check([(0.2, None)], 0.2)
    dp.Curator(LABELS, SPACE, budget=0.3, ledger=ledger).answer(dp.NoisyHistogram(SPACE, 0.1))
    with pytest.raises(BudgetError):
        second.answer(dp.NoisyHistogram(SPACE, 0.5))
    with pytest.raises(BudgetError):
        second.check([(0.05, None), (0.06, None)], 0.2)


@pytest.mark.parametrize("split", ["epsilon", "rows"])
def test_the_papers_parameters_are_charged_what_they_truly_cost(split, tmp_path):
    """The noise twice over sigma, the response at its worst cluster: known before, and whatever the noise said."""
    curator = dp.Curator(LABELS, SPACE, name="y")
    found = dp.cluster_response(curator, CLUSTERS, parameters=PRINTED, split=split)
    noise, response = PRINTED.histogram_epsilon, math.log1p(0.2 / (0.8 * 0.1))
    assert noise == 0.5
    assert PRINTED.response_epsilon == pytest.approx(response, rel=1e-12)
    assert found.epsilon == pytest.approx(noise + response if split == "epsilon" else response, rel=1e-12)
    assert curator.spent[0] == found.release.guarantee.epsilon == found.epsilon
    assert [draw.guarantee.epsilon for draw in found.release.certificate.draws] == [noise, PRINTED.response_epsilon]
    assert found.histogram.law["rate"] == str(2**40 // 4)
    *costs, worst = found.release.channel.epsilons
    least = found.distributions.min(axis=1)
    assert costs == pytest.approx(np.log1p(0.2 / (0.8 * least)), rel=1e-9)
    assert max(costs) <= worst == PRINTED.response_epsilon
    assert dp.verify(found.release.save(tmp_path / "shared")).holds


@pytest.mark.parametrize("way", ["share", "lambda"])
def test_with_lambda_one_all_of_epsilon_is_for_the_distributions(way):
    """No label responds, nothing but the histogram is charged, and its distributions are what is given."""
    curator = dp.Curator(LABELS, SPACE, budget=0.5)
    if way == "share":
        found = dp.cluster_response(curator, CLUSTERS, 0.5, share=1)
    else:
        found = dp.cluster_response(curator, CLUSTERS, parameters=dp.ClusterParameters(SPACE, 0, 4.0, 1.0))
    assert found.release is None
    assert (len(found.rows), found.epsilon, curator.spent) == (0, 0.5, (0.5, 0.0))
    assert found.histogram.guarantee.epsilon == 0.5
    assert found.distributions.argmax(axis=1).tolist() == [0, 1, 2]
    assert found.distributions == pytest.approx(np.full((3, 3), 0.0) + found.histogram.distributions(), abs=0.05)


@pytest.mark.parametrize("split", ["epsilon", "rows"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_a_prior_of_clusters_is_paid_for_once(split, epsilon, tmp_path):
    """Both charges are in the certificate, as a sum on the same rows and the larger on different ones."""
    curator = dp.Curator(LABELS, SPACE, budget=epsilon, name="y")
    found = dp.cluster_prior_response(curator, CLUSTERS, epsilon, split=split, share=0.25)
    histogram, response = found.release.certificate.draws
    assert [histogram.mechanism, response.mechanism] == ["noisy-histogram", dp.PriorResponse.name]
    costs = histogram.guarantee.epsilon, response.guarantee.epsilon
    both = sum(costs) if split == "epsilon" else max(costs)
    assert epsilon * (1 - 1e-9) < curator.spent[0] <= epsilon
    assert both == pytest.approx(curator.spent[0], rel=1e-15)
    assert costs[0] == pytest.approx(epsilon / 4 if split == "epsilon" else epsilon, rel=1e-9)
    assert (found.histogram.rows, len(found.release)) == ((1200, 1200) if split == "epsilon" else (300, 900))
    assert found.release.guarantee.trust == "central"
    assert dp.verify(found.release.save(tmp_path / "shared")).holds
    with pytest.raises(BudgetError):
        curator.randomize(dp.RandomizedResponse(SPACE, 0.1))


def test_the_candidates_are_those_that_the_noisy_counts_give():
    """Each row has the candidates of RRWithPrior for its cluster's distribution, and of nothing else."""
    found = dp.cluster_prior_response(dp.Curator(LABELS, SPACE), CLUSTERS, 1.0, split="rows")
    again = dp.PriorResponse(SPACE, 1.0, found.distributions[CLUSTERS[found.rows]]).channel()
    assert np.array_equal(found.release.channel.candidates, again.candidates)
    held = unpack(again.candidates, 3)
    assert all(len(np.unique(held[CLUSTERS[found.rows] == cluster], axis=0)) == 1 for cluster in range(3))


def test_a_prior_that_was_paid_for_says_so():
    """What a curator is told to believe of another prior is not said of this one, and the other way round."""
    paid = dp.cluster_prior_response(dp.Curator(LABELS, SPACE), CLUSTERS, 1.0).release.certificate.assumptions
    declared = dp.Curator(LABELS, SPACE).randomize(dp.PriorResponse(SPACE, 1.0, np.full((1200, 3), 1 / 3))).certificate
    assert any(
        "the prior of each row was computed from the noisy counts that are charged here" in each for each in paid
    )
    assert not any("cost extra" in each for each in paid)
    assert any("cost extra" in each for each in declared.assumptions)
    response = dp.cluster_response(dp.Curator(LABELS, SPACE), CLUSTERS, 1.0).release.certificate.assumptions
    assert any("in each cluster was computed from the noisy counts that are charged here" in each for each in response)
    assert not any("cost extra" in each for each in response)


@pytest.mark.parametrize(("rows", "clusters", "epsilon"), [(50_000, 100, 0.05), (50_000, 50, 0.025)])
def test_the_default_share_is_that_of_the_paper(rows, clusters, epsilon):
    """Ghazi et al., section B: 0.05 for 100 clusters of 50 000 rows, 0.025 for 50 of them; but a tenth at least."""
    labels, numbers = np.resize(np.array(["a", "b", "c"]), rows), np.arange(rows) % clusters
    for total, counted in ((0.2, epsilon), (1.0, 0.1), (4.0, 0.4)):
        found = dp.cluster_prior_response(dp.Curator(labels, SPACE), numbers, total)
        assert found.histogram.guarantee.epsilon == pytest.approx(counted, rel=1e-9)


def test_few_rows_give_half_to_the_prior_and_no_more():
    """Where no share makes a good prior, the response still has the other half."""
    found = dp.cluster_prior_response(dp.Curator(LABELS, SPACE), np.arange(1200) // 2, 1.0)
    assert found.histogram.guarantee.epsilon == pytest.approx(0.5, rel=1e-9)
    assert dp.cluster_prior_response(dp.Curator(LABELS, SPACE), CLUSTERS, 4.0, split="rows").histogram.rows == 120
    assert dp.cluster_prior_response(dp.Curator(LABELS, SPACE), CLUSTERS, 0.25, split="rows").histogram.rows == 300


def test_an_account_takes_a_law_made_from_an_answer_for_no_fixed_one(tmp_path):
    """A prior that was drawn is not known beforehand, so that its response counts as the worst of its epsilon."""
    paths = []
    for i in range(2):
        found = dp.cluster_prior_response(dp.Curator(LABELS, SPACE, name="y"), np.zeros(1200, dtype=int), 2.0)
        assert found.release.channel.sizes.tolist() == [3] * 1200
        paths.append(found.release.save(tmp_path / str(i)))
    (account,) = dp.combined_guarantee(paths, one_table=True)
    assert all(loss.least == 1 / (1 + loss.odds) for loss in account.composition.losses)


def test_empty_and_single_clusters_are_allowed():
    """A cluster without counted rows has an even distribution, and one of a single row what the noise says."""
    clusters = np.where(CLUSTERS == 1, 5, CLUSTERS)
    clusters[0] = 3
    for parameters, epsilon in ((None, 1.0), (PRINTED, None)):
        found = dp.cluster_response(dp.Curator(LABELS, SPACE), clusters, epsilon, parameters=parameters)
        assert found.distributions.shape == (6, 3)
        assert np.array_equal(found.distributions[[1, 4]], np.full((2, 3), 1 / 3))
        assert found.distributions.sum(axis=1) == pytest.approx(1.0)
        assert len(found.release) == 1200
    found = dp.cluster_prior_response(dp.Curator(LABELS, SPACE), clusters, 1.0)
    assert found.release.channel.sizes[0] in (1, 2, 3)


def test_two_rows_are_the_fewest_that_can_be_parted():
    """One is counted and the other responds; a single one is refused before a charge."""
    found = dp.cluster_response(dp.Curator(["a", "b"], SPACE), [0, 0], 1.0, split="rows")
    assert (found.histogram.rows, len(found.release)) == (1, 1)
    alone = dp.Curator(["a"], SPACE)
    for ask in (dp.cluster_response, dp.cluster_prior_response):
        with pytest.raises(InputError, match="at least two rows"):
            ask(alone, [0], 1.0, split="rows")
    assert alone.spent == (0.0, 0.0)
    assert len(dp.cluster_response(alone, [0], 1.0).release) == 1


TWINS = {
    "response": lambda c: dp.cluster_response(c, CLUSTERS, 1.0),
    "rows": lambda c: dp.cluster_response(c, CLUSTERS, 1.0, split="rows"),
    "paper": lambda c: dp.cluster_response(c, CLUSTERS, parameters=PRINTED),
    "prior": lambda c: dp.cluster_prior_response(c, CLUSTERS, 1.0),
    "prior rows": lambda c: dp.cluster_prior_response(c, CLUSTERS, 1.0, split="rows"),
}


@pytest.mark.parametrize("case", TWINS)
def test_nothing_but_the_draws_depends_on_a_label(case, monkeypatch, tmp_path):
    """With noise and draws made constant, tables that differ in one label leave the same bytes and charges."""
    constant = np.array([[300, 60, 40], [40, 300, 60], [60, 40, 300]])
    monkeypatch.setattr(dp.NoisyHistogram, "values", lambda *_: constant)
    monkeypatch.setattr(
        "labeldp.release.curator._drawing.draw", lambda _, codes, *__: np.zeros(codes.size, dtype=np.int32)
    )
    monkeypatch.setattr(curator_module, "identifier", lambda: "ab" * 16)
    left = []
    for row in (None, 0, 599, 1199):
        labels = LABELS.copy()
        if row is not None:
            labels[row] = "c" if labels[row] != "c" else "a"
        curator = dp.Curator(labels, SPACE, name="y")
        folder = TWINS[case](curator).release.save(tmp_path / str(row))
        left.append(({path.name: path.read_bytes() for path in folder.iterdir()}, curator.spent))
    assert all(one == left[0] for one in left)
