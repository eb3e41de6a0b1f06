"""``labeldp release`` in clusters: by a trusted curator, and by peers."""

import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

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


def test_a_curator_releases_in_clusters(released, run, tmp_path):
    """As many as asked for are found in what is kept; who saw labels and how far off counts are is said."""
    ran = released(mechanism="cluster", clusters="3", epsilon=2.0)
    words = " ".join(ran.out.split())
    assert (ran.code, ran.err) == (0, "")
    assert "A trusted curator answered from all labels together: " in words
    assert "cluster: one of 2 classes, by the shares of 3 clusters" in words
    assert "released too; standard error 2.8 from noise; any one count is off by at most 6, with" in words
    assert "which row is in which cell is public" in words
    table = pq.read_table(tmp_path / "out" / "data.parquet")
    assert table.column_names == ["height", "ill_released", "ill_clusters"]
    assert len(set(zip(GROUPS.tolist(), table["ill_clusters"].to_pylist(), strict=True))) == 3
    assert run("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize("options", [{"mechanism": "cluster"}, {"mechanism": "peer", "delta": 1e-6}])
def test_clusters_are_learned_from_at_a_small_epsilon(released, run, table, tmp_path, options):
    """The model is as good as names of clusters are, 0.9; labels alone would say nothing at this epsilon.

    A cluster of 300 rows has its common class 240 times or more often; a histogram at epsilon 0.25 has noise of scale
    8, and exchanged labels of 300 rows at epsilon 0.5 a deviation of 0.06 in its share: wrong once in 1e4 runs.
    """
    assert released(clusters="town", epsilon=0.5, **options).code == 0
    learned = run("learn", tmp_path / "out", "--model", "softmax", "--output", tmp_path / "model")
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
    assert "Peers exchanged their labels before anything was released: " in " ".join(printed[0].out.split())
    assert "1e-06" in printed[2].out
    refused = run("learn", out, "--model", "convex", "--output", tmp_path / "model")
    assert (refused.code, "among softmax, boosting, found 'convex'" in refused.err) == (1, True)
