"""Rows of a release that stand for all where these would not fit in memory."""

import numpy as np
import pyarrow as pa
import pytest

from labeldp import Classes, Curator, RandomizedResponse, Release
from labeldp.audit import attacks
from labeldp.release import public_columns

ROWS, MOST, DRAWS = 50, 10, 200


def label_of(number):
    """The label of a row."""
    return ("no", "yes")[number % 3 == 0]


@pytest.fixture
def folder(tmp_path):
    """A release whose labels are nearly always true, beside a column that tells them."""
    labels = [label_of(number) for number in range(ROWS)]
    release = Curator(labels, Classes(["no", "yes"])).randomize(RandomizedResponse(Classes(["no", "yes"]), 40.0))
    return release.save(tmp_path / "o", pa.table({"id": range(ROWS)}), keep="all")


def test_some_rows_are_rows_of_the_release(folder, monkeypatch):
    """With their labels, each once and in order, read batch by batch (false alarm below 1e-14)."""
    monkeypatch.setattr("labeldp.audit.attacks._some_rows._ROWS_PER_BATCH", 7)
    seen = []
    table, release, chosen = attacks.some_rows(folder, MOST, lambda *args: seen.append(args))
    places = table["id"].to_pylist()
    assert chosen.tolist() == places
    assert places == sorted(set(places))
    assert len(places) == len(release) == MOST
    assert release.to_arrow().to_pylist() == list(map(label_of, places))
    assert table.equals(public_columns(folder).take(places))
    assert release.guarantee == Release.load(folder).guarantee
    assert seen == [("load", min(first + 7, ROWS), ROWS) for first in range(0, ROWS, 7)]


def test_every_row_is_chosen_as_often(folder):
    """The count of each row is binomial, of mean 40 and standard deviation 5.7 (false alarm below 1e-7)."""
    counts = np.zeros(ROWS, dtype=np.int64)
    for _ in range(DRAWS):
        counts[attacks.some_rows(folder, MOST)[0]["id"].to_numpy()] += 1
    assert counts.sum() == DRAWS * MOST
    assert 7 < counts.min() <= counts.max() < 80


@pytest.mark.parametrize("most", [ROWS, ROWS + 1])
def test_few_rows_are_all_taken(folder, most):
    """As they are loaded."""
    table, release, places = attacks.some_rows(folder, most)
    assert places is None
    assert table.equals(public_columns(folder))
    assert release.hash == Release.load(folder).hash
