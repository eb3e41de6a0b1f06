"""Tables released by a trusted curator in clusters, and by peers."""

from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

import labeldp as dp
import labeldp.release.curator._source as source_module
import labeldp.release.jobs._job as module
from labeldp._random_words import DerivedWords, SecureWords, TapeWords, _KeyedWords
from labeldp.errors import EpsilonError, LabelDPError, TableError
from labeldp.release.tables import clusters_of, open_table

SPACE = dp.Classes(["no", "yes"])
ROWS = 600
CLUSTERS = np.arange(ROWS) % 6
LABELS = np.where((CLUSTERS < 2) ^ (np.arange(ROWS) % 10 == 0), "yes", "no")
MECHANISMS = {
    "cluster": dp.ClusterMechanism,
    "peer": partial(dp.PeerMechanism, delta=1e-4),
    "shuffle": partial(dp.ShuffleMechanism, delta=1e-4),
}


@pytest.fixture(params=["t.csv", "t.parquet"])
def source(request, write_table, tmp_path):
    """A table with a column of clusters in text, one of numbers, and the label."""
    columns = {
        "age": list(range(ROWS)),
        "district": [f"d{cluster}" for cluster in CLUSTERS],
        "number": (CLUSTERS + 3).tolist(),
        "ill": LABELS.tolist(),
    }
    return write_table(tmp_path / request.param, columns)


def released(source, mechanism, epsilon=1.0, clusters="district", **options):
    """A release of the table, of age alone."""
    given = {"keep": ["age"], "mechanism": MECHANISMS[mechanism](clusters), **options}
    return dp.release_table(source, "ill", SPACE, epsilon, source.parent / "out", **given)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_clusters_are_spelled_as_they_are(write_table, tmp_path, ending):
    """Capitals, blanks and leading zeros tell clusters apart, though they may be of one person."""
    names = ["a", "A", "a ", "07", "7x", "7", "Ä", "ä"]
    path = write_table(tmp_path / f"t.{ending}", {"place": names * 3, "ill": ["no", "yes"] * 12})
    numbers = clusters_of(open_table(path, "ill"), "place", 5, lambda *_: None)
    assert sorted(numbers[:8]) == list(range(8))
    assert numbers.tolist() == numbers[:8].tolist() * 3


def rows_of(done):
    """The released rows."""
    return pq.read_table(done.output / "data.parquet").to_pylist()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_release_is_verified_and_charged(source, mechanism):
    """The charge is made once, covers what the certificate says, and fits the epsilon that was asked for."""
    done = released(source, mechanism)
    (entry,) = dp.Ledger(done.ledger).entries()
    promised = done.certificate.guarantee
    assert dp.verify(done.output).holds
    assert (entry.mechanism, entry.rows.stop) == (mechanism, ROWS)
    assert promised.epsilon <= entry.guarantee.epsilon <= 1.0
    assert promised.delta == entry.guarantee.delta
    assert promised.trust == {"cluster": "central"}.get(mechanism, mechanism)
    assert promised.epsilon > 0.95
    assert set(promised.assumptions) <= set(done.certificate.assumptions)


def test_counts_and_labels_share_the_epsilon(source):
    """The histogram is the first charge, and what it costs is in the sum."""
    done = released(source, "cluster", epsilon=2.0)
    counted, response = done.certificate.draws
    assert (counted.mechanism, response.mechanism) == ("noisy-histogram", "cluster")
    assert counted.guarantee.epsilon == pytest.approx(1.0)
    assert counted.guarantee.epsilon + response.guarantee.epsilon <= 2.0
    release = dp.Release.load(done.output)
    assert len(release) == ROWS
    assert release.guarantee.epsilon == done.certificate.guarantee.epsilon


def test_a_concentrated_budget_pays_for_both(source):
    """The one charge for counts and labels costs no less than both, also where many are counted by their rhos."""
    budget = dp.Budget(100.0, 1e-6, concentrated=True)
    done = released(source, "cluster", budget=budget)
    (entry,) = dp.Ledger(done.ledger).entries()
    both = tuple(dp.Charge(draw.guarantee, draw.rows) for draw in done.certificate.draws)
    claimed, needed = (dp.Account(budget, charges * 100).spent[0] for charges in ((entry.charge(""),), both))
    assert needed < 60  # by rhos, and not by the sum
    assert claimed >= needed


def test_labels_lean_towards_what_is_common_in_their_cluster(source):
    """At a large epsilon their distributions are the true ones, raised to the floor of a quarter."""
    done = released(source, "cluster", epsilon=20.0, clusters="number")
    channel = dp.Release.load(done.output).channel
    yes = np.array([weights[1] / sum(weights) for weights in channel.weights])
    shares = np.array([np.mean(LABELS[CLUSTERS == cluster] == "yes") for cluster in range(6)])  # noqa: SIM300
    raised = 0.25 + 0.5 * np.clip((shares - 0.25) / 0.5, 0, 1)
    assert np.allclose(yes, raised, atol=0.1)  # noise of scale 0.2 on 100 rows: beyond ten rows once in 1e20 draws


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("clusters", ["number", "array"])
def test_numbers_of_clusters_keep_their_order(source, mechanism, clusters):
    """Whole numbers in a column are numbered in their order, and given numbers are taken as they are."""
    done = released(source, mechanism, clusters=CLUSTERS if clusters == "array" else clusters)
    assert [row["ill_clusters"] for row in rows_of(done)] == CLUSTERS.tolist()


