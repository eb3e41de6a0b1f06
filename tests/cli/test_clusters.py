"""``labeldp release`` in clusters: by a trusted curator, and by peers."""

import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from labeldp import Answer, Ledger, Release
from labeldp.learning.cells import suggested_count

GROUPS = np.arange(900) % 3


@pytest.fixture
def table(tmp_path):
    """A table whose groups can be found in a column, and are named in another."""
    height = GROUPS * 10.0 + np.random.default_rng(0).normal(size=900)
    ill = np.where((GROUPS == 0) ^ (np.arange(900) % 10 == 0), "yes", "no")
    frame = pd.DataFrame({"height": height, "town": np.array(["a", "b", "c"])[GROUPS], "ill": ill})
    frame.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


@pytest.fixture
def released(release, table, tmp_path):
    """Release that table."""

    def releasing(**options):
        given = {"label": "ill", "classes": "no,yes", "keep": "height", **options}
        return release(table, tmp_path / "out", **given)

    return releasing


@pytest.mark.parametrize("clusters", ["town", "3"])
def test_a_curator_releases_in_clusters(released, run, tmp_path, clusters):
    """Those of a column, and as many as asked for, found in what is kept; the release is verified and learned from."""
    ran = released(mechanism="cluster", clusters=clusters, epsilon=2.0)
    assert (ran.code, ran.err) == (0, "")
    assert "\nA trusted curator answered from all labels together: " in ran.out
    assert "cluster: one of 2 classes, by the shares of 3 clusters" in ran.out
    assert (
        "noisy-histogram released too; standard error 2.8 from noise; any one count is off by at most 6, with"
        in " ".join(ran.out.split())
    )
    assert "which row is in which cell is public" in " ".join(ran.out.split())
    table = pq.read_table(tmp_path / "out" / "data.parquet")
    assert table.column_names == ["height", "ill_released", "ill_clusters"]
    assert len(set(zip(GROUPS.tolist(), table["ill_clusters"].to_pylist(), strict=True))) == 3
    assert run("verify", tmp_path / "out").code == 0
    assert Release.load(tmp_path / "out").guarantee.trust == "central"
    learned = run("learn", tmp_path / "out", "--output", tmp_path / "model")
    assert (learned.code, learned.err) == (0, "")
    assert "method clusters" in learned.out
    convex = run("learn", tmp_path / "out", "--model", "convex", "--output", tmp_path / "convex")
    assert (convex.code, convex.err) == (0, "")
    assert "method unbiased" in convex.out


def test_peers_release_in_clusters(released, run, tmp_path):
    """The epsilon asked for at the delta given, and what holds against a peer, are printed."""
    ran = released(mechanism="peer", clusters="town", delta=1e-6)
    assert (ran.code, ran.err) == (0, "")
    assert "\nPeers exchanged their labels before anything was released: " in ran.out
    words = " ".join(ran.out.split())
    assert "against the learner with one peer, epsilon is" in words
    answer = Answer.load(tmp_path / "out")
    assert 0.99 < answer.guarantee.epsilon <= 1.0
    assert answer.guarantee.delta == 1e-6
    verdict = run("verify", tmp_path / "out")
    assert verdict.code == 0
    assert "against the learner with one peer, epsilon is" in " ".join(verdict.out.split())
    refused = run("learn", tmp_path / "out", "--model", "convex", "--output", tmp_path / "model")
    assert refused.code == 1
    assert "among softmax, boosting, found 'convex'" in refused.err
    (entry,) = Ledger(next(tmp_path.glob("*ledger"))).entries()
    assert entry.guarantee.delta == 1e-6
    account = run("account", tmp_path / "out")
    assert account.code == 0
    assert "1e-06" in account.out


@pytest.mark.parametrize("model", ["softmax", "boosting"])
@pytest.mark.parametrize("options", [{"mechanism": "cluster"}, {"mechanism": "peer", "delta": 1e-6}])
def test_clusters_are_learned_from_at_a_small_epsilon(released, run, table, tmp_path, model, options):
    """The model is as good as names of clusters are, 0.9; labels alone would say nothing at this epsilon.

    A cluster of 300 rows has its common class 240 times or more often; a histogram at epsilon 0.25 has noise of scale
    8, and exchanged labels of 300 rows at epsilon 0.5 a deviation of 0.06 in its share: wrong once in 1e4 runs.
    """
    assert released(clusters="town", epsilon=0.5, **options).code == 0
    learned = run("learn", tmp_path / "out", "--model", model, "--output", tmp_path / "model")
    assert (learned.code, learned.err) == (0, "")
    assert ("Exchanged labels cannot show" in " ".join(learned.out.split())) == (options["mechanism"] == "peer")
    judged = run("evaluate", tmp_path / "model", table, "--label", "ill", "--labels-are-public")
    assert judged.code == 0
    (share,) = re.findall(r" accuracy +│ ([0-9.]+)%", judged.out)
    assert 88 < float(share) < 92


def test_so_many_clusters_as_go_with_the_rows_and_epsilon(released, tmp_path):
    """With 'auto' their number is that of ``suggested_count``."""
    assert released(mechanism="cluster", clusters="auto").code == 0
    found = pq.read_table(tmp_path / "out" / "data.parquet")["ill_clusters"].to_pylist()
    assert len(set(found)) == suggested_count(900, 2, 1.0) > 2


def test_what_peers_exchanged_is_learned_from_in_one_way(released, run, tmp_path):
    """Another method is refused, and names itself."""
    released(mechanism="peer", clusters="town", delta=1e-6)
    ran = run("learn", tmp_path / "out", "--method", "plain", "--output", tmp_path / "model")
    assert ran.code != 0
    assert "found 'plain'" in ran.err
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(("clusters", "message"), [("901", "901"), ("0", "found 0")])
def test_what_does_not_fit_is_refused(released, tmp_path, clusters, message):
    """With one line that says what was found; nothing is charged or left."""
    ran = released(mechanism="cluster", clusters=clusters)
    assert ran.code != 0
    assert message in " ".join(ran.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


def test_a_delta_that_could_publish_somebody_is_warned_of(released):
    """One row in a hundred published as it is would be within it, and the command says so."""
    ran = released(mechanism="peer", clusters="town", delta=0.01)
    assert "warning: expected delta below 1/300" in ran.err


def test_what_peers_assume_is_said_wherever_their_epsilon_is(released, run, table, tmp_path):
    """No command gives the epsilon of peers without the epsilons that hold where they tell more."""
    printed = [released(mechanism="peer", clusters="town", delta=1e-6)]
    ledger = table.with_name(f"{table.name}.labeldp-ledger")
    out = tmp_path / "out"
    asked = (("verify", out), ("account", out), ("account", out / "_certificate.json"), ("account", ledger))
    printed += [run(*words) for words in (*asked, ("ledger", ledger))]
    for ran in printed:
        words = " ".join(ran.out.split())
        assert ran.code == 0
        assert "no peer colludes with the learner: against the learner with one peer, epsilon is" in words
        assert "nobody sees who asked whom: against whoever does" in words
        assert "someone knows, replacing" not in words
