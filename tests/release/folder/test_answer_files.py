"""Answers on disk: saved whole, opened only if files, law and guarantee agree."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import labeldp as dp
from labeldp.errors import InputError, VerificationError
from labeldp.mechanisms.queries import ExchangedLabels
from labeldp.release.folder._staging import CERTIFICATE
from labeldp.release.folder._write import file_digest

SPACE, GRID = dp.Classes(["no", "yes"]), dp.Interval(0.0, 10.0, 0.5)
CELLS = np.arange(300) % 7
LABELS, NUMBERS = np.where(CELLS % 2 == 0, "no", "yes"), CELLS + 0.5
QUERIES = [
    dp.NoisyHistogram(SPACE, 1.0, CELLS, 9),
    dp.NoisyArgmax(SPACE, 1.0, CELLS, 9),
    dp.NoisyMean(GRID, 1.0, CELLS, 9),
    dp.NoisyHistogram(GRID, 0.3),
    ExchangedLabels(SPACE, dp.PeerExchange(0.1, 0.5), CELLS, 1e-4),
    dp.NoisyMean(GRID, 1.0, CELLS, 9, clip=(1.0, 5.0)),
    dp.NoisyQuantile(GRID, 1.0, 0.5, CELLS, 9),
    dp.NoisyQuantile(GRID, 1.0, 0.5, CELLS, 9, around=4.0),
]


def answered(query):
    """The answer to a query."""
    curator = dp.Curator(LABELS if query.space == SPACE else NUMBERS, query.space, name="ill")
    return curator.answer(query)


def saved(query, folder):
    """The answer to a query, in a folder."""
    return answered(query).save(folder / "shared")


def rewritten(folder, change):
    """The folder with another certificate, as if its maker had written that."""
    path = folder / CERTIFICATE
    body = json.loads(path.read_text(encoding="utf-8"))
    change(body)
    path.write_text(json.dumps(body, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    return dp.verify(folder)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_smaller_epsilon_than_the_noise_pays_for_is_found(query, tmp_path):
    """A certificate that claims half of what its integers cost is refused, though it agrees with itself."""
    answer = answered(query)
    (draw,) = answer.certificate.draws
    less = dataclasses.replace(draw.guarantee, epsilon=draw.guarantee.epsilon / 2)
    claimed = dataclasses.replace(answer.certificate, draws=(dataclasses.replace(draw, guarantee=less),))
    verdict = dp.verify(dp.Answer(answer.value, claimed).save(tmp_path / "shared"))
    assert verdict.checks[-1].what == "each epsilon follows from the integers of its mechanism"
    assert not verdict.holds


def test_the_integers_of_an_answer_decide(tmp_path):
    """Less noise in the law than the epsilon allows is found, though the certificate agrees with itself."""
    folder = saved(QUERIES[0], tmp_path)

    def louder(body):
        body["charges"][0]["law"]["rate"] = str(2 * int(body["charges"][0]["law"]["rate"]))

    verdict = rewritten(folder, louder)
    assert verdict.checks[-1].what == "each epsilon follows from the integers of its mechanism"
    assert not verdict.holds


@pytest.mark.parametrize("query", QUERIES[5:], ids=lambda query: query.name)
def test_numbers_that_no_law_gives_are_found(query, tmp_path):
    """A mean farther beyond what labels were clipped to than noise goes, and a quantile between two grid points."""
    answer = answered(query)
    value = answer.value.copy()
    value[0] = 1005.25
    verdict = dp.verify(dataclasses.replace(answer, value=value).save(tmp_path / "shared"))
    assert verdict.checks[-1].what == "every released value is a possible outcome of its mechanism"
    assert not verdict.holds


@pytest.mark.parametrize("forged", [{"sensitivity": "1"}, {"level": "1.5"}, {"level": "nan"}], ids=str)
def test_a_quantile_has_the_sensitivity_of_a_choice(forged, tmp_path):
    """A law that counts one rank for a replaced label, or has a level beyond the labels, is refused."""
    verdict = rewritten(saved(QUERIES[6], tmp_path), lambda body: body["charges"][0]["law"].update(forged))
    assert verdict.checks[-1].what == "each epsilon follows from the integers of its mechanism"
    assert not verdict.holds


def test_peers_in_clusters_of_other_sizes_are_found(tmp_path):
    """Larger clusters would promise more: the sizes are counted from the column of clusters, where it is there."""
    answer = answered(QUERIES[4])
    frame = pd.DataFrame({"ill_clusters_": CELLS})
    folder = answer.save(tmp_path / "shared", frame, keep="all")
    assert dp.verify(folder).holds
    table = pq.read_table(folder / "data.parquet")
    merged = table.set_column(0, "ill_clusters", [np.zeros(300, dtype=np.int64)])
    pq.write_table(merged, folder / "data.parquet", store_schema=False)

    def other(body):
        body["table"]["files"][0]["sha256"] = file_digest(folder / "data.parquet")
        body["table"]["columns"][0] = {"name": "ill_clusters", "type": "int64"}

    verdict = rewritten(folder, other)
    assert "clusters of the sizes" in verdict.checks[-1].found


def test_what_peers_assume_is_never_dropped(tmp_path):
    """A certificate of peers without the epsilon under collusion is refused."""
    folder = saved(QUERIES[4], tmp_path)

    def silent(body):
        body["charges"][0]["guarantee"]["assumptions"] = []
        body["guarantee"]["assumptions"] = []

    verdict = rewritten(folder, silent)
    assert verdict.checks[-1].what == "each epsilon follows from the integers of its mechanism"
    assert not verdict.holds


def test_public_columns_go_beside_the_labels_of_peers(tmp_path):
    """They have a line for each row, and rows that are not released are missing values there."""
    answer = answered(QUERIES[4])
    folder = answer.save(tmp_path / "shared", pd.DataFrame({"age": CELLS}), keep=["age"])
    table = pq.read_table(folder / "data.parquet")
    assert table.column_names == ["age", "ill_released"]
    assert table["ill_released"].null_count == np.count_nonzero(answer.value == -1) > 0
    assert dp.public_columns(folder).column_names == ["age"]


@pytest.mark.usefixtures("as_users_call")
def test_what_cannot_be_saved_leaves_nothing(tmp_path):
    """A table beside counts, one of another length, and a column with the label's name."""
    counts, peers = answered(QUERIES[0]), answered(QUERIES[4])
    with pytest.raises(InputError, match="no table with the answer"):
        counts.save(tmp_path / "one", pd.DataFrame({"age": CELLS}), keep="all")
    with pytest.raises(InputError, match="300 rows like the answer, found 299"):
        peers.save(tmp_path / "one", pd.DataFrame({"age": CELLS[1:]}), keep="all")
    with pytest.raises(InputError, match="'ill' is the label, which is released with noise alone"):
        peers.save(tmp_path / "one", pd.DataFrame({"ill": CELLS}), keep="all")
    assert not list(tmp_path.iterdir())


def test_releases_and_answers_are_not_taken_for_each_other(tmp_path):
    """Each says how the other is opened."""
    counts = saved(QUERIES[0], tmp_path)
    labels = dp.Curator(LABELS, SPACE).randomize(dp.RandomizedResponse(SPACE, 1.0)).save(tmp_path / "labels")
    with pytest.raises(VerificationError, match=r"Answer\.load"):
        dp.Release.load(counts)
    with pytest.raises(VerificationError, match=r"Release\.load"):
        dp.Answer.load(labels)


def test_a_folder_without_an_answer_names_what_makes_one(tmp_path):
    """The error names both ways."""
    with pytest.raises(
        VerificationError, match=r"no release .*; .* make one with 'labeldp release' \(in Python: save\)"
    ):
        dp.Answer.load(tmp_path / "nope")