def test_peers_give_an_answer(source):
    """Released labels are those of members of the cluster, and the answer opens with what it assumes."""
    done = released(source, "peer", epsilon=5.0)
    answer = dp.Answer.load(done.output)
    assert answer.value.shape == (ROWS,)
    assert answer.guarantee.epsilon == done.certificate.guarantee.epsilon <= 5.0
    assert any("with one peer, epsilon is" in line for line in answer.certificate.assumptions)
    shares = [np.mean(answer.value[CLUSTERS == cluster]) for cluster in range(6)]  # noqa: SIM300 (an array)
    assert min(shares[:2]) > max(shares[2:])  # 100 draws of 0.8 or more against 0.2 or less: fails once in 1e10 runs


@pytest.mark.parametrize("row", [0, 7, ROWS - 1])
def test_a_label_moves_its_own_cluster_alone(source, monkeypatch, row):
    """With the same words, replacing one label changes nothing in other clusters, and no more than two counts."""
    tape = np.random.default_rng(3).integers(0, 2**64, 1 << 16, dtype=np.uint64)
    seen = []

    def values(_, counts, *__):
        seen.append(counts)
        return counts

    monkeypatch.setattr("labeldp.release.folder._run.RunKey", lambda: TapeWords(tape))
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 7)
    monkeypatch.setattr(dp.NoisyHistogram, "values", values)
    one = rows_of(released(source, "cluster"))
    for path in (*(source.parent / "out").iterdir(), *source.parent.glob("*ledger*")):
        path.unlink()
    (source.parent / "out").rmdir()
    monkeypatch.setattr(source_module, "label_codes", _other_label(source_module.label_codes, row))
    monkeypatch.setattr("labeldp.release.tables._first_pass.label_codes", source_module.label_codes)
    two = rows_of(released(source, "cluster"))
    changed = {CLUSTERS[i] for i, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]}
    assert changed <= {CLUSTERS[row]}
    assert np.abs(seen[0] - seen[1]).sum() == 2
    assert seen[0].sum() == ROWS


def _other_label(codes_of, row):
    """The codes of a table in which one label is another."""

    def codes(table, batch, space, first):
        found = codes_of(table, batch, space, first).copy()
        if first <= row < first + len(found):
            found[row - first] = 1 - found[row - first]
        return found

    return codes


def test_counts_and_labels_are_drawn_from_streams_of_their_own(source, monkeypatch):
    """A word that made noise never randomizes a label: noise has a fresh key, and labels one of the run."""
    streams, block = {}, _KeyedWords.block

    def recorded(self, start, count):
        streams[type(self)] = self._key
        return block(self, start, count)

    monkeypatch.setattr(_KeyedWords, "block", recorded)
    released(source, "cluster")
    assert set(streams) == {SecureWords, DerivedWords}
    assert len(set(streams.values())) == 2


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mechanism": dp.ClusterMechanism("ill")}, "'ill' is the label, which is released with noise alone"),
        ({"mechanism": dp.ClusterMechanism("region")}, "no cluster column 'region'"),
        ({"mechanism": dp.ClusterMechanism(CLUSTERS[1:])}, "a cluster for each of the 600 rows"),
        ({"mechanism": dp.ClusterMechanism(np.r_[CLUSTERS, 1])}, "each of the 600 rows, found 601"),
        ({"mechanism": dp.ClusterMechanism(CLUSTERS - 1)}, "numbered from 0"),
        ({"mechanism": dp.ClusterMechanism(CLUSTERS * 0.5)}, "as integers"),
        (
            {"mechanism": dp.PeerMechanism("district", 1e-6), "space": dp.Classes(["no", "yes", "perhaps"])},
            "for two classes",
        ),
        ({"mechanism": dp.PeerMechanism("district", 0.0)}, "expected delta above 0"),
    ],
)
def test_what_does_not_fit_is_refused(source, options, message):
    """Nothing is charged and nothing is left."""
    given = {"keep": ["age"], "space": SPACE, **options}
    with pytest.raises(LabelDPError, match=message):
        dp.release_table(source, "ill", epsilon=1.0, output=source.parent / "out", **given)
    assert [path.name for path in source.parent.iterdir()] == [source.name]


def test_whether_integers_suffice_does_not_depend_on_counts(write_table, tmp_path):
    """An epsilon that they express for even clusters alone is refused before anything is charged or drawn."""
    source = write_table(tmp_path / "t.parquet", {"district": ["a", "b"] * 9, "ill": list(range(18))})
    options = {"keep": [], "mechanism": dp.ClusterMechanism("district")}
    with pytest.raises(EpsilonError, match="integers of a 64-bit word"):
        dp.release_table(source, "ill", dp.Classes(range(1000)), 2e-11, tmp_path / "out", **options)
    assert not list(tmp_path.glob("*ledger"))


def test_a_missing_cluster_is_refused(write_table, tmp_path):
    """Each row is in a cluster, and the error names the column."""
    columns = {"district": ["a", None, "b"], "ill": ["no", "yes", "no"]}
    source = write_table(tmp_path / "t.parquet", columns)
    with pytest.raises(TableError, match="a cluster in every row of 'district'"):
        dp.release_table(
            source, "ill", SPACE, 1.0, tmp_path / "out", keep=[], mechanism=dp.ClusterMechanism("district")
        )


def test_labels_are_never_shown():
    """The labels that a curator holds are not in the text of the objects that hold them."""
    codes = np.array([0, 1, 1], dtype=np.int32)
    source = source_module.ArraySource(SPACE, codes, None, identified=False)
    assert [batch.codes.tolist() for batch in source.batches(slice(0, 3))] == [[0, 1, 1]]
    (batch,) = source.batches(slice(0, 3))
    for shown in (repr(source), repr(batch), str(batch)):
        assert "1" not in shown.replace("0x", "").partition(" at ")[0]
