"""Clusters of tables on disk, by public columns alone."""

import numpy as np
import pandas as pd
import pytest

from labeldp.errors import InputError, TableError
from labeldp.learning.tables import _clusters as module
from labeldp.learning.tables import cluster_table
from labeldp.release.tables import Table

GROUPS = np.arange(400) % 4
FRAME = pd.DataFrame(
    {
        "height": GROUPS * 10.0 + np.random.default_rng(0).normal(size=400),
        "town": np.array(["a", "b", "c", "d"])[GROUPS],
        "same": 1,
        "ill": np.where(np.random.default_rng(1).random(400) < 0.5, "yes", "no"),
    }
)


def written(frame, path):
    """A table on disk."""
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path, index=False)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("columns", [["height"], ["town"], ["height", "town", "same"]])
def test_groups_in_the_columns_are_found(tmp_path, monkeypatch, name, columns):
    """Rows of one group are in one cluster, whatever the format, the batches and the columns that say so."""
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 37)
    numbers = cluster_table(written(FRAME, tmp_path / name), "ill", columns, 4)
    assert numbers.dtype == np.int32
    assert len(set(zip(GROUPS.tolist(), numbers.tolist(), strict=True))) == 4
    assert set(numbers.tolist()) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_labels_are_not_looked_at(tmp_path, monkeypatch, name):
    """Tables with other labels get the same clusters, and no reader is asked for the label column."""
    asked = []
    read = Table.batches

    def batches(table, columns, rows):
        asked.extend(columns)
        return read(table, columns, rows)

    monkeypatch.setattr(Table, "batches", batches)
    one = cluster_table(written(FRAME, tmp_path / name), "ill", ["height", "town"], 3)
    other = FRAME.assign(ill=["longer text"] * 200 + ["no"] * 200)
    two = cluster_table(written(other, tmp_path / f"other-{name}"), "ill", ["height", "town"], 3)
    assert np.array_equal(one, two)
    assert set(asked) == {"height", "town"}


def test_few_rows_are_looked_at_evenly(tmp_path, monkeypatch):
    """Of more rows than are looked at, evenly spaced ones over the whole table are, and all rows get a cluster."""
    monkeypatch.setattr(module, "_SAMPLED_ROWS", 50)
    monkeypatch.setattr(module, "_ROWS_PER_BATCH", 33)
    seen = []
    find = module.cluster
    monkeypatch.setattr(module, "cluster", lambda points, count: seen.append(points) or find(points, count))
    frame = pd.DataFrame({"place": np.arange(400.0), "ill": "no"})
    numbers = cluster_table(written(frame, tmp_path / "t.parquet"), "ill", ["place"], 4)
    assert len(numbers) == 400
    assert len(seen[0]) == 50
    assert np.ptp(np.diff(seen[0][:, 0])) == pytest.approx(0, abs=1e-9)
    assert (np.bincount(numbers) > 60).all()


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("columns", "count", "message"),
    [
        (["height", "ill"], 3, "'ill' is the label, which is released with noise alone"),
        (["same"], 3, "expected a public column"),
        (["weight"], 3, "weight"),
        (["height"], 401, "401"),
    ],
)
def test_what_gives_no_clusters_is_refused(tmp_path, columns, count, message):
    """The error says what was found."""
    with pytest.raises((InputError, TableError), match=message):
        cluster_table(written(FRAME, tmp_path / "t.parquet"), "ill", columns, count)
